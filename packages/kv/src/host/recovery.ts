// How an execution that is stored goes on: by replay, and after a failure as another attempt of the run.
// Owns: nothing.
// Invariants: Y1 (replay causes no effect), D7 (attempts that never came back are counted), D9 (a turn that is taken back), D10 (a resume voids
// the failure, and no more).

import { type FailCommand, type Job, replayView, type Turn } from "@holdfast/core";
import type { Head } from "../storage/contents.ts";
import type { Storage } from "../storage/storage.ts";
import { isOutcome } from "./closing.ts";
import type { Execution } from "./execution.ts";
import type { Intake } from "./intake.ts";
import { isClosed } from "./results.ts";

/** Somebody asked for it to be tried again, and it can be. */
export function isRecovered({ status, end }: Storage, intake: Intake): boolean {
  const isResumable = status?.status === "failed" && end?.resumable === true;
  if (isClosed(status?.status) && !isResumable) return false;
  return intake.find("recover") !== undefined;
}

/** D10: when a run that failed as a whole, and may be tried again, is to be. */
export function retryTime({ turns, status, head }: Storage): number | undefined {
  const fail = lastFailure(turns);
  if (fail?.retryAfter === undefined || isClosed(status?.status)) return undefined;
  const time = turns.at(-1)?.time ?? 0;
  return isTooLate(head, time + fail.retryAfter) ? time : time + fail.retryAfter;
}
function isTooLate(head: Head | undefined, retryAt: number): boolean {
  return head?.deadlineAt !== undefined && retryAt >= head.deadlineAt;
}

/** Replays what is stored; returns what the code at hand, or this host, can't advance. */
export async function recover(execution: Execution, resumed: boolean): Promise<Error | undefined> {
  const { executor, effects, storage } = execution;
  const { turns } = storage;
  execution.rollingBack = turns.some(({ commands }) => commands.some(({ type }) => type === "rollBack"));
  trackUpdates(execution);
  const fail = lastFailure(turns);
  const isAnotherAttempt = fail !== undefined && (resumed || fail.retryAfter !== undefined);
  const view = isAnotherAttempt ? resumedView(turns, resume(execution, fail)) : replayView(turns);
  // K7 S1: another attempt would come too late. The run fails as it did, once its steps are undone.
  const retryAt = (turns.at(-1)?.time ?? 0) + (fail?.retryAfter ?? 0);
  if (isAnotherAttempt && !resumed && isTooLate(execution.head, retryAt)) execution.jobs.push({ type: "expire", error: fail.error });
  const failure = await replay(execution, view);
  if (failure !== undefined) return failure;
  effects.restore(executor, turns);
  if (isAnotherAttempt) effects.forgive(fail.causes ?? [], Number.MAX_SAFE_INTEGER);
  const open = new Set(executor.openOperations);
  return execution.unsupportedIn(turns.flatMap(({ commands }) => commands.filter((command) => "n" in command && open.has(command.seq))));
}
/** Which updates history leaves open. */
export function trackUpdates({ storage, updates }: Execution): void {
  for (const { commands } of storage.turns) for (const command of commands) updates.track(command);
}
/** D9: the turn with these jobs does not count. The messages among them come first, the rest in the turn after. */
export async function takeBack(execution: Execution, jobs: readonly Job[]): Promise<Error | undefined> {
  const { turns } = execution.storage;
  execution.renew();
  execution.effects.keep(jobs.filter(isOutcome));
  execution.jobs.unshift(...jobs.filter((job) => !isOutcome(job)));
  execution.messagesFirst = true;
  const resumed = jobs.find((job) => job.type === "resume");
  return replay(execution, resumed === undefined ? replayView(turns) : resumedView(turns, resumed));
}
async function replay({ executor, settings }: Execution, view: readonly Turn[]): Promise<Error | undefined> {
  const completion = await settings.turnQueue.run(() => executor.replay(view));
  return completion.status === "failed" ? completion.error : undefined;
}
/** The run was failed, or waited: it is another attempt of it that goes on, with the next turn. */
function resume(execution: Execution, fail: FailCommand): Job {
  const { storage } = execution;
  const attempt = execution.head.attempt + 1;
  const job: Job = { type: "resume", attempt, voids: fail.causes ?? [] };
  execution.jobs.push(job);
  execution.head = { ...execution.head, attempt };
  storage.setHead(execution.head);
  storage.clearEnd();
  return job;
}
/** The turns as an attempt sees them that begins with this job. */
function resumedView(turns: readonly Turn[], job: Job): readonly Turn[] {
  const turn: Turn = { index: (turns.at(-1)?.index ?? -1) + 1, time: 0, historyLength: 0, jobs: [job], commands: [] };
  return replayView([...turns, turn]).slice(0, -1);
}
function lastFailure(turns: readonly Turn[]): FailCommand | undefined {
  const last = turns.at(-1)?.commands.at(-1);
  return last?.type === "fail" ? last : undefined;
}
