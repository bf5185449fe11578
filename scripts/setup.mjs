// What every entry point needs first: the installed dependencies and the built packages.
// It uses nothing but Node, because it runs on a fresh clone.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { withProgress } from "./progress.mjs";

export const root = resolve(import.meta.dirname, "..");

/** @param {string} path @returns {any} */
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

/** The packages of this repository: their folder and package.json. */
export function workspacePackages() {
  const folder = join(root, "packages");
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .filter((dir) => existsSync(join(dir, "package.json")))
    .map((dir) => ({ dir, manifest: readJson(join(dir, "package.json")) }));
}

/**
 * Runs a program. Its output goes to the terminal ("inherit") or into `output` ("pipe").
 * @param {string} command
 * @param {string[]} args
 * @param {{ stdio: "inherit" | "pipe", shell?: boolean, cwd?: string }} options
 * @returns {Promise<{ ok: boolean, output: string }>}
 */
export function run(command, args, { stdio, shell = false, cwd = root }) {
  return new Promise((done) => {
    let output = "";
    const child = spawn(command, args, { cwd, stdio: ["ignore", stdio, stdio], shell });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (chunk) => {
        output += chunk;
      });
    }
    child.on("error", (error) => done({ ok: false, output: `${output}${error}\n` }));
    child.on("close", (code) => done({ ok: code === 0, output }));
  });
}

/**
 * The arguments for Node that run a dependency's program, without a shell or npx.
 * @param {string} name the npm package
 * @param {string} program the name of its command
 */
export function programOf(name, program) {
  const dir = join(root, "node_modules", name);
  const { bin } = readJson(join(dir, "package.json"));
  return join(dir, typeof bin === "string" ? bin : bin[program]);
}

/** Whether node_modules matches package-lock.json. npm keeps a copy of the lockfile that it installed from. @param {string} folder */
function isInstalled(folder) {
  const installedPath = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(installedPath)) return false;
  const wanted = readJson(join(folder, "package-lock.json")).packages;
  const installed = readJson(installedPath).packages;
  for (const [path, entry] of Object.entries(wanted)) {
    if (!path.includes("node_modules/")) continue;
    const found = installed[path];
    if (!found) {
      if (entry.optional || entry.devOptional || entry.peer) continue;
      return false;
    }
    if (found.version !== entry.version || found.integrity !== entry.integrity || found.link !== entry.link) return false;
  }
  return Object.keys(installed).every((path) => path in wanted);
}

/** Installs the locked dependencies of a folder if some are missing or differ from the lockfile. */
export async function install(folder = root) {
  if (isInstalled(folder)) return { ok: true, output: "", skipped: true };
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const ci = () =>
    run(npm, ["ci", "--include=dev", "--no-fund", "--no-audit"], { stdio: "pipe", cwd: folder, shell: process.platform === "win32" });
  const result = await withProgress("Installing the dependencies", ci, installedSoFar(folder));
  return { ...result, skipped: false };
}

/** How many of the packages that the lockfile names for every platform are there. npm itself says nothing until it is done. @param {string} folder */
function installedSoFar(folder) {
  const wanted = Object.entries(readJson(join(folder, "package-lock.json")).packages)
    .filter(([path, entry]) => path.includes("node_modules/") && !entry.optional && !entry.devOptional && !entry.peer && !entry.link)
    .map(([path]) => join(folder, path, "package.json"));
  return () => `${wanted.filter((path) => existsSync(path)).length} of ${wanted.length} packages`;
}

/** Compiles all projects. This is also the type check, since the build emits only code that passes it. */
export async function build() {
  for (const { dir } of workspacePackages()) removeOrphans(join(dir, "src"), join(dir, "dist"));
  const compile = () => run(process.execPath, [programOf("typescript", "tsc"), "-b"], { stdio: "pipe" });
  const compiled = await withProgress("Compiling the packages", compile);
  return compiled.ok ? withProgress("Building the dashboard", buildPage) : compiled;
}

/** Builds the page of the console into packages/cli/dist/dashboard, unless it was built from the same sources. */
async function buildPage() {
  const sources = join(root, "packages", "dashboard");
  const built = join(root, "packages", "cli", "dist", "dashboard", "index.html");
  const record = join(root, ".cache", "dashboard.sha256");
  const hash = createHash("sha256");
  for (const path of ["index.html", "vite.config.ts", "package.json", ...filesIn(sources, "src"), ...filesIn(sources, "public")]) {
    hash
      .update(`${path}\0`)
      .update(readFileSync(join(sources, path)))
      .update("\0");
  }
  const digest = hash.update(readFileSync(join(root, "package-lock.json"))).digest("hex");
  if (existsSync(built) && existsSync(record) && readFileSync(record, "utf8") === digest) return { ok: true, output: "" };
  const result = await run(process.execPath, [programOf("vite", "vite"), "build", sources, "--logLevel", "warn"], { stdio: "pipe" });
  if (!result.ok) return result;
  mkdirSync(join(root, ".cache"), { recursive: true });
  writeFileSync(record, digest);
  return result;
}

/**
 * The files of a folder, in order, from its parent.
 * @param {string} parent
 * @param {string} folder
 */
function filesIn(parent, folder) {
  return readdirSync(join(parent, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(parent, join(entry.parentPath, entry.name)))
    .sort();
}

/**
 * Deletes compiled files whose source no longer exists: tsc leaves them, and they would be published.
 * @param {string} src
 * @param {string} dist
 */
function removeOrphans(src, dist) {
  if (!existsSync(dist)) return;
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const match = /^(.*?)(?:\.d\.ts|\.js)(?:\.map)?$/.exec(entry.name);
    if (!entry.isFile() || !match) continue;
    const folder = relative(dist, entry.parentPath);
    // The page is built by vite, from another package.
    if (folder.split(sep)[0] === "dashboard") continue;
    const source = join(src, folder, match[1] ?? "");
    if (![".ts", ".tsx"].some((extension) => existsSync(source + extension))) rmSync(join(entry.parentPath, entry.name));
  }
}
