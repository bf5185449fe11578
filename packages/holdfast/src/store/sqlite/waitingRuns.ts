// Runs that wait for another run to close before they begin.
// Owns: the columns `after_id`, `not_before` and `awaited`.
// Invariants: Q10 (a run waits only for one that is open, and never in a circle; the row of that one says that it is awaited, so that an end
// that no run waits for costs no statement).

import { text, textOrNull } from "./columns.ts";
import { findRun, type RunHead } from "./findRun.ts";
import type { Session } from "./session.ts";

/** The open run that a run of this id has to wait for. Undefined: it is closed or unknown, or waits for this run itself. */
export function findAwaited(session: Session, id: string, after: string | undefined): RunHead | undefined {
  const target = after === undefined || after === id ? undefined : session.find(after);
  if (target?.isOpen !== true) return undefined;
  // A circle needs a run that waits for this one: a new run has none, however long the line is that it joins.
  if (session.db.get("SELECT 1 FROM holdfast_runs WHERE after_id = ? LIMIT 1", [text(id)]) === undefined) return target;
  for (let next = target.after; next !== undefined; next = findRun(session.db, next)?.after) if (next === id) return undefined;
  return target;
}

/** From now on the run, which is not available, waits for the other. */
export function waitFor(session: Session, run: number, target: RunHead, notBefore: number): void {
  session.db.run("UPDATE holdfast_runs SET after_id = ?, not_before = ? WHERE key = ?", [text(target.id), notBefore, run]);
  if (target.isAwaited) return;
  session.db.run("UPDATE holdfast_runs SET awaited = 1 WHERE key = ?", [target.key]);
  session.leasedRuns.forget(target.key);
}

const RELEASE = `UPDATE holdfast_runs SET after_id = ?1, available_at = CASE WHEN ?1 IS NULL THEN max(coalesce(not_before, ?2), ?2) END
  WHERE after_id = ?3`;

/** A run has closed: those that waited for it begin when their time has come, or wait for the run that it waited for itself. */
export function releaseWaiting(session: Session, { id, key, after }: RunHead, now: number): void {
  session.db.run(RELEASE, [textOrNull(after), now, text(id)]);
  session.db.run("UPDATE holdfast_runs SET after_id = NULL, awaited = 0 WHERE key = ?", [key]);
  session.changed("work");
}
