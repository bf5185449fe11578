// isPlainJson: whether native JSON.stringify stores a value as it is, so that the codec can take the fast path.
// Owns the definition of plain: null, booleans, strings, finite numbers but -0, arrays without holes, plain objects without `$` keys.
// Invariants: P8 (plain values are stored as plain JSON); runs no longer than its budget, whatever the value (cycles, exploding sharing).
import { startsWithDollar } from "./json.ts";

/** Values met before we stop believing that this is a tree: what is larger takes the slow path, which writes each shared object once. */
const BUDGET = 50_000;
/** Far above what people nest, and far below what overflows the stack. */
const MAX_DEPTH = 500;
const NOT_PLAIN = -1;

export function isPlainJson(value: unknown): boolean {
  return spend(value, BUDGET, MAX_DEPTH) >= 0;
}

/** What is left of the budget after the value; negative if it is not plain. */
function spend(value: unknown, budget: number, depth: number): number {
  switch (typeof value) {
    case "string":
    case "boolean":
      return budget - 1;
    case "number":
      return isPlainNumber(value) ? budget - 1 : NOT_PLAIN;
    case "object":
      if (value === null) return budget - 1;
      if (depth === 0) return NOT_PLAIN;
      return Array.isArray(value) ? spendArray(value, budget - 1, depth - 1) : spendObject(value, budget - 1, depth - 1);
    default:
      return NOT_PLAIN;
  }
}

function spendArray(array: unknown[], budget: number, depth: number): number {
  if (Object.getPrototypeOf(array) !== Array.prototype) return NOT_PLAIN;
  let left = budget;
  // By index: a hole reads as undefined, which is not plain.
  for (let i = 0; i < array.length && left >= 0; i++) left = spend(array[i], left, depth);
  return left;
}

function spendObject(object: object, budget: number, depth: number): number {
  if (!hasPlainPrototype(object)) return NOT_PLAIN;
  let left = budget;
  for (const key in object) {
    if (startsWithDollar(key)) return NOT_PLAIN;
    left = spend((object as Record<string, unknown>)[key], left, depth);
    if (left < 0) return NOT_PLAIN;
  }
  return left;
}

/** All but NaN, Infinity, -Infinity and -0. */
export function isPlainNumber(value: number): boolean {
  return value === 0 ? 1 / value > 0 : value - value === 0;
}

export function hasPlainPrototype(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null;
}
