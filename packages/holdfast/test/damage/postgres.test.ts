// A column of a row in PostgreSQL that something else has written to, one after the other: no run is left waiting without a reason.

import { ask, startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { afterAll, beforeAll, expect, test } from "vitest";
import { IS_NIGHTLY, lookAt, prepare, quiet, rotated } from "./runs.ts";

const SCHEMAS = ["w1", "w2", "w3", "w4"] as const;
const TABLES = ["runs", "executions", "states", "records", "inbox", "message_keys", "start_keys", "updates", "attempts", "tasks", "lanes"];
let server: TestServer | undefined;
let database = "";
const url = (schema: string) => `${database}?schema=${schema}`;
const sql = <R extends object = Record<string, string | null>>(text: string, values: unknown[] = []): Promise<R[]> =>
  ask<R>(database, text, values);

beforeAll(async () => {
  server = await startServer();
  database = await server.createDatabase();
  await prepare(url("base"));
  for (const schema of SCHEMAS) {
    await (await Holdfast.open(url(schema), { logger: quiet })).close();
    const identities = ["tasks.id", "lanes.lane", "workers.key"].map((one) => one.split("."));
    for (const [table, column] of identities) await sql(`SELECT setval(pg_get_serial_sequence('${schema}.${table}', '${column}'), 1000)`);
    for (const sequence of ["run_keys", "inbox_ids"]) await sql(`SELECT setval('${schema}.${sequence}', 1000)`);
  }
}, 60_000);
afterAll(() => server?.stop(), 60_000);

/** As the base is. */
async function reset(schema: string): Promise<void> {
  const all = [...TABLES, "workers", "mail", "calls", "instances"];
  const copies = [...TABLES, "workers"].map(
    (table) => `INSERT INTO ${schema}.${table} OVERRIDING SYSTEM VALUE SELECT * FROM base.${table}`,
  );
  await sql([...all.map((table) => `DELETE FROM ${schema}.${table}`), ...copies].join("; "));
}

interface Cell {
  readonly table: string;
  readonly column: string;
  readonly row: string;
}
async function cellsOf(): Promise<Cell[]> {
  const cells: Cell[] = [];
  for (const table of TABLES) {
    const columns = await sql<{ name: string }>(
      "SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'base' AND table_name = $1 ORDER BY ordinal_position",
      [table],
    );
    const rows = await sql<{ row: string }>(`SELECT t::text AS row FROM base.${table} t ORDER BY 1`);
    // Another row for each column, so that all of them have their turn.
    columns.forEach(({ name }, i) => {
      const row = rows[i % Math.max(rows.length, 1)]?.row;
      if (row !== undefined) cells.push({ table, column: name, row });
    });
  }
  return cells;
}

/** What can't be told from what was meant: names, ids, values and times that are right by their form. */
const PLAUSIBLE = ["inbox.name", "inbox.value", "runs.id", "runs.output", "records.value", "executions.input", "executions.seed"];
const OF_TASKS = [
  "tasks.input",
  "tasks.last_heartbeat",
  "tasks.start_to_close",
  "tasks.heartbeat",
  "tasks.max_interval",
  "tasks.initial_interval",
];
const PASSED_OVER: ReadonlySet<string> = new Set([...PLAUSIBLE, ...OF_TASKS, "attempts.retry_at", "tasks.max_attempts"]);
const OF_TIMES: ReadonlySet<string> = new Set([...PASSED_OVER, "runs.deadline_at"]);
const DAMAGES = [
  ["a text", "'x'", PASSED_OVER],
  ["nothing", "NULL", PASSED_OVER],
  ["zero", "'0'", PASSED_OVER],
  ["a number below all", "'-1'", PASSED_OVER],
  ["a number that no run has", "'999999'", PASSED_OVER],
  ["the year 9999", "'253402300799000'", OF_TIMES],
] as const;

/** False: the table does not take it. */
async function damage(schema: string, { table, column, row }: Cell, value: string): Promise<boolean> {
  const done = await sql(`UPDATE ${schema}.${table} t SET ${column} = ${value} WHERE t::text = $1 RETURNING 1`, [row]).catch(() => []);
  return done.length > 0;
}

type Damage = (typeof DAMAGES)[number];

/** Writes one of the values to each cell, the first that its column takes; what is wrong then, by cell. */
async function damageEach(valuesFor: (column: number) => readonly Damage[]): Promise<Record<string, string[]>> {
  const cells = [...(await cellsOf()).entries()];
  expect(cells.length).toBeGreaterThan(100);
  const wrong: Record<string, string[]> = {};
  const work = async (schema: string): Promise<void> => {
    await reset(schema);
    expect(await lookAt(url(schema), schema)).toEqual({ wrong: [], told: [] });
    for (let next = cells.shift(); next !== undefined; next = cells.shift()) {
      const [i, cell] = next;
      await reset(schema);
      const taken = await firstTaken(schema, cell, valuesFor(i));
      if (taken === undefined) continue;
      const found = await lookAt(url(schema), schema);
      if (found.wrong.length > 0) wrong[`${taken} in ${cell.table}.${cell.column}: ${cell.row}`] = found.wrong;
    }
  };
  await Promise.all(SCHEMAS.map(work));
  return wrong;
}
async function firstTaken(schema: string, cell: Cell, values: readonly Damage[]): Promise<string | undefined> {
  for (const [what, value, plausible] of values)
    if (!plausible.has(`${cell.table}.${cell.column}`) && (await damage(schema, cell, value))) return what;
  return undefined;
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
  }, 300_000);

