// The seam: both libraries look the same from the store's side.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { isBusy, SqliteFailure } from "../../src/store/sqlite/failures.ts";
import { type Library, openLibrary } from "../../src/store/sqlite/library.ts";
import { LIBRARIES, newPath } from "./support.ts";

function emptyFile(): string {
  const path = newPath();
  mkdirSync(dirname(path), { recursive: true });
  return path;
}

describe.each(LIBRARIES)("%s", (name) => {
  const withTable = (): { library: Library; path: string } => {
    const path = emptyFile();
    const library = openLibrary(path, name);
    library.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b)");
    return { library, path };
  };

  test("rows are arrays, numbers are numbers, blobs are bytes", () => {
    const { library } = withTable();
    const insert = library.prepare("INSERT INTO t (b) VALUES (?) RETURNING a");
    const values = [null, 1, 1.5, 1_763_000_000_000, "text", new Uint8Array([1, 2]), new Uint8Array([9, 8, 7, 6]).subarray(1, 3)];
    expect(values.map((value) => insert.get([value])?.[0])).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const rows = library.prepare("SELECT b FROM t ORDER BY a").all([]);
    expect(rows.map(([b]) => (b instanceof Uint8Array ? [...b] : b))).toEqual([null, 1, 1.5, 1_763_000_000_000, "text", [1, 2], [8, 7]]);
    expect(library.prepare("SELECT b FROM t WHERE a = 99").get([])).toBeUndefined();
    library.close();
  });

  test("an insert tells the key of its row, and nothing if a row was in the way, whatever was written before", () => {
    const { library } = withTable();
    library.exec("CREATE TABLE others (a INTEGER PRIMARY KEY, b); CREATE UNIQUE INDEX of_b ON t (b)");
    const insert = library.prepare("INSERT INTO t (b) VALUES (?) ON CONFLICT (b) DO NOTHING");
    const elsewhere = library.prepare("INSERT INTO others (a, b) VALUES (?, ?)");
    expect([insert.insert(["x"]), insert.insert(["x"]), insert.insert(["y"])]).toEqual([1, undefined, 2]);
    expect([elsewhere.insert([70, "o"]), insert.insert(["x"]), insert.insert(["z"]), elsewhere.insert([71, "o"])]).toEqual([
      70,
      undefined,
      3,
      71,
    ]);
    library.prepare("UPDATE others SET b = ?").run(["p"]);
    expect(insert.insert(["x"])).toBeUndefined();
    library.prepareNamed("INSERT INTO others (b) VALUES (?)").run("of a user");
    expect([insert.insert(["x"]), insert.insert(["w"])]).toEqual([undefined, 4]);
    // The user keeps a log: what a trigger writes is not the row.
    library.exec("CREATE TRIGGER log_before BEFORE INSERT ON t BEGIN INSERT INTO others (b) VALUES (new.b); END");
    library.exec("CREATE TRIGGER log_after AFTER INSERT ON t BEGIN INSERT INTO others (b) VALUES (new.b); DELETE FROM others; END");
    expect([insert.insert(["x"]), insert.insert(["v"])]).toEqual([undefined, 5]);
    library.exec("BEGIN");
    expect(insert.insert(["u"])).toBe(6);
    library.exec("ROLLBACK");
    expect([insert.insert(["x"]), insert.insert(["u"])]).toEqual([undefined, 6]);
    library.close();
  });

  test("a statement that failed works the next time", () => {
    const { library } = withTable();
    const insert = library.prepare("INSERT INTO t (a, b) VALUES (?, ?)");
    insert.run([1, "x"]);
    for (const _ of [1, 2]) expect(() => insert.run([1, "y"])).toThrow(SqliteFailure);
    insert.run([2, "z"]);
    expect(library.prepare("SELECT count(*) FROM t").get([])).toEqual([2]);
    library.close();
  });

  test("a lock of another connection is recognized, and not waited for", () => {
    const { library, path } = withTable();
    const other = openLibrary(path, name);
    other.prepare("PRAGMA journal_mode = WAL").get([]);
    other.exec("BEGIN IMMEDIATE");
    expect(library.prepare("PRAGMA busy_timeout").get([])).toEqual([0]);
    let failure: unknown;
    try {
      library.exec("BEGIN IMMEDIATE");
    } catch (error) {
      failure = error;
    }
    expect(isBusy(failure)).toBe(true);
    other.exec("COMMIT");
    library.exec("BEGIN IMMEDIATE");
    library.exec("COMMIT");
    other.close();
    library.close();
  });

  test("a transaction that was busy begins later, again and again", () => {
    const { library, path } = withTable();
    const other = openLibrary(path, name);
    for (let round = 1; round <= 3; round++) {
      other.begin();
      expect(() => library.begin()).toThrow(expect.objectContaining({ code: "SQLITE_BUSY" }));
      other.commit();
      library.begin();
      library.prepare("INSERT INTO t (b) VALUES (?)").run([round]);
      library.commit();
      expect(other.prepare("SELECT count(*) FROM t").get([])).toEqual([round]);
    }
    other.close();
    library.close();
  });

  test("it tells whether a transaction is open, also after an error that has rolled it back", () => {
    const { library } = withTable();
    const insert = library.prepare("INSERT OR ROLLBACK INTO t (a) VALUES (1)");
    expect(library.isInTransaction()).toBe(false);
    library.begin();
    insert.run([]);
    expect(library.isInTransaction()).toBe(true);
    expect(() => library.exec("INSERT INTO t (a) VALUES (1)")).toThrow(SqliteFailure);
    expect(library.isInTransaction()).toBe(true);
    expect(() => insert.run([])).toThrow(SqliteFailure);
    expect(library.isInTransaction()).toBe(false);
    library.close();
  });

  test("a user's statements are better-sqlite3's: rows are objects, parameters in turn, as a list or by name", () => {
    const { library } = withTable();
    const insert = library.prepareNamed("INSERT INTO t (b) VALUES (?)");
    expect(insert.run("x")).toEqual({ changes: 1, lastInsertRowid: 1 });
    insert.run(true);
    insert.run([undefined]);
    library.prepareNamed("INSERT INTO t (b) VALUES (:b)").run({ b: false });
    const select = library.prepareNamed("SELECT a AS id, b FROM t WHERE a >= ? ORDER BY a");
    expect(select.get(1)).toEqual({ id: 1, b: "x" });
    expect(Object.keys(select.get(1) ?? {})).toEqual(["id", "b"]);
    expect(select.all(2)).toEqual([
      { id: 2, b: 1 },
      { id: 3, b: null },
      { id: 4, b: 0 },
    ]);
    expect(() => insert.run({ deep: { object: 1 } })).toThrow();
    expect(() => insert.run(new Date())).toThrow();
    expect(() => insert.run(() => 1)).toThrow();
    library.close();
  });

  test("D6 a user's statement takes a value for each of its parameters, no fewer and no more", () => {
    const { library } = withTable();
    const insert = library.prepareNamed("INSERT INTO t (a, b) VALUES (?, ?) -- what?");
    for (const values of [[], [1], [[1]], [1, 2, 3], [[1, 2, 3]]]) {
      expect(() => insert.run(...values), JSON.stringify(values)).toThrow(TypeError);
      expect(() => insert.all(...values)).toThrow(/has 2 parameters, and was given [013] value/);
    }
    expect(() => library.prepareNamed("DELETE FROM t").run(1)).toThrow(/has 0 parameters, and was given 1 value\./);
    expect(library.prepareNamed("SELECT count(*) AS n FROM t").get()).toEqual({ n: 0 });
    insert.run(1, "?");
    expect(library.prepareNamed("SELECT ?2 AS b, ?1 AS a, ? AS c, ?1 AS d").get("x", "y", "z")).toEqual({ a: "x", b: "y", c: "z", d: "x" });
    expect(library.prepareNamed("SELECT b, 'no ?' AS c FROM t WHERE a = :a OR b = :a").get({ a: 1, other: 2 })).toEqual({
      b: "?",
      c: "no ?",
    });
    library.close();
  });

  test("it says nothing on opening", () => {
    const warn = vi.spyOn(process, "emitWarning");
    openLibrary(emptyFile(), name).close();
    expect(warn).not.toHaveBeenCalled();
    warn.mockRestore();
  });
});
