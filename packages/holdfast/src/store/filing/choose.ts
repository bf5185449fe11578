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
// A rate of the queue itself stops all starts while runs that have begun go on. So starts have a time of their own, which stands still
// while the rate has no room, and each key has a pass in either time. A take moves both passes of its key, but only that of claims while the
// starts' time stands still: otherwise a key whose runs go on meanwhile would get no start afterwards until the others have had as many. A
// key goes by its pass of claims if it has something that has begun, and by its pass of starts otherwise (W2).

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
interface Pass extends KeyState {
  pass: number;
  isIdle: boolean;
  isChanged: boolean;
}
interface Turn {
  readonly name: string;
  readonly of: KeyRoom;
  readonly passes: Readonly<Record<Share, Pass>>;
  /** Its place in the order, by the time of claims. It may turn out to be later. */
  at: number;
}
/** The lanes of one share. */
interface Line {
  readonly lanes: Iterator<Lane>;
  next: IteratorResult<Lane>;
}
const byPlace = (a: Turn, b: Turn): number => a.at - b.at;
const nameOf = (key: string | undefined): string => (key === undefined ? "" : `=${key}`);
const SHARES: readonly Share[] = ["claims", "starts"];

class Chooser<H extends Head> {
  readonly #shelf: Shelf<H>;
  readonly #spec: StoredQueueSpec | undefined;
  readonly #pauses: Pauses;
  readonly #now: number;
  readonly #turns = new Map<string, Turn>();
  readonly #shares: readonly Share[];
  /** Of the priority that is served. */
  #times: Readonly<Record<Share, number>> = { claims: 0, starts: 0 };
  #room: Room;
  #taken = 0;
  #nextAt: number | undefined;

