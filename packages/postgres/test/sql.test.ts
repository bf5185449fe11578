// The SQL of the schema: files that are valid as they stand, and the module that ships them.
//
// `npm run sql` writes what is generated: the places of numbers in the files, and src/sql/001.ts. Without it these tests say what is out of
// date. A file of functions is added to FILES, in an order in which each finds what it refers to.

import { readdirSync, readFileSync } from "node:fs";
import { jsonCodec } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { columnsOf } from "../src/schema/migrate.ts";
import { VERSION_1 } from "../src/sql/001.ts";
import { ERROR_KINDS } from "../src/sql/errorTexts.ts";
import * as fragments from "../src/sql/fragments.ts";
import { useDatabase } from "./support.ts";

const FILES = [
  ...["tables", "attributes", "calls", "errors", "lock_runs", "count_turns", "send_messages", "reject_updates", "post_mail", "end_runs"],
  ...[
    "continue_run",
    "next_starts",
    "queues",
    "terminate_runs",
    "resume_runs",
    "expire_runs",
    "trim_records",
    "copy_history",
    "create_runs",
  ],
  ...["commit_turns", "finish_transaction", "register_names", "claim_queued_runs", "claim_runs", "renew_leases", "claim_queued_tasks"],
  ...[
    "claim_tasks",
    "set_queue",
    "heartbeat",
    "settle_tasks",
    "find_overdue",
    "cut_leases",
    "notify",
    "schedules",
    "retire_runs",
    "live_workers",
  ],
];
const { TURN_NUMBERS, PLACE_NUMBERS } = fragments;
const folder = new URL("../src/sql/001/", import.meta.url);
const pathOf = (file: string): string => new URL(`${file}.sql`, folder).pathname;
const textOf = (file: string): string => readFileSync(pathOf(file), "utf8");

/** `p_numbers[i * 10 - 7 /* seen *\/]`: which of the ten it is comes from the name. */
const PLACE = /\b(p_numbers|p_places)\[([\w.:]+) \* \d+ - \d+ \/\* (\w+) \*\/\]/g;
function placed(sql: string): string {
  return sql.replace(PLACE, (_, array: string, of: string, name: string) => {
    const names: readonly string[] = array === "p_numbers" ? TURN_NUMBERS : PLACE_NUMBERS;
    if (!names.includes(name)) throw new Error(`${array} has no ${name}.`);
    return `${array}[${of} * ${names.length} - ${names.length - 1 - names.indexOf(name)} /* ${name} */]`;
  });
}
function moduleOf(sql: string): string {
  const text = sql.replaceAll("\\", "\\\\").replaceAll("`", "\\`").replaceAll("${", "\\${");
  return `// Written by \`npm run sql\` from 001/*.sql: change those.\n\nexport const VERSION_1 = \`${text}\`;\n`;
}

describe("what is generated is up to date", () => {
  test.each(FILES)("the places of numbers in %s", async (file) => {
    await expect(placed(textOf(file))).toMatchFileSnapshot(pathOf(file));
  });
  test("the module that ships the files", async () => {
    const all = FILES.map((file) => placed(textOf(file))).join("\n");
    await expect(moduleOf(all)).toMatchFileSnapshot(new URL("../src/sql/001.ts", import.meta.url).pathname);
  });
  test("every file is in it", () => {
    expect(readdirSync(folder).toSorted()).toEqual(FILES.map((file) => `${file}.sql`).toSorted());
  });
});

