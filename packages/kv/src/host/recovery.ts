// How a stored execution continues: by replay, and after a failure as another attempt of the run.
// Owns: nothing.
// Invariants: Y1 (replay causes no effect), D9 (a turn that is taken back), D10 (a resume voids the failure and nothing else).

import type { Job, Turn } from "@holdfast/core";
import { isRollingBack, recoveryOf, resumedView, retryRunAtOf } from "@holdfast/host/attempts";
import { isClosed } from "../results.ts";
import type { Storage } from "../storage/storage.ts";
import { isOutcome } from "./closing.ts";
import type { Execution } from "./execution.ts";
import type { Intake } from "./intake.ts";

/** Whether a caller asked for another try, and it is possible. */
export function isRecovered({ status, end }: Storage, intake: Intake): boolean {
  const isResumable = status?.status === "failed" && end?.resumable === true;
  if (isClosed(status?.status) && !isResumable) return false;
  return intake.find("recover") !== undefined;
}

/** D10: when a failed run that may be tried again is due. */
export function retryTime({ turns, status, head }: Storage): number | undefined {
  return isClosed(status?.status) ? undefined : retryRunAtOf(turns, head?.deadlineAt);
}

/** Replays the stored history. Returns an error if the current code, or this host, can't advance it. */
export async function recover(execution: Execution, resumed: boolean): Promise<Error | undefined> {
  const { executor, operations, storage, head } = execution;
  const { turns } = storage;
  trackUpdates(execution);
  const attempt = head.attempt + 1;
  const { view, jobs, voided } = recoveryOf(turns, { resumed, attempt, deadlineAt: head.deadlineAt });
  execution.rollingBack = isRollingBack(turns);
  if (voided !== undefined) beginAttempt(execution, attempt);
  execution.add(jobs);
  const failure = await replay(execution, view);
  if (failure !== undefined) return failure;
  operations.restore(executor, { turns, attempts: storage.attempts, voids: voided?.causes });
  const open = new Set(executor.openOperations);
  return execution.unsupportedIn(turns.flatMap(({ commands }) => commands.filter((command) => "n" in command && open.has(command.seq))));
}
/** The run had failed or waited: the next turn begins another attempt of it. */
function beginAttempt(execution: Execution, attempt: number): void {
  const { storage } = execution;
  execution.head = { ...execution.head, attempt };
  storage.setHead(execution.head);
  storage.clearEnd();
}
/** Finds the updates that are open according to the history. */
export function trackUpdates({ storage, updates }: Execution): void {
  for (const { commands } of storage.turns) for (const command of commands) updates.track(command);
}
/** D9: discards the turn with these jobs. The messages among them come first, the others in the turn after. */
export async function takeBack(execution: Execution, jobs: readonly Job[]): Promise<Error | undefined> {
  execution.renew();
  execution.operations.keep(jobs.filter(isOutcome));
  execution.jobs.unshift(...jobs.filter((job) => !isOutcome(job)));
  execution.messagesFirst = true;
  const resume = jobs.find((job) => job.type === "resume");
  return replay(execution, resumedView(execution.storage.turns, resume));
}
async function replay({ executor, settings }: Execution, view: readonly Turn[]): Promise<Error | undefined> {
  const completion = await settings.turnQueue.run(() => executor.replay(view));
  return completion.status === "failed" ? completion.error : undefined;
}
