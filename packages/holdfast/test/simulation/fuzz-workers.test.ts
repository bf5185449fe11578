// Rows that were tampered with under a worker: it lives on, the runs beside it end, and whoever asks for the damaged one is answered.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HoldfastError, signal, workflow } from "@holdfast/core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Holdfast } from "../../src/holdfast.ts";
import { openDriver, type Value } from "../../src/store/sqlite/driver.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-fuzz-workers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

const waits = workflow({ name: "waits", signals: { go: signal<number>() } }, async (ctx, input: number) => {
  await ctx.step("a", () => input);
  return [await ctx.waitForSignal("go")];
});

/** A file with a run in the middle of its life, its signal in the inbox. */
let original: string;
beforeAll(async () => {
  original = join(folder, "original.db");
  const engine = await Holdfast.open(`file:${original}?synchronous=NORMAL`, { logger: quiet });
  const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
  const run = await engine.start(waits, 1, { id: "one" });
  await vi.waitFor(async () => expect((await run.describe()).status).toBe("sleeping"), 10_000);
  await worker.stop();
  await run.signal("go", 1);
  await engine.close();
});

const PLACES = [
  ["holdfast_runs", "input"],
  ["holdfast_runs", "turns"],
  ["holdfast_runs", "execution"],
  ["holdfast_runs", "retry"],
  ["holdfast_records", "data"],
  ["holdfast_records", "type"],
  ["holdfast_inbox", "data"],
] as const;
const BROKEN: readonly Value[] = ["{", "[]", -1];

test.each(PLACES.flatMap(([table, column]) => BROKEN.map((value) => [table, column, value] as const)))(
  "V4 W3 %s.%s = %o: the worker lives on, the run beside it ends, the damaged one is answered for",
  async (table, column, value) => {
    const path = join(folder, `${table}-${column}-${BROKEN.indexOf(value)}.db`);
    copyFileSync(original, path);
    const driver = openDriver(path);
    let isRefused = false;
    try {
      driver.prepare(`UPDATE ${table} SET ${column} = ?`).run([value]);
    } catch {
      isRefused = true; // by the table itself
    } finally {
      driver.close();
    }
    const engine = await Holdfast.open(`file:${path}?synchronous=NORMAL`, { logger: quiet });
    const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
    const healthy = await engine.start(waits, 2, { id: "two" });
    await healthy.signal("go", 2);
    expect(await healthy.result({ timeout: "20s" })).toEqual([2]);
    const told = await engine
      .run("one", waits)
      .result({ timeout: "1s" })
      .catch((error: unknown) => error);
    if (isRefused) expect(told).toEqual([1]);
    else if (!(told instanceof HoldfastError)) expect(told).toEqual([1]); // what was changed did not matter
    await worker.stop();
    await engine.close();
  },
  60_000,
);
