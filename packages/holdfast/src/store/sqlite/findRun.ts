// The head of a run: the columns that a write depends on.
// Owns: the columns that decide; values of users are not among them, they may be large.
// Invariants: D4 (epoch and execution are compared with what is there now, in the transaction that writes).

import type { RunStatus } from "@holdfast/core";
import type { NewRun, ParentLink, RunRow, TurnCommit } from "../port.ts";
import { readNumber, readOptionalNumber, readOptionalText, readText, text } from "./columns.ts";
import { recordsOf, turnsOf } from "./commitKind.ts";
import type { Connection } from "./connection.ts";
import type { Row } from "./library.ts";
import { HISTORY_LENGTH_NOW, TURNS_NOW } from "./uncountedTurns.ts";

export interface RunHead {
  readonly key: number;
  readonly id: string;
  readonly workflow: string;
  readonly status: RunStatus;
  readonly isOpen: boolean;
  readonly isLeased: boolean;
  readonly isResumable: boolean;
  readonly execution: number;
  readonly epoch: number;
  readonly turns: number;
  readonly historyLength: number;
  readonly attempt: number;
  readonly rollbacks: number;
  /** Times that it was taken from a worker that had not parked it, since its last turn. */
  readonly recoveries: number;
  /** The highest inbox id that it ever had. */
  readonly lastMessage: number;
  readonly deadlineAt: number | undefined;
  /** M10: when an outcome of an update may have to go. */
  readonly forgetAt: number | undefined;
  /** Its queue may have limits: its end, or its parking, may make room for others (Q7). */
  readonly isFiled: boolean;
  /** Known never to have had a message, a child or an activity. */
  readonly isBare?: boolean;
  /** The run that it waits for (Q10), and whether others may wait for it: when it closes, they are looked for. */
  readonly after: string | undefined;
  readonly isAwaited: boolean;
  /** Q9: a worker has claimed it since its start, or it goes on from a history; it has a next start. */
  readonly isBegun: boolean;
  readonly hasNext: boolean;
  readonly parent: { readonly runId: string; readonly execution: number; readonly seq: number; readonly close: string } | undefined;
}

/** D4: a claim is over when the run has parked or ended, or another worker has claimed it. Its lease may have run out. */
export function isHeld(run: RunHead, epoch: number): boolean {
  return run.isOpen && run.isLeased && run.epoch === epoch;
}

const HEAD = `SELECT key, id, status, finished_at, worker_id, resumable, execution, epoch, ${TURNS_NOW}, ${HISTORY_LENGTH_NOW},
  attempt, rollbacks, last_message, deadline_at, parent_id, parent_execution, parent_seq, parent_close, recoveries, workflow, forget_at,
  after_id, awaited, lane, has_next, started_at FROM holdfast_runs r`;

export function findRun(db: Connection, id: string): RunHead | undefined {
  const row = db.get(`${HEAD} WHERE id = ?`, [text(id)]);
  return row === undefined ? undefined : headOf(row);
}
/** M3: the run that a start of this workflow under this key has created. */
export function findByStartKey(db: Connection, workflow: string, key: string): RunHead | undefined {
  const sql = `${HEAD} WHERE key = (SELECT run FROM holdfast_start_keys WHERE workflow = ? AND key = ?)`;
  const row = db.get(sql, [text(workflow), text(key)]);
  return row === undefined ? undefined : headOf(row);
}
export function findOpenChildren(db: Connection, parentId: string): RunHead[] {
  // Most runs have none, and to ask for one row costs a fifth of asking for all.
  if (db.get("SELECT 1 FROM holdfast_runs WHERE parent_id = ? AND finished_at IS NULL LIMIT 1", [text(parentId)]) === undefined) return [];
  return db.all(`${HEAD} WHERE parent_id = ? AND finished_at IS NULL`, [text(parentId)]).map(headOf);
}
/** K7: whose deadline has come. */
export function findLate(db: Connection, now: number, limit: number): RunHead[] {
  return db
    .all(
      `${HEAD} WHERE deadline_at <= ? AND deadline_at IS NOT NULL AND finished_at IS NULL AND expired = 0
    ORDER BY deadline_at LIMIT ?`,
      [now, limit],
    )
    .map(headOf);
}

function headOf(row: Row): RunHead {
  const [key, id, status, finishedAt, workerId, resumable, execution, epoch, turns, historyLength, ...more] = row;
  const [
    attempt,
    rollbacks,
    lastMessage,
    deadlineAt,
    parentId = null,
    parentExecution,
    parentSeq,
    parentClose,
    recoveries,
    workflow,
    forgetAt,
    after,
    awaited,
    lane,
    hasNext,
    startedAt,
  ] = more;
  return {
    key: readNumber(key),
    id: readText(id),
    workflow: readText(workflow),
    status: readText(status) as RunStatus,
    isOpen: finishedAt === null,
    isLeased: readOptionalText(workerId) !== undefined,
    isResumable: resumable === 1,
    execution: readNumber(execution),
    epoch: readNumber(epoch),
    turns: readNumber(turns),
    historyLength: readNumber(historyLength),
    attempt: readNumber(attempt),
    rollbacks: readNumber(rollbacks),
    recoveries: readNumber(recoveries),
    lastMessage: readNumber(lastMessage),
    deadlineAt: readOptionalNumber(deadlineAt),
    forgetAt: readOptionalNumber(forgetAt),
    after: readOptionalText(after),
    isAwaited: awaited === 1,
    isFiled: Number(lane) < 0,
    isBegun: startedAt !== null || readNumber(turns) > 0,
    hasNext: hasNext === 1,
    parent:
      parentId === null
        ? undefined
        : { runId: readText(parentId), execution: readNumber(parentExecution), seq: readNumber(parentSeq), close: readText(parentClose) },
  };
}

// ── heads that are known without asking ──

/** Of a run that was just created with its first turn. */
export function headOfFirst(key: number, run: NewRun, first: TurnCommit, deadlineAt: number | undefined): RunHead {
  return {
    key,
    id: run.id,
    workflow: run.workflow,
    status: first.status,
    isOpen: true,
    isLeased: true,
    isResumable: false,
    execution: 1,
    epoch: 1,
    turns: turnsOf(first),
    historyLength: recordsOf(first),
    attempt: 1,
    rollbacks: first.rollbacks ?? 0,
    recoveries: 0,
    lastMessage: 0,
    deadlineAt,
    forgetAt: undefined,
    after: undefined,
    isAwaited: false,
    isFiled: false,
    isBegun: true,
    hasNext: false,
    parent: linkOf(run.parent),
  };
}
/** Of a run that was just claimed. */
export function headOfClaimed(
  key: number,
  run: RunRow,
  known: Pick<RunHead, "rollbacks" | "lastMessage" | "forgetAt" | "isAwaited" | "isFiled" | "hasNext">,
): RunHead {
  return {
    key,
    id: run.id,
    workflow: run.workflow,
    status: run.status,
    isOpen: true,
    isLeased: true,
    isResumable: false,
    execution: run.execution,
    epoch: run.epoch,
    turns: run.turns,
    historyLength: run.historyLength,
    attempt: run.attempt,
    recoveries: run.recoveries,
    ...known,
    deadlineAt: run.deadlineAt,
    isBegun: true,
    after: undefined, // or it would not have been available
    parent: linkOf(run.parent),
  };
}
function linkOf(parent: ParentLink | undefined): RunHead["parent"] {
  if (parent === undefined) return undefined;
  const { runId, execution, seq, parentClose } = parent;
  return { runId, execution, seq, close: parentClose };
}
