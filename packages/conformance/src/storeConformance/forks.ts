// Conformance: runs that begin with the history of another one.
// Owns: tests of `copied`, of the message that begins the first turn after it, and of `inbox`.
// Invariants tested: F1 (the copied turns are there with the run, or neither is), F2 (the source is only read), F3, F5, D12, M3, K9.

import assert from "node:assert/strict";
import type { Job, Turn } from "@holdfast/core";
import type { CopiedHistory, ForkMessage, NewRun } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, failure, heldOf, idsOf, jobsOf, only, payload, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

const BYTES = new Uint8Array([0, 1, 254, 255]);
const TURNS: readonly Turn[] = [
  {
    index: 0,
    time: START - 900,
    historyLength: 0,
    jobs: [{ type: "start", runId: "source", workflow: "order", input: payload("in"), seed: "seed", startedAt: START - 900 }],
    commands: [
      { type: "step", seq: 1, unit: "", name: "a", n: 0 },
      { type: "child", seq: 2, unit: "", name: "ship", n: 0, input: payload(1), id: "source/ship", detached: true },
    ],
    state: payload("early"),
  },
  {
    index: 3,
    time: START - 800,
    historyLength: 3,
    jobs: [
      { type: "resolve", seq: 1, outcome: { status: "completed", value: payload("a") } },
      { type: "childStarted", seq: 2, runId: "fork/ship", standsFor: ["source/ship"] },
      { type: "signal", id: "s1", name: "poke", payload: payload("s1") },
    ],
    commands: [{ type: "step", seq: 3, unit: "", name: "b", n: 0 }],
    state: payload("late"),
  },
];
/** Two turns between them were trimmed. */
const COPIED: CopiedHistory = {
  turns: TURNS,
  attempts: [
    { seq: 1, number: 1, status: "failed", error: failure("once"), startedAt: 1, endedAt: 2, workerId: "w-source", retryAt: 3 },
    { seq: 1, number: 2, status: "completed", startedAt: 3, endedAt: 4, workerId: "w-source" },
    { seq: 2, number: 1, status: "completed", startedAt: 3, endedAt: 4, workerId: "w-other", task: true },
    { seq: 3, number: 0, status: "failed", startedAt: 5, endedAt: 5, workerId: "", retryAt: 0 },
  ],
  workers: new Map([[0, "w-source"]]),
  attempt: 2,
  rollbacks: 1,
  state: payload("late"),
  keys: ["s1"],
};
const JOBS: readonly Job[] = [
  { type: "resolve", seq: 3, outcome: { status: "completed", value: payload({ deep: [1, "x"] }) } },
  { type: "resolve", seq: 2, outcome: { status: "completed", value: BYTES } },
  { type: "resolve", seq: 4, outcome: { status: "failed", error: failure("no"), attempts: 3 } },
  { type: "fire", seq: 5 },
  { type: "resume", attempt: 2, voids: [7] },
  { type: "signal", id: "s2", name: "poke", payload: payload("s2") },
  { type: "update", id: "u1", name: "change", input: BYTES },
  { type: "cancel", reason: "why" },
];
const FIRST: ForkMessage = {
  type: "fork",
  runId: "fork",
  from: "source",
  version: "2",
  seed: "new seed",
  startedAt: START,
  dropsRollbacks: true,
  jobs: JOBS,
};
const forkOf = (bench: Bench, more: Partial<NewRun> = {}): NewRun =>
  bench.newRun("fork", {
    forkedFrom: "source",
    copied: COPIED,
    messages: [{ job: FIRST }, { job: signal("s3"), idempotencyKey: "s3" }],
    ...more,
  });

