// What is known of a queue from the calls that the store has carried out: its limits, its pauses, and what was started in it.
// Owns: a second reading of a queue's spec; it shares no code with the stores.
// Invariants: Q1 (what an entry of `keys` leaves out is as in `perKey`; `perKey` does not limit runs without a key), Q4 (a window begins
// anywhere), Q8 (a pause ends at its time, or when it is resumed).

import type { QueueLimit, QueueRate, StoredQueueSpec } from "holdfast/store";

export const QUEUE_SLOT = 1;
export const KEY_SLOT = 2;
export const BOTH_SLOTS = QUEUE_SLOT | KEY_SLOT;
/** The limits that a piece of work counts against: those of the queue, and those of its key. */
export const PARTS = ["queue", "key"] as const;
export type Part = (typeof PARTS)[number];

interface Start {
  readonly at: number;
  readonly key: string | undefined;
}
/** First claims of runs, or attempts of activities. */
class Starts {
  readonly #all: Start[] = [];
  /** Those from this one on were made under a rate that the store had to keep them for. */
  #sureFrom = 0;

  add(at: number, key: string | undefined): void {
    this.#all.push({ at, key });
  }
  /** Earlier starts may not count: no rate asked for them. */
  forget(): void {
    this.#sureFrom = this.#all.length;
  }
  /** Those that a start at this moment shares a window with. */
  within(rate: QueueRate, now: number, of: { readonly key: string | undefined } | undefined, which: "sure" | "all"): readonly number[] {
    const starts = which === "sure" ? this.#all.slice(this.#sureFrom) : this.#all;
    return starts.filter(({ at, key }) => at > now - rate.per && (of === undefined || of.key === key)).map(({ at }) => at);
  }
}

export class QueueState {
  readonly name: string;
  spec: StoredQueueSpec | undefined;
  readonly runStarts = new Starts();
  readonly taskStarts = new Starts();
  #pausedUntil = 0;
  readonly #pausedKeys = new Map<string, number>();

  constructor(name: string) {
    this.name = name;
  }
  set(spec: StoredQueueSpec | undefined): void {
    if (longestWindow(spec) > longestWindow(this.spec)) for (const starts of [this.runStarts, this.taskStarts]) starts.forget();
    this.spec = spec;
  }
  pause(key: string | undefined, until: number): void {
    if (key === undefined) this.#pausedUntil = until;
    else this.#pausedKeys.set(key, until);
  }
  resume(key: string | undefined): void {
    this.pause(key, 0);
  }
  /** Until when work of the key waits for a pause to end. */
  pausedUntil(key: string | undefined, now: number): number | undefined {
    const until = Math.max(this.#pausedUntil, (key === undefined ? undefined : this.#pausedKeys.get(key)) ?? 0);
    return until > now ? until : undefined;
  }
  limitOf(part: Part, key: string | undefined): QueueLimit {
    const { spec = {} } = this;
    if (part === "queue") return spec;
    if (key === undefined) return {};
    const own = Object.entries(spec.keys ?? {}).find(([name]) => name === key)?.[1];
    return { concurrency: own?.concurrency ?? spec.perKey?.concurrency, rate: own?.rate ?? spec.perKey?.rate };
  }
  weightOf(key: string | undefined): number {
    const own = Object.entries(this.spec?.keys ?? {}).find(([name]) => name === key)?.[1];
    return own?.weight ?? 1;
  }
}

function longestWindow(spec: StoredQueueSpec | undefined): number {
  const limits = [spec, spec?.perKey, ...Object.values(spec?.keys ?? {})];
  return Math.max(0, ...limits.map((limit) => limit?.rate?.per ?? 0));
}
