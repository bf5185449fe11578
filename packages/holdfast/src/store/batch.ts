// The batch contract: how a store carries out a call with many items.
// Owns: the words of it: answer, limits, and the items that are nothing else; the faults of a rejected call are in store/errors.ts.
// Invariants: D2 D3.
//
// For `create commit send answerTasks renew heartbeat terminate resume`:
// - A call is one transaction. It answers item by item, in order: with the item's result (also for what is wrong with the item alone: a claim
//   that is over, an id that is taken), or "busy": another transaction holds a lock that the item needs, and nothing of the item was written.
//   If one item of a key is busy, so are those behind it in the call. The key is the run; of a task its id; of a new run its idempotency key,
//   or else its id.
// - Or the call rejects and has written nothing. What the rejection means for the items is the `fault` of the StoreError: "refused" (an item
//   is at fault: a value that is too large, a constraint, a trigger), "busy" (an item needs a lock that another transaction holds), or
//   "unavailable" (all other reasons: all items fail). After the first two the caller hands over parts of the batch, down to single items:
//   "refused" must not stand for trouble that passes.
// - A store whose answer was lost finds out whether the call was carried out before it rejects. Only a store that can't be reached to find
//   out may reject with HF_STORE_UNAVAILABLE all the same.
// - `limits` says how much one call takes and how many calls may be under way at once.
// The host's batcher (store/batcher.ts) is the only caller of these methods, and the only place where a bad item is separated from the others.
// Where the store picks the items (`claim expire retire claimTasks`) it isolates a bad row itself.

import type { Payload } from "@holdfast/core";

/** The answer to one item of a call. "busy": another transaction holds a lock that it needs, and nothing of it was written. */
export type Answer<R> = R | "busy";

/** How much one call of the batch contract takes. */
export interface BatchLimits {
  /** Items. What there is more goes into the next call, after a turn of the event loop. */
  readonly items: number;
  /** Bytes of the values in them, about. */
  readonly bytes: number;
  /**
   * How many commits may be under way at once, each of other runs. More than one where the store works elsewhere: the process then hands
   * over half of its runs at a time, and works on the others meanwhile.
   */
  readonly calls: number;
}

/** What a worker knows of a claim that it renews. */
export interface HeldClaim {
  readonly runId: string;
  readonly epoch: number;
  /** The highest inbox id that it was given. */
  readonly seen: number;
}
/** Renews the lease of a task; with `details` it is the activity's own heartbeat, which its `heartbeat` limit waits for. */
export interface Heartbeat {
  readonly id: number;
  readonly token: number;
  readonly lease: number;
  readonly details?: Payload | undefined;
}
export interface Termination {
  readonly runId: string;
  readonly reason: string | undefined;
}
