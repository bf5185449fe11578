// npm test [-- vitest arguments]: every check of the repository, one line each, and the tests last.
// The last line on stdout is always "tests: N passed, N failed, N skipped"; the exit code covers all phases.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { build, install, programOf, root, run, workspacePackages } from "./setup.mjs";

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

/** Whether what npm would publish can be imported, with its types, from outside. */
async function packaging() {
  const outcomes = [];
  for (const { dir, manifest } of workspacePackages()) {
    if (manifest.private) continue;
    outcomes.push(await tool("publint", "publint", "--strict", dir));
    outcomes.push(await tool("@arethetypeswrong/cli", "attw", "--pack", dir, "--profile", "esm-only"));
  }
  return { ok: outcomes.every(({ ok }) => ok), output: outcomes.map(({ output }) => output).join("") };
}

/** Runs vitest on the terminal, and counts what its JSON report says. */
async function tests() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const report = join(folder, "report.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const vitest = [programOf("vitest", "vitest"), "run", ...reporters, ...process.argv.slice(2)];
  const { ok } = await run(process.execPath, vitest, { stdio: "inherit" });
  const counts = countTests(report);
  // A run can fail with no test to blame: no report, an error outside of any test, no test found.
  if (!ok && counts.failed === 0) counts.failed = 1;
  rmSync(folder, { recursive: true });
  return { ok: ok && counts.failed === 0, counts };
}

/** @typedef {{ passed: number, failed: number, skipped: number, complaints: string[] }} Counts */

/** @param {string} report */
function countTests(report) {
  /** @type {Counts} */
  const counts = { passed: 0, failed: 0, skipped: 0, complaints: [] };
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
    // A file that can't be loaded, or whose hooks throw, has no failed test of its own.
    if (file.status === "failed" && failures === 0) failures = 1;
    counts.failed += failures;
  }
  return counts;
}

/** What failed, once more and short, below all else: seeds that reproduce it are in the first lines. */
const LINES = 6;
/** @param {string} file @param {string} test @param {string[]} messages */
function complaint(file, test, messages) {
  const [message = ""] = messages;
  const lines = message.split("\n").slice(0, LINES);
  return [`FAIL ${relative(root, file)} > ${test}`, ...lines.map((line) => `     ${line.slice(0, 1_500)}`)].join("\n");
}

/** @type {Counts} */
let counts = { passed: 0, failed: 0, skipped: 0, complaints: [] };

if (await phase("install", install)) {
  const built = await phase("typecheck", build);
  await phase("lint", () => tool("@biomejs/biome", "biome", "ci", "--error-on-warnings", "--colors=off"));
  await phase("doors", () => run(process.execPath, [join(root, "scripts", "check-doors.mjs")], { stdio: "pipe" }));
  await phase("knip", () => tool("knip", "knip", "--no-progress"));
  if (built) await phase("packaging", packaging);
  else console.log("     packaging    not checked: it needs the build");
  const start = performance.now();
  const result = await tests();
  counts = result.counts;
  if (!result.ok) failed.push("tests");
  console.log(`${result.ok ? "ok  " : "FAIL"} ${"tests".padEnd(12)} ${((performance.now() - start) / 1000).toFixed(1).padStart(6)} s`);
}

for (const one of counts.complaints) console.log(one);
if (failed.length > 0) console.log(`failed: ${failed.join(", ")}`);
console.log(`tests: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = failed.length > 0 ? 1 : 0;
