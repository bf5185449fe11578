// Warnings about runs that a caller of this process waits for, and that no worker serves (W6).
// Owns: what was logged.
// Invariants: one warning for each workflow and activity; it only reads.

import type { Logger } from "@holdfast/core";
import type { RunRow, Store } from "../store/port.ts";
import type { Descriptions } from "./descriptions.ts";
import type { ResultWaiters } from "./resultWaiters.ts";

/** How long a caller waits for a result, and its run for a worker, before it is checked whether a worker serves it. Milliseconds. */
const UNSERVED_AFTER = 5_000;

export interface UnservedRunsOptions {
  readonly store: Store;
  readonly logger: Logger;
  readonly results: ResultWaiters;
  readonly descriptions: Descriptions;
}

export class UnservedRuns {
  readonly #options: UnservedRunsOptions;
  readonly #warned = new Set<string>();

  constructor(options: UnservedRunsOptions) {
    this.#options = options;
  }
  async look(): Promise<void> {
    const { store, results } = this.#options;
    const waited = results.takeLongWaits(UNSERVED_AFTER);
    if (waited.length === 0) return;
    try {
      const rows = await store.get(waited);
      for (const row of rows) if (row !== undefined) await this.#warnIfUnserved(row);
    } catch {
      // Other calls report what is wrong with the store.
    }
  }
  async #warnIfUnserved(row: RunRow): Promise<void> {
    const { store, logger, results, descriptions } = this.#options;
    const now = await store.now();
    if (descriptions.isUnservedHere(row, now) && now - (row.availableAt ?? now) < UNSERVED_AFTER) return results.checkAgain(row.id);
    const why = await descriptions.unserved(row, store);
    if (why === undefined || this.#warned.has(why)) return;
    this.#warned.add(why);
    const text = `A caller waits for the result of run ${row.id}, but the run does not continue: ${why}. Start a worker for it, in this process or in another one.`;
    logger.warn(text, { runId: row.id, workflow: row.workflow });
  }
}
