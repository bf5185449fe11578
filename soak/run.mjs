// npm run soak -- [options]; `--help` lists them.
// Runs a mix of workflows while the worker processes are killed, frozen and stopped at random; then checks every run. On PostgreSQL,
// connections are also cut and slowed down, and the server itself is killed unless --url names it. On Temporal, a worker is killed every 30 s.
// The last line is "soak: ok …" or "soak: FAILED …"; after a failure the folder keeps everything that explains it.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ask } from "@holdfast/postgres-server";
import { Holdfast } from "holdfast";
import { checkAttempts, checkEffects, checkEnd, checkLedger, checkReplay, checkSaga, executionOf, tracesOf } from "./checks.mjs";
import { note, openEffects, readEffects } from "./effects.mjs";
import { makeTable } from "./ledgerTable.mjs";
import { LocalPool } from "./localPool.mjs";
import { Observer } from "./observer.mjs";
import { readOptions } from "./options.mjs";
import { Pool } from "./pool.mjs";
import { Postgres } from "./postgres.mjs";
import { randomOf } from "./random.mjs";
import { LEFT_OUT, NOT_CHECKED, startTemporal, withoutGivenBack } from "./temporal.mjs";
import { audit } from "./workflows.mjs";

const options = readOptions();
const { minutes, workers, seed, lease, faults, mostOpen, drain, mix } = options;
const isTemporal = options.store === "temporal";

const folder = options.folder === undefined ? mkdtempSync(join(tmpdir(), `holdfast-soak-${seed}-`)) : resolve(options.folder);
mkdirSync(folder, { recursive: true });
const paths = { database: join(folder, "soak.db"), effects: join(folder, "effects.jsonl"), findings: join(folder, "findings.jsonl") };
openEffects(paths.effects);
writeFileSync(paths.findings, "");

const began = performance.now();
const seconds = () => (performance.now() - began) / 1_000;
const pause = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** @type {Map<string, number>} */
const findings = new Map();
/** @type {import("./checks.mjs").Report} */
function report(what, details) {
  if (!findings.has(what)) {
    writeFileSync(paths.findings, `${JSON.stringify({ at: seconds(), what, details })}\n`, { flag: "a" });
    if (findings.size < 20) console.log(`  FOUND ${what}`);
  }
  findings.set(what, (findings.get(what) ?? 0) + 1);
}
/** Expected on PostgreSQL: the faults make the server unreachable. @param {string} message */
const isOutage = (message) => options.store === "postgres" && message.startsWith("Database unreachable");
const logger = {
  debug() {},
  info() {},
  warn() {},
  error: (/** @type {string} */ message, /** @type {any} */ fields) =>
    isOutage(message) || report(`the client logged: ${message}`, { error: String(fields?.error?.stack ?? fields?.error) }),
};

// ── the load ──

const random = randomOf(Number(seed));
/** @type {Map<string, { kind: import("./mix.mjs").Kind, notes: import("./mix.mjs").Notes }>} */
const runs = new Map();
/** @type {Set<string>} */
const open = new Set();
/** @type {string[]} */
const lastEnded = [];

/** @param {Holdfast} engine @param {import("./mix.mjs").Kind} kind @param {unknown} input @param {string} id */
async function startToo(engine, kind, input, id) {
  try {
    await engine.start(kind.workflow, input, { id, onConflict: "use-existing" });
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "RunClosedError") throw error;
  }
}

/** @param {Holdfast} engine @param {import("./mix.mjs").Kind} kind @param {number} number */
async function drive(engine, kind, number) {
  const own = randomOf(Number(seed) * 1_000_003 + number);
  const id = `${kind.workflow.name}-${number}`;
  const input = kind.plan(own, Number(lease));
  /** @type {import("./mix.mjs").Notes} */
  const notes = { acknowledged: new Map(), sent: [] };
  open.add(id);
  runs.set(id, { kind, notes });
  try {
    // Sometimes a second client starts the same run at the same time.
    const rival = kind.start === undefined && own.chance(0.1) ? startToo(engine, kind, input, id) : undefined;
    const run = await engine.start(kind.workflow, input, { ...kind.start?.(input), id, ...(rival && { onConflict: "use-existing" }) });
    await rival;
    await Promise.all([kind.play?.(run, input, notes, own), run.result().catch(() => undefined)]);
  } catch (error) {
    const { name, code, message, stack } = /** @type {any} */ (error);
    report(`a client of ${id} got ${name} ${code ?? ""}: ${message}`, { stack });
  }
  open.delete(id);
  lastEnded.push(id);
  if (lastEnded.length > 50) lastEnded.shift();
}

/** @returns {import("./mix.mjs").Kind} */
function nextKind() {
  let dice = random.next() * mix.reduce((total, { weight }) => total + weight, 0);
  for (const kind of mix) {
    dice -= kind.weight;
    if (dice < 0) return kind;
  }
  return /** @type {import("./mix.mjs").Kind} */ (mix[0]);
}

// ── the soak ──

