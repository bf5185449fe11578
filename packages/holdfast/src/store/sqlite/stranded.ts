// Runs and activities that no claim would ever find, because something else has written to their rows.
// Owns: the look at them when a store is opened, and what is put right.
// Invariants: V4 (what can't be put right is blocked, with the reason); a sound row is left as it is; a wake-up too many does no harm (D9).

import { StoreCorruptError } from "../errors.ts";
import { readNumber } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockDamaged } from "./damage.ts";
import type { Session } from "./session.ts";

/** Messages that wait for a run that nothing wakes, or that its row does not know of. An update may be kept for later (M8). */
const UNREAD = `SELECT DISTINCT r.key FROM holdfast_inbox i JOIN holdfast_runs r ON r.key = i.run
  WHERE r.finished_at IS NULL AND (i.id > r.last_message
    OR r.available_at IS NULL AND r.worker_id IS NULL AND r.status NOT IN ('blocked', 'pending') AND i.type <> 'update')`;
/** What has not begun has a time to begin at, and a lease has an end. */
const NEVER = `SELECT key FROM holdfast_runs WHERE status = 'pending' AND available_at IS NULL AND finished_at IS NULL
  UNION ALL SELECT key FROM holdfast_runs WHERE status IN ('running', 'rolling_back') AND worker_id IS NOT NULL AND available_at IS NULL`;
/** An activity that waits is available at some time. Those that were put aside are here too: they say again what is wrong with them. */
const ASIDE = "available_at IS NULL AND worker_id IS NULL";

interface Stranded {
  readonly unread: readonly number[];
  readonly never: readonly number[];
  readonly tasks: readonly number[];
}

export function findStranded(db: Connection): Stranded | undefined {
  const keys = (sql: string): number[] => db.all(sql, []).map(([key]) => readNumber(key));
  const [unread, never, tasks] = [keys(UNREAD), keys(NEVER), keys(`SELECT id FROM holdfast_tasks WHERE ${ASIDE}`)];
  return unread.length + never.length + tasks.length === 0 ? undefined : { unread, never, tasks };
}

const WAKE = `UPDATE holdfast_runs SET last_message = (SELECT max(id) FROM holdfast_inbox WHERE run = ?1), available_at =
    CASE WHEN worker_id IS NULL AND status NOT IN ('blocked', 'pending') THEN min(coalesce(available_at, ?2), ?2) ELSE available_at END
  WHERE key = ?1`;

/** Returns how many. */
export function repairStranded(session: Session, now: number): number {
  const { unread, never, tasks } = findStranded(session.db) ?? { unread: [], never: [], tasks: [] };
  for (const key of never) {
    const cause = new TypeError(`holdfast_runs, key ${key}: it has no available_at, so that no worker would ever take it up.`);
    blockDamaged(session, key, new StoreCorruptError({ where: session.db.path, cause }));
  }
  for (const key of unread) session.db.run(WAKE, [key, now]);
  for (const id of tasks) session.db.run("UPDATE holdfast_tasks SET available_at = ? WHERE id = ?", [now, id]);
  session.leasedRuns.clear();
  session.changed("work");
  session.changed("tasks");
  return unread.length + never.length + tasks.length;
}

/** A run that is tried again: what of its activities was put aside is looked at again too. */
export function putBack(session: Session, run: number, now: number): void {
  session.db.run(`UPDATE holdfast_tasks SET available_at = ? WHERE run = ? AND ${ASIDE}`, [now, run]);
  session.changed("tasks");
}
