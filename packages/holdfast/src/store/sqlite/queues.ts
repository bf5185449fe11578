// Limits and pauses of queues, and what is in them.
// Owns: rows of `holdfast_queues` and `holdfast_queue_pauses`; how the work of a queue is filed again.
// Invariants: Q1 (the first limits and their removal file open work again, in the same transaction), Q8 (durable).

import type { Pauses } from "../filing/choose.ts";
import { QUEUE_SLOT, SLOTS } from "../filing/rules.ts";
import { MOST_COUNTED, type QueueRow, type StoredQueueLoad, type StoredQueueSpec } from "../queuePort.ts";
import { readJson, readNumber, readOptionalNumber, readOptionalText, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { ABOVE, coveredOnceCounted } from "./coveredSlots.ts";
import { arrivalLane, type Kind, laneForTask } from "./filedLanes.ts";
import type { Session } from "./session.ts";

/** Later than any moment: until it is resumed. */
const ENDLESS = Number.MAX_SAFE_INTEGER;
const OPEN = "status IN ('pending', 'running', 'sleeping', 'blocked', 'rolling_back')";

// ── changes ──

/** Undefined: it has none from now on. */
export function setSpec(session: Session, queue: string, spec: StoredQueueSpec | undefined): void {
  const before = session.filing(queue).spec;
  const sql = "INSERT INTO holdfast_queues (queue, spec) VALUES (?1, ?2) ON CONFLICT (queue) DO UPDATE SET spec = ?2";
  session.db.run(sql, [text(queue), spec === undefined ? null : JSON.stringify(spec)]);
  session.forgetFiling(queue);
  const isSame = before !== undefined && spec !== undefined && (before.counts ?? "running") === (spec.counts ?? "running");
  if (!isSame) fileAnew(session, queue, "and count what is held");
  else if ((before.rate === undefined) !== (spec.rate === undefined)) fileAnew(session, queue, "only"); // Q5: starts are shared in another way
  if (spec === undefined) forgetQueue(session, queue);
  announce(session);
}
export function pauseQueue(session: Session, queue: string, key: string | undefined, until: number | undefined): void {
  const values = [text(queue), until ?? ENDLESS];
  session.db.run("INSERT INTO holdfast_queues (queue) VALUES (?) ON CONFLICT DO NOTHING", [text(queue)]);
  if (key === undefined) session.db.run("UPDATE holdfast_queues SET paused_until = ?2 WHERE queue = ?1", values);
  else session.db.run("INSERT OR REPLACE INTO holdfast_queue_pauses (queue, until, key) VALUES (?, ?, ?)", [...values, text(key)]);
  session.forgetFiling(queue);
  announce(session);
}
export function resumeQueue(session: Session, queue: string, key: string | undefined): void {
  if (key === undefined) session.db.run("UPDATE holdfast_queues SET paused_until = NULL WHERE queue = ?", [text(queue)]);
  else session.db.run("DELETE FROM holdfast_queue_pauses WHERE queue = ? AND key = ?", [text(queue), text(key)]);
  session.forgetFiling(queue);
  forgetQueue(session, queue);
  announce(session);
}
/** A queue of which nothing is left to say is a plain one. */
function forgetQueue({ db }: Session, queue: string): void {
  db.run(
    `DELETE FROM holdfast_queues WHERE queue = ?1 AND spec IS NULL AND paused_until IS NULL
       AND NOT EXISTS (SELECT 1 FROM holdfast_queue_pauses WHERE queue = ?1) AND NOT EXISTS (SELECT 1 FROM holdfast_filed_lanes WHERE queue = ?1)`,
    [text(queue)],
  );
}
/** Also of a pause: workers that wait for the end of the one before learn when this one ends. */
function announce(session: Session): void {
  session.changed("work");
  session.changed("tasks");
}

function fileAnew(session: Session, queue: string, what: "only" | "and count what is held"): void {
  const { db } = session;
  const isOpenCounted = session.filing(queue).spec?.counts === "open";
  const held = what === "only" ? "held" : "CASE WHEN started_at IS NULL THEN 0 ELSE ?2 END";
  session.leasedRuns.clear();
  db.run("DELETE FROM holdfast_filed_lanes WHERE queue = ? AND place IS NOT NULL", [text(queue)]);
  db.run("UPDATE holdfast_queue_keys SET idle = 1 WHERE queue = ?", [text(queue)]);
  const groups = `SELECT DISTINCT workflow, version, priority, work_key IS NOT NULL FROM holdfast_runs WHERE ${OPEN} AND queue = ?`;
  for (const [workflow = null, version = null, priority = null, isKeyed] of db.all(groups, [text(queue)])) {
    const run = { queue, workflow: readText(workflow), version: readOptionalText(version), priority: readNumber(priority) };
    const lane = arrivalLane(session, { ...run, key: isKeyed === 1 ? "any" : undefined });
    db.run(
      `UPDATE holdfast_runs SET lane = ?1, held = ${held}
       WHERE ${OPEN} AND queue = ?3 AND workflow = ?4 AND version IS ?5 AND priority = ?6 AND (work_key IS NOT NULL) = ?7`,
      [lane, isOpenCounted ? SLOTS : 0, text(queue), workflow, version, priority, isKeyed === 1 ? 1 : 0],
    );
  }
  if (isOpenCounted && what !== "only") coverChildren(db, queue);
  for (const [id, activity, key, priority] of db.all("SELECT id, activity, work_key, priority FROM holdfast_tasks WHERE queue = ?", [
    text(queue),
  ])) {
    const task = { queue, activity: readText(activity), key: readOptionalText(key), priority: readNumber(priority) };
    db.run("UPDATE holdfast_tasks SET lane = ? WHERE id = ?", [laneForTask(session, task, "any"), readNumber(id)]);
  }
}

/** Q2: those that have begun go under the slots of their ancestors. */
function coverChildren(db: Connection, queue: string): void {
  const children = `SELECT key, work_key, ${ABOVE} FROM holdfast_runs WHERE ${OPEN} AND queue = ? AND parent_id IS NOT NULL AND held > 0`;
  for (const [id, key, above = null] of db.all(children, [text(queue)])) {
    const covered = coveredOnceCounted(db, { queue, key: readOptionalText(key), above });
    if (covered !== 0) db.run("UPDATE holdfast_runs SET held = held & ~? WHERE key = ?", [covered, readNumber(id)]);
  }
}

// ── reading ──

export function readPauses(db: Connection, queue: string, now: number): Pauses {
  const [until = null] = db.get("SELECT paused_until FROM holdfast_queues WHERE queue = ? AND paused_until > ?", [text(queue), now]) ?? [];
  const keys = db.all("SELECT key, until FROM holdfast_queue_pauses WHERE queue = ? AND until > ? ORDER BY key", [text(queue), now]);
  const moment = (value: number): number => (value === ENDLESS ? Number.POSITIVE_INFINITY : value);
  return {
    queue: until === null ? undefined : moment(readNumber(until)),
    keys: new Map(keys.map(([key, end]) => [readText(key), moment(readNumber(end))])),
  };
}

export function readQueue(db: Connection, queue: string, now: number): QueueRow {
  const { queue: until, keys } = readPauses(db, queue, now);
  const [spec = null] = db.get("SELECT spec FROM holdfast_queues WHERE queue = ?", [text(queue)]) ?? [];
  return {
    name: queue,
    spec: spec === null ? {} : readJson<StoredQueueSpec>(spec),
    paused: until !== undefined,
    pausedUntil: until === undefined || !Number.isFinite(until) ? undefined : until,
    pausedKeys: [...keys.keys()],
    runs: readLoad(db, queue, "run", now),
    activities: readLoad(db, queue, "task", now),
  };
}

const LANES_OF_RUNS = `(SELECT lane FROM holdfast_lanes WHERE queue = ?1
  UNION ALL SELECT -lane FROM holdfast_filed_lanes WHERE queue = ?1 AND kind = 'run')`;
const WAITING_RUNS = `${LANES_OF_RUNS} l JOIN holdfast_runs r ON r.lane = l.lane AND r.available_at <= ?2 WHERE r.worker_id IS NULL AND r.held & ${QUEUE_SLOT} = 0`;
// Found by status: only runs that a worker has share these.
const CLAIMED_RUNS = `holdfast_runs r WHERE r.status IN ('running', 'rolling_back') AND r.worker_id IS NOT NULL AND r.queue = ?1`;

function readLoad(db: Connection, queue: string, kind: Kind, now: number): StoredQueueLoad {
  const isOpenCounted =
    kind === "run" &&
    db.get("SELECT 1 FROM holdfast_queues WHERE queue = ? AND json_extract(spec, '$.counts') = 'open'", [text(queue)]) !== undefined;
  const waiting = kind === "run" ? WAITING_RUNS : "holdfast_tasks r WHERE r.queue = ?1 AND r.available_at <= ?2 AND r.worker_id IS NULL";
  const held =
    kind === "task"
      ? "holdfast_tasks r WHERE r.queue = ?1 AND r.worker_id IS NOT NULL"
      : isOpenCounted
        ? `holdfast_runs r WHERE r.held > 0 AND r.held & ${QUEUE_SLOT} <> 0 AND r.queue = ?1`
        : CLAIMED_RUNS;
  const count = (from: string, values: readonly (string | number)[]): number =>
    readNumber(
      db.get(`SELECT count(*) FROM (SELECT 1 FROM ${from} LIMIT ${MOST_COUNTED})`, [text(String(values[0])), ...values.slice(1)])?.[0],
    );
  const [oldest] = db.get(`SELECT min(r.available_at) FROM ${waiting}`, [text(queue), now]) ?? [];
  return { waiting: count(waiting, [queue, now]), held: count(held, [queue]), oldest: readOptionalNumber(oldest) };
}

export function listQueues(db: Connection, now: number): QueueRow[] {
  const sql = `SELECT queue FROM holdfast_queues WHERE spec IS NOT NULL OR paused_until > ?1
    UNION SELECT queue FROM holdfast_queue_pauses WHERE until > ?1
    UNION SELECT queue FROM holdfast_runs WHERE ${OPEN} UNION SELECT queue FROM holdfast_tasks ORDER BY 1`;
  return db.all(sql, [now]).map(([queue]) => readQueue(db, readText(queue), now));
}
