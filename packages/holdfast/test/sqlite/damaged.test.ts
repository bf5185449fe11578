// A column of a row that something else has written to, one after the other: no run is left waiting without a reason.

import { copyFileSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { activity, Holdfast, Receive, signal, update, workflow } from "holdfast";
import { expect, test } from "vitest";
import { until } from "../engine/engines.ts";
import { newPath, openShell } from "./support.ts";

const mail = activity("mail", async (to: string) => `sent ${to}`);
const child = workflow("child", async (ctx, n: number) => {
  await ctx.waitForSignal("go");
  return n * 2;
});
const steps = workflow("steps", async (ctx, input: { readonly x: number }) => {
  const a = await ctx.step("a", () => input.x + 1);
  ctx.publishState({ a });
  return [a, await ctx.waitForSignal<string>("go")];
});
const acts = workflow("acts", async (ctx) => [await ctx.activity(mail, "bob"), await ctx.activity(mail, "eve")]);
const parent = workflow("parent", async (ctx) => ctx.child(child, 4, { id: "kid" }));
const retrier = workflow("retrier", async (ctx) =>
  ctx.step(
    "flaky",
    ({ attempt }) => {
      if (attempt === 1) throw new Error("flaky");
      return "fine";
    },
    { retry: { initialInterval: 50 } },
  ),
);
const entity = workflow(
  { name: "entity", signals: { stop: signal<void>() }, updates: { add: update<number, number>() } },
  async (ctx) =>
    (
      await ctx.receive(0, {
        signals: { stop: (_, sum) => Receive.stop(sum) },
        updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) },
      })
    ).state,
);
const workflows = [steps, acts, parent, child, retrier, entity];
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string) => Holdfast.open(`file:${path}?synchronous=NORMAL`, { logger: quiet });

/** One run of each kind, each with all that it needs to end but a worker. */
async function prepare(path: string): Promise<void> {
  const engine = await open(path);
  const worker = await engine.worker({ workflows });
  await engine.start(steps, { x: 1 }, { id: "steps", idempotencyKey: "k" });
  await engine.start(acts, undefined, { id: "acts" });
  await engine.start(parent, undefined, { id: "parent" });
  await engine.start(retrier, undefined, { id: "retrier" });
  const sum = await engine.start(entity, undefined, { id: "entity" });
  await sum.update("add", 3, { idempotencyKey: "u" });
  const parked = async (id: string) => (await engine.run(id).describe()).workerId === undefined;
  for (const id of ["steps", "acts", "parent", "entity", "kid"]) await until(() => parked(id), id);
  await worker.stop();
  await engine.run("kid").signal("go", undefined, { idempotencyKey: "m" });
  await engine.run("steps").signal("go", "hi");
  await sum.signal("stop");
  await engine.start(steps, { x: 5 }, { id: "fresh", signals: [{ name: "go", payload: "ho" }] });
  await engine.close();
}
const OUTPUTS: Readonly<Record<string, unknown>> = {
  steps: [2, "hi"],
  acts: ["sent bob", "sent eve"],
  parent: 8,
  retrier: "fine",
  entity: 3,
  kid: 8,
  fresh: [6, "ho"],
};

/**
 * What can't be told from what was meant: another name, another number, a message or activity of a run that does not exist. And values of
 * users, which the code that reads them refuses: an activity is tried again, and its attempts say why.
 */
const PLAUSIBLE: ReadonlySet<string> = new Set([
  ...["inbox.name", "inbox.run", "runs.parent_id", "tasks.activity", "tasks.queue", "tasks.run"],
  ...["tasks.input", "tasks.last_heartbeat", "attempts.retry_at"],
]);
/** The same for numbers and values that are missing. */
const PLAUSIBLE_NUMBERS: ReadonlySet<string> = new Set([
  ...PLAUSIBLE,
  ...["runs.parent_execution", "runs.parent_seq", "runs.output", "executions.input", "inbox.id", "inbox.value"],
  ...["tasks.start_to_close", "tasks.heartbeat"],
]);

interface Cell {
  readonly table: string;
  readonly column: string;
  readonly where: string;
}
function cellsOf(path: string, plausible: ReadonlySet<string>): Cell[] {
  const shell = openShell(path);
  const tables = shell.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast@_%' ESCAPE '@'");
  const cells = tables.flatMap(({ name }) => {
    const table = String(name);
    const columns = shell.rows(`SELECT name FROM pragma_table_info('${table}')`).map((column) => String(column["name"]));
    const rows = shell.rows(`SELECT ${columns.map((column) => `quote(${column}) AS ${column}`).join(", ")} FROM ${table}`);
    // Another row for each column, so that all of them have their turn.
    return columns.flatMap((column, i): Cell[] => {
      const row = rows[i % Math.max(rows.length, 1)];
      if (row === undefined || plausible.has(`${table.slice("holdfast_".length)}.${column}`)) return [];
      return [{ table, column, where: columns.map((one) => `${one} IS ${String(row[one])}`).join(" AND ") }];
    });
  });
  shell.close();
  return cells;
}
/** False: the table does not take it. */
function damage(path: string, { table, column, where }: Cell, value: string): boolean {
  const shell = openShell(path);
  try {
    shell.exec(`UPDATE ${table} SET ${column} = ${value} WHERE ${where}`);
    return true;
  } catch {
    return false;
  } finally {
    shell.close();
  }
}

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code);

