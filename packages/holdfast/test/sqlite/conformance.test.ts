// The SQLite store keeps the port, on files, through crashes: an instance is dropped unclosed and another opens its file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { storeConformance } from "@holdfast/conformance";
import { afterAll, describe, test } from "vitest";
import type { Store } from "../../src/store/port.ts";
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

describe("SqliteStore", () => {
  storeConformance({
    name: "SQLite",
    test,
    makeStore: ({ clock }) => open(join(folder, `${++files}.db`), clock),
    reopen: again,
    beside: again,
  });
});
