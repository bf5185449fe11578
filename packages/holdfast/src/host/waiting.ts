// What a run that a worker has waits for, in words, from its history and its attempts.
// Owns: nothing; a pure reading. A parked run says so itself: its driver knew more, but not what became of activities since.
// Invariants: P11 (what an open run waits for can be seen from outside), D10 (what a resume has voided is open again).

import {
  CLOCK_KINDS,
  type Command,
  describeOperation,
  dueOf,
  IS_AWAITED,
  type Job,
  type OpeningCommand,
  replayView,
  type SerializedError,
  type Turn,
} from "@holdfast/core";
import type { AttemptRow } from "../store/port.ts";

interface Open {
  readonly command: OpeningCommand;
  /** Of the turn that opened it. */
  readonly time: number;
}

export function waitingForOf(turns: readonly Turn[], attempts: readonly AttemptRow[]): string[] {
  return [...nextAttempt(turns.at(-1)), ...[...openOf(turns).values()].map((one) => describe(one, attempts))];
}
/** Of a run whose last turn failed, and which is tried again as a whole (D10). */
function nextAttempt(last: Turn | undefined): string[] {
  const failed = last?.commands.at(-1);
  if (last === undefined || failed?.type !== "fail" || failed.retryAfter === undefined) return [];
  return [`another attempt at ${iso(last.time + failed.retryAfter)}`];
}
function openOf(turns: readonly Turn[]): Map<number, Open> {
  const open = new Map<number, Open>();
  for (const { jobs, commands, time } of replayView(turns)) {
    for (const job of jobs) settleByJob(open, job);
    for (const command of commands) apply(open, command, time);
  }
  return open;
}

/** Do history and attempts say more than these words of a parked run: of activities, and of what is tried again? */
export function needsMore(waitingFor: readonly string[]): boolean {
  return waitingFor.some((text) => isActivity(text) || text.includes("attempt "));
}
export function isActivity(text: string): boolean {
  return text.startsWith("activity ");
}

export interface OpenActivity {
  /** As its driver names it among what a parked run waits for. */
  readonly operation: string;
  /** With the attempt that runs, or comes. */
  readonly description: string;
  readonly name: string;
  /** Undefined: the run's. */
  readonly queue: string | undefined;
  /** Has any worker ever had it? */
  readonly isAttempted: boolean;
}
export function openActivities(turns: readonly Turn[], attempts: readonly AttemptRow[]): OpenActivity[] {
  return [...openOf(turns).values()].flatMap((one) => {
    const { command } = one;
    if (command.type !== "activity") return [];
    const { seq, unit, name, n, queue } = command;
    const isAttempted = attempts.some((row) => row.seq === seq);
    return { operation: describeOperation("activity", unit, name, n), description: describe(one, attempts), name, queue, isAttempted };
  });
}

/** Why the last attempt failed, of whatever waits for its next one: an operation, or the run as a whole (D8, D10). */
export function lastFailure(turns: readonly Turn[], attempts: readonly AttemptRow[]): SerializedError | undefined {
  const failed = turns.at(-1)?.commands.at(-1);
  if (failed?.type === "fail") return failed.error;
  const open = openOf(turns);
  const newest = new Map<number, AttemptRow>();
  for (const row of attempts) if (open.has(row.seq) && row.number >= (newest.get(row.seq)?.number ?? 0)) newest.set(row.seq, row);
  let last: AttemptRow | undefined;
  for (const row of newest.values()) if (row.error !== undefined && (row.endedAt ?? 0) >= (last?.endedAt ?? 0)) last = row;
  return last?.error;
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

function describe({ command, time }: Open, attempts: readonly AttemptRow[]): string {
  const { type, unit, name, n, seq } = command;
  const due = dueOf(command, time);
  return `${describeOperation(type, unit, name, n)}${attemptOf(seq, attempts)}${due === undefined ? "" : ` until ${iso(due)}`}`;
}
/** The attempt that runs, or when the next is due. A first one goes without saying. */
function attemptOf(seq: number, attempts: readonly AttemptRow[]): string {
  const last = attempts.filter((row) => row.seq === seq).reduce((latest, row) => (row.number > latest ? row.number : latest), 0);
  const row = attempts.find((one) => one.seq === seq && one.number === last);
  if (row === undefined) return "";
  if (row.status === "failed" && row.retryAt !== undefined && row.number > 0) return ` (attempt ${last + 1} at ${iso(row.retryAt)})`;
  const number = row.status === "running" || row.status === "completed" ? last : last + 1;
  return number > 1 ? ` (attempt ${number})` : "";
}
const iso = (time: number): string => new Date(time).toISOString();
