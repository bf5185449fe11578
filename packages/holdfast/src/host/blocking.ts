// Blocked runs: which are tried again by time, and how people hear of them.
// Owns: the reasons that were not logged yet, with the runs that have them.
// Invariants: V4 (backoff only where the cause may pass; runs blocked for one reason are one line with their number, at most one every
// ten seconds).

import { type AnyWorkflow, HoldfastError, type Logger, serializeError } from "@holdfast/core";
import { type Environment, isBrokenRule, type Timer } from "@holdfast/host";
import type { DriverHost } from "../engine/driverHost.ts";
import type { Draft } from "./journal.ts";

/** A line waits until no more runs have joined it for this long … */
const QUIET_MS = 500;
/** … but no longer than this, and no other of the same reason comes sooner after it. */
const INTERVAL_MS = 10_000;
/** Of so many different reasons lines are held apart. */
const MOST = 1_000;

export interface BlockedRun {
  readonly runId: string;
  readonly workflow: string;
  /** The code that could not advance it. */
  readonly code: string;
  readonly error: Error;
}

/** What runs have in common that are blocked for one reason. */
function reasonOf({ runId, workflow, code, error }: BlockedRun): string {
  const { location, field } = error as { readonly location?: unknown; readonly field?: unknown };
  const what = error instanceof HoldfastError ? [error.code, location, field] : [error.message.replaceAll(runId, "")];
  return JSON.stringify([workflow, code, error.name, ...what]);
}

/** What the run waits for, unless the caller knows better. */
function remedyOf(error: Error): string {
  return isBrokenRule(error) ? "code that keeps to the rules" : "code that can replay it";
}

/** V4: makes `draft` the commit that blocks its run; the run is unharmed. */
export function block(
  draft: Draft,
  workflow: AnyWorkflow,
  error: Error,
  host: Pick<DriverHost, "blocked" | "blockedLog" | "codeOf" | "now">,
  remedy = remedyOf(error),
): Draft {
  const { blocked, blockedLog } = host;
  const { runId } = draft;
  const code = host.codeOf(workflow);
  const run = { runId, workflow: workflow.name, code, error };
  const reason = reasonOf(run);
  const before = blocked.get(runId);
  const times = before?.times ?? 0;
  blocked.set(runId, { times: times + 1, reason });
  if (before?.reason !== reason) blockedLog.note(run, reason);
  draft.blocked = { error: serializeError(error), code };
  draft.lease = "park";
  if (!isBrokenRule(error)) draft.wakeAt = host.now() + Math.min(1_000 * 2 ** times, 300_000);
  draft.seen = Number.MAX_SAFE_INTEGER;
  draft.waitingFor = [`${remedy} (${error.name})`];
  return draft;
}

/** The time by which lines are gathered: in a simulation it is simulated, and the log is part of what a seed repeats. */
type LogClock = Pick<Environment, "elapsed" | "patience">;

interface Gathered {
  /** Blocked since the last line. */
  readonly runs: Set<string>;
  latest: BlockedRun;
  timer: Timer | undefined;
  /** When the line is written, come what may. */
  latestAt: number;
  /** Not before then. */
  notBefore: number;
}

export class BlockedLog {
  readonly #logger: Logger;
  readonly #environment: LogClock;
  readonly #reasons = new Map<string, Gathered>();

  constructor(logger: Logger, environment: LogClock) {
    this.#logger = logger;
    this.#environment = environment;
  }
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
  /** What was gathered so far; then it begins anew. */
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
        : `${count} runs of workflow "${workflow}" are blocked for the same reason, run ${runId} among them: ${error.message}`;
    const { code } = error as { readonly code?: unknown };
    // The message says what the error says: it is not repeated beside it.
    this.#logger.error(message, { runId, workflow, runs: count, ...(typeof code === "string" && { code }) });
  }
}
