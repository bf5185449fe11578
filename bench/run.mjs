// npm run bench: measures Holdfast and its peers on the same machine in several interleaved rounds; prints medians, spreads and ratios.
// It installs the peers into bench/ and starts its own PostgreSQL. `npm run bench -- --help` lists the options.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { ask, startServer } from "@holdfast/postgres-server";
import { startTemporalServer } from "@holdfast/temporal-server";
import { charts } from "./charts.mjs";
import { mainMetric, shown } from "./figures.mjs";
import { contenders, measurements, stores, workloads } from "./plan.mjs";
import { tables, text } from "./report.mjs";

const here = import.meta.dirname;
/** The Node that runs all measurements: OpenWorkflow's SQLite and Restate's SDK need a newer one than Holdfast does. */
const node = join(here, "node_modules", "node", "bin", "node");
const TIME_LIMIT_MS = 180_000;
/** Keeps everything under 20 minutes: on a slow machine the rest of the later rounds is skipped, unless `--rounds` is given. */
const BUDGET_MS = 19 * 60_000;
const LARGE_TIME_LIMIT_MS = 1_800_000;

const names = { only: [...new Set(workloads.map(({ id }) => id))], peer: Object.keys(contenders), store: Object.keys(stores) };
const HELP = `npm run bench -- [options]

  --only W1,W6       only these workloads: ${names.only.join(", ")}
  --peer raw         only these contenders: ${names.peer.join(", ")}
  --store sqlite     only these stores: ${names.store.join(", ")}; temporal is measured only if it is named here
  --rounds 3         how often everything is measured
  --quick            a tenth of the size, one round: shows that it works, not how fast it is
  --large            W6 with a million parked runs
  --json file        writes all results
  --charts folder    writes a chart for each store
  --profile folder   writes a CPU profile of each measurement, for DevTools; this slows the measurements down
  --url postgres://… use this server, as a superuser; by default a server is started
  --help
`;

function refuse(message) {
  console.error(`${message}\n\n${HELP}`);
  process.exit(2);
}

function readOptions() {
  const list = { type: "string", multiple: true };
  const flag = { type: "boolean", default: false };
  const line = { type: "string" };
  try {
    const { values } = parseArgs({
      options: {
        only: list,
        peer: list,
        store: list,
        rounds: line,
        quick: flag,
        large: flag,
        json: line,
        charts: line,
        profile: line,
        url: line,
        help: flag,
      },
    });
    return values;
  } catch (error) {
    return refuse(error.message);
  }
}

/** The names given with an option, separated by commas or by repeating the option. */
function namesOf(option, given) {
  if (given === undefined) return undefined;
  const asked = given.flatMap((value) => value.split(","));
  const unknown = asked.filter((name) => !names[option].includes(name));
  if (unknown.length > 0)
    refuse(`--${option}: unknown ${unknown.map((name) => `"${name}"`).join(", ")}; known are ${names[option].join(", ")}.`);
  return asked;
}

function roundsOf({ rounds, quick }) {
  const count = Number(rounds ?? (quick ? 1 : 3));
  if (!Number.isInteger(count) || count < 1) refuse(`--rounds must be a whole number of at least 1, not "${rounds}".`);
  return count;
}

/** Installs the versions that bench/package.json pins, unless they are installed. */
function installPeers() {
  const { dependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const installed = (name) => {
    const manifest = join(here, "node_modules", name, "package.json");
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version;
  };
  if (existsSync(node) && Object.entries(dependencies).every(([name, version]) => installed(name) === version)) return;
  console.log("installing the peers …");
  // Not `npm ci`: it refuses a lock that lacks binaries for other systems, and a registry may not have those.
  const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--silent"], {
    cwd: here,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status === 0) return;
  console.error(`The peers could not be installed. Try \`npm install\` in ${here}.`);
  process.exit(1);
}

/** Why Restate can't be measured on this machine; undefined if it can. */
async function restateProblem() {
  try {
    const { serverBinary } = await import("./contenders/restate.mjs");
    const { status, error } = spawnSync(serverBinary(), ["--version"]);
    return status === 0 ? undefined : (error?.message ?? `restate-server --version ended with ${status}`);
  } catch (error) {
    return error.message;
  }
}

