// Which of the filed work of a queue a claim gets: limits, rates, and fairness among keys.
// Owns: the order. What waits, what is held and what has started are the store's, behind `Shelf`.
// Invariants: Q2 Q4 (each take fits into every limit), Q5 (priority; the key with the lowest pass; resumed before new, then by availability),
// Q6 (a key that is full or paused costs one look, whatever waits in it), Q7 (says when something that is not admitted now will be).
//
// Keys share by stride: each take that needs a slot of the queue moves the key's pass by 1/weight, and the lowest pass is next. A key that
// had nothing to give, or could not be admitted, begins again at the time of its priority: the pass at which a key was last served there. So
// nothing is saved up. Rejected: one such time for all priorities. A key that is served at a high priority would carry it along, and two
// keys of a lower one would lose the distance between their passes.
//
// A queue with a rate of its own has two things to share: starts, and claims of what has begun. Each key has a pass for either, as if it
// were two keys. With one pass for both, a key whose runs are resumed while the rate stops all starts would get no start afterwards until
// the others have had as many. With a pass for starts alone, a key whose runs are resumed all the time would get all slots. Between the two
// the lowest pass goes first, too. All starts wait for the rate together, so they move on together: by `lag`.

import type { LimitsFor, LimitUse, QueueRate, StoredQueueSpec } from "../queuePort.ts";
import { Heap } from "./heap.ts";
import { KEY_SLOT, type KeyRules, movesKey, QUEUE_SLOT, rulesOf, type Share, START, shareOf } from "./rules.ts";

/** Work that waits for the same: one key, one priority, the same code, the same needs. */
export interface Lane {
  readonly lane: number;
  readonly key: string | undefined;
  readonly priority: number;
  readonly needs: number;
  readonly pass: number;
}
/** The first of a lane. */
export interface Head {
  readonly availableAt: number;
  readonly order: number;
}
export interface KeyState {
  readonly pass: number;
  /** It had nothing to give, or could not be admitted, since it was last served. */
  readonly isIdle: boolean;
}
/** What waits in one queue for one claimer, as a store keeps it. Everything is of the kind that is claimed: runs, or activities. */
export interface Shelf<H extends Head> {
  /** The highest priority below this one that has something due for the claimer. */
  nextPriority(below: number): number | undefined;
  /** Lanes of a priority, by pass, whose needs `admits` allows. It may be asked for fewer while it is read. */
  lanes(priority: number, admits: (needs: number) => boolean): Iterator<Lane>;
  /** All lanes of a key at a priority that the claimer serves. A lane begins at the pass of its key for its share, but not before the time. */
  lanesOf(key: string | undefined, priority: number): readonly Lane[];
  /** The first of a lane that is due and needs what its lane says. */
  head(lane: Lane): H | undefined;
  /** False: it could not be claimed after all. */
  take(head: H, lane: Lane): boolean;
  /** Slots that are in use, of the queue or of a key. */
  held(of: "queue" | { readonly key: string }): number;
  /** When something was started after that moment, oldest first. */
  startsAfter(moment: number, of: "queue" | { readonly key: string }): readonly number[];
  keyState(key: string | undefined, share: Share): KeyState | undefined;
  /** Also of the lanes of the key that are for that share. */
  saveKey(key: string | undefined, share: Share, state: KeyState): void;
  /** The pass at which a key of that priority was last served. */
  time(priority: number, share: Share): number;
  saveTime(priority: number, share: Share, time: number): void;
  /** How far the passes of starts are behind those of claims, since only starts wait for a rate. */
  lag(priority: number): number;
  saveLag(priority: number, lag: number): void;
  /** Q3: something is full. Ends expired leases of what the claimer does not serve. True: some slots became free. */
  endExpired(of: "queue" | { readonly key: string }): boolean;
}
export interface Pauses {
  /** Until when; infinite: until it is resumed. Undefined: it is not paused. */
  readonly queue: number | undefined;
  readonly keys: ReadonlyMap<string, number>;
}
export interface Choice {
  readonly taken: number;
  /** When something that waits may be admitted without a wake-up. */
  readonly nextAt: number | undefined;
}

export function choose<H extends Head>(
  shelf: Shelf<H>,
  spec: StoredQueueSpec | undefined,
  pauses: Pauses,
  limit: number,
  now: number,
): Choice {
  return new Chooser(shelf, spec, pauses, now).choose(limit);
}

