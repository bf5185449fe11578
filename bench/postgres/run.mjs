// bench/postgres: W1 to W4 on PostgreSQL, Holdfast beside the raw limit, OpenWorkflow and DBOS, interleaved, three rounds, medians and
// ratios. One server with its default durability; each measurement in a process and a database of its own. Then: what a run costs
// (statements, processor time, bytes), latency beside a crowd, and one worker process against two.
// Options: --rounds N, --only W1,W3, --contender holdfast, --url postgres://…, --quick, --json file.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ask, startServer } from "@holdfast/postgres-server";

const here = import.meta.dirname;
const { values: args } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    only: { type: "string" },
    contender: { type: "string" },
    url: { type: "string" },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
  strict: false,
});

if (!["openworkflow", "@dbos-inc", "pg"].every((name) => existsSync(join(here, "node_modules", name)))) {
  console.log("installing the peers …");
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--silent"], { cwd: here, stdio: "inherit" });
}
const scale = args.quick ? 0.1 : 1;
const n = (count) => Math.max(10, Math.round(count * scale));
const contender = (label, options = {}) => ({ label, contender: label, options });
const [full, raw, open, dbos] = ["holdfast", "raw", "openworkflow", "dbos"].map((label) => contender(label));
const crew = (processes) => ({ label: `${processes} worker${processes > 1 ? "s" : ""}`, contender: "holdfast", options: { processes } });

const rate = { unit: "runs/s", value: (r) => r.rate };
const time = { unit: "ms", value: (r) => r.ms };
/** What is measured, by whom, and how large. OpenWorkflow answers `result()` once a second: few rounds tell enough; it stops at 1,000 steps. */
const plan = [
  {
    workload: "W1",
    title: "W1 runs of 5 steps, a second",
    ...rate,
    entries: [full, raw, open, dbos].map((who) => [who, n(1_000)]),
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
      [dbos, n(200)],
    ],
  },
  {
    workload: "W3",
    title: "W3 1,000 steps in sequence",
    ...time,
    entries: [
      [full, 1_000],
      [raw, 1_000],
      [open, 900],
      [dbos, 1_000],
    ],
  },
  {
    workload: "W3",
    title: "W3 5,000 steps",
    ...time,
    entries: [
      [full, 5_000],
      [raw, 5_000],
    ],
  },
  {
    workload: "W4",
    title: "W4 500 steps in parallel",
    ...time,
    entries: [full, raw, open, dbos].map((who) => [who, 500]),
  },
  {
    workload: "cost",
    title: "statements a step at W1",
    unit: "",
    value: (r) => r.perStep,
    once: true,
    entries: [full, open, dbos].map((who) => [who, n(1_000)]),
  },
  {
    workload: "crowd",
    title: "start to result beside 50,000 parked runs, p50",
    unit: "ms",
    value: (r) => r.after.p50,
    once: true,
    entries: [[full, n(50_000)]],
  },
  {
    workload: "workers",
    title: "W1 by worker processes beside the client",
    ...rate,
    entries: [crew(1), crew(2)].map((who) => [who, n(4_000)]),
  },
].filter(({ workload }) => args.only === undefined || args.only.split(",").includes(workload));

const server =
  args.url === undefined
    ? await startServer({ durable: true, settings: { shared_preload_libraries: "pg_stat_statements", "pg_stat_statements.track": "none" } })
    : undefined;
const admin = args.url ?? server.url();
const [{ version }] = await ask(admin, "SELECT version()");
console.log(`node ${process.version}, ${version.split(" on ")[0]}\n`);

/** Of one run, or of one step where there is only one run: as many as were asked for. */
const processors = ({ serverMs, ownMs }, size) =>
  ownMs === undefined ? "" : `${shown((serverMs ?? Number.NaN) / size)} + ${shown(ownMs / size)} ms of processors each`;
const shown = (value) => value.toFixed(value < 1 ? 3 : value < 100 ? 2 : 0);

