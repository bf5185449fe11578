// npm test [-- vitest arguments]: every check of the repository, one line each, then the tests.
// npm test -- --changed [commit]: the checks, and the tests that changes since that commit can break (default: the last commit).
// The last line on stdout is always "tests: N passed, N failed, N skipped"; the exit code covers all phases.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { buildSite } from "../site/build.mjs";
import { leaveOutBrowser, provideBrowser } from "./browser.mjs";
import { vitestFor } from "./changed.mjs";
import { build, install, programOf, root, run, workspacePackages } from "./setup.mjs";
import { findServer, isRequired, leaveOut, provideServer } from "./temporal.mjs";

/** @typedef {{ ok: boolean, output: string, skipped?: boolean }} Outcome */

/** @type {string[]} */
const failed = [];

/** @param {string} name @param {() => Promise<Outcome>} work */
async function phase(name, work) {
  const start = performance.now();
  const { ok, output, skipped } = await work();
  if (skipped) return true;
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (!ok) process.stdout.write(output.endsWith("\n") ? output : `${output}\n`);
  console.log(`${ok ? "ok  " : "FAIL"} ${name.padEnd(12)} ${seconds.padStart(6)} s`);
  if (!ok) failed.push(name);
  return ok;
}

/** @param {string} name @param {string} program @param {string[]} args */
const tool = (name, program, ...args) => run(process.execPath, [programOf(name, program), ...args], { stdio: "pipe" });

/** Checks that the published packages can be imported, with their types: one task per package and tool. */
function packaging() {
  return workspacePackages()
    .filter(({ manifest }) => !manifest.private)
    .flatMap(({ dir }) => [
      () => tool("publint", "publint", "--strict", dir),
      () => tool("@arethetypeswrong/cli", "attw", "--pack", dir, "--profile", "esm-only"),
    ]);
}

/**
 * Runs tasks in order, as many at a time as there are cores.
 * @param {(() => Promise<Outcome>)[]} pieces
 * @returns {Promise<Outcome>}
 */
async function each(pieces) {
  /** @type {Outcome[]} */
  const outcomes = [];
  const left = [...pieces.entries()];
  const next = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) outcomes[one[0]] = await one[1]();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, next));
  return { ok: outcomes.every(({ ok }) => ok), output: outcomes.map(({ output }) => output).join("") };
}

/**
 * Runs vitest on the terminal, and counts the results in its JSON report.
 * @param {string[]} args
 */
async function tests(args) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const report = join(folder, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const { ok } = await run(process.execPath, [programOf("vitest", "vitest"), ...args, ...reporters], { stdio: "inherit" });
  const counts = countTests(report);
  // A run can fail without a failed test: no report, an error outside of any test, no test found.
  if (!ok && counts.failed === 0) counts.failed = 1;
  rmSync(folder, { recursive: true });
  return { ok: ok && counts.failed === 0, counts };
}

/** @typedef {{ passed: number, failed: number, skipped: number, complaints: string[], seconds: [file: string, seconds: number][] }} Counts */

/** @returns {Counts} */
const none = () => ({ passed: 0, failed: 0, skipped: 0, complaints: [], seconds: [] });

/** @param {string} report */
function countTests(report) {
  const counts = none();
  let files;
  try {
    files = JSON.parse(readFileSync(report, "utf8")).testResults;
  } catch {
    return counts;
  }
  for (const file of files) {
    let failures = 0;
    for (const { status, fullName, failureMessages } of file.assertionResults) {
      if (status === "passed") counts.passed++;
      else if (status === "failed") {
        failures++;
        counts.complaints.push(complaint(file.name, fullName, failureMessages));
      } else counts.skipped++;
    }
    // A file that can't be loaded, or whose hooks throw, has no failed test.
    if (file.status === "failed" && failures === 0) failures = 1;
    counts.failed += failures;
    counts.seconds.push([relative(root, file.name), (file.endTime - file.startTime) / 1_000]);
  }
  return counts;
}

/** Failures are repeated at the end with this many lines: the seed that reproduces a failure is in the first lines. */
const LINES = 6;
/** @param {string} file @param {string} test @param {string[]} messages */
function complaint(file, test, messages) {
  // Of a test that timed out the report has only this as its message.
  const message = (messages[0] ?? "").replace("STACK_TRACE_ERROR", "The test took too long.");
  const lines = message.split("\n").slice(0, LINES);
  return [`FAIL ${relative(root, file)} > ${test}`, ...lines.map((line) => `     ${line.slice(0, 1_500)}`)].join("\n");
}

/** How many of the slowest files are listed. */
const SLOWEST = 20;
/** @param {Counts["seconds"]} seconds */
function slowest(seconds) {
  const rows = seconds.toSorted(([, a], [, b]) => b - a).slice(0, SLOWEST);
  return rows.map(([file, took]) => `${took.toFixed(1).padStart(8)} s  ${file}`).join("\n");
}

/** The arguments for vitest, its command first. @param {string[]} given */
async function vitestArguments(given) {
  const at = given.findIndex((one) => one === "--changed" || one.startsWith("--changed="));
  if (at < 0) return ["run", ...given];
  const [, equated] = given[at]?.split("=") ?? [];
  const isNext = equated === undefined && given[at + 1]?.startsWith("-") === false;
  const rest = given.toSpliced(at, isNext ? 2 : 1);
  return [...(await vitestFor(isNext ? given[at + 1] : equated)), ...rest];
}

/** The browser for the tests of the dashboard. Without one they are left out, with a line, or fail the run if every test is required. */
async function browser() {
  const found = await provideBrowser();
  if (found.ok || isRequired) return { ...found, skipped: found.ok };
  leaveOutBrowser();
  notRun += `Not run: the tests of the dashboard in a browser. ${found.output}`;
  return { ok: true, output: "", skipped: true };
}

let counts = none();
/** What was not run, and why. */
let notRun = "";

if (await phase("install", install)) {
  // Two heavy phases at a time use two cores well. The phase that needs the build comes last.
  const built = phase("typecheck", build);
  const server = await findServer();
  const isMissing = !server.ok && !isRequired;
  if (isMissing) {
    leaveOut();
    notRun = `Not run: the tests against a Temporal server. ${server.output}`;
  }
  await Promise.all([
    server.ok || isMissing ? true : phase("temporal", provideServer),
    phase("browser", browser),
    built,
    phase("lint", () => tool("@biomejs/biome", "biome", "ci", "--error-on-warnings", "--colors=off")).then(async () => {
      await phase("doors", () => run(process.execPath, [join(root, "scripts", "check-doors.mjs")], { stdio: "pipe" }));
      await phase("knip", () => tool("knip", "knip", "--no-progress"));
      // Under a path, as it may be served: a link that ignores it is broken.
      if (isRequired) await phase("site", () => buildSite("/some/path/"));
    }),
    built.then(async (ok) => {
      if (ok) await phase("packaging", () => each(packaging()));
      else console.log("     packaging    not checked: it needs the build");
    }),
  ]);
  const start = performance.now();
  const result = await tests(await vitestArguments(process.argv.slice(2)));
  counts = result.counts;
  if (!result.ok) failed.push("tests");
  if (counts.seconds.length > 0) console.log(`Slowest files:\n${slowest(counts.seconds)}`);
  console.log(`${result.ok ? "ok  " : "FAIL"} ${"tests".padEnd(12)} ${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s`);
}

for (const one of counts.complaints) console.log(one);
process.stdout.write(notRun);
if (failed.length > 0) console.log(`failed: ${failed.join(", ")}`);
console.log(`tests: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = failed.length > 0 ? 1 : 0;
