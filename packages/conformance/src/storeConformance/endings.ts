// Conformance: how runs end, go on under the same id, and come back.
// Owns: tests of `close`, of the next execution, of `terminate` and `resume`; of blocked runs.
// Invariants tested: P1, P7, P10, K5, K6, D10, V4.

import assert from "node:assert/strict";
import type { NewMessage, RunClose } from "holdfast/store";
import {
  CANCEL,
  COMPLETED,
  failure,
  failureOf,
  heldOf,
  idsOf,
  jobsOf,
  LEASE,
  payload,
  range,
  resolution,
  runIds,
  START,
  same,
  signal,
  update,
} from "./bench.ts";
import type { Suite } from "./suite.ts";

const next = (carried: readonly NewMessage[] = []): RunClose => ({
  status: "continued",
  next: { input: payload("next"), version: "v2", seed: "seed 2", carried },
});

export function endings({ test }: Suite): void {
  for (const close of [COMPLETED, { status: "failed", error: failure("no") }, { status: "canceled", output: payload("kept") }] as const) {
    test(`P1 a run ends as ${close.status}: outcome and time are kept, its lease is gone`, async (bench) => {
      const held = await bench.running("a");
      bench.time += 10;
      const turn = bench.turn(held);
      await bench.close(held, close, { turn, state: payload("last") });
      const { status, output, error, finishedAt, availableAt, workerId, state, turns } = await bench.row("a");
      same(
        { status, output, error, finishedAt, availableAt, workerId, state, turns },
        { output: undefined, error: undefined, ...close, finishedAt: START + 10, state: payload("last"), turns: 1 },
      );
      same(await bench.store.history("a"), [turn]);
      bench.time += 100 * LEASE;
      same(runIds(await bench.claim({ queue: "queue of a" })), []);
    });
  }

  // ── the next execution ──

  test("P10 a run that continues has its next execution: an empty history, a new seed, all else as it was", async (bench) => {
    const parent = { runId: "p", execution: 1, seq: 1, parentClose: "abandon", announce: false } as const;
    const held = await bench.running("a", { attributes: { x: 1 }, deadline: 9 * LEASE, parent, priority: 4 });
    await bench.commit(held, {
      turn: bench.turn(held),
      state: payload("published"),
      attempts: [{ seq: 1, number: 1, status: "failed", startedAt: START, workerId: "w1" }],
    });
    const before = await bench.row("a");
    bench.time += 10;
    await bench.close(held, next(), { turn: bench.turn(held), attributes: { y: 2 } });
    const row = await bench.row("a");
    same(row, {
      ...before, status: "pending", execution: 2, turns: 0, historyLength: 0, input: payload("next"), version: "v2", seed: "seed 2", attributes: { x: 1, y: 2 },
      waitingFor: [], availableAt: START + 10, workerId: undefined, epoch: row.epoch,
    }); // biome-ignore format: a row
    same(await bench.store.history("a"), []);
    const claimed = await bench.claimRun("a", { cached: () => ({ execution: 1, turns: 0 }) });
    same([claimed.turns, claimed.attempts, claimed.inbox, claimed.recovered], [[], [], [], false]);
    assert.ok(claimed.run.epoch > held.epoch);
    assert.equal((await bench.tryCommit(held, { close: COMPLETED })).status, "stale");
    const second = heldOf(claimed);
    const turn = bench.turn(second);
    await bench.commit(second, { turn });
    same(await bench.store.history("a"), [turn]);
  });
  test("P10 signals that no code consumed go on in order: those that are carried, then those that arrived", async (bench) => {
    const held = await bench.running("a");
    const ids = [await bench.sent("a", signal("consumed"), "k0"), await bench.sent("a", signal("c1"), "k1")];
    for (const id of ["e1", "e2"]) await bench.sent("a", signal(id), `key of ${id}`);
    await bench.close(held, next([{ job: signal("c1"), idempotencyKey: "k1" }, { job: signal("c2") }]), {
      turn: bench.turn(held),
      consumed: ids,
    });
    await bench.sent("a", signal("f1"));
    const { inbox } = await bench.claimRun("a");
    same(idsOf(inbox), ["c1", "c2", "e1", "e2", "f1"]);
    const numbers = inbox.map(({ id }) => id);
    same(
      numbers,
      [...new Set(numbers)].toSorted((a, b) => a - b),
    );
  });
  test("P10 idempotency keys and update ids go on", async (bench) => {
    const held = await bench.running("a");
    const consumed = [await bench.sent("a", signal("s1"), "k")];
    await bench.sent("a", update("u1"));
    await bench.close(held, next(), { consumed });
    assert.equal((await bench.send("a", signal("s1"), "k")).status, "duplicate");
    assert.equal((await bench.send("a", update("u1"))).status, "duplicate");
    same(idsOf((await bench.claimRun("a")).inbox), ["u1"]);
  });
  test("D9 what the last execution was given and left in the inbox is new to the next", async (bench) => {
    const held = await bench.running("a");
    const s1 = await bench.sent("a", signal("s1"));
    await bench.close(held, next(), { seen: s1 });
    assert.equal(await bench.isClaimable("a"), true);
    const claimed = await bench.claimRun("a");
    same(idsOf(claimed.inbox), ["s1"]);
    await bench.park(heldOf(claimed), { consumed: claimed.inbox.map(({ id }) => id), seen: claimed.inbox[0]?.id });
    await bench.sent("a", signal("s2"));
    same(idsOf((await bench.claimRun("a")).inbox), ["s2"]);
  });
  test("P10 answers to operations of the last execution are not delivered to the next", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2)] });
    const task = await bench.claimTask();
    await bench.close(held, next());
    assert.equal(await bench.complete(task), false);
    bench.time += 100 * LEASE;
    same((await bench.claimRun("a")).inbox, []);
    same(await bench.claimTasks(), []);
  });
  test("P10 answers that the last execution left in its inbox are not delivered to the next, which uses their numbers again", async (bench) => {
    const held = await bench.running("a");
    const parent = { runId: "a", execution: 1, seq: 1, parentClose: "abandon", announce: true } as const;
    await bench.commit(held, { turn: bench.turn(held), children: [bench.newRun("c", { parent })], tasks: [bench.newTask(2)] });
    await bench.complete(await bench.claimTask());
    await bench.close(await bench.hold("c"));
    await bench.sent("a", signal("s1"));
    assert.equal((await bench.inbox(held)).length, 4);
    await bench.close(held, next(), { sends: [{ seq: 3, runId: "missing", message: { job: signal("s2") } }] });
    same(idsOf((await bench.claimRun("a")).inbox), ["s1"]);
  });
  test("P10 attempts are those of the newest execution, which uses their numbers again", async (bench) => {
    const held = await bench.running("a");
    const attempts = [
      { seq: 1, number: 1, status: "failed", error: failure("no"), startedAt: START, endedAt: START, workerId: "w1" },
    ] as const;
    await bench.commit(held, { turn: bench.turn(held), attempts, tasks: [bench.newTask(2), bench.newTask(3)] });
    await bench.fail(await bench.claimTask());
    await bench.claimTask();
    assert.equal((await bench.attempts("a")).length, 3);
    await bench.close(held, next());
    same(await bench.attempts("a"), []);
  });
  test("P7 P10 a claim of the next execution says when the last turn before it was", async (bench) => {
    await bench.created("a");
    const begun = await bench.claimRun("a");
    same(begun.lastTime, undefined);
    const first = heldOf(begun);
    await bench.commit(first, { turn: bench.turn(first, { time: START + 5 }) });
    await bench.close(first, next(), { turn: bench.turn(first, { time: START + 7 }) });
    same((await bench.claimRun("a")).lastTime, START + 7);
    // This one has no turn.
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    await bench.create("a", { onConflict: "restart-if-closed" });
    const again = await bench.claimRun("a");
    same(again.lastTime, START + 7);
    const third = heldOf(again);
    await bench.close(third, COMPLETED, { turn: bench.turn(third, { time: START + 9 }) });
    await bench.create("a", { onConflict: "restart-if-closed" });
    same((await bench.claimRun("a")).lastTime, START + 9);
  });
  test("P10 a chain goes on and on", async (bench) => {
    await bench.created("a");
    for (const execution of range(5).map((i) => i + 1)) {
      const held = await bench.hold("a");
      assert.equal(held.execution, execution);
      await bench.commit(held, { turn: bench.turn(held) });
      await bench.close(held, next(), { turn: bench.turn(held) });
    }
    const { execution, turns, startedAt } = await bench.row("a");
    same({ execution, turns, startedAt }, { execution: 6, turns: 0, startedAt: START });
  });

  // ── terminate ──

  test("K6 terminate ends runs at once, in whatever state they are, running no code", async (bench) => {
    await bench.created("pending");
    const held = await bench.running("held");
    await bench.parked("parked");
    await bench.close(await bench.running("closed"));
    bench.time += 10;
    const ids = ["pending", "held", "parked", "closed", "missing"];
    const results = await bench.store.terminate(ids.map((runId) => ({ runId, reason: "enough" })));
    same(results.map(({ status }) => status), ["sent", "sent", "sent", "closed", "not-found"]); // biome-ignore format: one line
    for (const id of ids.slice(0, 3)) {
      const { status, error, finishedAt, workerId, availableAt } = await bench.row(id);
      same(
        [status, error?.name, finishedAt, workerId, availableAt],
        ["terminated", "RunTerminatedError", START + 10, undefined, undefined],
      );
      assert.match(error?.message ?? "", /enough/);
    }
    assert.equal((await bench.row("closed")).status, "completed");
    same((await bench.store.renew("w1", LEASE, [{ runId: "held", epoch: held.epoch, seen: 0 }]))[0]?.held, false);
  });
  test("K5 a run that is terminated while its worker commits ends in one way, not in two", async (bench) => {
    const parent = await bench.running("p");
    for (const i of range(20)) {
      const id = `r${i}`;
      const link = { runId: "p", execution: 1, seq: i, parentClose: "abandon", announce: false } as const;
      await bench.commit(parent, { children: [bench.newRun(id, { parent: link })] });
      const held = await bench.hold(id);
      const commit = () => bench.tryCommit(held, { close: COMPLETED, status: "completed", turn: bench.turn(held) });
      const terminate = () => bench.store.terminate([{ runId: id, reason: undefined }]);
      const [committed, terminated] =
        i % 2 === 0 ? await Promise.all([commit(), terminate()]) : (await Promise.all([terminate(), commit()])).toReversed();
      const won = committed !== undefined && "status" in committed && committed.status === "committed";
      const { status, turns } = await bench.row(id);
      same([status, turns], won ? ["completed", 1] : ["terminated", 0]);
      same((Array.isArray(terminated) ? terminated[0] : undefined)?.status, won ? "closed" : "sent");
      const inbox = await bench.inbox(parent);
      assert.equal(resolution(inbox).outcome.status, won ? "completed" : "failed");
      await bench.commit(parent, { consumed: inbox.map(({ id: message }) => message) });
    }
  });

  // ── resume ──

  test("D10 a failed run is resumed: open again, available, its attempt counted, a resume in its inbox", async (bench) => {
    const held = await bench.running("a");
    const turn = bench.turn(held);
    await bench.close(held, { status: "failed", error: failure("no") }, { turn });
    bench.time += 10;
    same(await bench.store.resume(["a"]), ["resumed"]);
    const { status, attempt, error, finishedAt, availableAt, execution, startedAt } = await bench.row("a");
    same(
      { status, attempt, error, finishedAt, availableAt, execution, startedAt },
      { status: "sleeping", attempt: 2, availableAt: START + 10, execution: 1, startedAt: START }, // P11: it has been advanced before
    );
    const claimed = await bench.claimRun("a");
    same(claimed.turns, [turn]);
    same(jobsOf(claimed.inbox), [{ type: "resume", attempt: 2, voids: [] }]);
    same([claimed.recovered, claimed.run.status], [false, "running"]);
    await bench.close(heldOf(claimed));
    assert.equal((await bench.row("a")).status, "completed");
  });
  test("D4 the claim under which a run failed writes nothing once it is resumed", async (bench) => {
    const held = await bench.running("a");
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    await bench.store.resume(["a"]);
    assert.equal((await bench.tryCommit(held, { close: COMPLETED })).status, "stale");
    await bench.hold("a", { workerId: "w2" });
    assert.equal((await bench.tryCommit(held, { close: COMPLETED })).status, "stale");
  });
  test("D10 resume is refused where there is nothing to resume or to wake, or rollbacks have run", async (bench) => {
    await bench.created("pending");
    const rolledBack = await bench.running("rolled-back");
    await bench.close(rolledBack, { status: "failed", error: failure("no"), resumable: false }, { turn: bench.turn(rolledBack) });
    for (const status of ["completed", "canceled"] as const) await bench.close(await bench.running(status), { status });
    await bench.created("terminated");
    await bench.store.terminate([{ runId: "terminated", reason: undefined }]);
    const ids = ["pending", "rolled-back", "completed", "canceled", "terminated"];
    const before = await bench.store.get(ids);
    same(await bench.store.resume([...ids, "missing"]), [...ids.map(() => "not-resumable"), "not-found"]);
    same(await bench.store.get(ids), before);
  });
  test("M1 D10 signals that a failing run did not take are there when it is resumed, in order; nothing else is", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2)] });
    const taken = await bench.sent("a", signal("taken"), "k0");
    await bench.sent("a", signal("s1"), "k1");
    await bench.sent("a", update("u1"));
    await bench.sent("a", CANCEL);
    await bench.complete(await bench.claimTask());
    await bench.sent("a", signal("s2"));
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held), consumed: [taken] });
    assert.equal(failureOf(await bench.outcome("a", "u1")), "RunClosedError");
    assert.equal((await bench.send("a", signal("late"))).status, "closed");
    assert.equal((await bench.send("a", signal("s1"), "k1")).status, "duplicate");
    await bench.store.resume(["a"]);
    await bench.sent("a", signal("s3"));
    const claimed = await bench.claimRun("a");
    same(idsOf(claimed.inbox), ["s1", "s2", "resume", "s3"]);
    await bench.commit(heldOf(claimed), { consumed: claimed.inbox.map(({ id }) => id) });
    same(await bench.inbox(heldOf(claimed)), []);
  });
  for (const close of [COMPLETED, { status: "canceled" }, { status: "failed", error: failure("no"), resumable: false }] as const) {
    const which = close.status === "failed" ? "failed and can't be resumed" : `is ${close.status}`;
    test(`P1 P10 a run that ${which} keeps no messages: its next execution gets none of them`, async (bench) => {
      const held = await bench.running("a");
      await bench.sent("a", signal("s1"));
      await bench.close(held, close, { turn: bench.turn(held) });
      await bench.create("a", { onConflict: "restart-if-closed" });
      same((await bench.claimRun("a")).inbox, []);
    });
  }
  test("P10 a failed run that begins again is not given what the execution before was sent; used keys stay used", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", signal("s1"), "k1");
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    await bench.create("a", { onConflict: "restart-if-closed", messages: [{ job: signal("fresh") }] });
    assert.equal((await bench.send("a", signal("s1"), "k1")).status, "duplicate");
    const claimed = await bench.claimRun("a");
    same([idsOf(claimed.inbox), claimed.turns], [["fresh"], []]);
  });
  test("D10 a failed run says whether it can be resumed; others say nothing of it", async (bench) => {
    const closes: readonly [string, RunClose, boolean | undefined][] = [
      ["failed", { status: "failed", error: failure("no") }, true],
      ["rolled back", { status: "failed", error: failure("no"), resumable: false }, false],
      ["completed", COMPLETED, undefined],
      ["canceled", { status: "canceled" }, undefined],
    ];
    for (const [id, close, resumable] of closes) {
      const held = await bench.running(id);
      assert.equal((await bench.row(id)).resumable, undefined);
      await bench.close(held, close, { turn: bench.turn(held) });
      assert.equal((await bench.row(id)).resumable, resumable, id);
    }
    await bench.parked("late", { deadline: 10 });
    await bench.close(await bench.running("no turn"), { status: "failed", error: failure("no") });
    bench.time += 10;
    await bench.store.expire();
    same((await bench.store.get(["late", "no turn"])).map((row) => row?.resumable), [false, false]); // biome-ignore format: one line
    await bench.store.resume(["failed"]);
    assert.equal((await bench.row("failed")).resumable, undefined);
  });
  test("V3 resume of an open run that waits makes it available now, and changes nothing else", async (bench) => {
    const parked = await bench.running("a");
    await bench.park(parked, { wakeAt: START + 9_000 });
    await bench.running("held");
    await bench.parked("idle"); // until a message comes
    const before = await bench.row("a");
    same(await bench.store.resume(["a", "held", "idle"]), ["woken", "woken", "woken"]);
    same(await Promise.all(["a", "held", "idle"].map((id) => bench.isClaimable(id))), [true, false, true]);
    const { run, inbox } = await bench.claimRun("a");
    same([run.attempt, run.turns, run.status, inbox], [before.attempt, before.turns, "running", []]);
  });
  test("D10 of two that resume a run at the same time one does", async (bench) => {
    const held = await bench.running("a");
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    const results = (await Promise.all(range(5).map(() => bench.store.resume(["a"])))).flat();
    assert.equal(results.filter((result) => result === "resumed").length, 1);
    assert.equal((await bench.claimRun("a")).inbox.length, 1);
  });

  // ── blocked ──

  test("V4 a blocked run waits with its reason, and is tried again at its time", async (bench) => {
    const held = await bench.running("a");
    const blocked = { error: failure("diverged"), code: "code 1" };
    await bench.park(held, { status: "blocked", blocked, wakeAt: START + 500, seen: Number.MAX_SAFE_INTEGER, waitingFor: ["code"] });
    const { status, error, finishedAt, waitingFor } = await bench.row("a");
    same({ status, error, finishedAt, waitingFor }, { status: "blocked", error: failure("diverged"), waitingFor: ["code"] });
    bench.time += 500;
    const claimed = await bench.claimRun("a");
    same([claimed.run.status, claimed.recovered], ["running", false]);
    const again = heldOf(claimed);
    await bench.commit(again, { turn: bench.turn(again) });
    const row = await bench.row("a");
    same([row.status, row.error], ["running", undefined]);
  });
  test("V4 neither what is in its inbox nor what comes later wakes a run that is blocked; both are kept", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", signal("s1"));
    const blocked = { error: failure("diverged"), code: "code 1" };
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.park(held, { status: "blocked", blocked, wakeAt: START + 500, seen: Number.MAX_SAFE_INTEGER });
    assert.equal(await bench.isClaimable("a"), false);
    await bench.sent("a", signal("s2"));
    await bench.sent("a", signal("s3"), "once");
    await bench.sent("a", CANCEL);
    assert.equal(await bench.isClaimable("a"), false);
    await bench.store.resume(["a"]);
    same(idsOf((await bench.claimRun("a")).inbox), ["s1", "s2", "s3", "cancel"]);
  });
  test("V4 nor does the answer of an activity or a child", async (bench) => {
    const held = await bench.running("a");
    const link = { runId: "a", execution: 1, seq: 2, parentClose: "cancel", announce: false } as const;
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(1)], children: [bench.newRun("c", { parent: link })] });
    await bench.park(held, { status: "blocked", blocked: { error: failure("diverged"), code: "code 1" } });
    await bench.complete(await bench.claimTask());
    await bench.close(await bench.hold("c"));
    assert.equal(await bench.isClaimable("a"), false);
    await bench.store.resume(["a"]);
    same(jobsOf((await bench.claimRun("a")).inbox).map((job) => "seq" in job && job.seq), [1, 2]); // biome-ignore format: one line
  });
  test("V4 a worker that starts claims each blocked run that it serves once, whenever it is to be tried again, and no other", async (bench) => {
    const queue = "one";
    const ids = ["a", "b", "c", "d", "e"];
    for (const [i, id] of ids.entries()) {
      const held = await bench.running(id, { queue });
      const wakeAt = [undefined, START + 9_000][i % 2];
      await bench.park(held, { turn: bench.turn(held), status: "blocked", blocked: { error: failure("no"), code: "1" }, wakeAt });
    }
    const others = { workflow: "ship", version: "v2" };
    for (const [id, more] of [["of another", { queue, ...others }], ["elsewhere", {}]] as const) {
      const held = await bench.running(id, more);
      await bench.park(held, { status: "blocked", blocked: { error: failure("no"), code: "1" } });
    } // biome-ignore format: pairs
    await bench.parked("healthy", { queue: "two" });
    const serves = [{ workflow: "order", versions: [undefined] }] as const;
    const claimed: string[] = [];
    let after: number | undefined = 0;
    for (; after !== undefined; ) {
      const result = await bench.claim({ queue, serves, limit: 2, blockedAfter: after });
      for (const claim of result.runs) {
        claimed.push(claim.run.id);
        same([claim.run.status, claim.recovered, claim.turns?.length], ["running", false, 1]);
        // It is blocked again, and not claimed again.
        await bench.park(heldOf(claim), { status: "blocked", blocked: { error: failure("no"), code: "2" } });
      }
      after = result.lastBlocked;
    }
    same(claimed, ids);
    same(runIds(await bench.claim({ queue: "two", blockedAfter: 0 })), []);
    same(runIds(await bench.claim({ queue, serves: [{ workflow: "ship", versions: "*" }], blockedAfter: 0 })), ["of another"]);
  });
  test("V4 a run may be created blocked: with the reason, and without a turn", async (bench) => {
    const blocked = { error: failure("foreign"), code: "1" };
    const commit = { runId: "a", execution: 1, epoch: 1, workerId: "w1", status: "blocked", lease: "park", blocked } as const;
    const seen = Number.MAX_SAFE_INTEGER;
    await bench.created("a", { first: { workerId: "w1", lease: LEASE, commit: { ...commit, seen, waitingFor: ["code"] } } });
    const { status, error, turns, workerId, waitingFor } = await bench.row("a");
    same([status, error?.message, turns, workerId, waitingFor], ["blocked", "foreign", 0, undefined, ["code"]]);
    assert.equal(await bench.isClaimable("a"), false);
    const [claim] = (await bench.claim({ queue: "queue of a", blockedAfter: 0 })).runs;
    same([claim?.run.id, claim?.turns, claim?.run.epoch], ["a", [], 2]);
  });
  test("V4 resume makes a blocked run available now, and leaves its attempt alone", async (bench) => {
    await bench.park(await bench.running("a"), {
      status: "blocked",
      blocked: { error: failure("diverged"), code: "code 1" },
      wakeAt: START + 9_000,
    });
    same(await bench.store.resume(["a"]), ["resumed"]);
    assert.equal(await bench.isClaimable("a"), true);
    const { run, inbox } = await bench.claimRun("a");
    same([run.attempt, inbox], [1, []]);
  });
}
