// Conformance: how long closed runs are kept, and what goes with them.
// Owns: tests of `retire` and `delete`.
// Invariants tested: B4.

import assert from "node:assert/strict";
import type { InboxMessage, NewRun, ParentLink, TurnCommit } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, failure, failureOf, type Held, idsOf, LEASE, only, payload, range, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

const DAY = 86_400_000;
const KEPT = 30 * DAY;

/** How a run may end. Each leaves a run called "a" closed, in a store that is opened with a retention. */
const ENDS: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  "a turn": async (bench) => bench.close(await bench.running("a")),
  "a turn with records": async (bench) => {
    const held = await bench.running("a");
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
  },
  "a turn that changes attributes": async (bench) => bench.close(await bench.running("a"), COMPLETED, { attributes: { x: 1 } }),
  "a turn that could have heard signals": async (bench) =>
    bench.close(await bench.running("a"), COMPLETED, { lateIf: { cancel: true, signals: ["poke"] } }),
  "the turn that it is created with": async (bench) => {
    await bench.store.create([firstRun(bench, { close: COMPLETED, status: "completed" })]);
  },
  terminate: async (bench) => {
    await bench.parked("a");
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
  },
  "a cancellation before it began": async (bench) => {
    await bench.created("a");
    await bench.sent("a", CANCEL);
  },
  "its deadline": async (bench) => {
    await bench.parked("a", { deadline: 1_000 });
    bench.time += 2_000;
    await bench.store.expire();
  },
  "the end of its parent": async (bench) => {
    await bench.close(await parentOf(bench, "terminate", ["a"], { retention: "forever" }));
  },
  "the end of its parent before it began": async (bench) => {
    await parentOf(bench, "cancel", ["a"], { retention: "forever" });
    await bench.store.terminate([{ runId: "p", reason: "test" }]);
  },
};

