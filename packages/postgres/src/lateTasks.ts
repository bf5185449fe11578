// Activities that have timed out.
// Owns: which limit has passed, and the text of its error.
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
import { json, readJson, readText } from "./columns.ts";
import { isDamage } from "./connection/serverErrors.ts";

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
  const lost = new HoldfastError(`The worker that ran attempt ${task.attempt} was lost: its lease expired.`, { code: "HF_WORKER_LOST" });
  // The worker failed, not the activity: the next attempt need not wait.
  return { ...late, s: "lost", e: json(serializeError(lost)), r: true, w: 0 };
}
/** Undefined if it can't be read: the next claim of the task finds that out. */
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
