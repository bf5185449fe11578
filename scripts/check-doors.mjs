// Checks the imports of every file:
//   doors   a package is imported only through the `exports` of its package.json, and only by packages that are allowed to;
//           a relative import stays inside its package, and one from src stays inside src
//   folders imports between the folders of a package go one way (folders.mjs)
//   purity  the sources of core import only each other; those of host, except for its Node folder, import only core; neither uses a
//           clock, timers, randomness or I/O

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { parseSync, visitorKeys } from "oxc-parser";
import { roundTrips } from "./folders.mjs";
import { ambientUses } from "./purity.mjs";

/** What the sources of each package may import from this repository: all doors of a package, one door, or only types. */
const rooms = new Map([
  ["core", []],
  ["host", ["core"]],
  ["holdfast", ["core", "host"]],
  ["postgres", ["core", "holdfast/store"]],
  ["kv", ["core", "host"]],
  ["temporal", ["core", "host", "holdfast/backend"]],
  ["conformance", ["core", "host", "holdfast", "type kv"]], // its suite for drivers needs the type of a driver
  ["simulation", ["core", "host", "holdfast"]],
  ["otel", ["type holdfast"]],
  ["cli", ["core", "host", "holdfast", "postgres", "kv", "temporal", "conformance", "simulation", "create-holdfast"]],
  ["dashboard", ["type cli"]],
  ["create-holdfast", []],
  ["libsql", []],
  ["postgres-server", []],
  ["temporal-server", []],
]);

/** Sources that run in any runtime, and what they may import in addition to each other. */
const pureRooms = [
  { room: "core", sources: "packages/core/src/", except: undefined, imports: [] },
  { room: "host", sources: "packages/host/src/", except: "packages/host/src/node/", imports: ["@holdfast/core"] },
];
const pureTypeImports = ["@standard-schema/spec"];

/** Pure files that may use some globals, and why. */
const exceptions = new Map([
  // The barrier detects which scheduling functions its runtime has.
  ["packages/core/src/executor/barrier.ts", ["globalThis", "process", "setImmediate"]],
  // The environment provides hosts with their clock, timers and randomness.
  ["packages/host/src/environment.ts", ["globalThis", "Date.now", "Math.random"]],
  // In a runtime with a `process`, this file filters its unhandledRejection events.
  ["packages/host/src/unhandledRejections.ts", ["globalThis"]],
]);

/** @typedef {{ type: string, start: number, [key: string]: any }} Node */
/** @typedef {Map<string, { room: string, doors: string[] }>} Packages */

/**
 * All problems in the repository at `root`, as "file:line: problem".
 * @param {string} root
 */
export function checkDoors(root) {
  const packages = readPackages(root);
  /** @type {string[]} */
  const problems = [];
  /** @type {import("./folders.mjs").Import[]} */
  const inside = [];
  for (const file of ["packages", "bench", "examples", "scripts", "simulation", "soak"].flatMap((folder) =>
    sourceFiles(join(root, folder)),
  )) {
    const path = posix(relative(root, file));
    const text = readFileSync(file, "utf8");
    const { program, comments, errors } = parseSync(file, text, { preserveParens: false, range: true });
    const report = (/** @type {number} */ start, /** @type {string} */ what) =>
      problems.push(`${path}:${text.slice(0, start).split("\n").length}: ${what}`);

    if (errors[0]) {
      report(errors[0].labels[0]?.start ?? 0, errors[0].message);
      continue;
    }
    const pure = pureRooms.find(({ sources, except }) => path.startsWith(sources) && !(except !== undefined && path.startsWith(except)));
    for (const { specifier, typeOnly, start } of importsOf(program)) {
      if (specifier.startsWith(".")) inside.push({ from: path, to: posix(join(dirname(path), specifier)) });
      const problem = doorProblem(path, specifier, typeOnly, packages) ?? (pure && purityProblem(pure, path, specifier, typeOnly));
      if (problem) report(start, problem);
    }
    if (!pure) continue;
    const allowed = exceptions.get(path) ?? [];
    for (const { name, start } of ambientUses(program)) {
      if (!allowed.includes(name)) report(start, `${pure.room} is pure: it can't use ${name}`);
    }
    for (const { value, start } of comments) {
      if (/^\/\s*<reference/.test(value)) report(start, `${pure.room} is pure: it can't reference other types`);
    }
  }
  return problems.concat(roundTrips(inside));
}

/** @param {string} path */
const posix = (path) => path.split(sep).join("/");

/** @param {string} root */
function readPackages(root) {
  /** @type {Packages} */
  const packages = new Map();
  for (const room of readdirSync(join(root, "packages"))) {
    const path = join(root, "packages", room, "package.json");
    if (!existsSync(path)) continue;
    const { name, exports = {} } = JSON.parse(readFileSync(path, "utf8"));
    packages.set(name, { room, doors: Object.keys(exports) });
  }
  return packages;
}