/** What is wrong with how the runs of a damaged file went on. */
async function findings(path: string): Promise<string[]> {
  let engine: Holdfast;
  try {
    engine = await open(path);
  } catch (error) {
    return codeOf(error).startsWith("HF_") ? [] : [`open: ${String(error)}`];
  }
  const found: string[] = [];
  try {
    await engine.worker({ workflows, activities: [mail] });
    const look = async (id: string): Promise<void> => {
      try {
        const output = await engine.run(id).result({ timeout: 12_000 });
        if (JSON.stringify(output) !== JSON.stringify(OUTPUTS[id])) found.push(`${id}: ${JSON.stringify(output)}`);
      } catch (error) {
        const code = codeOf(error);
        if (!code.startsWith("HF_")) found.push(`${id}: ${String(error)}`);
        if (code !== "HF_WAIT_TIMEOUT") return;
        // A parent waits for its child, which says what is wrong with it.
        const kid = await engine
          .run("kid")
          .describe()
          .catch(() => undefined);
        if (id !== "parent" || kid?.status === "completed") found.push(`${id} waits: ${String(error)}`);
      }
    };
    await Promise.all(Object.keys(OUTPUTS).map(look));
  } catch (error) {
    if (!codeOf(error).startsWith("HF_")) found.push(`worker: ${String(error)}`);
  } finally {
    await engine.close();
  }
  return found;
}

const newFile = (): string => {
  const path = newPath();
  mkdirSync(dirname(path), { recursive: true });
  return path;
};
const copyOf = (base: string): string => {
  const path = newFile();
  copyFileSync(base, path);
  return path;
};
const DAMAGES = [
  ["a text", "'x'", PLAUSIBLE],
  ["bytes", "x'00ff'", PLAUSIBLE],
  ["nothing", "NULL", PLAUSIBLE_NUMBERS],
  ["a number below all", "-1", PLAUSIBLE_NUMBERS],
] as const;

test.each(DAMAGES)(
  "V4 %s in whatever column of whatever row: each run ends as it should, or says what is wrong",
  async (_, value, plausible) => {
    const base = newFile();
    await prepare(base);
    expect(await findings(copyOf(base))).toEqual([]);
    const cells = cellsOf(base, plausible);
    expect(cells.length).toBeGreaterThan(70);
    const wrong: Record<string, string[]> = {};
    const work = async (): Promise<void> => {
      for (let cell = cells.shift(); cell !== undefined; cell = cells.shift()) {
        const path = copyOf(base);
        if (!damage(path, cell, value)) continue;
        const found = await findings(path);
        if (found.length > 0) wrong[`${cell.table}.${cell.column}`] = found;
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    expect(wrong).toEqual({});
  },
  180_000,
);

/** Whichever row the test above happens to damage: these are the ones that nothing would ever wake. */
test.each([
  ["a parked run with messages", "UPDATE holdfast_runs SET available_at = NULL WHERE id <> 'retrier' AND status <> 'pending'"],
  ["a run that does not know of its messages", "UPDATE holdfast_runs SET last_message = 0"],
  ["a run that has not begun", "UPDATE holdfast_runs SET available_at = NULL WHERE status = 'pending'"],
  [
    "a lease without an end",
    "UPDATE holdfast_runs SET available_at = NULL, worker_id = 'gone', status = 'running' WHERE status <> 'pending'",
  ],
  ["an open run that has an end", "UPDATE holdfast_runs SET finished_at = 0 WHERE finished_at IS NULL"],
  ["an activity that waits", "UPDATE holdfast_tasks SET available_at = NULL"],
  ["an activity of another execution", "UPDATE holdfast_tasks SET execution = 2"],
])("V4 W1 %s: none is left waiting", async (_, sql) => {
  const path = newFile();
  await prepare(path);
  const shell = openShell(path);
  shell.exec(sql);
  shell.close();
  expect(await findings(path)).toEqual([]);
});

test("V4 an activity that can't be told blocks its run again whenever it is tried again", async () => {
  const path = newFile();
  await prepare(path);
  const shell = openShell(path);
  shell.exec("UPDATE holdfast_tasks SET seq = 'x'");
  const engine = await open(path);
  const run = engine.run("acts");
  const epoch = () => Number(shell.rows("SELECT epoch FROM holdfast_runs WHERE id = 'acts'")[0]?.["epoch"]);
  const isBlocked = async () => (await run.describe()).status === "blocked";
  await engine.worker({ workflows, activities: [mail] });
  await until(isBlocked, "the activity to be found");
  for (let i = 0; i < 2; i++) {
    const before = epoch();
    await run.resume();
    await until(async () => epoch() > before && (await isBlocked()), "it to be tried, and found again");
    await expect(run.result()).rejects.toThrow(/holdfast_tasks|rows that can't be read/);
  }
  shell.close();
  await engine.close();
});

test("V4 the output of a completed run that is gone is an error, not undefined", async () => {
  const path = newFile();
  await prepare(path);
  const engine = await open(path);
  await engine.worker({ workflows, activities: [mail] });
  await engine.run("steps").result();
  const shell = openShell(path);
  shell.exec("UPDATE holdfast_runs SET output = NULL WHERE id = 'steps'");
  shell.close();
  await engine.close();
  const again = await open(path);
  await expect(again.run("steps").result()).rejects.toMatchObject({ code: "HF_STORE_CORRUPT" });
  await again.close();
});
