// Rows that something else has written to: the error names what can't be read, and no other run waits for it.

import { type Bench, type Held, payload, runIds } from "@holdfast/conformance/bench";
import { type Command, type Job, signal, workflow } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../src/api/holdfast.ts";
import { failureOf, newPath, openBench, openShell } from "./support.ts";

interface Line {
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
function listening() {
  const lines: Line[] = [];
  const quiet = () => {};
  const error = (message: string, fields: object = {}) => void lines.push({ message, fields: fields as Line["fields"] });
  return { lines, logger: { debug: quiet, info: quiet, warn: quiet, error } };
}
function change(path: string, sql: string): void {
  const shell = openShell(path);
  shell.exec(sql);
  shell.close();
}

const QUEUE = { queue: "default" } as const;
const NO_MOMENT = ["'x'", "'{'", "X'00'", "9e999"] as const;

describe("what a claim goes by", () => {
  async function open() {
    const path = newPath();
    const { lines, logger } = listening();
    return { path, lines, bench: await openBench(path, { logger }) };
  }
  async function ended(bench: Bench, id: string): Promise<void> {
    await bench.created(id, QUEUE);
    await bench.close(await bench.hold(id));
  }

  test.each(NO_MOMENT)("W2 V4 available_at = %s: the run is blocked and reported, those of its lane come in order", async (value) => {
    const { path, lines, bench } = await open();
    for (const id of ["damaged", "first", "second"]) await bench.created(id, QUEUE);
    await bench.created("later", { ...QUEUE, delay: 500 });
    change(path, `UPDATE holdfast_runs SET available_at = ${value} WHERE id = 'damaged'`);
    const claimed = await bench.claim({ limit: 1 });
    expect(runIds(claimed)).toEqual(["first"]);
    expect(await bench.row("damaged")).toMatchObject({
      status: "blocked",
      availableAt: undefined,
      error: { data: { code: "HF_STORE_CORRUPT" } },
    });
    expect(lines).toMatchObject([
      { message: expect.stringContaining("Run damaged is blocked"), fields: { runId: "damaged", error: { code: "HF_STORE_CORRUPT" } } },
    ]);
    const rest = await bench.claim();
    expect([runIds(rest), rest.nextAt]).toEqual([["second"], bench.time + 500]);
    expect(lines).toHaveLength(1);
    // Repaired, it continues.
    expect(await bench.store.resume(["damaged"])).toEqual(["resumed"]);
    expect(runIds(await bench.claim())).toEqual(["damaged"]);
  });

  test.each([...NO_MOMENT, "-1"])("P1 W2 available_at = %s of a run that has ended: it stays as it ended", async (value) => {
    const { path, lines, bench } = await open();
    await ended(bench, "done");
    const before = await bench.row("done");
    change(path, `UPDATE holdfast_runs SET available_at = ${value} WHERE id = 'done'`);
    expect(await bench.claim()).toMatchObject({ runs: [], nextAt: undefined });
    expect(await bench.row("done")).toEqual(before);
    expect(lines).toMatchObject([{ message: expect.stringContaining("Run done has ended"), fields: { runId: "done" } }]);
    await bench.created("next", QUEUE);
    expect(runIds(await bench.claim())).toEqual(["next"]);
    expect(lines).toHaveLength(1);
  });

  test("W2 a lane whose priority is not a number: its runs come as if they had none, and it is reported once", async () => {
    const { path, lines, bench } = await open();
    await bench.created("lost", { ...QUEUE, priority: 9 });
    change(path, "UPDATE holdfast_lanes SET priority = 'x'");
    for (const priority of [-1, 0, 1]) await bench.created(`p${priority}`, { ...QUEUE, priority });
    for (const id of ["p1", "lost", "p0", "p-1"]) expect(runIds(await bench.claim({ limit: 1 }))).toEqual([id]);
    expect(lines).toMatchObject([{ message: expect.stringContaining("priority that is not a number") }]);
  });
});

describe("what a claim of activities goes by", () => {
  test.each(NO_MOMENT)("D11 available_at = %s: the activity is handed out with those that are due", async (value) => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.waitingFor("a", bench.newTask(1), bench.newTask(2));
    change(path, `UPDATE holdfast_tasks SET available_at = ${value} WHERE seq = 1`);
    for (const seq of [1, 2]) expect(await bench.claimTask()).toMatchObject({ seq, attempt: 1 });
    expect(await bench.claimTasks()).toEqual([]);
  });

  const UNREADABLE = ["retry = '{'", `input = '{"$payload":'`, "scheduled_at = 'x'", "attempt = 'x'", "heartbeat = 'x'"] as const;
  const outcomesOf = async (bench: Bench, held: Held) => (await bench.inbox(held)).map(({ job }) => job.type === "resolve" && job.outcome);
  const CORRUPT = { status: "failed", error: { data: { code: "HF_STORE_CORRUPT" } } };

  test.each(UNREADABLE)("D11 V4 %s of an activity that waits: it fails, and those beside it are handed out", async (damage) => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("damaged");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(1)] });
    await bench.waitingFor("healthy", bench.newTask(1));
    change(path, `UPDATE holdfast_tasks SET ${damage} WHERE run = (SELECT key FROM holdfast_runs WHERE id = 'damaged')`);
    expect(await bench.claimTasks()).toMatchObject([{ runId: "healthy", attempt: 1 }]);
    expect(await bench.claimTasks()).toEqual([]);
    expect(await outcomesOf(bench, held)).toMatchObject([CORRUPT]);
  });

  test.each(UNREADABLE)(
    "D11 V4 %s of an activity under way: it fails, those beside it go on, time out and are answered",
    async (damage) => {
      const path = newPath();
      const bench = await openBench(path);
      const held = await bench.running("damaged");
      await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(1, { startToClose: 10 })] });
      await bench.waitingFor("healthy", bench.newTask(1));
      const [first, healthy] = await bench.claimTasks();
      if (first === undefined || healthy === undefined) throw new Error("They can't be claimed.");
      change(path, `UPDATE holdfast_tasks SET ${damage} WHERE id = ${first.id}`);
      const beats = [first, healthy].map(({ id, token }) => ({ id, token, lease: 1_000 }));
      expect(await bench.store.heartbeat(beats)).toEqual([false, true]);
      expect(await outcomesOf(bench, held)).toMatchObject([CORRUPT]);
      bench.time += 10;
      expect((await bench.store.expire()).expired).toBe(0);
      const outcome = { status: "completed", value: payload(1) } as const;
      expect(await bench.store.answerTasks([first, healthy].map(({ id, token }) => ({ id, token, outcome })))).toEqual([false, true]);
    },
  );

  test.each(UNREADABLE)("K6 V4 %s of an activity: its run still ends", async (damage) => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.waitingFor("a", bench.newTask(1));
    change(path, `UPDATE holdfast_tasks SET ${damage}`);
    expect(await bench.store.terminate([{ runId: "a", reason: undefined }])).toMatchObject([{ status: "sent" }]);
    expect((await bench.row("a")).status).toBe("terminated");
    expect(await bench.claimTasks()).toEqual([]);
  });
});

