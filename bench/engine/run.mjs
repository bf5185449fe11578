// bench/engine: W1 to W4 on SQLite, Holdfast beside the raw limit and OpenWorkflow, interleaved, three rounds, medians and spreads.
// All of it on the same Node (24, brought by npm: OpenWorkflow's SQLite needs it), each measurement in a process of its own, on a
// fresh file in the same folder. Options: --rounds N, --only W1,W3, --contender holdfast, --quick.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const here = import.meta.dirname;
const { values: args } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    only: { type: "string" },
    contender: { type: "string" },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
  strict: false,
});

const node = join(here, "node_modules", "node", "bin", "node");
if (!existsSync(node) || !existsSync(join(here, "node_modules", "openworkflow"))) {
  console.log("installing the peers …");
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent"], { cwd: here, stdio: "inherit" });
}
console.log(`node ${execFileSync(node, ["--version"], { encoding: "utf8" }).trim()}\n`);

const scale = args.quick ? 0.1 : 1;
const n = (count) => Math.max(10, Math.round(count * scale));
const full = { label: "holdfast", contender: "holdfast", options: {} };
const raw = { label: "raw", contender: "raw", options: {} };
const open = { label: "openworkflow", contender: "openworkflow", options: {} };

/** What is measured, by whom, and how large. OpenWorkflow answers `result()` once a second: few rounds tell enough. */
const plan = [
  {
    workload: "W1",
    title: "W1 runs of 5 steps, a second",
    unit: "runs/s",
    value: (r) => r.rate,
    entries: [
      [full, n(1_000)],
      [raw, n(1_000)],
      [open, n(1_000)],
    ],
  },
  {
    workload: "W2",
    title: "W2 start to result, p50",
    unit: "ms",
    value: (r) => r.p50,
    entries: [
      [full, n(200)],
      [raw, n(200)],
      [open, 5],
    ],
  },
  {
    workload: "W3",
    title: "W3 1,000 steps in sequence",
    unit: "ms",
    value: (r) => r.ms,
    entries: [
      [full, 1_000],
      [raw, 1_000],
      [open, 900],
    ],
  },
  {
    workload: "W3",
    title: "W3 5,000 steps",
    unit: "ms",
    value: (r) => r.ms,
    entries: [
      [full, 5_000],
      [raw, 5_000],
    ],
  },
  {
    workload: "W3",
    title: "W3 20,000 steps",
    unit: "ms",
    value: (r) => r.ms,
    entries: [
      [full, 20_000],
      [raw, 20_000],
    ],
  },
  {
    workload: "W4",
    title: "W4 500 steps in parallel",
    unit: "ms",
    value: (r) => r.ms,
    entries: [
      [full, 500],
      [raw, 500],
      [open, 500],
    ],
  },
  {
    workload: "crowd",
    title: "start to result beside 100,000 parked runs, p50",
    unit: "ms",
    value: (r) => r.after.p50,
    entries: [[full, n(100_000)]],
  },
].filter(({ workload }) => args.only === undefined || args.only.split(",").includes(workload));

const results = plan.map(({ entries }) => entries.map(() => []));
for (let round = 0; round < Number(args.rounds); round++) {
  for (const [p, { workload, title, entries, unit, value }] of plan.entries()) {
    for (const [e, [{ label, contender, options }, size]] of entries.entries()) {
      if (args.contender !== undefined && args.contender !== label) continue;
      const { stdout, stderr, status } = spawnSync(
        node,
        [join(here, "measure.mjs"), contender, workload, String(size), JSON.stringify(options)],
        { encoding: "utf8" },
      );
      if (status !== 0) {
        console.error(`${label} ${title}: failed\n${stderr}`);
        process.exitCode = 1;
        continue;
      }
      const result = JSON.parse(stdout.trim().split("\n").at(-1));
      results[p][e].push(result);
      console.log(
        `round ${round + 1}  ${title.padEnd(48)} ${label.padEnd(14)} ${value(result).toFixed(2).padStart(10)} ${unit}${workload === "crowd" ? ` (without the crowd ${result.before.p50.toFixed(2)})` : ""}`,
      );
    }
  }
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
console.log("\nmedians, and ratios within this run");
const table = plan.map(({ title, entries, unit, value }, p) => {
  const medians = Object.fromEntries(entries.map(([{ label }], e) => [label, median(results[p][e].map(value))]));
  const ratio = (label) =>
    medians[label] === undefined || medians.holdfast === undefined
      ? undefined
      : unit === "ms"
        ? medians.holdfast / medians[label]
        : medians.holdfast / medians[label];
  const parts = Object.entries(medians).map(([label, m]) => `${label} ${m?.toFixed(2)} ${unit}`);
  const toRaw = ratio("raw");
  const toPeer = unit === "ms" && medians.openworkflow !== undefined ? medians.openworkflow / medians.holdfast : ratio("openworkflow");
  console.log(
    `${title.padEnd(48)} ${parts.join(" · ")}${toRaw === undefined ? "" : ` · ${toRaw.toFixed(2)} × raw`}${toPeer === undefined ? "" : ` · ${toPeer.toFixed(1)} × OpenWorkflow`}`,
  );
  return { title, unit, medians, toRaw, toPeer };
});
if (args.json !== undefined) writeFileSync(args.json, JSON.stringify({ node: process.version, table, results }, null, 2));
