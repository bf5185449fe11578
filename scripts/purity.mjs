// Finds the globals that a module uses and that are not on the list of harmless ones.
// Scopes are resolved, so a parameter called `location` does not count as the browser's global.

import { analyze } from "eslint-scope";
import { visitorKeys } from "oxc-parser";

/** The language itself, and globals of all JavaScript runtimes that neither read a clock nor do I/O. */
const harmless = new Set([
  ...["undefined", "NaN", "Infinity", "isNaN", "isFinite", "parseInt", "parseFloat"],
  ...["encodeURI", "encodeURIComponent", "decodeURI", "decodeURIComponent"],
  ...["Object", "Function", "Symbol", "Boolean", "Number", "BigInt", "String", "RegExp", "Date", "Math", "JSON", "Proxy", "Reflect"],
  ...["Array", "Map", "Set", "WeakMap", "WeakSet", "Promise", "ArrayBuffer", "SharedArrayBuffer", "DataView"],
  ...["Int8Array", "Int16Array", "Int32Array", "BigInt64Array", "Float32Array", "Float64Array"],
  ...["Uint8Array", "Uint8ClampedArray", "Uint16Array", "Uint32Array", "BigUint64Array"],
  ...["Error", "AggregateError", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"],
  ...["AbortController", "AbortSignal", "DOMException", "Event", "EventTarget"],
  ...["queueMicrotask", "structuredClone", "TextEncoder", "TextDecoder", "URL", "URLSearchParams", "atob", "btoa"],
]);

/** Members of harmless globals that are not harmless. */
const harmful = new Map([
  ["Date", ["now"]],
  ["Math", ["random"]],
  ["AbortSignal", ["timeout"]],
]);

/** @typedef {{ type: string, start: number, [key: string]: any }} Node */

/** TypeScript's nodes that contain an expression. All others contain only types, which do not exist at run time. */
const typedExpressions = ["TSAsExpression", "TSSatisfiesExpression", "TSNonNullExpression", "TSInstantiationExpression", "TSTypeAssertion"];
const typeKeys = ["typeAnnotation", "typeParameters", "typeArguments", "returnType", "superTypeArguments", "implements"];

/** The children to visit of each kind of node, so that only run-time code is visited. */
const runtimeKeys = Object.fromEntries(
  Object.entries(visitorKeys).map(([type, keys]) => {
    if (typedExpressions.includes(type)) return [type, ["expression"]];
    return [type, type.startsWith("TS") ? [] : keys.filter((key) => !typeKeys.includes(key))];
  }),
);

/**
 * @param {Node} program
 * @returns {{ name: string, start: number }[]}
 */
export function ambientUses(program) {
  const parents = parentsOf(program);
  const scopes = analyze(/** @type {any} */ (program), {
    ecmaVersion: 2022,
    sourceType: "module",
    childVisitorKeys: runtimeKeys,
    fallback: () => [],
  });
  return scopes.scopes
    .flatMap((scope) => scope.references)
    .filter((reference) => isAmbient(reference.resolved))
    .flatMap(({ identifier }) => {
      const node = /** @type {Node} */ (/** @type {unknown} */ (identifier));
      const name = harmfulUse(node, parents);
      return name ? [{ name, start: node.start }] : [];
    })
    .concat([...parents.keys()].flatMap(syntaxUse));
}

/**
 * Whether a name is a global: it is unbound, or bound only by a `declare const`.
 * @param {import("eslint-scope").Variable | null} variable
 */
function isAmbient(variable) {
  if (!variable) return true;
  if (variable.name === "arguments") return false;
  return variable.defs.every(({ parent }) => /** @type {Node | null | undefined} */ (/** @type {unknown} */ (parent))?.["declare"]);
}

/**
 * Describes what is harmful about this use of a global; undefined if nothing is.
 * @param {Node} node
 * @param {Map<Node, Node | undefined>} parents
 */
function harmfulUse(node, parents) {
  const name = node["name"];
  const parent = /** @type {Node} */ (parents.get(node));
  const isTypeExport = [parent, parents.get(parent)].some((ancestor) => ancestor?.["exportKind"] === "type");
  if (isTypeExport) return undefined;
  if (!harmless.has(name)) return name;

  if (name === "Date" && parent["callee"] === node) {
    if (parent.type === "CallExpression") return "Date()";
    if (parent["arguments"].length === 0) return "new Date() without arguments";
  }
  const members = harmful.get(name);
  if (!members) return undefined;
  // Under another name the uses of its members can't be found.
  if (parent["init"] === node || typedExpressions.includes(parent.type)) return `${name} under another name or type`;
  if (parent.type !== "MemberExpression" || parent["object"] !== node) return undefined;
  const { computed, property } = parent;
  const member = computed ? property.value : property.name;
  return typeof member !== "string" || members.includes(member) ? `${name}.${member ?? "[computed]"}` : undefined;
}

/** Uses of the runtime through syntax instead of a name. @param {Node} node */
function syntaxUse(node) {
  const { type, start } = node;
  if (type === "MetaProperty" && node["meta"].name === "import") return [{ name: "import.meta", start }];
  if (type === "ImportExpression" && node["source"].type !== "Literal") return [{ name: "a computed import", start }];
  return [];
}

/** @param {Node} program */
function parentsOf(program) {
  /** @type {Map<Node, Node | undefined>} */
  const parents = new Map();
  const visit = (/** @type {Node} */ node, /** @type {Node | undefined} */ parent) => {
    parents.set(node, parent);
    for (const key of runtimeKeys[node.type] ?? []) {
      for (const child of [node[key]].flat()) if (child) visit(child, node);
    }
  };
  visit(program, undefined);
  return parents;
}
