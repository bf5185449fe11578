// node scripts/semantics.mjs: generates docs/proofs.md, which lists for each rule of docs/semantics.md the test files with the rule's id
// in a title. The rules themselves are written by hand, in docs/semantics.md.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { parseSync, visitorKeys } from "oxc-parser";

/** @typedef {{ type: string, start: number, [key: string]: any }} Node */

export const rulesPage = "docs/semantics.md";
export const proofsPage = "docs/proofs.md";

/** Groups of rules about the core: each rule needs a test in the core, unless only a host can implement it. */
const coreGroups = "PMRANCLKVXYS";

/** Rules of those groups that only a host can implement, and why. */
export const hostRules = new Map([
  ["P11", "hosts store the status of a run; the core only ends executions"],
  ["M1", "hosts send, acknowledge and validate messages"],
  ["M12", "only the store knows which runs exist and which are closed"],
  ["K5", "it is about writes of a worker with an old epoch"],
  ["K6", "it is about other runs, and about ending a run without its code"],
  ["K9", "a run without a first turn has no executor yet"],
]);

// ── titles ──

const testFunctions = new Set(["describe", "test", "it", "suite"]);

/**
 * The titles of the tests in a file. If a title begins with a computed part (`${rule} …`, `%s` of a table), all strings of the file that
 * begin with a rule's id count as titles. Skipped tests don't count.
 * @param {string} path
 * @param {string} text
 */
export function titlesIn(path, text) {
  const { program, errors } = parseSync(path, text);
  if (errors[0]) throw new SyntaxError(`${path}: ${errors[0].message}`);
  /** @type {string[]} */
  const titles = [];
  /** @type {string[]} */
  const texts = [];
  let computed = false;
  const visit = (/** @type {Node} */ node) => {
    const own = textOf(node);
    if (own !== undefined && startsWithRule(own)) texts.push(own);
    if (node.type === "CallExpression") {
      const names = calleeNames(node["callee"]);
      const skipped = names.includes("skip") || names.includes("todo");
      const title = textOf(node["arguments"][0]);
      if (testFunctions.has(names[0] ?? "") && skipped) return;
      if (title !== undefined && testFunctions.has(names[0] ?? "")) {
        titles.push(title);
        computed ||= /^(%|\$)/.test(title);
      } else if (title !== undefined && startsWithRule(title) && isFunction(node["arguments"].at(-1))) {
        titles.push(title); // a test function that the file defines itself
      }
    }
    for (const key of visitorKeys[node.type] ?? []) {
      for (const child of [node[key]].flat()) if (child) visit(child);
    }
  };
  visit(/** @type {any} */ (program));
  return computed ? [...titles, ...texts] : titles;
}

/** The text of a string or template; computed parts become `$`. @param {Node | undefined} node @returns {string | undefined} */
function textOf(node) {
  if (node?.type === "Literal" && typeof node["value"] === "string") return node["value"];
  if (node?.type === "TemplateLiteral") return node["quasis"].map((/** @type {Node} */ part) => part["value"].cooked).join("$");
  if (node?.type === "BinaryExpression" && node["operator"] === "+") {
    return `${textOf(node["left"]) ?? "$"}${textOf(node["right"]) ?? "$"}`;
  }
  return undefined;
}

/** The names in a callee: `it.each(table)` gives "it", "each". @param {Node} callee @returns {string[]} */
function calleeNames(callee) {
  if (callee.type === "Identifier") return [callee["name"]];
  if (callee.type === "MemberExpression") return [...calleeNames(callee["object"]), callee["property"].name ?? ""];
  if (callee.type === "CallExpression") return calleeNames(callee["callee"]);
  if (callee.type === "TaggedTemplateExpression") return calleeNames(callee["tag"]);
  if (callee.type === "TSInstantiationExpression") return calleeNames(callee["expression"]);
  return [""];
}

/** @param {Node | undefined} node */
const isFunction = (node) => node?.type === "ArrowFunctionExpression" || node?.type === "FunctionExpression";

/** @param {string} text */
const startsWithRule = (text) => /^(N|[A-Z]\d{1,2})(?=[\s,:–-]|$)/.test(text);

/** The ids of the rules in a title: `M4 M5 …`, `L1–L4 …`, `… (Y6)`. N has no number and counts only at the beginning. @param {string} title */
export function idsIn(title) {
  const ids = new Set(/^N(?=[\s,:])/.test(title) ? ["N"] : []);
  for (const [, group = "", from = "", until = from] of title.matchAll(/\b([A-Z])(\d{1,2})(?:[–-]\1(\d{1,2}))?\b/g)) {
    for (let number = Number(from); number <= Number(until); number++) ids.add(`${group}${number}`);
  }
  return [...ids];
}

// ── tests ──

/** The test files of all packages, conformance suites included, from the root. @param {string} root */
export function testFiles(root) {
  const packages = join(root, "packages");
  return readdirSync(packages)
    .flatMap((name) => [...filesIn(join(packages, name, "test")), ...filesIn(join(packages, name, "src"))])
    .map((path) => relative(root, path).split(sep).join("/"))
    .filter((path) => /^packages\/[^/]+\/test\/.*\.test\.ts$/.test(path) || /conformance[^/]*(\/[^/]*)?\.ts$/i.test(path))
    .sort();
}

