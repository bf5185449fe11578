// Wake-ups between connections: other processes' writes are seen within milliseconds.

import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import type { Wakeup } from "../../src/store/port.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { bundled } from "./processes/bundled.ts";
import { newPath, openBench, openStore } from "./support.ts";

const firstOf = (store: SqliteStore) =>
  new Promise<Wakeup>((resolve) => {
    const stop = store.watch((wakeup) => {
      stop();
      resolve(wakeup);
    });
  });

test("D9 a write of another connection wakes watchers", async () => {
  const path = newPath();
  const watching = await openStore(path);
  const bench = await openBench(path);
  const lengths: number[] = [];
  for (const id of ["a", "b", "c", "d", "e"]) {
    const woken = firstOf(watching);
    const began = performance.now();
    await bench.create(id);
    expect(await woken).toMatchObject({ work: true, tasks: true, results: true });
    lengths.push(performance.now() - began);
  }
  // The quickest of them: the machine may be busy meanwhile.
  expect(Math.min(...lengths)).toBeLessThan(1_000);
});

test("D9 own writes wake with what they changed, after the commit, and only once", async () => {
  const store = await openStore();
  const bench = await openBench(store.path);
  const seen: Wakeup[] = [];
  const stop = store.watch((wakeup) => seen.push(wakeup));
  await store.create([bench.newRun("a")]);
  expect(seen).toEqual([{ work: true, isOwn: true }]);
  await new Promise((done) => setTimeout(done, 30)); // long enough for several looks at the file
  expect(seen).toEqual([{ work: true, isOwn: true }]);
  stop();
});

test("a watcher may begin before the store is open, and goes on when it is opened again", async () => {
  const path = newPath();
  const store = new SqliteStore(path, { synchronous: "NORMAL" });
  const seen: Wakeup[] = [];
  const stop = store.watch((wakeup) => seen.push(wakeup));
  await store.open();
  const bench = await openBench(path);
  const other = firstOf(store);
  await bench.create("a");
  await other;
  await store.close();
  await store.open();
  const before = seen.length;
  await bench.create("b");
  await expect.poll(() => seen.length).toBeGreaterThan(before);
  stop();
  await store.close();
});

test("a watcher does not keep the process alive", async () => {
  const { stdout, status } = spawnSync(process.execPath, [await bundled("watcher"), newPath()], { encoding: "utf8", timeout: 50_000 });
  expect({ stdout, status }).toEqual({ stdout: "watching\n", status: 0 });
});
