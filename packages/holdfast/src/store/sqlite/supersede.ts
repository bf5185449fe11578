// A newer start of an open run.
// Owns: nothing.
// Invariants: Q9 (a run that no worker has claimed takes it; one that has begun gets it as its next start, and with "replace" a cancellation).

import type { CreateResult, NewRun } from "../port.ts";
import { REPLACED, waitingStart } from "../startTimes.ts";
import { cancelRun } from "./closeRun.ts";
import { deliverMessage, putAside } from "./deliverMessage.ts";
import { takeOver } from "./executions.ts";
import { findRun, type RunHead } from "./findRun.ts";
import { findNext, setNext } from "./nextStarts.ts";
import type { Session } from "./session.ts";

/** Its key is kept already. */
export function supersede(session: Session, existing: RunHead, run: NewRun, now: number): CreateResult {
  const { id, execution } = existing;
  const messages = run.messages ?? [];
  if (!existing.isBegun) {
    takeOver(session, existing, run, now);
    const inboxIds = messages.map((message) => {
      const sent = deliverMessage(session, { runId: id, message }, now);
      return "inboxId" in sent ? sent.inboxId : 0;
    });
    return { status: "existing", id, execution, inboxIds };
  }
  const { firstAt = now, isReplacing = false } = findNext(session, existing) ?? {};
  const isToCancel = run.onConflict === "replace" && !isReplacing;
  setNext(session, existing, { start: waitingStart(run, now, firstAt), firstAt, isReplacing: isReplacing || isToCancel });
  const inboxIds = messages.map((message) => putAside(session, existing.key, message, now));
  if (isToCancel) cancelRun(session, { ...existing, hasNext: true }, REPLACED, now);
  const after = findRun(session.db, id)?.execution ?? execution;
  return { status: after > execution ? "created" : "existing", id, execution: after, inboxIds };
}
