// Rows that were tampered with under a worker: it lives on, the runs beside it end, and callers that ask for the damaged one get an answer.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HoldfastError, signal, workflow } from "@holdfast/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Holdfast } from "../../src/api/holdfast.ts";
import { openLibrary, type Value } from "../../src/store/sqlite/library.ts";
import { until } from "./engines.ts";

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
  await until(async () => (await run.describe()).status === "sleeping");
  await worker.stop();
  await run.signal("go", 1);
  await engine.close();
});

const PLACES = [
  ["holdfast_runs", "input"],
  ["holdfast_runs", "turns"],
  ["holdfast_runs", "execution"],
  ["holdfast_runs", "retry"],
  ["holdfast_runs", "available_at"],
  ["holdfast_lanes", "priority"],
  ["holdfast_records", "data"],
  ["holdfast_records", "type"],
  ["holdfast_inbox", "data"],
  ["holdfast_inbox", "type"],
] as const;
const BROKEN: readonly Value[] = ["{", "[]", -1, Buffer.from("signal")];

test.each(PLACES.flatMap(([table, column]) => BROKEN.map((value) => [table, column, value] as const)))(
  "V4 W3 %s.%s = %o: the worker lives on, the run beside it ends, the damaged one is answered for",
  async (table, column, value) => {
    const path = join(folder, `${table}-${column}-${BROKEN.indexOf(value)}.db`);
    copyFileSync(original, path);
    const library = openLibrary(path);
    let isRefused = false;
    try {
      library.prepare(`UPDATE ${table} SET ${column} = ?`).run([value]);
    } catch {
      isRefused = true; // by the table itself
    } finally {
      library.close();
    }
    const engine = await Holdfast.open(`file:${path}?synchronous=NORMAL`, { logger: quiet });
    const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
    const healthy = await engine.start(waits, 2, { id: "two" });
    await healthy.signal("go", 2);
    expect(await healthy.result({ timeout: "20s" })).toEqual([2]);
    const told = await engine
      .run("one", waits)
      .result({ timeout: "20s" })
      .catch((error: unknown) => error);
    if (isRefused || !(told instanceof HoldfastError))
      expect(told).toEqual([1]); // or what was changed did not matter
    else expect(told).not.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    if (table === "holdfast_inbox" && column === "type") {
      expect(told).toMatchObject({ code: "HF_RUN_BLOCKED", cause: { code: "HF_STORE_CORRUPT" } });
      expect((told as Error).message).not.toContain("sqlite3");
    }
    await worker.stop();
    await engine.close();
  },
  60_000,
);

test("V4 W3 D4 a message that was damaged under a run in hand: the run is released, those beside it are kept", async () => {
  const path = join(folder, "in-hand.db");
  const engine = await Holdfast.open(`file:${path}`, { logger: quiet });
  let tell = (): void => {};
  const bodies: string[] = [];
  const busy = workflow({ name: "busy", signals: { go: signal<number>() } }, async (ctx, name: string) =>
    ctx.step("long", () => {
      bodies.push(name);
      return new Promise<void>((done) => {
        tell = done;
      });
    }),
  );
  const worker = await engine.worker({ workflows: [busy], gracePeriod: 0, lease: 3_000, determinism: "off" });
  const damaged = await engine.start(busy, "damaged", { id: "damaged" });
  const healthy = await engine.start(busy, "healthy", { id: "healthy" });
  await expect.poll(() => bodies).toEqual(["damaged", "healthy"]);
  const library = openLibrary(path);
  library.prepare("UPDATE holdfast_runs SET last_message = 1 WHERE id = 'damaged'").run([]);
  library
    .prepare("INSERT INTO holdfast_inbox (id, run, type, received_at) SELECT 1, key, 'nonsense', 0 FROM holdfast_runs WHERE id = 'damaged'")
    .run([]);
  library.close();
  const told = await damaged.result({ timeout: "20s" }).catch((error: unknown) => error);
  expect(told).toMatchObject({ code: "HF_RUN_BLOCKED", cause: { code: "HF_STORE_CORRUPT" } });
  tell();
  await healthy.result({ timeout: "20s" });
  expect(bodies).toEqual(["damaged", "healthy"]);
  await worker.stop();
  await engine.close();
}, 60_000);
