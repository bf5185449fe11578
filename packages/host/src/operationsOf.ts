// Every operation of a run with its attempts, from history and the stored attempts: `run.operations()`.
// Owns: nothing; it only reads.
// Invariants: D12 (every attempt keeps status, error, times and worker; operations in order of emission).

import {
  CLOCK_KINDS,
  type Codec,
  carriedOutBy,
  formatLocation,
  HAS_ATTEMPTS,
  IS_LISTED,
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
type Draft = Mutable<OperationInfo> & { readonly seq: number; readonly turn: number; attempts: OperationInfo["attempts"][number][] };

/** `workers`: the worker that wrote each turn, by index. `closedAt`: when the run ended; since then no operation is in progress. */
export function operationsOf(
  turns: readonly Turn[],
  attempts: readonly StoredAttempt[],
  workers: ReadonlyMap<number, string>,
  codec: Codec,
  closedAt?: number,
): OperationInfo[] {
  const drafts = new Map<number, Draft>();
  for (const turn of turns) {
    for (const job of turn.jobs) settleByJob(drafts, job, turn, codec);
    for (const command of turn.commands) {
      if ("n" in command) {
        if (IS_LISTED.has(command.type)) drafts.set(command.seq, opened(command, turn, codec));
      } else if (command.type === "settle") end(drafts.get(command.seq), SETTLED[command.status], turn.time);
      else if (command.type === "cancel") {
        const draft = drafts.get(command.seq);
        end(draft, draft !== undefined && STEPS.has(draft.kind) ? "abandoned" : "canceled", turn.time);
      }
    }
  }
  if (closedAt !== undefined) for (const draft of drafts.values()) end(draft, "abandoned", closedAt);
  const rows = closedAt === undefined ? attempts : attempts.map((row) => lost(row, closedAt));
  for (const draft of drafts.values()) addAttempts(draft, rows, workers.get(draft.turn) ?? "");
  return [...drafts.values()].map(({ seq: _, turn: _turn, ...info }) => info as OperationInfo);
}

const SETTLED = { completed: "completed", failed: "failed", canceled: "canceled", timedOut: "completed" } as const;

function opened(command: OpeningCommand, turn: Turn, codec: Codec): Draft {
  const at = new Date(turn.time);
  const kind = kindOf(command) as OperationKind;
  const instant = INSTANT.has(command.type);
  const input = readable(codec, command.type === "activity" || command.type === "child" ? command.input : undefined);
  const { value: output, error } = readable(codec, command.type === "sideEffect" ? command.value : undefined);
  return {
    seq: command.seq,
    turn: turn.index,
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
}

function settleByJob(drafts: ReadonlyMap<number, Draft>, job: Job, turn: Turn, codec: Codec): void {
  if (job.type === "fire") {
    const draft = drafts.get(job.seq);
    if (draft !== undefined && CLOCK_KINDS.has(draft.kind)) end(draft, "completed", turn.time);
  }
  if (job.type === "resume") for (const seq of job.voids) reopen(drafts.get(seq));
  if (job.type !== "resolve") return;
  const draft = drafts.get(job.seq);
  if (draft === undefined) return;
  const { outcome } = job;
  if (outcome.status === "completed") {
    const { value, error } = readable(codec, outcome.value);
    draft.output = value;
    draft.error = error;
  }
  if (outcome.status === "failed") draft.error = outcome.error;
  end(draft, outcome.status, turn.time);
}

function end(draft: Draft | undefined, status: OperationInfo["status"], time: number): void {
  if (draft === undefined || draft.endedAt !== undefined) return;
  draft.status = status;
  draft.endedAt = new Date(time);
}

/** D10: its failure is voided; it continues or is tried again. */
function reopen(draft: Draft | undefined): void {
  if (draft === undefined) return;
  draft.status = HAS_ATTEMPTS.has(draft.kind) ? "scheduled" : "waiting";
  draft.error = undefined;
  draft.endedAt = undefined;
}

/** For a run that was terminated or passed its deadline: no host has recorded how the attempt in flight ended, and none will. */
function lost(row: StoredAttempt, endedAt: number): StoredAttempt {
  return row.status === "running" ? { ...row, status: "lost", endedAt } : row;
}

/** A step that succeeded at once has no rows: its record and outcome count as one attempt, by the worker that recorded it. */
function addAttempts(draft: Draft, rows: readonly StoredAttempt[], recordedBy: string): void {
  if (!HAS_ATTEMPTS.has(draft.kind)) return;
  const own = rows.filter((row) => row.seq === draft.seq && row.number > 0).sort((a, b) => a.number - b.number);
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
