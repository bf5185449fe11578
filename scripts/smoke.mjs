// npm run smoke [-- --write] [names]: packs the packages, installs them into fresh projects with other runtimes, compilers, test runners and
// frameworks, starts a run in each, kills the process in the middle of a step, and lets another process end the run.
// It needs a registry. Names choose projects ("bun next"); --write puts the table into docs/platforms.md.

import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { folderSize, LIMIT } from "./installSize.mjs";
import { cleanEnvironment, pack, runIn } from "./packed.mjs";
import { root } from "./setup.mjs";
import { npmProgram, runtime } from "./smoke/runtimes.mjs";
import { worlds } from "./smoke/worlds.mjs";

/** @typedef {import("./smoke/worlds.mjs").World} World */
/** @typedef {import("./smoke/runtimes.mjs").Runtime} Runtime */
/** @typedef {{ world: World, version: string, outcome: "ok" | "failed" | "not run", detail: string, sqlite: string, megabytes: number }} Row */

const programs = resolve(import.meta.dirname, "smoke/programs");
const page = join(root, "docs/platforms.md");
const place = mkdtempSync(join(tmpdir(), "holdfast-smoke-"));
const MINUTE = 60_000;

/** @param {string} message @returns {never} */
function stop(message) {
  throw new Error(message);
}

/** @param {World} world @param {readonly import("./packed.mjs").Packed[]} packed */
function writeProject(world, packed) {
  const folder = join(place, world.name.replaceAll(/\W+/g, "-"));
  for (const [path, program] of Object.entries(world.files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    const text = readFileSync(join(programs, program), "utf8");
    // In a project whose files end in .js the modules do so too.
    writeFileSync(join(folder, path), "trip.js" in world.files ? text.replaceAll('.mjs"', '.js"') : text);
  }
  for (const [path, text] of Object.entries(world.texts ?? {})) writeFileSync(join(folder, path), text);
  const isModule = !("trip.js" in world.files || "main.cjs" in world.files);
  const tarballs = Object.fromEntries(packed.map(({ name, tarball }) => [name, `file:${tarball}`]));
  const { "@holdfast/libsql": libsql = "", ...dependencies } = tarballs;
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({
      ...{ name: "smoke", private: true, ...(isModule && { type: "module" }) },
      ...{ dependencies, optionalDependencies: { "@holdfast/libsql": libsql }, overrides: tarballs, ...world.manifest },
    }),
  );
  return folder;
}

/** @param {World} world @param {Runtime} program @param {string} folder */
async function install(world, program, folder) {
  const options = ["--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"];
  const env = { PATH: `${dirname(program.path)}:${process.env["PATH"]}` };
  // By the Node of the project, which decides about optional dependencies. Deno reads what npm has installed.
  const node = world.runtime.startsWith("node") ? program.path : process.execPath;
  const [command, args] =
    world.runtime === "bun"
      ? [program.path, ["install", "--ignore-scripts"]]
      : [node, [await npmProgram(), "install", ...options, ...(world.packages ?? [])]];
  const { code, stderr } = await runIn(command, args, { cwd: folder, env });
  if (code !== 0) stop(`the installation failed: ${stderr.trim().slice(0, 1_500)}`);
}

/** Bytes of holdfast and what came with it. @param {string} folder */
function holdfastSize(folder) {
  const names = ["holdfast", "@holdfast", "croner", "@standard-schema", "libsql", "@libsql", "@neon-rs"];
  const modules = join(folder, "node_modules");
  return names.reduce((sum, name) => sum + (existsSync(join(modules, name)) ? folderSize(join(modules, name)) : 0), 0);
}

