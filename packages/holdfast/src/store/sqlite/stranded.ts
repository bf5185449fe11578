// Runs and messages that no claim would ever find, because something else has written to their rows.
// Owns: the search for them when a store is opened, and their repair. Timers and activities: `parkedRuns.ts`, `strayTasks.ts`.
// Invariants: V4 (what can't be repaired is blocked, with the reason); a sound row is left as it is; an extra wake-up does no harm (D9).

import { StoreCorruptError } from "../errors.ts";
import { readNumber } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { blockDamaged } from "./damage.ts";
import type { Session } from "./session.ts";

/** Messages that wait for a run that nothing wakes, or that its row does not know of. An update may be kept for later (M8). */
const UNREAD = `SELECT DISTINCT r.key FROM holdfast_inbox i JOIN holdfast_runs r ON r.key = i.run
  WHERE r.finished_at IS NULL AND (i.id > r.last_message OR r.worker_id IS NULL AND r.status NOT IN ('blocked', 'pending')
    AND i.type <> 'update' AND (r.available_at IS NULL OR r.available_at > ?))`;
/** Messages of a run that does not exist (what waits with a next start is below 0, Q9), or that never had one as late as this. */
const STRAY = `SELECT i.id, i.run, r.key IS NULL FROM holdfast_inbox i LEFT JOIN holdfast_runs r ON r.key = i.run
  WHERE i.run > 0 AND (r.key IS NULL OR i.id > r.last_message)`;
/** Ids of messages are never used twice: a run whose last one it is, or whose sender's key names it, is the one that it was for. */
const OWNER = `SELECT key FROM holdfast_runs WHERE last_message = ?1 AND key IS NOT ?2
  UNION SELECT run FROM holdfast_message_keys WHERE inbox_id = ?1 AND run IS NOT ?2
  UNION SELECT run FROM holdfast_updates WHERE inbox_id = ?1 AND run IS NOT ?2`;
/** What has not begun has a time to begin at, unless it waits for another run, and a lease has an end. */
const NEVER = `SELECT key FROM holdfast_runs WHERE status = 'pending' AND available_at IS NULL AND finished_at IS NULL AND after_id IS NULL
  UNION ALL SELECT key FROM holdfast_runs WHERE status IN ('running', 'rolling_back') AND worker_id IS NOT NULL AND available_at IS NULL`;
/** Runs that wait for one whose end would not make them available: there is none, it has closed, or its row does not say that it is awaited. */
const ORPHANS = `SELECT key FROM holdfast_runs r WHERE after_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM holdfast_runs o WHERE o.id = r.after_id AND o.finished_at IS NULL AND o.awaited = 1)`;
/** An activity that waits is available at some time. Those that were put aside are here too: they say again what is wrong with them. */
const ASIDE = "available_at IS NULL AND worker_id IS NULL";

interface Moved {
  readonly id: number;
  readonly owner: number;
}
interface Stranded {
  readonly unread: readonly number[];
  readonly never: readonly number[];
  readonly orphans: readonly number[];
  readonly tasks: readonly number[];
  /** Messages, and the run that each belongs to. */
  readonly moved: readonly Moved[];
  /** Messages that belong to no run that is known. */
  readonly lost: readonly number[];
}

export function findStranded(db: Connection, now: number): Stranded | undefined {
  const keys = (sql: string, ...parameters: number[]): number[] => db.all(sql, parameters).map(([key]) => readNumber(key));
  const { moved, lost } = findStray(db);
  const found: Stranded = {
    unread: keys(UNREAD, now),
    never: keys(NEVER),
    orphans: keys(ORPHANS),
    tasks: keys(`SELECT id FROM holdfast_tasks WHERE ${ASIDE}`),
    moved,
    lost,
  };
  return Object.values(found).every((some) => some.length === 0) ? undefined : found;
}
function findStray(db: Connection): Pick<Stranded, "moved" | "lost"> {
  const moved: Moved[] = [];
  const lost: number[] = [];
  for (const [message, run = null, isOfNone] of db.all(STRAY, [])) {
    const id = readNumber(message);
    const owners = db.all(OWNER, [id, run]);
    const [owner] = owners[0] ?? [];
    if (owners.length === 1 && typeof owner === "number") moved.push({ id, owner });
    else if (isOfNone === 1) lost.push(id);
  }
  return { moved, lost };
}

const WAKE = `UPDATE holdfast_runs SET last_message = max(last_message, coalesce((SELECT max(id) FROM holdfast_inbox WHERE run = ?1), 0)), available_at =
    CASE WHEN worker_id IS NULL AND status NOT IN ('blocked', 'pending') THEN min(coalesce(available_at, ?2), ?2) ELSE available_at END
  WHERE key = ?1`;

/** One that the other run's row forgot waits on; the others begin. */
const AWAIT = "UPDATE holdfast_runs SET awaited = 1 WHERE id = (SELECT after_id FROM holdfast_runs WHERE key = ?) AND finished_at IS NULL";
const BEGIN = `UPDATE holdfast_runs SET after_id = NULL, available_at = max(coalesce(not_before, ?2), ?2)
  WHERE key = ?1 AND finished_at IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_runs o WHERE o.id = holdfast_runs.after_id AND o.finished_at IS NULL)`;

export interface Repaired {
  readonly count: number;
  /** Messages that belong to no run that is known. */
  readonly lost: readonly number[];
}

export function repairStranded(session: Session, now: number): Repaired {
  const { db } = session;
  const { moved = [], lost = [] } = findStranded(db, now) ?? {};
  for (const { id, owner } of moved) db.run("UPDATE holdfast_inbox SET run = ? WHERE id = ?", [owner, id]);
  const { unread = [], never = [], orphans = [], tasks = [] } = findStranded(db, now) ?? {};
  for (const key of never) {
    const cause = new TypeError(`holdfast_runs, key ${key}: it has no available_at, so that no worker would ever claim it.`);
    blockDamaged(session, key, new StoreCorruptError({ where: db.path, cause }));
  }
  for (const key of orphans) {
    db.run(AWAIT, [key]);
    db.run(BEGIN, [key, now]);
  }
  for (const key of unread) db.run(WAKE, [key, now]);
  for (const id of tasks) db.run("UPDATE holdfast_tasks SET available_at = ? WHERE id = ?", [now, id]);
  session.leasedRuns.clear();
  session.changed("work");
  session.changed("tasks");
  return { count: unread.length + never.length + orphans.length + tasks.length + moved.length, lost };
}

/** A run that is tried again: what of its activities was put aside is looked at again too. */
export function putBack(session: Session, run: number, now: number): void {
  session.db.run(`UPDATE holdfast_tasks SET available_at = ? WHERE run = ? AND ${ASIDE}`, [now, run]);
  session.changed("tasks");
}
