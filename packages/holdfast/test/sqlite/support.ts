// Files, benches and raw connections for tests of the SQLite store.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Bench } from "@holdfast/conformance/bench";
import { afterAll, vi } from "vitest";
import { StoreError } from "../../src/store/errors.ts";
import { Connection } from "../../src/store/sqlite/connection.ts";
import { type Library, type LibraryName, openLibrary, preferredLibrary, type Value } from "../../src/store/sqlite/library.ts";
import { SqliteStore, type SqliteStoreOptions } from "../../src/store/sqlite/store.ts";

/** Both, where this Node has both. */
export const LIBRARIES: readonly LibraryName[] = preferredLibrary() === "node:sqlite" ? ["node:sqlite", "libsql"] : ["libsql"];

const open: { close(): unknown }[] = [];
const folder = mkdtempSync(join(tmpdir(), "holdfast-sqlite-"));
let files = 0;

afterAll(async () => {
  for (const one of open) await one.close();
  rmSync(folder, { recursive: true, force: true });
});

export function newPath(name = "test.db"): string {
  return join(folder, String(++files), name);
}

export async function openStore(path: string = newPath(), options: SqliteStoreOptions = {}): Promise<SqliteStore> {
  const store = new SqliteStore(path, { synchronous: "NORMAL", ...options });
  await store.open();
  open.push(store);
  return store;
}

/** A bench whose clock the test moves, on a file of its own. */
export function openBench(path: string = newPath(), options: SqliteStoreOptions = {}): Promise<Bench> {
  return Bench.on({ makeStore: ({ clock }) => openStore(path, { clock, ...options }) });
}

/** With a limit to the size of the file, where a disk can't be filled: it is the connection's own, which the store keeps to itself. */
export async function openLimited(path: string = newPath(), options: SqliteStoreOptions = {}) {
  const opening = vi.spyOn(Connection, "open");
  const bench = await openBench(path, options);
  const db = (await opening.mock.results[0]?.value) as Connection;
  opening.mockRestore();
  const pages = () => Number(db.get("PRAGMA page_count", [])?.[0]);
  /** Room for so many pages more. */
  const limit = (more: number): void => void db.get(`PRAGMA max_page_count = ${pages() + more}`, []);
  return { bench, limit };
}

export interface Shell {
  rows(sql: string, ...parameters: Value[]): Record<string, Value>[];
  exec(sql: string): void;
  close(): void;
}

/** Another program that has the file open, as `sqlite3` would. */
export function openShell(path: string, name?: LibraryName): Shell {
  const library: Library = openLibrary(path, name);
  const shell = {
    rows: (sql: string, ...parameters: Value[]) => library.prepareNamed(sql).all(...parameters),
    exec: (sql: string) => library.exec(sql),
    close: () => library.close(),
  };
  return shell;
}

/** The typed error that a call ends in. */
export async function failureOf(work: Promise<unknown>): Promise<StoreError> {
  const failure = await work.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(failure instanceof StoreError)) throw new Error(`not a StoreError: ${String(failure)}`);
  return failure;
}
