// Every operation of a run with its attempts, from history and the stored attempts: `run.operations()`.
// Owns: nothing; it only reads.
// Invariants: D12 (every attempt keeps status, error, times and worker; operations in order of emission).

import {
  CLOCK_KINDS,
  type Codec,
  carriedOutBy,
  childRunId,
  type ForkJob,
  formatLocation,
  HAS_ATTEMPTS,
  IS_LISTED,
  isWithin,
  type Job,
  kindOf,
  type OpeningCommand,
  type OperationInfo,
  type OperationKind,
  type Turn,
} from "@holdfast/core";
import type { StoredAttempt } from "./attempt.ts";
import { readable } from "./readable.ts";

/** Kinds that are run by the worker that holds the run. */
const STEPS = carriedOutBy("worker");
/** Kinds that complete when they are recorded; side effects too, unless the host runs them. */
const INSTANT = carriedOutBy("inline", "record");

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
/** An operation, with the record that opened it. */
export interface RecordedOperation {
  /** The command that opened it. */
  readonly command: OpeningCommand;
  /** The index of the turn that opened it. */
  readonly turn: number;
  /** What users see of it. */
  readonly info: OperationInfo;
}
interface Draft {
  readonly command: OpeningCommand;
  readonly turn: number;
  /** How it ended is recorded: only a resume of the run lets a later record change it (D10). */
  isSettled: boolean;
  readonly info: Mutable<Omit<OperationInfo, "attempts">> & { attempts: OperationInfo["attempts"][number][] };
}
type DraftInfo = Draft["info"];

/**
 * What `run.operations()` lists. `workers`: the worker that wrote each turn, by index. `closedAt`: when the run ended; since then no
 * operation is in progress.
 */
export function operationsOf(
  turns: readonly Turn[],
  attempts: readonly StoredAttempt[],
  workers: ReadonlyMap<number, string>,
  codec: Codec,
  closedAt?: number,
): OperationInfo[] {
  return recordedOperations(turns, attempts, workers, codec, closedAt).map(({ info }) => info);
}
/** The same, for readers that need the records as well. */
export function recordedOperations(
  turns: readonly Turn[],
  attempts: readonly StoredAttempt[],
  workers: ReadonlyMap<number, string>,
  codec: Codec,
  closedAt?: number,
): RecordedOperation[] {
  const drafts = new Map<number, Draft>();
  for (const turn of turns) {
    for (const job of turn.jobs) settleByJob(drafts, job, turn, codec);
    for (const command of turn.commands) {
      if ("n" in command) {
        if (IS_LISTED.has(command.type)) drafts.set(command.seq, opened(command, turn, codec));
      } else if (command.type === "settle") end(drafts.get(command.seq), SETTLED[command.status], turn.time);
      else if (command.type === "cancel") {
        const draft = drafts.get(command.seq);
        end(draft, draft !== undefined && STEPS.has(draft.info.kind) ? "abandoned" : "canceled", turn.time);
      }
    }
  }
  if (closedAt !== undefined) for (const draft of drafts.values()) if (draft.info.endedAt === undefined) end(draft, "abandoned", closedAt);
  const rows = bySeq(closedAt === undefined ? attempts : attempts.map((row) => lost(row, closedAt)));
  for (const { info, command, turn } of drafts.values()) addAttempts(info, rows.get(command.seq) ?? [], workers.get(turn) ?? "");
  return [...drafts.values()];
}

const SETTLED = { completed: "completed", failed: "failed", canceled: "canceled", timedOut: "completed" } as const;

function opened(command: OpeningCommand, turn: Turn, codec: Codec): Draft {
  const at = new Date(turn.time);
  const kind = kindOf(command) as OperationKind;
  const instant = INSTANT.has(command.type);
  const input = readable(codec, command.type === "activity" || command.type === "child" ? command.input : undefined);
  const { value: output, error } = readable(codec, command.type === "sideEffect" ? command.value : undefined);
  const info: DraftInfo = {
    location: formatLocation(command.unit, command.name, command.n),
    unit: command.unit,
    kind,
    name: command.name,
    status: instant ? "completed" : HAS_ATTEMPTS.has(kind) ? "scheduled" : "waiting",
    input: input.value,
    output,
    error: command.type === "sideEffect" ? (command.error ?? error) : input.error,
    attempts: [],
    scheduledAt: at,
    endedAt: instant ? at : undefined,
    childId: command.type === "child" ? command.id : undefined,
  };
  return { command, turn: turn.index, isSettled: instant, info };
}

