// Activities: what workers get of them, and how attempts end whose time is up.
// Owns: the decision what has run out, and what its error says.
// Invariants: D8 D11 (retries by policy, limits by the store's clock); the server fences all of it by token and by time.

import {
  type ActivityLimit,
  HoldfastError,
  isRetryable,
  type RetryPolicy,
  StepTimeoutError,
  type StoredRunRetry,
  serializeError,
} from "@holdfast/core";
import type { ClaimedTask, TaskAnswer } from "holdfast/store";
import { json, payload, readJson, readOptionalNumber, readOptionalPayload, readPayload, readText, time, type Value } from "./columns.ts";
import { isDamage } from "./failures.ts";

type TaskColumns = Readonly<Record<string, Value>>;

export interface TaskClaimAnswer {
  readonly now: number;
  readonly next: number | null;
  readonly overdue: boolean;
  readonly tasks: readonly TaskColumns[] | null;
}

export function claimedTask(row: TaskColumns): ClaimedTask {
  return {
    id: Number(row["id"]),
    runId: readText(row["runId"]),
    execution: Number(row["execution"]),
    seq: Number(row["seq"]),
    activity: readText(row["activity"]),
    queue: readText(row["queue"]),
    location: readText(row["location"]),
    input: readPayload(row["input"]),
    retry: readJson<StoredRunRetry>(row["retry"]),
    startToClose: readOptionalNumber(row["startToClose"]),
    scheduleToClose: readOptionalNumber(row["scheduleToClose"]),
    scheduleToStart: readOptionalNumber(row["scheduleToStart"]),
    heartbeat: readOptionalNumber(row["heartbeat"]),
    attempt: Number(row["attempt"]),
    token: Number(row["token"]),
    lastHeartbeat: readOptionalPayload(row["lastHeartbeat"]),
  };
}

/** As `settle_tasks_1` reads it: s status, v value, e error, r retryable, n random, w the wait that it asks for. */
export function answerFields({ id, token, outcome }: TaskAnswer, i: number): object {
  if (outcome.status === "completed") return { i, id, token, s: "completed", v: payload(outcome.value) };
  return { i, id, token, s: "failed", e: json(outcome.error), r: outcome.retryable, n: outcome.random, w: time(outcome.after) };
}

/** A task that can't be read fails: whoever else asks for tasks is not to meet it again. */
export function damagedFields(row: TaskColumns, i: number, error: Error): object {
  return { i, id: Number(row["id"]), token: Number(row["token"]), s: "failed", e: json(serializeError(error)), o: true };
}

/** A task whose time is up, as `overdue_1` found it. */
export interface LateTask {
  readonly id: number;
  readonly token: number;
  readonly attempt: number;
  readonly activity: string;
  readonly retry: string;
  readonly worker_id: string | null;
  readonly scheduled_at: number;
  readonly started_at: number | null;
  readonly heartbeat_at: number | null;
  readonly schedule_to_close: number | null;
  readonly schedule_to_start: number | null;
  readonly start_to_close: number | null;
  readonly heartbeat: number | null;
}

/** How it ends: the whole task (o), this attempt, or only its lease. Undefined: it is not late after all. */
export function lateFields(task: LateTask, now: number, i: number): object | undefined {
  const passed = (from: number | null, length: number | null): length is number => from !== null && length !== null && now >= from + length;
  const { id, token, scheduled_at, schedule_to_close, schedule_to_start, start_to_close } = task;
  const late = { i, id, token, l: true };
  const isRunning = task.worker_id !== null;
  if (passed(scheduled_at, schedule_to_close))
    return { ...late, s: "failed", e: timeoutError(task, schedule_to_close, "scheduleToClose").text, o: true };
  if (!isRunning) {
    // Attempts of before a resume say nothing of this (D10): its token moves with its first start.
    const neverStarted = token === 0 && passed(scheduled_at, schedule_to_start);
    return neverStarted ? { ...late, s: "failed", e: timeoutError(task, schedule_to_start, "scheduleToStart").text, o: true } : undefined;
  }
  for (const [limit, from, length] of [
    ["startToClose", task.started_at, start_to_close],
    ["heartbeat", task.heartbeat_at, task.heartbeat],
  ] as const) {
    if (!passed(from, length)) continue;
    const { error, text } = timeoutError(task, length, limit);
    return { ...late, s: "failed", e: text, r: isRetryable(error, retryOf(task)) };
  }
  const lost = new HoldfastError(`The worker that ran attempt ${task.attempt} did not come back.`, { code: "HF_WORKER_LOST" });
  // It is the worker that failed: nothing speaks for a wait.
  return { ...late, s: "lost", e: json(serializeError(lost)), r: true, w: 0 };
}
/** Of one that can't be read nothing is known: the next claim of it finds that out. */
function retryOf({ retry }: LateTask): Pick<RetryPolicy, "nonRetryable"> | undefined {
  try {
    const { nonRetryable } = readJson<StoredRunRetry>(retry);
    return nonRetryable === undefined ? undefined : { nonRetryable };
  } catch (error) {
    if (!isDamage(error)) throw error;
    return undefined;
  }
}
function timeoutError(task: LateTask, timeout: number, limit: ActivityLimit): { error: StepTimeoutError; text: string } {
  const error = new StepTimeoutError({ step: readText(task.activity), timeout, attempt: Math.max(1, task.attempt), limit });
  return { error, text: json(serializeError(error)) };
}
