// Conformance: what a turn writes.
// Owns: tests of history and its trimming, published state, attributes, attempts, waits, payloads of all kinds.
// Invariants tested: D2, D12, L4, P5, P8, D6, P11.

import assert from "node:assert/strict";
import { recordCount, type Turn, trimmed } from "@holdfast/core";
import type { TurnCommit } from "holdfast/store";
import { type Bench, COMPLETED, failure, type Held, jobsOf, LEASE, payload, range, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function turns({ test }: Suite): void {
  test("D2 a turn is appended to history, and the run counts its turns and records", async (bench) => {
    const held = await bench.running("a");
    const first = bench.turn(held, {
      jobs: [{ type: "start", runId: "a", workflow: "order", input: payload("a"), seed: "s", startedAt: START }],
    });
    const second = bench.turn(held, {
      jobs: [{ type: "resolve", seq: 1, outcome: { status: "completed", value: payload([1]) } }],
      state: payload({ x: 1 }),
    });
    await bench.commit(held, { turn: first });
    await bench.commit(held, { turn: second });
    same(await bench.store.history("a"), [first, second]);
    const { turns, historyLength } = await bench.row("a");
    same({ turns, historyLength }, { turns: 2, historyLength: recordCount(first) + recordCount(second) });
  });
  test("D2 a commit without a turn adds none", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { attempts: [{ seq: 1, number: 1, status: "running", startedAt: START, workerId: "w1" }] });
    const { turns, historyLength } = await bench.row("a");
    same({ turns, historyLength, history: await bench.store.history("a") }, { turns: 0, historyLength: 0, history: [] });
  });
  test("D2 with a turn or without, an end, a parking and a word leave the right counts, alone and among others", async (bench) => {
    const ways: Readonly<Record<string, Partial<TurnCommit>>> = {
      ends: { close: COMPLETED, status: "completed" },
      parks: { lease: "park", status: "sleeping" },
      says: { waitingFor: ["x"] },
      goes: {},
    };
    const drafts = new Map<string, TurnCommit>();
    const names = Object.keys(ways).flatMap((way) => ["with", "without"].flatMap((how) => [`${way} ${how} alone`, `${way} ${how} others`]));
    for (const name of names) {
      const held = await bench.running(name);
      for (const _ of range(2)) await bench.commit(held, { turn: bench.turn(held) });
      const [way = "", how] = name.split(" ");
      drafts.set(name, bench.draft(held, { ...ways[way], ...(how === "with" && { turn: bench.turn(held) }) }));
    }
    for (const [name, draft] of drafts) if (name.endsWith("alone")) await bench.store.commit([draft]);
    await bench.store.commit([...drafts].flatMap(([name, draft]) => (name.endsWith("alone") ? [] : [draft])));
    for (const name of names) {
      const count = name.includes("without") ? 2 : 3;
      const { turns, historyLength } = await bench.row(name);
      const history = (await bench.store.history(name)).length;
      same({ name, turns, historyLength, history }, { name, turns: count, historyLength: count, history: count });
    }
  });
  test("D2 what was handed to the store is copied: changing it later changes nothing", async (bench) => {
    const held = await bench.running("a");
    const attributes: Record<string, string> = { a: "1" };
    const waitingFor = ["x"];
    await bench.commit(held, { turn: bench.turn(held), attributes, waitingFor });
    attributes["a"] = "2";
    waitingFor.push("y");
    const row = await bench.row("a");
    same([row.attributes, row.waitingFor], [{ a: "1" }, ["x"]]);
    (row.attributes as Record<string, string>)["a"] = "3";
    same((await bench.row("a")).attributes, { a: "1" });
    (await bench.store.history("a")).pop();
    assert.equal((await bench.store.history("a")).length, 1);
  });
  test("L4 a commit that trims deletes what it leaves behind, and no more", async (bench) => {
    const held = await bench.running("a");
    let kept: Turn[] = [];
    for (const turn of loopTurns(bench, held, 12)) {
      await bench.commit(held, { turn });
      kept = trimmed([...kept, turn]);
      same(await bench.store.history("a"), kept);
      const { historyLength } = await bench.row("a");
      assert.equal(historyLength, kept.reduce((sum, one) => sum + recordCount(one), 0)); // biome-ignore format: one line
    }
    assert.ok(kept.length < 12, "something was trimmed");
    assert.equal((await bench.row("a")).turns, 12);
    bench.time += LEASE;
    same((await bench.claimRun("a")).turns, kept);
  });
  test("L4 a worker that has every turn of a trimmed history needs none", async (bench) => {
    const held = await bench.running("a");
    for (const turn of loopTurns(bench, held, 12)) await bench.commit(held, { turn });
    await bench.park(held, { wakeAt: START });
    assert.equal((await bench.claimRun("a", { cached: () => ({ execution: 1, turns: 12 }) })).turns, undefined);
  });
  test("P5 published state is replaced whole, with its commit, and stays", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { state: payload({ x: 1, y: 2 }) });
    same((await bench.row("a")).state, payload({ x: 1, y: 2 }));
    await bench.commit(held, { state: payload({ z: 3 }) });
    await bench.commit(held, {});
    same((await bench.row("a")).state, payload({ z: 3 }));
    await bench.close(held);
    same((await bench.row("a")).state, payload({ z: 3 }));
  });
  test("D2 attributes are merged, and null removes one", async (bench) => {
    const held = await bench.running("a", { attributes: { a: 1, b: "x", c: true } });
    await bench.commit(held, { attributes: { a: 2, b: null, d: false, unknown: null } });
    same((await bench.row("a")).attributes, { a: 2, c: true, d: false });
    await bench.commit(held, {});
    same((await bench.row("a")).attributes, { a: 2, c: true, d: false });
  });
  test("P11 status, waits and the attempt of the run are as the commit says", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { status: "rolling_back", waitingFor: ["step x"], attempt: 3 });
    const { status, waitingFor, attempt } = await bench.row("a");
    same({ status, waitingFor, attempt }, { status: "rolling_back", waitingFor: ["step x"], attempt: 3 });
    bench.time += LEASE;
    assert.equal((await bench.claimRun("a")).run.status, "rolling_back");
  });
  test("D12 attempts are kept, one row for each number of each step, and the newest word on it counts", async (bench) => {
    const held = await bench.running("a");
    const begun = { seq: 1, number: 2, status: "running", startedAt: START, workerId: "w1" } as const;
    const failed = {
      seq: 1,
      number: 1,
      status: "failed",
      error: failure("no"),
      startedAt: START,
      endedAt: START + 1,
      workerId: "w1",
      retryAt: START + 9,
    } as const;
    const other = {
      seq: 2,
      number: 1,
      status: "failed",
      error: failure("no"),
      startedAt: START,
      endedAt: START + 2,
      workerId: "w1",
    } as const;
    await bench.commit(held, { turn: bench.turn(held), attempts: [failed, begun] });
    same(await bench.attempts("a"), [failed, begun]);
    const ended = { ...begun, status: "completed", endedAt: START + 5 } as const;
    await bench.commit(held, { attempts: [other, ended] });
    same(await bench.attempts("a"), [failed, ended, other]);
    await bench.park(held, { wakeAt: START });
    const { attempts } = await bench.claimRun("a");
    same(attempts.toSorted((a, b) => a.seq - b.seq || a.number - b.number), [failed, ended, other]); // biome-ignore format: one line
    await bench.close({ ...held, epoch: held.epoch + 1 });
    assert.equal((await bench.attempts("a")).length, 3);
  });
  test("D12 it is known who committed each turn of the newest execution that is kept", async (bench) => {
    if (bench.store.workers === undefined) return;
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.commit(held, { turn: bench.turn(held) });
    bench.time += LEASE;
    const other = await bench.hold("a", { workerId: "w2" });
    await bench.commit(other, { turn: bench.turn(other) });
    same([...(await bench.store.workers("a"))].toSorted(), [[0, "w1"], [1, "w1"], [2, "w2"]]); // biome-ignore format: pairs
    await bench.close(other, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } });
    same([...(await bench.store.workers("a"))], []);
  });
  test("P8 payloads come back as they were, text and bytes, wherever they stand", async (bench) => {
    const payloads = [
      payload(null), payload(undefined), payload("ünïcödé 🚀 '\"\\"), payload({ a: [1.5, -0, { b: null }] }), "not json {", "", payload("\u0000 \ud800 \udc00"), ' { "spaced" : 1 } ',
      new Uint8Array([0, 1, 254, 255]), new Uint8Array(),
    ]; // biome-ignore format: a list
    for (const [i, value] of payloads.entries()) {
      const id = `r${i}`;
      const held = await bench.running(id, { input: value, messages: [{ job: { type: "signal", id: "s1", name: "x", payload: value } }] });
      same((await bench.row(id)).input, value);
      same(jobsOf(await bench.inbox(held)), [{ type: "signal", id: "s1", name: "x", payload: value }]);
      const turn = bench.turn(held, {
        jobs: [{ type: "signal", id: "s1", name: "x", payload: value }],
        commands: [{ type: "sideEffect", seq: 1, unit: "", name: "x", n: 0, value }],
        state: value,
      });
      const tasks = [bench.newTask(1, { input: value })];
      await bench.commit(held, { turn, state: value, tasks, updates: [{ id: "u1", outcome: { status: "completed", value } }] });
      same(await bench.store.history(id), [turn]);
      same((await bench.row(id)).state, value);
      same(await bench.outcome(id, "u1"), { status: "completed", value });
      same((await bench.claimTask()).input, value);
      await bench.close(held, { status: "completed", output: value });
      same((await bench.row(id)).output, value);
    }
  });
  test("P8 errors come back with all they carry", async (bench) => {
    const held = await bench.running("a");
    const error = { name: "FatalError", message: "ünï", stack: "at x", data: { a: [1] }, cause: { name: "Error", message: "why" } };
    await bench.close(held, { status: "failed", error });
    same((await bench.row("a")).error, error);
  });
  test("P8 a large history comes back whole", async (bench) => {
    const held = await bench.running("a");
    const value = payload("x".repeat(300_000));
    const turns = range(4).map(() =>
      bench.turn(held, {
        commands: range(200).map((i) => ({ type: "sideEffect", seq: i, unit: "", name: "x", n: i, value: i === 7 ? value : payload(i) })),
      }),
    );
    await bench.store.commit(turns.map((turn) => bench.draft(held, { turn })));
    same(await bench.store.history("a"), turns);
  });

  test("D6 a transaction leaves its outcome in the inbox; a throw leaves nothing; a stale epoch writes nothing", async (bench) => {
    const held = await bench.running("a");
    const { store } = bench;
    if (store.transact === undefined) return;
    const { runId, epoch } = held;
    const message = await store.transact({ runId, epoch, seq: 5 }, () => payload("bought"));
    assert.ok(message !== "stale");
    same(message.job, { type: "resolve", seq: 5, outcome: { status: "completed", value: payload("bought") } });
    same(await bench.inbox(held), [message]);
    const thrown = new Error("rolled back");
    const throwing = () => {
      throw thrown;
    };
    await assert.rejects(async () => store.transact?.({ runId, epoch, seq: 6 }, throwing), thrown);
    assert.equal(await store.transact({ runId, epoch: epoch + 1, seq: 7 }, () => payload("late")), "stale");
    assert.equal(await store.transact({ runId: "missing", epoch, seq: 7 }, () => payload("late")), "stale");
    await bench.sent("a", signal("s1"));
    same((await bench.inbox(held)).map(({ job }) => job.type), ["resolve", "signal"]); // biome-ignore format: one line
  });
}

/** A loop that commits every two iterations and keeps the last one's records. */
function loopTurns(bench: Bench, held: Held, count: number): Turn[] {
  return range(count).map((i) => {
    const iteration = Math.floor(i / 2);
    const opening = i === 0 ? ([{ type: "loop", seq: 1, unit: "", name: "work", n: 0 }] as const) : [];
    const step = { type: "step", seq: i + 2, unit: `work/~${iteration}`, name: "step", n: i % 2 } as const;
    const jobs = i === 0 ? [] : ([{ type: "resolve", seq: i + 1, outcome: { status: "completed", value: payload(i) } }] as const);
    const state = {
      type: "commit",
      seq: 1,
      unit: "work",
      count: iteration,
      value: payload(iteration),
      trim: iteration - 1,
      lastSeq: i + 1,
    } as const;
    return bench.turn(held, { jobs, commands: [...opening, ...(i % 4 === 0 && i > 0 ? [state] : []), step] });
  });
}