/** Whether one piece of work may be claimed now, out of its turn. */
export function admits(
  shelf: Pick<Shelf<Head>, "held" | "startsAfter">,
  spec: StoredQueueSpec | undefined,
  pauses: Pauses,
  { key, needs }: Pick<Lane, "key" | "needs">,
  now: number,
): boolean {
  if (pauses.queue !== undefined || (key !== undefined && pauses.keys.has(key))) return false;
  const queue = new Room(shelf, "queue", spec ?? {}, now);
  const own = key === undefined ? UNLIMITED : new Room(shelf, { key }, rulesOf(spec, key), now);
  if ((needs & QUEUE_SLOT) !== 0 && queue.slots <= 0) return false;
  if ((needs & KEY_SLOT) !== 0 && own.slots <= 0) return false;
  return (needs & START) === 0 || Math.min(queue.starts, own.starts) > 0;
}

/** What holds one piece of work back, and what does not. */
export function limitsFor(
  shelf: Pick<Shelf<Head>, "held" | "startsAfter">,
  spec: StoredQueueSpec | undefined,
  pauses: Pauses,
  { key, needs }: Pick<Lane, "key" | "needs">,
  now: number,
): LimitsFor {
  const use = (of: "queue" | { readonly key: string }, limits: Limits, until: number | undefined): LimitUse => {
    const { concurrency, rate } = limits;
    return {
      paused: until !== undefined,
      pausedUntil: until !== undefined && Number.isFinite(until) ? until : undefined,
      slots: concurrency === undefined ? undefined : { held: shelf.held(of), limit: concurrency },
      starts: rate === undefined ? undefined : { ...rate, roomAt: new Room(shelf, of, { rate }, now).startsAt },
    };
  };
  return {
    queue: use("queue", spec ?? {}, pauses.queue),
    key: key === undefined ? NO_LIMITS : use({ key }, rulesOf(spec, key), pauses.keys.get(key)),
    needs: { queueSlot: (needs & QUEUE_SLOT) !== 0, keySlot: (needs & KEY_SLOT) !== 0, start: (needs & START) !== 0 },
  };
}
const NO_LIMITS: LimitUse = { paused: false, pausedUntil: undefined, slots: undefined, starts: undefined };

/** What one limit leaves. */
class Room {
  /** Infinite without a limit. */
  slots: number;
  starts: number;
  readonly #rate: QueueRate | undefined;
  /** When each start was made that counts, oldest first. */
  readonly #started: number[] = [];

  constructor(shelf: Pick<Shelf<Head>, "held" | "startsAfter">, of: "queue" | { readonly key: string }, limits: Limits, now: number) {
    this.slots = limits.concurrency === undefined ? Number.POSITIVE_INFINITY : limits.concurrency - shelf.held(of);
    this.starts = Number.POSITIVE_INFINITY;
    const { rate } = limits;
    this.#rate = rate;
    if (rate === undefined) return;
    // Any window that holds this moment and as many before it begins after `now - per`.
    this.#started.push(...shelf.startsAfter(now - rate.per, of));
    this.starts = rate.limit - this.#started.length;
  }
  /** This claim starts one. */
  start(now: number): void {
    this.starts--;
    if (this.#rate !== undefined) this.#started.push(now);
  }
  /** When there is room for a start again, if there is none. */
  get startsAt(): number | undefined {
    const first = this.#rate === undefined ? undefined : this.#started.at(-this.#rate.limit);
    return this.#rate === undefined || first === undefined ? undefined : first + this.#rate.per;
  }
}
interface Limits {
  readonly concurrency?: number | undefined;
  readonly rate?: QueueRate | undefined;
}
const UNLIMITED = { slots: Number.POSITIVE_INFINITY, starts: Number.POSITIVE_INFINITY, startsAt: undefined, start: () => {} };

interface KeyRoom {
  readonly key: string | undefined;
  readonly rules: KeyRules;
  room: Room | typeof UNLIMITED;
}
interface Turn {
  readonly name: string;
  readonly share: Share;
  readonly of: KeyRoom;
  pass: number;
  isIdle: boolean;
  isChanged: boolean;
}
/** The lanes of one share, at one priority. */
interface Line {
  readonly share: Share;
  readonly lanes: Iterator<Lane>;
  next: IteratorResult<Lane>;
  /** Keys that were looked at in this call, at their new passes. */
  readonly again: Heap<Turn>;
  readonly met: Set<string>;
  lag: number;
}
const byPass = (a: Turn, b: Turn): number => a.pass - b.pass;
const nameOf = (key: string | undefined): string => (key === undefined ? "" : `=${key}`);
/** W2: at the same pass, what has begun goes first. */
const SHARES: readonly Share[] = ["claims", "starts"];
/** Of what comes next in it. Infinite: nothing is left. */
const passOf = ({ next, again, lag }: Line): number =>
  lag + Math.min(next.done === true ? Number.POSITIVE_INFINITY : next.value.pass, again.top?.pass ?? Number.POSITIVE_INFINITY);

/** The key whose turn it is in the line. */
const keyNext = ({ next, again }: Line): string | undefined => {
  const { top } = again;
  return next.done !== true && (top === undefined || next.value.pass < top.pass) ? nameOf(next.value.key) : top?.name;
};

class Chooser<H extends Head> {
  readonly #shelf: Shelf<H>;
  readonly #spec: StoredQueueSpec | undefined;
  readonly #pauses: Pauses;
  readonly #now: number;
  readonly #turns = new Map<string, Turn>();
  readonly #keys = new Map<string, KeyRoom>();
  #room: Room;
  #taken = 0;
  #nextAt: number | undefined;

