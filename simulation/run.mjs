// npm run simulate -- [--seeds N] [--from S | --fresh] [--store memory|sqlite] [--jobs K] [--scenes saga,entity,…]
//                     [--seed S] [--only 0,2] [--workers K] [--without crash,…] [--storm ms] [--disasters K] [--trace] [--no-shrink]
//                     [--planted [name,…]] [--most N] [--check-planted]
// Simulates whole systems, a world a seed. A seed that fails is shrunk; its trace and the command that reproduces it are printed.
// With --planted, bugs are planted in a copy of the engine, one at a time, and each has to be found (--check-planted only says whether
// they still can be).
// The last line is "simulate: ok …" or "simulate: FAILED …".

import { fork } from "node:child_process";
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { bundle, load } from "./bundle.mjs";
import { commandOf, optionsOf, whole } from "./options.mjs";
import { checkPlanted, provePlanted } from "./prove.mjs";

const { values } = parseArgs({
  options: {
    seeds: { type: "string" },
    from: { type: "string" },
    fresh: { type: "boolean", default: false },
    seed: { type: "string" },
    store: { type: "string", default: "memory" },
    jobs: { type: "string", default: String(Math.max(1, availableParallelism())) },
    scenes: { type: "string" },
    only: { type: "string" },
    workers: { type: "string" },
    without: { type: "string" },
    storm: { type: "string" },
    disasters: { type: "string" },
    trace: { type: "boolean", default: false },
    "no-shrink": { type: "boolean", default: false },
    planted: { type: "string" },
    "check-planted": { type: "boolean", default: false },
    most: { type: "string", default: "2000" },
  },
  args: process.argv
    .slice(2)
    .flatMap((one, i, all) => (one === "--planted" && (all[i + 1] ?? "--").startsWith("--") ? ["--planted", "all"] : [one])),
});
if (values.store !== "memory" && values.store !== "sqlite") throw new Error(`--store is memory or sqlite, not "${values.store}"`);

const jobs = whole(values.jobs, "--jobs");
if (values["check-planted"]) process.exitCode = checkPlanted();
else if (values.planted !== undefined) process.exitCode = await provePlanted(values.planted, whole(values.most, "--most"), jobs);
else process.exitCode = await simulateAll();

async function simulateAll() {
  const path = await bundle();
  try {
    const code = await load(path);
    if (values.seed !== undefined) return await one(code, whole(values.seed, "--seed"));
    const count = whole(values.seeds ?? "1000", "--seeds");
    const from = values.fresh ? Math.floor(Math.random() * 2 ** 31) : whole(values.from ?? "1", "--from");
    const began = performance.now();
    const failed = await many(path, from, count);
    const seconds = (performance.now() - began) / 1_000;
    const rate = `${((failed.done / seconds) * 60).toFixed(0)} a minute`;
    for (const seed of failed.seeds.slice(0, 3)) await one(code, seed);
    if (failed.seeds.length > 3) console.log(`more failed: seeds ${failed.seeds.slice(3).join(", ")}`);
    const what = `${failed.done} simulations from seed ${from} on, ${failed.events} events, ${seconds.toFixed(1)} s, ${rate}, store ${values.store}`;
    console.log(failed.seeds.length === 0 ? `simulate: ok, ${what}` : `simulate: FAILED, ${failed.seeds.length} of ${what}`);
    return failed.seeds.length === 0 ? 0 : 1;
  } finally {
    rmSync(dirname(path), { recursive: true, force: true });
  }
}

/**
 * One seed, with its trace if it fails.
 * @param {Awaited<ReturnType<typeof load>>} code
 * @param {number} seed
 */
async function one(code, seed) {
  const options = optionsOf(code, values, seed);
  let report = await code.simulate(options);
  let shrunk = options;
  if (report.violation !== undefined && !values["no-shrink"]) ({ options: shrunk, report } = await code.shrink(options, report));
  if (values.trace || report.violation !== undefined) for (const line of report.trace) console.log(line);
  const { violation, scenes, events } = report;
  if (violation === undefined) {
    console.log(`simulate: ok, seed ${seed} (${scenes.join(", ")}), ${events} events`);
    return 0;
  }
  console.log(`\nseed ${seed} breaks ${violation.message}\nreproduce: ${commandOf(shrunk, values)}\n`);
  return 1;
}

/**
 * Many seeds, in as many processes as asked for.
 * @param {string} path @param {number} from @param {number} count
 * @returns {Promise<{ seeds: number[], done: number, events: number }>}
 */
async function many(path, from, count) {
  const total = { seeds: /** @type {number[]} */ ([]), done: 0, events: 0 };
  const began = performance.now();
  let told = began;
  const workers = Array.from({ length: Math.min(jobs, count) }, (_, i) => {
    const child = fork(join(import.meta.dirname, "worker.mjs"), { stdio: "inherit" });
    child.send({ path, values, from: from + i, step: Math.min(jobs, count), end: from + count });
    return new Promise((resolve) => {
      child.on("message", (/** @type {{ done: number, events: number, failed: number[] }} */ message) => {
        total.done += message.done;
        total.events += message.events;
        for (const seed of message.failed) {
          total.seeds.push(seed);
          console.log(`  seed ${seed} fails`);
        }
        if (performance.now() - told < 5_000) return;
        told = performance.now();
        console.log(`  ${total.done} of ${count}, ${((total.done / (told - began)) * 60_000).toFixed(0)} a minute`);
      });
      child.on("exit", (exit) => {
        if (exit !== 0) total.seeds.push(-1);
        resolve(undefined);
      });
    });
  });
  await Promise.all(workers);
  total.seeds.sort((a, b) => a - b);
  return total;
}
