// Rows that something else has written to: what becomes of the run that they belong to.
// Owns: the words for which row it is, and the way out of claims of a run that can't be read.
// Invariants: V4 (such a run is blocked, and says which table and row is at fault; those beside it go on).

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

const BLOCK = `UPDATE holdfast_runs SET status = 'blocked', worker_id = NULL, available_at = NULL, waiting_for = NULL, blocked_code = '', error = ?
  WHERE key = ? AND finished_at IS NULL RETURNING id`;
const WITHDRAW = "UPDATE holdfast_runs SET available_at = NULL WHERE key = ? AND finished_at IS NOT NULL RETURNING id";

/**
 * A run whose rows can't be read: out of the way of others, until somebody has fixed them and calls `resume`. One that has ended stays as
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
