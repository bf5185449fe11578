// The part of the store's port that is about how long closed runs are kept (B4).
// Owns: the words of it. Durations are milliseconds.
// Invariants: the moment when a run goes is written with its end: by its workflow's retention as its row has it, else by the one that this
// object was opened with; a run that begins again has none. With a run go its history, its messages and its keys; runs that it had started
// and that stay have no parent from then on, since its id may be that of another run soon.

import type { Answer } from "./batch.ts";

/** What an engine says to its store when it opens it. */
export interface StoreSettings {
  /**
   * How long closed runs are kept whose workflow says nothing, in milliseconds.
   * @defaultValue what the store was made with, else forever
   */
  readonly retention?: number | "forever" | undefined;
}

/** The result of a request to delete a run. */
export type DeleteResult = "deleted" | "not-found" | "open";

/** How long closed runs are kept. */
export interface KeepingStore {
  /**
   * Removes a small batch of closed runs whose retention is over, except those that an execution which is open has started: it may ask for
   * them. Returns how many; 0: none are left.
   */
  retire(): Promise<number>;
  /** Removes closed runs now, also children. In the batch contract (store/batch.ts). */
  delete(runIds: readonly string[]): Promise<Answer<DeleteResult>[]>;
}
