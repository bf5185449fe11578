// The batch contract: how a store carries out a call with many items.
// Owns: the types of answers, limits and small items; the faults of a rejected call are in store/errors.ts.
// Invariants: D2 D3.
//
// For `create commit send answerTasks renew heartbeat terminate resume delete tick`:
// - A call is one transaction. It answers item by item, in order: with the item's result (also for what is wrong with the item alone: a claim
//   that is over, an id that is taken), or "busy": another transaction holds a lock that the item needs, and nothing of the item was written.
//   If one item of a key is busy, so are those behind it in the call. The key is the run; of a task its id; of a new run its idempotency key,
//   or else its id; of a tick its schedule.
// - Or the call rejects and has written nothing. What the rejection means for the items is the `fault` of the StoreError: "refused" (an item
//   is at fault: a value that is too large, a constraint, a trigger), "busy" (an item needs a lock that another transaction holds), or
//   "unavailable" (all other reasons: all items fail). After the first two the caller repeats the call for halves, down to single items:
//   "refused" must not be used for a temporary problem.
// - A store whose answer was lost finds out whether the call was carried out before it rejects. Only if it can't be reached to find out, it
//   rejects with HF_STORE_UNAVAILABLE: then the call may have been carried out.
// - `limits` says how much one call can hold and how many calls may be in progress at once.
// The host's batcher (store/batcher.ts) is the only caller of these methods, and the only place where a bad item is separated from the others.
// Where the store picks the items (`claim expire retire claimTasks`) it isolates a bad row itself, with store/isolate.ts.

import type { Payload } from "@holdfast/core";

/** The answer to one item of a call. "busy": another transaction holds a lock that it needs, and nothing of it was written. */
export type Answer<R> = R | "busy";

/** How much one call of the batch contract can hold. */
export interface BatchLimits {
  /** The most items. The rest goes into the next call, after a turn of the event loop. */
  readonly items: number;
  /** The most bytes of the values in them, approximately. */
  readonly bytes: number;
  /**
   * How many commits may be in progress at once, each of different runs. More than one for a store on a server: the process then sends
   * half of its runs at a time, and computes the others in the meantime.
   */
  readonly calls: number;
}

/** What a worker knows of a claim that it renews. */
export interface HeldClaim {
  /** The id of the run. */
  readonly runId: string;
  /** The claim that the worker holds. */
  readonly epoch: number;
  /** The highest inbox id that it was given. */
  readonly seen: number;
}
/** Renews the lease of a task; with `details` it is the activity's own heartbeat, which its `heartbeat` limit waits for. */
export interface Heartbeat {
  /** The id of the task. */
  readonly id: number;
  /** The claim that the worker holds. */
  readonly token: number;
  /** How long it stays claimed from now, in milliseconds. */
  readonly lease: number;
  /** What the activity reported, encoded. */
  readonly details?: Payload | undefined;
}
/** A run to terminate. */
export interface Termination {
  /** The id of the run. */
  readonly runId: string;
  /** The reason that the caller gave. */
  readonly reason: string | undefined;
}
