// `npm run simulate`: simulates whole systems, one world per seed. USAGE lists the options.
// Owns: the simulating processes, and what is printed.
// Invariants: a failing seed is shrunk; its trace and the command that reproduces it are printed; the last line is "simulate: ok …" or
// "simulate: FAILED …".

import { fork } from "node:child_process";
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { bundle, load } from "./bundle.mjs";
import { add, commandOf, optionsOf, UsageError, whole } from "./options.mjs";
import { checkPlanted, named, provePlanted } from "./prove.mjs";

/** @typedef {import("./options.mjs").Counts} Counts */

const USAGE = `npm run simulate -- [options]

  --seeds N            simulate N worlds (default 1000), on --jobs processes (default: one per core)
  --from S | --fresh   the first seed (default 1), or a random first seed
  --store memory|sqlite   the store to run on (default memory)
  --scenarios saga,entity,…  only these kinds of workload
  --no-shrink          print a failure without shrinking it

  --seed S [--trace]   simulate one world and print every event; make it smaller with
    --only 0,2           only these of its scenarios, by index
    --workers K          at most K workers
    --without crash,…    no faults of these kinds
    --storm ms           end the faults after this time
    --disasters K        at most K crashes, freezes, stops and deploys
    --planted name       plant this bug in the engine

  --planted [name,…] [--most N]   plant bugs in a copy of the engine, one at a time: each has to be found within N seeds (default 5000)
  --check-planted      only check that every bug can still be planted
`;

const OPTIONS = /** @type {const} */ ({
  options: {
    help: { type: "boolean", short: "h", default: false },
    seeds: { type: "string" },
    from: { type: "string" },
    fresh: { type: "boolean", default: false },
    seed: { type: "string" },
    store: { type: "string", default: "memory" },
    jobs: { type: "string", default: String(Math.max(1, availableParallelism())) },
    scenarios: { type: "string" },
    only: { type: "string" },
    workers: { type: "string" },
    without: { type: "string" },
    storm: { type: "string" },
    disasters: { type: "string" },
    trace: { type: "boolean", default: false },
    "no-shrink": { type: "boolean", default: false },
    planted: { type: "string" },
    "check-planted": { type: "boolean", default: false },
    most: { type: "string", default: "5000" },
  },
});
const NOT_BOTH = /** @type {const} */ ([
  ["seed", "seeds"],
  ["seed", "from"],
  ["seed", "fresh"],
  ["from", "fresh"],
  ["planted", "seeds"],
  ["planted", "check-planted"],
]);
const args = process.argv
  .slice(2)
  .flatMap((one, i, all) => (one === "--planted" && (all[i + 1] ?? "--").startsWith("--") ? ["--planted", "all"] : [one]));
const values = parsed();
process.exitCode = await run().catch(misused);

function parsed() {
  try {
    const { values } = parseArgs({ ...OPTIONS, args });
    if (values.store !== "memory" && values.store !== "sqlite") throw new UsageError(`--store is memory or sqlite, not "${values.store}"`);
    for (const [name, other] of NOT_BOTH)
      if (isGiven(values, name) && isGiven(values, other)) throw new UsageError(`give --${name} or --${other}, not both`);
    if (values.only !== undefined && values.seed === undefined)
      throw new UsageError("--only goes with --seed: each seed has its own scenarios");
    return values;
  } catch (error) {
    process.exit(misused(error));
  }
}
/** @param {{ [name: string]: unknown }} values @param {string} name */
function isGiven(values, name) {
  return values[name] !== undefined && values[name] !== false;
}
/**
 * Prints the message of an invalid command line, with the usage. Rethrows every other error.
 * @param {unknown} error
 * @returns {number} the exit code
 */
function misused(error) {
  const { code, message } = /** @type {Error & { code?: unknown }} */ (error);
  const isUsage = error instanceof UsageError || /^(?:ERR_PARSE_ARGS|HF_INVALID_INPUT)/.test(String(code));
  if (!isUsage) throw error;
  console.error(`${message}\n\n${USAGE}`);
  return 2;
}
async function run() {
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  if (values["check-planted"]) return checkPlanted();
  const jobs = whole(values.jobs, "--jobs", 1);
  if (values.planted !== undefined && values.seed === undefined) return provePlanted(values.planted, whole(values.most, "--most", 1), jobs);
  return simulateAll(jobs);
}