/** The folder of the current measurement. */
let folder;
const removeFolder = () => folder !== undefined && rmSync(folder, { recursive: true, force: true });

/** A new database or folder for one measurement. */
async function freshTarget({ store, workload }, admin) {
  folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const target = { store, folder, file: join(folder, "bench.db") };
  if (store === "temporal") {
    const url = temporal.url(`bench-${process.pid}-${Math.random().toString(36).slice(2)}`);
    return { target: { ...target, url }, discard: async () => removeFolder() };
  }
  if (store !== "postgres") return { target, discard: async () => removeFolder() };
  const name = `bench_${process.pid}_${Math.random().toString(36).slice(2)}`;
  await ask(admin, `CREATE DATABASE ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  if (workload === "cost") {
    await ask(url.href, "CREATE EXTENSION pg_stat_statements");
    await ask(url.href, `ALTER DATABASE ${name} SET pg_stat_statements.track = 'top'`);
  }
  await ask(admin, "CHECKPOINT");
  const discard = async () => {
    await ask(admin, `DROP DATABASE ${name} WITH (FORCE)`);
    removeFolder();
  };
  return { target: { ...target, url: url.href }, discard };
}

/** The process group of the current measurement, with every process that it started. */
let group;
const endGroup = () => {
  if (group === undefined) return;
  try {
    process.kill(-group, "SIGKILL");
  } catch {
    // It has already ended.
  }
};

/** Measures once, in a separate process. A failure is a result too. */
async function measureOnce(measurement, target, timeLimit) {
  const profile = options.profile === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", join(options.profile, measurement.key)];
  const command = [...profile, "--expose-gc", "--no-warnings", join(here, "measure.mjs"), JSON.stringify({ ...measurement, target })];
  const child = spawn(node, command, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  group = child.pid;
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].setEncoding("utf8").on("data", (chunk) => (output[stream] += chunk));
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endGroup();
  }, timeLimit);
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  endGroup(); // a worker or a server that it left behind
  group = undefined;
  if (late) return { failed: `not done after ${timeLimit / 1_000} s` };
  if (code !== 0) return { failed: reasonOf(output.stderr) ?? `exited with code ${code}` };
  return JSON.parse(output.stdout.trim().split("\n").at(-1));
}

/** The line of a stack trace that names the error. */
const reasonOf = (stderr) =>
  stderr
    .split("\n")
    .find((line) => /^(?:\w*Error|Uncaught|\w+: )/.test(line))
    ?.slice(0, 200);

const clock = (ms) => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1_000) % 60).padStart(2, "0")}`;

/** The progress, and the estimated end: from the duration of the same measurement in the previous round, or else from the mean. */
class Progress {
  constructor(todo) {
    this.todo = todo;
    this.done = 0;
    this.start = performance.now();
    this.took = new Map();
  }
  end({ key }, ms) {
    this.done++;
    this.took.set(key, ms);
  }
  toString() {
    const elapsed = performance.now() - this.start;
    const mean = elapsed / Math.max(1, this.done);
    const left = this.todo.slice(this.done).reduce((sum, { key }) => sum + (this.took.get(key) ?? mean), 0);
    const at = new Date(Date.now() + left).toTimeString().slice(0, 5);
    return `[${String(this.done).padStart(3)} of ${this.todo.length}, ${clock(elapsed)}, end ≈ ${at}]`;
  }
}

const options = readOptions();
if (options.help) {
  console.log(HELP);
  process.exit(0);
}
const rounds = roundsOf(options);
const choice = {
  only: namesOf("only", options.only),
  peers: namesOf("peer", options.peer),
  storeNames: namesOf("store", options.store),
  quick: options.quick,
  large: options.large,
};
let round = measurements(choice);
if (round.length === 0) refuse("Nothing to measure: none of the selected contenders has a selected workload on the selected stores.");
installPeers();
if (round.some(({ contender }) => contender === "restate")) {
  const problem = await restateProblem();
  if (problem !== undefined) {
    console.log(`Restate is skipped: its server does not run on this machine (${problem}).`);
    round = round.filter(({ contender }) => contender !== "restate");
  }
}

/** One server for all contenders; each measurement has a queue of its own. */
const temporal = round.some(({ store }) => store === "temporal") ? await startTemporalServer({ own: true }) : undefined;
if (temporal?.missing !== undefined) {
  console.log(`Temporal is skipped: ${temporal.missing}`);
  round = round.filter(({ store }) => store !== "temporal");
  if (round.length === 0) process.exit(1);
}

const todo = Array.from({ length: rounds }, (_, r) =>
  round.filter(({ once }) => r === 0 || !once).map((entry) => ({ ...entry, round: r })),
).flat();
const results = new Map(round.map((measurement) => [measurement.key, { ...measurement, rounds: [] }]));
const needsServer = round.some(({ store, contender }) => store === "postgres" && contender !== "restate");
const settings = { shared_preload_libraries: "pg_stat_statements", "pg_stat_statements.track": "none" };
const server = needsServer && options.url === undefined ? await startServer({ durable: true, settings }) : undefined;
const admin = options.url ?? server?.url();
const machine = {
  date: new Date().toISOString().slice(0, 10),
  node: spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim(),
  postgres: needsServer ? (await ask(admin, "SHOW server_version"))[0].server_version.split(" ")[0] : undefined,
  cores: cpus().length,
  processor: cpus()[0]?.model,
  quick: options.quick,
};
console.log(
  `${todo.length} measurements in ${rounds} round${rounds > 1 ? "s" : ""}; ${machine.cores} cores; Node ${machine.node}${needsServer ? `; PostgreSQL ${machine.postgres}, fsync on` : ""}\n`,
);

let ending = false;
async function end(code) {
  ending = true;
  endGroup();
  await server?.stop();
  if (temporal?.missing === undefined) await temporal?.stop();
  removeFolder();
  process.exit(code);
}
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => end(130));

const progress = new Progress(todo);
const inTime = () => options.rounds !== undefined || options.large || performance.now() - progress.start < BUDGET_MS;
for (const measurement of todo) {
  if (measurement.round > 0 && !inTime()) {
    console.log(`19 minutes have passed: ${todo.length - progress.done} measurements of the later rounds are skipped.`);
    break;
  }
  const start = performance.now();
  const { target, discard } = await freshTarget(
    measurement.contender === "restate" ? { ...measurement, store: "none" } : measurement,
    admin,
  );
  const result = await measureOnce(measurement, target, options.large ? LARGE_TIME_LIMIT_MS : TIME_LIMIT_MS);
  if (ending) await new Promise(() => {}); // the process is about to end
  await discard();
  results.get(measurement.key).rounds.push(result);
  progress.end(measurement, performance.now() - start);
  const metric = mainMetric(measurement, result);
  const figure = result.failed === undefined ? `${shown(result[metric.key])} ${metric.unit}` : `failed: ${result.failed}`;
  console.log(`${progress} ${measurement.key.padEnd(32)} ${figure}`);
  if (result.failed !== undefined && !contenders[measurement.contender].isPeer) process.exitCode = 1; // a peer's failure is a result
}

const report = { machine, rounds, results: [...results.values()] };
console.log(`\nmedians of ${rounds} (from – to), and how many times better Holdfast is; for raw, how many times more Holdfast takes\n`);
if (options.quick)
  console.log("With --quick all sizes are a tenth of what the labels say: this shows that it works, not how fast it is.\n");
console.log(text(tables(report)));
if (options.json !== undefined) {
  mkdirSync(dirname(options.json), { recursive: true });
  writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
}
if (options.charts !== undefined) {
  mkdirSync(options.charts, { recursive: true });
  for (const { name, svg } of charts(report)) writeFileSync(join(options.charts, `${name}.svg`), svg);
}
await end(process.exitCode ?? 0);
