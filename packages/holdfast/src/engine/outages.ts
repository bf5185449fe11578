// Log lines about a store that can't be used, and about runs taken over from dead workers.
// Owns: since when the store is unreachable, and which lines were written recently.
// Invariants: one line when the database becomes unreachable and one when it is back, however many calls fail meanwhile; W3 (which worker
// had the runs).

import { formatDuration, type Logger } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import { StoreError } from "../store/errors.ts";

/** A line about a store that can't be used is not repeated sooner than this. */
const REPEAT_MS = 10_000;
/** Runs that are taken over within this time share a line. */
const GATHER_MS = 1_000;
/** The most lines for which the time of writing is remembered. */
const MOST = 1_000;

/** A logger for everything that talks to the store. */
export class OutageLog implements Logger {
  readonly #logger: Logger;
  readonly #environment: Pick<Environment, "elapsed">;
  #goneSince: number | undefined;
  readonly #written = new Map<string, number>();

  constructor(logger: Logger, environment: Pick<Environment, "elapsed">) {
    this.#logger = logger;
    this.#environment = environment;
  }
  debug(message: string, fields?: object): void {
    this.#logger.debug(message, fields);
  }
  info(message: string, fields?: object): void {
    this.#logger.info(message, fields);
  }
  warn(message: string, fields?: object): void {
    if (!this.#isKnown(message, fields)) this.#logger.warn(message, fields);
  }
  error(message: string, fields?: object): void {
    if (!this.#isKnown(message, fields)) this.#logger.error(message, fields);
  }
  /** The store can't be reached. `since` is a time of the environment's `elapsed()`. */
  gone(error: unknown, since: number = this.#environment.elapsed()): void {
    if (this.#goneSince !== undefined) return;
    this.#goneSince = since;
    this.#logger.error("Database unreachable: runs wait until it is back. Trying again.", { error });
  }
  /** The store has answered. */
  reached(): void {
    if (this.#goneSince === undefined) return;
    const length = this.#environment.elapsed() - this.#goneSince;
    this.#goneSince = undefined;
    this.#logger.info(`Database reachable again after ${formatDuration(Math.max(1_000, Math.round(length / 1_000) * 1_000))}.`);
  }
  /** True if the line was written recently. Everything that fails because the database is unreachable is one line. */
  #isKnown(message: string, fields: object | undefined): boolean {
    const { error, runId } = (fields ?? {}) as { readonly error?: unknown; readonly runId?: unknown };
    if (!(error instanceof StoreError) || (!error.retryable && runId !== undefined)) return false;
    if (error.code === "HF_STORE_UNAVAILABLE") {
      this.gone(error);
      return true;
    }
    const line = `${error.code} ${message} ${error.retryable ? "" : error.message}`;
    const now = this.#environment.elapsed();
    if (now - (this.#written.get(line) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return true;
    if (this.#written.size >= MOST) this.#written.clear();
    this.#written.set(line, now);
    return false;
  }
}

/** W3: one line per worker that the runs were taken from, with their number. */
export class TakeoverLog {
  readonly #logger: Logger;
  readonly #counts = new Map<string, number>();
  readonly #environment: Pick<Environment, "patience">;
  #timer: Timer | undefined;

  constructor(logger: Logger, environment: Pick<Environment, "patience">) {
    this.#logger = logger;
    this.#environment = environment;
  }
  note(from: string): void {
    this.#counts.set(from, (this.#counts.get(from) ?? 0) + 1);
    this.#timer ??= this.#environment.patience(GATHER_MS, () => this.flush());
  }
  flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const [from, count] of this.#counts)
      this.#logger.info(`Took over ${count} ${count === 1 ? "run" : "runs"} from ${from} (lease expired).`, {
        workerId: from,
        runs: count,
      });
    this.#counts.clear();
  }
}
