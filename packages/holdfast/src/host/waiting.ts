// What a run that a worker has waits for, in words, from its history and its attempts.
// Owns: nothing; a pure reading. A parked run says so itself: its driver knew more.
// Invariants: P11 (what an open run waits for can be seen from outside), D10 (what a resume has voided is open again).

import { type Command, describeOperation, type Job, type OpeningCommand, replayView, type Turn } from "@holdfast/core";
import type { AttemptRow } from "../store/port.ts";

/** Operations that somebody or something else settles. Scopes are left out: what is inside them tells more. */
const AWAITED: ReadonlySet<string> = new Set<OpeningCommand["type"]>([
  ...(["step", "transaction", "rollback", "activity", "child", "childResult", "sleep"] as const),
  ...(["signal", "receive", "condition", "ivar", "updateState", "signalRun", "cancelRun"] as const),
]);

interface Open {
  readonly command: OpeningCommand;
  /** Of the turn that opened it. */
  readonly time: number;
}

export function waitingForOf(turns: readonly Turn[], attempts: readonly AttemptRow[]): string[] {
  const open = new Map<number, Open>();
  for (const { jobs, commands, time } of replayView(turns)) {
    for (const job of jobs) settleByJob(open, job);
    for (const command of commands) apply(open, command, time);
  }
  return [...open.values()].map((one) => describe(one, attempts));
}

function apply(open: Map<number, Open>, command: Command, time: number): void {
  if ("n" in command) {
    if (AWAITED.has(command.type)) open.set(command.seq, { command, time });
  } else if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) open.delete(command.seq);
}
function settleByJob(open: Map<number, Open>, job: Job): void {
  if (job.type === "resolve" || job.type === "childStarted") open.delete(job.seq);
  else if (job.type === "fire" && open.get(job.seq)?.command.type === "sleep") open.delete(job.seq);
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
function dueOf(command: OpeningCommand, time: number): number | undefined {
  if (command.type === "sleep") return command.until ?? time + (command.duration ?? 0);
  const isTimed = command.type === "signal" || command.type === "receive" || command.type === "condition";
  return isTimed && command.timeout !== undefined ? time + command.timeout : undefined;
}
const iso = (time: number): string => new Date(time).toISOString();
