// sameValue: whether two values are equal, as far as the codec can distinguish them.
// Owns the pairs that one comparison has visited.
// Invariants: Y2 (the order of keys, Map entries and Set members, and the stack of an error don't matter); terminates on cyclic values.
import { isError, takeApart } from "../base/errorParts.ts";
import { tagOf } from "../base/text.ts";

/** Whether two values are equal, as far as the codec can distinguish them. */
export function sameValue(a: unknown, b: unknown): boolean {
  return new Comparison().same(a, b);
}

class Comparison {
  /** Pairs that are being compared and are assumed equal: a cycle leads back to one of them. */
  readonly #assumed = new Map<object, Set<object>>();
  /** The assumed pairs in order, to undo the assumptions of a failed attempt. */
  readonly #trail: [object, object][] = [];

  same(a: unknown, b: unknown): boolean {
    return Object.is(a, b) || (isObject(a) && isObject(b) && this.#objects(a, b));
  }

  #objects(a: object, b: object): boolean {
    if (this.#assumed.get(a)?.has(b)) return true;
    const tag = kindOf(a);
    if (tag !== kindOf(b)) return false;
    this.#assume(a, b);
    if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) return sameBytes(a, b);
    switch (tag) {
      case "Array":
        return this.#arrays(a as unknown[], b as unknown[]);
      case "Error":
        return this.#errors(a as Error, b as Error);
      case "Map":
        return this.#maps(a as Map<unknown, unknown>, b as Map<unknown, unknown>);
      case "Set":
        return this.#sets(a as Set<unknown>, b as Set<unknown>);
      case "Date":
        return Object.is((a as Date).getTime(), (b as Date).getTime());
      case "ArrayBuffer":
        return sameBytes(new Uint8Array(a as ArrayBuffer), new Uint8Array(b as ArrayBuffer));
      case "URL":
      case "RegExp":
        return String(a) === String(b);
      default:
        return this.#records(a, b);
    }
  }

  #arrays(a: readonly unknown[], b: readonly unknown[]): boolean {
    return a.length === b.length && a.every((item, index) => this.same(item, b[index]));
  }

  #records(a: object, b: object): boolean {
    const keys = Object.keys(a);
    if (keys.length !== Object.keys(b).length) return false;
    const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
    return keys.every((key) => Object.hasOwn(right, key) && this.same(left[key], right[key]));
  }

  #errors(a: Error, b: Error): boolean {
    const [left, right] = [takeApart(a), takeApart(b)];
    return (
      left.name === right.name &&
      left.message === right.message &&
      this.same(left.cause, right.cause) &&
      this.#maps(left.fields, right.fields)
    );
  }

  #maps(a: ReadonlyMap<unknown, unknown>, b: ReadonlyMap<unknown, unknown>): boolean {
    if (a.size !== b.size) return false;
    const objects: [unknown, unknown][] = [];
    for (const [key, value] of a) {
      if (isObject(key)) objects.push([key, value]);
      else if (!b.has(key) || !this.same(value, b.get(key))) return false;
    }
    const others = [...b].filter(([key]) => isObject(key));
    return this.#pairUp(objects, others);
  }

  #sets(a: ReadonlySet<unknown>, b: ReadonlySet<unknown>): boolean {
    if (a.size !== b.size) return false;
    for (const item of a) if (!isObject(item) && !b.has(item)) return false;
    return this.#pairUp([...a].filter(isObject), [...b].filter(isObject));
  }

  /** Matches each item with a different item of the other side. Keys and members that are objects are compared by content. */
  #pairUp(a: readonly unknown[], b: unknown[]): boolean {
    return (
      a.length === b.length &&
      a.every((item) => {
        const match = b.findIndex((candidate) => this.#tentatively(item, candidate));
        if (match >= 0) b.splice(match, 1);
        return match >= 0;
      })
    );
  }

  #tentatively(a: unknown, b: unknown): boolean {
    const mark = this.#trail.length;
    if (this.same(a, b)) return true;
    for (const [left, right] of this.#trail.splice(mark)) this.#assumed.get(left)?.delete(right);
    return false;
  }

  #assume(a: object, b: object): void {
    const partners = this.#assumed.get(a);
    if (partners === undefined) this.#assumed.set(a, new Set([b]));
    else partners.add(b);
    this.#trail.push([a, b]);
  }
}

function kindOf(object: object): string {
  return isError(object) ? "Error" : tagOf(object);
}

function sameBytes(a: ArrayBufferView, b: ArrayBufferView): boolean {
  const left = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  const right = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  return left.length === right.length && left.every((byte, index) => byte === right[index]);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