/** @param {string} folder @returns {string[]} */
function sourceFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return ["node_modules", "dist"].includes(entry.name) ? [] : sourceFiles(path);
    return /\.[cm]?[jt]sx?$/.test(entry.name) ? [path] : [];
  });
}

/**
 * @param {string} path of the importing file, from the root
 * @param {string} specifier
 * @param {boolean} typeOnly
 * @param {Packages} packages
 */
function doorProblem(path, specifier, typeOnly, packages) {
  const [, room, folder] = /^packages\/([^/]+)\/([^/]+)/.exec(path) ?? [];
  if (/^(\/|file:)/.test(specifier)) return `"${specifier}" is absolute: import by relative path or by package name`;

  if (specifier.startsWith(".")) {
    const target = posix(join(dirname(path), specifier));
    if (room === undefined) {
      return target.startsWith("packages/") ? `"${specifier}" reaches into a package: import the package by its name` : undefined;
    }
    const home = folder === "src" ? `packages/${room}/src/` : `packages/${room}/`;
    return target.startsWith(home) ? undefined : `"${specifier}" leaves ${home}`;
  }

  const [, name = "", subpath = ""] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(specifier) ?? [];
  const target = packages.get(name);
  if (!target) return undefined;
  if (!target.doors.includes(`.${subpath}`)) return `"${specifier}" is not a door of ${name} (doors: ${target.doors.join(", ")})`;
  if (room === undefined || folder !== "src") return undefined;
  if (target.room === room) return `"${specifier}" is this package: import by relative path`;
  const may = rooms.get(room);
  if (!may) return `packages/${room} has no line in the table of rooms`;
  const door = `${target.room}${subpath}`;
  if (may.includes(target.room) || may.includes(door)) return undefined;
  if (may.includes(`type ${target.room}`)) return typeOnly ? undefined : `packages/${room} may import only types of ${name}`;
  const others = may.filter((other) => other.startsWith(`${target.room}/`)).map((other) => other.replace(target.room, name));
  return `packages/${room} may not import ${specifier}${others.length > 0 ? ` (only ${others.join(", ")})` : ""}`;
}

/** @param {typeof pureRooms[number]} pure @param {string} path @param {string} specifier @param {boolean} typeOnly */
function purityProblem({ room, except, imports }, path, specifier, typeOnly) {
  if (specifier.startsWith(".")) {
    const isImpure = except !== undefined && posix(join(dirname(path), specifier)).startsWith(except);
    return isImpure ? `${room} is pure: it can't import "${specifier}"` : undefined;
  }
  if (imports.some((name) => name === specifier)) return undefined;
  if (!pureTypeImports.includes(specifier)) return `${room} is pure: it can't import "${specifier}"`;
  return typeOnly ? undefined : `${room} is pure: it can import "${specifier}" only by \`import type\``;
}

/**
 * All imports of a module, in any syntax.
 * @param {Node} node
 * @returns {{ specifier: string, typeOnly: boolean, start: number }[]}
 */
function importsOf(node) {
  const children = (visitorKeys[node.type] ?? []).flatMap((key) => [node[key]].flat().filter(Boolean));
  const [source, typeOnly] = importedBy(node);
  const specifier = source ? textOf(source) : undefined;
  const own = specifier === undefined ? [] : [{ specifier, typeOnly, start: node.start }];
  return own.concat(children.flatMap(importsOf));
}

/** The text of a literal, also of a template without expressions. @param {Node} node @returns {string | undefined} */
function textOf(node) {
  if (typeof node["value"] === "string") return node["value"];
  return node.type === "TemplateLiteral" && node["quasis"].length === 1 ? node["quasis"][0].value.cooked : undefined;
}

/** @param {Node} node @returns {[source: Node | undefined, typeOnly: boolean]} */
function importedBy(node) {
  switch (node.type) {
    case "ImportDeclaration":
      return [node["source"], node["importKind"] === "type"];
    case "ExportNamedDeclaration":
    case "ExportAllDeclaration":
      return [node["source"], node["exportKind"] === "type"];
    case "ImportExpression":
      return [node["source"], false];
    case "TSImportType":
      return [node["source"], true];
    case "TSExternalModuleReference":
      return [node["expression"], false];
    case "CallExpression": {
      const { callee } = node;
      const isRequire = callee.type === "Identifier" && callee.name === "require";
      const isResolve = callee.type === "MemberExpression" && callee.object.type === "MetaProperty";
      return [isRequire || isResolve ? node["arguments"][0] : undefined, false];
    }
    default:
      return [undefined, false];
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const problems = checkDoors(resolve(import.meta.dirname, ".."));
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
