// Opening a file: what is made, what is refused, what happens when the file is not what it was.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { bundled } from "./processes/bundled.ts";
import { failureOf, newPath, openBench, openLimited, openShell, openStore } from "./support.ts";

function fileWith(content: string | Uint8Array): string {
  const path = newPath();
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

describe("opening", () => {
  test("makes the folder and the file", async () => {
    const path = join(dirname(newPath()), "a", "b", "c.db");
    await openStore(path);
    expect(existsSync(path)).toBe(true);
  });

  test.skipIf(process.platform === "win32")("what it makes is for its user alone; what exists keeps its mode", async () => {
    const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
    const before = process.umask(0);
    try {
      const path = join(dirname(newPath()), "made", "too", "c.db");
      const bench = await openBench(path);
      await bench.created("a");
      expect([dirname(path), dirname(dirname(path))].map(mode)).toEqual(["700", "700"]);
      expect(["", "-wal", "-shm"].map((suffix) => mode(path + suffix))).toEqual(["600", "600", "600"]);

      const shared = newPath();
      mkdirSync(dirname(shared), { recursive: true, mode: 0o755 });
      writeFileSync(shared, "", { mode: 0o640 });
      await openStore(shared);
      expect([dirname(shared), shared, `${shared}-wal`].map(mode)).toEqual(["755", "640", "640"]);
    } finally {
      process.umask(before);
    }
  });

  test("is safe when many open the same new file at once", async () => {
    const path = newPath();
    const stores = await Promise.all(Array.from({ length: 8 }, () => openStore(path)));
    const counts = await Promise.all(stores.map((store) => store.count({})));
    expect(counts.map(({ pending }) => pending)).toEqual(stores.map(() => 0));
  });

  test("a second store of the same process leaves the first its locks: neither takes the file for its own", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await (await openStore(path)).close();
    await openStore(path);
    const { stdout, stderr } = spawnSync(process.execPath, [await bundled("lastUser"), path], { encoding: "utf8" });
    expect(stdout.trim() || stderr).toBe("SQLITE_BUSY");
    await bench.created("a");
    expect(existsSync(`${path}-wal`)).toBe(true);
  });

  test("twice is once, and a store can be opened again after it was closed", async () => {
    const store = await openStore();
    await Promise.all([store.open(), store.open()]);
    await store.close();
    await store.close();
    expect((await failureOf(store.count({}))).code).toBe("HF_STORE_CLOSED");
    await store.open();
    expect((await store.count({})).pending).toBe(0);
  });

  test("WAL, FULL by default", async () => {
    const path = newPath();
    const store = new SqliteStore(path);
    await store.open();
    const shell = openShell(path);
    expect(shell.rows("PRAGMA journal_mode")).toEqual([{ journal_mode: "wal" }]);
    shell.close();
    await store.close();
  });

  test("what was written is in the file itself once the store is closed", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    await bench.store.close();
    rmSync(`${path}-wal`, { force: true });
    rmSync(`${path}-shm`, { force: true });
    expect((await (await openBench(path)).row("a")).id).toBe("a");
  });
});