function settleByJob(drafts: ReadonlyMap<number, Draft>, job: Job, turn: Turn, codec: Codec): void {
  if (job.type === "fire") {
    const draft = drafts.get(job.seq);
    if (draft !== undefined && CLOCK_KINDS.has(draft.info.kind)) end(draft, "completed", turn.time);
  }
  const child = job.type === "childStarted" ? drafts.get(job.seq) : undefined;
  if (job.type === "childStarted" && child !== undefined) child.info.childId = job.runId;
  if (job.type === "fork") for (const draft of drafts.values()) renameChild(draft, job, turn);
  if (job.type === "resume") {
    for (const draft of drafts.values()) draft.isSettled = false;
    for (const seq of job.voids) reopen(drafts, seq);
  }
  if (job.type !== "resolve") return;
  const draft = drafts.get(job.seq);
  if (draft === undefined) return;
  const { outcome } = job;
  if (outcome.status === "completed") {
    const { value, error } = readable(codec, outcome.value);
    draft.info.output = value;
    draft.info.error = error;
  }
  if (outcome.status === "failed") draft.info.error = outcome.error;
  end(draft, outcome.status, turn.time);
}

/** F1: a child that the copied turns left open is another run of the fork. */
function renameChild({ info, command }: Draft, { runId }: ForkJob, { jobs }: Turn): void {
  const isSettled = info.endedAt !== undefined || jobs.some((job) => job.type === "resolve" && job.seq === command.seq);
  if (info.kind === "child" && !isSettled) info.childId = childRunId(runId, 1, info.location);
}

function end(draft: Draft | undefined, status: OperationInfo["status"], time: number): void {
  if (draft === undefined || draft.isSettled) return;
  draft.isSettled = true;
  draft.info.status = status;
  draft.info.endedAt = new Date(time);
}

/** D10: its failure is voided; it continues or is tried again, and so do the scopes around it. */
function reopen(drafts: ReadonlyMap<number, Draft>, seq: number): void {
  const unit = drafts.get(seq)?.info.unit;
  for (const { command, info } of drafts.values()) {
    if (command.seq !== seq && (unit === undefined || !isWithin(unit, info.location))) continue;
    info.status = HAS_ATTEMPTS.has(info.kind) ? "scheduled" : "waiting";
    info.error = undefined;
    info.endedAt = undefined;
  }
}

function bySeq(attempts: readonly StoredAttempt[]): ReadonlyMap<number, StoredAttempt[]> {
  const groups = new Map<number, StoredAttempt[]>();
  for (const row of attempts) {
    const group = groups.get(row.seq);
    if (group === undefined) groups.set(row.seq, [row]);
    else group.push(row);
  }
  return groups;
}
/** For a run that was terminated or passed its deadline: no host has recorded how the attempt in flight ended, and none will. */
function lost(row: StoredAttempt, endedAt: number): StoredAttempt {
  return row.status === "running" ? { ...row, status: "lost", endedAt } : row;
}

/** A step that succeeded at once has no rows: its record and outcome count as one attempt, by the worker that recorded it. */
function addAttempts(draft: DraftInfo, rows: readonly StoredAttempt[], recordedBy: string): void {
  if (!HAS_ATTEMPTS.has(draft.kind)) return;
  const own = rows.filter((row) => row.number > 0).sort((a, b) => a.number - b.number);
  for (const { number, status, error, startedAt, endedAt, workerId = "" } of own) {
    draft.attempts.push({
      number,
      status,
      error,
      startedAt: new Date(startedAt),
      endedAt: endedAt === undefined ? undefined : new Date(endedAt),
      workerId: workerId === "" ? recordedBy : workerId,
    });
  }
  if (draft.attempts.length === 0 && STEPS.has(draft.kind)) {
    const status =
      draft.endedAt === undefined ? "running" : draft.status === "completed" ? "completed" : draft.status === "failed" ? "failed" : "lost";
    draft.attempts.push({
      number: 1,
      status,
      error: draft.error,
      startedAt: draft.scheduledAt,
      endedAt: draft.endedAt,
      workerId: recordedBy,
    });
  }
  if (draft.endedAt === undefined && draft.attempts.at(-1)?.status === "running") draft.status = "running";
}
