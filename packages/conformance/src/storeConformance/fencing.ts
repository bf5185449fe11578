// Conformance: which claims may write.
// Owns: tests of the fence around `commit`: epochs, executions, closed runs, field by field; and of batches.
// Invariants tested: D2, D3, D4, K5.

import assert from "node:assert/strict";
import type { TurnCommit } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, failure, type Held, LEASE, only, payload, range, START, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

/** A commit of each kind that a stale worker could try. */
function attemptsToWrite(bench: Bench, held: Held): Readonly<Record<string, Partial<TurnCommit>>> {
  const parent = { runId: held.runId, execution: 1, seq: 9, parentClose: "cancel", announce: true } as const;
  return {
    "a turn": { turn: bench.turn({ ...held }) },
    "consumed messages": { consumed: range(100) },
    attempts: { attempts: [{ seq: 1, number: 1, status: "failed", error: failure("no"), startedAt: START, workerId: "w1" }] },
    "a status": { status: "rolling_back" },
    "a block": { status: "blocked", blocked: { error: failure("diverged"), code: "c1" }, lease: "park" },
    "an attempt of the run": { attempt: 7 },
    rollbacks: { rollbacks: 3 },
    waits: { waitingFor: ["signal x"] },
    "published state": { state: payload("stale") },
    attributes: { attributes: { stale: true, kept: null } },
    "a parking": { lease: "park", status: "sleeping" },
    "a wake-up": { lease: "park", status: "sleeping", wakeAt: START },
    "a child": { children: [bench.newRun("stale-child", { parent })] },
    "a send": { sends: [{ seq: 9, runId: "target", message: { job: signal("stale"), idempotencyKey: "stale" } }] },
    "a cancel of another run": { sends: [{ seq: 9, runId: "target", message: { job: CANCEL } }] },
    "a task": { tasks: [bench.newTask(9)] },
    "a cancelled task": { cancelTasks: [2] },
    "a cancelled child": { cancelChildren: [3] },
    "an outcome of an update": { updates: [{ id: "u1", outcome: { status: "completed", value: payload("stale") } }] },
    "an end": { close: COMPLETED, status: "completed" },
    "a failure": { close: { status: "failed", error: failure("stale") }, status: "failed" },
    "a next execution": {
      close: { status: "continued", next: { input: payload("stale"), version: "9", seed: "stale", carried: [{ job: signal("stale") }] } },
      status: "continued",
    },
  };
}

/** All that can be seen of the store, by way of calls that change nothing. */
async function everything(bench: Bench, holder: Held | undefined): Promise<unknown> {
  const ids = ["a", "target", "child", "stale-child", "parent"];
  const rows = await bench.store.get(ids);
  const histories = await Promise.all(ids.map((id) => bench.store.history(id)));
  const attempts = await Promise.all(ids.map((id) => bench.attempts(id)));
  const outcomes = await bench.store.updates(ids.flatMap((runId) => ["u1", "u2"].map((id) => ({ runId, id }))));
  const inbox = holder === undefined ? undefined : await bench.inbox(holder);
  const count = await bench.store.count({});
  return { rows, histories, attempts, outcomes, inbox, count };
}

/** A run with something of everything: history, inbox, child, task, parent, attributes; and a target for messages, parked. */
async function scene(bench: Bench): Promise<Held> {
  const parent = await bench.running("parent");
  const link = { runId: "parent", execution: 1, seq: 1, parentClose: "abandon", announce: false } as const;
  await bench.park(parent, {
    turn: bench.turn(parent),
    children: [bench.newRun("a", { parent: link, attributes: { kept: 1 }, deadline: 100 * LEASE })],
  });
  await bench.parked("target");
  const held = await bench.hold("a");
  const child = bench.newRun("child", { parent: { runId: "a", execution: 1, seq: 3, parentClose: "terminate", announce: false } });
  await bench.commit(held, {
    turn: bench.turn(held),
    children: [child],
    tasks: [bench.newTask(2, { queue: "tasks of a" })],
    state: payload("fresh"),
  });
  const started = await bench.hold("child");
  await bench.park(started, { turn: bench.turn(started) });
  await bench.sent("a", signal("s1"));
  await bench.sent("a", update("u1"));
  return held;
}