/** The processes of a project, which are killed with all that they have started. */
class Started {
  /** @param {World} world @param {Runtime} program @param {string} folder @param {"begin" | "end"} phase @param {number} port */
  constructor(world, program, folder, phase, port) {
    const env = {
      ...cleanEnvironment(),
      ...{ SMOKE: phase, PORT: String(port), PATH: `${dirname(program.path)}:${process.env["PATH"]}`, NO_COLOR: "1" },
      ...world.env,
    };
    this.said = "";
    this.child = spawn(program.path, world.command, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.said += text;
      });
    }
    this.hasEnded = false;
    /** @type {Promise<number | null>} */
    this.ended = new Promise((done) => {
      this.child.once("error", (error) => {
        this.said += String(error);
        this.hasEnded = true;
        done(1);
      });
      this.child.once("close", (code) => {
        this.hasEnded = true;
        done(code);
      });
    });
  }

  /** Looks until there is an answer, or the process or the time has ended. @template T @param {string} what @param {() => Promise<T | undefined>} look */
  async until(what, look) {
    const last = Date.now() + 2 * MINUTE;
    for (;;) {
      const answer = await look();
      if (answer !== undefined) return answer;
      if (this.hasEnded) stop(`the process ended before ${what}:\n${this.said.trim().slice(-1_500)}`);
      if (Date.now() > last) stop(`two minutes have passed before ${what}:\n${this.said.trim().slice(-1_500)}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Which SQLite the processes have loaded, as Linux tells it. */
  sqlite() {
    if (process.platform !== "linux") return "";
    const mapped = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .flatMap((pid) => {
        try {
          // The group is the third word after the name, which is in brackets.
          const [, , group] = readFileSync(`/proc/${pid}/stat`, "utf8")
            .replace(/^.*\) /s, "")
            .split(" ");
          return group === String(this.child.pid) ? [readFileSync(`/proc/${pid}/maps`, "utf8")] : [];
        } catch {
          return []; // it has ended meanwhile
        }
      });
    return mapped.some((text) => text.includes("/@libsql/")) ? "libsql" : "built in";
  }

  async kill() {
    if (!this.hasEnded && this.child.pid !== undefined) process.kill(-this.child.pid, "SIGKILL");
    await this.ended;
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((done, failed) => {
    const probe = createServer().once("error", failed);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => done(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

/** Returns which SQLite it used. @param {World} world @param {Runtime} program @param {string} folder */
async function play(world, program, folder) {
  if (world.build !== undefined) {
    const env = { ...world.env, PATH: `${dirname(program.path)}:${process.env["PATH"]}` };
    const built = await runIn(program.path, world.build, { cwd: folder, env });
    if (built.code !== 0) stop(`the build failed:\n${(built.stdout + built.stderr).trim().slice(-1_500)}`);
  }
  const port = await freePort();
  const ask = async (/** @type {string} */ path) => {
    try {
      return await fetch(`http://127.0.0.1:${port}/${path}`);
    } catch {
      return undefined; // it does not listen yet
    }
  };
  const first = new Started(world, program, folder, "begin", port);
  let sqlite = "";
  try {
    if (world.server) {
      const reply = await first.until("it answered", () => ask("begin"));
      if (!reply.ok) stop(`the start was refused: ${reply.status} ${await reply.text()}\n${first.said}`);
    }
    await first.until("the step began", async () => (existsSync(join(folder, "in-step")) ? true : undefined));
    sqlite = first.sqlite();
  } finally {
    await first.kill();
  }
  if (existsSync(join(folder, "result.json"))) stop("the run ended before the process was killed");

  const second = new Started(world, program, folder, "end", port);
  try {
    if (world.server) {
      const reply = await second.until("it answered", () => ask("end"));
      if (!reply.ok) stop(`the result was refused: ${reply.status} ${await reply.text()}\n${second.said}`);
    } else {
      const timer = setTimeout(() => void second.kill(), 2 * MINUTE);
      const code = await second.ended;
      clearTimeout(timer);
      if (code !== 0) stop(`the second process ended with ${code}:\n${second.said.trim().slice(-1_500)}`);
    }
  } finally {
    await second.kill();
  }
  const result = readFileSync(join(folder, "result.json"), "utf8");
  if (result !== "42") stop(`the result is ${result}, not 42`);
  const effects = readFileSync(join(folder, "effects.log"), "utf8").trim().split("\n");
  // A recorded step is not run again, an interrupted one is; the test of testEngine has its own two, in any order.
  const times = (/** @type {string} */ name) => effects.filter((one) => one === name).length;
  const own = "body.mjs" in world.files || "body.js" in world.files ? 1 : 0;
  if (times("first") !== 1 + own || times("second") !== 2 + own) stop(`the steps that ran: ${effects.join(", ")}`);
  return sqlite;
}

