// An SQLite file that is only read: nothing is created or written, whatever is there.

import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jsonCodec } from "@holdfast/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StoreForeignError, StoreVersionError } from "../../src/store/errors.ts";
import type { NewRun } from "../../src/store/port.ts";
import { type LibraryName, openLibrary, preferredLibrary } from "../../src/store/sqlite/library.ts";
import { SqliteReader } from "../../src/store/sqlite/reader.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const LIBRARIES = [...new Set<LibraryName>([preferredLibrary(), "libsql"])];

describe.each(LIBRARIES)("with %s", (library) => {
  let folder = "";
  let path = "";
  const opened: { close(): Promise<void> }[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-reader-"));
    path = join(folder, "deep", "app.db");
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const run = (id: string): NewRun => ({
    ...{ id, workflow: "order", version: undefined, input: jsonCodec.encode(id), queue: "default", priority: 0 },
    ...{ attributes: {}, onConflict: "reject" as const, seed: "seed" },
  });
  function read(): SqliteReader {
    const reader = new SqliteReader(path, { library });
    opened.push(reader);
    return reader;
  }
  async function write(...ids: readonly string[]): Promise<SqliteStore> {
    const store = new SqliteStore(path, { library });
    await store.open();
    opened.push(store);
    await store.create(ids.map(run));
    return store;
  }
  const ids = async (reader: SqliteReader): Promise<string[]> => (await reader.list({ limit: 10 })).runs.map(({ id }) => id);

  test("a file that is not there reads as empty, and is not created", async () => {
    const reader = read();
    expect(await ids(reader)).toEqual([]);
    expect(await reader.get(["a"])).toEqual([undefined]);
    expect(await reader.count({})).toMatchObject({ pending: 0, capped: [] });
    expect(await reader.liveWorkers()).toEqual([]);
    expect(await reader.listQueues()).toEqual([]);
    expect(await reader.inspect().state()).toEqual({ exists: false, schema: undefined });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("a file that comes later is read, and so is one that takes its place", async () => {
    const reader = read();
    expect(await ids(reader)).toEqual([]);
    const first = await write("a");
    expect(await ids(reader)).toEqual(["a"]);
    expect(await reader.inspect().state()).toEqual({ exists: true, schema: { found: 1, known: 1 } });
    await first.create([run("b")]);
    expect((await ids(reader)).toSorted()).toEqual(["a", "b"]);
    await first.close();
    renameSync(join(folder, "deep"), join(folder, "old"));
    expect(await ids(reader)).toEqual([]);
    await write("c");
    expect(await ids(reader)).toEqual(["c"]);
  });

  test("a file that is closed stays as it is, byte for byte", async () => {
    await (await write("a")).close();
    const before = { bytes: readFileSync(path), time: statSync(path).mtimeMs };
    const reader = read();
    expect(await ids(reader)).toEqual(["a"]);
    await reader.close();
    expect(readFileSync(path).equals(before.bytes)).toBe(true);
    expect(statSync(path).mtimeMs).toBe(before.time);
  });

  test("an empty file, and one with tables of another program, read as empty", async () => {
    path = join(folder, "empty.db");
    writeFileSync(path, "");
    expect(await ids(read())).toEqual([]);
    expect(statSync(path).size).toBe(0);
    path = join(folder, "other.db");
    const other = openLibrary(path, library);
    other.exec("CREATE TABLE users (id INTEGER)");
    other.close();
    expect(await ids(read())).toEqual([]);
  });

  test("what is not a database, and a newer version, are errors", async () => {
    path = join(folder, "text.db");
    writeFileSync(path, "hello");
    await expect(ids(read())).rejects.toThrow(StoreForeignError);
    path = join(folder, "newer.db");
    const newer = openLibrary(path, library);
    newer.exec("CREATE TABLE holdfast_schema (version INTEGER NOT NULL, hash TEXT NOT NULL); INSERT INTO holdfast_schema VALUES (99, 'x')");
    newer.close();
    await expect(ids(read())).rejects.toThrow(StoreVersionError);
  });

  test("watchers are called when the file has changed", async () => {
    const reader = read();
    let calls = 0;
    const called = (): Promise<void> =>
      new Promise((resolve) => {
        const stop = reader.watch(() => {
          calls++;
          stop();
          resolve();
        });
      });
    const first = called();
    const store = await write("a");
    let count = 0;
    // Whether the first look came before the file or after it, one of the next ones sees a change.
    const writing = setInterval(() => void store.create([run(`b${count++}`)]), 60);
    await first;
    await called();
    clearInterval(writing);
    expect(calls).toBe(2);
  });
});
