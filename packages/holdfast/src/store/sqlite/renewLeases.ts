// Renews the leases of runs, and shortens leases that have become too long because the clock was set back.
// Owns: when a lease is worth a write, and how far off its end may be.
// Invariants: W3 (a lease is renewed while the worker lives), D4 (only the holder's epoch renews).

import type { HeldClaim, InboxMessage } from "../port.ts";
import { readNumber, readOptionalText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { isDamage } from "./failures.ts";
import { readInbox } from "./inbox.ts";
import type { Session } from "./session.ts";

export interface ReadClaim {
  /** Undefined: the claim is lost. */
  readonly key: number | undefined;
  readonly inbox: InboxMessage[];
  readonly leasedUntil: number;
}

/** A worker asks at every hint that messages may be there: a lease whose end is off by less than this share of its length is left as it is. */
const NOT_WORTH_A_WRITE = 0.1;
const LOST: ReadClaim = { key: undefined, inbox: [], leasedUntil: 0 };

export function readClaim(db: Connection, workerId: string, { runId, epoch, seen }: HeldClaim): ReadClaim {
  const sql = "SELECT key, worker_id, available_at, last_message FROM holdfast_runs WHERE id = ? AND epoch = ? AND finished_at IS NULL";
  const [key, holder, leasedUntil, lastMessage] = db.get(sql, [text(runId), epoch]) ?? [];
  if (key === undefined || readOptionalText(holder) !== workerId) return LOST;
  try {
    const inbox = readNumber(lastMessage) > seen ? readInbox(db, readNumber(key), seen) : [];
    return { key: readNumber(key), inbox, leasedUntil: readNumber(leasedUntil) };
  } catch (error) {
    // A run whose messages can't be read counts as lost: the next claim blocks it. Those that are renewed with it are kept.
    if (!isDamage(error)) throw error;
    return LOST;
  }
}

/** Too late an end counts as well: the clock was set back, and a worker that died would keep the run for as long. */
export function needsRenewal({ key, leasedUntil }: ReadClaim, lease: number, now: number): boolean {
  return key !== undefined && Math.abs(now + lease - leasedUntil) > lease * NOT_WORTH_A_WRITE;
}

export function renewLease(db: Connection, { key }: ReadClaim, lease: number, now: number): void {
  if (key !== undefined) db.run("UPDATE holdfast_runs SET available_at = ? WHERE key = ?", [now + lease, key]);
}

// Those of runs are found by status, which only runs that a worker has share; there are never many tasks.
const LONG_RUNS = "status IN ('running', 'rolling_back') AND worker_id IS NOT NULL AND available_at > ?1 + lease * 1.1";
const LONG_TASKS = "worker_id IS NOT NULL AND leased_until > ?1 + lease * 1.1";

// W1: what was due by the old time. All of it was written after now.
const DUE_NEW = "status = 'pending' AND created_at > ?1 AND available_at > ?1 AND available_at <= created_at";
const DUE_TOLD = `worker_id IS NULL AND available_at > ?1 AND status NOT IN ('pending', 'blocked')
  AND key IN (SELECT run FROM holdfast_inbox WHERE received_at > ?1)`;
const DUE_TASKS = "worker_id IS NULL AND available_at > ?1 AND available_at <= scheduled_at";

/** Whether a lease ends later than one that is given now would, or something is due later than it was: the clock was set back since. */
export function hasLongLeases(db: Connection, now: number): boolean {
  const exists = (table: string, where: string): string => `EXISTS (SELECT 1 FROM ${table} WHERE ${where})`;
  const runs = [LONG_RUNS, DUE_NEW, DUE_TOLD].map((where) => exists("holdfast_runs", where));
  const tasks = [LONG_TASKS, DUE_TASKS].map((where) => exists("holdfast_tasks", where));
  const sql = `SELECT ${[...runs, ...tasks, exists("holdfast_queue_starts", "at > ?1")].join(" OR ")}`;
  return db.get(sql, [now])?.[0] === 1;
}

/** W3: a living worker renews its leases in time. A dead worker would keep its runs until the old time is reached again. */
export function cutLeases(session: Session, now: number): void {
  const { db } = session;
  session.changed("work");
  session.changed("tasks");
  db.run(`UPDATE holdfast_runs SET available_at = ?1 + lease WHERE ${LONG_RUNS}`, [now]);
  for (const due of [DUE_NEW, DUE_TOLD]) db.run(`UPDATE holdfast_runs SET available_at = ?1 WHERE ${due}`, [now]);
  db.run(`UPDATE holdfast_tasks SET available_at = ?1 WHERE ${DUE_TASKS}`, [now]);
  db.run("UPDATE holdfast_queue_starts SET at = ?1 WHERE at > ?1", [now]); // Q4: what was started later than now counts from now
  db.run(`UPDATE holdfast_tasks SET leased_until = ?1 + lease, due_at = min(due_at, ?1 + lease) WHERE ${LONG_TASKS}`, [now]);
}
