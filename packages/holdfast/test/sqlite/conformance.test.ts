// The SQLite store keeps the port, on files, through crashes: an instance is dropped unclosed and another opens its file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeConformance } from "@holdfast/conformance";
import { afterAll, describe, test } from "vitest";
import type { Store } from "../../src/store/port.ts";
import { openLibrary } from "../../src/store/sqlite/library.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-conformance-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const clocks = new Map<string, () => number>();

async function open(path: string, clock: () => number): Promise<SqliteStore> {
  clocks.set(path, clock);
  // What is written outlives this process whether it is synced or not; power loss is not what this suite is about.
  const store = new SqliteStore(path, { clock, synchronous: "NORMAL" });
  await store.open();
  return store;
}

const again = (store: Store): Promise<Store> => {
  const { path } = store as SqliteStore;
  return open(path, clocks.get(path) ?? Date.now);
};

/** Every change of rows of runs whose ids begin with "bad" is refused. */
async function refuseBad(store: Store): Promise<void> {
  const db = openLibrary((store as SqliteStore).path);
  const refuse = (event: "INSERT" | "UPDATE" | "DELETE", table: string, id: (row: string) => string): void => {
    const row = event === "DELETE" ? "OLD" : "NEW";
    db.exec(
      `CREATE TRIGGER refuse_${table}_${event} BEFORE ${event} ON holdfast_${table} WHEN ${id(row)} LIKE 'bad%' BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
    );
  };
  for (const event of ["INSERT", "UPDATE", "DELETE"] as const) {
    refuse(event, "runs", (row) => `${row}.id`);
    for (const table of ["records", "inbox", "tasks", "attempts"])
      refuse(event, table, (row) => `(SELECT id FROM holdfast_runs WHERE key = ${row}.run)`);
  }
  db.close();
}

describe("SqliteStore", () => {
  storeConformance({
    name: "SQLite",
    hasQueues: true,
    test,
    makeStore: ({ clock }) => open(join(folder, `${++files}.db`), clock),
    reopen: again,
    beside: again,
    refuseBad,
  });
});