export function forks({ test, crashes }: Suite): void {
  test("F1 D12 a run begins with the turns, attempts and state that it is created with", async (bench) => {
    same(only(await bench.store.create([forkOf(bench)])).status, "created");
    const { status, turns, historyLength, attempt, state, execution, forkedFrom, availableAt, startedAt } = await bench.row("fork");
    same([status, turns, historyLength, attempt, execution, forkedFrom], ["sleeping", 4, 7, 2, 1, "source"]);
    same([state, availableAt, startedAt], [payload("late"), START, undefined]);
    same(await bench.store.history("fork"), TURNS);
    const attempts = (await bench.store.attempts("fork")).map(({ seq, number, status, task = false }) => [seq, number, status, task]);
    same(attempts.toSorted(), [[1, 1, "failed", false], [1, 2, "completed", false], [2, 1, "completed", true], [3, 0, "failed", false]]); // biome-ignore format: a list
    if (bench.store.workers !== undefined) assert.ok(!(await bench.store.workers("fork")).has(3));
  });
  test("F1 its first message comes back as it was, with all its jobs, and later signals after it", async (bench) => {
    await bench.store.create([forkOf(bench)]);
    same(jobsOf(await bench.store.inbox("fork")), [FIRST, signal("s3")]);
    const claimed = await bench.claimRun("fork");
    same([claimed.turns, jobsOf(claimed.inbox), claimed.recovered], [TURNS, [FIRST, signal("s3")], false]);
    same(claimed.attempts.map(({ seq, number }) => [seq, number]), [[1, 1], [1, 2], [3, 0]]); // biome-ignore format: a list
    const held = heldOf(claimed);
    const turn = { ...bench.turn(held), index: 4, historyLength: 7 };
    await bench.commit(held, { turn, consumed: [claimed.inbox[0]?.id ?? 0] });
    same(
      (await bench.store.history("fork")).map(({ index }) => index),
      [0, 3, 4],
    );
    same(idsOf(await bench.store.inbox("fork")), ["s3"]);
    same((await bench.row("fork")).turns, 5);
  });
  test("F3 M3 the keys of copied signals are used, and those of others are not", async (bench) => {
    await bench.store.create([forkOf(bench)]);
    const send = async (key: string): Promise<string> =>
      only(await bench.store.send([{ runId: "fork", message: { job: signal(key), idempotencyKey: key } }])).status;
    same([await send("s1"), await send("s3"), await send("s4")], ["duplicate", "duplicate", "sent"]);
  });
  test("F1 K9 a cancellation waits for the first turn of a run that has copied ones", async (bench) => {
    await bench.store.create([forkOf(bench, { messages: [{ job: FIRST }] })]);
    await bench.store.send([{ runId: "fork", message: { job: CANCEL } }]);
    same((await bench.row("fork")).status, "sleeping");
    same(
      (await bench.claimRun("fork")).inbox.map(({ job }) => job.type),
      ["fork", "cancel"],
    );
  });
  test("F5 F2 a taken id is a conflict, and nothing of the copy is written", async (bench) => {
    const held = await bench.running("fork");
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
    const before = [await bench.row("fork"), await bench.store.history("fork"), await bench.store.attempts("fork")];
    same(only(await bench.store.create([forkOf(bench)])).status, "conflict");
    same([await bench.row("fork"), await bench.store.history("fork"), await bench.store.attempts("fork")], before);
    same(await bench.store.inbox("fork"), []);
  });
  test("F2 reading the messages of a run changes nothing, and an unknown run has none", async (bench) => {
    await bench.create("source", { messages: [{ job: signal("s1") }, { job: signal("s2") }] });
    const before = await bench.row("source");
    same(idsOf(await bench.store.inbox("source")), ["s1", "s2"]);
    same(await bench.store.inbox("missing"), []);
    same(await bench.row("source"), before);
  });
  test("F1 F3 M3 K9 a run that begins with no turn, only with the messages of its first one, is pending, and their keys are used", async (bench) => {
    const copied: CopiedHistory = { turns: [], attempts: [], workers: new Map(), attempt: 1, rollbacks: 0, state: undefined, keys: ["s2"] };
    await bench.store.create([forkOf(bench, { copied, messages: [{ job: FIRST }] })]);
    const { status, turns, historyLength } = await bench.row("fork");
    same([status, turns, historyLength], ["pending", 0, 0]);
    same((await bench.send("fork", signal("s2"), "s2")).status, "duplicate");
    await bench.send("fork", CANCEL);
    same((await bench.row("fork")).status, "canceled");
  });
  if (crashes)
    test("F1 D2 the copy lasts", async (bench) => {
      await bench.store.create([forkOf(bench)]);
      await bench.crash();
      same(await bench.store.history("fork"), TURNS);
      same(jobsOf(await bench.store.inbox("fork")), [FIRST, signal("s3")]);
      same((await bench.row("fork")).state, payload("late"));
    });
}