export function fencing({ test }: Suite): void {
  test("D4 a claim that was given back writes nothing more, though the next one has written nothing yet", async (bench) => {
    const first = await bench.running("a");
    await bench.commit(first, { turn: bench.turn(first) });
    await bench.park(first, { wakeAt: bench.time });
    const row = await bench.row("a");
    assert.deepEqual([row.turns, row.historyLength], [1, 1]); // a commit without a turn counts those before it
    const second = await bench.hold("a", { workerId: "w2" });
    const turn = { ...bench.turn(first), index: 1 };
    assert.equal((await bench.tryCommit(first, { turn })).status, "stale");
    assert.equal((await bench.tryCommit(first, { turn, close: COMPLETED, status: "completed" })).status, "stale");
    await bench.close(second);
    assert.equal(await bench.store.history("a").then((turns) => turns?.length), 1);
  });
  test("C7 a run that ends abandons its own activities and no others", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2)] });
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
    assert.equal((await bench.claimTasks()).length, 0);
  });
  test("D4 a stale epoch writes nothing, whatever it tries: no record, no message, no child, no task, no end", async (bench) => {
    const stale = await scene(bench);
    bench.time += LEASE;
    const holder = await bench.hold("a", { workerId: "w2" });
    const before = await everything(bench, holder);
    for (const [what, fields] of Object.entries(attemptsToWrite(bench, stale))) {
      assert.equal((await bench.tryCommit(stale, fields)).status, "stale", what);
      same(await everything(bench, holder), before, what);
    }
    same(await bench.claimTasks(), []);
    assert.equal((await bench.claimTasks({ queue: "tasks of a" })).length, 1);
    await bench.sent("target", signal("fresh"), "stale");
    same((await bench.claimRun("target")).inbox.map(({ job }) => ("id" in job ? job.id : job.type)), ["fresh"]); // biome-ignore format: one line
  });
  test("D4 an epoch or execution that the run never had writes nothing", async (bench) => {
    const held = await scene(bench);
    const before = await everything(bench, held);
    for (const wrong of [{ epoch: held.epoch + 1 }, { epoch: 0 }, { execution: held.execution + 1 }, { execution: 0 }]) {
      for (const [what, fields] of Object.entries(attemptsToWrite(bench, held))) {
        assert.equal((await bench.tryCommit({ ...held, ...wrong }, fields)).status, "stale", what);
      }
    }
    same(await everything(bench, held), before);
  });
  for (const status of ["completed", "failed", "canceled", "terminated"] as const) {
    test(`K5 a run that is ${status} stays so, whatever its worker still tries to write`, async (bench) => {
      const held = await scene(bench);
      if (status === "terminated") await bench.store.terminate([{ runId: "a", reason: "enough" }]);
      else await bench.close(held, { status, ...(status === "failed" && { error: failure("no") }) });
      assert.equal((await bench.row("a")).status, status);
      const before = await everything(bench, undefined);
      for (const epoch of [held.epoch, held.epoch + 1]) {
        for (const [what, fields] of Object.entries(attemptsToWrite(bench, held))) {
          assert.equal((await bench.tryCommit({ ...held, epoch }, fields)).status, "stale", what);
        }
      }
      assert.equal((await bench.send("a", CANCEL)).status, status === "canceled" ? "duplicate" : "closed"); // it is what was asked for
      same(await bench.store.terminate([{ runId: "a", reason: undefined }]), [{ status: "closed", runStatus: status }]);
      bench.time += 1_000 * LEASE;
      await bench.store.expire();
      same((await bench.claim({ queue: "queue of a" })).runs, []);
      same((await bench.claim({ queue: "queue of a", blockedAfter: 0 })).runs, []);
      same(await everything(bench, undefined), before);
    });
  }
  test("D4 a claim that parked is over: it writes nothing more", async (bench) => {
    const held = await scene(bench);
    await bench.park(held, { wakeAt: START + 5 });
    const before = await everything(bench, undefined);
    for (const [what, fields] of Object.entries(attemptsToWrite(bench, held))) {
      for (const status of ["running", "sleeping"] as const) {
        assert.equal((await bench.tryCommit(held, { status, ...fields })).status, "stale", what);
      }
    }
    same(await everything(bench, undefined), before);
  });
  test("D4 a commit for a run that does not exist writes nothing", async (bench) => {
    const missing = { runId: "missing", execution: 1, epoch: 1, workerId: "w1", turns: 0 };
    await bench.parked("target");
    for (const [what, fields] of Object.entries(attemptsToWrite(bench, missing))) {
      assert.equal((await bench.tryCommit(missing, fields)).status, "stale", what);
    }
    same(await bench.store.get(["missing", "stale-child"]), [undefined, undefined]);
    assert.equal(await bench.isClaimable("target"), false);
  });

  // ── batches ──

  test("D3 one stale turn in a batch takes no other with it, and answers come in order", async (bench) => {
    const [a, b, c] = [await bench.running("a"), await bench.running("b"), await bench.running("c")];
    const drafts = [a, { ...b, epoch: b.epoch + 1 }, c].map((held) =>
      bench.draft(held, { turn: bench.turn(held), state: payload(held.runId) }),
    );
    const results = await bench.store.commit(drafts);
    same(results.map(({ status }) => status), ["committed", "stale", "committed"]); // biome-ignore format: one line
    same((await bench.store.get(["a", "b", "c"])).map((row) => row?.turns), [1, 0, 1]); // biome-ignore format: one line
  });
  test("D3 turns of one run in one batch are applied in order, and after its end the rest is stale", async (bench) => {
    const a = await bench.running("a");
    const drafts = [
      bench.draft(a, { turn: bench.turn(a) }),
      bench.draft(a, { turn: bench.turn(a), close: COMPLETED, status: "completed" }),
      bench.draft(a, { turn: bench.turn(a) }),
    ];
    same((await bench.store.commit(drafts)).map(({ status }) => status), ["committed", "committed", "stale"]); // biome-ignore format: one line
    same((await bench.store.history("a")).map(({ index }) => index), [0, 1]); // biome-ignore format: one line
  });
  test("D3 commits at the same time are each whole", async (bench) => {
    const runs = await Promise.all(range(40).map((i) => bench.running(`r${i}`)));
    const stale = (i: number) => i % 5 === 0;
    const results = await Promise.all(
      runs.map((held, i) =>
        bench.tryCommit(stale(i) ? { ...held, epoch: 0 } : held, { turn: bench.turn(held), state: payload(i), attributes: { i } }),
      ),
    );
    for (const i of range(40)) {
      assert.equal(results[i]?.status, stale(i) ? "stale" : "committed");
      const { turns, state, attributes } = await bench.row(`r${i}`);
      same({ turns, state, attributes }, stale(i) ? { turns: 0, attributes: {} } : { turns: 1, state: payload(i), attributes: { i } });
    }
  });
  test("D4 of two workers with one claim each, the older loses, however they race", async (bench) => {
    for (const i of range(20)) {
      const old = await bench.running(`r${i}`);
      bench.time += LEASE;
      const request = { queue: `queue of r${i}`, workerId: "w2" };
      const [claimed, committed] = await Promise.all([bench.claim(request), bench.tryCommit(old, { turn: bench.turn(old) })]);
      // A claim may pass over a run that is being written to at that moment: then it comes after the commit.
      const run = only(claimed.runs.length === 0 ? (await bench.claim(request)).runs : claimed.runs);
      // A commit before the claim is in the history that the claim brought; one after it is stale.
      same(run.turns?.length, committed.status === "committed" ? 1 : 0);
      assert.equal((await bench.row(`r${i}`)).turns, run.turns?.length);
    }
  });
}
