// Runs past their deadline.
// Owns: nothing.
// Invariants: K7 (such a run is neither begun nor advanced; it is replayed only to run its rollbacks, and stays blocked if its code can't
// do that).

import { DeadlineExceededError, type FailCommand, serializeError, type Turn } from "@holdfast/core";
import type { Environment } from "../environment.ts";
import type { Head } from "../storage/contents.ts";

export function isOverdue({ deadlineAt }: Head, environment: Environment): boolean {
  return deadlineAt !== undefined && deadlineAt <= environment.now();
}
/** The end of a run that has no rollbacks to run. */
export function expired({ id, deadlineAt = 0 }: Head): FailCommand {
  return { type: "fail", error: serializeError(new DeadlineExceededError({ runId: id, deadline: deadlineAt })) };
}

/** Whether a rollback may be due, judged by the records: the current code may not be able to tell. */
export function mayRollBack(turns: readonly Turn[]): boolean {
  const undoable = new Set<number>();
  let isDue = false;
  for (const { jobs, commands } of turns) {
    for (const job of jobs) if (job.type === "resolve" && job.outcome.status === "completed" && undoable.has(job.seq)) isDue = true;
    for (const command of commands) {
      if (command.type === "rollbackCheckpoint") isDue = false;
      else if (command.type === "step" && command.rollback === true) undoable.add(command.seq);
      else if (command.type === "commit" && (command.rollbacks?.length ?? 0) > 0) isDue = true;
    }
  }
  return isDue;
}
