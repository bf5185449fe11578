// Updates by id, and how they ended.
// Owns: the table `holdfast_updates`.
// Invariants: M10 (an outcome, once there, stays; who asks again gets the same).

import { RunClosedError, serializeError } from "@holdfast/core";
import type { UpdateOutcome } from "../port.ts";
import { json, payload, readError, readPayload, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Session } from "./session.ts";

const SETTLE = `INSERT INTO holdfast_updates (run, id, inbox_id, status, value, error) VALUES (?, ?, 0, ?, ?, ?)
  ON CONFLICT (run, id) DO UPDATE SET status = excluded.status, value = excluded.value, error = excluded.error WHERE status IS NULL`;

export function settleUpdate(session: Session, run: number, id: string, outcome: UpdateOutcome): void {
  const value = outcome.status === "completed" ? payload(outcome.value) : null;
  const error = outcome.status === "completed" ? null : json(outcome.error);
  session.db.run(SETTLE, [run, text(id), outcome.status, value, error]);
  session.changed("results");
}

/** The run is closed: what nobody took was rejected, what was accepted and has no outcome has failed. */
export function refuseUpdates(db: Connection, run: { readonly key: number; readonly id: string }, status: string): void {
  if (db.get("SELECT 1 FROM holdfast_updates WHERE run = ? AND status IS NULL LIMIT 1", [run.key]) === undefined) return;
  const error = json(serializeError(new RunClosedError({ runId: run.id, status })));
  db.run(
    `UPDATE holdfast_updates SET error = ?1,
       status = CASE WHEN inbox_id IN (SELECT id FROM holdfast_inbox WHERE run = ?2) THEN 'rejected' ELSE 'failed' END
     WHERE run = ?2 AND status IS NULL`,
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