export function keeping(suite: Suite): void {
  const { test } = suite;

  for (const [name, end] of Object.entries(ENDS)) {
    test(`B4 a run that ends by ${name} goes when the engine's retention is over, not before`, async (bench) => {
      await reopened(bench, KEPT);
      await end(bench);
      assert.notEqual((await bench.row("a")).finishedAt, undefined);
      bench.time += KEPT;
      assert.equal(await retired(bench), 0);
      bench.time += 1;
      assert.equal(await retired(bench), 1);
      assert.equal(await bench.exists("a"), false);
    });
  }

  test("B4 the workflow's retention counts before the engine's", async (bench) => {
    await reopened(bench, KEPT);
    await bench.close(await bench.running("short", { retention: DAY }));
    await bench.close(await bench.running("forever", { retention: "forever" }));
    await bench.close(await bench.running("default"));
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 1);
    assert.equal(await bench.exists("short"), false);
    bench.time += 1_000 * DAY;
    assert.equal(await retired(bench), 1);
    assert.equal(await bench.exists("forever"), true);
  });

  test("B4 without a retention closed runs stay", async (bench) => {
    await bench.close(await bench.running("a"));
    bench.time += 10_000 * DAY;
    assert.equal(await retired(bench), 0);
    assert.equal((await bench.row("a")).status, "completed");
  });

  test("B4 a changed retention of the engine concerns later ends only", async (bench) => {
    await bench.close(await bench.running("before"));
    await reopened(bench, DAY);
    await bench.close(await bench.running("within"));
    await reopened(bench, undefined);
    await bench.close(await bench.running("after"));
    bench.time += 1_000 * DAY;
    assert.equal(await retired(bench), 1);
    same(await Promise.all(["before", "within", "after"].map((id) => bench.exists(id))), [true, false, true]);
  });

  test("B4 the retention that a first turn records counts from then on, however the run ends", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), retention: DAY, lease: "park", status: "sleeping" });
    assert.equal((await bench.row("a")).retention, DAY);
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    const other = await bench.running("b");
    await bench.close(other, COMPLETED, { turn: bench.turn(other), retention: "forever" });
    assert.equal((await bench.row("b")).retention, "forever");
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 1);
    same([await bench.exists("a"), await bench.exists("b")], [false, true]);
  });

  test("B4 with a run go its history, its messages, its activities and its keys: the same start begins a new run", async (bench) => {
    await closedWithAll(bench, "a", { retention: DAY });
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 1);
    await isGone(bench);
  });

  test("B4 delete removes a closed run now, with all that belongs to it", async (bench) => {
    await closedWithAll(bench, "a");
    same(await bench.store.delete(["a"]), ["deleted"]);
    await isGone(bench);
  });

  test("B4 delete leaves open runs alone, and says so; M12 a removed run is not found", async (bench) => {
    await bench.parked("open");
    await bench.created("pending");
    const blocked = await bench.running("blocked");
    await bench.park(blocked, { status: "blocked", blocked: { error: failure("no"), code: "c" } });
    await bench.close(await bench.running("closed"));
    same(await bench.store.delete(["open", "closed", "unknown", "pending", "closed", "blocked"]), [
      ...["open", "deleted", "not-found", "open", "not-found", "open"],
    ]);
    same(await Promise.all(["open", "pending", "blocked", "closed"].map((id) => bench.exists(id))), [true, true, true, false]);
    same(await bench.send("closed", signal("s1")), { status: "not-found" });
    same(await bench.store.terminate([{ runId: "closed", reason: undefined }]), [{ status: "not-found" }]);
    same(await bench.store.resume(["closed"]), ["not-found"]);
    same(await bench.store.history("closed"), []);
  });

  test("B4 a run stays while the execution that started it is open, and others go meanwhile", async (bench) => {
    const ids = range(3).map((i) => `child ${i}`);
    const parent = await parentOf(bench, "abandon", ids, {}, { retention: DAY });
    for (const id of ids) await bench.close(await bench.hold(id));
    bench.time += 1;
    await bench.close(await bench.running("other", { retention: DAY }));
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 1);
    same([await bench.exists("child 0"), await bench.exists("other")], [true, false]);
    // P10: the next execution of the same run did not start them.
    const next = { input: payload("next"), version: undefined, seed: "seed 2", carried: [] };
    await bench.close(parent, { status: "continued", next });
    assert.equal(await retired(bench), 3);
    assert.equal(await bench.exists("p"), true);
  });

  test("B4 a run that is resumed or started again stays, and its next end sets a new time", async (bench) => {
    const failed = await bench.running("resumed", { retention: DAY });
    await bench.close(failed, { status: "failed", error: failure("no") }, { turn: bench.turn(failed) });
    await bench.close(await bench.running("restarted", { retention: DAY }));
    await bench.close(await bench.running("shorter", { retention: "forever" }));
    bench.time += 100;
    same(await bench.store.resume(["resumed"]), ["resumed"]);
    for (const id of ["restarted", "shorter"])
      await bench.create(id, { onConflict: "restart-if-closed", retention: id === "shorter" ? DAY : undefined });
    bench.time += 2 * DAY;
    assert.equal(await retired(bench), 0);
    for (const id of ["resumed", "restarted", "shorter"]) await bench.close(await bench.hold(id));
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 2);
    assert.equal(await bench.exists("restarted"), true); // its newest start says nothing
  });

  test("B4 a run that continues keeps the retention of its start", async (bench) => {
    const held = await bench.running("a", { retention: DAY });
    const next = { input: payload("next"), version: undefined, seed: "seed 2", carried: [] };
    await bench.close(held, { status: "continued", next });
    bench.time += 2 * DAY;
    assert.equal(await retired(bench), 0);
    await bench.close(await bench.hold("a"));
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 1);
  });

  test("B4 a child whose parent was removed answers no other run of that id", async (bench) => {
    const parent = await parentOf(bench, "abandon", ["child", "failed"]);
    const child = await bench.hold("child");
    const failed = await bench.hold("failed");
    await bench.close(failed, { status: "failed", error: failure("no") }, { turn: bench.turn(failed) });
    await bench.close(parent);
    same(await bench.store.delete(["p"]), ["deleted"]);
    const another = await bench.running("p");
    assert.equal((await bench.row("child")).parent, undefined);
    await bench.close(child);
    await bench.store.resume(["failed"]);
    await bench.close(await bench.hold("failed"));
    same(idsOf(await bench.inbox(another)), []);
    await bench.close(another);
    assert.equal((await bench.row("child")).status, "completed");
  });

  test("B4 a child whose id was derived replaces the closed child that an earlier parent of that id has left", async (bench) => {
    for (const announce of [false, true]) {
      const [p, c] = [`p ${announce}`, `p ${announce}/c`];
      const child = (parent: Held, more: Partial<NewRun> = {}): NewRun =>
        bench.newRun(c, { parent: { ...linkTo(parent, 4), announce }, replacesOrphan: true, ...more });
      const first = await bench.running(p);
      await bench.commit(first, { turn: bench.turn(first), children: [child(first, { attributes: { old: 1 } })] });
      await bench.sent(c, signal("s1"), "key of s1");
      const old = await bench.hold(c);
      const grandchild = bench.newRun(`${c}/g`, { parent: { ...linkTo(old, 2), parentClose: "abandon" } });
      await bench.commit(old, { turn: bench.turn(old), state: payload("published"), children: [grandchild] });
      await bench.close(old);
      await bench.close(first);
      same(await bench.store.delete([p]), ["deleted"]);

      const second = await bench.running(p);
      const inbox = await bench.commit(second, { turn: bench.turn(second), children: [child(second, { input: payload("again") })] });
      same(inbox.map(({ job }) => job.type), announce ? ["childStarted"] : []); // biome-ignore format: one line
      const { status, parent, input, state, execution, turns, attributes } = await bench.row(c);
      same({ status, parent, input, state, execution, turns, attributes }, {
        ...{ status: "pending", parent: { ...linkTo(second, 4), announce }, input: payload("again"), state: undefined },
        ...{ execution: 1, turns: 0, attributes: {} },
      }); // biome-ignore format: a table
      assert.equal((await bench.row(`${c}/g`)).parent, undefined);
      // Its keys are free, too.
      assert.equal((await bench.send(c, signal("s1"), "key of s1")).status, "sent");
      const held = await bench.hold(c);
      await bench.close(held);
      assert.equal((await bench.inbox(second)).at(-1)?.job.type, "resolve");
    }
  });

  test("B4 P10 a child whose id was derived replaces no run that is open, has its parent, never had one, is of another workflow or is kept forever", async (bench) => {
    const ids = ["open", "started", "other", "kept", "restarted"];
    const old = await bench.running("p");
    const link = (seq: number): ParentLink => ({ ...linkTo(old, seq), parentClose: "abandon" });
    const children = [
      bench.newRun("open", { parent: link(2) }),
      bench.newRun("other", { parent: link(3), workflow: "another" }),
      bench.newRun("kept", { parent: link(4), retention: "forever" }),
      bench.newRun("restarted", { parent: link(5) }),
    ];
    await bench.commit(old, { turn: bench.turn(old), children });
    await bench.created("started");
    await bench.store.terminate(["started", "other", "kept", "restarted"].map((runId) => ({ runId, reason: undefined })));
    await bench.close(old);
    const before = await bench.store.get(ids);
    // Of the same parent, which is there.
    const open = await bench.running("q");
    await bench.commit(open, { turn: bench.turn(open), children: [bench.newRun("mine", { parent: linkTo(open, 2) })] });
    await bench.store.terminate([{ runId: "mine", reason: undefined }]);
    const mine = bench.newRun("mine", { parent: linkTo(open, 7), replacesOrphan: true });
    same(failedSeqs(await bench.commit(open, { turn: bench.turn(open), children: [mine] })), [7]);

    same(await bench.store.delete(["p"]), ["deleted"]);
    await bench.create("restarted", { onConflict: "restart-if-closed" });
    await bench.store.terminate([{ runId: "restarted", reason: undefined }]);
    const parent = await bench.running("p");
    const again = ids.map((id, i) => bench.newRun(id, { parent: linkTo(parent, i + 2), replacesOrphan: true, seed: "new" }));
    same(failedSeqs(await bench.commit(parent, { turn: bench.turn(parent), children: again })), [2, 3, 4, 5, 6]);
    const after = await bench.store.get(ids);
    same(after.map((row) => row?.seed), before.map((row) => row?.seed)); // biome-ignore format: one line
  });

  test("B4 many go in small batches", async (bench) => {
    const ids = range(250).map((i) => `r${i}`);
    await bench.store.create(ids.map((id) => bench.newRun(id, { retention: DAY })));
    await bench.store.terminate(ids.map((runId) => ({ runId, reason: undefined })));
    bench.time += DAY + 1;
    assert.equal(await retired(bench), 250);
    same((await bench.store.count({})).terminated, 0);
  });

  if (suite.refuseBad !== undefined) {
    const { refuseBad } = suite;
    test("B4 D3 a run that can't be removed stops no other from being removed, and the call at the end says so", async (bench) => {
      for (const id of ["a", "bad", "b"]) await bench.close(await bench.running(id, { retention: DAY }));
      await refuseBad(bench.raw);
      bench.time += DAY + 1;
      await bench.store.expire();
      assert.equal(await bench.store.retire(), 2);
      await assert.rejects(bench.store.retire(), { code: "HF_STORE_REFUSED" });
      same(await Promise.all(["a", "bad", "b"].map((id) => bench.exists(id))), [false, true, false]);
    });
  }

  if (suite.shares) {
    test("B4 two processes that remove the same runs do not get in each other's way", async (bench) => {
      const ids = range(250).map((i) => `r${i}`);
      await bench.store.create(ids.map((id) => bench.newRun(id, { retention: DAY })));
      await bench.store.terminate(ids.map((runId) => ({ runId, reason: undefined })));
      bench.time += DAY + 1;
      const other = await bench.beside();
      try {
        const [here, there] = await Promise.all([retired(bench), retired(other)]);
        assert.equal(here + there + (await retired(bench)), 250);
      } finally {
        await other.store.close();
      }
    });
  }
}

