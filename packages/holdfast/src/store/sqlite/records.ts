// History: turns as rows of `holdfast_records`.
// Owns: how a turn is written, read and put together again.
// Invariants: Y7 (every record is there, in order); what belongs to a turn as a whole is in its first row.

import type { Command, Job, Turn } from "@holdfast/core";
import type { ExecutionStart } from "../recordFields.ts";
import { payload, readNumber, readOptionalNumber, readPayload } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Row, Value } from "./library.ts";
import { commandOf, jobOf, type RecordColumns, toColumns } from "./recordCodec.ts";

// ── writing ──
//
// A statement has parameters only for what varies: kinds are written out, and so is NULL. The two rows of a step take 4.1 µs on libsql
// that way, against 6.2 with a parameter for every column. What is written out is the statement's shape.

/** The most rows of one statement. A larger turn takes several. */
const MOST_ROWS = 4;
/** So many shapes are remembered: enough for any program, and a bound. */
const MOST_SHAPES = 500;

/** What is written out of the rows so far, and how it goes on: by type, then by direction and by which columns the next row has. */
class Shape {
  readonly words: readonly string[];
  readonly #next = new Map<string, Map<number, Shape>>();
  #sql: string | undefined;
  static #count = 0;

  constructor(words: readonly string[]) {
    this.words = words;
  }
  with(direction: number, type: string, given: number): Shape {
    const key = given * DIRECTIONS.length + direction;
    const known = this.#next.get(type)?.get(key);
    if (known !== undefined) return known;
    const made = new Shape([...this.words, DIRECTIONS[direction] ?? "", type, `${given}`]);
    if (Shape.#count >= MOST_SHAPES) return made;
    Shape.#count++;
    const next = this.#next.get(type) ?? new Map<number, Shape>();
    this.#next.set(type, next.set(key, made));
    return made;
  }
  get sql(): string {
    this.#sql ??= composeInsert(this.words);
    return this.#sql;
  }
}
const DIRECTIONS = ["job", "command", "turn"] as const;
const [JOB, COMMAND, WHOLE_TURN] = [0, 1, 2];
/** By the number of facts. */
const SHAPES = ["", "1", "2", "3"].map((facts) => new Shape([facts]));

/** A turn without records is kept as one row that says so. */
const EMPTY: RecordColumns = ["empty", null, null, null, null, null, null];

export function appendTurn(
  db: Connection,
  run: number,
  execution: number,
  worker: number | null,
  turn: Turn,
  executionStart: ExecutionStart | undefined,
): void {
  const { index, time, historyLength, jobs, commands } = turn;
  const count = Math.max(jobs.length + commands.length, 1);
  for (let at = 0; at < count; ) {
    const parameters: Value[] = [run, execution, index, time];
    if (at > 0) parameters.push(at);
    else {
      parameters.push(historyLength, worker);
      if (turn.state !== undefined) parameters.push(payload(turn.state));
    }
    let shape = SHAPES[parameters.length - 4] as Shape;
    for (const end = Math.min(at + MOST_ROWS, count); at < end; at++) {
      const job = jobs[at];
      const record = job ?? commands[at - jobs.length];
      const direction = record === undefined ? WHOLE_TURN : job === undefined ? COMMAND : JOB;
      const columns = record === undefined ? EMPTY : toColumns(record, executionStart);
      let given = 0;
      for (let i = 1; i < columns.length; i++) {
        const column = columns[i] ?? null;
        if (column === null) continue;
        given |= 1 << i;
        parameters.push(column);
      }
      shape = shape.with(direction as number, columns[0], given);
    }
    db.run(shape.sql, parameters);
  }
}

/** One fact is the position that a later statement of a turn begins at; two or three are history_length, worker and state. */
function composeInsert([facts = "", ...words]: readonly string[]): string {
  const isFirst = facts !== "1";
  let parameter = 4 + Number(facts);
  const rows: string[] = [];
  for (let row = 0; row * 3 < words.length; row++) {
    const [direction = "", type = "", given = ""] = words.slice(row * 3);
    const own = [1, 2, 3, 4, 5, 6].map((i) => ((Number(given) & (1 << i)) === 0 ? "NULL" : `?${++parameter}`));
    const position = isFirst ? `${row}, ` : `?5 + ${row}, `;
    const ofTurn = isFirst && row === 0 ? `?5, ?6, ${facts === "3" ? "?7" : "NULL"}` : "NULL, NULL, NULL";
    rows.push(`(?1, ?2, ?3, ?4, ${position}${ofTurn}, '${direction}', '${type.replaceAll("'", "''")}', ${own.join(", ")})`);
  }
  const columns = "run, execution, turn, time, position, history_length, worker, state, direction, type, seq, unit, name, n, data, value";
  // OR FAIL spares SQLite the journal from which it would take back some of the rows: an error rolls back everything.
  return `INSERT OR FAIL INTO holdfast_records (${columns}) VALUES ${rows.join(", ")}`;
}

// ── reading ──

/** One row of a turn, with what it takes to delete or move it. */
export interface KeptRecord {
  readonly id: number;
  readonly record: Job | Command | undefined;
  readonly facts: readonly Value[];
}
export interface KeptTurn {
  readonly turn: Turn;
  readonly records: readonly KeptRecord[];
}

export const SELECT_RECORDS =
  "SELECT id, turn, time, history_length, worker, state, direction, type, seq, unit, name, n, data, value FROM holdfast_records";
/** The same without the values of users: they may be large. */
export const SELECT_WITHOUT_VALUES = `SELECT id, turn, time, history_length, worker, NULL, direction, type, seq, unit, name, n, data,
  CASE WHEN value IS NULL THEN NULL ELSE 'null' END FROM holdfast_records`;
const HISTORY = `${SELECT_RECORDS} WHERE run = ? AND execution = ? ORDER BY turn, id`;

export function readRecords(db: Connection, run: number, execution: number): Row[] {
  return db.all(HISTORY, [run, execution]);
}

const LAST_TIME = "SELECT time FROM holdfast_records WHERE run = ? AND execution < ? ORDER BY execution DESC, turn DESC LIMIT 1";

/** P7: of the last turn before this execution. */
export function readLastTime(db: Connection, run: number, execution: number): number | undefined {
  return readOptionalNumber(db.get(LAST_TIME, [run, execution])?.[0]);
}

/** Rows in order of turn and id. */
export function turnsOf(rows: readonly Row[], executionStart: ExecutionStart | undefined): Turn[] {
  const turns: Turn[] = [];
  let current: { turn: Turn; jobs: Job[]; commands: Command[] } | undefined;
  for (const row of rows) {
    if (current === undefined || row[1] !== current.turn.index) {
      current = beginTurn(row);
      turns.push(current.turn);
    }
    const direction = row[6];
    if (direction === "job") current.jobs.push(jobOf(row, executionStart, 7));
    else if (direction === "command") current.commands.push(commandOf(row, 7));
  }
  return turns;
}

/** From the first row of a turn, which says what belongs to it as a whole. */
function beginTurn(row: Row): { turn: Turn; jobs: Job[]; commands: Command[] } {
  const [, index, time, historyLength, , state = null] = row;
  const jobs: Job[] = [];
  const commands: Command[] = [];
  const turn: Turn = {
    index: readNumber(index),
    time: readNumber(time),
    historyLength: readOptionalNumber(historyLength) ?? 0,
    jobs,
    commands,
  };
  return { turn: state === null ? turn : { ...turn, state: readPayload(state) }, jobs, commands };
}

/** The same, with the rows that the turns were made of. */
export function keptTurns(rows: readonly Row[]): KeptTurn[] {
  let at = 0;
  return turnsOf(rows, undefined).map((turn) => {
    const records: KeptRecord[] = [];
    const made = [...turn.jobs, ...turn.commands];
    for (let row = rows[at]; row !== undefined && row[1] === turn.index; row = rows[++at]) {
      const [id, , , historyLength = null, worker = null, state = null] = row;
      records.push({ id: readNumber(id), record: made[records.length], facts: [historyLength, worker, state] });
    }
    return { turn, records };
  });
}
