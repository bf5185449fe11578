// What can be claimed, and when: runs or tasks that become available, by queue and by the code that they need.
// Owns: the order of claims. Entries are never removed when things change: outdated ones are skipped when they are reached.
// Invariants: W2 (priority, then the time it became available, then arrival), W1 V2 (only from places that the claimer names).

import { Heap } from "../filing/heap.ts";

export interface Claimable {
  readonly order: number;
  readonly priority: number;
  /** Undefined: not to be claimed. */
  readonly availableAt: number | undefined;
}
interface Entry<T> {
  readonly item: T;
  readonly at: number;
  readonly priority: number;
  readonly order: number;
}
interface Place<T> {
  readonly name: string;
  readonly variant: string | undefined;
  readonly ready: Heap<Entry<T>>;
  readonly later: Heap<Entry<T>>;
}
/** Whether a claimer has the code: by workflow and version, or by activity. */
export type Accepts = (name: string, variant: string | undefined) => boolean;

const byTurn = (a: Entry<unknown>, b: Entry<unknown>): number => b.priority - a.priority || a.at - b.at || a.order - b.order;
const byTime = (a: Entry<unknown>, b: Entry<unknown>): number => a.at - b.at;

export class ClaimQueue<T extends Claimable> {
  readonly #queues = new Map<string, Map<string, Place<T>>>();
  /** Where each is entered now: a run may come back under another queue or version. */
  readonly #placeOf = new WeakMap<T, Place<T>>();

  /** Every queue that something was ever put into. */
  get queues(): Iterable<string> {
    return this.#queues.keys();
  }
  /** Call it whenever `availableAt` has changed. */
  put(queue: string, name: string, variant: string | undefined, item: T): void {
    const { availableAt, priority, order } = item;
    if (availableAt === undefined) return;
    const place = this.#place(queue, name, variant);
    this.#placeOf.set(item, place);
    place.later.push({ item, at: availableAt, priority, order });
  }
  /** The items that are due, in the order of claims. The caller must change the `availableAt` of each before the next call. */
  due(queue: string, accepts: Accepts, limit: number, now: number): T[] {
    const places = this.#accepted(queue, accepts);
    for (const place of places) this.#ripen(place, now);
    const taken: T[] = [];
    while (taken.length < limit) {
      const entry = this.#first(places)?.ready.pop();
      if (entry === undefined) break;
      // The same thing may be entered twice for one moment.
      if (!taken.includes(entry.item)) taken.push(entry.item);
    }
    return taken;
  }
  /** The first that is due. */
  peek(queue: string, accepts: Accepts, now: number): T | undefined {
    const places = this.#accepted(queue, accepts);
    for (const place of places) this.#ripen(place, now);
    return this.#first(places)?.ready.top?.item;
  }
  /** Takes out what `peek` has returned. */
  pop(queue: string, accepts: Accepts): void {
    this.#first(this.#accepted(queue, accepts))?.ready.pop();
  }
  /** Removes it: it waits elsewhere from now on. */
  remove(item: T): void {
    this.#placeOf.delete(item);
  }
  /** The earliest moment after now at which anything is due. */
  nextAfter(queue: string, accepts: Accepts, now: number): number | undefined {
    let next: number | undefined;
    for (const place of this.#accepted(queue, accepts)) {
      this.#ripen(place, now);
      const at = this.#top(place, place.later)?.at;
      if (at !== undefined && (next === undefined || at < next)) next = at;
    }
    return next;
  }
  /** The earliest moment at which anything is due. */
  next(queue: string, accepts: Accepts): number | undefined {
    let next: number | undefined;
    for (const place of this.#accepted(queue, accepts)) {
      for (const heap of [place.ready, place.later]) {
        const at = this.#top(place, heap)?.at;
        if (at !== undefined && (next === undefined || at < next)) next = at;
      }
    }
    return next;
  }

  #place(queue: string, name: string, variant: string | undefined): Place<T> {
    const places = this.#queues.get(queue) ?? new Map<string, Place<T>>();
    this.#queues.set(queue, places);
    const key = variant === undefined ? name : `${name}\n${variant}`;
    const place = places.get(key) ?? { name, variant, ready: new Heap<Entry<T>>(byTurn), later: new Heap<Entry<T>>(byTime) };
    places.set(key, place);
    return place;
  }
  #accepted(queue: string, accepts: Accepts): Place<T>[] {
    return [...(this.#queues.get(queue)?.values() ?? [])].filter(({ name, variant }) => accepts(name, variant));
  }
  /** The place whose first entry is the first of all. */
  #first(places: readonly Place<T>[]): Place<T> | undefined {
    let best: Place<T> | undefined;
    for (const place of places) {
      const top = this.#top(place, place.ready);
      const rival = best?.ready.top;
      if (top !== undefined && (rival === undefined || byTurn(top, rival) < 0)) best = place;
    }
    return best;
  }
  #isSo(place: Place<T>, { item, at }: Entry<T>): boolean {
    return item.availableAt === at && this.#placeOf.get(item) === place;
  }
  /** The first entry that is not outdated. */
  #top(place: Place<T>, heap: Heap<Entry<T>>): Entry<T> | undefined {
    for (let top = heap.top; top !== undefined; top = heap.top) {
      if (this.#isSo(place, top)) return top;
      heap.pop();
    }
    return undefined;
  }
  #ripen(place: Place<T>, now: number): void {
    for (let top = this.#top(place, place.later); top !== undefined && top.at <= now; top = this.#top(place, place.later)) {
      place.later.pop();
      place.ready.push(top);
    }
  }
}
