// The layout of a run's namespace.
// Owns: every key. No other file packs or unpacks keys.
// Invariants: H3 (no key contains the run's id: the namespace belongs to one run); a wake-up reads all it needs with one `list`; the
// records that a loop or a receive leaves behind are one range of keys (L4, R11).
//
//   key                                 value                                        written
//   ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
//   (1, i)                              name i of the registry                       with the first record that uses it
//   (2, …location, turn, position)      a record of an operation: its opening, and   with its turn
//                                       all that happened to it
//   (3, place, i, sender)               a message that no turn has consumed          by the sender; deleted by the turn that consumes it
//   (4, 1)                              head: id, workflow, execution, seed, input   at the start, by a continuation, by a resume
//   (4, 2)                              status: what it waits for, until when        when it changes
//   (4, 3)                              the end: output or error                     with the last turn
//   (4, 4)                              published state                              with the turn that published it
//   (4, 5)                              attributes                                   when they change
//   (5, turn, position)                 a record of the run itself: start, messages, with its turn
//                                       cancellation, the end
//   (6, seq, number)                    an attempt that did not just succeed         before it begins; when it fails
//   (7, execution, seq)                 a child that has not ended                   with the turn that starts it
//   (8, n)                              a letter to another run, not delivered yet   with the turn that sends it; deleted once delivered
//   (9, hour)                           this hour has outcomes that may be deleted   with the first of them; deleted with the last
//   ("e", hour, id)                     an outcome of this hour that may be deleted  with the turn that ended the update
//   ("k", key)                          a sender's key that was used                 with the turn that consumed the message
//   ("u", id)                           the outcome of an update                     with the turn that ended it
//
// Keys are tuples (tuple.ts). Keys that a wake-up needs begin with a number from 1 to 255, and all such numbers begin with the same byte:
// WAKE is the prefix of exactly these keys. Data that is read only by name, and may grow without bound, begins with text, so a wake-up does
// not read it.
//
// A location is a tuple of parts, one per level of the path:
//   name                → its index i           charge            → (…, 4)
//   name, nth occurrence → (i, n)               charge#2          → (…, (4, 2))
//   iteration, branch    → (i)                  poll/~17          → (…, 7, (17))
//   dispatch of a receive → ("h", i)            receive/~h3       → (…, 9, ("h", 3))
//   marks                → text                 ~rollback/charge  → ("rollback", 4)
// Iterations sort as numbers, so all of those before the 40th are the range from (2, …loop, (0)) to (2, …loop, (40)).
//
// The value of a record contains neither unit, name, occurrence, turn nor position: its key does. Positions number the jobs of a turn and
// then its commands. A record whose operation is no longer known belongs to the run itself (5).
//
// A continuation deletes (1), (2), (5), (6) and (4, 3), and writes a new head, in the batch that ends the previous execution.

import { type LocationPart, NameRegistry } from "@holdfast/core";
import { KvFormatError } from "../errors.ts";
import { type Element, pack, packAfter, packThree, packTwo, type Tuple, unpack } from "./tuple.ts";

export const NAMES = 1;
export const RECORDS = 2;
export const MESSAGES = 3;
export const RUN = 4;
export const RUN_RECORDS = 5;
export const ATTEMPTS = 6;
export const CHILDREN = 7;
export const OUTBOX = 8;
export const OUTCOME_HOURS = 9;

/** The first byte of all positive numbers that fit into one byte. */
export const WAKE = pack([NAMES]).slice(0, 1);

export const PREFIX = {
  names: pack([NAMES]),
  records: pack([RECORDS]),
  messages: pack([MESSAGES]),
  runRecords: pack([RUN_RECORDS]),
  attempts: pack([ATTEMPTS]),
} as const;

export const KEY = {
  head: pack([RUN, 1]),
  status: pack([RUN, 2]),
  end: pack([RUN, 3]),
  state: pack([RUN, 4]),
  attributes: pack([RUN, 5]),
} as const;

export const nameKey = (index: number): Uint8Array => packAfter(PREFIX.names, index);
/** H4: a sender's place is after that of every message that it finds; `sender` distinguishes messages sent at the same time. */
export const messageKey = (place: number, i: number, sender: string): Uint8Array => packAfter(PREFIX.messages, place, i, sender);
/**
 * P10: signals carried over from an execution sort before all sent messages, and before those that earlier executions left: they are older.
 */
