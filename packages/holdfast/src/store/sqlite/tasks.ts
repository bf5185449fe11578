// Activities that wait or are being carried out: rows of `holdfast_tasks`.
// Owns: how a task is added, read and dropped, and when it must be looked at next.
// Invariants: D11 (one lease a task, limits by the store's clock); a task that waits has `available_at`, one that a worker has has none. A
// row that can't be read fails its own operation, and no other.

import { type StoredRunRetry, serializeError } from "@holdfast/core";
import { StoreCorruptError } from "../errors.ts";
import type { AttemptRow, ClaimedTask, NewTask } from "../port.ts";
import { writeAttempt } from "./attempts.ts";
import {
  json,
  numberOrNull,
  payload,
  readJson,
  readNumber,
  readOptionalNumber,
  readOptionalPayload,
  readOptionalText,
  readPayload,
  readText,
  text,
  textOrNull,
} from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockById } from "./damage.ts";
import { isDamage } from "./failures.ts";
import { laneForTask } from "./filedLanes.ts";
import { answerOperation } from "./inbox.ts";
import type { Row } from "./library.ts";
import type { Session } from "./session.ts";

export interface Task extends ClaimedTask {
  readonly run: number;
  readonly scheduledAt: number;
  readonly workerId: string | undefined;
  readonly startedAt: number;
  readonly leasedUntil: number;
  readonly heartbeatAt: number;
  /** The run's. */
  readonly deadlineAt: number | undefined;
  /** Its queue may have limits: its end may make room for others (Q7). */
  readonly isFiled: boolean;
}

export function addTask(session: Session, run: number, execution: number, task: NewTask, now: number): void {
  const { seq, activity, queue, location, input, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat } = task;
  session.db.run(
    `INSERT INTO holdfast_tasks (run, execution, seq, activity, queue, location, input, retry, start_to_close,
       schedule_to_close, schedule_to_start, heartbeat, scheduled_at, available_at, due_at, attempt, token, work_key, priority, lane)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, 0, ?16, ?17, ?18)`,
    [
      run,
      execution,
      seq,
      text(activity),
      text(queue),
      text(location),
      payload(input),
      json(retry),
      numberOrNull(startToClose),
      numberOrNull(scheduleToClose),
      numberOrNull(scheduleToStart),
      numberOrNull(heartbeat),
      now,
      earliest([after(now, scheduleToClose), after(now, scheduleToStart)]) ?? null,
      task.attempt ?? 0,
      textOrNull(task.key),
      task.priority ?? 0,
      laneForTask(session, task, "due"),
    ],
  );
  session.changed("tasks");
}

const TASK = `SELECT t.id, t.run, r.id, t.execution, t.seq, t.activity, t.queue, t.location, t.input, t.retry, t.start_to_close,
  t.schedule_to_close, t.schedule_to_start, t.heartbeat, t.scheduled_at, t.attempt, t.token, t.worker_id, t.started_at, t.leased_until,
  t.heartbeat_at, t.last_heartbeat, r.deadline_at, t.lane IS NOT NULL, r.execution
  FROM holdfast_tasks t JOIN holdfast_runs r ON r.key = t.run`;

export function findTask(session: Session, id: number, now: number): Task | undefined {
  const row = session.db.get(`${TASK} WHERE t.id = ?`, [id]);
  if (row === undefined) return undefined;
  return readTask(row, (error) => endDamaged(session, row, error, now));
}
export function findDueTasks(db: Connection, now: number, limit: number): number[] {
  const sql = "SELECT id FROM holdfast_tasks WHERE due_at <= ? AND due_at IS NOT NULL ORDER BY due_at LIMIT ?";
  return db.all(sql, [now, limit]).map(([id]) => readNumber(id));
}
/** Undefined if something else has written to it. */
function readTask(row: Row, damaged: (error: unknown) => void): Task | undefined {
  try {
    return taskOf(row);
  } catch (error) {
    if (!isDamage(error)) throw error;
    damaged(error);
    return undefined;
  }
}
/** The operation fails with the reason. If the row does not say which operation, the run is blocked and the task is set aside. */
function endDamaged(session: Session, row: Row, cause: unknown, now: number): void {
  const [id, , runId, execution, seq] = row;
  if (typeof execution !== "number" || typeof seq !== "number" || !isOfRun(row)) {
    session.db.run("UPDATE holdfast_tasks SET available_at = NULL, due_at = NULL WHERE id = ?", [readNumber(id)]);
    blockById(
      session,
      readText(runId),
      new TypeError(`holdfast_tasks, row ${String(id)}: its run has no such execution or seq.`, { cause }),
    );
    return;
  }
  const error = serializeError(new StoreCorruptError({ where: session.db.path, cause }));
  const attempt = row[15];
  deleteTask(session.db, readNumber(id));
  const outcome = { status: "failed", error, attempts: typeof attempt === "number" ? attempt : 0 } as const;
  answerOperation(session, readText(runId), execution, seq, outcome, now);
}

