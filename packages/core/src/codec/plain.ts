// isPlainJson: whether native JSON.stringify stores a value as it is, so that the codec can take the fast path.
// Owns the definition of plain: null, booleans, strings, finite numbers but -0, arrays without holes, plain objects without `$` keys.
// Invariants: P8 (plain values are stored as plain JSON); P9 (what seems larger than `maxBytes` is not looked at any further);
// runs no longer than its budget, whatever the value (cycles, exploding sharing).
import { startsWithDollar } from "./json.ts";

/** Values met before we stop believing that this is a tree: what is larger takes the slow path, which writes each shared object once. */
const BUDGET = 50_000;
/** Far above what people nest, and far below what overflows the stack. */
const MAX_DEPTH = 500;

/** Not for a value whose text has more than `maxBytes`: that may be a tree, or a cycle that was gone round until it seemed so. */
export function isPlainJson(value: unknown, maxBytes = Number.POSITIVE_INFINITY): boolean {
  return new Look(maxBytes).at(value, MAX_DEPTH);
}

class Look {
  /** What is left of both; no more bytes are counted than the text will have. */
  #bytes: number;
  #budget = BUDGET;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }
  /** False: it is not plain, or there is no need to look any further. */
  at(value: unknown, depth: number): boolean {
    switch (typeof value) {
      case "string":
        return this.#spend(value.length + 2);
      case "boolean":
        return this.#spend(4);
      case "number":
        return isPlainNumber(value) && this.#spend(1);
      case "object":
        if (value === null) return this.#spend(4);
        if (depth === 0) return false;
        return Array.isArray(value) ? this.#array(value, depth - 1) : this.#record(value, depth - 1);
      default:
        return false;
    }
  }
  #spend(bytes: number): boolean {
    this.#bytes -= bytes;
    return --this.#budget >= 0 && this.#bytes >= 0;
  }
  #array(array: readonly unknown[], depth: number): boolean {
    // With a comma after each of them, before any is looked at.
    if (Object.getPrototypeOf(array) !== Array.prototype || !this.#spend(1 + array.length)) return false;
    // By index: a hole reads as undefined, which is not plain.
    for (let i = 0; i < array.length; i++) if (!this.at(array[i], depth)) return false;
    return true;
  }
  #record(object: object, depth: number): boolean {
    if (!hasPlainPrototype(object) || !this.#spend(2)) return false;
    for (const key in object) {
      if (startsWithDollar(key)) return false;
      this.#bytes -= key.length + 3;
      if (!this.at((object as Record<string, unknown>)[key], depth)) return false;
    }
    return true;
  }
}

/** All but NaN, Infinity, -Infinity and -0. */
export function isPlainNumber(value: number): boolean {
  return value === 0 ? 1 / value > 0 : value - value === 0;
}

export function hasPlainPrototype(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null;
}
