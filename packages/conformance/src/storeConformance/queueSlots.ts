// Conformance: the slots of queues.
// Owns: tests of what holds a slot, and what a claim needs one for.
// Invariants tested: Q2, Q3.

import assert from "node:assert/strict";
import type { ClaimResult, NewRun } from "holdfast/store";
import { CANCEL, failure, type Held, heldOf, LEASE, range, runIds, START, same, signal } from "./bench.ts";
import { add, CONTINUED, claimHeld, claimIds, first, limit, Q, queuesOf } from "./queueBench.ts";
import type { Suite } from "./suite.ts";

export function queueSlots({ test }: Suite): void {
  // ── Q2 ──

  test("Q2 never more are held than `concurrency`, in the queue and in each key", async (bench) => {
    await limit(bench, { concurrency: 3, perKey: { concurrency: 2 } });
    for (const key of ["a", "b"]) await add(bench, range(4).map((i) => `${key}${i}`), { key }); // biome-ignore format: one line
    const held = await claimHeld(bench);
    same(held.length, 3);
    same(await claimIds(bench, { workerId: "w2" }), []);
    const ofKey = (key: string): Held[] => held.filter(({ runId }) => runId.startsWith(key));
    const full = ofKey("a").length === 2 ? "a" : "b";
    await bench.close(await first(Promise.resolve(ofKey(full === "a" ? "b" : "a"))));
    same((await claimIds(bench)).map((id) => id[0]), [full === "a" ? "b" : "a"]); // biome-ignore format: one line
  });
  test("Q2 many claimers at the same time: never more than the limit", async (bench) => {
    await limit(bench, { concurrency: 7 });
    await add(bench, range(40).map((i) => `r${i}`)); // biome-ignore format: one line
    const claims = await Promise.all(range(15).map((i) => bench.claim({ ...Q, workerId: `w${i}`, limit: 4 })));
    const ids = claims.flatMap(runIds);
    same([ids.length, new Set(ids).size], [7, 7]);
  });
  test("Q2 counts running: a parked run holds nothing, and needs a slot to go on", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    const a = await first(claimHeld(bench));
    await bench.park(a, { turn: bench.turn(a) });
    const b = await first(claimHeld(bench));
    assert.equal(b.runId, "b");
    await bench.sent("a", signal("s1"));
    same(await claimIds(bench), []);
    await bench.park(b, { turn: bench.turn(b) });
    same(await claimIds(bench), ["a"]);
  });
  test("Q2 counts open: from the first claim to the end, through parking and continue-as-new", async (bench) => {
    await limit(bench, { concurrency: 1, counts: "open" });
    await add(bench, ["a", "b"]);
    let a = await first(claimHeld(bench));
    await bench.park(a, { turn: bench.turn(a) });
    same(await claimIds(bench), []);
    await bench.sent("a", signal("s1"));
    a = await first(claimHeld(bench));
    assert.equal(a.runId, "a");
    await bench.close(a, CONTINUED);
    a = await first(claimHeld(bench));
    same([a.runId, a.execution], ["a", 2]);
    same((await queuesOf(bench).getQueue("q")).runs, { waiting: 1, held: 1, oldest: START });
    await bench.close(a);
    same(await claimIds(bench), ["b"]);
  });
  test("Q2 counts open: a run that is resumed or restarted after its end needs a slot again", async (bench) => {
    await limit(bench, { concurrency: 1, counts: "open" });
    await add(bench, ["a", "b"]);
    const a = await first(claimHeld(bench));
    await bench.close(a, { status: "failed", error: failure("no") }, { turn: bench.turn(a) });
    const b = await first(claimHeld(bench));
    await bench.store.resume(["a"]);
    same(await claimIds(bench), []);
    await bench.close(b);
    const again = await first(claimHeld(bench));
    assert.equal(again.runId, "a");
    await add(bench, ["b"], { onConflict: "restart-if-closed" });
    same(await claimIds(bench), []);
    await bench.close(again);
    same(await claimIds(bench), ["b"]);
  });
  test("Q2 Q8 a run that failed before its queue had limits, or while it had them, is resumed as the queue is then", async (bench) => {
    const failed = async (id: string): Promise<void> => {
      await add(bench, [id]);
      const run = await first(claimHeld(bench));
      await bench.close(run, { status: "failed", error: failure("no") }, { turn: bench.turn(run) });
    };
    await failed("a");
    await limit(bench, { concurrency: 1 });
    await failed("b");
    await add(bench, ["c"]);
    const c = await first(claimHeld(bench));
    await bench.store.resume(["a"]);
    same(await claimIds(bench), []);
    await bench.close(c);
    const a = await first(claimHeld(bench));
    assert.equal(a.runId, "a");
    await bench.close(a);
    await queuesOf(bench).deleteQueue("q");
    await bench.store.resume(["b"]);
    same(await claimIds(bench), ["b"]);
  });
  test("Q2 counts open: a child whose parent has closed needs a slot, resumed or not yet at its end", async (bench) => {
    await limit(bench, { concurrency: 1, counts: "open" });
    await add(bench, ["p", "other"]);
    const parent = await first(claimHeld(bench));
    const link = (seq: number) => ({ runId: "p", execution: 1, seq, parentClose: "cancel", announce: false }) as const;
    const children = [1, 2].map((seq) => bench.newRun(`c${seq}`, { ...Q, parent: link(seq) }));
    await bench.commit(parent, { turn: bench.turn(parent), children });
    const below = await claimHeld(bench);
    same(below.map(({ runId }) => runId), ["c1", "c2"]); // biome-ignore format: one line
    const [c1, c2] = below as [Held, Held];
    await bench.close(c1, { status: "failed", error: failure("no") }, { turn: bench.turn(c1) });
    await bench.park(c2, { turn: bench.turn(c2) });
    await bench.close(parent);
    const next = await first(claimHeld(bench, { limit: 1 })); // it was canceled with its parent, and goes before new ones
    assert.equal(next.runId, "c2");
    await bench.store.resume(["c1"]);
    same(await claimIds(bench), []);
    await bench.close(next);
    same(await claimIds(bench), ["c1"]);
  });
  test("Q2 D10 counts open: a parent that is resumed after its child holds no slot that the child waits for", async (bench) => {
    await limit(bench, { concurrency: 1, counts: "open" });
    await add(bench, ["p", "other"]);
    const parent = await first(claimHeld(bench));
    const link = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
    await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun("c", { ...Q, parent: link })] });
    const child = await first(claimHeld(bench));
    const failed = { status: "failed", error: failure("no") } as const;
    await bench.close(child, failed, { turn: bench.turn(child) });
    await bench.close(parent, failed);
    const other = await first(claimHeld(bench));
    assert.equal(other.runId, "other");
    await bench.store.resume(["c"]);
    await bench.store.resume(["p"]);
    await bench.close(other);
    // Whichever goes first: the other one needs no more than that, or gets the slot after it.
    const claimed = await claimHeld(bench);
    for (const run of claimed) if (run.runId === "p") await bench.park(run, { turn: bench.turn(run) });
    const ids = [...claimed.map(({ runId }) => runId), ...(await claimIds(bench))];
    assert.ok(ids.includes("c"), `the child is claimed: ${ids}`);
  });
  test("Q2 counts open: terminate, a deadline and a cancellation before the first turn free the slot", async (bench) => {
    await limit(bench, { concurrency: 1, counts: "open" });
    await add(bench, ["a"]);
    await add(bench, ["b"], { deadline: 100 });
    await add(bench, ["c", "d"]);
    same(await claimIds(bench), ["a"]);
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    same(await claimIds(bench), ["b"]);
    bench.time += 100;
    await bench.store.expire();
    await bench.sent("c", CANCEL);
    same(await claimIds(bench), ["d"]);
  });
  test("Q2 counts open: a child goes under the slots of its parent, unless it is abandoned or has another key", async (bench) => {
    await limit(bench, { concurrency: 1, perKey: { concurrency: 1 }, counts: "open" });
    await add(bench, ["p"], { key: "k" });
    await add(bench, ["waiting"], { key: "k" });
    const parent = await first(claimHeld(bench));
    const link = (seq: number, parentClose: "cancel" | "abandon") => ({ runId: "p", execution: 1, seq, parentClose, announce: false });
    const child = (id: string, seq: number, key: string, parentClose: "cancel" | "abandon" = "cancel"): NewRun =>
      bench.newRun(id, { ...Q, key, parent: link(seq, parentClose) });
    const children = [child("c1", 1, "k"), child("c2", 2, "other"), child("c3", 3, "other"), child("left", 4, "free", "abandon")];
    await bench.park(parent, { turn: bench.turn(parent), children });
    // c2 and c3 go under the slot of the queue, but each needs one of its key.
    const ids = await claimIds(bench);
    same([ids.includes("c1"), ids.filter((id) => id === "c2" || id === "c3").length, ids.length], [true, 1, 2]);
    same(await claimIds(bench), []);
  });
  test("Q2 counts running: a child takes the slot that its parked parent has left", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["p"]);
    const parent = await first(claimHeld(bench));
    const link = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
    await bench.park(parent, { turn: bench.turn(parent), children: [bench.newRun("c", { ...Q, parent: link })] });
    const child = await first(claimHeld(bench));
    await bench.close(child);
    same(await claimIds(bench), ["p"]);
  });
  test("Q2 a change of what counts holds for the runs that are open", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    const a = await first(claimHeld(bench));
    await bench.park(a, { turn: bench.turn(a) });
    await limit(bench, { concurrency: 1, counts: "open" });
    same(await claimIds(bench), []);
    await limit(bench, { concurrency: 1, counts: "running" });
    same(await claimIds(bench), ["b"]);
  });
  test("Q2 a run with a key, or in a queue with limits or a pause, is created without its first turn", async (bench) => {
    const draft = (id: string) => bench.draft({ runId: id, execution: 1, epoch: 1, workerId: "w1", turns: 0 });
    const beginning = (id: string) => ({
      workerId: "w1",
      lease: LEASE,
      commit: { ...draft(id), turn: bench.turn({ ...draft(id), turns: 0 }) },
    });
    const begun = async (id: string, more: Partial<NewRun> = {}) => {
      const result = await bench.create(id, { ...Q, ...more, first: beginning(id) });
      assert.equal(result.status, "created");
      const { turns, status } = await bench.row(id);
      return [result.status === "created" && result.begun !== false, turns, status];
    };
    same(await begun("plain"), [true, 1, "running"]);
    same(await begun("keyed", { key: "k" }), [false, 0, "pending"]);
    await limit(bench, { concurrency: 5 });
    same(await begun("limited"), [false, 0, "pending"]);
    await queuesOf(bench).deleteQueue("q");
    same(await begun("again"), [true, 1, "running"]);
    await queuesOf(bench).pauseQueue("q", {});
    same(await begun("paused"), [false, 0, "pending"]);
    await queuesOf(bench).resumeQueue("q");
    same((await claimIds(bench)).sort(), ["keyed", "limited", "paused"]);
  });
  test("Q2 V4 blocked runs are tried within the limits", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    const a = await first(claimHeld(bench));
    await bench.park(a, { status: "blocked", blocked: { error: failure("no"), code: "" } });
    const b = await first(claimHeld(bench));
    same(await claimIds(bench, { blockedAfter: 0 }), []);
    await bench.close(b);
    same(await claimIds(bench, { blockedAfter: 0 }), ["a"]);
  });

  test("Q2 V4 blocked runs that a limit holds back don't end the search for others", async (bench) => {
    await add(bench, ["a1", "a2", "a3"], { key: "a" });
    await add(bench, ["b1"], { key: "b" });
    for (const held of await claimHeld(bench)) await bench.park(held, { status: "blocked", blocked: { error: failure("no"), code: "" } });
    await limit(bench, { perKey: { concurrency: 1 } });
    const tried: string[] = [];
    for (let blockedAfter: number | undefined = 0; blockedAfter !== undefined; ) {
      const claimed: ClaimResult = await bench.claim({ ...Q, blockedAfter, limit: 2 });
      tried.push(...runIds(claimed));
      blockedAfter = claimed.lastBlocked;
    }
    same(tried, ["a1", "b1"]);
  });

  test("Q2 V4 blocked runs that a limit holds back can be tried later, and no others with them", async (bench) => {
    await add(bench, ["a1", "a2", "a3"], { key: "a" });
    await add(bench, ["b1"], { key: "b" });
    const block = (held: Held) => bench.park(held, { status: "blocked", blocked: { error: failure("no"), code: "" } });
    for (const held of await claimHeld(bench)) await block(held);
    await limit(bench, { perKey: { concurrency: 1 } });
    const claimed = await bench.claim({ ...Q, blockedAfter: 0, limit: 10 });
    const [a1, b1] = claimed.runs.map(heldOf);
    assert.ok(a1 !== undefined && b1 !== undefined);
    same([a1.runId, b1.runId, claimed.heldBack?.length, claimed.lastBlocked], ["a1", "b1", 2, undefined]);
    await block(b1);
    const still = await bench.claim({ ...Q, blockedAfter: 0, blockedOnly: claimed.heldBack, limit: 10 });
    same([runIds(still), still.heldBack], [[], claimed.heldBack]);
    await bench.close(a1);
    const later = await bench.claim({ ...Q, blockedAfter: 0, blockedOnly: claimed.heldBack, limit: 10 });
    same([runIds(later), later.heldBack?.length], [["a2"], 1]);
    for (const run of later.runs) await bench.close(heldOf(run));
    const last = await bench.claim({ ...Q, blockedAfter: 0, blockedOnly: later.heldBack, limit: 10 });
    same([runIds(last), last.heldBack], [["a3"], []]);
  });

  // ── Q3 ──

  test("Q3 an expired lease stays held until it is claimed, and that claim needs no slot", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    same(await claimIds(bench), ["a"]);
    bench.time += LEASE + 1;
    same((await queuesOf(bench).getQueue("q")).runs.held, 1);
    const { runs } = await bench.claim({ ...Q, workerId: "w2" });
    same(runs.map(({ run, recovered }) => [run.id, recovered]), [["a", true]]); // biome-ignore format: one line
  });
  test("Q3 D4 D7 a claim that finds the queue full ends expired leases that it does not serve", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a"], { workflow: "other" });
    await add(bench, ["b"]);
    const others = { serves: [{ workflow: "other", versions: "*" }] } as const;
    const a = await first(claimHeld(bench, others));
    await bench.commit(a, { turn: bench.turn(a), attempts: [{ seq: 1, number: 1, status: "running", startedAt: START, workerId: "w1" }] });
    same(await claimIds(bench, { workerId: "w2" }), []);
    bench.time += LEASE + 1;
    const b = await first(claimHeld(bench, { workerId: "w2" }));
    assert.equal(b.runId, "b");
    same(await bench.tryCommit(a), { status: "stale" });
    same((await bench.row("a")).workerId, undefined);
    await bench.close(b);
    const again = await bench.claim({ ...Q, ...others });
    same(again.runs.map(({ run, attempts }) => [run.id, attempts[0]?.status]), [["a", "lost"]]); // biome-ignore format: one line
  });
  test("Q3 the same for a key that is full", async (bench) => {
    await limit(bench, { perKey: { concurrency: 1 } });
    await add(bench, ["a"], { workflow: "other", key: "k" });
    await add(bench, ["b"], { key: "k" });
    same(await claimIds(bench, { serves: [{ workflow: "other", versions: "*" }] }), ["a"]);
    same(await claimIds(bench), []);
    bench.time += LEASE + 1;
    same(await claimIds(bench), ["b"]);
  });
  test("Q3 D9 a run whose lost lease was found, and whose worker parks it after all, wakes up with a message", async (bench) => {
    await limit(bench, { concurrency: 5 });
    for (const key of [undefined, "k"]) {
      await add(bench, ["a", "b", "c"].map((id) => `${id} of ${key}`), { key }); // biome-ignore format: one line
      const held = await claimHeld(bench);
      bench.time += LEASE + 1;
      const [taken] = await claimIds(bench, { workerId: "w2", limit: 1 });
      const left = held.filter(({ runId }) => runId !== taken);
      const ids = left.map(({ runId }) => runId);
      for (const run of left) await bench.park(run, { turn: bench.turn(run) });
      same(await claimIds(bench), []);
      for (const id of ids) await bench.sent(id, signal("s1"));
      const woken = await claimHeld(bench);
      same(woken.map(({ runId }) => runId).sort(), ids);
      for (const run of woken) await bench.close(run);
      await bench.store.terminate([{ runId: taken ?? "", reason: undefined }]);
    }
  });
  test("Q3 W4 a worker that renews a lease too late, but before another claims, keeps the slot", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    const a = await first(claimHeld(bench));
    bench.time += LEASE + 1;
    await bench.inbox(a); // renews
    same(await claimIds(bench, { workerId: "w2" }), []);
    await bench.park(a, { turn: bench.turn(a), wakeAt: bench.time });
    same((await claimIds(bench, { workerId: "w2" })).length, 1);
    same(await claimIds(bench, { workerId: "w2" }), []);
  });
}
