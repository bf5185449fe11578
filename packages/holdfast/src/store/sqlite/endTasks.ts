// How attempts of activities end: by an answer, by a limit, by the loss of its worker.
// Owns: the decision between another attempt and the answer to the run.
// Invariants: D8 (retries by the task's policy), D11 (late answers are dropped: the token has moved on), K7 (no
// attempt after the deadline of the run).

import {
  type ActivityLimit,
  HoldfastError,
  isRetryable,
  type Outcome,
  retryDelay,
  type SerializedError,
  StepTimeoutError,
  serializeError,
} from "@holdfast/core";
import type { TaskAnswer } from "../port.ts";
import { heldTask } from "./claimTasks.ts";
import { expireRun } from "./controlRuns.ts";
import { answerOperation } from "./inbox.ts";
import type { Session } from "./session.ts";
import { after, deleteTask, findDueTasks, findTask, keepAttempt, type Task } from "./tasks.ts";

/** False: the attempt was over, the answer is dropped. */
export function answerTask(session: Session, { id, token, outcome }: TaskAnswer, now: number): boolean {
  const task = heldTask(session, id, token, now);
  if (task === undefined) return false;
  if (outcome.status === "completed") {
    keepAttempt(session.db, task, { status: "completed", endedAt: now });
    end(session, task, outcome, now);
  } else {
    const { error, retryable, random, after: asked } = outcome;
    const delay = asked ?? retryDelay(task.retry, task.attempt, random);
    failAttempt(session, task, { status: "failed", error, retryable, delay }, now);
  }
  return true;
}

interface FailedAttempt {
  readonly status: "failed" | "lost";
  readonly error: SerializedError;
  readonly retryable: boolean;
  readonly delay: number;
}

function failAttempt(session: Session, task: Task, { status, error, retryable, delay }: FailedAttempt, now: number): void {
  const retryAt = now + delay;
  const closesAt = after(task.scheduledAt, task.scheduleToClose);
  const again = retryable && task.attempt < task.retry.maxAttempts && (closesAt === undefined || retryAt < closesAt);
  keepAttempt(session.db, task, { status, error, endedAt: now, retryAt: again ? retryAt : undefined });
  if (!again) return end(session, task, { status: "failed", error, attempts: task.attempt }, now);
  waitAgain(session, task, retryAt);
  if (task.deadlineAt === undefined || retryAt < task.deadlineAt) return;
  const run = session.find(task.runId);
  if (run?.isOpen === true) expireRun(session, run, now); // K7: the next attempt would come too late
}

function waitAgain(session: Session, task: Task, availableAt: number): void {
  const due = after(task.scheduledAt, task.scheduleToClose) ?? null;
  session.db.run("UPDATE holdfast_tasks SET worker_id = NULL, token = token + 1, available_at = ?, due_at = ? WHERE id = ?", [
    availableAt,
    due,
    task.id,
  ]);
  session.changed("tasks");
}

function end(session: Session, task: Task, outcome: Outcome, now: number): void {
  deleteTask(session.db, task.id);
  if (task.isFiled) session.changed("tasks");
  answerOperation(session, task.runId, task.execution, task.seq, outcome, now);
}

// ── limits ──

export const SWEPT_AT_ONCE = 500;
/** The store makes no random choices: its own retries take the middle. */
const MIDDLE = 0.5;

/** Ends the attempts whose time is up; of those that `isOne` names, by id. */
export function sweepTasks(session: Session, now: number, isOne: (id: number) => boolean = () => true): void {
  for (const id of findDueTasks(session.db, now, SWEPT_AT_ONCE)) {
    if (!isOne(id)) continue;
    const task = findTask(session, id, now);
    if (task === undefined) continue;
    timeOut(session, task, now);
    session.changed("tasks"); // the worker that runs it is notified that it is over
  }
}

function timeOut(session: Session, task: Task, now: number): void {
  const passed = (from: number, length: number | undefined): length is number => length !== undefined && now >= from + length;
  const { scheduledAt, startedAt, heartbeatAt, scheduleToClose, scheduleToStart, startToClose, heartbeat } = task;
  if (passed(scheduledAt, scheduleToClose)) {
    const error = timeoutError(task, scheduleToClose, "scheduleToClose");
    if (task.workerId !== undefined) keepAttempt(session.db, task, { status: "failed", error: serializeError(error), endedAt: now });
    end(session, task, { status: "failed", error: serializeError(error), attempts: task.attempt }, now);
  } else if (task.workerId === undefined) {
    const isStarted = task.token > 0; // no worker has claimed it since, whatever its attempts before a resume were (D10)
    if (!isStarted && passed(scheduledAt, scheduleToStart)) {
      const error = serializeError(timeoutError(task, scheduleToStart, "scheduleToStart"));
      end(session, task, { status: "failed", error, attempts: task.attempt }, now);
    }
  } else if (passed(startedAt, startToClose)) tooLong(session, task, timeoutError(task, startToClose, "startToClose"), now);
  else if (passed(heartbeatAt, heartbeat)) tooLong(session, task, timeoutError(task, heartbeat, "heartbeat"), now);
  else {
    const lost = new HoldfastError(`The worker that ran attempt ${task.attempt} was lost: its lease expired.`, { code: "HF_WORKER_LOST" });
    // The worker failed, not the activity: the next attempt need not wait.
    failAttempt(session, task, { status: "lost", error: serializeError(lost), retryable: true, delay: 0 }, now);
  }
}

function tooLong(session: Session, task: Task, error: StepTimeoutError, now: number): void {
  const { nonRetryable } = task.retry;
  const retryable = isRetryable(error, nonRetryable === undefined ? undefined : { nonRetryable });
  const delay = retryDelay(task.retry, task.attempt, MIDDLE);
  failAttempt(session, task, { status: "failed", error: serializeError(error), retryable, delay }, now);
}

function timeoutError(task: Task, timeout: number, limit: ActivityLimit): StepTimeoutError {
  return new StepTimeoutError({ step: task.activity, timeout, attempt: Math.max(1, task.attempt), limit });
}