describe("history", () => {
  const at = { seq: 3, unit: "a", name: "charge", n: 0 };
  const value = payload(1);
  const NEEDED: readonly (readonly [direction: "job" | "command", Job | Command, columns: readonly string[]])[] = [
    ["job", { type: "resolve", seq: 1, outcome: { status: "completed", value } }, ["seq", "value"]],
    ["job", { type: "resolve", seq: 1, outcome: { status: "canceled" } }, ["seq", "data"]],
    ["job", { type: "fire", seq: 2 }, ["seq"]],
    ["job", { type: "childStarted", seq: 2, runId: "c" }, ["seq"]],
    ["job", { type: "signal", id: "s", name: "go", payload: value }, ["name", "value", "data"]],
    ["job", { type: "update", id: "u", name: "set", input: value }, ["name", "value", "data"]],
    ["job", { type: "resume", attempt: 2, voids: [1] }, ["data"]],
    ["command", { type: "step", ...at }, ["seq", "unit", "name", "n"]],
    ["command", { type: "step", ...at, timeout: 5 }, ["seq", "unit", "name", "n"]],
    ["command", { type: "activity", ...at, input: value }, ["seq", "unit", "name", "n", "value"]],
    ["command", { type: "child", ...at, id: "c", input: value }, ["name", "value", "data"]],
    ["command", { type: "signalRun", ...at, runId: "b", signal: "go", payload: value }, ["name", "value"]],
    ["command", { type: "sideEffect", ...at, value }, ["seq", "unit", "name", "n"]],
    ["command", { type: "signal", ...at, names: ["go"] }, ["seq", "unit", "name", "n"]],
    ["command", { type: "settle", seq: 3, status: "completed" }, ["seq"]],
    ["command", { type: "dispatch", seq: 3, unit: "r", message: "s" }, ["seq", "unit", "data"]],
    ["command", { type: "commit", seq: 3, unit: "r", count: 1, value, lastSeq: 3 }, ["seq", "unit", "value"]],
    ["command", { type: "complete", value }, ["value"]],
    ["command", { type: "continueAsNew", input: value }, ["value"]],
  ];

  test.each(NEEDED)("V4 a %s that lacks a column it needs is not a history: %j", async (direction, record, columns) => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    const records = direction === "job" ? { jobs: [record as Job], commands: [] } : { commands: [record as Command] };
    const turn = bench.turn(held, records);
    await bench.commit(held, { turn });
    const { type } = record;
    for (const column of columns) {
      expect(await bench.store.history("a")).toEqual([turn]);
      const shell = openShell(path);
      const [row] = shell.rows(`SELECT ${column} AS kept FROM holdfast_records WHERE type = '${type}'`);
      shell.rows(`UPDATE holdfast_records SET ${column} = NULL WHERE type = '${type}' RETURNING id`);
      expect(await failureOf(bench.store.history("a")), column).toMatchObject({ code: "HF_STORE_CORRUPT", cause: expect.any(TypeError) });
      shell.rows(`UPDATE holdfast_records SET ${column} = ? WHERE type = '${type}' RETURNING id`, row?.["kept"] ?? null);
      shell.close();
    }
  });

  test.each(["[]", '"text"', "null", "7"])("V4 data = %s is not a record's", async (data) => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held, { commands: [{ type: "step", ...at, timeout: 5 }] }) });
    change(path, `UPDATE holdfast_records SET data = '${data}'`);
    expect((await failureOf(bench.store.history("a"))).code).toBe("HF_STORE_CORRUPT");
  });

  test("V4 data say nothing of a record's type and location", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held, { commands: [{ type: "step", ...at, timeout: 5 }] }) });
    change(path, `UPDATE holdfast_records SET data = '{"type":"sleep"}'`);
    expect(await bench.store.history("a")).toMatchObject([{ commands: [{ type: "step", ...at }] }]);
    change(path, `UPDATE holdfast_records SET data = '{"name":5}'`);
    expect((await failureOf(bench.store.history("a"))).code).toBe("HF_STORE_CORRUPT");
  });

  test("D12 V4 operations of a run whose records lack a value or a name: HF_STORE_CORRUPT", async () => {
    const path = newPath();
    const waits = workflow({ name: "waits", signals: { go: signal<number>() } }, async (ctx, input: number) => {
      await ctx.step("a", () => input);
      return [await ctx.waitForSignal("go")];
    });
    const engine = await Holdfast.open(`file:${path}?synchronous=NORMAL`, { logger: listening().logger });
    await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
    const run = await engine.start(waits, 1, { id: "one" });
    await expect.poll(async () => (await run.describe()).status).toBe("sleeping");
    expect(await run.operations()).toMatchObject([{ name: "a", output: 1 }, { kind: "signal" }]);
    change(path, "UPDATE holdfast_records SET value = NULL");
    expect((await failureOf(run.operations())).code).toBe("HF_STORE_CORRUPT");
    change(path, "UPDATE holdfast_records SET value = '1' WHERE type = 'resolve'; UPDATE holdfast_records SET name = NULL");
    expect((await failureOf(run.operations())).code).toBe("HF_STORE_CORRUPT");
    await engine.close();
  });
});