describe("a file that can't be used", () => {
  test.each([
    ["no database", "These are notes, and no database at all. ".repeat(200)],
    ["too short for one", "x"],
    ["shorter than the smallest page", "SQLite format 3\0".padEnd(511, "x")],
  ])("%s is refused and left as it is", async (_, content) => {
    const path = fileWith(content);
    const failure = await failureOf(openStore(path));
    expect(failure.code).toBe("HF_STORE_FOREIGN");
    expect(failure.message).toContain(path);
    expect(readFileSync(path, "utf8")).toBe(content);
  });

  test("a folder is refused", async () => {
    expect((await failureOf(openStore(dirname(fileWith(""))))).code).toBe("HF_STORE_CANNOT_OPEN");
  });
  test("a folder that can't be made is refused", async () => {
    const failure = await failureOf(openStore(join(fileWith("a file"), "below", "x.db")));
    expect(failure.code).toBe("HF_STORE_CANNOT_OPEN");
  });

  test.each([
    ["a name that is too long", join(dirname(newPath()), `${"n".repeat(300)}.db`)],
    ["a path that is too long", join(dirname(newPath()), "folder/".repeat(1_000), "x.db")],
    ["a device", "/dev/null"],
  ])("%s is refused", async (_, path) => {
    const failure = await failureOf(openStore(path));
    expect(failure).toMatchObject({ code: "HF_STORE_CANNOT_OPEN", name: "StoreOpenError" });
  });

  test("a newer version is refused and left as it is", async () => {
    const path = newPath();
    await (await openStore(path)).close();
    const shell = openShell(path);
    shell.exec("UPDATE holdfast_schema SET version = 99");
    shell.close();
    const failure = await failureOf(openStore(path));
    expect(failure).toMatchObject({ code: "HF_STORE_NEWER", found: 99, known: 1, name: "StoreVersionError" });
    const again = openShell(path);
    expect(again.rows("SELECT version FROM holdfast_schema")).toEqual([{ version: 99 }]);
    again.close();
  });

  test.each([
    ["by a build between releases", "UPDATE holdfast_schema SET hash = 'x'"],
    ["before there were hashes", "ALTER TABLE holdfast_schema DROP COLUMN hash"],
  ])("HF_STORE_SCHEMA one of this version that was made %s is refused, with what to do, and left as it is", async (_, sql) => {
    const path = newPath();
    await (await openStore(path)).close();
    const shell = openShell(path);
    shell.exec(sql);
    const before = shell.rows("SELECT * FROM holdfast_schema");
    const failure = await failureOf(openStore(path));
    expect(failure).toMatchObject({
      code: "HF_STORE_SCHEMA",
      name: "StoreSchemaError",
      message: expect.stringContaining("name another file"),
    });
    expect(shell.rows("SELECT * FROM holdfast_schema")).toEqual(before);
    shell.close();
  });

  test("a damaged one is a typed error", async () => {
    const path = newPath();
    const bench = await openBench(path);
    for (let i = 0; i < 300; i++) await bench.create(`run-${i}`);
    await bench.store.close();
    const { size } = statSync(path);
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 4_096, size - 4_096);
    writeFileSync(path, bytes);
    const failure = await failureOf(
      (async () => {
        const store = await openStore(path);
        await store.list({ limit: 1_000 });
      })(),
    );
    expect(failure.code).toBe("HF_STORE_CORRUPT");
  });
  test("one that was cut short is a typed error", async () => {
    const path = newPath();
    const bench = await openBench(path);
    for (let i = 0; i < 300; i++) await bench.create(`run-${i}`);
    await bench.store.close();
    truncateSync(path, 8_192);
    const failure = await failureOf(
      (async () => {
        const store = await openStore(path);
        await store.list({ limit: 1_000 });
      })(),
    );
    expect(failure.code).toBe("HF_STORE_CORRUPT");
  });

  test("one that may not be written to is a typed error", async () => {
    const path = newPath();
    await (await openStore(path)).close();
    chmodSync(path, 0o444);
    chmodSync(dirname(path), 0o555);
    // Root may write anywhere: another user has to try.
    const otherUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const { stdout, stderr } = spawnSync(process.execPath, [await bundled("opener"), path], { encoding: "utf8", ...otherUser });
    expect(stdout.trim() || stderr).toMatch(/^HF_STORE_(READ_ONLY|CANNOT_OPEN)$/);
  });
});

