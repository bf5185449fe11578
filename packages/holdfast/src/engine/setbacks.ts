// Runs that a worker could not advance: how often in a row, why, and which attempts it did not begin.
// Owns: the pause before the next attempt to advance them, and attempts that a commit of unknown outcome has announced.
// Invariants: V4 (the pause grows), D7 (an attempt that was announced and not begun does not count).

import type { Environment } from "@holdfast/host";
import type { KnownAttempts, Prepared } from "@holdfast/host/attempts";
import type { ClaimedRun, RunRow, TurnCommit } from "../store/port.ts";
import { openedSteps } from "./journal.ts";

/** By run id: how often in a row the run was blocked here or a commit of it failed. */
export type Setbacks = Map<string, Setback>;

interface Setback {
  readonly times: number;
  /** Why it was blocked the last time (V4). */
  readonly reason?: string;
  readonly uncertain?: UncertainAttempts;
}

/** Attempts that a commit has announced. The worker does not know whether the commit was written, and has not begun them. */
interface UncertainAttempts {
  /** These identify the execution and the claim. */
  readonly seed: string;
  readonly epoch: number;
  readonly attempts: Prepared["starting"];
}

export const NOTHING_STARTING: Prepared["starting"] = [];

/** `starting`: attempts that the commit announces, in addition to the steps that it opens. */
export function uncertainAttemptsOf(
  { seed, epoch }: Pick<RunRow, "seed" | "epoch">,
  commit: TurnCommit | undefined,
  starting: Prepared["starting"],
): UncertainAttempts {
  const opened = openedSteps(commit).map(({ seq }) => ({ seq, number: 1 }));
  return { seed, epoch, attempts: [...starting, ...opened] };
}

/** What this worker knows about attempts, in addition to their rows. */
export function knownAttempts(setbacks: Setbacks, { run, inbox }: ClaimedRun): KnownAttempts {
  const uncertain = setbacks.get(run.id)?.uncertain;
  // D7: what this worker did not begin under its previous claim, if no other worker has claimed the run since.
  const isLatest = uncertain?.epoch === run.epoch - 1 && uncertain.seed === run.seed;
  const notBegun = isLatest ? uncertain.attempts : NOTHING_STARTING;
  return {
    isAnswered: (seq) => inbox.some(({ job }) => job.type === "resolve" && job.seq === seq),
    isNotBegun: (seq, number) => notBegun.some((one) => one.seq === seq && one.number === number),
  };
}

/** Notes that a commit failed. Returns for how long no worker should claim the run: others may not be able to write it either. */
export function noteSetback(
  setbacks: Setbacks,
  runId: string,
  uncertain: UncertainAttempts,
  environment: Pick<Environment, "random">,
): number {
  const { times, ...why } = setbacks.get(runId) ?? { times: 0 };
  setbacks.set(runId, { ...why, times: times + 1, uncertain });
  // Jitter: runs whose commits failed together need not be claimed together.
  return Math.ceil(Math.min(100 * 2 ** times, 30_000) * (0.5 + environment.random()));
}
