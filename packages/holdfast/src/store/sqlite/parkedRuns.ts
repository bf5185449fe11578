// Parked runs that nothing would wake, because something else has written to their rows or to those of their children.
// Owns: the comparison of what a parked run says it waits for with what is there, some runs at a time.
// Invariants: V4 (no run is left waiting for what can't come); D9 (a wake-up too many does no harm).
//
// A parked run says in words what it waits for, with the times of its timers: the earliest of them is when it is available. These words
// are for people, and names of users are among them: a time in a name wakes a run for nothing, once each time that the file is opened.

import { readNumber, readOptionalNumber } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Value } from "./library.ts";
import type { Session } from "./session.ts";

/** Where a look goes on: by status, creation and key. */
export interface Place {
  readonly status: number;
  readonly createdAt: Value;
  readonly key: number;
}
const STATUSES = ["sleeping", "rolling_back"] as const;
export const FIRST_PLACE: Place = { status: 0, createdAt: Number.MIN_SAFE_INTEGER, key: 0 };

interface Link {
  readonly child: number;
  readonly parent: readonly [id: Value, execution: Value, seq: Value];
}
interface Found {
  /** When each is due. */
  readonly missed: readonly { readonly key: number; readonly at: number }[];
  /** Children that would answer another run, or another operation. */
  readonly links: readonly Link[];
  /** Undefined: all were looked at. */
  readonly next: Place | undefined;
}

// Of most runs the time that they are available at is among the words, or they wait for no time.
const PARKED = `SELECT key, created_at, available_at, history_length, execution,
    CASE WHEN worker_id IS NULL AND (available_at IS NULL OR available_at > ?1 AND
        instr(waiting_for, strftime('%Y-%m-%dT%H:%M:%fZ', available_at / 1000.0, 'unixepoch')) = 0) AND waiting_for GLOB '*T[0-9][0-9]:[0-9][0-9]:*Z*'
      THEN waiting_for END,
    worker_id IS NULL AND available_at IS NULL AND waiting_for LIKE '%child%'
      AND NOT EXISTS (SELECT 1 FROM holdfast_inbox i WHERE i.run = r.key AND i.type = 'resolve')
  FROM holdfast_runs r WHERE status = ?2 AND (created_at, key) > (?3, ?4) ORDER BY created_at, key LIMIT ?5`;
// A child that waits for the same end names this run, this execution and this operation. One of the three may be wrong.
const CHILDREN = `SELECT k.key, r.id, r.execution, c.seq FROM holdfast_runs r
  JOIN holdfast_records c ON c.run = r.key AND c.execution = r.execution AND c.type = 'child'
  JOIN holdfast_runs k ON k.id = CASE WHEN json_valid(c.data) THEN json_extract(c.data, '$.id') END AND k.finished_at IS NULL
  WHERE r.key = ? AND (k.parent_id IS r.id) + (k.parent_execution IS r.execution) + (k.parent_seq IS c.seq) = 2
    AND NOT EXISTS (SELECT 1 FROM holdfast_records d WHERE d.run = c.run AND d.execution = c.execution AND d.seq = c.seq
      AND d.type IN ('resolve', 'settle', 'cancel'))`;

/** Records of parents that one look reads at most. */
const MOST_RECORDS = 5_000;

export function findMissed(db: Connection, from: Place, limit: number, now: number): Found {
  const missed: { key: number; at: number }[] = [];
  const links: Link[] = [];
  const status = STATUSES[from.status];
  if (status === undefined) return { missed, links, next: undefined };
  const rows = db.all(PARKED, [now, status, from.createdAt, from.key, limit]);
  let next: Place = from;
  let read = 0;
  for (const [id, createdAt = null, availableAt, length, , words, isParent] of rows) {
    const key = readNumber(id);
    next = { status: from.status, createdAt, key };
    const at = typeof words === "string" ? earliest(words) : undefined;
    if (at !== undefined && at < (readOptionalNumber(availableAt) ?? Number.POSITIVE_INFINITY)) missed.push({ key, at });
    if (isParent !== 1) continue;
    for (const [child, parent = null, execution = null, seq = null] of db.all(CHILDREN, [key]))
      links.push({ child: readNumber(child), parent: [parent, execution, seq] });
    read += Number(length) || 0;
    if (read > MOST_RECORDS) return { missed, links, next };
  }
  if (rows.length < limit) next = { ...FIRST_PLACE, status: from.status + 1 };
  return { missed, links, next: next.status < STATUSES.length ? next : undefined };
}

const TIME = /\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;

function earliest(words: string): number | undefined {
  const times = Array.from(words.matchAll(TIME), ([time]) => Date.parse(time)).filter((time) => !Number.isNaN(time));
  return times.length === 0 ? undefined : Math.min(...times);
}

/** In the transaction that writes: finds them again. Returns how many. */
export function wakeMissed(session: Session, from: Place, limit: number, now: number): number {
  const { db } = session;
  const { missed, links } = findMissed(db, from, limit, now);
  for (const { key, at } of missed) {
    session.leasedRuns.forget(key);
    db.run("UPDATE holdfast_runs SET available_at = ? WHERE key = ?", [at, key]);
  }
  for (const { child, parent } of links) {
    session.leasedRuns.forget(child);
    db.run("UPDATE holdfast_runs SET parent_id = ?, parent_execution = ?, parent_seq = ? WHERE key = ?", [...parent, child]);
  }
  if (missed.length > 0) session.changed("work");
  return missed.length + links.length;
}