  constructor(shelf: Shelf<H>, spec: StoredQueueSpec | undefined, pauses: Pauses, now: number) {
    this.#shelf = shelf;
    this.#spec = spec;
    this.#pauses = pauses;
    this.#now = now;
    this.#room = this.#queueRoom();
    if (this.#room.slots <= 0 && this.#shelf.endExpired("queue")) this.#room = this.#queueRoom();
  }
  #queueRoom(): Room {
    return new Room(this.#shelf, "queue", this.#spec ?? {}, this.#now);
  }

  choose(limit: number): Choice {
    const { queue } = this.#pauses;
    if (queue !== undefined) return { taken: 0, nextAt: Number.isFinite(queue) ? queue : undefined };
    for (
      let priority = this.#shelf.nextPriority(Number.POSITIVE_INFINITY);
      priority !== undefined && this.#taken < limit;
      priority = this.#shelf.nextPriority(priority)
    )
      this.#serve(priority, limit);
    return { taken: this.#taken, nextAt: this.#nextAt };
  }

  #serve(priority: number, limit: number): void {
    const lines = this.#spec?.rate === undefined ? [this.#line(priority, "claims")] : SHARES.map((share) => this.#line(priority, share));
    while (this.#taken < limit) {
      let first: Line | undefined;
      for (const line of lines) if (passOf(line) < (first === undefined ? Number.POSITIVE_INFINITY : passOf(first))) first = line;
      if (first === undefined) break;
      const [begun] = lines;
      // W2: of one key, what has begun goes before what is new.
      const isOneKey = begun !== undefined && passOf(begun) < Number.POSITIVE_INFINITY && keyNext(begun) === keyNext(first);
      this.#advance(isOneKey ? begun : first, priority);
    }
    for (const turn of this.#turns.values()) {
      if (!turn.isChanged) continue;
      turn.isChanged = false;
      this.#shelf.saveKey(turn.of.key, turn.share, { pass: turn.pass, isIdle: turn.isIdle });
    }
  }
  #line(priority: number, share: Share): Line {
    const lanes = this.#shelf.lanes(priority, (needs) => shareOf(needs) === share && this.#isAdmitted(needs, this.#room));
    const lag = share === "starts" ? this.#shelf.lag(priority) : 0;
    return { share, lanes, next: lanes.next(), again: new Heap<Turn>(byPass), met: new Set<string>(), lag };
  }
  /** Looks at the next key of the line, or takes from the one that is first among those that it has looked at. */
  #advance(line: Line, priority: number): void {
    const { lanes, again, met, share } = line;
    const first = again.top;
    if (line.next.done !== true && (first === undefined || line.next.value.pass < first.pass)) {
      const { value: lane } = line.next;
      line.next = lanes.next(); // its other lanes are looked at for themselves if this one is not admitted
      if (met.has(nameOf(lane.key))) return;
      const turn = this.#turnOf(lane);
      if (!this.#mayHave(turn, lane.needs)) return;
      met.add(turn.name);
      if (turn.isIdle) {
        turn.isIdle = false;
        turn.isChanged = true;
        turn.pass = Math.max(turn.pass, this.#shelf.time(priority, share));
      }
      again.push(turn);
    } else if (first !== undefined) {
      again.pop();
      if (this.#takeFrom(first, priority, line)) again.push(first);
    }
  }
  /** False: nothing of the key is admitted now. */
  #takeFrom(turn: Turn, priority: number, line: Line): boolean {
    const { of, share } = turn;
    let best: { readonly head: H; readonly lane: Lane } | undefined;
    for (const lane of this.#shelf.lanesOf(of.key, priority)) {
      if (shareOf(lane.needs) !== share || !this.#isAdmitted(lane.needs, this.#room) || !this.#mayHave(turn, lane.needs)) continue;
      const head = this.#shelf.head(lane);
      if (head !== undefined && (best === undefined || isBefore(head, lane, best.head, best.lane))) best = { head, lane };
    }
    if (best === undefined) return false;
    const { needs } = best.lane;
    if (!this.#shelf.take(best.head, best.lane)) return true;
    this.#taken++;
    if ((needs & START) !== 0) for (const room of [this.#room, of.room]) room.start(this.#now);
    if ((needs & QUEUE_SLOT) !== 0) this.#room.slots--;
    if ((needs & KEY_SLOT) !== 0) of.room.slots--;
    if (movesKey(needs)) {
      this.#moveTime(turn, priority, line);
      turn.pass += 1 / of.rules.weight;
      turn.isChanged = true;
    }
    return true;
  }
  #moveTime({ pass, share }: Turn, priority: number, line: Line): void {
    const shelf = this.#shelf;
    if (pass > shelf.time(priority, share)) shelf.saveTime(priority, share, pass);
    if (share === "claims") return;
    const time = shelf.time(priority, "claims");
    if (pass + line.lag > time) return shelf.saveTime(priority, "claims", pass + line.lag);
    if (pass + line.lag === time) return;
    // The rate has held them back meanwhile.
    line.lag = time - pass;
    shelf.saveLag(priority, line.lag);
  }
  #isAdmitted(needs: number, room: { readonly slots: number; readonly starts: number; readonly startsAt: number | undefined }): boolean {
    if ((needs & QUEUE_SLOT) !== 0 && room.slots <= 0) return false;
    if ((needs & START) === 0 || room.starts > 0) return true;
    this.#wakeAt(room.startsAt);
    return false;
  }
  #mayHave(turn: Turn, needs: number): boolean {
    const { of } = turn;
    const pausedUntil = of.key === undefined ? undefined : this.#pauses.keys.get(of.key);
    if (pausedUntil !== undefined) this.#wakeAt(pausedUntil);
    let isAdmitted = pausedUntil === undefined;
    if (isAdmitted && (needs & KEY_SLOT) !== 0 && of.room.slots <= 0) isAdmitted = this.#endExpired(of);
    if (isAdmitted && (needs & START) !== 0 && of.room.starts <= 0) {
      this.#wakeAt(of.room.startsAt);
      isAdmitted = false;
    }
    if (!isAdmitted && !turn.isIdle) {
      turn.isIdle = true;
      turn.isChanged = true;
    }
    return isAdmitted;
  }
  #endExpired(of: KeyRoom): boolean {
    if (of.key === undefined || !this.#shelf.endExpired({ key: of.key })) return false;
    of.room = new Room(this.#shelf, { key: of.key }, of.rules, this.#now);
    this.#room = this.#queueRoom();
    return of.room.slots > 0;
  }
  #turnOf({ key, pass, needs }: Lane): Turn {
    const share = shareOf(needs);
    const name = nameOf(key);
    const known = this.#turns.get(share + name);
    if (known !== undefined) return known;
    const state = this.#shelf.keyState(key, share);
    const of = this.#roomOf(key);
    const turn: Turn = { name, share, of, pass: Math.max(pass, state?.pass ?? 0), isIdle: state?.isIdle ?? false, isChanged: false };
    this.#turns.set(share + name, turn);
    return turn;
  }
  #roomOf(key: string | undefined): KeyRoom {
    const known = this.#keys.get(nameOf(key));
    if (known !== undefined) return known;
    const rules = rulesOf(this.#spec, key);
    const of = { key, rules, room: key === undefined ? { ...UNLIMITED } : new Room(this.#shelf, { key }, rules, this.#now) };
    this.#keys.set(nameOf(key), of);
    return of;
  }
  #wakeAt(at: number | undefined): void {
    if (at === undefined || !Number.isFinite(at)) return;
    if (this.#nextAt === undefined || at < this.#nextAt) this.#nextAt = at;
  }
}

/** W2: resumed before new, then by availability, then by arrival. */
function isBefore(a: Head, laneOfA: Lane, b: Head, laneOfB: Lane): boolean {
  const isNew = (laneOfA.needs & START) - (laneOfB.needs & START);
  return (isNew || a.availableAt - b.availableAt || a.order - b.order) < 0;
}