export const carriedKey = (execution: number, i: number): Uint8Array => messageKey(-execution, i, "carried");
/** The place in a message's key. */
export const placeOf = (key: Uint8Array): number => Number(unpack(key)[1]);
export const runRecordKey = (turn: number, position: number): Uint8Array => packTwo(PREFIX.runRecords, turn, position);
export const attemptKey = (seq: number, number: number): Uint8Array => packTwo(PREFIX.attempts, seq, number);
export const childKey = (execution: number, seq: number): Uint8Array => pack([CHILDREN, execution, seq]);
export const outboxKey = (n: number): Uint8Array => pack([OUTBOX, n]);
export const usedKey = (key: string): Uint8Array => pack(["k", key]);
export const updateKey = (id: string): Uint8Array => pack(["u", id]);

export const outcomeHourKey = (hour: number): Uint8Array => pack([OUTCOME_HOURS, hour]);
export const outcomePrefix = (hour: number): Uint8Array => pack(["e", hour]);
export const outcomeKey = (hour: number, id: string): Uint8Array => pack(["e", hour, id]);

/** The key of a record at a unit, or at any other path. */
export const pathRecordKey = (prefix: Uint8Array, turn: number, position: number): Uint8Array => packTwo(prefix, turn, position);

/** From `start` (inclusive) to `end` (exclusive). */
export interface KeyRange {
  readonly start: Uint8Array;
  readonly end: Uint8Array;
}

// ── locations ──

const MOST_REMEMBERED = 4_096;

/** The name registry of one execution, and the locations encoded with it. */
export class Locations {
  readonly #registry: NameRegistry;
  /** Number of names that are stored. */
  #stored: number;
  readonly #packed = new Map<string, Uint8Array>();

  constructor(names: readonly string[] = []) {
    this.#registry = new NameRegistry(names);
    this.#stored = names.length;
  }
  /** Names that were first used since the last call, with their indexes. */
  takeNew(): [index: number, name: string][] {
    const { names } = this.#registry;
    if (names.length === this.#stored) return [];
    const fresh = names.slice(this.#stored).map((name, i): [number, string] => [this.#stored + i, name]);
    this.#stored = names.length;
    return fresh;
  }
  /** The prefix of all records at and below a unit, or any other path. */
  prefixOf(path: string): Uint8Array {
    let packed = this.#packed.get(path);
    if (packed === undefined) {
      packed = path === "" ? PREFIX.records : packAfter(PREFIX.records, ...this.#registry.compact(path).map(elementOf));
      if (this.#packed.size >= MOST_REMEMBERED) this.#packed.clear();
      this.#packed.set(path, packed);
    }
    return packed;
  }
  /** The key of a record of an operation. */
  recordKey(unit: string, name: string, n: number, turn: number, position: number): Uint8Array {
    const prefix = this.prefixOf(unit); // first, because names are numbered in reading order: the path before the name
    const index = this.#registry.intern(name);
    return packThree(prefix, n === 0 ? index : [index, n], turn, position);
  }
  /** L4: the iterations (dispatches) of a scope before `index`, as a range of keys. */
  iterations(scope: string, kind: "iteration" | "dispatch", index: number): KeyRange {
    const prefix = this.prefixOf(scope);
    const key = (at: number) => packAfter(prefix, kind === "iteration" ? [at] : ["h", at]);
    return { start: key(0), end: key(index) };
  }

  /** The path of a key (2, …location, turn, position), from the elements of its location. */
  expand(parts: Tuple): string {
    return this.#registry.expand(parts.map(partOf));
  }
  /** The last part of an operation's location: its name and occurrence. */
  nameOf(part: Element | undefined): { name: string; n: number } {
    if (typeof part === "number") return { name: this.#registry.nameAt(part), n: 0 };
    const [name, n] = Array.isArray(part) ? part : [];
    if (typeof name === "number" && typeof n === "number") return { name: this.#registry.nameAt(name), n };
    throw new KvFormatError("A record's key does not end with the name of an operation.");
  }
}

function elementOf(part: LocationPart): Element {
  if (typeof part === "number") return part;
  if ("iteration" in part) return [part.iteration];
  if ("dispatch" in part) return ["h", part.dispatch];
  if ("mark" in part) return part.mark;
  return [part[0], part[1]];
}
function partOf(element: Element): LocationPart {
  if (typeof element === "number") return element;
  if (typeof element === "string") return { mark: element };
  const [first, second] = element;
  if (typeof first === "number") return typeof second === "number" ? [first, second] : { iteration: first };
  if (first === "h" && typeof second === "number") return { dispatch: second };
  throw new KvFormatError("A record's key has a part that this version of @holdfast/kv does not know.");
}
