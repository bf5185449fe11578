// What a run waits for, derived from its history and its attempts.
// Owns: nothing; it only reads. Callers put the answer into words.
// Invariants: P11 (what an open run waits for can be seen from outside), D10 (an operation whose failure a resume has voided is open
// again), D8 (the last failure is known while the next attempt is pending).

import {
  type AwaitedCommand,
  CLOCK_KINDS,
  type Command,
  dueOf,
  isAwaited,
  type Job,
  replayView,
  type SerializedError,
  type Turn,
} from "@holdfast/core";
import type { StoredAttempt } from "./attempt.ts";

/** An operation that a run waits for. */
export interface AwaitedOperation {
  /** The command that opened it. */
  readonly command: AwaitedCommand;
  /** The time of the turn that opened it. */
  readonly openedAt: number;
  /** When a sleep or a timeout ends. */
  readonly dueAt: number | undefined;
  /** Whether an attempt has been made. */
  readonly isAttempted: boolean;
  /** Number of the current or next attempt, unless it is the first. */
  readonly attempt: number | undefined;
  /** When that attempt is due, if it is pending. */
  readonly retryAt: number | undefined;
}
/** What a run waits for. */
export interface Awaited {
  /** The operations that are open. */
  readonly operations: readonly AwaitedOperation[];
  /** D10: when a failed run is tried again as a whole. */
  readonly retryRunAt: number | undefined;
}

/** What the run of these turns and attempts waits for. */
export function awaitedBy(turns: readonly Turn[], attempts: readonly StoredAttempt[]): Awaited {
  const operations = [...openOf(turns).values()].map(({ command, time }) => ({
    command,
    openedAt: time,
    dueAt: dueOf(command, time),
    ...attemptOf(command.seq, attempts),
  }));
  const last = turns.at(-1);
  const failed = last?.commands.at(-1);
  const after = failed?.type === "fail" ? failed.retryAfter : undefined;
  return { operations, retryRunAt: after === undefined ? undefined : (last?.time ?? 0) + after };
}

/** The error of the last attempt, if the next one is pending: of an operation, or of the run as a whole (D8, D10). */
export function lastFailure(turns: readonly Turn[], attempts: readonly StoredAttempt[]): SerializedError | undefined {
  const failed = turns.at(-1)?.commands.at(-1);
  if (failed?.type === "fail") return failed.error;
  const open = openOf(turns);
  const newest = new Map<number, StoredAttempt>();
  for (const row of attempts) if (open.has(row.seq) && row.number >= (newest.get(row.seq)?.number ?? 0)) newest.set(row.seq, row);
  let last: StoredAttempt | undefined;
  for (const row of newest.values()) if (row.error !== undefined && (row.endedAt ?? 0) >= (last?.endedAt ?? 0)) last = row;
  return last?.error;
}

/** A moment as text, in ISO 8601; one that is outside the range of Date, in milliseconds. */
export function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

interface Open {
  readonly command: AwaitedCommand;
  /** Time of the turn that opened it. */
  readonly time: number;
}
function openOf(turns: readonly Turn[]): Map<number, Open> {
  const open = new Map<number, Open>();
  for (const { jobs, commands, time } of replayView(turns)) {
    for (const job of jobs) settleByJob(open, job);
    for (const command of commands) apply(open, command, time);
  }
  return open;
}
function apply(open: Map<number, Open>, command: Command, time: number): void {
  if ("n" in command) {
    if (isAwaited(command)) open.set(command.seq, { command, time });
  } else if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) open.delete(command.seq);
}
function settleByJob(open: Map<number, Open>, job: Job): void {
  if (job.type === "resolve" || job.type === "childStarted") open.delete(job.seq);
  else if (job.type === "fire" && CLOCK_KINDS.has(open.get(job.seq)?.command.type ?? "")) open.delete(job.seq);
}

function attemptOf(seq: number, attempts: readonly StoredAttempt[]): Pick<AwaitedOperation, "isAttempted" | "attempt" | "retryAt"> {
  let last: StoredAttempt | undefined;
  for (const row of attempts) if (row.seq === seq && row.number >= (last?.number ?? 0)) last = row;
  if (last === undefined) return { isAttempted: false, attempt: undefined, retryAt: undefined };
  const { status, number, retryAt } = last;
  if (status === "failed" && retryAt !== undefined && number > 0) return { isAttempted: true, attempt: number + 1, retryAt };
  const current = status === "running" || status === "completed" ? number : number + 1;
  return { isAttempted: true, attempt: current > 1 ? current : undefined, retryAt: undefined };
}
