// Whatever is handed over, a typed error or a right answer: never a crash, a hang or another kind of error.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  formatDuration,
  type History,
  HoldfastError,
  InvalidInputError,
  jsonCodec,
  Loop,
  parseDuration,
  replay,
  signal,
  workflow,
} from "@holdfast/core";
import { operationsOf } from "@holdfast/host";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Holdfast } from "../../src/api/holdfast.ts";
import { openStore } from "../../src/store/open.ts";
import { openLibrary, type Value } from "../../src/store/sqlite/library.ts";
import { SqliteStore } from "../../src/store/sqlite/store.ts";
import { testEngine } from "../../src/testing/index.ts";
import { until } from "./engines.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** What it gives, or a typed error; anything else fails the test. */
async function typed<T>(work: () => Promise<T> | T): Promise<T | HoldfastError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw new Error(`not a typed error: ${String(error)}`, { cause: error });
  }
}

const odd = fc.constantFrom(
  "",
  " ",
  "\0",
  "%",
  "%00",
  "..",
  "a/b",
  "a\nb",
  "__proto__",
  "constructor",
  "\ud800",
  "é",
  "𝒳",
  "x".repeat(3_000),
  "x".repeat(300),
  "-1",
  "1e999",
  "NaN",
);
const texts = fc.oneof(odd, fc.string(), fc.string({ unit: "binary" }));

test("P9 durations: a whole number of milliseconds, or an InvalidInputError", () => {
  const pieces = fc.array(
    fc.tuple(
      fc.oneof(fc.nat(), fc.double(), fc.constantFrom("", "-1", "1e3", ".5", "0x1")),
      fc.constantFrom("ms", "s", "m", "h", "d", "w", "y", ""),
    ),
    { maxLength: 4 },
  );
  const values = fc.oneof(
    fc.anything(),
    texts,
    fc.double(),
    pieces.map((all) => all.map(([n, unit]) => `${n}${unit}`).join("")),
  );
  fc.assert(
    fc.property(values, (value) => {
      try {
        const ms = parseDuration(value);
        expect(Number.isSafeInteger(ms) && ms >= 0).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidInputError);
      }
    }),
    { numRuns: 3_000 },
  );
  fc.assert(fc.property(fc.nat({ max: 10 ** 12 }), (ms) => parseDuration(formatDuration(ms)) === ms));
});

test("P8 bytes and text that no codec wrote: a value, or a typed error", async () => {
  const json = fc.json().map((text) => text);
  const tagged = fc
    .tuple(
      fc.constantFrom(
        "$date",
        "$map",
        "$set",
        "$bigint",
        "$bytes",
        "$url",
        "$regexp",
        "$error",
        "$ref",
        "$def",
        "$undefined",
        "$number",
        "$$",
        "$",
      ),
      fc.jsonValue(),
    )
    .map(([tag, value]) => JSON.stringify({ [tag]: value }));
  await fc.assert(
    fc.asyncProperty(fc.oneof(json, tagged, texts, fc.uint8Array()), async (data) => {
      const value = await typed(() => jsonCodec.decode(data as never));
      if (value instanceof HoldfastError) return;
      // What it makes of it is a value like any other.
      const again = await typed(() => jsonCodec.decode(jsonCodec.encode(value)));
      expect(again).toEqual(value);
    }),
    { numRuns: 2_000 },
  );
});

test("urls of stores: a store, or an InvalidInputError that names what to do", async () => {
  const schemes = fc.constantFrom(
    "file:",
    "file://",
    "file:///",
    "memory:",
    "postgres:",
    "postgres://",
    "postgresql://u:p@h:1/d",
    "temporal://",
    "http://",
    "FILE:",
    "",
  );
  const queries = fc.constantFrom("", "?", "?synchronous=NORMAL", "?synchronous=x", "?synchronous=FULL?x", "?a=b", "?%", "#x");
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.tuple(schemes, texts, queries).map((parts) => parts.join("")),
        fc.anything(),
      ),
      async (url) => {
        const store = await typed(() => openStore(url as string));
        expect(store).toBeDefined();
        if (store instanceof SqliteStore) await openBelow(folder, store.path);
      },
    ),
    { numRuns: 1_500 },
  );
}, 60_000);