describe("a file that changes under an open store", () => {
  test.each([
    ["all of it, with random bytes", "size", 0],
    ["its first page", "4096", 0],
    ["all but its first page", "size - 4096", 4_096],
  ])("overwritten, %s: the next write is refused, and says so", async (_what, length, at) => {
    const path = newPath();
    const bench = await openBench(path);
    for (let i = 0; i < 300; i++) await bench.create(`run-${i}`);
    const shell = openShell(path);
    expect(shell.rows("PRAGMA wal_checkpoint(TRUNCATE)")).toMatchObject([{ busy: 0 }]);
    shell.close();
    await bench.created("before"); // the last that is acknowledged
    // By another process: closing the file here would release the locks of this process.
    const garbage = `const fs = require("node:fs"), [path, at] = process.argv.slice(1), { size } = fs.statSync(path), fd = fs.openSync(path, "r+");
      fs.writeSync(fd, require("node:crypto").randomBytes(${length}), 0, ${length}, Number(at))`;
    expect(spawnSync(process.execPath, ["-e", garbage, path, String(at)], { encoding: "utf8" }).stderr).toBe("");
    expect((await failureOf(bench.create("after"))).code).toBe("HF_STORE_CORRUPT");
    expect((await failureOf(bench.store.claim({ workerId: "w", queue: "q", serves: [], limit: 1, lease: 1, cached: () => undefined }))).code).toBe("HF_STORE_CORRUPT"); // biome-ignore format: one line
    await bench.store.close();
  });
  test("deleted: nothing more is written", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    rmSync(path);
    const failure = await failureOf(bench.create("b"));
    expect(failure).toMatchObject({ code: "HF_STORE_MOVED", name: "StoreMovedError" });
    expect(existsSync(path)).toBe(false);
  });
  test("deleted while a worker goes on with a run: calls find out at once, its turns soon", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held) });
    rmSync(path);
    expect((await failureOf(bench.create("b"))).code).toBe("HF_STORE_MOVED");
    expect((await failureOf(Promise.all([bench.create("b"), bench.commit(held, { turn: bench.turn(held) })]))).code).toBe("HF_STORE_MOVED");
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect((await failureOf(bench.commit(held, { turn: bench.turn(held) }))).code).toBe("HF_STORE_MOVED");
  });
  test("its log deleted: nothing more is written to a file that will not be read", async () => {
    const path = newPath();
    const bench = await openBench(path);
    const held = await bench.running("a");
    const link = `${path}.link`;
    symlinkSync(path, link);
    const linked = await openBench(link);
    await linked.created("b");
    rmSync(`${path}-wal`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const failure = await failureOf(bench.commit(held, { turn: bench.turn(held) }));
    expect(failure.code).toBe("HF_STORE_MOVED");
    expect(failure.message).toContain(`${path}-wal was deleted`);
    expect((await failureOf(linked.create("c"))).code).toBe("HF_STORE_MOVED");
  });
  test("the index of its log deleted: others would not see what is written", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    rmSync(`${path}-shm`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const failure = await failureOf(bench.create("b"));
    expect(failure.code).toBe("HF_STORE_MOVED");
    expect(failure.message).toContain(`${path}-shm was deleted`);
  });
  test.each([
    ["deleted", (path: string) => rmSync(path)],
    ["replaced", (path: string) => writeFileSync(`${path}.new`, "") ?? renameSync(`${path}.new`, path)],
  ])("%s: every read is refused", async (_, change) => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    const { store } = bench;
    change(path);
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (const read of [store.get(["a"]), store.history("a"), store.list({ limit: 1 }), store.count({}), bench.claim()])
      expect((await failureOf(read)).code).toBe("HF_STORE_MOVED");
  });
  test("replaced: nothing more is written, to neither", async () => {
    const path = newPath();
    const bench = await openBench(path);
    await bench.created("a");
    renameSync(path, `${path}.old`);
    writeFileSync(path, "");
    expect((await failureOf(bench.create("b"))).code).toBe("HF_STORE_MOVED");
    expect(statSync(path).size).toBe(0);
  });

  test("full: a typed error, nothing half-written, and it works on once there is room", async () => {
    const { bench, limit } = await openLimited();
    const { store } = bench;
    const held = await bench.running("a");
    limit(4);
    const state = JSON.stringify("x".repeat(100_000));
    const failure = await failureOf(bench.commit(held, { turn: bench.turn(held), state }));
    expect(failure).toMatchObject({ code: "HF_STORE_FULL", retryable: true });
    expect(await bench.row("a")).toMatchObject({ turns: 0, historyLength: 0, state: undefined });
    expect(await store.history("a")).toEqual([]);
    limit(1_000_000);
    held.turns = 0;
    await bench.commit(held, { turn: bench.turn(held), state });
    expect(await bench.row("a")).toMatchObject({ turns: 1, state });
  });
});