/** Tasks go with their execution: one of another was not written by us. */
function isOfRun(row: Row): boolean {
  const [execution, seq] = row.slice(3, 5);
  return execution === row.at(-1) && Number(seq) >= 0;
}
function taskOf(row: Row): Task {
  const [id, run, runId, execution, seq, activity, queue, location, input, retry, startToClose, scheduleToClose, scheduleToStart] = row;
  if (!isOfRun(row)) throw new TypeError("It does not belong to an operation of its run.");
  const [heartbeat, scheduledAt, attempt, token, workerId, startedAt, leasedUntil, heartbeatAt, lastHeartbeat, deadlineAt, isFiled] =
    row.slice(13);
  return {
    id: readNumber(id),
    run: readNumber(run),
    runId: readText(runId),
    execution: readNumber(execution),
    seq: readNumber(seq),
    activity: readText(activity),
    queue: readText(queue),
    location: readText(location),
    input: readPayload(input),
    retry: readJson<StoredRunRetry>(retry),
    startToClose: readOptionalNumber(startToClose),
    scheduleToClose: readOptionalNumber(scheduleToClose),
    scheduleToStart: readOptionalNumber(scheduleToStart),
    heartbeat: readOptionalNumber(heartbeat),
    scheduledAt: readNumber(scheduledAt),
    attempt: readNumber(attempt),
    token: readNumber(token),
    workerId: readOptionalText(workerId),
    startedAt: readOptionalNumber(startedAt) ?? 0,
    leasedUntil: readOptionalNumber(leasedUntil) ?? 0,
    heartbeatAt: readOptionalNumber(heartbeatAt) ?? 0,
    lastHeartbeat: readOptionalPayload(lastHeartbeat),
    deadlineAt: readOptionalNumber(deadlineAt),
    isFiled: isFiled === 1,
  };
}

/** Abandons the activities of a run, all of them or those of these operations (C7). Workers that run one are notified. */
export function dropTasks(session: Session, run: number, now: number, seqs?: readonly number[]): void {
  const { db } = session;
  if (db.get("SELECT 1 FROM holdfast_tasks WHERE run = ? LIMIT 1", [run]) === undefined) return;
  for (const row of db.all(`${TASK} WHERE t.run = ?`, [run])) {
    const [id, , , , seq] = row;
    if (seqs !== undefined && !seqs.includes(Number(seq))) continue;
    const task = readTask(row, () => {});
    if (task?.workerId !== undefined) {
      keepAttempt(db, task, { status: "lost", endedAt: now });
      session.changed("tasks");
    }
    deleteTask(db, readNumber(id));
  }
}
export function deleteTask(db: Connection, id: number): void {
  db.run("DELETE FROM holdfast_tasks WHERE id = ?", [id]);
}

/** D12: the row of the attempt that a worker is at, or was. */
export function keepAttempt(db: Connection, task: Task, end: Omit<AttemptRow, "seq" | "number" | "startedAt" | "workerId">): void {
  const { run, execution, seq, attempt: number, startedAt, workerId = "" } = task;
  writeAttempt(db, run, execution, { seq, number, startedAt, workerId, ...end }, "task");
}

/** When a task that a worker has must be looked at: its lease or one of its limits has passed. */
export function dueWhileRunning(task: Pick<Task, "scheduledAt" | "startedAt" | "heartbeatAt" | "leasedUntil"> & NewTask): number {
  const { scheduledAt, startedAt, heartbeatAt, leasedUntil, scheduleToClose, startToClose, heartbeat } = task;
  const due = [leasedUntil, after(scheduledAt, scheduleToClose), after(startedAt, startToClose), after(heartbeatAt, heartbeat)];
  return earliest(due) ?? leasedUntil;
}
export function after(moment: number, length: number | undefined): number | undefined {
  return length === undefined ? undefined : moment + length;
}
function earliest(moments: readonly (number | undefined)[]): number | undefined {
  const known = moments.filter((moment) => moment !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
