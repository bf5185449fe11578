// Filed work in memory: what has a key, or waits in a queue with limits. One object for the runs of a queue, and one for its activities.
// Owns: the lanes, the passes of keys, which work holds a slot, and when work was started.
// Invariants: Q5 (the order of a lane: availability, then arrival), Q4 (starts are kept as long as a window reaches). Entries are never removed
// when things change: outdated ones are skipped when they are reached.

import type { Head, KeyState, Lane, Shelf } from "../filing/choose.ts";
import { Heap } from "../filing/heap.ts";
import { KEY_SLOT, QUEUE_SLOT, type Share, shareOf } from "../filing/rules.ts";
import type { Accepts, Claimable } from "./claimQueue.ts";

export interface Filed extends Claimable {
  readonly key?: string | undefined;
}
/** What the owner of the work knows of it. */
export interface FiledHost<T> {
  /** What a claim of it would need now, as bits. */
  needs(item: T): number;
  /** The slots of this queue that it holds now, as bits. */
  holds(item: T): number;
  /** Q3: ends the lease that it lost. */
  endLease(item: T): void;
}
interface Entry<T> extends Head {
  readonly item: T;
  /** Which of the changes of the item this is. */
  readonly change: number;
}
interface Place {
  readonly name: string;
  readonly variant: string | undefined;
}
interface KeptLane<T> extends Lane {
  pass: number;
  readonly place: string;
  readonly entries: Heap<Entry<T>>;
}
/** Where lanes of one place, priority and needs are, by pass. */
interface Row<T> {
  readonly place: string;
  readonly priority: number;
  readonly needs: number;
  readonly lanes: Heap<{ readonly lane: KeptLane<T>; readonly pass: number }>;
}
type Of = "queue" | { readonly key: string };

const byTime = (a: Head, b: Head): number => a.availableAt - b.availableAt || a.order - b.order;
const byPass = (a: { lane: Lane; pass: number }, b: { lane: Lane; pass: number }): number => a.pass - b.pass || a.lane.lane - b.lane.lane;
const MANY_KEYS = 1_000;

export class FiledWork<T extends Filed> {
  readonly #host: FiledHost<T>;
  readonly #places = new Map<string, Place & { readonly later: Heap<Entry<T>> }>();
  readonly #lanes = new Map<string, KeptLane<T>>();
  readonly #rows = new Map<string, Row<T>>();
  readonly #lanesOfKey = new Map<string | undefined, Set<KeptLane<T>>>();
  readonly #shares: Readonly<Record<Share, Passes>> = { claims: new Passes(), starts: new Passes() };
  readonly #changes = new WeakMap<T, number>();
  readonly #placeOf = new WeakMap<T, string>();
  readonly #holders = new Set<T>();
  #starts: { readonly at: number; readonly key: string | undefined }[] = [];
  #lastLane = 0;