/** As an engine with this retention has it open. */
async function reopened(bench: Bench, retention: number | undefined): Promise<void> {
  await bench.raw.close();
  await bench.raw.open({ retention });
}
/** A store may look at what is due only where it looks at deadlines. */
async function retired(bench: Bench): Promise<number> {
  await bench.store.expire();
  let gone = 0;
  for (let count = await bench.store.retire(); count > 0; count = await bench.store.retire()) gone += count;
  return gone;
}
function firstRun(bench: Bench, more: Partial<TurnCommit>): NewRun {
  const held = { runId: "a", execution: 1, epoch: 1, workerId: "w1", turns: 0 };
  return bench.newRun("a", { first: { workerId: "w1", lease: LEASE, commit: bench.draft(held, { turn: bench.turn(held), ...more }) } });
}

const linkTo = ({ runId, execution }: Held, seq: number): ParentLink => ({ runId, execution, seq, parentClose: "cancel", announce: false });

/** The operations that were answered with RunAlreadyExistsError. */
const failedSeqs = (inbox: readonly InboxMessage[]): number[] =>
  inbox.flatMap(({ job }) => (job.type === "resolve" && failureOf(job.outcome) === "RunAlreadyExistsError" ? [job.seq] : []));

/** A run "p" that has started these. */
async function parentOf(
  bench: Bench,
  parentClose: ParentLink["parentClose"],
  ids: readonly string[],
  more: Partial<NewRun> = {},
  ofChildren: Partial<NewRun> = {},
): Promise<Held> {
  const held = await bench.running("p", more);
  const link = (seq: number): ParentLink => ({ runId: "p", execution: 1, seq, parentClose, announce: false });
  const children = ids.map((id, i) => bench.newRun(id, { ...ofChildren, parent: link(i + 2) }));
  await bench.commit(held, { turn: bench.turn(held), children });
  return held;
}

