// Checks that the keys of a queue share it by their weights: the oracle "shares". One for claims and, where the queue has a rate, one more for
// the starts that the rate lets through.
// Owns: how often each key was served while another was ready, too.
// Invariants: Q5 (of two keys that have something admissible throughout, served/weight differs by at most 1/w₁ + 1/w₂ over any stretch).
//
// A stretch of two keys ends when one of them has nothing that was ready all the time, or when the queue is changed. Of starts it does not end
// while the rate of the queue has no room, which is so for all, but with what a key has that goes on in place of a start. Only queues in which everything has the same priority are checked: one pass for all lets a key be
// ahead that was served at another priority.

import type { World } from "../world.ts";

type Key = string | undefined;
/** The ids of what each key has ready. */
export type Ready = ReadonlyMap<Key, ReadonlySet<string>>;

interface Stretch {
  readonly keys: readonly [Key, Key];
  /** served/weight of the first key minus that of the second, since the stretch began. */
  ahead: number;
  most: number;
  least: number;
}

export class QueueShares {
  readonly #world: World;
  readonly #what: string;
  readonly #stretches = new Map<string, Stretch>();
  /** The smallest that each key has had: what a key was served by an old weight counts until others have caught up. */
  readonly #weights = new Map<Key, number>();
  #ready: Ready = new Map();
  #priority: number | undefined;
  #isMixed = false;

  /** `what`: is shared. */
  constructor(world: World, what: string) {
    this.#world = world;
    this.#what = what;
  }
  /** The queue has changed. */
  reset(): void {
    this.#stretches.clear();
    this.#ready = new Map();
  }
  /** Before a claim: a key whose work was ready after the previous claim, and no longer is, was interrupted. */
  before(ready: Ready): void {
    const isSame = (key: Key): boolean => [...(this.#ready.get(key) ?? [])].some((id) => ready.get(key)?.has(id) === true);
    for (const [name, { keys }] of this.#stretches) if (!keys.every(isSame)) this.#stretches.delete(name);
  }
  after(ready: Ready): void {
    this.#ready = ready;
    for (const [name, { keys }] of this.#stretches) if (!keys.every((key) => ready.has(key))) this.#stretches.delete(name);
  }
  /** A key is, or was, served by this weight. */
  weigh(key: Key, weight: number): void {
    this.#weights.set(key, Math.min(this.#weights.get(key) ?? weight, weight));
  }
  /** A key is served with something else, which counts for it. */
  interrupted(key: Key): void {
    for (const [name, { keys }] of this.#stretches) if (keys.includes(key)) this.#stretches.delete(name);
  }
  /** One of `key` is claimed, while all of these keys have something that could be claimed instead. */
  served(key: Key, weight: (key: Key) => number, priority: number, ready: ReadonlySet<Key>): void {
    this.#isMixed ||= this.#priority !== undefined && this.#priority !== priority;
    this.#priority = priority;
    for (const [name, { keys }] of this.#stretches) if (!keys.every((one) => ready.has(one))) this.#stretches.delete(name);
    for (const one of ready) this.weigh(one, weight(one));
    if (this.#isMixed) return;
    for (const other of ready) if (other !== key) this.#count(key, other, weight(key));
  }
  #count(key: Key, other: Key, weight: number): void {
    const keys = [key, other].toSorted((a, b) => nameOf(a).localeCompare(nameOf(b))) as [Key, Key];
    const name = JSON.stringify(keys.map(nameOf));
    const stretch = this.#stretches.get(name) ?? { keys, ahead: 0, most: 0, least: 0 };
    this.#stretches.set(name, stretch);
    stretch.ahead += (key === keys[0] ? 1 : -1) / weight;
    stretch.most = Math.max(stretch.most, stretch.ahead);
    stretch.least = Math.min(stretch.least, stretch.ahead);
    const bound = keys.reduce((sum, one) => sum + 1 / (this.#weights.get(one) ?? 1), 0);
    if (stretch.most - stretch.least > bound + 1e-9)
      this.#world.violate(
        "shares",
        "Q5",
        `of ${this.#what}, ${nameOf(key)} was served ${(stretch.most - stretch.least).toFixed(2)} more than ${nameOf(other)} by weight, while both were ready; at most ${bound.toFixed(2)} is fair`,
      );
  }
}

const nameOf = (key: Key): string => (key === undefined ? "work without a key" : `key ${key}`);
