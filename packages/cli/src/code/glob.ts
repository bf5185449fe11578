// Globs: the files below a folder that a pattern names.
// Owns: the syntax: `*`, `?`, `**`, `[abc]`, and `{a,b}` by `expanded`.
// Invariants: node_modules and hidden folders are never searched, unless the pattern names them; the result is sorted.

import { existsSync, readdirSync, statSync } from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";

const WILD = /[*?[]/;

export interface Glob {
  /** Where the search begins: the part of the pattern before the first wildcard. */
  readonly folder: string;
  readonly isLiteral: boolean;
  matches(path: string): boolean;
  /** Absolute paths. */
  files(): string[];
}

export function globOf(pattern: string, root: string): Glob {
  const parts = pattern.split("/").filter((part) => part !== ".");
  const wild = parts.findIndex((part) => WILD.test(part));
  const fixed = wild < 0 ? parts : parts.slice(0, wild);
  const folder = isAbsolute(pattern) ? resolve(`/${fixed.join("/")}`) : resolve(root, ...fixed);
  if (wild < 0) {
    return {
      folder,
      isLiteral: true,
      matches: (path) => path === folder,
      files: () => (statSync(folder, { throwIfNoEntry: false })?.isFile() === true ? [folder] : []),
    };
  }
  const rest = parts.slice(wild);
  const expression = new RegExp(`^${rest.map((part, i) => segment(part, i === rest.length - 1)).join("")}$`, "su");
  const matches = (path: string): boolean => {
    const inside = relative(folder, path).split(sep).join("/");
    return !inside.startsWith("../") && expression.test(inside);
  };
  const deepest = rest.includes("**") ? Number.POSITIVE_INFINITY : rest.length;
  const isHidden = rest.some((part) => part.startsWith("."));
  return { folder, isLiteral: false, matches, files: () => walk(folder, deepest, isHidden).filter(matches).sort() };
}

function segment(part: string, isLast: boolean): string {
  if (part === "**") return isLast ? ".*" : "(?:[^/]+/)*";
  const body = part.replace(/\[[^\]]+\]|[\s\S]/gu, (token) => {
    if (token.length > 1 && token.startsWith("["))
      return token
        .replace(/^\[!/, "[^")
        .replaceAll("\\", "\\\\")
        .replace(/(?<=.)\[/g, "\\[");
    if (token === "*") return "[^/]*";
    if (token === "?") return "[^/]";
    return token.replace(/[\\^$.|?*+()[\]{}/]/g, "\\$&");
  });
  return `${body}${isLast ? "" : "/"}`;
}

/** Patterns without braces: "{a,b}/*.ts" is "a/*.ts" and "b/*.ts". */
export function expanded(pattern: string): string[] {
  const [, before, list, after] = /^(.*?)\{([^{}]*,[^{}]*)\}(.*)$/s.exec(pattern) ?? [];
  if (list === undefined) return [pattern];
  return list.split(",").flatMap((one) => expanded(`${before}${one}${after}`));
}

function walk(folder: string, depth: number, isHidden: boolean): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.name === "node_modules" || (!isHidden && entry.name.startsWith("."))) return [];
    const stat = entry.isSymbolicLink() ? statSync(path, { throwIfNoEntry: false }) : entry;
    if (stat?.isDirectory() === true) return depth > 1 && !entry.isSymbolicLink() ? walk(path, depth - 1, isHidden) : [];
    return stat?.isFile() === true ? [path] : [];
  });
}

/** All folders below a folder that globs search. */
export function subfolders(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (!entry.isDirectory() || entry.name === "node_modules" || entry.name.startsWith(".")) return [];
    const path = join(folder, entry.name);
    return [path, ...subfolders(path)];
  });
}
