// What the limits of a queue say about one key, and what one piece of work needs.
// Owns: how a spec is read. It knows nothing of how stores keep things.
// Invariants: Q1 (what an entry of `keys` leaves out is as in `perKey`; work without a key is one key that `perKey` does not limit),
// Q2 (what holds a slot, and what needs one), Q4 (what counts as a start), Q5 (what keys share).

import type { QueueRate, StoredQueueSpec } from "../queuePort.ts";

/** What a claim needs, as bits. None: the work holds what it needs, or uses the slot of an ancestor. */
export const QUEUE_SLOT = 1;
export const KEY_SLOT = 2;
export const START = 4;
/** The start counts for a rate of the queue as a whole. */
export const SHARED_START = 8;
export const SLOTS = QUEUE_SLOT | KEY_SLOT;

/** What keys share, each by a pass: claims in general and, where the queue has a rate of its own, starts. */
export type Share = "claims" | "starts";
export const shareOf = (needs: number): Share => ((needs & SHARED_START) === 0 ? "claims" : "starts");

/** What the store knows of a run, or of an activity, that waits. */
export interface Waiter {
  /** Its lease has ended, and no worker has claimed it since. */
  readonly isLeased: boolean;
  /** It was claimed before, in any execution since it was started. */
  readonly isBegun: boolean;
  /** With `counts: "open"`: the slots that it holds, as bits. */
  readonly held: number;
  /** The slots that ancestors hold for it now, as bits. Only where open runs count. */
  readonly covered: number;
}

export function needsOf({ isLeased, isBegun, held, covered }: Waiter, spec: StoredQueueSpec | undefined): number {
  const start = isBegun ? 0 : spec?.rate === undefined ? START : START | SHARED_START;
  if (spec?.counts === "open") return (SLOTS & ~held & ~covered) | start;
  return isLeased ? 0 : SLOTS | start; // Q3: an expired lease is held until it is claimed
}
/** An activity: each attempt is a start (Q4), and so there is nothing but starts to share. */
export const TASK_NEEDS = SLOTS | START;

/** Q5: a claim that takes nothing which the keys of the queue share doesn't move its key. */
export const movesKey = (needs: number): boolean => (needs & (QUEUE_SLOT | SHARED_START)) !== 0;

/** A run that others wait for, and the slots of its queue that it holds now, as bits. */
export interface Ancestor {
  readonly queue: string;
  readonly key: string | undefined;
  readonly held: number;
}
/** Q2: the slots that ancestors of a run hold for it, as bits: one of its queue and, with that, one of its key. */
export function coveredBy(ancestors: Iterable<Ancestor>, run: { readonly queue: string; readonly key?: string | undefined }): number {
  let covered = 0;
  for (const { queue, key, held } of ancestors) {
    if (queue !== run.queue) continue;
    covered |= held & (key === run.key ? SLOTS : QUEUE_SLOT);
  }
  return (covered & QUEUE_SLOT) === 0 ? 0 : covered;
}

export interface KeyRules {
  readonly concurrency: number | undefined;
  readonly rate: QueueRate | undefined;
  readonly weight: number;
}
const WITHOUT_KEY: KeyRules = { concurrency: undefined, rate: undefined, weight: 1 };

export function rulesOf(spec: StoredQueueSpec | undefined, key: string | undefined): KeyRules {
  if (key === undefined || spec === undefined) return WITHOUT_KEY;
  const own = spec.keys !== undefined && Object.hasOwn(spec.keys, key) ? spec.keys[key] : undefined;
  return {
    concurrency: own?.concurrency ?? spec.perKey?.concurrency,
    rate: own?.rate ?? spec.perKey?.rate,
    weight: own?.weight ?? 1,
  };
}

/** The longest window of any rate: older starts don't matter. 0: there is no rate. */
export function longestWindow(spec: StoredQueueSpec | undefined): number {
  if (spec === undefined) return 0;
  const rates = [spec.rate, spec.perKey?.rate, ...Object.values(spec.keys ?? {}).map(({ rate }) => rate)];
  return Math.max(0, ...rates.map((rate) => rate?.per ?? 0));
}
