// A file that is the user's as well: their tables and marks stay as they are, and what is called `holdfast_…` is ours.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { payload, range } from "@holdfast/conformance/bench";
import { describe, expect, test } from "vitest";
import { StoreCorruptError, StoreForeignError } from "../../src/store/errors.ts";
import type { SqliteTransaction } from "../../src/store/sqlite/transact.ts";
import { failureOf, LIBRARIES, newPath, openBench, openShell, openStore } from "./support.ts";

const TABLES = ["attempts", "attributes", "executions", "filed_lanes", "inbox", "lanes", "live_workers", "message_keys", "next_starts", "queue_keys", "queue_pauses", "queue_starts", "queue_times", "queues", "records", "runs", "schedules", "schema", "start_keys", "states", "tasks", "updates", "workers", "workflows"].map((name) => `holdfast_${name}`); // biome-ignore format: one list

describe.each(LIBRARIES)("beside the user's own tables, on %s", (library) => {
  /** A file that another program has made and has open. */
  function fileOf(sql: string) {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    const shell = openShell(path, library);
    shell.exec(sql);
    return { path, shell };
  }
  const open = (path: string) => openStore(path, { library });
  const tablesOf = (path: string) => {
    const shell = openShell(path, library);
    const rows = shell.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name");
    shell.close();
    return rows.map(({ name }) => name);
  };
  /** An application works on a file that has Holdfast in it. */
  async function changed(sql: string): Promise<string> {
    const path = newPath();
    await (await open(path)).close();
    const shell = openShell(path, library);
    shell.exec(sql);
    shell.close();
    return path;
  }

  test("everything that a new file has is called holdfast_…", async () => {
    const path = await changed("");
    expect(tablesOf(path)).toEqual(TABLES);
    const shell = openShell(path, library);
    const names = shell.rows("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'").map(({ name }) => String(name));
    expect(names.filter((name) => !name.startsWith("holdfast_"))).toEqual([]);
    shell.close();
  });

  test("D6 tables of the user's with everyday names are written by transaction steps alone", async () => {
    const { path, shell } = fileOf(`
      CREATE TABLE tasks (what TEXT); CREATE TABLE runs (km INTEGER); CREATE TABLE updates (news TEXT); CREATE TABLE inbox (mail TEXT);
      CREATE INDEX runs_by_status ON runs (km); CREATE VIEW history AS SELECT km FROM runs;
      INSERT INTO tasks VALUES ('sweep'); INSERT INTO runs VALUES (5); INSERT INTO updates VALUES ('rain'); INSERT INTO inbox VALUES ('hello')
    `);
    const bench = await openBench(path, { library });
    shell.exec("CREATE TABLE records (song TEXT); CREATE TABLE workers (pay INTEGER)");
    const held = await bench.running("a");
    await bench.store.transact?.({ ...held, seq: 1 }, (handle) => {
      const tx = handle as SqliteTransaction;
      tx.run("INSERT INTO tasks VALUES ('cook')");
      tx.run("UPDATE runs SET km = km + 1");
      tx.run("INSERT INTO records VALUES ('la la')");
      return payload(null);
    });
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2)], state: payload("s") });
    expect(shell.rows("SELECT what FROM tasks")).toEqual([{ what: "sweep" }, { what: "cook" }]);
    expect(shell.rows("SELECT km FROM history")).toEqual([{ km: 6 }]);
    expect(shell.rows("SELECT news, mail FROM updates, inbox")).toEqual([{ news: "rain", mail: "hello" }]);
    expect(shell.rows("SELECT (SELECT count(*) FROM records) AS records, (SELECT count(*) FROM workers) AS workers")).toEqual([
      { records: 1, workers: 0 },
    ]);
    expect(await bench.row("a")).toMatchObject({ turns: 1, state: payload("s") });
    shell.close();
  });

  test("user_version and application_id are the user's: kept, and changed as they like", async () => {
    const marks = (version: number, id: number) => `PRAGMA user_version = ${version}; PRAGMA application_id = ${id}`;
    const { path, shell } = fileOf(`CREATE TABLE orders (x); ${marks(7, 12_345)}`);
    const read = () => [shell.rows("PRAGMA user_version")[0]?.["user_version"], shell.rows("PRAGMA application_id")[0]?.["application_id"]];
    const first = await openBench(path, { library });
    await first.created("a");
    expect(read()).toEqual([7, 12_345]);
    // While it is open, and while no process has it open.
    shell.exec(marks(8, 54_321));
    await first.created("b");
    await first.store.close();
    shell.exec(marks(99, 0));
    const second = await openBench(path, { library });
    expect((await second.store.count({})).pending).toBe(2);
    await second.store.close();
    expect(read()).toEqual([99, 0]);
    shell.close();
  });

  test("a new file has neither mark", async () => {
    const shell = openShell(await changed(""), library);
    expect([...shell.rows("PRAGMA user_version"), ...shell.rows("PRAGMA application_id")]).toEqual([
      { user_version: 0 },
      { application_id: 0 },
    ]);
    shell.close();
  });

  test("many open the file of another program at once", async () => {
    const { path, shell } = fileOf("CREATE TABLE runs (x); PRAGMA user_version = 3");
    const stores = await Promise.all(range(8).map(() => open(path)));
    expect((await Promise.all(stores.map((store) => store.count({})))).map(({ pending }) => pending)).toEqual(stores.map(() => 0));
    expect(shell.rows("SELECT version FROM holdfast_schema")).toEqual([{ version: 1 }]);
    shell.close();
  });

  test("what the user adds to a file that is open already, even under such a name, is not a reason to refuse it", async () => {
    const path = await changed("CREATE INDEX holdfast_runs_mine ON holdfast_runs (queue); ALTER TABLE holdfast_runs ADD COLUMN note TEXT");
    const bench = await openBench(path, { library });
    await bench.created("a");
    expect((await bench.row("a")).id).toBe("a");
  });

  test.each([
    ["a table of one of our names", "CREATE TABLE holdfast_runs (x)", "holdfast_runs"],
    ["a table that begins like ours", "CREATE TABLE Holdfast_Notes (x)", "holdfast_notes"],
    ["a view of one of our names", "CREATE VIEW holdfast_history AS SELECT 1", "holdfast_history"],
    ["an index of one of our names", "CREATE INDEX holdfast_runs_to_claim ON mine (x)", "holdfast_runs_to_claim"],
    ["a schema of another kind", "CREATE TABLE holdfast_schema (name TEXT); INSERT INTO holdfast_schema VALUES ('1')", "holdfast_schema"],
  ])("%s that is not ours is refused; the file is left as it is, and unlocked", async (_, sql, name) => {
    const { path, shell } = fileOf(`CREATE TABLE mine (x); ${sql}`);
    const before = shell.rows("SELECT * FROM sqlite_master");
    const failure = await failureOf(open(path));
    expect(failure).toBeInstanceOf(StoreForeignError);
    expect(failure.code).toBe("HF_STORE_FOREIGN");
    expect(failure.message).toContain(name);
    expect(shell.rows("SELECT * FROM sqlite_master")).toEqual(before);
    expect(shell.rows("PRAGMA journal_mode")).toEqual([{ journal_mode: "delete" }]);
    shell.exec("BEGIN EXCLUSIVE; INSERT INTO mine VALUES (1); COMMIT");
    shell.close();
  });

  test.each([
    ["no version", "DELETE FROM holdfast_schema"],
    ["two versions", "INSERT INTO holdfast_schema VALUES (2, 'x')"],
    ["a version that is not a number", "UPDATE holdfast_schema SET version = 'new'"],
    ["a version that never was", "UPDATE holdfast_schema SET version = 0"],
    ["no table of it", "DROP TABLE holdfast_schema"],
  ])("a schema with %s is refused", async (_, sql) => {
    const failure = await failureOf(open(await changed(sql)));
    expect(failure).toBeInstanceOf(StoreForeignError);
    expect(failure.message).toContain("holdfast_schema");
  });

  test.each(TABLES.filter((name) => name !== "holdfast_schema"))(
    "a file that has lost %s is damaged, and is not fixed with an empty table",
    async (table) => {
      const path = await changed(`DROP TABLE ${table}`);
      const failure = await failureOf(open(path));
      expect(failure).toBeInstanceOf(StoreCorruptError);
      expect((failure.cause as Error).message).toContain(table);
      expect(tablesOf(path)).not.toContain(table);
    },
  );
});
