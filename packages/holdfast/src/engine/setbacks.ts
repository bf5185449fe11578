// Runs that a worker could not advance: how often in a row, why, and what it did not begin of them.
// Owns: the pause before the next try, and attempts of which the worker can't tell whether a commit has announced them.
// Invariants: V4 (the pause grows), D7 (an attempt that was announced and not begun does not count).

import type { Environment } from "@holdfast/host";
import type { KnownAttempts, Prepared } from "@holdfast/host/attempts";
import { openedSteps } from "../host/journal.ts";
import type { ClaimedRun, RunRow, TurnCommit } from "../store/port.ts";

/** By run: how often in a row it was blocked here or a commit of it failed. */
export type Setbacks = Map<string, Setback>;

interface Setback {
  readonly times: number;
  /** Why it was blocked the last time (V4). */
  readonly reason?: string;
  readonly unsure?: UnsureAttempts;
}

/** Attempts that a commit has announced. The worker does not know whether it was written, and has not begun them. */
interface UnsureAttempts {
  /** Of the execution, and of the claim. */
  readonly seed: string;
  readonly epoch: number;
  readonly attempts: Prepared["starting"];
}

export const NOTHING_STARTING: Prepared["starting"] = [];

/** `starting`: attempts that the commit announces, besides the steps that it opens. */
export function unsureAttemptsOf(
  { seed, epoch }: Pick<RunRow, "seed" | "epoch">,
  commit: TurnCommit | undefined,
  starting: Prepared["starting"],
): UnsureAttempts {
  const opened = openedSteps(commit).map(({ seq }) => ({ seq, number: 1 }));
  return { seed, epoch, attempts: [...starting, ...opened] };
}

/** What this worker knows of attempts, besides their rows. */
export function knownAttempts(setbacks: Setbacks, { run, inbox }: ClaimedRun): KnownAttempts {
  const unsure = setbacks.get(run.id)?.unsure;
  // D7: what this worker did not begin under the claim before, if no other worker has had the run since.
  const isLatest = unsure?.epoch === run.epoch - 1 && unsure.seed === run.seed;
  const notBegun = isLatest ? unsure.attempts : NOTHING_STARTING;
  return {
    isAnswered: (seq) => inbox.some(({ job }) => job.type === "resolve" && job.seq === seq),
    isNotBegun: (seq, number) => notBegun.some((one) => one.seq === seq && one.number === number),
  };
}

/** Notes that a commit failed. Returns how long the run stays away from all workers: they may not be able to write it either. */
export function noteSetback(setbacks: Setbacks, runId: string, unsure: UnsureAttempts, environment: Pick<Environment, "random">): number {
  const { times, ...why } = setbacks.get(runId) ?? { times: 0 };
  setbacks.set(runId, { ...why, times: times + 1, unsure });
  // Jitter: runs whose commits failed together need not be claimed together.
  return Math.ceil(Math.min(100 * 2 ** times, 30_000) * (0.5 + environment.random()));
}