  constructor(shelf: Shelf<H>, spec: StoredQueueSpec | undefined, pauses: Pauses, now: number) {
    this.#shelf = shelf;
    this.#spec = spec;
    this.#pauses = pauses;
    this.#now = now;
    this.#shares = spec?.rate === undefined ? ["claims"] : SHARES;
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
    const timeOf = (share: Share): number => (this.#shares.includes(share) ? this.#shelf.time(priority, share) : 0);
    this.#times = { claims: timeOf("claims"), starts: timeOf("starts") };
    const lines = this.#shares.map((share) => this.#line(priority, share));
    /** Keys that were looked at. */
    const met = new Set<string>();
    const turns = new Heap<Turn>(byPlace);
    while (this.#taken < limit) {
      const found = this.#firstOf(lines);
      const first = turns.top;
      if (found !== undefined && (first === undefined || this.#placeOf(found.lane) < first.at)) {
        const { line, lane } = found;
        line.next = line.lanes.next(); // its other lanes are looked at for themselves if this one is not admitted
        if (met.has(nameOf(lane.key))) continue;
        const turn = this.#turnOf(lane.key);
        if (!this.#mayHave(turn, lane)) continue;
        met.add(turn.name);
        turn.at = this.#begin(turn, lane);
        turns.push(turn);
      } else if (first !== undefined) {
        turns.pop();
        if (this.#takeFrom(first, priority)) turns.push(first);
      } else break;
    }
    for (const { of, passes } of this.#turns.values())
      for (const share of this.#shares) {
        const { pass, isIdle, isChanged } = passes[share];
        if (isChanged) this.#shelf.saveKey(of.key, share, { pass, isIdle });
        passes[share].isChanged = false;
      }
  }
  #line(priority: number, share: Share): Line {
    const lanes = this.#shelf.lanes(priority, (needs) => shareOf(needs) === share && this.#isAdmitted(needs, this.#room));
    return { lanes, next: lanes.next() };
  }
  #firstOf(lines: readonly Line[]): { readonly line: Line; readonly lane: Lane } | undefined {
    let first: { readonly line: Line; readonly lane: Lane } | undefined;
    for (const line of lines) {
      if (line.next.done === true) continue;
      const { value: lane } = line.next;
      if (first === undefined || this.#placeOf(lane) < this.#placeOf(first.lane)) first = { line, lane };
    }
    return first;
  }
  /** By the time of claims. */
  #placeOf({ pass, needs }: Pick<Lane, "pass" | "needs">): number {
    return pass + this.#lag(shareOf(needs));
  }
  /** How far the time of a share is behind that of claims. */
  #lag(share: Share): number {
    return this.#times.claims - this.#times[share];
  }
  /** Its place in the order, if this lane has what the key gives next. A key that was idle has saved up nothing. */
  #begin({ passes }: Turn, { needs }: Lane): number {
    const share = shareOf(needs);
    const own = passes[share];
    if (own.isIdle) {
      own.isIdle = false;
      own.isChanged = true;
      own.pass = Math.max(own.pass, this.#times[share]);
    }
    return this.#placeOf({ pass: own.pass, needs });
  }
  /** False: nothing of the key is admitted now. */
  #takeFrom(turn: Turn, priority: number): boolean {
    const { of } = turn;
    let best: { readonly head: H; readonly lane: Lane } | undefined;
    for (const lane of this.#shelf.lanesOf(of.key, priority)) {
      if (!this.#isAdmitted(lane.needs, this.#room) || !this.#mayHave(turn, lane)) continue;
      const head = this.#shelf.head(lane);
      if (head !== undefined && (best === undefined || isBefore(head, lane, best.head, best.lane))) best = { head, lane };
    }
    if (best === undefined) return false;
    const looked = turn.at;
    turn.at = this.#begin(turn, best.lane);
    if (turn.at > looked) return true; // others may come first
    const { needs } = best.lane;
    if (!this.#shelf.take(best.head, best.lane)) return true;
    this.#taken++;
    if (movesKey(needs)) this.#move(turn, priority);
    if ((needs & START) !== 0) for (const room of [this.#room, of.room]) room.start(this.#now);
    if ((needs & QUEUE_SLOT) !== 0) this.#room.slots--;
    if ((needs & KEY_SLOT) !== 0) of.room.slots--;
    return true;
  }
  /** One of the key was taken, at its place in the order. */
  #move(turn: Turn, priority: number): void {
    const step = Math.max(0, turn.at - this.#times.claims);
    const lag = this.#lag("starts");
    turn.at += 1 / turn.of.rules.weight;
    const isStill = this.#room.starts <= 0;
    const { claims, starts } = this.#times;
    this.#times = { claims: claims + step, starts: isStill ? starts : starts + step };
    for (const share of this.#shares) {
      if (step > 0) this.#shelf.saveTime(priority, share, this.#times[share]);
      if (share === "starts" && isStill) continue;
      const own = turn.passes[share];
      own.pass = Math.max(own.pass, turn.at - (share === "starts" ? lag : 0));
      own.isChanged = true;
    }
  }
  #isAdmitted(needs: number, room: { readonly slots: number; readonly starts: number; readonly startsAt: number | undefined }): boolean {
    if ((needs & QUEUE_SLOT) !== 0 && room.slots <= 0) return false;
    if ((needs & START) === 0 || room.starts > 0) return true;
    this.#wakeAt(room.startsAt);
    return false;
  }
  #mayHave({ of, passes }: Turn, { needs, pass }: Lane): boolean {
    const own = passes[shareOf(needs)];
    own.pass = Math.max(own.pass, pass);
    const pausedUntil = of.key === undefined ? undefined : this.#pauses.keys.get(of.key);
    if (pausedUntil !== undefined) this.#wakeAt(pausedUntil);
    let isAdmitted = pausedUntil === undefined;
    if (isAdmitted && (needs & KEY_SLOT) !== 0 && of.room.slots <= 0) isAdmitted = this.#endExpired(of);
    if (isAdmitted && (needs & START) !== 0 && of.room.starts <= 0) {
      this.#wakeAt(of.room.startsAt);
      isAdmitted = false;
    }
    if (!isAdmitted && !own.isIdle) {
      own.isIdle = true;
      own.isChanged = true;
    }
    return isAdmitted;
  }
  #endExpired(of: KeyRoom): boolean {
    if (of.key === undefined || !this.#shelf.endExpired({ key: of.key })) return false;
    of.room = new Room(this.#shelf, { key: of.key }, of.rules, this.#now);
    this.#room = this.#queueRoom();
    return of.room.slots > 0;
  }
  #turnOf(key: string | undefined): Turn {
    const name = nameOf(key);
    const known = this.#turns.get(name);
    if (known !== undefined) return known;
    const rules = rulesOf(this.#spec, key);
    const room = key === undefined ? { ...UNLIMITED } : new Room(this.#shelf, { key }, rules, this.#now);
    const passOf = (share: Share): Pass => {
      const { pass = 0, isIdle = false } = (this.#shares.includes(share) ? this.#shelf.keyState(key, share) : undefined) ?? {};
      return { pass, isIdle, isChanged: false };
    };
    const turn: Turn = { name, of: { key, rules, room }, passes: { claims: passOf("claims"), starts: passOf("starts") }, at: 0 };
    this.#turns.set(name, turn);
    return turn;
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
