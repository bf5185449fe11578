// node --expose-gc bench/sizes.mjs: rows and bytes per run, on an SQLite file and on PostgreSQL, and memory per waiting run. It needs
// `npm run build`. docs/operations/sizing.md has its figures. Sizes do not depend on how busy the machine is; nothing here measures time.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask, startServer } from "@holdfast/postgres-server";
import { Holdfast, signal, workflow } from "holdfast";
import Database from "libsql";

const RUNS = 1_000;
/** Text that a database can't compress. */
const text = (/** @type {number} */ bytes) => randomBytes(bytes).toString("base64").slice(0, bytes);

const steps = (/** @type {number} */ count, /** @type {number} */ bytes) =>
  workflow(`steps-${count}-${bytes}`, async (ctx) => {
    for (let i = 0; i < count; i++) await ctx.step(`step-${i}`, async () => (bytes === 0 ? i : text(bytes)));
  });
const waiting = workflow({ name: "waiting", signals: { go: signal() } }, async (ctx) => {
  await ctx.step("first", async () => 1);
  await ctx.waitForSignal("go");
});
const found = workflow("found", async (ctx) => ctx.step("only", async () => 1));

/** @type {[what: string, workflow: import("holdfast").AnyWorkflow, options: object][]} */
const CASES = [
  ["one step", steps(1, 0), {}],
  ["five steps", steps(5, 0), {}],
  ["fifty steps", steps(50, 0), {}],
  ["five steps with 1 kB each", steps(5, 1_000), {}],
  ["five steps with 10 kB each", steps(5, 10_000), {}],
  ["one step, three attributes", found, { attributes: { tenant: "acme", region: "eu", amount: 42 } }],
  ["one step, then waiting for a signal", waiting, {}],
];

/** @param {Holdfast} engine @param {import("holdfast").AnyWorkflow} definition @param {object} options */
async function execute(engine, definition, options) {
  const worker = await engine.worker({ workflows: [definition], cachedRuns: 0 });
  const starts = Array.from({ length: RUNS }, (_, i) => ({ ...options, input: undefined, id: `${definition.name}-${i}` }));
  const runs = await engine.startMany(definition, starts);
  if (definition !== waiting) await Promise.all(runs.map((run) => run.result()));
  else while ((await engine.count({ workflow: definition.name })).sleeping < RUNS) await new Promise(setImmediate);
  await worker.stop();
}

/** @param {(name: string) => Promise<{ url: string, size: () => Promise<{ bytes: number, rows: number }> }>} make */
async function measure(make) {
  for (const [what, definition, options] of CASES) {
    const store = await make(what);
    await (await Holdfast.open(store.url)).close();
    const empty = await store.size();
    const engine = await Holdfast.open(store.url);
    await execute(engine, definition, options);
    await engine.close();
    const full = await store.size();
    console.log(
      `| ${what} | ${((full.rows - empty.rows) / RUNS).toFixed(1)} | ${((full.bytes - empty.bytes) / RUNS / 1_000).toFixed(2)} kB |`,
    );
  }
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-sizes-"));
console.log("SQLite: rows and bytes per run");
await measure(async (what) => {
  const file = join(folder, `${what.replaceAll(/\W/g, "-")}.db`);
  const size = async () => {
    const database = new Database(file);
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'holdfast_%'").all();
    const counts = tables.map(({ name }) => database.prepare(`SELECT count(*) AS rows FROM ${name}`).get().rows);
    database.close();
    return { bytes: statSync(file).size, rows: counts.reduce((sum, rows) => sum + rows, 0) };
  };
  return { url: `file:${file}`, size };
});
rmSync(folder, { recursive: true });

console.log("PostgreSQL: rows and bytes per run, indexes included");
const server = await startServer({ own: true });
try {
  await measure(async () => {
    const url = await server.createDatabase();
    const size = async () => {
      const tables = await ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'");
      let bytes = 0;
      let rows = 0;
      for (const { tablename } of tables) {
        await ask(url, `VACUUM FULL holdfast.${tablename}`);
        const [row] = await ask(
          url,
          `SELECT pg_total_relation_size('holdfast.${tablename}')::int AS bytes, (SELECT count(*)::int FROM holdfast.${tablename}) AS rows`,
        );
        bytes += row.bytes;
        rows += row.rows;
      }
      return { bytes, rows };
    };
    return { url, size };
  });
} finally {
  await server.stop();
}

console.log("Memory of a worker per waiting run that it keeps (cachedRuns)");
const heap = () => {
  globalThis.gc?.();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
};
/** @param {number} cachedRuns */
async function parked(cachedRuns) {
  const own = await Holdfast.open("memory:");
  const before = heap();
  const worker = await own.worker({ workflows: [waiting], cachedRuns });
  await own.startMany(
    waiting,
    Array.from({ length: RUNS }, () => ({ input: undefined })),
  );
  while ((await own.count({ workflow: "waiting" })).sleeping < RUNS) await new Promise(setImmediate);
  const bytes = (heap() - before) / RUNS;
  await worker.stop();
  await own.close();
  return bytes;
}
await parked(RUNS);
const without = await parked(0);
const kept = await parked(RUNS);
console.log(`${((kept - without) / 1_000).toFixed(1)} kB`);
