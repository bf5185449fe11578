// isPlainJson: whether JSON.stringify stores a value without loss, so that the codec can take the fast path.
// Owns the definition of plain: null, booleans, strings, finite numbers except -0, arrays without holes, plain objects without `$` keys.
// Invariants: P8 (plain values are stored as plain JSON); P9 (the check stops once the value must be larger than `maxBytes`); its cost is
// bounded by a budget, whatever the value (cycles, values that share objects many times).
import { startsWithDollar } from "./json.ts";

/** The number of values to visit. Anything larger takes the slow path, which visits each shared object only once. */
const BUDGET = 50_000;
/** Deeper than real data, and far from overflowing the stack. */
const MAX_DEPTH = 500;

/** False also for a value whose text would exceed `maxBytes`: it may be a large tree or a cycle. */
export function isPlainJson(value: unknown, maxBytes = Number.POSITIVE_INFINITY): boolean {
  return new Look(maxBytes).at(value, MAX_DEPTH);
}

class Look {
  /** The bytes left. Each value counts for at most the bytes that its text will have. */
  #bytes: number;
  #budget = BUDGET;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }
  /** False if the value is not plain, or if a limit is reached. */
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
    // Counts the commas before visiting the first item.
    if (Object.getPrototypeOf(array) !== Array.prototype || !this.#spend(1 + array.length)) return false;
    // Reads by index: a hole reads as undefined, which is not plain.
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

/** True for all numbers except NaN, Infinity, -Infinity and -0. */
export function isPlainNumber(value: number): boolean {
  return value === 0 ? 1 / value > 0 : value - value === 0;
}

export function hasPlainPrototype(object: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null;
}
