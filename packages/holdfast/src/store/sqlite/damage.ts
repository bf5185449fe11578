// Rows that something else has written to, and what happens to the run that they belong to.
// Owns: how errors name the row, and how a run that can't be read is taken out of claims.
// Invariants: V4 (such a run is blocked, and says which table and row is damaged; other runs go on).

import { serializeError } from "@holdfast/core";
import { StoreCorruptError } from "../errors.ts";
import { readText, text } from "./columns.ts";
import { isDamage } from "./failures.ts";
import type { Session } from "./session.ts";

/** What reading throws says where: `holdfast_inbox, row 7: …`. */
export function readingRow<T>(table: string, row: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new TypeError(`${table}, ${row}: ${(error as Error).message}`, { cause: error });
  }
}

// A lane of what is due goes when it is empty: a filed run goes back to the place that its lane belongs to.
const BLOCK = `UPDATE holdfast_runs SET status = 'blocked', worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = '', error = ?,
    lane = CASE WHEN lane < 0 THEN coalesce((SELECT -f.place FROM holdfast_filed_lanes f WHERE f.lane = -holdfast_runs.lane), lane) ELSE lane END
  WHERE key = ? AND finished_at IS NULL RETURNING id`;
const WITHDRAW = "UPDATE holdfast_runs SET available_at = NULL WHERE key = ? AND finished_at IS NOT NULL RETURNING id";

/**
 * Blocks a run whose rows can't be read: no claim finds it until its rows are fixed and `resume` is called. One that has ended stays as
 * it is; it is only never available.
 */
export function blockDamaged(session: Session, key: number, reason: Error): { readonly id: string; readonly isOpen: boolean } {
  session.leasedRuns.forget(key);
  const blocked = session.db.get(BLOCK, [JSON.stringify(serializeError(reason)), key]);
  if (blocked === undefined) return { id: readText(session.db.get(WITHDRAW, [key])?.[0]), isOpen: false };
  session.changed("results");
  return { id: readText(blocked[0]), isOpen: true };
}

/** The same for a run that is only known by its id. Returns its key. */
export function blockById(session: Session, runId: string, cause: unknown): number | undefined {
  const [key] = session.db.get("SELECT key FROM holdfast_runs WHERE id = ?", [text(runId)]) ?? [];
  if (typeof key !== "number") return undefined;
  blockDamaged(session, key, new StoreCorruptError({ where: session.db.path, cause }));
  return key;
}
