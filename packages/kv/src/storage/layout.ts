// What lies where in the namespace of a run.
// Owns: every key. Nothing else packs or unpacks one.
// Invariants: H3 (no key carries the run's id: the namespace is the run's); a wake reads all it needs with one `list`; what a loop or a
// receive leaves behind is one range of keys (L4, R11).
//
//   key                                 value                                        written
//   ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
//   (1, i)                              name i of the registry                       with the first record that uses it
//   (2, …location, turn, position)      a record of an operation: its opening, and   with its turn
//                                       all that happened to it
//   (3, place, i, sender)               a message that no turn has taken             by the sender; deleted by the turn that takes it
//   (4, 1)                              head: id, workflow, execution, seed, input   at the start, by a continuation, by a resume
//   (4, 2)                              status: what it waits for, until when        when it changes
//   (4, 3)                              the end: output or error                     with the last turn
//   (4, 4)                              published state                              with the turn that published it
//   (4, 5)                              attributes                                   when they change
//   (5, turn, position)                 a record of the run itself: start, messages  with its turn
//                                       taken, cancellation, the end
//   (6, seq, number)                    an attempt that did not just succeed         before it begins; when it fails
//   (7, execution, seq)                 a child that has not ended                   with the turn that starts it
//   (8, n)                              word for another run, not delivered yet      with the turn that has it; deleted once delivered
//   (9, hour)                           there are outcomes of this hour that may go  with the first of them; deleted with the last
//   ("e", hour, id)                     an outcome of this hour that may go          with the turn that ended the update
//   ("k", key)                          a sender's key that was used                 with the turn that took the message
//   ("u", id)                           the outcome of an update                     with the turn that ended it
//
// Keys are tuples (tuple.ts). All that a wake needs begins with a number from 1 to 255, and such numbers begin with one and the same byte:
// WAKE is the prefix of just those. What is only asked for by name, and may grow without bound, begins with text, and is not read by it.
//
// A location is a tuple of parts, as long as the path is deep:
//   name                → its index i           charge            → (…, 4)
//   name, nth occurrence → (i, n)               charge#2          → (…, (4, 2))
//   iteration, branch    → (i)                  poll/~17          → (…, 7, (17))
//   dispatch of a receive → ("h", i)            receive/~h3       → (…, 9, ("h", 3))
//   marks                → text                 ~rollback/charge  → ("rollback", 4)
// so iterations sort as numbers, and all of those before the 40th are the range from (2, …loop, (0)) to (2, …loop, (40)).
//
// A record says in its value neither unit nor name nor occurrence, turn nor position: its key does. Position counts the jobs of a turn
// and then its commands. What has a number but belongs to no operation that is known any more is the run's own (5).
//
// A continuation deletes (1), (2), (5) and (6), and (4, 3), and writes a new head, all in the batch that ends the execution before it.

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

/** Positive numbers of one byte begin with it. */
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
/** H4: a sender's place is behind that of every message it finds; `sender` tells those apart that came at once. */
export const messageKey = (place: number, i: number, sender: string): Uint8Array => packAfter(PREFIX.messages, place, i, sender);
/** P10: what an execution leaves goes before all that was sent, and before what the executions before it left: it is older. */
export const carriedKey = (execution: number, i: number): Uint8Array => messageKey(-execution, i, "carried");
/** Of a message's key. */
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

/** Of a record at a unit, or whatever else has a path. */
export const pathRecordKey = (prefix: Uint8Array, turn: number, position: number): Uint8Array => packTwo(prefix, turn, position);

/** From `start` on, without `end`. */
export interface KeyRange {
  readonly start: Uint8Array;
  readonly end: Uint8Array;
}

// ── locations ──

const MOST_REMEMBERED = 4_096;

/** The registry of names of one execution, and locations by means of it. */
export class Locations {
  readonly #registry: NameRegistry;
  /** Names that are stored. */
  #stored: number;
  readonly #packed = new Map<string, Uint8Array>();

  constructor(names: readonly string[] = []) {
    this.#registry = new NameRegistry(names);
    this.#stored = names.length;
  }
  /** Names that were used since the last time this was asked, with their indexes. */
  takeNew(): [index: number, name: string][] {
    const { names } = this.#registry;
    if (names.length === this.#stored) return [];
    const fresh = names.slice(this.#stored).map((name, i): [number, string] => [this.#stored + i, name]);
    this.#stored = names.length;
    return fresh;
  }
  /** The prefix of all records at and beneath a unit, or whatever else has a path. */
  prefixOf(path: string): Uint8Array {
    let packed = this.#packed.get(path);
    if (packed === undefined) {
      packed = path === "" ? PREFIX.records : packAfter(PREFIX.records, ...this.#registry.compact(path).map(elementOf));
      if (this.#packed.size >= MOST_REMEMBERED) this.#packed.clear();
      this.#packed.set(path, packed);
    }
    return packed;
  }
  /** Of a record of an operation. */
  recordKey(unit: string, name: string, n: number, turn: number, position: number): Uint8Array {
    const prefix = this.prefixOf(unit); // first: names have their numbers in the order in which locations are read, path before name
    const index = this.#registry.intern(name);
    return packThree(prefix, n === 0 ? index : [index, n], turn, position);
  }
  /** L4: the iterations (dispatches) of a scope that begin before `index`, as a range of keys. */
  iterations(scope: string, kind: "iteration" | "dispatch", index: number): KeyRange {
    const prefix = this.prefixOf(scope);
    const key = (at: number) => packAfter(prefix, kind === "iteration" ? [at] : ["h", at]);
    return { start: key(0), end: key(index) };
  }

  /** Of a key (2, …location, turn, position): the elements of the location. */
  expand(parts: Tuple): string {
    return this.#registry.expand(parts.map(partOf));
  }
  /** The last part of an operation's location: its name, and which occurrence of it. */
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
  throw new KvFormatError("A record's key has a part that this Holdfast does not know.");
}
