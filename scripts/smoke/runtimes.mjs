// The runtimes of the smoke test, from the npm packages that carry their binaries.
// Owns: their folder, in the cache of the user.
// Invariants: a runtime that this machine can't get or can't start is a reason in words, not an error.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { runIn } from "../packed.mjs";

const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "holdfast", "smoke");
const platform = `${process.platform}-${process.arch}`;
const libc = process.platform === "linux" ? "-glibc" : "";

/** @typedef {{ path: string, version: string }} Runtime */

/** The package, and the binary in it. @type {Readonly<Record<string, [spec: string, binary: string]>>} */
const PACKAGES = {
  "node-20": [`node-${platform}@20`, "bin/node"],
  "node-22": [`node-${platform}@22`, "bin/node"],
  "node-24": [`node-${platform}@24`, "bin/node"],
  bun: [`@oven/bun-${platform === "linux-arm64" ? "linux-aarch64" : platform.replace("arm64", "aarch64")}@latest`, "bin/bun"],
  deno: [`@deno/${platform}${libc}@latest`, "deno"],
};

/** @type {Map<string, Promise<Runtime | string>>} */
const found = new Map();

/** The runtime of this name, or why there is none. @param {string} name @returns {Promise<Runtime | string>} */
export function runtime(name) {
  const known = found.get(name) ?? provide(name);
  found.set(name, known);
  return known;
}

/** @param {string} name @returns {Promise<Runtime | string>} */
async function provide(name) {
  const [spec, binary] = PACKAGES[name] ?? ["", ""];
  const folder = join(cache, name);
  const path = join(folder, "node_modules", spec.slice(0, spec.lastIndexOf("@")), binary);
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "package.json"), '{ "private": true }');
    const installed = await runIn("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", spec], { cwd: folder });
    if (installed.code !== 0 || !existsSync(path)) return `${spec} can't be installed: ${installed.stderr.trim().split("\n")[0] ?? ""}`;
  }
  const { code, stdout, stderr } = await runIn(path, ["--version"], { cwd: folder });
  const [version] = /\d+\.\d+\.\d+/.exec(stdout) ?? [];
  return code === 0 && version !== undefined ? { path, version } : `${path} can't be started: ${stderr.trim()}`;
}

/** The program of npm, so that any Node can run it. */
export async function npmProgram() {
  const { stdout } = await runIn("npm", ["root", "--global"], { cwd: cache.length > 0 ? homedir() : "." });
  const beside = resolve(dirname(process.execPath), "../lib/node_modules/npm/bin/npm-cli.js");
  return [join(stdout.trim(), "npm/bin/npm-cli.js"), beside].find((path) => existsSync(path)) ?? "";
}
