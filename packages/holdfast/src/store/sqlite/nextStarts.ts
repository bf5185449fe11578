// The next start of a run: what it begins with once it has closed.
// Owns: the table `holdfast_next_starts`, and messages that wait with a next start. These are in the inbox under -key until the run begins with that start.
// Invariants: Q9 (one per run, the newest; the commit that closes the run begins it).

import { RunClosedError, serializeError } from "@holdfast/core";
import type { NewMessage, NewRun } from "../port.ts";
import { json, readJson, readNumber } from "./columns.ts";
import { beginStart } from "./executions.ts";
import type { RunHead } from "./findRun.ts";
import { carryOver } from "./inbox.ts";
import type { Session } from "./session.ts";

export interface NextStart {
  readonly start: NewRun;
  /** When the first of the starts was made that it has taken over. */
  readonly firstAt: number;
  /** The run was canceled for it. */
  readonly isReplacing: boolean;
}

export function findNext({ db }: Session, run: RunHead): NextStart | undefined {
  const row = run.hasNext ? db.get("SELECT start, first_at, replacing FROM holdfast_next_starts WHERE run = ?", [run.key]) : undefined;
  if (row === undefined) return undefined;
  const [start, firstAt, replacing] = row;
  return { start: readJson<NewRun>(start), firstAt: readNumber(firstAt), isReplacing: replacing === 1 };
}

export function setNext(session: Session, run: RunHead, { start, firstAt, isReplacing }: NextStart): void {
  const sql = "INSERT OR REPLACE INTO holdfast_next_starts (run, start, first_at, replacing) VALUES (?, ?, ?, ?)";
  session.db.run(sql, [run.key, json(start), firstAt, isReplacing ? 1 : 0]);
  if (run.hasNext) return;
  session.db.run("UPDATE holdfast_runs SET has_next = 1 WHERE key = ?", [run.key]);
  session.leasedRuns.forget(run.key);
}

function forgetNext({ db }: Session, key: number): void {
  db.run("DELETE FROM holdfast_next_starts WHERE run = ?", [key]);
  db.run("UPDATE holdfast_runs SET has_next = 0 WHERE key = ?", [key]);
}

/** The run has closed. Signals that it left unconsumed move on, and go before what came later. */
export function beginNext(session: Session, run: RunHead, unconsumed: readonly NewMessage[], now: number): void {
  const { db } = session;
  const next = findNext(session, run);
  forgetNext(session, run.key);
  if (next === undefined) return;
  const { start, firstAt } = next;
  db.run("UPDATE holdfast_inbox SET run = ?1 WHERE run = -?1", [run.key]);
  carryOver(db, run.key, unconsumed.map(({ job }) => job), now); // biome-ignore format: one call
  db.run(
    "UPDATE holdfast_runs SET last_message = max(last_message, coalesce((SELECT max(id) FROM holdfast_inbox WHERE run = ?1), 0)) WHERE key = ?1",
    [run.key],
  );
  beginStart(session, run, start, Math.max(start.startAt ?? now, now), firstAt, now);
}

const REJECT = `UPDATE holdfast_updates SET status = 'rejected', error = ?2
  WHERE run = ?1 AND status IS NULL AND inbox_id IN (SELECT id FROM holdfast_inbox WHERE run = -?1)`;

/** A caller cancels or terminates the run, and with it what would have followed. */
export function dropNext(session: Session, run: RunHead, status: "canceled" | "terminated"): RunHead {
  if (!run.hasNext) return run;
  const { db } = session;
  db.run(REJECT, [run.key, json(serializeError(new RunClosedError({ runId: run.id, status })))]);
  db.run("DELETE FROM holdfast_inbox WHERE run = -?1", [run.key]);
  forgetNext(session, run.key);
  session.leasedRuns.forget(run.key);
  session.changed("results");
  return { ...run, hasNext: false };
}
