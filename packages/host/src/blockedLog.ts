// How blocked runs are logged.
// Owns: the reasons that are not logged yet, with their runs.
// Invariants: V4 (runs blocked for the same reason share one line with their number, at most one line every ten seconds).

import { HoldfastError, type Logger } from "@holdfast/core";
import { isBrokenRule } from "./brokenRules.ts";
import type { Environment, Timer } from "./environment.ts";

/** A line is written once no run has joined it for this long … */
const QUIET_MS = 500;
/** … but after this long in any case. The next line with the same reason is not written sooner than this. */
const INTERVAL_MS = 10_000;
/** The most reasons for which lines are gathered at the same time. */
const MOST = 1_000;

/** A run that is blocked. */
export interface BlockedRun {
  /** The id of the run. */
  readonly runId: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The identity of the workflow code that could not advance it, as `codeOf` gives it. */
  readonly code: string;
  /** Why its code can't advance it. */
  readonly error: Error;
}

/** The same text for all runs that are blocked for the same reason. */
export function blockedReason({ runId, workflow, code, error }: BlockedRun): string {
  const { location, field } = error as { readonly location?: unknown; readonly field?: unknown };
  // The text of a broken rule says which call of the code it was. It differs by the run's id and by numbers, such as that of an iteration.
  const isCalledByCode = !(error instanceof HoldfastError) || isBrokenRule(error);
  const what = isCalledByCode ? [error.message.replaceAll(runId, "").replaceAll(/\d+/g, "0")] : [error.code, location, field];
  return JSON.stringify([workflow, code, error.name, ...what]);
}

/** The clock by which lines are gathered. In a simulation it is simulated: the same seed must write the same log. */
type LogClock = Pick<Environment, "elapsed" | "patience">;

interface Gathered {
  /** Blocked since the last line. */
  readonly runs: Set<string>;
  latest: BlockedRun;
  timer: Timer | undefined;
  /** When the line is written at the latest. */
  latestAt: number;
  /** The line is not written before this. */
  notBefore: number;
}

/** Logs blocked runs: many with one reason are one line with a count. */
export class BlockedLog {
  readonly #logger: Logger;
  readonly #environment: LogClock;
  readonly #reasons = new Map<string, Gathered>();

  constructor(logger: Logger, environment: LogClock) {
    this.#logger = logger;
    this.#environment = environment;
  }
  /** A run is blocked for this reason. */
  note(run: BlockedRun, reason: string): void {
    const now = this.#environment.elapsed();
    const known = this.#reasons.get(reason);
    if (known === undefined && this.#reasons.size >= MOST) this.flush();
    const gathered = known ?? { runs: new Set(), latest: run, timer: undefined, latestAt: 0, notBefore: 0 };
    this.#reasons.set(reason, gathered);
    if (gathered.runs.size === 0) gathered.latestAt = Math.max(now + INTERVAL_MS, gathered.notBefore);
    gathered.runs.add(run.runId);
    gathered.latest = run;
    gathered.timer?.cancel();
    const at = Math.min(Math.max(now + QUIET_MS, gathered.notBefore), gathered.latestAt);
    gathered.timer = this.#environment.patience(at - now, () => this.#write(gathered));
  }
  /** Writes all lines now, and starts again. */
  flush(): void {
    for (const gathered of this.#reasons.values()) this.#write(gathered);
    this.#reasons.clear();
  }
  #write(gathered: Gathered): void {
    gathered.timer?.cancel();
    const { runs, latest } = gathered;
    if (runs.size === 0) return;
    const { runId, workflow, error } = latest;
    const count = runs.size;
    runs.clear();
    gathered.notBefore = this.#environment.elapsed() + INTERVAL_MS;
    const message =
      count === 1
        ? `Run ${runId} is blocked: ${error.message}`
        : `${count} runs of workflow "${workflow}" are blocked for the same reason, including run ${runId}: ${error.message}`;
    const { code } = error as { readonly code?: unknown };
    // The message contains the error's text, so the error is not logged as a field.
    this.#logger.error(message, { runId, workflow, runs: count, ...(typeof code === "string" && { code }) });
  }
}
