// Rows: what goes in comes out, and a person can read what is in between.

import { payload, range, signal, update } from "@holdfast/conformance/bench";
import type { Command, Job, Turn } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { commandOf, jobOf, toColumns } from "../../src/store/sqlite/recordCodec.ts";
import { LIBRARIES, newPath, openBench, openShell } from "./support.ts";

const value = payload({ amount: 12, at: new Date(0), odd: "\0\ud800", $x: 1 });
const bytes = new Uint8Array([0, 255, 1]);
const at = { seq: 3, unit: "a/~1", name: "charge", n: 0 };
const error = { name: "Error", message: "no\0", data: { $x: [1, null], list: [{ $date: "not one" }] } };
const retry = { maxAttempts: Number.POSITIVE_INFINITY, nonRetryable: ["TypeError"] };

const JOBS: readonly Job[] = [
  { type: "start", runId: "a", workflow: "order", version: "2", input: value, seed: "s", startedAt: 5, execution: 2, attempt: 1, parentId: "p", retry: { maxAttempts: Number.POSITIVE_INFINITY, initialInterval: 1, backoff: 2, maxInterval: 3, jitter: 0.1 } },
  { type: "resolve", seq: 1, outcome: { status: "completed", value } },
  { type: "resolve", seq: 1, outcome: { status: "completed", value: bytes } },
  { type: "resolve", seq: 1, outcome: { status: "failed", error, attempts: 3 } },
  { type: "resolve", seq: 1, outcome: { status: "canceled", reason: "late" } },
  { type: "fire", seq: 2 },
  { type: "childStarted", seq: 2, runId: "c\0" },
  { type: "signal", id: "s1", name: "go\ud800", payload: bytes, refused: "why" },
  { type: "update", id: "u1", name: "set", input: value, validate: false },
  { type: "cancel" },
  { type: "cancel", reason: "enough" },
  { type: "expire", error },
  { type: "resume", attempt: 2, voids: [1, 2] },
]; // biome-ignore format: one per line

const COMMANDS: readonly Command[] = [
  { type: "step", ...at },
  { type: "step", ...at, n: 4, timeout: 5, retry, rollback: true },
  { type: "step", ...at, timeout: 5 },
  { type: "step", ...at, retry },
  { type: "step", ...at, rollback: true },
  { type: "activity", ...at, input: value, queue: "q", retry, startToClose: 1 },
  { type: "child", ...at, input: bytes, id: "c", parentClose: "abandon", detached: true },
  { type: "sleep", ...at, duration: 5 },
  { type: "signalRun", ...at, runId: "b", signal: "go", payload: value },
  { type: "sideEffect", ...at, value },
  { type: "sideEffect", ...at, error },
  { type: "signal", ...at, names: ["a", "b"], count: 2 },
  { type: "join", ...at, keys: ["a", "b"] },
  { type: "refuse", ...at, kind: "step", error },
  { type: "attributes", ...at, attributes: { a: 1, b: null, $c: "x" } },
  { type: "settle", seq: 3, status: "completed", messages: ["s1"] },
  { type: "dispatch", seq: 3, unit: "r/~h0", message: "s1" },
  { type: "completeUpdate", seq: 3, id: "u1", status: "failed", error },
  { type: "commit", seq: 3, unit: "work", count: 2, value, state: value, messages: [{ type: "signal", id: "s", name: "x", payload: bytes }, { type: "update", id: "u", name: "x", input: value }, { type: "fire", seq: 3 }], trim: 1 },
  { type: "fail", error, causes: [1], retryAfter: 5, rollbackError: error },
  { type: "canceled", reason: "x", value },
  { type: "continueAsNew", input: value, version: "3", signals: [{ id: "s", name: "x", payload: value }] },
] as unknown as readonly Command[]; // biome-ignore format: one per line

