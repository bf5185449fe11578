// History: turns as rows of `records`.
// Owns: how a turn is written, read and put together again.
// Invariants: Y7 (every record is there, in order); what belongs to a turn as a whole is in its first row.

import type { Command, Job, Turn } from "@holdfast/core";
import { payloadOrNull, readNumber, readOptionalNumber, readPayload } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Row, Value } from "./driver.ts";
import { type Birth, fromColumns, toColumns } from "./recordCodec.ts";

const COLUMNS = "run, execution, turn, time, position, history_length, worker, state, direction, type, seq, unit, name, n, data, value";
/** Rows a statement; what a turn has more goes in several. */
const CHUNKS = [16, 8, 4, 3, 2, 1] as const;

function insertSql(rows: number): string {
  const shared = 8;
  const own = (row: number): string => Array.from({ length: shared }, (_, i) => `?${shared + row * shared + i + 1}`).join(", ");
  const tuples = Array.from({ length: rows }, (_, row) =>
    row === 0 ? `(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ${own(0)})` : `(?1, ?2, ?3, ?4, ?5 + ${row}, NULL, NULL, NULL, ${own(row)})`,
  );
  return `INSERT INTO records (${COLUMNS}) VALUES ${tuples.join(", ")}`;
}
const INSERT = new Map<number, string>(CHUNKS.map((rows) => [rows, insertSql(rows)]));

/** A turn without records is kept as one row that says so. */
const EMPTY: readonly Value[] = ["turn", "empty", null, null, null, null, null, null];

export function appendTurn(db: Connection, run: number, execution: number, worker: number, turn: Turn, birth: Birth | undefined): void {
  const { index, time, jobs, commands } = turn;
  const count = jobs.length + commands.length;
  if (count === 0) {
    db.run(INSERT.get(1) ?? "", [run, execution, index, time, 0, turn.historyLength, worker, payloadOrNull(turn.state), ...EMPTY]);
    return;
  }
  for (let at = 0; at < count; ) {
    const rows = CHUNKS.find((size) => size <= count - at) ?? 1;
    const parameters: Value[] =
      at === 0
        ? [run, execution, index, time, 0, turn.historyLength, worker, payloadOrNull(turn.state)]
        : [run, execution, index, time, at, null, null, null];
    for (const end = at + rows; at < end; at++) {
      const job = jobs[at];
      const record = job ?? commands[at - jobs.length];
      if (record !== undefined) parameters.push(job === undefined ? "command" : "job", ...toColumns(record, birth));
    }
    db.run(INSERT.get(rows) ?? insertSql(rows), parameters);
  }
}

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
  "SELECT id, turn, time, history_length, worker, state, direction, type, seq, unit, name, n, data, value FROM records";
const HISTORY = `${SELECT_RECORDS} WHERE run = ? AND execution = ? ORDER BY turn, id`;

export function readRecords(db: Connection, run: number, execution: number): Row[] {
  return db.all(HISTORY, [run, execution]);
}

/** Rows in order of turn and id. */
export function turnsOf(rows: readonly Row[], birth: Birth | undefined): Turn[] {
  const turns: Turn[] = [];
  let current: { turn: Turn; jobs: Job[]; commands: Command[] } | undefined;
  for (const row of rows) {
    if (current === undefined || row[1] !== current.turn.index) {
      current = beginTurn(row);
      turns.push(current.turn);
    }
    const direction = row[6];
    if (direction === "job") current.jobs.push(fromColumns(row, birth, 7) as Job);
    else if (direction === "command") current.commands.push(fromColumns(row, birth, 7) as Command);
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
