// What a run waits for, by its history and its attempts.
// Owns: nothing; a pure reading. How it is worded is for those who show it.
// Invariants: P11 (what an open run waits for can be seen from outside), D10 (what a resume has voided is open again), D8 (the last failure
// is known while the next attempt is awaited).

import {
  CLOCK_KINDS,
  type Command,
  dueOf,
  IS_AWAITED,
  type Job,
  type OpeningCommand,
  replayView,
  type SerializedError,
  type Turn,
} from "@holdfast/core";
import type { StoredAttempt } from "./attempt.ts";

export interface AwaitedOperation {
  readonly command: OpeningCommand;
  /** The end of a sleep or a timeout. */
  readonly dueAt: number | undefined;
  /** Has any attempt of it been made? */
  readonly isAttempted: boolean;
  /** The attempt that runs or comes next, unless it is the first. */
  readonly attempt: number | undefined;
  /** When that attempt is due, if it waits for its time. */
  readonly retryAt: number | undefined;
}
export interface Awaited {
  readonly operations: readonly AwaitedOperation[];
  /** D10: when a run that failed is tried again as a whole. */
  readonly retryRunAt: number | undefined;
}

export function awaitedBy(turns: readonly Turn[], attempts: readonly StoredAttempt[]): Awaited {
  const operations = [...openOf(turns).values()].map(({ command, time }) => ({
    command,
    dueAt: dueOf(command, time),
    ...attemptOf(command.seq, attempts),
  }));
  const last = turns.at(-1);
  const failed = last?.commands.at(-1);
  const after = failed?.type === "fail" ? failed.retryAfter : undefined;
  return { operations, retryRunAt: after === undefined ? undefined : (last?.time ?? 0) + after };
}

/** Why the last attempt failed of what waits for its next one: an operation, or the run as a whole (D8, D10). */
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

/** Some moments are beyond what a date can say. */
export function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

interface Open {
  readonly command: OpeningCommand;
  /** Of the turn that opened it. */
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
    if (IS_AWAITED.has(command.type)) open.set(command.seq, { command, time });
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
