// The end of a run, and what follows from it.
// Owns: closing, notifying the parent, and what happens to children; cancellation, since it may close a run that has not begun.
// Invariants: P1 (one end), K5 (the epoch rises: nothing that was computed before counts any more), K6 (children follow), K9,
// Q9 (its next start begins), Q10 (runs that wait for it begin).

import { jsonCodec, type Outcome, type Payload, RunTerminatedError, type SerializedError, serializeError } from "@holdfast/core";
import { canceledBy } from "@holdfast/host";
import type { RunClose } from "../port.ts";
import { jsonOrNull, payloadOrNull } from "./columns.ts";
import { refileBelow } from "./filedLanes.ts";
import { findOpenChildren, type RunHead } from "./findRun.ts";
import { answerOperation, putMessage } from "./inbox.ts";
import { beginNext } from "./nextStarts.ts";
import type { Session } from "./session.ts";
import { dropTasks } from "./tasks.ts";
import { refuseUpdates } from "./updates.ts";
import { releaseWaiting } from "./waitingRuns.ts";

export interface Ending extends Pick<RunClose, "output" | "error" | "resumable" | "unconsumed"> {
  readonly status: Exclude<RunClose["status"], "continued">;
  /** Of the turn that it ends with, if it does (records may be fewer than none: a trim); and its attributes, if they change. */
  readonly turns?: number;
  readonly records?: number;
  readonly attributes?: string | null;
}

const NOTHING: Payload = jsonCodec.encode(undefined);
const CLOSE = `UPDATE holdfast_runs SET status = ?1, output = ?2, error = ?3, resumable = ?4, finished_at = ?5, turns = ?6, history_length = ?7,
  attributes = coalesce(?8, attributes), worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = NULL, recoveries = 0,
  held = 0, epoch = epoch + 1, remove_at = CASE WHEN retention IS NULL THEN ?9 WHEN retention >= 0 THEN ?5 + retention END WHERE key = ?10`;

export function closeRun(session: Session, run: RunHead, ending: Ending, now: number): void {
  const { db } = session;
  const { status, output, error, turns = 0, records = 0, attributes = null } = ending;
  const resumable = status === "failed" && ending.resumable !== false ? 1 : 0;
  session.leasedRuns.forget(run.key);
  db.run(CLOSE, [
    status,
    payloadOrNull(output),
    jsonOrNull(error),
    resumable,
    now,
    run.turns + turns,
    run.historyLength + records,
    attributes,
    session.retention === undefined ? null : now + session.retention,
    run.key,
  ]);
  session.changed("results");
  if (run.isFiled) session.changed("work");
  const { parent } = run;
  if (parent !== undefined) answerOperation(session, parent.runId, parent.execution, parent.seq, outcomeOf(run, ending), now);
  if (run.isBare !== true) cleanUp(session, run, status, resumable === 1, now);
  if (run.hasNext) beginNext(session, run, ending.unconsumed ?? [], now);
  else if (run.isAwaited || run.after !== undefined) releaseWaiting(session, run, now);
}

/** What others have sent it, and what it has begun. */
function cleanUp(session: Session, run: RunHead, status: Ending["status"], isResumable: boolean, now: number): void {
  const { db } = session;
  refuseUpdates(db, run, status);
  // D10: a run that may be resumed keeps what it was sent and has not taken. Q9: it waits for the next start.
  const exceptFor = isResumable || run.hasNext ? "AND type <> 'signal'" : "";
  db.run(`DELETE FROM holdfast_inbox WHERE run = ? ${exceptFor}`, [run.key]);
  dropTasks(session, run.key, now);
  const children = findOpenChildren(db, run.id);
  for (const child of children) followParent(session, child, run.id, now);
  if (children.length > 0) refileBelow(session, run.id);
}

function outcomeOf(run: RunHead, { status, output, error }: Ending): Outcome {
  if (status === "completed") return { status, value: output ?? NOTHING };
  if (status === "canceled") return { status };
  const unknown: SerializedError = { name: "Error", message: `The child ${run.id} ended as ${status}.` };
  return { status: "failed", error: error ?? unknown };
}

function followParent(session: Session, child: RunHead, parentId: string, now: number): void {
  const reason = `its parent ${parentId} has ended`;
  if (child.parent?.close === "terminate") terminateRun(session, child, reason, now);
  else if (child.parent?.close === "cancel") cancelRun(session, child, reason, now);
}

export function terminateRun(session: Session, run: RunHead, reason: string | undefined, now: number): void {
  const error = serializeError(new RunTerminatedError(reason === undefined ? { runId: run.id } : { runId: run.id, reason }));
  overrule(session, run, { status: "terminated", error }, now);
}

/** Closes a run although a worker may have it, which is notified at once that its claim is lost (D4). */
export function overrule(session: Session, run: RunHead, ending: Ending, now: number): void {
  if (run.isLeased) session.changed("messages");
  closeRun(session, run, ending, now);
}

/** Asks an open run to cancel. One that no worker has begun with is canceled here and now (K9). Returns the inbox id, 0 if there is none. */
export function cancelRun(session: Session, run: RunHead, reason: string | undefined, now: number): number {
  if (run.turns > 0 || run.isLeased)
    return putMessage(session, run.key, reason === undefined ? { type: "cancel" } : { type: "cancel", reason }, now);
  closeRun(session, run, { status: "canceled", error: canceledBy(reason) }, now);
  return 0;
}
