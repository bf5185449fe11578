// `timelineOf`: the course of an execution, from its recorded turns and attempts.
// Owns: which operations are listed. Units, loops and messages have files of their own.
// Invariants: pure; D12 (an operation has the status and the attempts that `run.operations()` gives it); no values and no stacks.

import { type Codec, dueOf, type Turn } from "@holdfast/core";
import { type RecordedOperation, recordedOperations } from "@holdfast/host";
import type { InspectedAttempt, Timeline, TimelineAttempt, TimelineOperation, TimelineOptions } from "../types.ts";
import { loopsOf } from "./loops.ts";
import { messagesOf } from "./messages.ts";
import { unitsOf } from "./units.ts";

const MOST_OPERATIONS = 20_000;
const LONGEST_MESSAGE = 200;
/** Values are not part of a timeline: none is decoded. */
const NO_VALUES: Codec = { encode: () => "null", decode: () => undefined };

/**
 * The course of one execution: its turns and the workers that committed them, its units, operations with their attempts, loops and messages.
 * It is computed from all turns that are kept; `options.after` limits what is returned.
 */
export function timelineOf(
  turns: readonly Turn[],
  attempts: readonly InspectedAttempt[],
  workers: ReadonlyMap<number, string>,
  options: TimelineOptions = {},
): Timeline {
  const { closedAt, after, mostOperations = MOST_OPERATIONS } = options;
  const recorded = recordedOperations(turns, attempts, workers, NO_VALUES, closedAt);
  const listed = recorded.slice(Math.max(0, recorded.length - mostOperations));
  const isShown = after === undefined ? () => true : changedAfter(turns, after, closedAt);
  const retryAt = retriesOf(attempts);
  const isNew = (turn: number | null): boolean => after === undefined || turn === null || turn > after;
  return {
    execution: options.execution ?? executionOf(turns),
    lastTurn: turns.at(-1)?.index ?? -1,
    complete: listed.length === recorded.length,
    turns: turns.filter(({ index }) => isNew(index)).map(({ index, time }) => ({ index, time, workerId: workerOf(workers.get(index)) })),
    units: unitsOf(turns, recorded, { closedAt, after, listed: listed.length === recorded.length ? undefined : listed }),
    operations: listed.filter(isShown).map((operation) => timelineOperation(operation, retryAt)),
    loops: loopsOf(turns, recorded),
    messages: messagesOf(turns).filter(({ arrivedTurn, takenTurn }) => isNew(arrivedTurn) || isNew(takenTurn)),
  };
}

function executionOf(turns: readonly Turn[]): number {
  const start = turns[0]?.jobs.find((job) => job.type === "start");
  return start?.execution ?? 1;
}

/** Opened or changed after that turn, or still open: attempts of an open operation change without a turn. */
function changedAfter(turns: readonly Turn[], after: number, closedAt: number | undefined): (operation: RecordedOperation) => boolean {
  const changed = new Set<number>();
  for (const { index, jobs, commands } of turns) {
    if (index <= after) continue;
    for (const record of [...jobs, ...commands]) if ("seq" in record) changed.add(record.seq);
    for (const job of jobs) if (job.type === "resume") for (const seq of job.voids) changed.add(seq);
  }
  return ({ command, info: { endedAt } }) =>
    endedAt === undefined || changed.has(command.seq) || (closedAt !== undefined && endedAt.getTime() === closedAt);
}

function timelineOperation({ command, turn, info }: RecordedOperation, retryAt: ReadonlyMap<number, number>): TimelineOperation {
  const { location, unit, kind, name, status, scheduledAt, endedAt, childId, error } = info;
  return {
    seq: command.seq,
    turn,
    location,
    unit,
    kind,
    name,
    status,
    scheduledAt: scheduledAt.getTime(),
    endedAt: endedAt?.getTime() ?? null,
    wakeAt: dueOf(command, scheduledAt.getTime()) ?? null,
    retryAt: endedAt === undefined && status !== "running" ? (retryAt.get(command.seq) ?? null) : null,
    childId: childId ?? null,
    error: error === undefined ? null : { name: error.name, message: shortened(error.message) },
    attempts: info.attempts.map(timelineAttempt),
  };
}
function timelineAttempt({ number, status, startedAt, endedAt, workerId }: RecordedOperation["info"]["attempts"][number]): TimelineAttempt {
  return { number, status, startedAt: startedAt.getTime(), endedAt: endedAt?.getTime() ?? null, workerId: workerOf(workerId) };
}
function workerOf(id: string | undefined): string | null {
  return id === undefined || id === "" ? null : id;
}
/** Whole characters: half a surrogate pair is not text. */
function shortened(message: string): string {
  if (message.length <= LONGEST_MESSAGE) return message;
  const cut = message.slice(0, LONGEST_MESSAGE - 1).replace(/[\uD800-\uDBFF]$/, "");
  return `${cut}…`;
}

/** When the next attempt of each operation is due, by its newest attempt. */
function retriesOf(attempts: readonly InspectedAttempt[]): ReadonlyMap<number, number> {
  const newest = new Map<number, InspectedAttempt>();
  for (const row of attempts) if (row.number >= (newest.get(row.seq)?.number ?? 0)) newest.set(row.seq, row);
  return new Map([...newest].flatMap(([seq, { retryAt }]) => (retryAt === undefined ? [] : [[seq, retryAt] as const])));
}
