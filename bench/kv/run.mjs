// bench/kv: W3, W4 and waking a long run on memory drivers, beside @rivetkit/workflow-engine on the same driver and on its own, interleaved, medians of five rounds; and on
// LevelDB, by itself. Each measurement in a process of its own. Options: --rounds N, --only W3,wake.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const here = import.meta.dirname;
const { values: args } = parseArgs({ options: { rounds: { type: "string", default: "5" }, only: { type: "string" } }, strict: false });

if (!existsSync(join(here, "node_modules", "@rivetkit", "workflow-engine"))) {
  console.log("installing the peer …");
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent"], { cwd: here, stdio: "inherit" });
}
console.log(`node ${process.version}\n`);

const memory = { label: "holdfast", contender: "holdfast", options: {} };
const level = { label: "holdfast, LevelDB", contender: "holdfast", options: { driver: "level" } };
const rivet = { label: "rivet, same driver", contender: "rivet", options: {} };
const own = { label: "rivet, its driver", contender: "rivet", options: { driver: "own" } };

const plan = [
  { workload: "W3", title: "W3 1,000 steps in sequence", size: 1_000, entries: [memory, rivet, own, level] },
  { workload: "W3", title: "W3 5,000 steps in sequence", size: 5_000, entries: [memory, rivet] },
  { workload: "W4", title: "W4 500 steps in parallel", size: 500, entries: [memory, rivet, own, level] },
  { workload: "wake", title: "wake a run of 10,000 records", size: 10_000, entries: [memory, rivet, level] },
].filter(({ workload }) => args.only === undefined || args.only.split(",").includes(workload));

const results = plan.map(({ entries }) => entries.map(() => []));
for (let round = 0; round < Number(args.rounds); round++) {
  for (const [p, { workload, title, size, entries }] of plan.entries()) {
    for (const [e, { label, contender, options }] of entries.entries()) {
      const command = ["--expose-gc", join(here, "measure.mjs"), contender, workload, String(size), JSON.stringify(options)];
      const { stdout, stderr, status } = spawnSync(process.execPath, command, { encoding: "utf8" });
      if (status !== 0) {
        console.error(`${label} ${title}: failed\n${stderr}`);
        process.exitCode = 1;
        continue;
      }
      const result = JSON.parse(stdout.trim().split("\n").at(-1));
      results[p][e].push(result);
      const calls = [`${result.batches ?? 0} batches`, ...(result.lists === undefined ? [] : [`${result.lists} lists`])].join(", ");
      console.log(`round ${round + 1}  ${title.padEnd(30)} ${label.padEnd(18)} ${result.ms.toFixed(1).padStart(9)} ms  ${calls}`);
    }
  }
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
console.log("\nmedians, and how many times as fast Holdfast is in memory, within this run");
for (const [p, { title, entries }] of plan.entries()) {
  const medians = entries.map(({ label }, e) => ({ label, ms: median(results[p][e].map(({ ms }) => ms)) }));
  const first = medians.find(({ label }) => label === "holdfast")?.ms ?? Number.NaN;
  const parts = medians.map(
    ({ label, ms = Number.NaN }) => `${label} ${ms.toFixed(1)} ms${label.startsWith("rivet") ? ` (${(ms / first).toFixed(1)} ×)` : ""}`,
  );
  console.log(`${title.padEnd(30)} ${parts.join(" · ")}`);
}
