// What `npm install` of a package of this repository would put on a disk, without installing it.
// Owns: which dependencies npm chooses for a platform.
// Invariants: packages of this repository count as they are packed, others as they are installed here.

import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root, workspacePackages } from "./setup.mjs";

/**
 * What an installation of `holdfast` may take where Node's own SQLite is used, in megabytes. If more is worth it, raise the limit, and say in the
 * commit what for.
 */
export const LIMIT = 7.5;

/** @typedef {{ node: string, os: string, cpu: string, libc: string }} Platform */

/**
 * The bytes of a package and everything that it depends on.
 * @param {string} name
 * @param {Platform} platform
 * @param {readonly import("./packed.mjs").Packed[]} packed
 * @returns {Map<string, number>}
 */
export function installedSizes(name, platform, packed) {
  /** @type {Map<string, number>} */
  const sizes = new Map();
  const own = new Map(workspacePackages().map(({ dir, manifest }) => [manifest.name, dir]));
  /** @param {string} wanted @param {string} from @param {boolean} isOptional */
  const visit = (wanted, from, isOptional) => {
    const dir = own.get(wanted) ?? installedAt(wanted, from);
    if (dir === undefined) {
      // Built for another platform than this one.
      if (isOptional) return;
      throw new Error(`${wanted} is not installed.`);
    }
    if (sizes.has(dir)) return;
    const manifest = JSON.parse(readFileSync(join(dir, "package.json"), "utf8"));
    if (isOptional && !fits(manifest, platform)) return;
    sizes.set(dir, packed.find((one) => one.name === wanted)?.unpackedSize ?? folderSize(dir));
    for (const one of Object.keys(manifest.dependencies ?? {})) visit(one, dir, isOptional);
    for (const one of Object.keys(manifest.optionalDependencies ?? {})) visit(one, dir, true);
  };
  visit(name, root, false);
  return new Map([...sizes].map(([dir, size]) => [dir.slice(root.length + 1), size]));
}

/** Where Node finds a package. @param {string} name @param {string} from @returns {string | undefined} */
function installedAt(name, from) {
  const dir = join(from, "node_modules", name);
  if (existsSync(join(dir, "package.json"))) return dir;
  return from === root || from === dirname(from) ? undefined : installedAt(name, dirname(from));
}

/**
 * Whether npm installs an optional dependency.
 * @param {{ engines?: { node?: string }, os?: string[], cpu?: string[], libc?: string[] }} manifest
 * @param {Platform} platform
 */
function fits({ engines, os, cpu, libc }, platform) {
  const has = (/** @type {string[] | undefined} */ list, /** @type {string} */ one) => list === undefined || list.includes(one);
  return has(os, platform.os) && has(cpu, platform.cpu) && has(libc, platform.libc) && satisfies(platform.node, engines?.node ?? "*");
}

/** Ranges as packages of this repository and libsql write them: comparisons, `||` and `*`. @param {string} version @param {string} range */
export function satisfies(version, range) {
  const holds = (/** @type {string} */ comparison) => {
    if (comparison === "*") return true;
    const [, how, given = ""] = /^(>=|<)?\s*([\d.]+)$/.exec(comparison) ?? [];
    if (how === undefined) throw new Error(`The range ${range} is not understood.`);
    const order = compared(version, given);
    return how === ">=" ? order >= 0 : order < 0;
  };
  return range.split("||").some((part) =>
    part
      .trim()
      .replaceAll(/(>=|<)\s+/g, "$1")
      .split(/\s+/)
      .every(holds),
  );
}

/** @param {string} a @param {string} b */
function compared(a, b) {
  const [as, bs] = [a, b].map((text) => text.split(".").map(Number));
  for (const i of [0, 1, 2]) {
    const difference = (as?.[i] ?? 0) - (bs?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The bytes in the files of a package, without the packages inside it. @param {string} dir @returns {number} */
export function folderSize(dir) {
  let size = 0;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory() && entry.name !== "node_modules") size += folderSize(path);
    else if (entry.isFile()) size += lstatSync(path).size;
  }
  return size;
}
