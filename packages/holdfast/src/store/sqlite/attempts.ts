// Attempts of steps and activities: rows of `holdfast_attempts`.
// Owns: how an attempt is written and read.
// Invariants: D12 (status, error, times, worker), D7 (what a dead worker left running is lost, and counts).

import type { AttemptRow } from "../port.ts";
import { jsonOrNull, numberOrNull, readError, readNumber, readOptionalNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";

export function writeAttempt(db: Connection, run: number, execution: number, row: AttemptRow, of: "step" | "task"): void {
  const { seq, number, status, workerId, startedAt, endedAt, retryAt, error } = row;
  db.run(
    `INSERT OR REPLACE INTO holdfast_attempts (run, execution, seq, number, task, status, worker_id, started_at, ended_at, retry_at, error)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      run,
      execution,
      seq,
      number,
      of === "task" ? 1 : 0,
      status,
      text(workerId),
      startedAt,
      numberOrNull(endedAt),
      numberOrNull(retryAt),
      jsonOrNull(error),
    ],
  );
}

/** Of an execution, in order; of steps alone, or of activities as well. */
export function readAttempts(db: Connection, run: number, execution: number, of: "steps" | "all"): (AttemptRow & { task?: boolean })[] {
  const sql = `SELECT seq, number, task, status, worker_id, started_at, ended_at, retry_at, error FROM holdfast_attempts
    WHERE run = ? AND execution = ? AND task <= ? ORDER BY seq, number`;
  return db.all(sql, [run, execution, of === "all" ? 1 : 0]).map((columns) => {
    const [seq, number, task, status, workerId, startedAt, endedAt, retryAt, error] = columns;
    return {
      seq: readNumber(seq),
      number: readNumber(number),
      status: readText(status) as AttemptRow["status"],
      workerId: readText(workerId),
      startedAt: readNumber(startedAt),
      ...(endedAt !== null && { endedAt: readOptionalNumber(endedAt) }),
      ...(retryAt !== null && { retryAt: readOptionalNumber(retryAt) }),
      ...(error !== null && { error: readError(error) }),
      ...(task === 1 && { task: true }),
    };
  });
}

export function loseRunningAttempts(db: Connection, run: number, execution: number, now: number): void {
  db.run("UPDATE holdfast_attempts SET status = 'lost', ended_at = ? WHERE run = ? AND execution = ? AND status = 'running' AND task = 0", [
    now,
    run,
    execution,
  ]);
}