/** Whatever the path is: its file is made in a folder of the test's, or a typed error says why not. */
async function openBelow(root: string, path: string): Promise<void> {
  const below = join(root, "urls");
  const full = join(below, path);
  if (!full.startsWith(join(below, "/"))) return;
  const store = new SqliteStore(full, { synchronous: "NORMAL" });
  if (!((await typed(() => store.open())) instanceof HoldfastError)) expect((await store.count({})).pending).toBe(0);
  await store.close();
}

test("ids and keys: the run is found under its very id, or an InvalidInputError and nothing is written", async () => {
  const echo = workflow("echo", async (ctx, input: string) => {
    const answer = await ctx.waitForSignal("go" as never);
    return [input, answer];
  });
  const engine = await testEngine({ workflows: [echo] });
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(texts, texts, async (id, key) => {
      if (seen.has(id)) return;
      seen.add(id);
      const before = (await engine.list({ limit: 1_000 })).runs.length;
      const run = await typed(() => engine.start(echo, id, { id }));
      if (run instanceof HoldfastError) {
        expect(run).toBeInstanceOf(InvalidInputError);
        expect((await engine.list({ limit: 1_000 })).runs.length).toBe(before);
        return;
      }
      expect(run.id).toBe(id);
      const sent = await typed(() => (run as { signal(...args: unknown[]): Promise<void> }).signal("go", key, { idempotencyKey: key }));
      if (sent instanceof HoldfastError) await (run as { signal(...args: unknown[]): Promise<void> }).signal("go", key);
      expect(await run.result()).toEqual([id, key]);
    }),
    { numRuns: 150 },
  );
  await engine.close();
});

// ── histories ──

const trip = workflow({ name: "trip", signals: { go: signal<number>() } }, async (ctx, input: number) => {
  const both = await ctx.join("both", { a: (ctx) => ctx.step("a", () => input), b: (ctx) => ctx.sleep(10).then(() => 2) });
  const first = await ctx.race("first", { x: (ctx) => ctx.step("x", () => 1), y: (ctx) => ctx.waitForSignal("go") });
  const sum = await ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (ctx, i) => {
    await ctx.step("s", () => i);
    return i >= 4 ? Loop.break(i) : Loop.continue(i + 1);
  });
  return [both, first.winner, sum, ctx.random()];
});

let history: History;
beforeAll(async () => {
  const engine = await testEngine({ workflows: [trip] });
  const run = await engine.start(trip, 5);
  expect(await run.result()).toMatchObject([{ a: 5, b: 2 }, "x", 4, expect.any(Number)]);
  history = await run.history();
  await engine.close();
});

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}
type Path = readonly (string | number)[];
function pathsOf(tree: unknown, path: Path = []): Path[] {
  if (typeof tree !== "object" || tree === null) return [path];
  return [path, ...Object.entries(tree).flatMap(([key, value]) => pathsOf(value, [...path, key]))];
}
function changed(tree: unknown, [key, ...rest]: Path, change: (value: unknown) => unknown): unknown {
  if (key === undefined) return change(tree);
  if (Array.isArray(tree)) return tree.flatMap((item, i) => (String(i) === String(key) ? [changed(item, rest, change)] : [item]));
  const copy = { ...(tree as Record<string, unknown>) };
  copy[key] = changed(copy[key], rest, change);
  if (copy[key] === undefined) delete copy[key];
  return copy;
}

test("Y5 histories that were tampered with: they replay, or a typed error names what is wrong", async () => {
  await replay(trip, history);
  const plain = JSON.parse(JSON.stringify(history)) as History;
  const paths = pathsOf(plain);
  const values = fc.oneof(
    fc.constant(undefined),
    fc.jsonValue(),
    texts,
    fc.constantFrom<unknown>(-1, 1e9, 2 ** 53, Number.NaN, "step", "commit", "loop", { toString: 5 }, nested(50_000)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(), values), { minLength: 1, maxLength: 3 }), async (changes) => {
      let tampered: unknown = plain;
      for (const [at, value] of changes) {
        const path = paths[at % paths.length] ?? [];
        try {
          tampered = changed(tampered, path, () => value);
        } catch {
          // An earlier change took the place away.
        }
      }
      await typed(() => replay(trip, tampered as History));
    }),
    { numRuns: 1_500 },
  );
}, 60_000);

// ── rows ──

