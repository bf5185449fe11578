// What every entry point needs first: the installed dependencies and the built packages.
// It uses nothing but Node, because it runs on a fresh clone.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";

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
 * @param {{ stdio: "inherit" | "pipe", shell?: boolean }} options
 * @returns {Promise<{ ok: boolean, output: string }>}
 */
export function run(command, args, { stdio, shell = false }) {
  return new Promise((done) => {
    let output = "";
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", stdio, stdio], shell });
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

/** Whether node_modules matches package-lock.json. npm keeps a copy of the lockfile that it installed from. */
function isInstalled() {
  const installedPath = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installedPath)) return false;
  const wanted = readJson(join(root, "package-lock.json")).packages;
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

/** Installs the locked dependencies if some are missing or differ from the lockfile. */
export async function install() {
  if (isInstalled()) return { ok: true, output: "", skipped: true };
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  const result = await run(npm, ["ci", "--include=dev", "--no-fund", "--no-audit"], {
    stdio: "pipe",
    shell: process.platform === "win32",
  });
  return { ...result, skipped: false };
}

/** Compiles all projects. This is also the type check, since the build emits only code that passes it. */
export async function build() {
  for (const { dir } of workspacePackages()) removeOrphans(join(dir, "src"), join(dir, "dist"));
  return run(process.execPath, [programOf("typescript", "tsc"), "-b"], { stdio: "pipe" });
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
    const source = join(src, relative(dist, entry.parentPath), match[1] ?? "");
    if (![".ts", ".tsx"].some((extension) => existsSync(source + extension))) rmSync(join(entry.parentPath, entry.name));
  }
}