/** @param {number} jobs processes at a time */
async function simulateAll(jobs) {
  const count = whole(values.seeds ?? "1000", "--seeds", 1);
  const from = values.fresh
    ? Math.floor(Math.random() * 2 ** 31)
    : whole(values.from ?? values.seed ?? "1", values.seed === undefined ? "--from" : "--seed");
  const bugs = values.planted === undefined ? [] : named(values.planted);
  if (bugs.length > 1) throw new UsageError("with --seed, --planted names one bug");
  const path = await bundle(bugs.flatMap(({ replacements }) => replacements));
  try {
    const code = await load(path);
    if (values.seed !== undefined) return await one(code, from);
    const began = performance.now();
    optionsOf(code, values, from); // reports invalid options once, before any process starts
    const failed = await many(path, from, count, jobs);
    const seconds = (performance.now() - began) / 1_000;
    const rate = `${((failed.done / seconds) * 60).toFixed(0)} per minute`;
    for (const seed of failed.seeds.slice(0, 3)) await one(code, seed);
    if (failed.seeds.length > 3) console.log(`more failed: seeds ${failed.seeds.slice(3).join(", ")}`);
    console.log(`scenarios: ${counted(failed.scenarios)}\nfaults: ${counted(failed.faults)}`);
    const what = `${failed.done} simulations from seed ${from} on, ${failed.events} events, ${seconds.toFixed(1)} s, ${rate}, store ${values.store}`;
    if (failed.died > 0) console.log(`${failed.died} simulating processes died`);
    const isGood = failed.seeds.length === 0 && failed.died === 0;
    console.log(isGood ? `simulate: ok, ${what}` : `simulate: FAILED, ${failed.seeds.length} of ${what}`);
    return isGood ? 0 : 1;
  } finally {
    rmSync(dirname(path), { recursive: true, force: true });
  }
}

/**
 * Simulates one seed, and prints its trace if it fails.
 * @param {Awaited<ReturnType<typeof load>>} code
 * @param {number} seed
 */
async function one(code, seed) {
  const options = optionsOf(code, values, seed);
  let report = await code.simulate(options);
  let shrunk = options;
  if (report.violation !== undefined && !values["no-shrink"]) ({ options: shrunk, report } = await code.shrink(options, report));
  if (values.trace || report.violation !== undefined) for (const line of report.trace) console.log(line);
  const { violation, scenarios, events } = report;
  if (violation === undefined) {
    console.log(`simulate: ok, seed ${seed} (${scenarios.join(", ")}), ${events} events`);
    return 0;
  }
  console.log(`\nseed ${seed} breaks ${violation.message}\nreproduce: ${commandOf(shrunk, values)}\n`);
  return 1;
}

/**
 * Simulates many seeds in several processes.
 * @param {string} path @param {number} from @param {number} count @param {number} jobs
 */
async function many(path, from, count, jobs) {
  const total = {
    seeds: /** @type {number[]} */ ([]),
    done: 0,
    events: 0,
    died: 0,
    faults: /** @type {Counts} */ ({}),
    scenarios: /** @type {Counts} */ ({}),
  };
  const began = performance.now();
  let told = began;
  const workers = Array.from({ length: Math.min(jobs, count) }, (_, i) => {
    const child = fork(join(import.meta.dirname, "worker.mjs"), { stdio: "inherit" });
    child.send({ path, values, from: from + i, step: Math.min(jobs, count), end: from + count });
    return new Promise((resolve) => {
      child.on(
        "message",
        (/** @type {{ done: number, events: number, failed: number[], faults: Counts, scenarios: Counts }} */ message) => {
          total.done += message.done;
          total.events += message.events;
          add(total.faults, message.faults);
          add(total.scenarios, message.scenarios);
          for (const seed of message.failed) {
            total.seeds.push(seed);
            console.log(`  seed ${seed} fails`);
          }
          if (performance.now() - told < 5_000) return;
          told = performance.now();
          console.log(`  ${total.done} of ${count}, ${((total.done / (told - began)) * 60_000).toFixed(0)} per minute`);
        },
      );
      child.on("exit", (exit) => {
        if (exit !== 0) total.died++;
        resolve(undefined);
      });
    });
  });
  await Promise.all(workers);
  total.seeds.sort((a, b) => a - b);
  return total;
}

/** @param {Counts} counts */
function counted(counts) {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ");
}
