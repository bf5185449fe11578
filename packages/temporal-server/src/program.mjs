// Finds the program `temporal`, whose `server start-dev` is the server that tests run on; builds it where Go is installed.
// Owns: the version that is built; the folder that it is kept in.
// Invariants: the kept program is complete, since it is renamed into its place; of several processes that need it, one builds it.

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { availableParallelism, homedir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

/**
 * @typedef {{ program: string, missing?: undefined } | { program?: undefined, missing: string }} Found `missing` is one line: what there
 *   is not, and how to get it
 * @typedef {(line: string) => void} Say
 */

/** The last release that `go install` accepts: later ones have `replace` lines in their go.mod. */
const VERSION = "1.5.1";
const MODULE = `github.com/temporalio/cli/cmd/temporal@v${VERSION}`;
const OLDEST_GO = [1, 25];
const PROGRAM = process.platform === "win32" ? "temporal.exe" : "temporal";

/** How often the builder says that it still works, and touches its lock. */
const SAY_EVERY = 10_000;
/** A lock that was not touched for so long belongs to a process that has died. */
const STALE_AFTER = 60_000;
/** What a build that was killed left behind is removed when it is this old. */
const LEFTOVER_AFTER = 3_600_000;

const INSTEAD = "or install the Temporal CLI (https://docs.temporal.io/cli), or name a server: TEMPORAL_ADDRESS=host:7233";

const folder = () => join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "holdfast", "temporal", VERSION);
const kept = () => join(folder(), PROGRAM);

/** What can be run now, without building. @returns {Found} */
export function findProgram() {
  const places = (process.env["PATH"] ?? "").split(delimiter).filter((place) => place !== "");
  const program = [...places.map((place) => join(place, PROGRAM)), kept()].find(isProgram);
  if (program !== undefined) return { program };
  return {
    missing: `There is no Temporal server: "npm run test:temporal" builds one, which needs Go ${OLDEST_GO.join(".")} or later; ${INSTEAD}.`,
  };
}

/** What can be run now, or is built for it; that takes minutes. @param {Say} say @returns {Promise<Found>} */
export async function provideProgram(say) {
  const found = findProgram();
  if (found.program !== undefined) return found;
  const unfit = await unfitGo();
  if (unfit !== undefined) return { missing: `There is no Temporal server, and ${unfit}: install Go from https://go.dev/dl, ${INSTEAD}.` };
  mkdirSync(folder(), { recursive: true });
  for (let waits = 0; !isProgram(kept()); waits++) {
    if (lock()) return build(say);
    if (waits % (SAY_EVERY / 1_000) === 0) say(`Another process builds the Temporal server: waiting for ${kept()}.`);
    await pause(1_000);
  }
  return { program: kept() };
}

/** @param {Say} say @returns {Promise<Found>} */
async function build(say) {
  const start = Date.now();
  const elapsed = () => `${Math.round((Date.now() - start) / 1_000)} s`;
  const bin = join(folder(), `building-${randomBytes(4).toString("hex")}`);
  removeLeftovers();
  mkdirSync(bin);
  say(`Building the Temporal server for the tests: go install ${MODULE}. Once on this machine, about 7 minutes of processor time.`);
  const timer = setInterval(() => {
    touchLock();
    say(`Building the Temporal server: ${elapsed()}.`);
  }, SAY_EVERY);
  try {
    const failure = await goInstall(bin);
    if (failure !== undefined) return { missing: `The Temporal server could not be built, "go install ${MODULE}" says: ${failure}` };
    renameSync(join(bin, PROGRAM), kept());
    say(`Built the Temporal server in ${elapsed()}: ${kept()}`);
    return { program: kept() };
  } finally {
    clearInterval(timer);
    rmSync(bin, { recursive: true, force: true });
    rmSync(lockPath(), { force: true });
  }
}

/** @param {string} bin @returns {Promise<string | undefined>} why it failed */
function goInstall(bin) {
  const env = { ...process.env, GOBIN: bin, GOFLAGS: `-p=${availableParallelism()}` };
  const child = spawn("go", ["install", MODULE], { env, stdio: ["ignore", "ignore", "pipe"] });
  const end = () => child.kill();
  process.once("exit", end);
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => {
    said = (said + chunk).slice(-2_000);
  });
  return new Promise((resolve) => {
    const done = (/** @type {string | undefined} */ failure) => {
      process.removeListener("exit", end);
      resolve(failure);
    };
    child.once("error", (error) => done(error.message));
    child.once("close", (code, signal) =>
      done(code === 0 ? undefined : said.trim().split("\n").at(-1) || `it ended with ${code ?? signal}`),
    );
  });
}

/** Why Go can't build it. @returns {Promise<string | undefined>} */
function unfitGo() {
  return new Promise((resolve) => {
    execFile("go", ["env", "GOVERSION"], (error, said) => {
      const version = said.trim();
      const [, major = 0, minor = 0] = (/^go(\d+)\.(\d+)/.exec(version) ?? []).map(Number);
      const [wantedMajor = 0, wantedMinor = 0] = OLDEST_GO;
      if (error !== null) resolve(`there is no Go ${OLDEST_GO.join(".")} to build it with`);
      else if (major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)) resolve(undefined);
      else resolve(`${version} is too old to build it: it takes ${OLDEST_GO.join(".")}`);
    });
  });
}

// ── the lock: it saves a second build, and no more: each builder has a folder of its own ──

const lockPath = () => join(folder(), "building.lock");

function lock() {
  try {
    if (Date.now() - statSync(lockPath()).mtimeMs > STALE_AFTER) rmSync(lockPath(), { force: true });
  } catch {
    // There is no lock.
  }
  try {
    writeFileSync(lockPath(), String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  }
}
function touchLock() {
  try {
    utimesSync(lockPath(), new Date(), new Date());
  } catch {
    // Another process took it for stale: this one was suspended. Both builds are good.
  }
}
function removeLeftovers() {
  for (const name of readdirSync(folder()).filter((one) => one.startsWith("building-"))) {
    const path = join(folder(), name);
    if (Date.now() - statSync(path).mtimeMs > LEFTOVER_AFTER) rmSync(path, { recursive: true, force: true });
  }
}

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
