// Updates by id, and how they ended.
// Owns: the table `holdfast_updates`.
// Invariants: M8 (rejected by one compare-and-set), M10 (the first outcome counts; a repeated request gets the same, of one without a key for an
// hour at least).

import { RunClosedError, serializeError } from "@holdfast/core";
import type { Store, TurnCommit, UpdateOutcome } from "../port.ts";
import { KEYLESS_OUTCOME_KEPT } from "../updates.ts";
import { json, numberOrNull, payload, readError, readOptionalNumber, readPayload, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { RunHead } from "./findRun.ts";
import type { Session } from "./session.ts";

const SETTLE = `INSERT INTO holdfast_updates (run, id, inbox_id, keyless, status, value, error) VALUES (?1, ?2, 0, 0, ?3, ?4, ?5)
  ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value, error = excluded.error,
    forget_at = CASE keyless WHEN 1 THEN ?6 END WHERE status IS NULL RETURNING keyless`;

type SettledRun = Pick<RunHead, "key" | "forgetAt">;

/** M10: with new outcomes go those without a key that have been kept for long enough. The row of the run says when there are any. */
export function settleUpdates(session: Session, run: SettledRun, updates: NonNullable<TurnCommit["updates"]>, now: number): void {
  const forgetAt = now + KEYLESS_OUTCOME_KEPT;
  let isKeyless = false;
  for (const { id, outcome } of updates) {
    const value = outcome.status === "completed" ? payload(outcome.value) : null;
    const error = outcome.status === "completed" ? null : json(outcome.error);
    const settled = session.db.get(SETTLE, [run.key, text(id), outcome.status, value, error, forgetAt]);
    if (settled?.[0] === 1) isKeyless = true;
  }
  if (run.forgetAt !== undefined && run.forgetAt <= now) forgetOutcomes(session, run.key, now);
  else if (isKeyless && run.forgetAt === undefined) willForget(session, run.key, forgetAt);
  session.changed("results");
}
function forgetOutcomes(session: Session, run: number, now: number): void {
  session.db.run("DELETE FROM holdfast_updates WHERE run = ? AND forget_at <= ?", [run, now]);
  const [next = null] = session.db.get("SELECT min(forget_at) FROM holdfast_updates WHERE run = ? AND forget_at IS NOT NULL", [run]) ?? [];
  willForget(session, run, readOptionalNumber(next));
}
function willForget(session: Session, run: number, at: number | undefined): void {
  session.db.run("UPDATE holdfast_runs SET forget_at = ? WHERE key = ?", [numberOrNull(at), run]);
  session.leasedRuns.forgetsAt(run, at);
}

/** M8: does one of these have an outcome? */
export function hasOutcome(db: Connection, run: number, ids: readonly string[]): boolean {
  const sql = "SELECT 1 FROM holdfast_updates WHERE run = ? AND id = ? AND status IS NOT NULL";
  return ids.some((id) => db.get(sql, [run, text(id)]) !== undefined);
}

const REJECT = `UPDATE holdfast_updates SET status = 'rejected', error = ?4, forget_at = CASE keyless WHEN 1 THEN ?5 END
  WHERE run = ?1 AND id = ?2 AND status IS NULL AND accept_until <= ?3 AND inbox_id IN (SELECT id FROM holdfast_inbox WHERE run IN (?1, -?1))
  RETURNING inbox_id`;
const WAITS = `SELECT 1 FROM holdfast_updates WHERE run = ?1 AND id = ?2 AND status IS NULL AND accept_until > ?3
  AND inbox_id IN (SELECT id FROM holdfast_inbox WHERE run IN (?1, -?1))`;

/** M8: an update that no receive accepted in time leaves the inbox. */
export function rejectUpdate(
  session: Session,
  { runId, id, error }: Parameters<Store["rejectUpdates"]>[0][number],
  now: number,
): UpdateOutcome | "waiting" | undefined {
  const { db } = session;
  const run = session.find(runId);
  if (run === undefined) return undefined;
  const [inboxId] = db.get(REJECT, [run.key, text(id), now, json(error), now + KEYLESS_OUTCOME_KEPT]) ?? [];
  if (inboxId === undefined) {
    const known = readUpdate(db, runId, id);
    return known ?? (db.get(WAITS, [run.key, text(id), now]) === undefined ? undefined : "waiting");
  }
  db.run("DELETE FROM holdfast_inbox WHERE id = ?1 AND run IN (?2, -?2)", [inboxId, run.key]);
  session.changed("results");
  return { status: "rejected", error };
}

/** The run is closed: updates that it did not take are rejected, those that it accepted and that have no outcome have failed. */
export function refuseUpdates(db: Connection, run: { readonly key: number; readonly id: string }, status: string): void {
  if (db.get("SELECT 1 FROM holdfast_updates WHERE run = ? AND status IS NULL LIMIT 1", [run.key]) === undefined) return;
  const error = json(serializeError(new RunClosedError({ runId: run.id, status })));
  db.run(
    `UPDATE holdfast_updates SET error = ?1,
       status = CASE WHEN inbox_id IN (SELECT id FROM holdfast_inbox WHERE run = ?2) THEN 'rejected' ELSE 'failed' END
     WHERE run = ?2 AND status IS NULL AND inbox_id NOT IN (SELECT id FROM holdfast_inbox WHERE run = -?2)`, // Q9: those wait with its next start
    [error, run.key],
  );
}

export function readUpdate(db: Connection, runId: string, id: string): UpdateOutcome | undefined {
  const sql = `SELECT u.status, u.value, u.error FROM holdfast_runs r JOIN holdfast_updates u ON u.run = r.key
    WHERE r.id = ? AND u.id = ? AND u.status IS NOT NULL`;
  const row = db.get(sql, [text(runId), text(id)]);
  if (row === undefined) return undefined;
  const [status, value, error] = row;
  if (status === "completed") return { status, value: readPayload(value) };
  return { status: status === "rejected" ? "rejected" : "failed", error: readError(error) ?? { name: "Error", message: "" } };
}
