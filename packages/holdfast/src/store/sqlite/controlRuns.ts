// Changes of runs from outside: termination, deadlines, resuming.
// Owns: these three; none of them runs workflow code.
// Invariants: K6 (terminate), K7 (deadlines, rollbacks exempt), D10 (resume, refused after rollbacks), V3 V4 (also of an open or
// blocked one).

import { DeadlineExceededError, serializeError } from "@holdfast/core";
import type { ResumeResult, SendResult } from "../port.ts";
import { overrule, terminateRun } from "./closeRun.ts";
import { refile, refileBelow } from "./filedLanes.ts";
import { findLate, type RunHead } from "./findRun.ts";
import { putMessage } from "./inbox.ts";
import { dropNext } from "./nextStarts.ts";
import type { Session } from "./session.ts";

export function terminate(session: Session, runId: string, reason: string | undefined, now: number): SendResult {
  const run = session.find(runId);
  if (run === undefined) return { status: "not-found" };
  if (!run.isOpen) return { status: "closed", runStatus: run.status };
  terminateRun(session, dropNext(session, run, "terminated"), reason, now);
  return { status: "sent", inboxId: 0 };
}

const AVAILABLE = "UPDATE holdfast_runs SET available_at = min(coalesce(available_at, ?1), ?1) WHERE key = ?2";
const REOPEN = `UPDATE holdfast_runs SET status = 'sleeping', attempt = attempt + 1, error = NULL, output = NULL, finished_at = NULL, remove_at = NULL,
  available_at = ? WHERE key = ?`;

export function resume(session: Session, runId: string, now: number): ResumeResult {
  const { db } = session;
  const run = session.find(runId);
  if (run === undefined) return "not-found";
  const isBlocked = run.status === "blocked";
  if (run.isOpen && run.status !== "pending") {
    if (!isBlocked && run.isLeased) return "woken"; // V3: a worker has it
    session.leasedRuns.forget(run.key);
    db.run(AVAILABLE, [now, run.key]);
    session.changed("work");
    return isBlocked ? "resumed" : "woken";
  }
  if (run.status !== "failed" || !run.isResumable || run.turns === 0) return "not-resumable";
  session.leasedRuns.forget(run.key);
  db.run(REOPEN, [now, run.key]);
  refile(session, run.key); // its queue may have got limits
  refileBelow(session, run.id);
  putMessage(session, run.key, { type: "resume", attempt: run.attempt + 1, voids: [] }, now);
  return "resumed";
}

/** As many as a transaction takes. */
export const LATE_AT_ONCE = 500;

/** Ends runs whose deadline has passed; `only` some of them, by key. Returns how many. */
export function expireRuns(session: Session, now: number, only?: ReadonlySet<number>): number {
  const late = findLate(session.db, now, LATE_AT_ONCE).filter(({ key }) => only?.has(key) !== false);
  for (const run of late) expireRun(session, run, now);
  return late.length;
}

const EXPIRE = `UPDATE holdfast_runs SET expired = 1, epoch = epoch + 1, worker_id = NULL, turns = ?2, history_length = ?3,
  available_at = CASE status WHEN 'blocked' THEN available_at ELSE min(coalesce(available_at, ?1), ?1) END,
  status = CASE status WHEN 'running' THEN 'sleeping' ELSE status END WHERE key = ?4`;

/** K7: with nothing to undo it fails at once; otherwise it is claimed for its rollbacks, but a blocked one stays blocked. */
export function expireRun(session: Session, run: RunHead, now: number): void {
  if (run.status === "rolling_back") {
    // K7: its rollbacks are exempt, and nothing else is left to end.
    session.db.run("UPDATE holdfast_runs SET expired = 1 WHERE key = ?", [run.key]);
    return;
  }
  const { deadlineAt } = run;
  const error = serializeError(new DeadlineExceededError({ runId: run.id, ...(deadlineAt !== undefined && { deadline: deadlineAt }) }));
  if (run.rollbacks === 0) return overrule(session, run, { status: "failed", error, resumable: false }, now);
  session.leasedRuns.forget(run.key);
  session.db.run(EXPIRE, [now, run.turns, run.historyLength, run.key]);
  if (run.isFiled) session.changed("work");
  putMessage(session, run.key, { type: "expire", error }, now);
}
