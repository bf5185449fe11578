// The inbox of a run: messages in, messages out.
// Owns: the order of messages, and that a run that waits wakes up for them.
// Invariants: M1 (in the inbox when the transaction commits, or not at all), D9 (a parked run with a message is available), ids only grow.

import type { Outcome } from "@holdfast/core";
import type { InboxJob, InboxMessage, LateIf } from "../port.ts";
import { readNumber, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockById, readingRow } from "./damage.ts";
import { isDamage } from "./failures.ts";
import type { RunHead } from "./findRun.ts";
import type { Row, Value } from "./library.ts";
import { jobOf, toColumns } from "./recordCodec.ts";
import type { Session } from "./session.ts";

const INSERT = "INSERT INTO holdfast_inbox (run, type, seq, name, data, value, received_at) VALUES (?, ?, ?, ?, ?, ?, ?)";
const MOVE = `INSERT INTO holdfast_inbox (run, type, seq, name, data, value, received_at)
  SELECT run, type, seq, name, data, value, received_at FROM holdfast_inbox WHERE id = ?`;
/** A run that is parked becomes available now; one that has not begun keeps its start, one that is leased its lease (which has an end), a blocked one stays so (V4). */
const ARRIVED = `UPDATE holdfast_runs SET last_message = ?1,
  available_at = CASE WHEN (worker_id IS NULL OR available_at IS NULL) AND status NOT IN ('pending', 'blocked') THEN min(coalesce(available_at, ?2), ?2) ELSE available_at END
  WHERE key = ?3`;

/** Into the inbox of an open run. Returns the message's id. */
export function putMessage(session: Session, run: number, job: InboxJob, now: number): number {
  const id = insertMessage(session.db, run, job, now);
  session.db.run(ARRIVED, [id, now, run]);
  session.leasedRuns.arrived(run, id);
  session.changed("work");
  session.changed("messages");
  return id;
}
export function insertMessage(db: Connection, run: number, job: InboxJob, now: number): number {
  const [type, seq, , name, , data, value] = toColumns(job);
  return db.insert(INSERT, [run, type, seq, name, data, value, now]) as number;
}

/** The answer to an operation, if it still is one of the run's: closed runs and later executions did not ask. */
export function answerOperation(session: Session, runId: string, execution: number, seq: number, outcome: Outcome, now: number): void {
  let run: RunHead | undefined;
  try {
    run = session.find(runId);
  } catch (error) {
    if (!isDamage(error)) throw error;
    // It is not lost: it waits for the run to be read again.
    const key = blockById(session, runId, new TypeError(`holdfast_runs, id ${runId}: ${(error as Error).message}`, { cause: error }));
    if (key !== undefined) insertMessage(session.db, key, { type: "resolve", seq, outcome }, now);
    return;
  }
  if (run?.isOpen === true && run.execution === execution) putMessage(session, run.key, { type: "resolve", seq, outcome }, now);
}

const MESSAGES: ReadonlySet<unknown> = new Set([
  "signal", "update", "cancel", "resolve", "childStarted", "expire", "resume", "fork",
] satisfies InboxJob["type"][]); // biome-ignore format: one line

/** Throws a TypeError if the row is not a message: something else has written to it. */
export function readInbox(db: Connection, run: number, after = Number.MIN_SAFE_INTEGER): InboxMessage[] {
  const sql = "SELECT id, type, seq, name, data, value FROM holdfast_inbox WHERE run = ? AND id > ? ORDER BY id";
  return db.all(sql, [run, after]).map((row) => readingRow("holdfast_inbox", `row ${String(row[0])}`, () => messageOf(row)));
}
/** The same, with the time at which each arrived. */
export function readReceived(db: Connection, run: number): (InboxMessage & { readonly receivedAt: number })[] {
  const sql = "SELECT id, type, seq, name, data, value, received_at FROM holdfast_inbox WHERE run = ? ORDER BY id";
  return db.all(sql, [run]).map((row) => ({
    ...readingRow("holdfast_inbox", `row ${String(row[0])}`, () => messageOf(row)),
    receivedAt: readNumber(row[6]),
  }));
}
function messageOf(row: Row): InboxMessage {
  const [id, type, seq, name, data, value] = row;
  if (!MESSAGES.has(type)) throw new TypeError(`Unknown type of message: "${String(type)}".`);
  if (readNumber(id) <= 0) throw new TypeError("Ids of messages are above 0.");
  const columns = [type, seq, null, name, null, data, value] as Value[];
  return { id: readNumber(id), job: jobOf(columns) as InboxJob };
}

/** D9: whether the inbox holds an awaited message that the turn has not consumed. It looks for one message more than the turn has consumed. */
export function holdsAwaited(db: Connection, run: number, { cancel, signals }: LateIf, consumed: readonly number[]): boolean {
  const names = signals.map(() => "?").join(", ");
  const sql = `SELECT id FROM holdfast_inbox WHERE run = ? AND (type = 'cancel' AND ? OR type = 'signal' AND name IN (${names})) LIMIT ?`;
  const found = db.all(sql, [run, cancel ? 1 : 0, ...signals.map(text), consumed.length + 1]);
  return found.some(([id]) => !consumed.includes(readNumber(id)));
}

export function consume(db: Connection, run: number, ids: readonly number[]): void {
  for (const id of ids) db.run("DELETE FROM holdfast_inbox WHERE id = ? AND run = ?", [id, run]);
}

/**
 * P10: signals, updates and cancels wait for the next execution, and carried ones go before them; no worker holds an id of the run at
 * this point. Answers to operations of the last execution go: the next one uses their numbers again.
 */
export function carryOver(db: Connection, run: number, carried: readonly InboxJob[], now: number): void {
  db.run("DELETE FROM holdfast_inbox WHERE run = ? AND type NOT IN ('signal', 'update', 'cancel')", [run]);
  if (carried.length === 0) return;
  for (const job of carried) insertMessage(db, run, job, now);
  const waiting = db.all("SELECT id FROM holdfast_inbox WHERE run = ? ORDER BY id", [run]).slice(0, -carried.length);
  for (const [id] of waiting) {
    const old = readNumber(id);
    const moved = db.insert(MOVE, [old]) as number;
    db.run("DELETE FROM holdfast_inbox WHERE id = ?", [old]);
    db.run("UPDATE holdfast_updates SET inbox_id = ? WHERE run = ? AND inbox_id = ?", [moved, run, old]);
    db.run("UPDATE holdfast_message_keys SET inbox_id = ? WHERE run = ? AND inbox_id = ?", [moved, run, old]);
  }
  db.run("UPDATE holdfast_runs SET last_message = (SELECT max(id) FROM holdfast_inbox WHERE run = ?1) WHERE key = ?1", [run]);
}