/** How many runs are open, children included. @param {Holdfast} engine */
async function openRuns(engine) {
  const counts = Object.entries(await engine.count({ queue: "default" }));
  return counts.reduce((sum, [status, count]) => (CLOSED.has(status) || status === "continued" ? sum : sum + count), 0);
}
/** Every run in the store, children included. Temporal lists a run some time after it has begun. @param {Holdfast} engine */
async function everyRun(engine) {
  for (let tries = 0; ; tries++) {
    const infos = await listedRuns(engine);
    const known = new Set(infos.map(({ id }) => id));
    if (tries === 10 || [...runs.keys()].every((id) => known.has(id))) return infos;
    await pause(500);
  }
}
/** @param {Holdfast} engine */
async function listedRuns(engine) {
  const infos = [];
  let cursor;
  do {
    const page = await engine.list({ queue: "default", limit: 500, ...(cursor !== undefined && { cursor }) });
    infos.push(...page.runs);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return infos;
}
const CLOSED = new Set(["completed", "failed", "canceled", "terminated"]);

/** @param {Holdfast} engine */
async function readLedger(engine) {
  const rows = [];
  for (let page; page === undefined || page.length > 0; rows.push(...page)) {
    const run = await engine.start(audit, { from: rows.length, count: 2_000 });
    page = /** @type {any[]} */ (await run.result({ timeout: "30s" }));
  }
  return rows;
}

async function main() {
  console.log(`soak: seed ${seed}, ${options.store}, ${workers} workers, lease ${lease} ms, ${Number(minutes) * 60} s, in ${folder}`);
  const postgres = options.store === "postgres" ? await Postgres.start(options.url, randomOf(Number(seed) + 2)) : undefined;
  const temporal = isTemporal ? await startTemporal(options.url, `soak-${seed}-${Date.now()}`) : undefined;
  if (temporal !== undefined) {
    for (const [name, why] of LEFT_OUT) console.log(`  without ${name}: ${why}`);
    for (const what of NOT_CHECKED) console.log(`  not checked: ${what}`);
  }
  try {
    return await storm(postgres, temporal?.url);
  } finally {
    await postgres?.close();
    await temporal?.close();
  }
}

/** @param {Postgres | undefined} postgres @param {string | undefined} temporalUrl */
async function storm(postgres, temporalUrl) {
  if (postgres !== undefined) await ask(postgres.direct, makeTable);
  const url = temporalUrl ?? postgres?.url ?? (options.store === "memory" ? "memory:" : `file:${paths.database}`);
  const engines = [await Holdfast.open(url, { logger })];
  if (options.store !== "memory") engines.push(await Holdfast.open(url, { logger }));
  const [engine] = /** @type {[Holdfast]} */ (engines);
  const shared = { lease: Number(lease), workers: Number(workers), random: randomOf(Number(seed) + 1) };
  const pool =
    options.store === "memory"
      ? new LocalPool({ engine, ...shared })
      : new Pool({ url, effects: paths.effects, folder, faults, ...shared });
  const observer = new Observer(/** @type {Holdfast} */ (engines.at(-1)), report);
  const status = (/** @type {string} */ phase) =>
    console.log(
      `  ${seconds().toFixed(0).padStart(4)} s  ${phase}  started ${runs.size}  ended ${runs.size - open.size}  ${(runs.size / seconds()).toFixed(1)}/s  ` +
        `kills ${pool.kills}  freezes ${pool.freezes}  stops ${pool.stops}  ${serverFaults(postgres)}samples ${observer.samples}  found ${findings.size}`,
    );
  let phase = "storm";
  const ticker = setInterval(() => status(phase), 3_000);
  try {
    const tormented = isTemporal && pool instanceof Pool ? pool.tormentSteadily() : pool.torment();
    postgres?.torment();
    const until = seconds() + Number(minutes) * 60;
    let watching = true;
    const looking = (async () => {
      while (watching) {
        await pause(100);
        const known = random.chance(0.7) && open.size > 0 ? [...open] : lastEnded;
        if (known.length > 0)
          await observer
            .look(random.pick(known))
            .catch(
              (error) => error?.name === "RunNotFoundError" || report(`the observer failed: ${error?.message}`, { stack: error?.stack }),
            );
      }
    })();
    for (let number = 0; seconds() < until; number++) {
      while (open.size >= Number(mostOpen) && seconds() < until) await pause(10);
      void drive(/** @type {Holdfast} */ (random.pick(engines)), nextKind(), number);
      await pause(random.between(0, 30));
    }
    phase = "calm ";
    await Promise.all([postgres?.calm(), pool.calm(), tormented]);
    const deadline = seconds() + Number(drain);
    while (open.size > 0 && seconds() < deadline) await pause(50);
    watching = false;
    await looking;
    for (const id of open) report(`${id} did not end`, { info: await engine.run(id).describe().catch(String) });
    phase = "check";
    const totals = await check(engine, observer, pool);
    status(phase);
    return { pool, postgres, observer, totals };
  } finally {
    clearInterval(ticker);
    await pool.close();
    for (const one of engines) await one.close();
  }
}

/** @param {Postgres | undefined} postgres */
const serverFaults = (postgres) =>
  postgres === undefined ? "" : `server deaths ${postgres.deaths}  cuts ${postgres.cuts}  late ${postgres.late}  `;

/** @param {Holdfast} engine @param {Observer} observer @param {{ findings: string[] }} pool */
async function check(engine, observer, pool) {
  // Children that their parents do not wait for may end later.
  for (let tries = 0; tries < 100 && (await openRuns(engine)) > 0; tries++) await pause(100);
  const hasLedger = options.store !== "memory" && !isTemporal;
  const ledger = hasLedger ? await readLedger(engine) : [];
  const infos = await everyRun(engine);
  note({ e: "seen", keys: [] });
  const effects = readEffects(paths.effects).filter(isChecked);
  const traces = isTemporal ? withoutGivenBack(tracesOf(effects), effects) : tracesOf(effects);
  const known = new Set(infos.map(({ id }) => id));
  for (const id of runs.keys()) if (!known.has(id)) report(`${id} was started, but is not in the store`);
  /** @type {Map<string, Map<string, number>>} */
  const table = new Map();
  let operationCount = 0;
  const checkOne = async (/** @type {(typeof infos)[number]} */ info) => {
    const byStatus = table.get(info.workflow) ?? new Map();
    table.set(info.workflow, byStatus);
    byStatus.set(info.status, (byStatus.get(info.status) ?? 0) + 1);
    checkEnd(info, runs.get(info.id)?.notes, report);
    const run = engine.run(info.id);
    const history = await run.history();
    const operations = await run.operations();
    operationCount += operations.length;
    if (history.turns.length === 0) return;
    observer.compare(info.id, history);
    await checkReplay(history, report);
    if (isTemporal && info.workflow === "stubborn") return;
    checkAttempts(info, { execution: executionOf(history), operations, lastOnly: isTemporal }, traces, report);
    checkSaga(info, traces, report);
  };
  const left = [...infos];
  const checker = async () => {
    for (let info = left.pop(); info !== undefined; info = left.pop()) await checkOne(info);
  };
  await Promise.all(Array.from({ length: isTemporal ? 8 : 1 }, checker));
  const counts = checkEffects(effects, traces, Number(lease), report);
  if (hasLedger) checkLedger(infos, ledger, report);
  for (const effect of complaints(effects)) if (!isOutage(effect.message)) report(`a worker logged: ${effect.message}`, effect);
  for (const finding of pool.findings) report(finding);
  return { table, counts, runs: infos.length, operations: operationCount, rows: ledger.length };
}

/** See `NOT_CHECKED`. @param {import("./effects.mjs").Effect} effect */
const isChecked = (effect) => !(isTemporal && "key" in effect && effect.key.startsWith("stubborn-"));

/**
 * The unexpected errors that workers logged. A worker that is stopped while the server is unreachable can't store its results: it logs
 * that when its grace period is over, and other workers do the work again.
 * @param {readonly import("./effects.mjs").Effect[]} effects
 */
function complaints(effects) {
  /** @type {Set<number>} */
  const stopped = new Set();
  return effects.flatMap((effect) => {
    if (effect.e === "fault" && effect.what === "stop") stopped.add(effect.pid);
    if (effect.e !== "log" || effect.level !== "error") return [];
    return stopped.has(effect.pid) && /StoreClosedError/.test(effect.message) ? [] : [effect];
  });
}

/** @param {Awaited<ReturnType<typeof main>>["totals"]} totals */
function printTable({ table, counts, operations, rows }) {
  console.log(`\n  workflow    ended`);
  for (const [workflow, byStatus] of [...table].sort()) {
    console.log(`  ${workflow.padEnd(11)} ${[...byStatus].sort().map(([status, count]) => `${count} ${status}`).join(", ")}`); // biome-ignore format: one line
  }
  console.log(
    `\n  operations ${operations}, step bodies run ${counts.bodies}, repeated ${counts.repeated}, aborted ${counts.aborted}, begun too late ${counts.late}, ledger rows ${rows}\n`,
  );
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
const limit = setTimeout(
  () => {
    console.log(`soak: FAILED seed ${seed}: it did not finish in time; see ${folder}`);
    process.exit(1);
  },
  ((isTemporal ? 2 : 1) * Number(minutes) * 60 + 2 * Number(drain) + 60) * 1_000,
);

try {
  const { pool, postgres, observer, totals } = await main();
  printTable(totals);
  const summary = `seed ${seed}: ${totals.runs} runs, ${pool.kills} kills, ${pool.freezes} freezes, ${pool.stops} stops, ${serverFaults(postgres).trim()}${postgres ? ", " : ""}${observer.samples} samples, ${seconds().toFixed(0)} s`;
  if (findings.size === 0) {
    if (!options.keep && options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    console.log(`soak: ok ${summary}`);
  } else console.log(`soak: FAILED ${findings.size} findings, ${summary}; see ${folder}`);
} catch (error) {
  report(`the soak itself failed: ${error}`, { stack: /** @type {any} */ (error)?.stack });
  console.log(`soak: FAILED seed ${seed}: ${error}; see ${folder}`);
}
clearTimeout(limit);
process.exit(findings.size === 0 ? 0 : 1);
