// History: turns as rows of `records`.
// Owns: how a turn is handed to the server, and put together again.
// Invariants: Y7 (every record is there, in order); what belongs to a turn as a whole is in its first row.
//
// One row per record, as JSON that `json_to_recordset` splits. 100 turns of two records, PostgreSQL 15, one call: 2.0 to 3.1 ms; a row a
// turn with its records as JSON inside: 1.4 to 1.9 ms, the insert alone, on a busy machine. Rows can be read, counted and trimmed with SQL.
// Arrays, one a column: 3.2 to 4.9 ms. jsonb: 4.0 to 5.0 ms.

import type { Command, CommitCommand, Job, Turn } from "@holdfast/core";
import type { ExecutionStart } from "holdfast/store";
import { optionalPayload, readNumber, readOptionalNumber, readPayload, text, type Value } from "../columns.ts";
import { commandOf, jobOf, type RecordFields, toFields } from "./recordCodec.ts";

/**
 * A record in its place: t turn, p position, k direction; of the first of a turn also c time, h history length, w worker, s the state that
 * it published. All have the same fields, defined or not: a fork has thousands, and objects of many shapes take three times as long.
 */
export interface RecordRow extends Readonly<{ [F in Exclude<keyof RecordFields, "y">]-?: RecordFields[F] | undefined }> {
  readonly y: string;
  readonly t: number;
  readonly p: number;
  readonly k: "job" | "command" | "turn";
  readonly c: number | undefined;
  readonly h: number | undefined;
  readonly w: number | undefined;
  readonly s: string | undefined;
}

/** A turn without records is kept as one row that says so. */
export const NO_RECORD: RecordFields = { y: "empty" };

export function recordsOf({ jobs, commands }: Turn): number {
  return jobs.length + commands.length;
}

/** Records of a turn that is sent alone: each says where it belongs. */
export function rowsOf(turn: Turn, worker: number, executionStart: ExecutionStart | undefined): RecordRow[] {
  const rows: RecordRow[] = [];
  const { index, time, historyLength, state, jobs, commands } = turn;
  const add = (k: RecordRow["k"], { y, q, u, m, n, f, d, v }: RecordFields): void => {
    const p = rows.length;
    rows.push(
      p === 0
        ? { y, q, u, m, n, f, d, v, t: index, p, k, c: time, h: historyLength, w: worker, s: optionalPayload(state) }
        : { y, q, u, m, n, f, d, v, t: index, p, k, c: undefined, h: undefined, w: undefined, s: undefined },
    );
  };
  for (const job of jobs) add("job", toFields(job, executionStart));
  for (const command of commands) add("command", toFields(command));
  if (rows.length === 0) add("turn", NO_RECORD);
  return rows;
}

/** L4: what the server needs to know of the commits of a turn that trim. Of several of one scope the last does what all of them would. */
export function trimsOf(turn: Turn): { seq: number; unit: string; p: number; trim: number }[] {
  const trims = new Map<number, { seq: number; unit: string; p: number; trim: number }>();
  for (const [i, command] of turn.commands.entries()) {
    if (command.type !== "commit" || (command as CommitCommand).trim === undefined) continue;
    const { seq, unit, trim = 0 } = command as CommitCommand;
    trims.set(seq, { seq, unit: text(unit), p: turn.jobs.length + i, trim });
  }
  return [...trims.values()];
}

/** turn, time, history_length, worker, state, direction, type, seq, unit, name, n, refs, data, value. */
export type HistoryRow = readonly (Value | readonly string[])[];

/** Rows in order of turn and position. */
export function turnsOf(rows: readonly HistoryRow[], executionStart: ExecutionStart | undefined): Turn[] {
  const turns: Turn[] = [];
  let current: { turn: Turn; jobs: Job[]; commands: Command[] } | undefined;
  for (const row of rows) {
    if (current === undefined || row[0] !== current.turn.index) {
      current = beginTurn(row);
      turns.push(current.turn);
    }
    const [type, seq, unit, name, n, refs, data, value] = row.slice(6) as [
      Value,
      Value,
      Value,
      Value,
      Value,
      string[] | null,
      Value,
      Value,
    ];
    const read = { type, seq, unit, name, n, refs, data, value };
    if (row[5] === "job") current.jobs.push(jobOf(read, executionStart));
    else if (row[5] === "command") current.commands.push(commandOf(read));
  }
  return turns;
}

function beginTurn(row: HistoryRow): { turn: Turn; jobs: Job[]; commands: Command[] } {
  const [index, time, historyLength, , state] = row as readonly Value[];
  const jobs: Job[] = [];
  const commands: Command[] = [];
  const turn: Turn = {
    index: readNumber(index),
    time: readNumber(time),
    historyLength: readOptionalNumber(historyLength) ?? 0,
    jobs,
    commands,
  };
  return { turn: state === null || state === undefined ? turn : { ...turn, state: readPayload(state) }, jobs, commands };
}
