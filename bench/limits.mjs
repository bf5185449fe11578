// node scripts/with-setup.mjs bench/limits.mjs [--processes 1,4] [--runs 1000] [--rounds 9]
// Measures what a limit costs on PostgreSQL: runs of five small steps (W1) in a plain queue and in one with a limit, by the same
// worker processes with 100 slots each, in turns. The limit is as high as their slots: it is counted, and holds nothing back. Prints runs per second (medians) and the median of the ratios of each round.

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startServer } from "@holdfast/postgres-server";
import { Holdfast, workflow } from "holdfast";
import { median } from "./statistics.mjs";

const QUEUES = ["plain", "limited"];
const SLOTS = 100;
const five = workflow("five", async (ctx, input) => {
  for (let i = 0; i < 5; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i, input }));
  return { done: true };
});

if (process.argv[2] === "worker") await work(process.argv[3] ?? "");
else await measure();

/** A worker process, which ends with the one that started it. @param {string} url */
async function work(url) {
  const engine = await Holdfast.open(url);
  for (const queue of QUEUES) await engine.worker({ workflows: [five], queue, concurrency: SLOTS, determinism: "off" });
  process.once("disconnect", async () => {
    await engine.close();
    process.exit(0);
  });
  process.send?.("ready");
}

async function measure() {
  const { values } = parseArgs({
    options: {
      processes: { type: "string", default: "1,4" },
      runs: { type: "string", default: "1000" },
      rounds: { type: "string", default: "9" },
    },
  });
  const server = await startServer();
  for (const processes of values.processes.split(",").map(Number)) {
    const url = await server.createDatabase();
    const engine = await Holdfast.open(url);
    await engine.queues.set("limited", { concurrency: SLOTS * processes });
    const workers = await Promise.all(Array.from({ length: processes }, () => startWorker(url)));
    /** @type {Record<string, number[]>} */
    const rates = { plain: [], limited: [] };
    for (let round = -2; round < Number(values.rounds); round++) {
      for (const queue of round % 2 === 0 ? QUEUES : QUEUES.toReversed()) {
        const rate = await throughput(engine, queue, Number(values.runs));
        if (round >= 0) rates[queue]?.push(rate); // two rounds warm up
      }
    }
    const [plain = [], limited = []] = QUEUES.map((queue) => rates[queue]);
    const ratios = limited.map((rate, i) => rate / (plain[i] ?? 1));
    const [low, high] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
    const shown = [plain, limited].map((list) => Math.round(median(list)).toLocaleString("en"));
    console.log(
      `${processes} worker processes: plain ${shown[0]} runs/s, limited ${shown[1]}; ratio ${median(ratios).toFixed(2)} (${low} – ${high})`,
    );
    for (const worker of workers) worker.disconnect();
    await Promise.all(workers.map((worker) => new Promise((done) => worker.once("exit", done))));
    await engine.close();
  }
  await server.stop();
}

/** @param {string} url @returns {Promise<import("node:child_process").ChildProcess>} */
function startWorker(url) {
  const child = fork(fileURLToPath(import.meta.url), ["worker", url], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  return new Promise((ready) => child.once("message", () => ready(child)));
}

/** Runs per second. @param {Holdfast} engine @param {string} queue @param {number} runs */
async function throughput(engine, queue, runs) {
  const start = performance.now();
  const started = await engine.startMany(
    five,
    Array.from({ length: runs }, (_, i) => ({ input: { i }, queue })),
  );
  await Promise.all(started.map((run) => run.result()));
  return runs / ((performance.now() - start) / 1_000);
}
