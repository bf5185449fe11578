// Schedules, and the ticks that start their runs.
// Owns: the table of schedules.
// Invariants: T1 (a tick replaces the one that it names, or writes nothing), T2 (a look reads an index of those that are due), T6 (overlap).

import { MOST_QUEUED, type ScheduleChange, type ScheduleRow, type Tick, type TickResult } from "../schedulePort.ts";
import { numberOrNull, readNumber, readOptionalNumber, readOptionalText, readText, text, textOrNull } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { findRun } from "./findRun.ts";
import { createRun } from "./insertRun.ts";
import type { Row } from "./library.ts";
import type { Session } from "./session.ts";

const SELECT = `SELECT id, revision, spec, paused, tick, due_at, last_tick, last_run, missed FROM holdfast_schedules`;

function scheduleRow([id, revision, spec, paused, tick, dueAt, lastTick, lastRun, missed]: Row): ScheduleRow {
  return {
    id: readText(id),
    revision: readText(revision),
    spec: readText(spec),
    isPaused: readNumber(paused) === 1,
    tick: readOptionalNumber(tick),
    dueAt: readOptionalNumber(dueAt),
    lastTick: readOptionalNumber(lastTick),
    lastRunId: readOptionalText(lastRun),
    missed: readNumber(missed),
  };
}

export function readSchedule(db: Connection, id: string): ScheduleRow | undefined {
  const row = db.get(`${SELECT} WHERE id = ?`, [text(id)]);
  return row === undefined ? undefined : scheduleRow(row);
}
export function listSchedules(db: Connection, { after, limit }: { after: string | undefined; limit: number }): ScheduleRow[] {
  return db.all(`${SELECT} WHERE id > ? ORDER BY id LIMIT ?`, [text(after ?? ""), limit]).map(scheduleRow);
}
/** Characters of specs that one look reads, inputs included: as many as this, and one spec in any case. */
const MOST_READ = 8_000_000;
const DUE = "SELECT id, length(spec) FROM holdfast_schedules WHERE due_at <= ? AND due_at IS NOT NULL ORDER BY due_at LIMIT ?";

/** The longest overdue first. */
export function findDueSchedules(db: Connection, now: number, limit: number): ScheduleRow[] {
  const found: ScheduleRow[] = [];
  let length = 0;
  for (const [id, one] of db.all(DUE, [now, limit])) {
    if (length >= MOST_READ) break;
    length += readNumber(one);
    const row = readSchedule(db, readText(id));
    if (row !== undefined) found.push(row);
  }
  return found;
}

const PUT = `INSERT INTO holdfast_schedules (id, revision, spec, paused, tick, due_at, missed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
  ON CONFLICT (id) DO UPDATE SET revision = ?2, spec = ?3, paused = ?4, tick = ?5, due_at = ?6`;

export function changeSchedule({ db }: Session, { id, before, after }: ScheduleChange): boolean {
  const now = readSchedule(db, id);
  if (now?.revision !== before?.revision || now?.tick !== before?.tick) return false;
  const { revision, spec, isPaused, tick, dueAt } = after;
  db.run(PUT, [text(id), text(revision), text(spec), isPaused ? 1 : 0, numberOrNull(tick), numberOrNull(dueAt)]);
  return true;
}
export function deleteSchedule({ db }: Session, id: string): void {
  db.run("DELETE FROM holdfast_schedules WHERE id = ?", [text(id)]);
}

export function tickSchedule(session: Session, tick: Tick, now: number): TickResult {
  const { db } = session;
  const row = readSchedule(db, tick.schedule);
  if (row === undefined || row.revision !== tick.revision || row.tick !== tick.replaces) return "lost";
  const result = start(session, row, tick, now);
  const isStarted = result === "started";
  db.run("UPDATE holdfast_schedules SET tick = ?, due_at = ?, missed = ?, last_tick = ?, last_run = ? WHERE id = ?", [
    numberOrNull(tick.next),
    numberOrNull(tick.nextDueAt),
    row.missed + tick.missed + (result === "skipped" ? 1 : 0),
    numberOrNull(isStarted ? tick.run?.tick : row.lastTick),
    textOrNull(isStarted ? tick.run?.id : row.lastRunId),
    text(tick.schedule),
  ]);
  return result;
}
function start(session: Session, row: ScheduleRow, { run, overlap, cancel }: Tick, now: number): TickResult {
  if (run === undefined) return "moved";
  const { db } = session;
  if (findRun(db, run.id) !== undefined) return "started";
  const last = row.lastRunId === undefined ? undefined : findRun(db, row.lastRunId);
  const previous = last?.isOpen === true ? last : undefined;
  if (previous !== undefined && (overlap === "skip" || (overlap === "queue" && countQueued(db, row.id) >= MOST_QUEUED))) return "skipped";
  createRun(session, { ...run, after: previous === undefined || overlap === "allow" ? undefined : previous.id }, now);
  // Q10: only then, so that this run waits for what that one waits for, if it has not begun.
  if (previous !== undefined && cancel !== undefined) deliverMessage(session, { runId: previous.id, message: cancel }, now);
  return "started";
}
/** How many runs of its ticks wait for another. */
function countQueued(db: Connection, schedule: string): number {
  const sql = `SELECT count(*) FROM holdfast_runs WHERE schedule = ? AND schedule IS NOT NULL AND after_id IS NOT NULL
    AND finished_at IS NULL AND tick IS NOT NULL`;
  return readNumber(db.get(sql, [text(schedule)])?.[0]);
}
