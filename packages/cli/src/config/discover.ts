// Finds the configuration file.
// Owns: its names, and how far up the search goes.
// Invariants: a file that was named must exist; a file above the repository is never used.

import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { UsageError } from "./errors.ts";

const NAMES = ["ts", "mts", "js", "mjs"].map((ending) => `holdfast.config.${ending}`);

export function isConfigName(name: string): boolean {
  return NAMES.includes(name);
}

/** The file that `--config` or HOLDFAST_CONFIG names, or the nearest one; undefined if there is none. */
export function findConfig(named: { flag: string | undefined; env: string | undefined }, cwd: string): string | undefined {
  for (const [source, path] of [["--config", named.flag] as const, ["HOLDFAST_CONFIG", named.env] as const]) {
    if (path === undefined || (source !== "--config" && path === "")) continue;
    const file = resolve(cwd, path);
    if (isFile(file)) return file;
    throw new UsageError(`${source} names "${path}", which is not a file (looked for ${file}).`);
  }
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const found = NAMES.map((name) => join(folder, name)).find(isFile);
    if (found !== undefined) return found;
    if (existsSync(join(folder, ".git")) || folder === dirname(folder)) return undefined;
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
