// Deletes closed runs whose retention is over (B4).
// Owns: the deletion that is under way.
// Invariants: in small batches, so that no other call waits long; one at a time.

import type { Logger } from "@holdfast/core";
import type { Store } from "../store/port.ts";

/** Closed runs are gone within a minute of their time. */
export const RETIRE_EVERY_MS = 30_000;

export class Retirement {
  readonly #store: Pick<Store, "retire">;
  readonly #logger: Logger;
  #isUnderWay = false;
  #isStopped = false;

  constructor(store: Pick<Store, "retire">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }
  async look(): Promise<void> {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    try {
      while (!this.#isStopped && (await this.#store.retire()) > 0);
    } catch (error) {
      if (!this.#isStopped) this.#logger.error("Closed runs could not be deleted after their retention; trying again later.", { error });
    } finally {
      this.#isUnderWay = false;
    }
  }
  stop(): void {
    this.#isStopped = true;
  }
}