/** @param {string} folder @returns {string[]} */
function filesIn(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** A file that proves a rule, by its behaviour or only by types. @typedef {{ path: string, typesOnly: boolean }} Proof */
/** Proofs by the id of their rule. @typedef {Map<string, Proof[]>} Proofs */

/** @param {string} root @returns {Proofs} */
export function proofsIn(root) {
  /** @type {Proofs} */
  const proofs = new Map();
  for (const path of testFiles(root)) {
    const titles = titlesIn(path, readFileSync(join(root, path), "utf8"));
    const behaviour = new Set(titles.filter((title) => !title.includes("at compile time")).flatMap(idsIn));
    for (const id of new Set(titles.flatMap(idsIn))) {
      proofs.set(id, [...(proofs.get(id) ?? []), { path, typesOnly: !behaviour.has(id) }]);
    }
  }
  return proofs;
}

// ── the pages ──

/** The ids of the rules on the page, in order. @param {string} text */
export function rulesOn(text) {
  return text.split("\n").flatMap((line) => {
    const [, rule] = /^- ([A-Z]\d+) /.exec(line) ?? [];
    return rule ?? (line === "## N. Nesting" ? "N" : []);
  });
}

/** The rules, of the core and of hosts, that no test of behaviour proves. @param {string} text @param {Proofs} proofs */
export function unprovenOn(text, proofs) {
  const isProven = (/** @type {string} */ id) => proofs.get(id)?.some(({ typesOnly }) => !typesOnly) ?? false;
  return rulesOn(text).filter((id) => !isProven(id));
}

/** Rules of the core that only tests of hosts prove. @param {string} text @param {Proofs} proofs */
export function unprovenInCore(text, proofs) {
  const isProven = (/** @type {string} */ id) =>
    proofs.get(id)?.some(({ path, typesOnly }) => !typesOnly && path.startsWith("packages/core/")) ?? false;
  return rulesOn(text).filter((id) => coreGroups.includes(id.charAt(0)) && !hostRules.has(id) && !isProven(id));
}

const introduction = `# Rules and their tests

Every rule of the [contract](semantics.md) with the test files that prove it: a test carries the rule's id in its title. "(types)" marks a file that only checks what the types say. \`npm run docs\` writes this page; a test fails when the page is out of date or when a rule has no test.
`;

const coreIntroduction = `## Temporal's Core

What the constructs of the model are on [a Temporal cluster](temporal.md): the commands that Core is sent, and the jobs that it returns. The title of each test says it.
`;
/** Titles of tests about Temporal's Core begin with this. */
const CORE = "Core: ";

/** The tests about Temporal's Core: their titles, by file. @param {string} root */
export function coreTestsIn(root) {
  return testFiles(root).flatMap((path) =>
    titlesIn(path, readFileSync(join(root, path), "utf8")).flatMap((title) => (title.startsWith(CORE) ? { path, title } : [])),
  );
}

/**
 * Generates the page of proofs.
 * @param {string} text the page of rules
 * @param {Proofs} proofs
 * @param {{ path: string, title: string }[]} coreTests
 */
export function proofsPageOf(text, proofs, coreTests) {
  const lines = [introduction];
  for (const line of text.split("\n")) {
    const [, rule] = /^- ([A-Z]\d+) /.exec(line) ?? [];
    const isGroup = /^## [A-Z]\. /.test(line);
    if (isGroup) lines.push(line, "");
    if (rule !== undefined) lines.push(`- **${rule}**: ${linksTo(rule, proofs)}`);
    else if (line === "## N. Nesting") lines.push(`- **N**: ${linksTo("N", proofs)}`);
    else if (line === "" && lines.at(-1)?.startsWith("- **")) lines.push("");
  }
  if (lines.at(-1) !== "") lines.push("");
  if (coreTests.length > 0) {
    lines.push(coreIntroduction);
    for (const { path, title } of coreTests)
      lines.push(`- ${title.slice(CORE.length)}: [${path.replace(/^packages\/|(test|src)\//g, "")}](../${path})`);
    lines.push("");
  }
  return lines.join("\n");
}

/** @param {string} id @param {Proofs} proofs */
function linksTo(id, proofs) {
  const files = proofs.get(id) ?? [];
  if (files.length === 0) return "(no test)";
  return files
    .map(({ path, typesOnly }) => `[${path.replace(/^packages\/|(test|src)\//g, "")}](../${path})${typesOnly ? " (types)" : ""}`)
    .join(", ");
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const root = resolve(import.meta.dirname, "..");
  const text = readFileSync(join(root, rulesPage), "utf8");
  const proofs = proofsIn(root);
  writeFileSync(join(root, proofsPage), proofsPageOf(text, proofs, coreTestsIn(root)));
  const unproven = unprovenOn(text, proofs);
  if (unproven.length > 0) console.error(`rules without a test: ${unproven.join(", ")}`);
}