/** What replay and readers rely on most; the rest is drawn. */
const SENSITIVE = [
  ["holdfast_runs", "attributes"],
  ["holdfast_runs", "execution"],
  ["holdfast_runs", "error"],
  ["holdfast_runs", "retry"],
  ["holdfast_runs", "turns"],
  ["holdfast_runs", "available_at"],
  ["holdfast_lanes", "priority"],
  ["holdfast_records", "data"],
  ["holdfast_records", "name"],
  ["holdfast_records", "type"],
  ["holdfast_records", "value"],
  ["holdfast_inbox", "data"],
] as const;
const BROKEN: readonly Value[] = [null, "", "{", "[]", -1];
/** Random ones besides; more of them in `npm run nightly`. */
const RUNS = (process.env["HOLDFAST_NIGHTLY"] ?? "") === "" ? 10 : 500;

const waits = workflow({ name: "waits", signals: { go: signal<number>() } }, async (ctx, input: number) => {
  await ctx.step("a", () => input);
  return [await ctx.waitForSignal("go")];
});

/** A file with a run in the middle of its life, and a healthy one beside it. */
let original: string;
beforeAll(async () => {
  original = join(folder, "original.db");
  const engine = await Holdfast.open(`file:${original}?synchronous=NORMAL`, { logger: quiet });
  const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
  const run = await engine.start(waits, 1, { id: "one", attributes: { x: 1 } });
  await until(async () => (await run.describe()).status === "sleeping");
  await worker.stop();
  await run.signal("go", 1);
  await engine.close();
});

test(
  "rows of an SQLite file that were tampered with: readers get a typed error or an answer",
  async () => {
    let number = 0;
    const hold = async (table: string, column: string, value: Value): Promise<void> => {
      const path = join(folder, `${++number}.db`);
      copyFileSync(original, path);
      const library = openLibrary(path);
      try {
        library.prepare(`UPDATE ${table} SET ${column} = ?`).run([value]);
      } catch {
        return; // the table itself refuses it
      } finally {
        library.close();
      }
      const store = new SqliteStore(path, { synchronous: "NORMAL" });
      if ((await typed(() => store.open())) instanceof HoldfastError) return;
      const serves = [{ workflow: "waits", versions: "*" as const }];
      const calls: (() => Promise<unknown>)[] = [
        () => store.list({ limit: 10 }),
        () => store.count({}),
        () => store.get(["one"]),
        () => store.history("one").then((turns) => operationsOf(turns, [], new Map(), jsonCodec)),
        () => store.attempts("one"),
        () => store.claim({ workerId: "w", queue: "default", serves, limit: 5, lease: 1_000, cached: () => undefined }),
        () => store.expire(),
        () => store.terminate([{ runId: "one", reason: undefined }]),
      ];
      for (const call of calls) await typed(call);
      await store.close();
    };
    for (const [table, column] of SENSITIVE) for (const value of BROKEN) await hold(table, column, value);
    const library = openLibrary(original);
    const columns = library
      .prepare("SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name LIKE 'holdfast%'")
      .all([]);
    library.close();
    const values = fc.oneof(fc.constant(null), fc.integer({ min: -5, max: 1_000_000 }), texts, fc.constantFrom("null", '{"type":"x"}'));
    const draw = fc.asyncProperty(fc.nat({ max: columns.length - 1 }), values, async (at, value) => {
      const [table, column] = columns[at] ?? [];
      await hold(String(table), String(column), value);
    });
    await fc.assert(draw, { numRuns: RUNS });
  },
  60_000 + RUNS * 500,
);

test("V4 a run whose rows were tampered with ends no worker, and nothing hangs", async () => {
  const path = join(folder, "worker.db");
  copyFileSync(original, path);
  const library = openLibrary(path);
  library.prepare("UPDATE holdfast_records SET name = 'other' WHERE type = 'step'").run([]);
  library.close();
  const engine = await Holdfast.open(`file:${path}?synchronous=NORMAL`, { logger: quiet });
  const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
  await expect(engine.run("one", waits).result({ timeout: "10s" })).rejects.toMatchObject({ name: "RunBlockedError" });
  const healthy = await engine.start(waits, 2, { id: "two" });
  await healthy.signal("go", 2);
  expect(await healthy.result()).toEqual([2]);
  await worker.stop();
  await engine.close();
});