describe("records", () => {
  test.each(JOBS)("the job $type comes back as it was", (job) => {
    expect(jobOf(toColumns(job))).toEqual(job);
  });
  test.each(COMMANDS)("the command $type comes back as it was", (command) => {
    expect(commandOf(toColumns(command))).toEqual(command);
  });

  test("an unknown kind comes back as it was", () => {
    const record = { type: "novelty", seq: 1, deep: { value: "x", list: [1n, undefined] }, value: "{}", bytes } as unknown as Command;
    expect(commandOf(toColumns(record))).toEqual(record);
  });

  test("a start leaves out what its execution says, and nothing else", () => {
    const [start] = JOBS;
    if (start?.type !== "start") throw new Error("no start");
    const executionStart = { runId: "a", workflow: "order", version: "2", seed: "s", input: value };
    const columns = toColumns(start, executionStart);
    expect(columns.slice(4)).toEqual([
      null,
      expect.stringMatching(/^\{"startedAt":5,"execution":2,"attempt":1,"parentId":"p","retry"/),
      null,
    ]);
    expect(jobOf(columns, executionStart)).toEqual(start);
    const other = { ...executionStart, input: payload("another") };
    expect(jobOf(toColumns(start, other), other)).toEqual(start);
  });

  test("the start of a run that is created with its first turn comes back as it was", async () => {
    const bench = await openBench();
    const retry = { maxAttempts: 2, initialInterval: 1, backoff: 2, maxInterval: 3, jitter: 0 };
    const newRun = bench.newRun("a", { version: "7", retry, input: value });
    const start: Job = { type: "start", runId: "a", workflow: "order", version: "7", input: value, seed: newRun.seed, startedAt: 9, execution: 1, attempt: 1, retry }; // biome-ignore format: one line
    const held = { runId: "a", execution: 1, epoch: 1, workerId: "w1", turns: 0 };
    const turn = bench.turn(held, { jobs: [start] });
    await bench.store.create([{ ...newRun, first: { workerId: "w1", lease: 100, commit: bench.draft(held, { turn, rollbacks: 2, waitingFor: ["x"], status: "rolling_back" }) } }]); // biome-ignore format: one line
    expect(await bench.store.history("a")).toEqual([turn]);
    expect(await bench.row("a")).toMatchObject({
      turns: 1,
      historyLength: 2,
      waitingFor: ["x"],
      status: "rolling_back",
      workerId: "w1",
      epoch: 1,
    });
    await bench.commit(held, { turn: bench.turn(held) });
    expect((await bench.row("a")).turns).toBe(2);
  });

  test.each(LIBRARIES)("every kind, any number, through a file (%s)", async (library) => {
    const bench = await openBench(newPath(), { library });
    const held = await bench.running("a");
    const turns: Turn[] = [0, 1, 2, 3, 5, 7, 17, 40].map((count) => {
      const pick = <T>(list: readonly T[]) => range(count).map((i) => list[(i * 7 + count) % list.length] as T);
      const commands = pick(COMMANDS.filter(({ type }) => type !== "commit"));
      return { ...bench.turn(held, { jobs: pick(JOBS), commands }), ...(count % 2 === 1 && { state: bytes }) };
    });
    for (const turn of turns) await bench.commit(held, { turn });
    expect(await bench.store.history("a")).toEqual(turns);
    expect((await bench.row("a")).historyLength).toBe(turns.reduce((sum, { jobs, commands }) => sum + jobs.length + commands.length, 0));
  });

  test("a turn keeps what belongs to it as a whole when its first record is trimmed", async () => {
    const bench = await openBench();
    const held = await bench.running("a");
    const { store } = bench;
    await bench.commit(held, { turn: bench.turn(held, { jobs: [], commands: [{ type: "loop", seq: 1, unit: "", name: "work", n: 0 }, { type: "step", seq: 2, unit: "work/~0", name: "s", n: 0 }] }) }); // biome-ignore format: one line
    const mixed: Job[] = [{ type: "resolve", seq: 2, outcome: { status: "completed", value } }, signal("s1"), update("u1")];
    await bench.commit(held, { turn: bench.turn(held, { time: 77, historyLength: 33, jobs: mixed, commands: [], state: value }) });
    const commit = { type: "commit", seq: 1, unit: "work", count: 1, value, trim: 1, lastSeq: 2 } as unknown as Command;
    await bench.commit(held, { turn: bench.turn(held, { commands: [commit] }) });
    expect((await store.history("a"))[1]).toEqual({
      index: 1,
      time: 77,
      historyLength: 33,
      jobs: mixed.slice(1),
      commands: [],
      state: value,
    });
    expect((await bench.row("a")).historyLength).toBe(4);
  });

  test("attempts of steps that history no longer knows go with them", async () => {
    const bench = await openBench();
    const held = await bench.running("a");
    const attempt = (seq: number) => ({ seq, number: 1, status: "failed", startedAt: 1, endedAt: 2, workerId: "w1" }) as const;
    const commands = [{ type: "loop", seq: 1, unit: "", name: "work", n: 0 }, { type: "step", seq: 2, unit: "work/~0", name: "s", n: 0 }, { type: "step", seq: 3, unit: "work/~1", name: "s", n: 0 }] as const; // biome-ignore format: one line
    await bench.commit(held, { turn: bench.turn(held, { commands }), attempts: [attempt(2), attempt(3)] });
    await bench.commit(held, { turn: bench.turn(held, { commands: [{ type: "commit", seq: 1, unit: "work", count: 1, value, trim: 1, lastSeq: 3 } as unknown as Command] }) }); // biome-ignore format: one line
    expect((await bench.attempts("a")).map(({ seq }) => seq)).toEqual([3]);
  });
});

describe("texts that SQLite would cut or change", () => {
  const ODD = [
    "",
    "a",
    "a\0",
    "a\0b",
    "a\0c",
    "\0",
    "\ud800",
    "\udc00\ud800",
    "\ud83d",
    "🚀",
    "🚀\0",
    "ü\ud83dü",
    "'; --",
    "\n",
    "🚀".slice(0, 1),
  ];
  const PAIRS = ODD.flatMap((one, i) => ODD.slice(i + 1).map((other) => [one, other])).filter(([one, other]) => one !== other);

  test.each(LIBRARIES)("ids, names and keys stay apart, whatever they are (%s)", async (library) => {
    const bench = await openBench(newPath(), { library });
    for (const [i, texts] of PAIRS.entries()) {
      const ids = texts.map((one) => `case ${i} ${one}`);
      await bench.store.create(
        ids.map((id) => bench.newRun(id, { workflow: id, queue: id, version: id, seed: id, attributes: { key: id } })),
      );
      for (const id of ids) {
        const row = await bench.row(id);
        expect([row.id, row.workflow, row.queue, row.version, row.seed, row.attributes]).toEqual([id, id, id, id, id, { key: id }]);
        expect((await bench.store.list({ workflow: id, attributes: { key: id }, limit: 9 })).runs.map((run) => run.id)).toEqual([id]);
      }
      const [first = ""] = ids;
      for (const key of texts) {
        expect((await bench.send(first, signal(key, key), key)).status).toBe("sent");
        expect((await bench.send(first, update(key, key))).status).toBe("sent");
        expect((await bench.send(first, signal(key, key), key)).status).toBe("duplicate");
      }
      const { inbox } = await bench.claimRun(first, { workerId: first, serves: [{ workflow: first, versions: [first] }] });
      expect(inbox.map(({ job }) => job)).toEqual(texts.flatMap((key) => [signal(key, key), update(key, key)]));
    }
  });

  test("payloads of codecs that write text come back as they were", async () => {
    const bench = await openBench();
    const odd = ["a\0b", "\ud800", '{"$payload":"text","data":"x"}', '{"$payload":1}', "🚀\0"];
    for (const [i, input] of odd.entries()) {
      const held = await bench.running(`r${i}`, { input });
      const turn = bench.turn(held, { jobs: [{ type: "resolve", seq: 1, outcome: { status: "completed", value: input } }], state: input });
      await bench.commit(held, { turn, state: input });
      expect([(await bench.row(`r${i}`)).input, (await bench.row(`r${i}`)).state]).toEqual([input, input]);
      expect(await bench.store.history(`r${i}`)).toEqual([turn]);
    }
  });
});

describe("what a person sees with sqlite3", () => {
  test("runs, history and messages read as what they are", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("order-1", { input: payload({ item: "book" }), queue: "default", attributes: { customer: "c1" } });
    bench.time = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    await bench.commit(held, {
      turn: bench.turn(held, { jobs: [{ type: "resolve", seq: 1, outcome: { status: "completed", value: payload({ paid: true }) } }], commands: [{ type: "step", seq: 2, unit: "", name: "ship", n: 0, timeout: 5 }] }),
      state: payload({ at: "shipping" }),
      waitingFor: ["step ship"],
    }); // biome-ignore format: as a commit
    await bench.sent("order-1", signal("s1", "hurry"));
    const shell = openShell(path);
    expect(shell.rows("SELECT id, status, input, state, waiting_for, attributes, created FROM holdfast_overview")).toEqual([
      { id: "order-1", status: "running", input: '{"item":"book"}', state: '{"at":"shipping"}', waiting_for: '["step ship"]', attributes: '{"customer":"c1"}', created: "1970-01-01T00:16:40.000Z" },
    ]); // biome-ignore format: a row
    expect(shell.rows("SELECT run_id, turn, time, direction, type, seq, name, value, data FROM holdfast_history")).toEqual([
      { run_id: "order-1", turn: 0, time: "2026-01-02T03:04:05.678Z", direction: "job", type: "resolve", seq: 1, name: null, value: '{"paid":true}', data: null },
      { run_id: "order-1", turn: 0, time: "2026-01-02T03:04:05.678Z", direction: "command", type: "step", seq: 2, name: "ship", value: null, data: '{"timeout":5}' },
    ]); // biome-ignore format: rows
    expect(shell.rows("SELECT type, name, value, data FROM holdfast_inbox")).toEqual([
      { type: "signal", name: "hurry", value: '"s1"', data: '{"id":"s1"}' },
    ]);
    expect(shell.rows("SELECT w.id FROM holdfast_records r JOIN holdfast_workers w ON w.key = r.worker")).toEqual([{ id: "w1" }]);
    // Numbers are stored as such, not as 1.0.
    expect(shell.rows("SELECT typeof(available_at) AS a, typeof(turns) AS b, typeof(epoch) AS c FROM holdfast_runs")).toEqual([
      { a: "integer", b: "integer", c: "integer" },
    ]);
    expect(shell.rows("SELECT DISTINCT typeof(position) AS a, typeof(time) AS b, typeof(seq) AS c, typeof(n) AS n FROM holdfast_records WHERE n IS NOT NULL")).toEqual([{ a: "integer", b: "integer", c: "integer", n: "integer" }]); // biome-ignore format: one line
    shell.close();
  });
});