/** A closed run that leaves something in every table. */
async function closedWithAll(bench: Bench, id: string, more: Partial<NewRun> = {}): Promise<void> {
  const held = await bench.running(id, { idempotencyKey: "start", attributes: { x: 1 }, ...more });
  await bench.sent(id, signal("s1"), "key of s1");
  await bench.sent(id, { type: "update", id: "u1", name: "change", input: payload(1) }, "u1");
  await bench.commit(held, {
    turn: bench.turn(held),
    state: payload("published"),
    attempts: [{ seq: 1, number: 1, status: "failed", startedAt: 1, workerId: "w1" }],
    tasks: [bench.newTask(2)],
  });
  await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
}
async function isGone(bench: Bench): Promise<void> {
  assert.equal(await bench.exists("a"), false);
  same(await bench.store.history("a"), []);
  same(await bench.store.attempts("a"), []);
  assert.equal(await bench.outcome("a", "u1"), undefined);
  same((await bench.store.list({ attributes: { x: 1 }, limit: 10 })).runs, []);
  // The key is free, and so is the id: nothing of the old run is there.
  assert.equal((await bench.create("b", { idempotencyKey: "start" })).status, "created");
  const again = await bench.running("a", { idempotencyKey: "another" });
  const { state, execution, turns, historyLength } = await bench.row("a");
  same({ state, execution, turns, historyLength }, { state: undefined, execution: 1, turns: 0, historyLength: 0 });
  same(idsOf(await bench.inbox(again)), []);
  assert.equal((await bench.send("a", signal("s2"), "key of s1")).status, "sent");
  same(only(await bench.store.get(["a"]))?.attributes, {});
}
