// Runs past their deadline.
// Owns: nothing.
// Invariants: K7 (such a run is not begun and not advanced; it is replayed only to undo what it has done, and if its code can't do that it
// stays blocked).

import { DeadlineExceededError, type FailCommand, serializeError, type Turn } from "@holdfast/core";
import type { Environment } from "../environment.ts";
import type { Head } from "../storage/contents.ts";

export function isOverdue({ deadlineAt }: Head, environment: Environment): boolean {
  return deadlineAt !== undefined && deadlineAt <= environment.now();
}
/** How it ends where there is nothing to undo. */
export function expired({ id, deadlineAt = 0 }: Head): FailCommand {
  return { type: "fail", error: serializeError(new DeadlineExceededError({ runId: id, deadline: deadlineAt })) };
}

/** May a rollback be due? By what is recorded: the code at hand may not be able to say. */
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