  constructor(host: FiledHost<T>) {
    this.#host = host;
  }
  /** Whether anything was ever filed here and may still be. */
  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  /** Call it whenever `availableAt`, or what it needs, has changed. */
  put(name: string, variant: string | undefined, item: T): void {
    const change = this.remove(item);
    const { availableAt, order } = item;
    const place = variant === undefined ? name : `${name}\n${variant}`;
    this.#placeOf.set(item, place);
    const known = this.#places.get(place) ?? { name, variant, later: new Heap<Entry<T>>(byTime) };
    this.#places.set(place, known);
    if (availableAt !== undefined) known.later.push({ item, availableAt, order, change });
  }
  /** Removes it: it is filed elsewhere from now on. */
  remove(item: T): number {
    const change = (this.#changes.get(item) ?? 0) + 1;
    this.#changes.set(item, change);
    return change;
  }
  /** It may hold a slot from now on. */
  hold(item: T): void {
    this.#holders.add(item);
  }
  started(key: string | undefined, at: number, keepAfter: number): void {
    const from = this.#starts.findIndex((start) => start.at > keepAfter);
    this.#starts = from < 0 ? [] : this.#starts.slice(from);
    this.#starts.push({ at, key });
  }
  /** Everything is filed again: until then no key has anything to claim. */
  forgetReady(): void {
    for (const passes of Object.values(this.#shares)) for (const key of passes.keys.keys()) passes.idle(key);
  }
  /** The clock was set back: what was started later than now counts from now. */
  cutStarts(now: number): void {
    this.#starts = this.#starts.map(({ at, key }) => ({ at: Math.min(at, now), key }));
  }

  /** When the next is due that is not yet. */
  next(accepts: Accepts): number | undefined {
    let next: number | undefined;
    for (const { name, variant, later } of this.#places.values()) {
      const at = accepts(name, variant) ? this.#top(later)?.availableAt : undefined;
      if (at !== undefined && (next === undefined || at < next)) next = at;
    }
    return next;
  }
  #isSo({ item, availableAt, change }: Entry<T>): boolean {
    return item.availableAt === availableAt && this.#changes.get(item) === change;
  }
  #top(heap: Heap<Entry<T>>): Entry<T> | undefined {
    while (heap.top !== undefined && !this.#isSo(heap.top)) heap.pop();
    return heap.top;
  }
  #held(slot: number, isCounted: (item: T) => boolean): number {
    let held = 0;
    for (const item of this.#holders) {
      const holds = this.#host.holds(item);
      if (holds === 0) this.#holders.delete(item);
      else if ((holds & slot) !== 0 && isCounted(item)) held++;
    }
    return held;
  }
  #ripen(accepts: Accepts, now: number): void {
    for (const [place, { name, variant, later }] of this.#places) {
      if (!accepts(name, variant)) continue;
      for (let top = this.#top(later); top !== undefined && top.availableAt <= now; top = this.#top(later)) {
        later.pop();
        this.#lane(place, top.item).entries.push(top);
      }
    }
  }
  #lane(place: string, item: T): KeptLane<T> {
    const { key, priority } = item;
    const needs = this.#host.needs(item);
    const name = JSON.stringify([place, priority, needs, key ?? null]);
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const siblings = this.#lanesOfKey.get(key) ?? new Set<KeptLane<T>>();
    const share = shareOf(needs);
    const sibling = [...siblings].find((one) => shareOf(one.needs) === share);
    const passes = this.#shares[share];
    // Q5: an idle key saves up nothing.
    const pass = sibling?.pass ?? Math.max(passes.keys.get(key)?.pass ?? 0, passes.time(priority));
    const lane: KeptLane<T> = { lane: ++this.#lastLane, key, priority, needs, pass, place, entries: new Heap<Entry<T>>(byTime) };
    this.#lanes.set(name, lane);
    this.#lanesOfKey.set(key, siblings.add(lane));
    this.#enter(lane);
    return lane;
  }
  #enter(lane: KeptLane<T>): void {
    const { place, priority, needs, pass } = lane;
    const name = JSON.stringify([place, priority, needs]);
    const row: Row<T> = this.#rows.get(name) ?? { place, priority, needs, lanes: new Heap<{ lane: KeptLane<T>; pass: number }>(byPass) };
    this.#rows.set(name, row);
    row.lanes.push({ lane, pass });
  }
  #drop(lane: KeptLane<T>): void {
    const { place, priority, needs, key } = lane;
    const name = JSON.stringify([place, priority, needs, key ?? null]);
    if (this.#lanes.get(name) === lane) this.#lanes.delete(name);
    const siblings = this.#lanesOfKey.get(key);
    siblings?.delete(lane);
    if (siblings?.size === 0) this.#lanesOfKey.delete(key);
  }
  /** What a claimer with this code can have. `plain`: what waits besides, as one key. */
  shelf(accepts: Accepts, now: number, take: (item: T) => boolean, plain?: PlainWork<T>): Shelf<ShelfHead<T>> & { close(): void } {
    this.#ripen(accepts, now);
    const served = new Set([...this.#places].flatMap(([place, { name, variant }]) => (accepts(name, variant) ? [place] : [])));
    const rows = (): Row<T>[] => [...this.#rows.values()].filter(({ place }) => served.has(place));
    const top = (row: Row<T>) => {
      for (let first = row.lanes.top; first !== undefined; first = row.lanes.top) {
        if (first.lane.pass === first.pass && first.lane.entries.top !== undefined && this.#lanesOfKey.get(first.lane.key)?.has(first.lane))
          return first;
        row.lanes.pop();
      }
      return undefined;
    };
    const looked: { readonly row: Row<T>; readonly entry: { lane: KeptLane<T>; pass: number } }[] = [];
    const plainLane = (priority: number, item: T): Lane => {
      const { keys, time } = this.#shares.claims;
      const pass = keys.get(undefined)?.pass ?? time(priority);
      return { lane: 0, key: undefined, priority, needs: this.#host.needs(item), pass };
    };
    const isIn = (of: Of) => (of === "queue" ? () => true : ({ key }: { readonly key?: string | undefined }) => key === of.key);
    return {
      nextPriority: (below) => {
        const waiting = plain?.peek(below);
        let next = waiting?.priority;
        for (const row of rows())
          if (row.priority < below && (next === undefined || row.priority > next) && top(row) !== undefined) next = row.priority;
        if (plain !== undefined && waiting === undefined && below === Number.POSITIVE_INFINITY) this.#shares.claims.idle(undefined);
        return next;
      },
      lanes: (priority, admits) => {
        let waiting = plain?.peek(priority + 1);
        if (waiting?.priority !== priority) waiting = undefined;
        const next = (): IteratorResult<Lane> => {
          let best: Row<T> | undefined;
          for (const row of rows()) {
            if (row.priority !== priority || !admits(row.needs)) continue;
            const first = top(row);
            const rival = best?.lanes.top;
            if (first !== undefined && (rival === undefined || byPass(first, rival) < 0)) best = row;
          }
          const first = best?.lanes.top;
          if (waiting !== undefined && admits(this.#host.needs(waiting))) {
            const lane = plainLane(priority, waiting);
            if (first === undefined || lane.pass <= first.pass) {
              waiting = undefined;
              return { done: false, value: lane };
            }
          }
          if (best === undefined || first === undefined) return { done: true, value: undefined };
          best.lanes.pop();
          looked.push({ row: best, entry: first });
          return { done: false, value: { ...first.lane } };
        };
        return { next };
      },
      lanesOf: (key, priority) => {
        const waiting = key === undefined ? plain?.peek(priority + 1) : undefined;
        const lanes = [...(this.#lanesOfKey.get(key) ?? [])].filter((lane) => lane.priority === priority && served.has(lane.place));
        return waiting?.priority === priority ? [...lanes, plainLane(priority, waiting)] : lanes;
      },
      head: ({ lane: number, key, priority }) => {
        if (number === 0) {
          const item = plain?.peek(priority + 1);
          const { availableAt = 0, order = 0 } = item ?? {};
          return item?.priority === priority ? { item, availableAt, order, lane: undefined } : undefined;
        }
        for (const lane of this.#lanesOfKey.get(key) ?? []) if (lane.lane === number) return this.#head(lane, now);
        return undefined;
      },
      take: ({ item, lane }) => {
        if (lane === undefined) plain?.take(item);
        else {
          lane.entries.pop();
          if (this.#top(lane.entries) === undefined) this.#drop(lane);
        }
        return take(item);
      },
      held: (of) => this.#held(of === "queue" ? QUEUE_SLOT : KEY_SLOT, isIn(of)),
      startsAfter: (moment, of) => this.#starts.filter((start) => start.at > moment && isIn(of)(start)).map(({ at }) => at),
      keyState: (key, share) => this.#shares[share].keys.get(key),
      saveKey: (key, share, state) => {
        // Plain work has no lane whose end would show that it is idle from now on.
        const isLast = key === undefined && plain !== undefined && plain.peek(Number.POSITIVE_INFINITY) === undefined;
        this.#shares[share].keys.set(key, { pass: state.pass, isIdle: state.isIdle || isLast });
        for (const lane of this.#lanesOfKey.get(key) ?? []) {
          if (lane.pass === state.pass || shareOf(lane.needs) !== share) continue;
          lane.pass = state.pass;
          this.#enter(lane);
        }
      },
      time: (priority, share) => this.#shares[share].time(priority),
      saveTime: (priority, share, time) => this.#shares[share].saveTime(priority, time),
      endExpired: (of) => this.#endExpired(isIn(of), served, now),
      close: () => {
        for (const { row, entry } of looked) row.lanes.push(entry);
        const isNeeded = (key: string | undefined): boolean => this.#lanesOfKey.has(key);
        for (const passes of Object.values(this.#shares))
          if (passes.keys.size > MANY_KEYS + 2 * this.#lanesOfKey.size) passes.forget(isNeeded);
      },
    };
  }
  /** The first that is due and needs what its lane says. One that needs something else goes where it belongs. */
  #head(lane: KeptLane<T>, now: number): ShelfHead<T> | undefined {
    for (let top = this.#top(lane.entries); top !== undefined; top = this.#top(lane.entries)) {
      const { item, availableAt, order } = top;
      if (availableAt <= now && this.#host.needs(item) === lane.needs) return { item, availableAt, order, lane };
      lane.entries.pop();
      this.#places.get(lane.place)?.later.push(top);
    }
    this.#drop(lane);
    return undefined;
  }
  #endExpired(isCounted: (item: T) => boolean, served: ReadonlySet<string>, now: number): boolean {
    let isEnded = false;
    for (const item of this.#holders) {
      const { availableAt = Number.POSITIVE_INFINITY } = item;
      if (availableAt > now || !isCounted(item) || served.has(this.#placeOf.get(item) ?? "") || this.#host.holds(item) === 0) continue;
      this.#host.endLease(item);
      isEnded ||= this.#host.holds(item) === 0;
    }
    return isEnded;
  }
}

/** How far keys are with one of the things that they share. */
class Passes {
  readonly keys = new Map<string | undefined, KeyState>();
  readonly #times = new Map<number, number>();
  /** The pass of what was served last, at any priority. */
  #lastTime = 0;

  readonly time = (priority: number): number => this.#times.get(priority) ?? this.#lastTime;
  saveTime(priority: number, time: number): void {
    this.#times.set(priority, time);
    this.#lastTime = time;
  }
  idle(key: string | undefined): void {
    const state = this.keys.get(key);
    if (state?.isIdle === false) this.keys.set(key, { ...state, isIdle: true });
  }
  /** Those whose passes are no longer ahead of any that will be served. */
  forget(isNeeded: (key: string | undefined) => boolean): void {
    const latest = Math.min(...this.#times.values());
    for (const [key, { pass }] of this.keys) if (pass <= latest && !isNeeded(key)) this.keys.delete(key);
  }
}

interface ShelfHead<T> extends Head {
  readonly item: T;
  /** Undefined: it waits with the plain work. */
  readonly lane: KeptLane<T> | undefined;
}
/** Work without a key in a queue without limits: together it is one key (Q1). */
export interface PlainWork<T> {
  /** The first that is due, below this priority. */
  peek(below: number): T | undefined;
  take(item: T): void;
}
