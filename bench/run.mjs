// npm run bench: Holdfast and its peers on the same machine, one after the other, interleaved, so many rounds; medians, spreads and ratios.
// It installs the peers beside itself and starts its own PostgreSQL. `npm run bench -- --help` lists the options.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { ask, startServer } from "@holdfast/postgres-server";
import { charts } from "./charts.mjs";
import { mainMetric, shown } from "./figures.mjs";
import { contenders, measurements, stores, workloads } from "./plan.mjs";
import { tables, text } from "./report.mjs";

const here = import.meta.dirname;
/** The Node that everything is measured on: OpenWorkflow's SQLite and Restate's SDK need a newer one than Holdfast does. */
const node = join(here, "node_modules", "node", "bin", "node");
const TIME_LIMIT_MS = 180_000;
/** All of it stays under 20 minutes: on a slow machine, what is left of the later rounds then is left out. `--rounds` lifts that. */
const BUDGET_MS = 19 * 60_000;
const LARGE_TIME_LIMIT_MS = 1_800_000;

const names = { only: [...new Set(workloads.map(({ id }) => id))], peer: Object.keys(contenders), store: Object.keys(stores) };
const HELP = `npm run bench -- [options]

  --only W1,W6       these workloads: ${names.only.join(", ")}
  --peer raw         these contenders, also several: ${names.peer.join(", ")}
  --store sqlite     these stores: ${names.store.join(", ")}
  --rounds 3         how often everything is measured
  --quick            a tenth of the size, one round: to see that it works, not how fast
  --large            W6 with a million parked runs
  --json file        writes all results
  --charts folder    writes a chart for each store
  --profile folder   writes a CPU profile of each measurement, for DevTools; figures are worse for it
  --url postgres://… a server to use, as a superuser; by default one is started
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

/** The names given with an option, in any mixture of commas and repetition. */
function namesOf(option, given) {
  if (given === undefined) return undefined;
  const asked = given.flatMap((value) => value.split(","));
  const unknown = asked.filter((name) => !names[option].includes(name));
  if (unknown.length > 0) refuse(`--${option}: there is no ${unknown.join(", ")}; there are ${names[option].join(", ")}.`);
  return asked;
}

function roundsOf({ rounds, quick }) {
  const count = Number(rounds ?? (quick ? 1 : 3));
  if (!Number.isInteger(count) || count < 1) refuse(`--rounds: ${rounds} is not a whole number from 1.`);
  return count;
}

/** Installs what bench/package.json pins, unless it is there. */
function installPeers() {
  const { dependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const installed = (name) => {
    const manifest = join(here, "node_modules", name, "package.json");
    return existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).version;
  };
  if (existsSync(node) && Object.entries(dependencies).every(([name, version]) => installed(name) === version)) return;
  console.log("installing the peers …");
  const { status } = spawnSync("npm", ["ci", "--no-audit", "--no-fund", "--silent"], {
    cwd: here,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status === 0) return;
  console.error(`The peers could not be installed. Try \`npm ci\` in ${here}.`);
  process.exit(1);
}

/** Why Restate can't be measured here, if it can't. */
async function restateProblem() {
  try {
    const { serverBinary } = await import("./contenders/restate.mjs");
    const { status, error } = spawnSync(serverBinary(), ["--version"]);
    return status === 0 ? undefined : (error?.message ?? `restate-server --version ended with ${status}`);
  } catch (error) {
    return error.message;
  }
}

/** The folder of what is being measured. */
let folder;
const removeFolder = () => folder !== undefined && rmSync(folder, { recursive: true, force: true });

/** A database or a folder that nobody has used, for one measurement. */
async function freshTarget({ store, workload }, admin) {
  folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const target = { store, folder, file: join(folder, "bench.db") };
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

/** What is being measured just now, with every process that it started. */
let group;
const endGroup = () => {
  if (group === undefined) return;
  try {
    process.kill(-group, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
};

/** Measures once, in a process of its own. A failure is a result too. */
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
  if (code !== 0) return { failed: reasonOf(output.stderr) ?? `ended with ${code}` };
  return JSON.parse(output.stdout.trim().split("\n").at(-1));
}

/** The line of a stack trace that names the error. */
const reasonOf = (stderr) =>
  stderr
    .split("\n")
    .find((line) => /^(?:\w*Error|Uncaught|\w+: )/.test(line))
    ?.slice(0, 200);

const clock = (ms) => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1_000) % 60).padStart(2, "0")}`;

/** How far it is, and when it will be done: by what the same measurement took in the round before, or else by the mean. */
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
if (round.length === 0) refuse("Nothing is left to measure: no contender that you picked does a workload that you picked on that store.");
installPeers();
if (round.some(({ contender }) => contender === "restate")) {
  const problem = await restateProblem();
  if (problem !== undefined) {
    console.log(`Restate is left out: its server does not run here (${problem}).`);
    round = round.filter(({ contender }) => contender !== "restate");
  }
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
  removeFolder();
  process.exit(code);
}
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => end(130));

const progress = new Progress(todo);
const inTime = () => options.rounds !== undefined || options.large || performance.now() - progress.start < BUDGET_MS;
for (const measurement of todo) {
  if (measurement.round > 0 && !inTime()) {
    console.log(`19 minutes have gone: ${todo.length - progress.done} measurements of the later rounds are left out.`);
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
console.log(
  `\nmedians of ${rounds} (from – to), and how many times as good Holdfast is within this run; beside raw: how many times as much it takes\n`,
);
if (options.quick) console.log("With --quick all sizes are a tenth of what the lines say: this shows that it works, not how fast.\n");
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