/** The test above damages one row for each column. These are the rows that nothing would ever wake. */
test.each([
  ["a parked run with messages", "UPDATE runs SET available_at = NULL WHERE id <> 'retrier' AND status <> 'pending'"],
  ["a run that does not know of its messages", "UPDATE runs SET last_message = 0"],
  ["a run that has not begun", "UPDATE runs SET available_at = NULL WHERE status = 'pending'"],
  ["an activity that waits", "UPDATE tasks SET available_at = NULL"],
  ["an activity of another execution", "UPDATE tasks SET execution = 2"],
  ["an activity of a run that does not exist", "UPDATE tasks SET run = 999"],
  ["an activity of another run", "UPDATE tasks SET run = 1"],
  ["an activity of another operation", "UPDATE tasks SET seq = 7"],
  ["an activity of another name", "UPDATE tasks SET activity = 'none'"],
  ["an activity in a queue that does not exist", "UPDATE tasks SET queue = 'none'"],
  ["an activity that waits until the year 9999", "UPDATE tasks SET available_at = 253402300799000"],
  ["messages of a run that does not exist", "UPDATE inbox SET run = 999"],
  ["a run with messages that waits until the year 9999", "UPDATE runs SET available_at = 253402300799000 WHERE status <> 'pending'"],
  ["a timer that nothing fires", "UPDATE runs SET available_at = NULL WHERE id IN ('nap', 'retrier')"],
  ["a timer in the year 9999", "UPDATE runs SET available_at = 253402300799000 WHERE id IN ('nap', 'retrier')"],
  ["a child of another parent", "UPDATE runs SET parent_id = 'none' WHERE id = 'kid'"],
  ["a child of another operation", "UPDATE runs SET parent_seq = 9 WHERE id = 'kid'"],
  ["an activity that history calls otherwise", "UPDATE records SET name = 'none' WHERE type = 'activity'"],
  ["runs of a lane that does not exist", "UPDATE runs SET lane = 999"],
  ["a lane of another queue", "UPDATE lanes SET queue = 'none'"],
  ["an open run that has an end", "UPDATE runs SET finished_at = 0"],
  ["a run that is said to be new", "UPDATE runs SET turns = 0"],
  ["a run that has more turns than there are", "UPDATE runs SET turns = turns + 1"],
  ["a run that lacks a record", "UPDATE records SET run = run + 1000 WHERE type = 'resolve'"],
  ["a run of another workflow", "UPDATE runs SET workflow = 'nap' WHERE id = 'fresh'"],
])("V4 W1 %s: none is left waiting", async (_, change) => {
  await reset("w1");
  await sql(change.replace("UPDATE ", "UPDATE w1."));
  expect((await lookAt(url("w1"), "w1")).wrong).toEqual([]);
});
