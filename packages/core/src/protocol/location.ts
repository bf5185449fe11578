// Places in a run: unit paths, locations of operations, and the order of units.
// Owns: the text form of paths, `NameRegistry` (names as small numbers), the order of units.
// Invariants: X3 (structural ids, compared part by part, numbers as numbers), L4 R11 (the records inside a scope share a prefix).

import { wordsOf } from "./operations.ts";

const SPECIAL = /[%/#~]/g;
const escapes: Readonly<Record<string, string>> = { "%": "%25", "/": "%2F", "#": "%23", "~": "%7E" };
const escaped = new Map<string, string>();

/** A name as a segment of a path, with the special characters of paths escaped. */
export function segment(name: string): string {
  let known = escaped.get(name);
  if (known === undefined) {
    known = name.replace(SPECIAL, (char) => escapes[char] ?? char);
    if (escaped.size > 10_000) escaped.clear();
    escaped.set(name, known);
  }
  return known;
}
function unescaped(part: string): string {
  return part.includes("%") ? part.replace(/%(25|2F|23|7E)/g, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16))) : part;
}

/** `checkout/~3/charge#1`: unit path, name, and the occurrence of the name within its unit from the second on. */
export function formatLocation(unit: string, name: string, n: number): string {
  const last = n === 0 ? segment(name) : `${segment(name)}#${n}`;
  return unit === "" ? last : `${unit}/${last}`;
}

/** The id of a child that is given none, unique among the executions of its parent: `order-7/ship#1`, `order-7/~2/ship` in the second execution. */
export function childRunId(parent: string, execution: number, location: string): string {
  return execution === 1 ? `${parent}/${location}` : `${parent}/~${execution}/${location}`;
}

/** The `unit` of a location, the `name` of its operation and its number among those of that name (`n`). */
export function parseLocation(location: string): { readonly unit: string; readonly name: string; readonly n: number } {
  const slash = location.lastIndexOf("/");
  const last = location.slice(slash + 1);
  const hash = last.indexOf("#");
  return {
    unit: slash < 0 ? "" : location.slice(0, slash),
    name: unescaped(hash < 0 ? last : last.slice(0, hash)),
    n: hash < 0 ? 0 : Number(last.slice(hash + 1)),
  };
}

/** An operation in words, for errors and `waitingFor`: `step charge`. Operations without a name show only their kind: `sleep`. */
export function describeOperation(kind: string, unit: string, name: string, n: number): string {
  const location = formatLocation(unit, name, n);
  return name === kind ? location : `${wordsOf(kind)} ${location}`;
}

/** Whether `path` is `prefix` or beneath it. */
export function isWithin(path: string, prefix: string): boolean {
  return path.length === prefix.length ? path === prefix : path.charCodeAt(prefix.length) === 47 && path.startsWith(prefix);
}

/** The length of the longest common prefix of two paths, in whole segments. */
export function sharedLength(a: string, b: string): number {
  let length = 0;
  for (let i = 0; i < a.length && a[i] === b[i]; i++) if (a[i] === "/") length = i + 1;
  return length;
}

/** The unit that must end before this one starts: the previous iteration, or the handler that returned `Receive.async`. */
export function predecessor(unit: string): string | undefined {
  if (unit.endsWith("/~async")) return unit.slice(0, -"/~async".length);
  const iteration = /^(.*\/~)(\d+)$/.exec(unit);
  return iteration === null || iteration[2] === "0" ? undefined : `${iteration[1]}${Number(iteration[2]) - 1}`;
}

/** The order of units (X3): a parent before its children, branches before handlers, then by ordinal of the scope and index in it. */
export type UnitOrder = readonly number[];

export function compareOrder(a: UnitOrder, b: UnitOrder): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** A segment of a location in compact form: a name by index (with its occurrence), a branch or iteration, a dispatch, a mark. */
export type LocationPart =
  | number
  | readonly [name: number, n: number]
  | {
      /** A branch of `parallel`, or an iteration of a loop, from 0: `~3`. */
      readonly iteration: number;
    }
  | {
      /** A message that a receive has dispatched, from 0: `~h3`. */
      readonly dispatch: number;
    }
  | {
      /** A unit that the engine names, such as `~async`. */
      readonly mark: string;
    };

/** Maps names to small numbers, so that a location takes a few bytes however long its names are. Names are only added, in order. */
export class NameRegistry {
  readonly #names: string[] = [];
  readonly #indexes = new Map<string, number>();

  constructor(names: Iterable<string> = []) {
    for (const name of names) this.intern(name);
  }
  /** The names, by their number. */
  get names(): readonly string[] {
    return this.#names;
  }
  /** The number of a name, which is added if it is new. */
  intern(name: string): number {
    let index = this.#indexes.get(name);
    if (index === undefined) {
      index = this.#names.push(name) - 1;
      this.#indexes.set(name, index);
    }
    return index;
  }
  /**
   * The name with that number.
   * @throws a RangeError if there is none.
   */
  nameAt(index: number): string {
    const name = this.#names[index];
    if (name === undefined) throw new RangeError(`The name registry has ${this.#names.length} names; index ${index} is out of range.`);
    return name;
  }
  /** A location (or unit path) in compact form; unknown names are added to the registry. */
  compact(location: string): LocationPart[] {
    if (location === "") return [];
    return location.split("/").map((part): LocationPart => {
      if (/^~\d+$/.test(part)) return { iteration: Number(part.slice(1)) };
      if (/^~h\d+$/.test(part)) return { dispatch: Number(part.slice(2)) };
      if (part.startsWith("~")) return { mark: part.slice(1) };
      const hash = part.indexOf("#");
      const name = this.intern(unescaped(hash < 0 ? part : part.slice(0, hash)));
      return hash < 0 ? name : [name, Number(part.slice(hash + 1))];
    });
  }
  /** A location in compact form as text: the inverse of `compact`. */
  expand(parts: readonly LocationPart[]): string {
    return parts
      .map((part) => {
        if (typeof part === "number") return segment(this.nameAt(part));
        if ("iteration" in part) return `~${part.iteration}`;
        if ("dispatch" in part) return `~h${part.dispatch}`;
        if ("mark" in part) return `~${part.mark}`;
        return `${segment(this.nameAt(part[0]))}#${part[1]}`;
      })
      .join("/");
  }
}