/** @param {World} world @param {readonly import("./packed.mjs").Packed[]} packed @returns {Promise<Row>} */
async function visit(world, packed) {
  const program = await runtime(world.runtime);
  if (typeof program === "string") return { world, version: "", outcome: "not run", detail: program, sqlite: "", megabytes: 0 };
  const folder = writeProject(world, packed);
  let version = program.version;
  try {
    await install(world, program, folder);
    if (world.shown !== undefined)
      version = JSON.parse(readFileSync(join(folder, "node_modules", world.shown, "package.json"), "utf8")).version;
    const megabytes = holdfastSize(folder) / 1_000_000;
    // Deno is served by the npm of this machine, and Bun does not look at `engines`.
    if (/^node-2[24]/.test(world.runtime) && megabytes > LIMIT) stop(`the installation takes ${megabytes} MB, more than ${LIMIT}`);
    const sqlite = await play(world, program, folder);
    return { world, version, outcome: "ok", detail: world.note ?? "", sqlite, megabytes };
  } catch (error) {
    return { world, version, outcome: "failed", detail: error instanceof Error ? error.message : String(error), sqlite: "", megabytes: 0 };
  } finally {
    if (process.env["SMOKE_KEEP"] === undefined) rmSync(folder, { recursive: true, force: true });
    else cpSync(folder, join(process.env["SMOKE_KEEP"], world.name), { recursive: true, verbatimSymlinks: true });
  }
}

/** @param {readonly Row[]} rows */
function table(rows) {
  const lines = rows.map(({ world, version, outcome, sqlite, megabytes, detail }) => {
    const size = outcome === "ok" ? `${megabytes.toFixed(1)} MB` : "";
    return `| ${world.name} | ${version} | ${outcome === "ok" ? "works" : outcome} | ${sqlite} | ${size} | ${outcome === "ok" ? detail : ""} |`;
  });
  return ["| | version tested | | SQLite | `holdfast` installed | |", "|---|---|---|---|---|---|", ...lines].join("\n");
}

const MARKS = ["<!-- smoke -->", "<!-- end of smoke -->"];

/** @param {string} text */
function writePage(text) {
  const [before = "", rest = ""] = readFileSync(page, "utf8").split(MARKS[0] ?? "");
  const [, after = ""] = rest.split(MARKS[1] ?? "");
  writeFileSync(page, `${before}${MARKS[0]}\n${text}\n${MARKS[1]}${after}`);
}

async function main() {
  const given = process.argv.slice(2);
  const names = given.filter((one) => !one.startsWith("--")).map((one) => one.toLowerCase());
  const chosen = worlds.filter(({ name }) => names.length === 0 || names.some((one) => name.toLowerCase().includes(one)));
  console.log(`Packing the packages, for ${chosen.length} projects in ${place}`);
  const packed = await pack(["@holdfast/core", "@holdfast/host", "holdfast", "@holdfast/libsql"], place);
  /** @type {Row[]} */
  const rows = [];
  for (const world of chosen) {
    const start = performance.now();
    process.stdout.write(`${world.name.padEnd(20)} …`);
    const row = await visit(world, packed);
    rows.push(row);
    const seconds = ((performance.now() - start) / 1_000).toFixed(1);
    console.log(` ${row.outcome.padEnd(8)} ${row.version.padEnd(9)} ${seconds.padStart(6)} s  ${row.outcome === "ok" ? "" : row.detail}`);
  }
  console.log(`\n${table(rows)}`);
  const failed = rows.filter(({ outcome }) => outcome === "failed");
  if (given.includes("--write")) {
    if (names.length > 0 || failed.length > 0) stop("The page is written only if every project was tried, and none failed.");
    writePage(table(rows));
  }
  console.log(failed.length === 0 ? "smoke: ok" : `smoke: failed: ${failed.map(({ world }) => world.name).join(", ")}`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(place, { recursive: true, force: true });
}
