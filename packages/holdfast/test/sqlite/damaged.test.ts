// A column of a row that something else has written to, one after the other: no run is left waiting without a reason.

import { copyFileSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { Holdfast } from "holdfast";
import { beforeAll, expect, test } from "vitest";
import { IS_NIGHTLY, lookAt, prepare, quiet, rotated, workflowsAt } from "../damage/runs.ts";
import { until } from "../engine/engines.ts";
import { newPath, openShell } from "./support.ts";

const url = (path: string) => `file:${path}?synchronous=NORMAL`;
const { workflows, activities } = workflowsAt("", true);
const code = { workflows, activities };
const open = (path: string) => Holdfast.open(url(path), { logger: quiet });

/**
 * What can't be told from what was meant: another name of a message, another id of a run. And values of users, which the code that reads
 * them refuses: an activity is tried again, and its attempts say why.
 */
const PLAUSIBLE: ReadonlySet<string> = new Set(["inbox.name", "runs.id", "tasks.input", "tasks.last_heartbeat", "attempts.retry_at"]);
/** The same for numbers and values that are missing. */
const PLAUSIBLE_NUMBERS: ReadonlySet<string> = new Set([
  ...PLAUSIBLE,
  ...["runs.output", "executions.input", "inbox.value", "records.value", "tasks.start_to_close", "tasks.heartbeat"],
]);
/** The same for times: when a run is to begin is written nowhere else. */
const PLAUSIBLE_TIMES: ReadonlySet<string> = new Set([...PLAUSIBLE_NUMBERS, "runs.deadline_at"]);

interface Cell {
  readonly table: string;
  readonly column: string;
  readonly where: string;
}
function cellsOf(path: string): Cell[] {
  const shell = openShell(path);
  const tables = shell.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast@_%' ESCAPE '@'");
  const cells = tables.flatMap(({ name }) => {
    const table = String(name);
    const columns = shell.rows(`SELECT name FROM pragma_table_info('${table}')`).map((column) => String(column["name"]));
    const rows = shell.rows(`SELECT ${columns.map((column) => `quote(${column}) AS ${column}`).join(", ")} FROM ${table}`);
    // Another row for each column, so that all of them have their turn.
    return columns.flatMap((column, i): Cell[] => {
      const row = rows[i % Math.max(rows.length, 1)];
      if (row === undefined) return [];
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

const newFile = (): string => {
  const path = newPath();
  mkdirSync(dirname(path), { recursive: true });
  return path;
};
/** The runs of all tests. Each test damages a copy. */
const base = newFile();
beforeAll(() => prepare(url(base)));
const newCopy = (): string => {
  const path = newFile();
  copyFileSync(base, path);
  return path;
};
const DAMAGES = [
  ["a text", "'x'", PLAUSIBLE],
  ["bytes", "x'00ff'", PLAUSIBLE],
  ["nothing", "NULL", PLAUSIBLE_NUMBERS],
  ["zero", "0", PLAUSIBLE_NUMBERS],
  ["a number below all", "-1", PLAUSIBLE_NUMBERS],
  ["a number that no run has", "999999", PLAUSIBLE_NUMBERS],
  ["the year 9999", "253402300799000", PLAUSIBLE_TIMES],
] as const;

type Damage = (typeof DAMAGES)[number];

/** Writes one of the values to each cell, the first that its column takes; what is wrong then, by cell. */
async function damageEach(valuesFor: (column: number) => readonly Damage[]): Promise<Record<string, string[]>> {
  expect(await lookAt(url(newCopy()), base)).toEqual({ wrong: [], told: [] });
  const cells = [...cellsOf(base).entries()];
  expect(cells.length).toBeGreaterThan(75);
  const wrong: Record<string, string[]> = {};
  const work = async (): Promise<void> => {
    for (let next = cells.shift(); next !== undefined; next = cells.shift()) {
      const [i, cell] = next;
      const path = newCopy();
      const name = `${cell.table.slice("holdfast_".length)}.${cell.column}`;
      const taken = valuesFor(i).find(([, value, plausible]) => !plausible.has(name) && damage(path, cell, value));
      if (taken === undefined) continue;
      const found = await lookAt(url(path), path);
      if (found.wrong.length > 0) wrong[`${taken[0]} in ${cell.table}.${cell.column}: ${cell.where}`] = found.wrong;
    }
  };
  await Promise.all(Array.from({ length: 6 }, work));
  return wrong;
}

if (IS_NIGHTLY)
  test.each(DAMAGES.map((one) => [one[0], one] as const))(
    "V4 %s in any column of any row: each run ends as it should, or says what is wrong",
    async (_, one) => {
      expect(await damageEach(() => [one])).toEqual({});
    },
    1_800_000,
  );
else
  test("V4 a value of another kind in any column of any row: each run ends as it should, or says what is wrong", async () => {
    expect(await damageEach((column) => rotated(DAMAGES, column))).toEqual({});
  }, 180_000);

/** The test above damages one row for each column. These are the rows that nothing would ever wake. */
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
  ["an activity of a run that does not exist", "UPDATE holdfast_tasks SET run = 999"],
  ["an activity of another run", "UPDATE holdfast_tasks SET run = 1"],
  ["an activity of another operation", "UPDATE holdfast_tasks SET seq = 7"],
  ["an activity of another name", "UPDATE holdfast_tasks SET activity = 'none'"],
  ["an activity in a queue that does not exist", "UPDATE holdfast_tasks SET queue = 'none'"],
  ["an activity that waits until the year 9999", "UPDATE holdfast_tasks SET available_at = 253402300799000"],
  ["messages of a run that does not exist", "UPDATE holdfast_inbox SET run = 999"],
  ["messages of another run", "UPDATE holdfast_inbox SET run = 4"],
  [
    "a run with messages that waits until the year 9999",
    "UPDATE holdfast_runs SET available_at = 253402300799000 WHERE status <> 'pending'",
  ],
  ["a timer that nothing fires", "UPDATE holdfast_runs SET available_at = NULL WHERE id IN ('nap', 'retrier')"],
  ["a timer in the year 9999", "UPDATE holdfast_runs SET available_at = 253402300799000 WHERE id IN ('nap', 'retrier')"],
  ["a child of another parent", "UPDATE holdfast_runs SET parent_id = 'none' WHERE id = 'kid'"],
  ["a child of another operation", "UPDATE holdfast_runs SET parent_seq = 9 WHERE id = 'kid'"],
  ["an activity that history calls otherwise", "UPDATE holdfast_records SET name = 'none' WHERE type = 'activity'"],
  ["a run that is said to be new", "UPDATE holdfast_runs SET turns = 0"],
  ["a run that has more turns than there are", "UPDATE holdfast_runs SET turns = turns + 1"],
  ["a run that lacks a record", "UPDATE holdfast_records SET run = 999 WHERE type = 'resolve'"],
  ["a run of another workflow", "UPDATE holdfast_runs SET workflow = 'nap' WHERE id = 'fresh'"],
])("V4 W1 %s: none is left waiting", async (_, sql) => {
  const path = newCopy();
  const shell = openShell(path);
  shell.exec(sql);
  shell.close();
  expect((await lookAt(url(path), path)).wrong).toEqual([]);
});

test("V4 an activity that can't be identified blocks its run again whenever it is tried again", async () => {
  const path = newCopy();
  const shell = openShell(path);
  shell.exec("UPDATE holdfast_tasks SET seq = 'x', location = 'y'");
  const engine = await open(path);
  const run = engine.run("acts");
  const epoch = () => Number(shell.rows("SELECT epoch FROM holdfast_runs WHERE id = 'acts'")[0]?.["epoch"]);
  const isBlocked = async () => (await run.describe()).status === "blocked";
  await engine.worker(code);
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
  const path = newCopy();
  const engine = await open(path);
  await engine.worker(code);
  await engine.run("steps").result();
  const shell = openShell(path);
  shell.exec("UPDATE holdfast_runs SET output = NULL WHERE id = 'steps'");
  shell.close();
  await engine.close();
  const again = await open(path);
  await expect(again.run("steps").result()).rejects.toMatchObject({ code: "HF_STORE_CORRUPT" });
  await again.close();
});

test("V4 D6 a run with a history that is said to be new is blocked, and does not begin anew", async () => {
  const path = newCopy();
  const shell = openShell(path);
  shell.exec("UPDATE holdfast_runs SET turns = 0, available_at = 0 WHERE id = 'nap'");
  shell.close();
  const engine = await open(path);
  await engine.worker(code);
  await expect(engine.run("nap").result({ timeout: "15s" })).rejects.toThrow(/rows that can't be read/);
  await engine.close();
});
