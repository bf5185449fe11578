// How a stored execution continues: by replay, and after a failure as another attempt of the run.
// Owns: nothing; it only reads the history.
// Invariants: D10 (a resume voids the failure and nothing else), K7 S1 (an attempt that would begin after the deadline only runs
// rollbacks).

import { type ExpireJob, type FailCommand, type ResumeJob, replayView, type Turn } from "@holdfast/core";

/** How a run continues that was stored: what to replay, and what to do first. */
export interface Recovery {
  /** The turns to replay. */
  readonly view: readonly Turn[];
  /** For a run that continues after a failure: the first jobs of its next turn. */
  readonly jobs: readonly (ResumeJob | ExpireJob)[];
  /** The failure after which the run continues. */
  readonly voided: FailCommand | undefined;
}

/**
 * How a stored run continues. `resumed`: the caller asked for another attempt of the run; `attempt`: the number of that attempt;
 * `deadlineAt`: when the run fails if it is still open.
 */
export function recoveryOf(
  turns: readonly Turn[],
  { resumed, attempt, deadlineAt }: { readonly resumed: boolean; readonly attempt: number; readonly deadlineAt: number | undefined },
): Recovery {
  const failure = lastFailure(turns);
  if (failure === undefined || !(resumed || failure.retryAfter !== undefined))
    return { view: replayView(turns), jobs: [], voided: undefined };
  const resume: ResumeJob = { type: "resume", attempt, voids: failure.causes ?? [] };
  const isTooLate = !resumed && isAfter(deadlineAt, timeOfLast(turns) + (failure.retryAfter ?? 0));
  const jobs = isTooLate ? [resume, { type: "expire", error: failure.error } as const] : [resume];
  return { view: resumedView(turns, resume), jobs, voided: failure };
}

/** S1: true once a rollback has begun, until the run has ended. */
export function isRollingBack(turns: readonly Turn[]): boolean {
  return turns.some(({ commands }) => commands.some(({ type }) => type === "rollBack"));
}

/** D10: when a failed run is tried again as a whole: at once if the retry would be due after its deadline. Undefined: never. */
export function retryRunAtOf(turns: readonly Turn[], deadlineAt: number | undefined): number | undefined {
  const after = lastFailure(turns)?.retryAfter;
  if (after === undefined) return undefined;
  const time = timeOfLast(turns);
  return isAfter(deadlineAt, time + after) ? time : time + after;
}

/** The turns to replay. With `resume`: as the attempt of the run that begins with this job sees them. */
export function resumedView(turns: readonly Turn[], resume: ResumeJob | undefined): readonly Turn[] {
  if (resume === undefined) return replayView(turns);
  const turn: Turn = { index: (turns.at(-1)?.index ?? -1) + 1, time: 0, historyLength: 0, jobs: [resume], commands: [] };
  return replayView([...turns, turn]).slice(0, -1);
}

function lastFailure(turns: readonly Turn[]): FailCommand | undefined {
  const last = turns.at(-1)?.commands.at(-1);
  return last?.type === "fail" ? last : undefined;
}
function timeOfLast(turns: readonly Turn[]): number {
  return turns.at(-1)?.time ?? 0;
}
function isAfter(deadlineAt: number | undefined, moment: number): boolean {
  return deadlineAt !== undefined && moment >= deadlineAt;
}
