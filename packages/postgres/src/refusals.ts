// Rows that the server refuses to have claimed.
// Owns: what the log has said of them.
// Invariants: each refusal is logged once, though every claim meets it.

import type { Logger } from "@holdfast/core";
import type { Refused } from "holdfast/store";

/** So many are passed over for others. */
export const MOST_REFUSED = 100;

export class Refusals {
  readonly #logger: Logger;
  #told: string | undefined;

  constructor(logger: Logger) {
    this.#logger = logger;
  }
  tell(what: string, refused: readonly Refused<unknown>[]): void {
    for (const { error } of refused) {
      if (this.#told === String(error)) continue;
      this.#told = String(error);
      this.#logger.error(`${what} can't be claimed; others are.`, { error });
    }
  }
}
