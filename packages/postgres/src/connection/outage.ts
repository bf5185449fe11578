// Whether the server can be reached at all, for the engine's log.
// Owns: since when no call has reached the server.
// Invariants: a call that reaches the server ends an outage; a connection that is lost while others work is not an outage; nor is a server that
// has no connection left, which is logged elsewhere.

import type { OutageListener } from "holdfast/store";
import { isFull, unavailable } from "./serverErrors.ts";

/** A restart, or the loss of all connections at once, is over by then. */
const GONE_AFTER_MS = 2_000;

export class Outage {
  readonly #where: string;
  readonly #listeners = new Set<OutageListener>();
  #since: number | undefined;
  #lastReached = 0;
  #isTold = false;

  constructor(where: string) {
    this.#where = where;
  }
  watch(listener: OutageListener): () => void {
    const own = { ...listener }; // the same one given twice is two
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
  /** An attempt that began then did not reach the server. */
  failed(error: unknown, began: number): void {
    if (isFull(error)) return;
    this.#since ??= Math.max(began, this.#lastReached); // an attempt that failed says nothing about the time in which others succeeded
    if (this.#isTold || performance.now() - this.#since < GONE_AFTER_MS) return;
    this.#isTold = true;
    for (const { gone } of this.#listeners) gone(unavailable(error, this.#where), this.#since);
  }
  reached(): void {
    this.#lastReached = performance.now();
    if (this.#since === undefined) return;
    this.#since = undefined;
    if (!this.#isTold) return;
    this.#isTold = false;
    for (const { back } of this.#listeners) back();
  }
}
