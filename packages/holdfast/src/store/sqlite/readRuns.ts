// Looking at one run: its row, its history, its attempts.
// Owns: nothing.
// Invariants: D12 (every attempt that is kept).

import type { Turn } from "@holdfast/core";
import type { AttemptRow, InboxMessage, RunRow } from "../port.ts";
import { readAttempts } from "./attempts.ts";
import { readNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { findRun } from "./findRun.ts";
import { readInbox } from "./inbox.ts";
import { readRecords, turnsOf } from "./records.ts";
import { executionStartOf, RUN_COLUMNS, RUN_TABLES, runRow } from "./runs.ts";

export function readRun(db: Connection, id: string): RunRow | undefined {
  const row = db.get(`SELECT ${RUN_COLUMNS} FROM ${RUN_TABLES} WHERE r.id = ?`, [text(id)]);
  return row === undefined ? undefined : runRow(row);
}

export function readHistory(db: Connection, id: string): Turn[] {
  const run = readRun(db, id);
  const key = findRun(db, id)?.key;
  return run === undefined || key === undefined ? [] : turnsOf(readRecords(db, key, run.execution), executionStartOf(run));
}

const WORKERS = `SELECT h.turn, w.id FROM holdfast_records h JOIN holdfast_workers w ON w.key = h.worker
  WHERE h.run = ? AND h.execution = ? AND h.worker IS NOT NULL`;

/** The worker that committed each turn, by its index. */
export function readWorkers(db: Connection, id: string): Map<number, string> {
  const run = findRun(db, id);
  return run === undefined ? new Map() : readWorkersOf(db, run.key, run.execution);
}
export function readWorkersOf(db: Connection, run: number, execution: number): Map<number, string> {
  return new Map(db.all(WORKERS, [run, execution]).map(([turn, worker]) => [readNumber(turn), readText(worker)]));
}

/** What no turn has consumed. */
export function readMessages(db: Connection, id: string): InboxMessage[] {
  const run = findRun(db, id);
  return run === undefined ? [] : readInbox(db, run.key);
}

export function readAllAttempts(db: Connection, id: string): (AttemptRow & { task?: boolean })[] {
  const run = findRun(db, id);
  return run === undefined ? [] : readAttempts(db, run.key, run.execution, "all");
}