/** A database of its own, where statements are counted if that is asked for. */
async function freshDatabase(workload) {
  const name = `bench_${process.pid}_${Math.random().toString(36).slice(2)}`;
  await ask(admin, `CREATE DATABASE ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  if (workload === "cost") {
    await ask(url.href, "CREATE EXTENSION pg_stat_statements");
    await ask(url.href, `ALTER DATABASE ${name} SET pg_stat_statements.track = 'top'`);
  }
  return { name, url: url.href };
}

const results = plan.map(({ entries }) => entries.map(() => []));
try {
  for (let round = 0; round < Number(args.rounds); round++) {
    for (const [p, { workload, title, entries, unit, value, once }] of plan.entries()) {
      if (once && round > 0) continue;
      for (const [e, [{ label, contender: who, options }, size]] of entries.entries()) {
        if (args.contender !== undefined && args.contender !== who) continue;
        const { name, url } = await freshDatabase(workload);
        await ask(admin, "CHECKPOINT");
        const { stdout, stderr, status } = spawnSync(
          process.execPath,
          [join(here, "measure.mjs"), who, workload, String(size), url, JSON.stringify(options)],
          { encoding: "utf8", timeout: 300_000, killSignal: "SIGKILL" },
        );
        await ask(admin, `DROP DATABASE ${name} WITH (FORCE)`);
        if (status !== 0) {
          console.error(`${label} ${title}: failed\n${stdout}${stderr}`);
          process.exitCode = 1;
          continue;
        }
        const result = JSON.parse(stdout.trim().split("\n").at(-1));
        results[p][e].push(result);
        console.log(
          `round ${round + 1}  ${title.padEnd(48)} ${label.padEnd(14)} ${shown(value(result)).padStart(10)} ${unit.padEnd(6)} ${processors(result, size)}`,
        );
        if (workload === "crowd") console.log(`           without the crowd ${shown(result.before.p50)} ms`);
        if (workload === "cost")
          console.log(`           a run: ${shown(result.bytesPerRun)} bytes of tables, ${shown(result.walPerRun)} of write-ahead log`);
        for (const { query, calls, ms } of result.top ?? [])
          console.log(
            `           ${String(calls).padStart(8)} calls ${ms.toFixed(0).padStart(7)} ms  ${query.replace(/\s+/g, " ").slice(0, 100)}`,
          );
      }
    }
  }
} finally {
  await server?.stop();
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
console.log("\nmedians, and ratios within this run");
const table = plan.map(({ title, entries, unit, value }, p) => {
  const medians = Object.fromEntries(
    entries.map(([{ label }], e) => [label, median(results[p][e].map(value))]).filter(([, m]) => m !== undefined),
  );
  const ours = medians.holdfast;
  /** Beside a peer, how many times as good; beside the raw limit, how many times as much. */
  const ratioTo = (label, theirs) => (label === "raw" || unit === "runs/s" ? ours / theirs : theirs / ours);
  const others = Object.entries(medians).filter(([label]) => ours !== undefined && label !== "holdfast");
  const ratios = Object.fromEntries(others.map(([label, theirs]) => [label, ratioTo(label, theirs)]));
  const values = Object.entries(medians).map(([label, m]) => `${label} ${shown(m)} ${unit}`.trim());
  const spent = entries
    .map(([{ label }, size], e) => [
      label,
      median(results[p][e].flatMap(({ serverMs = 0, ownMs }) => (ownMs === undefined ? [] : [(serverMs + ownMs) / size]))),
    ])
    .filter(([, ms]) => ms !== undefined);
  const compared = Object.entries(ratios).map(([label, ratio]) => `${ratio.toFixed(label === "raw" ? 2 : 1)} × ${label}`);
  console.log(`${title.padEnd(48)} ${[...values, ...compared].join(" · ")}`);
  if (spent.length > 0)
    console.log(`${"".padEnd(48)} processors, each: ${spent.map(([label, ms]) => `${label} ${shown(ms)} ms`).join(" · ")}`);
  return { title, unit, medians, ratios, processors: Object.fromEntries(spent) };
});
if (args.json !== undefined) writeFileSync(args.json, JSON.stringify({ node: process.version, version, table, results }, null, 2));
