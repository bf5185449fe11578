// An SQLite file that is read in another thread: the same answers, errors with their codes, and an event loop that is not held up.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { jsonCodec } from "@holdfast/core";
import { build } from "vite";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { readSqlite } from "../../src/inspect/thread.ts";
import type { ReadStore } from "../../src/store/inspectPort.ts";
import { SqliteReader } from "../../src/store/sqlite/reader.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";

const outDir = join(import.meta.dirname, "../../../../.cache/inspect-thread", `${process.pid}`);
let program: URL;
beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true, external: ["libsql"], resolve: { conditions: ["@holdfast/source"] } },
    build: {
      ssr: join(import.meta.dirname, "../../src/inspect/threadMain.ts"),
      outDir,
      emptyOutDir: false,
      minify: false,
      rollupOptions: { external: ["libsql"], output: { entryFileNames: "threadMain.mjs" } },
    },
  });
  program = pathToFileURL(join(outDir, "threadMain.mjs"));
}, 60_000);
afterAll(() => rmSync(outDir, { recursive: true, force: true }));

let folder = "";
let store: SqliteStore;
let thread: ReadStore;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-thread-"));
  const path = join(folder, "app.db");
  store = new SqliteStore(path);
  await store.open();
  thread = readSqlite({ path, program });
});
afterEach(async () => {
  await thread.close();
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});
const create = (...ids: readonly string[]): Promise<unknown> =>
  store.create(
    ids.map((id) => ({
      ...{ id, workflow: "order", version: undefined, input: jsonCodec.encode(id), queue: "default", priority: 0 },
      ...{ attributes: {}, onConflict: "reject" as const, seed: "seed" },
    })),
  );

test("every read gives what a reader in this thread gives", async () => {
  await create("a", "b");
  await store.register([{ workflow: "order", version: undefined, info: "{}" }]);
  const here = new SqliteReader(join(folder, "app.db"));
  const [far, near] = [thread.inspect?.(), here.inspect()];
  const reads: readonly ((one: ReadStore) => unknown)[] = [
    (one) => one.get(["a", "unknown"]),
    (one) => one.list({ limit: 1 }),
    (one) => one.count({}),
    (one) => one.history("a"),
    (one) => one.attempts("a"),
    (one) => one.inbox("a"),
    (one) => one.workers?.("a"),
    (one) => one.liveWorkers?.(),
    (one) => one.getQueue?.("default"),
    (one) => one.listQueues?.(),
  ];
  for (const read of reads) expect(await read(thread)).toEqual(await read(here));
  expect(far?.host).toBe(near.host);
  expect(await far?.listRuns({ limit: 10 })).toEqual(await near.listRuns({ limit: 10 }));
  expect(await far?.turnsOf("a", { limit: 1 })).toEqual(await near.turnsOf("a", { limit: 1 }));
  expect(await far?.executionsOf("a")).toEqual(await near.executionsOf("a"));
  expect(await far?.messagesOf("a")).toEqual(await near.messagesOf("a"));
  expect(await far?.workersOf("a")).toEqual(await near.workersOf("a"));
  expect(await far?.workflows()).toEqual(await near.workflows());
  expect(await far?.state()).toEqual(await near.state());
  await here.close();
});

test("it sees what this process has just committed", async () => {
  for (let i = 0; i < 20; i++) {
    await create(`r${i}`);
    expect((await thread.get([`r${i}`]))[0]?.id).toBe(`r${i}`);
  }
});

test("errors keep their code; a wrong cursor is the caller's", async () => {
  await expect(thread.list({ limit: 1, cursor: "nonsense" })).rejects.toMatchObject({ name: "InvalidInputError" });
  const path = join(folder, "text.db");
  writeFileSync(path, "hello");
  const other = readSqlite({ path, program });
  await expect(other.list({ limit: 1 })).rejects.toMatchObject({ code: "HF_STORE_FOREIGN" });
  await other.close();
  await expect(other.list({ limit: 1 })).rejects.toMatchObject({ code: "HF_STORE_CLOSED" });
});

test("watchers are called when the file changes", async () => {
  await create("a");
  await thread.get(["a"]);
  let count = 0;
  await new Promise<void>((resolve) => {
    const writing = setInterval(() => void create(`b${count++}`), 60);
    const stop = thread.watch(() => {
      clearInterval(writing);
      stop();
      resolve();
    });
  });
  expect(count).toBeGreaterThan(0);
});

test("reads that take long do not hold up this thread", async () => {
  // The thread gets a hundred reads at once; this thread goes on meanwhile, and has its answers later.
  await store.create(
    Array.from({ length: 200 }, (_, i) => ({
      ...{ id: `r${i}`, workflow: "order", version: undefined, input: jsonCodec.encode("x".repeat(10_000)), queue: "default", priority: 0 },
      ...{ attributes: {}, onConflict: "reject" as const, seed: "seed" },
    })),
  );
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  const reads = Promise.all(Array.from({ length: 50 }, () => thread.list({ limit: 200 })));
  setImmediate(count);
  expect((await reads).every(({ runs }) => runs.length === 200)).toBe(true);
  isOver = true;
  expect(turns).toBeGreaterThan(50);
});

test("it is closed in the middle of reads and looks without harm to this process, and what comes later is refused", async () => {
  await create("a");
  for (let i = 0; i < 20; i++) {
    const reader = readSqlite({ path: join(folder, "app.db"), program });
    reader.watch(() => {});
    await reader.get(["a"]);
    const reads = Array.from({ length: i }, () => reader.list({ limit: 10 }));
    const closed = reader.close();
    await expect(reader.get(["a"])).rejects.toMatchObject({ code: "HF_STORE_CLOSED" });
    await Promise.all([closed, reader.close(), ...reads]);
  }
});
