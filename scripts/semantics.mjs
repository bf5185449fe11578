// node scripts/semantics.mjs: keeps docs/semantics.md true. Under each rule of the contract it writes a line that names the test
// files whose titles carry the rule's id, and what of the rule no test can prove before there is a host.
// The text of the rules is that page's own: this script only writes the lines beneath them.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { parseSync, visitorKeys } from "oxc-parser";

/** @typedef {{ type: string, start: number, [key: string]: any }} Node */

export const page = "docs/semantics.md";

/** Groups whose rules are about the core: each of them needs a test today, unless it is a host's affair. */
const coreGroups = "PMRANCLKVXYS";

/** Rules that are a host's affair altogether, and why. The core may have tests of what it contributes; it needs none. */
export const hostRules = new Map([
  ["P11", "statuses are what a host keeps of a run; the core only ends executions"],
  ["M1", "sending, acknowledging and the check at the sender"],
  ["M12", "which runs exist and which are closed, the store knows"],
  ["K5", "it is about what an older worker still writes: epochs"],
  ["K6", "policies of other runs, and ending a run without its code"],
  ["K9", "a run without a first turn has no executor yet"],
  ...["D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8", "D9", "D10", "D11", "D12"].map(hostAffair("stores and effects")),
  ...["W1", "W2", "W3", "W4", "W5", "W6"].map(hostAffair("workers")),
  ...["H1", "H2", "H3", "H4", "H5"].map(hostAffair("the KV host")),
]);

/** @param {string} what @returns {(id: string) => [string, string]} */
function hostAffair(what) {
  return (id) => [id, what];
}

/** The parts of other rules that only a host can keep. The rest of each is the core's, and needs a test. */
export const hostParts = new Map([
  ["P1", "`terminated`, which no workflow code brings about"],
  ["P5", "that readers see it with the commit"],
  ["P7", "the time that a turn is given"],
  ["P8", "values that SQL can query; a step whose result can't be encoded"],
  ["P9", "the size of what steps return and senders send"],
  ["P10", "the chain, `restart-if-closed`, and what is addressed to the newest execution"],
  ["M3", "`idempotencyKey`"],
  ["M7", "that a turn is one commit"],
  ["M10", "callers that wait or come back"],
  ["M11", "that the process that asks needs no worker"],
  ["M13", "the check against the schema"],
  ["C7", "the step's `signal`, and parking"],
  ["L4", "deleting rows in the commit that holds the state"],
  ["K1", "that `cancel()` is durable, and the `signal` of steps"],
  ["K7", "the clock, the epoch, and steps that are not started"],
  ["K8", "timers that survive a restart"],
  ["V2", "which runs a worker claims"],
  ["V4", "the status, the backoff and `RunBlockedError`"],
  ["X9", "the watchdog"],
  ["X11", "rejections of derived promises, which the host asks `isDeliveredError` about"],
  ["Y5", "`holdfast replay`"],
  ["S1", "the status `rolling_back`"],
]);

// ── titles ──

const testFunctions = new Set(["describe", "test", "it", "suite"]);

/**
 * The titles of the tests in a file. Where a title begins with something computed (`${rule} …`, `%s` of a table), all texts of the
 * file that begin with a rule's id stand in for it. Tests that are skipped prove nothing.
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
        titles.push(title); // a test function of the file's own
      }
    }
    for (const key of visitorKeys[node.type] ?? []) {
      for (const child of [node[key]].flat()) if (child) visit(child);
    }
  };
  visit(/** @type {any} */ (program));
  return computed ? [...titles, ...texts] : titles;
}

/** What a text or template says; what is computed in it reads as `$`. @param {Node | undefined} node @returns {string | undefined} */
function textOf(node) {
  if (node?.type === "Literal" && typeof node["value"] === "string") return node["value"];
  if (node?.type === "TemplateLiteral") return node["quasis"].map((/** @type {Node} */ part) => part["value"].cooked).join("$");
  if (node?.type === "BinaryExpression" && node["operator"] === "+") {
    return `${textOf(node["left"]) ?? "$"}${textOf(node["right"]) ?? "$"}`;
  }
  return undefined;
}

/** `it.each(table)` is called as it, each. @param {Node} callee @returns {string[]} */
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

/** The rules that a title names: `M4 M5 …`, `L1–L4 …`, `… (Y6)`. N has no number and counts only where it comes first. @param {string} title */
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

/** A file that proves a rule: what it does, or only what its types say. @typedef {{ path: string, typesOnly: boolean }} Proof */
/** By the id of the rule. @typedef {Map<string, Proof[]>} Proofs */

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

// ── the page ──

const proofLine = /^( {2})?- (Tests: |\(not proven yet)/;

/** The ids of the rules on the page, in order. @param {string} text */
export function rulesOn(text) {
  return text.split("\n").flatMap((line) => {
    const [, rule] = /^- ([A-Z]\d+) /.exec(line) ?? [];
    return rule ?? (line === "## N. Nesting" ? "N" : []);
  });
}

/** Rules that should have a test today and have none. @param {string} text @param {Proofs} proofs */
export function unprovenOn(text, proofs) {
  const isProven = (/** @type {string} */ id) => proofs.get(id)?.some(({ typesOnly }) => !typesOnly) ?? false;
  return rulesOn(text).filter((id) => coreGroups.includes(id.charAt(0)) && !hostRules.has(id) && !isProven(id));
}

/** The page with its lines of proof as they are today. @param {string} text @param {Proofs} proofs */
export function withProofs(text, proofs) {
  const lines = text.split("\n").filter((line) => !proofLine.test(line));
  const result = lines.flatMap((line, i) => {
    const [, rule] = /^- ([A-Z]\d+) /.exec(line) ?? [];
    if (rule !== undefined) return [line, `  - ${proofOf(rule, proofs)}`];
    // N is a table: its line closes the section.
    return line === "" && lines[i + 1] === "## C. Structured concurrency" ? [`- ${proofOf("N", proofs)}`, line] : [line];
  });
  return result.join("\n");
}

/** @param {string} id @param {Proofs} proofs */
function proofOf(id, proofs) {
  const files = proofs.get(id) ?? [];
  if (files.length === 0) return hostRules.has(id) ? "(not proven yet: needs a host)" : "(not proven yet)";
  const links = files.map(
    ({ path, typesOnly }) => `[${path.replace(/^packages\/|(test|src)\//g, "")}](../${path})${typesOnly ? " (types)" : ""}`,
  );
  const byHost = files.some(({ path }) => !path.startsWith("packages/core/"));
  const rest = hostRules.has(id) ? "the rest" : hostParts.get(id);
  return `Tests: ${links.join(", ")}${rest === undefined || byHost ? "" : `. Needs a host: ${rest}`}`;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const root = resolve(import.meta.dirname, "..");
  const path = join(root, page);
  const text = readFileSync(path, "utf8");
  const proofs = proofsIn(root);
  writeFileSync(path, withProofs(text, proofs));
  const unproven = unprovenOn(text, proofs);
  if (unproven.length > 0) console.error(`rules of the core without a test: ${unproven.join(", ")}`);
}