describe("the files", () => {
  const all = FILES.map(textOf).join("\n");
  const made = [...all.matchAll(/^CREATE (?:TABLE|SEQUENCE|VIEW|FUNCTION) holdfast\.(\w+)/gm)].map(([, name]) => name);

  test("begin with what they are about", () => {
    for (const file of FILES) expect([file, textOf(file)]).toEqual([file, expect.stringMatching(/^-- \w.{10,}/)]);
  });
  test('"holdfast." is the schema wherever it stands, and the schema is named in no other way', () => {
    const named = [...all.matchAll(/holdfast(\W(?:\w+)?)?/g)].map(([whole]) => whole);
    const objects = new Set([...made, "error_text_1"].map((name) => `holdfast.${name}`));
    expect(named.filter((name) => !objects.has(name))).toEqual([]);
  });
  test("each number has its name beside it", () => {
    const bare = all.replace(PLACE, "").replace(/\b(?:p_numbers bigint|p_places integer)\[\]/g, "");
    expect(bare.match(/\b(?:p_numbers|p_places)\[/g)).toBe(null);
  });
  test("the kinds of turns and directions are those of TypeScript", () => {
    const { TURN_KINDS: kinds, DIRECTIONS: directions } = fragments;
    const kind = "p_numbers[t.i::integer * 10 - 6 /* kind */]";
    expect(all).toContain(`FILTER (WHERE ${kind} IN (${kinds.ends}, ${kinds.endsHearing}))`);
    expect(all).toContain(`FILTER (WHERE ${kind} = ${kinds.endsHearing})`);
    expect(all).toContain(`WHERE NOT l.stays AND ${kind} = ${kinds.runsOn})`);
    expect(all).toContain(`bool_or(${kind} IN (${kinds.keeps}, ${kinds.parks}))`);
    expect(all).toContain(`('{${directions.join(",")}}'::text[])[r.direction]`);
  });
  test("what statements in TypeScript share with them is the same text", () => {
    const { attemptsOf, ENDED, historyOf, literal, NEW_RUN, NEW_RUN_COLUMNS, newRunValues, removeAt, runColumns, runTables, stays } =
      fragments;
    const s = "holdfast";
    const shared = [ENDED, NEW_RUN, NEW_RUN_COLUMNS, newRunValues(""), runColumns(s), runTables(s), historyOf(s, "r.key", "r.execution")];
    const others = [attemptsOf(s, "r.key", "r.execution", "NOT a.task"), stays("p_numbers[t.i::integer * 10 - 5 /* rollbacks */]")];
    others.push(removeAt("holdfast.kept_for_1()"));
    for (const text of [...shared, ...others, literal(jsonCodec.encode(undefined))]) expect(all).toContain(text);
  });
  test("each kind of error that they name has its words, and no words are in them", () => {
    const kinds = [...all.matchAll(/holdfast\.(?:error_1|reason_1|error_text_1)\('([\w-]+)'/g)].map(([, kind]) => kind);
    expect([...new Set(kinds)].toSorted()).toEqual(ERROR_KINDS.toSorted());
    expect(all.match(/RAISE EXCEPTION '[^']* [^']*'/g)).toBe(null);
  });
});

describe("in a database", () => {
  const database = useDatabase();
  const columns = (schema: string) =>
    database.sql<{ name: string }>(
      `SELECT c.table_name || '.' || c.column_name AS name FROM information_schema.columns c JOIN pg_tables t
         ON t.schemaname = c.table_schema AND t.tablename = c.table_name WHERE c.table_schema = $1 AND c.table_name <> 'migrations'`,
      [schema],
    );

  test("the files are valid as they stand, for the schema holdfast", async () => {
    await database.open();
    const fresh = await database.server.createDatabase();
    const { Client } = await import("pg");
    const client = new Client({ connectionString: fresh });
    await client.connect();
    try {
      await client.query("CREATE SCHEMA holdfast; CREATE FUNCTION holdfast.error_text_1(text) RETURNS text LANGUAGE sql AS 'SELECT $1'");
      for (const file of FILES) await client.query(textOf(file));
    } finally {
      await client.end();
    }
    expect((await columns("holdfast")).map(({ name }) => name).toSorted()).toEqual([...columnsOf()].toSorted());
  });
  test("installed elsewhere they refer to that schema alone", async () => {
    const schema = database.newSchema();
    await database.open({ schema });
    const [{ text } = { text: "" }] = await database.sql<{ text: string }>(
      "SELECT string_agg(prosrc, ' ') AS text FROM pg_proc WHERE pronamespace = $1::regnamespace",
      [schema],
    );
    expect(text).toContain(`"${schema}".runs`);
    expect(text).not.toContain("holdfast.");
    expect(VERSION_1).toContain("holdfast.runs");
  });
  test("HF_STORE_SCHEMA a column that was dropped is noticed when the store is opened", async () => {
    const schema = database.newSchema();
    await (await database.open({ schema })).close();
    await database.sql(`ALTER TABLE "${schema}".tasks DROP COLUMN last_heartbeat`);
    await expect(database.open({ schema })).rejects.toMatchObject({ code: "HF_STORE_SCHEMA", message: expect.stringContaining("tasks.last_heartbeat") }); // biome-ignore format: one line
  });
});
