// Which tests a change can break: those that import a changed file, and those whose dependencies no import shows.
// Owns: the rules for files that are not imported: programs of child processes, pages, fixtures, settings.
// Invariants: a file that no rule knows runs everything.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { root, run } from "./setup.mjs";

/** Started as another process, bundled, or imported by a computed path: code that vitest does not see. */
const RUNS_UNSEEN_CODE =
  /\b(spawn|spawnSync|fork|execFile|execFileSync)\(|new Worker\(|import\(`|import\(pathToFileURL|\/(built|bundled)\.ts"/;
/** What reads pages, sources and the titles of tests, of the whole repository. */
const READS_ALL = /^(scripts|simulation)\/.*\.test\.mjs$|\/docs\.test\.ts$/;

/** Every test file uses it, by way of vitest. */
const USED_BY_ALL = /^packages\/(postgres-server\/src\/|core\/test\/seeds\.ts$)/;
const CODE = /^(packages\/[^/]+\/(src|test)|scripts)\/.*\.(ts|mjs)$/;
const PROGRAM = /^(examples|soak|simulation)\//;
const PAGE = /\.md$/;
const FIXTURE = /^(packages\/[^/]+\/test)\//;
/** No test can tell. */
const WITHOUT_TESTS = /^(bench|\.ci)\/|^(LICENSE|\.gitignore|biome\.json|knip\.json)$|\/LICENSE$/;

/**
 * @param {readonly string[]} changed paths from the root
 * @param {readonly { path: string, text: string }[]} tests
 * @returns {string[] | undefined} files to look for tests of; undefined: every test has to run
 */
export function affected(changed, tests) {
  const unseen = () => tests.filter(({ text }) => RUNS_UNSEEN_CODE.test(text)).map(({ path }) => path);
  /** @type {Set<string>} */
  const files = new Set();
  for (const path of changed) {
    const [, fixtures] = FIXTURE.exec(path) ?? [];
    if (WITHOUT_TESTS.test(path) || PAGE.test(path)) continue;
    if (USED_BY_ALL.test(path)) return undefined;
    if (CODE.test(path) || PROGRAM.test(path)) for (const one of [path, ...unseen()]) files.add(one);
    // One that is read, or a program: no import leads to it.
    if (fixtures !== undefined && !path.endsWith(".ts")) {
      for (const test of tests) if (test.path.startsWith(`${fixtures}/`)) files.add(test.path);
    } else if (!CODE.test(path) && !PROGRAM.test(path)) return undefined;
  }
  if (changed.length > 0) for (const { path } of tests) if (READS_ALL.test(path)) files.add(path);
  return [...files];
}

/**
 * The arguments for vitest, its command first.
 * @param {string | undefined} since a commit; undefined: the last one
 */
export async function vitestFor(since) {
  const files = affected([...(await changedSince(since ?? "HEAD"))], testFiles());
  if (files === undefined) return ["run"];
  // With nothing to look for, vitest would run everything.
  return files.length === 0 ? ["run", "--passWithNoTests", "no-test-is-affected"] : ["related", "--run", "--passWithNoTests", ...files];
}

/** @param {string} commit */
async function changedSince(commit) {
  /** @type {Set<string>} */
  const paths = new Set();
  for (const args of [
    ["diff", "-z", "--name-only", "--no-renames", commit, "--"],
    ["ls-files", "-z", "--others", "--exclude-standard"],
  ]) {
    const { ok, output } = await run("git", args, { stdio: "pipe" });
    if (!ok) throw new Error(`git ${args.join(" ")}: ${output}`);
    for (const path of output.split("\0")) if (path !== "") paths.add(path);
  }
  return paths;
}

function testFiles() {
  return ["packages", "scripts", "simulation"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => join(root, folder, path)))
    .filter((path) => /\.test\.(ts|mjs)$/.test(path) && !path.includes("node_modules"))
    .map((path) => ({ path: relative(root, path).replaceAll("\\", "/"), text: readFileSync(path, "utf8") }));
}
