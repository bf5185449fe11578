// Finds the tests that a change can break: those that import a changed file, and those that use it without importing it.
// Owns: the rules for files that are not imported: programs of child processes, pages, fixtures, settings.
// Invariants: a file that no rule covers runs every test.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { root, run } from "./setup.mjs";

/** Test code that starts another process, bundles, or imports a computed path: vitest can't see what it depends on. */
const RUNS_UNSEEN_CODE =
  /\b(spawn|spawnSync|fork|execFile|execFileSync)\(|new Worker\(|import\(`|import\(pathToFileURL|\/(built|bundled)\.ts"/;
/** Tests that read pages, sources and test titles of the whole repository. */
const READS_ALL = /^(scripts|simulation)\/.*\.test\.mjs$|\/docs\.test\.ts$/;

/** Files that every test uses through the setup of vitest. */
const USED_BY_ALL = /^packages\/((postgres|temporal)-server\/src\/|core\/test\/seeds\.ts$)/;
const CODE = /^(packages\/[^/]+\/(src|test)|scripts|site)\/.*\.(ts|mjs)$/;
const PROGRAM = /^(examples|soak|simulation)\//;
const PAGE = /\.md$/;
const FIXTURE = /^(packages\/[^/]+\/test)\//;
/** Files that no test depends on. */
const WITHOUT_TESTS =
  /^(bench|\.ci|site\/\.vitepress)\/|^site\/(package|package-lock)\.json$|^(LICENSE|\.gitignore|biome\.json|knip\.json)$|\/LICENSE$/;

/**
 * @param {readonly string[]} changed paths from the root
 * @param {readonly { path: string, text: string }[]} tests
 * @returns {string[] | undefined} the files whose tests have to run; undefined if every test has to
 */
export function affected(changed, tests) {
  const unseen = (folder = "") =>
    tests.filter(({ path, text }) => path.startsWith(folder) && RUNS_UNSEEN_CODE.test(text)).map(({ path }) => path);
  /** @type {Set<string>} */
  const files = new Set();
  for (const path of changed) {
    const [, fixtures] = FIXTURE.exec(path) ?? [];
    if (WITHOUT_TESTS.test(path) || PAGE.test(path)) continue;
    if (USED_BY_ALL.test(path)) return undefined;
    // Test code is run by tests of its package alone.
    if (CODE.test(path) || PROGRAM.test(path)) for (const one of [path, ...unseen(fixtures)]) files.add(one);
    // A fixture or a program that tests read or start: no test imports it.
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
  // Without a filter vitest would run everything.
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
  return ["packages", "examples", "scripts", "simulation"]
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((path) => join(root, folder, path)))
    .filter((path) => /\.test\.(ts|mjs)$/.test(path) && !path.includes("node_modules"))
    .map((path) => ({ path: relative(root, path).replaceAll("\\", "/"), text: readFileSync(path, "utf8") }));
}
