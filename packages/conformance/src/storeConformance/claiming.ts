// Conformance: which worker gets which run, and for how long.
// Owns: tests of `claim` and `renew`: order, filters, leases, recovery, cached history, concurrent claimers; and of the clock.
// Invariants tested: W1, W2, W3, V2, D4, D7, D9, W5.

import assert from "node:assert/strict";
import { heldOf, idsOf, LEASE, payload, range, runIds, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function claiming({ test }: Suite): void {
  test("W3 a claim leases the run: epoch, worker, the time the lease ends", async (bench) => {
    await bench.created("a");
    bench.time += 5;
    const { run, recovered, turns, attempts, inbox } = await bench.claimRun("a");
    same([run.status, run.epoch, run.workerId, run.availableAt, run.startedAt], ["running", 1, "w1", START + 5 + LEASE, START + 5]);
    same([recovered, turns, attempts, inbox], [false, [], [], []]);
    same(await bench.row("a"), run);
    same(runIds(await bench.claim({ queue: "queue of a" })), []);
  });
  test("W3 startedAt is the time of the first claim", async (bench) => {
    await bench.park(await bench.running("a"), { wakeAt: START });
    bench.time += 100;
    assert.equal((await bench.claimRun("a")).run.startedAt, START);
  });
  test("W2 claims go by priority, then by the time runs became available, then by arrival", async (bench) => {
    const order = [
      ["late", { priority: 0, startAt: START + 30 }],
      ["first", { priority: 0, startAt: START + 10 }],
      ["urgent", { priority: 5, startAt: START + 40 }],
      ["second", { priority: 0, startAt: START + 10 }],
      ["idle", { priority: -1, startAt: START + 1 }],
    ] as const;
    for (const [id, options] of order) await bench.created(id, { queue: "q", ...options });
    bench.time = START + 100;
    const expected = ["urgent", "first", "second", "late", "idle"];
    const seen: string[] = [];
    for (const limit of [1, 2, 1, 1]) seen.push(...runIds(await bench.claim({ queue: "q", limit })));
    same(seen, expected);
  });
  test("W2 one batch is in the same order", async (bench) => {
    for (const [id, priority] of [["b", 0], ["a", 2], ["c", 0]] as const) await bench.created(id, { queue: "q", priority }); // biome-ignore format: pairs
    same(runIds(await bench.claim({ queue: "q" })), ["a", "b", "c"]);
  });
  test("W2 a run that waited is not starved by new ones", async (bench) => {
    await bench.parked("old", { queue: "q" });
    bench.time += 10;
    await bench.sent("old", signal("s1"));
    bench.time += 10;
    for (const i of range(5)) await bench.created(`new${i}`, { queue: "q" });
    same(runIds(await bench.claim({ queue: "q", limit: 1 })), ["old"]);
  });
  test("W2 an expired lease is not starved by new runs", async (bench) => {
    await bench.running("old", { queue: "q" });
    bench.time += LEASE + 10;
    for (const i of range(5)) await bench.created(`new${i}`, { queue: "q" });
    same(runIds(await bench.claim({ queue: "q", limit: 1 })), ["old"]);
  });
  test("W1 a claim takes no more than its limit, and only from its queue", async (bench) => {
    for (const i of range(5)) await bench.created(`r${i}`, { queue: i === 4 ? "other" : "q" });
    assert.equal((await bench.claim({ queue: "q", limit: 3 })).runs.length, 3);
    same(runIds(await bench.claim({ queue: "q", limit: 3 })), ["r3"]);
    same(runIds(await bench.claim({ queue: "other" })), ["r4"]);
  });
  test("V2 a claim takes only workflows and versions that are served", async (bench) => {
    const runs = [["a", "order", undefined], ["b", "order", "1"], ["c", "order", "2"], ["d", "ship", undefined], ["e", "ship", "1"], ["f", "bill", "1"]] as const; // biome-ignore format: triples
    for (const [id, workflow, version] of runs) await bench.created(id, { workflow, version, queue: "q" });
    const claim = async (...serves: { workflow: string; versions: "*" | (string | undefined)[] }[]) =>
      runIds(await bench.claim({ queue: "q", serves }));
    same(await claim(), []);
    same(await claim({ workflow: "unknown", versions: "*" }), []);
    same(await claim({ workflow: "order", versions: ["2", "3"] }), ["c"]);
    same(await claim({ workflow: "order", versions: [undefined] }), ["a"]);
    same(await claim({ workflow: "ship", versions: ["1", undefined] }, { workflow: "bill", versions: ["2"] }), ["d", "e"]);
    same(await claim({ workflow: "order", versions: "*" }, { workflow: "bill", versions: "*" }), ["b", "f"]);
  });
  test("V2 a run that continues in another version is claimed for that one alone", async (bench) => {
    const held = await bench.running("a", { version: "v1" });
    bench.time += LEASE; // late, and just when its lease would have brought it back
    await bench.close(held, { status: "continued", next: { input: payload(2), version: "v2", seed: "2", carried: [] } });
    const claim = (version: string) => bench.claim({ queue: "queue of a", serves: [{ workflow: "order", versions: [version] }] });
    same(runIds(await claim("v1")), []);
    same(runIds(await claim("v2")), ["a"]);
  });
  test("W1 an empty claim says when the next run is due", async (bench) => {
    same((await bench.claim({ queue: "q" })).nextAt, undefined);
    await bench.created("a", { queue: "q", delay: 300 });
    await bench.created("b", { queue: "q", delay: 200, version: "v1" });
    await bench.created("e", { queue: "q", delay: 250, version: "v2" });
    await bench.created("c", { queue: "other", delay: 100 });
    await bench.created("d", { queue: "q", workflow: "ship", delay: 50 });
    const { now, runs, nextAt } = await bench.claim({ queue: "q" });
    same([now, runs, nextAt], [START, [], START + 200]);
  });
  test("W1 a run that only a message can wake is not due", async (bench) => {
    await bench.parked("a");
    same((await bench.claim({ queue: "queue of a" })).nextAt, undefined);
    bench.time += 1_000 * LEASE;
    same(runIds(await bench.claim({ queue: "queue of a" })), []);
  });
  test("W3 many claimers at the same time: every run is claimed exactly once", async (bench) => {
    const ids = range(100).map((i) => `r${i}`);
    await bench.store.create(ids.map((id) => bench.newRun(id, { queue: "q" })));
    const claims = await Promise.all(range(30).map((i) => bench.claim({ queue: "q", workerId: `w${i}`, limit: 7 })));
    const rest = await bench.claim({ queue: "q", workerId: "last" });
    const claimed = [...claims, rest].flatMap(({ runs }) => runs.map(({ run }) => run));
    same(claimed.map(({ id }) => id).sort(), ids.toSorted());
    for (const run of claimed) {
      assert.equal(run.epoch, 1);
      assert.equal((await bench.row(run.id)).workerId, run.workerId);
    }
  });
  test("W3 claimers and creators at the same time: nothing is claimed twice, nothing is forgotten", async (bench) => {
    const work = range(20).flatMap((i) => [
      bench.create(`r${i}`, { queue: "q" }),
      bench.claim({ queue: "q", workerId: `w${i}`, limit: 3 }),
    ]);
    const claims = (await Promise.all(work)).flatMap((result) => ("runs" in result ? runIds(result) : []));
    const rest = runIds(await bench.claim({ queue: "q" }));
    same([...claims, ...rest].sort(), range(20).map((i) => `r${i}`).sort()); // biome-ignore format: one line
  });

  // ── leases ──

  test("W3 a lease that ran out is claimed by another, under the next epoch, and what it is says so", async (bench) => {
    const first = await bench.running("a");
    bench.time += LEASE - 1;
    same(runIds(await bench.claim({ queue: "queue of a", workerId: "w2" })), []);
    bench.time += 1;
    const { run, recovered } = await bench.claimRun("a", { workerId: "w2" });
    same([recovered, run.epoch, run.workerId, run.recoveries], [true, first.epoch + 1, "w2", 1]);
    assert.equal((await bench.tryCommit(first, {})).status, "stale");
  });
  test("W3 a run that was parked is not recovered when it is claimed", async (bench) => {
    await bench.parked("a");
    await bench.sent("a", signal("s1"));
    const { run, recovered } = await bench.claimRun("a", { workerId: "w2" });
    same([recovered, run.recoveries], [false, 0]);
  });
  test("W3 renewing moves the end of the lease", async (bench) => {
    const held = await bench.running("a");
    bench.time += LEASE - 1;
    same(await bench.store.renew("w1", LEASE, [held].map(({ runId, epoch }) => ({ runId, epoch, seen: 0 }))), [{ held: true, inbox: [] }]); // biome-ignore format: one line
    assert.equal((await bench.row("a")).availableAt, bench.time + LEASE);
    bench.time += LEASE - 1;
    same(runIds(await bench.claim({ queue: "queue of a", workerId: "w2" })), []);
  });
  test("W3 after the clock was set back renewing ends the lease by the new time: who dies then is replaced", async (bench) => {
    const { runId, epoch } = await bench.running("a");
    bench.time -= 100 * LEASE;
    same(await bench.store.renew("w1", LEASE, [{ runId, epoch, seen: 0 }]), [{ held: true, inbox: [] }]);
    assert.equal((await bench.row("a")).availableAt, bench.time + LEASE);
    bench.time += LEASE;
    same(runIds(await bench.claim({ queue: "queue of a", workerId: "w2" })), ["a"]);
  });
  test("W3 after the clock was set back a dead worker's runs are claimed after a lease, not after the old time has come round", async (bench) => {
    await bench.created("new");
    await bench.store.expire();
    const { runId, epoch } = await bench.running("a");
    const commit = bench.draft({ runId: "b", execution: 1, epoch: 1, workerId: "w1", turns: 0 });
    await bench.create("b", { first: { workerId: "w1", lease: LEASE, commit } });
    await bench.running("alive");
    bench.time -= 100 * LEASE;
    await bench.store.expire();
    same([await bench.isClaimable("a"), await bench.isClaimable("b")], [false, false]);
    bench.time += LEASE / 2;
    const { epoch: kept } = await bench.row("alive");
    same(await bench.store.renew("w1", LEASE, [{ runId: "alive", epoch: kept, seen: 0 }]), [{ held: true, inbox: [] }]);
    bench.time += LEASE / 2;
    await bench.store.expire();
    same(runIds(await bench.claim({ queue: "queue of a", workerId: "w2" })), ["a"]);
    same(runIds(await bench.claim({ queue: "queue of b", workerId: "w2" })), ["b"]);
    same(runIds(await bench.claim({ queue: "queue of alive", workerId: "w2" })), []);
    assert.equal((await bench.tryCommit({ runId, execution: 1, epoch, workerId: "w1", turns: 0 }, {})).status, "stale");
  });
  test("W1 after the clock was set back what was due before is still due: new runs, runs that have messages, activities", async (bench) => {
    await bench.store.expire();
    await bench.created("new");
    await bench.created("later", { delay: 50 * LEASE });
    const sleeper = await bench.running("told");
    await bench.park(sleeper, { wakeAt: bench.time + 1_000 * LEASE });
    await bench.sent("told", { type: "signal", id: "s1", name: "x", payload: payload(1) });
    await bench.waitingFor("acts", bench.newTask(2));
    const { availableAt: later } = await bench.row("later");
    bench.time -= 100 * LEASE;
    await bench.store.expire();
    for (const id of ["new", "told"]) same([id, runIds(await bench.claim({ queue: `queue of ${id}` }))], [id, [id]]);
    assert.equal((await bench.claimTask()).runId, "acts");
    assert.equal((await bench.row("later")).availableAt, later);
  });
  test("W3 a lease of another worker that is longer is left as it is, and so are timers of runs that sleep", async (bench) => {
    await bench.store.expire();
    await bench.created("a");
    await bench.hold("a", { lease: 50 * LEASE });
    const sleeper = await bench.running("b");
    await bench.park(sleeper, { wakeAt: bench.time + 1_000 * LEASE });
    const before = [(await bench.row("a")).availableAt, (await bench.row("b")).availableAt];
    bench.time -= 1;
    await bench.store.expire();
    same([(await bench.row("a")).availableAt, (await bench.row("b")).availableAt], before);
  });
  test("W3 a worker that is late but was not replaced has its claim still", async (bench) => {
    const held = await bench.running("a");
    bench.time += 2 * LEASE;
    await bench.commit(held, { turn: bench.turn(held) });
    same(await bench.inbox(held), []);
    assert.equal(await bench.isClaimable("a"), false);
  });
  test("D4 renewing says of each claim whether it holds, and brings what came since", async (bench) => {
    const a = await bench.running("a");
    const lost = await bench.running("lost");
    const closed = await bench.running("closed");
    const parked = await bench.parked("parked");
    await bench.close(closed);
    bench.time += LEASE;
    await bench.inbox(a);
    await bench.claimRun("lost", { workerId: "w2" });
    const s1 = await bench.sent("a", signal("s1"));
    await bench.sent("a", signal("s2"));
    const claims = [a, lost, closed, parked, { runId: "missing", epoch: 1 }].map(({ runId, epoch }) => ({ runId, epoch, seen: s1 }));
    const renewed = await bench.store.renew("w1", LEASE, claims);
    same(renewed.map(({ held }) => held), [true, false, false, false, false]); // biome-ignore format: one line
    same(renewed.map(({ inbox }) => idsOf(inbox)), [["s2"], [], [], [], []]); // biome-ignore format: one line
    assert.equal((await bench.row("lost")).workerId, "w2");
    same((await bench.row("parked")).availableAt, undefined);
  });

  // ── D7 ──

  test("D7 recoveries are counted until a turn is committed", async (bench) => {
    await bench.running("a");
    for (const times of [1, 2, 3]) {
      bench.time += LEASE;
      assert.equal((await bench.claimRun("a")).run.recoveries, times);
    }
    const held = { ...(await bench.row("a")), runId: "a", workerId: "w1" };
    await bench.commit(held, { attempts: [{ seq: 1, number: 1, status: "running", startedAt: bench.time, workerId: "w1" }] });
    assert.equal((await bench.row("a")).recoveries, 3);
    await bench.commit(held, { turn: bench.turn(held) });
    assert.equal((await bench.row("a")).recoveries, 0);
  });
  test("D7 recoveries end with the run, with or without a turn", async (bench) => {
    for (const end of ["commit", "terminate"]) {
      await bench.running(end);
      bench.time += LEASE;
      const held = await bench.hold(end);
      assert.equal((await bench.row(end)).recoveries, 1);
      if (end === "commit") await bench.close(held);
      else await bench.store.terminate([{ runId: end, reason: undefined }]);
      assert.equal((await bench.row(end)).recoveries, 0);
    }
  });
  test("D7 attempts that a dead worker left running are lost, and the next claim says so", async (bench) => {
    const held = await bench.running("a");
    const running = { seq: 1, number: 2, status: "running", startedAt: START, workerId: "w1" } as const;
    const failed = {
      seq: 1,
      number: 1,
      status: "failed",
      error: { name: "Error", message: "no" },
      startedAt: START,
      endedAt: START,
      workerId: "w1",
      retryAt: START,
    } as const;
    await bench.commit(held, { turn: bench.turn(held), attempts: [failed, running] });
    bench.time += LEASE;
    const { attempts } = await bench.claimRun("a", { workerId: "w2" });
    const statuses = (rows: readonly { number: number; status: string }[]) => rows.map(({ number, status }) => [number, status]);
    same(statuses(attempts), [[1, "failed"], [2, "lost"]]); // biome-ignore format: pairs
    same(statuses(await bench.attempts("a")), [[1, "failed"], [2, "lost"]]); // biome-ignore format: pairs
    same(attempts[0], failed);
  });

  // ── what comes with a claim ──

  test("W5 a claim brings the history, unless the worker has as many turns of the same execution", async (bench) => {
    const held = await bench.running("a");
    const turns = [bench.turn(held), bench.turn(held)];
    await bench.commit(held, { turn: turns[0] });
    await bench.park(held, { turn: turns[1], wakeAt: START });
    const claim = async (cached: { execution: number; turns: number } | undefined) => {
      const claimed = await bench.claimRun("a", { cached: (id) => (id === "a" ? cached : undefined) });
      await bench.park(heldOf(claimed), { wakeAt: START });
      return claimed.turns;
    };
    same(await claim(undefined), turns);
    same(await claim({ execution: 1, turns: 1 }), turns);
    same(await claim({ execution: 2, turns: 2 }), turns);
    same(await claim({ execution: 1, turns: 3 }), turns);
    assert.equal(await claim({ execution: 1, turns: 2 }), undefined);
  });
  test("D9 a claim brings the whole inbox, oldest first", async (bench) => {
    await bench.created("a");
    const ids = range(12).map((i) => `s${i}`);
    for (const id of ids) await bench.sent("a", signal(id));
    const { inbox } = await bench.claimRun("a");
    same(idsOf(inbox), ids);
    const numbers = inbox.map(({ id }) => id);
    same(
      numbers,
      numbers.toSorted((a, b) => a - b),
    );
  });

  // ── the clock ──

  test("W3 nothing but the store's clock moves time", async (bench) => {
    assert.equal(await bench.store.now(), START);
    const held = await bench.running("a");
    bench.time = 5 * 365 * 86_400_000;
    assert.equal(await bench.store.now(), bench.time);
    const { availableAt } = await bench.row("a");
    assert.equal(availableAt, START + LEASE);
    await bench.close(held);
    assert.equal((await bench.row("a")).finishedAt, bench.time);
    assert.equal((await bench.created("b")).createdAt, bench.time);
  });
}
