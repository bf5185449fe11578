// Handing out activities, and keeping their leases.
// Owns: which task a worker gets, its lease, its heartbeats.
// Invariants: D11 (a token fences every answer), W1 (only what the worker has code and room for).

import type { ClaimedTask, TaskClaimRequest } from "../port.ts";
import { LAST_MOMENT, payloadOrNull, readNumber, readOptionalNumber, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import type { Session } from "./session.ts";
import { dueWhileRunning, findTask, keepAttempt, type Task } from "./tasks.ts";

interface Waiting {
  readonly id: number;
  readonly availableAt: number;
}

// K7: no task of a run past its deadline.
const WAITING = `SELECT id, available_at FROM holdfast_tasks t
  WHERE queue = ?1 AND activity = ?2 AND available_at IS NOT NULL AND lane IS NULL AND available_at <= ?3
    AND NOT EXISTS (SELECT 1 FROM holdfast_runs r WHERE r.key = t.run AND r.deadline_at <= ?3)
  ORDER BY available_at, id LIMIT ?4`;
// Whether the queue has limits, a pause or work with keys is asked in the same statement.
const LATER = `SELECT min(available_at), EXISTS (SELECT 1 FROM holdfast_queues WHERE queue = ?1) FROM holdfast_tasks
  WHERE queue = ?1 AND activity = ?2 AND lane IS NULL AND available_at > ?3`;
/** Something else has written there: SQLite sorts texts and blobs after every number. */
const NO_MOMENT = `SELECT id FROM holdfast_tasks WHERE queue = ? AND activity = ? AND lane IS NULL AND available_at > ${LAST_MOMENT} LIMIT ?`;

interface FoundTasks {
  readonly due: Waiting[];
  readonly nextAt: number | undefined;
  /** The queue has limits, a pause or work with keys: these are not all, and not in order. */
  readonly isFiled: boolean;
}
/** The tasks that are due for these activities, oldest first, and when the next one is. */
export function findTasks(db: Connection, request: TaskClaimRequest, now: number): FoundTasks {
  const queue = text(request.queue);
  const found: Waiting[] = [];
  let nextAt: number | undefined;
  let isFiled = false;
  for (const activity of request.activities) {
    const rows = db.all(WAITING, [queue, text(activity), now, request.limit + 1]);
    for (const [id, availableAt] of rows) found.push({ id: readNumber(id), availableAt: readNumber(availableAt) });
    const [later = null, filed] = db.get(LATER, [queue, text(activity), now]) ?? [];
    isFiled ||= filed === 1;
    if (later === null || (typeof later === "number" && later <= LAST_MOMENT)) nextAt = earlier(nextAt, readOptionalNumber(later));
    // Their time can't be read: they are due now.
    else for (const [id] of db.all(NO_MOMENT, [queue, text(activity), request.limit])) found.push({ id: readNumber(id), availableAt: now });
  }
  found.sort((a, b) => a.availableAt - b.availableAt || a.id - b.id);
  const due = found.slice(0, request.limit);
  return { due, nextAt: found.length > due.length ? found[due.length]?.availableAt : nextAt, isFiled };
}

const LATE = `UPDATE holdfast_tasks SET available_at = NULL WHERE id = ?1
  AND EXISTS (SELECT 1 FROM holdfast_runs r WHERE r.key = holdfast_tasks.run AND r.deadline_at <= ?2) RETURNING id`;

/** K7: true if the deadline of its run has passed. It never begins, and is deleted when the run has ended. */
export function setAsideLate(db: Connection, id: number, now: number): boolean {
  return db.get(LATE, [id, now]) !== undefined;
}

const CLAIM = `UPDATE holdfast_tasks SET attempt = ?, token = ?, worker_id = ?, started_at = ?, heartbeat_at = ?, leased_until = ?, lease = ?,
  due_at = ?, available_at = NULL WHERE id = ?`;

/** D7: tasks of this worker that it does not know of. */
export function findLost(db: Connection, { workerId, queue, activities, limit, known }: TaskClaimRequest): number[] {
  if (known === undefined) return [];
  return db
    .all("SELECT id, activity FROM holdfast_tasks WHERE worker_id = ? AND queue = ? ORDER BY id", [text(workerId), text(queue)])
    .filter(([id, activity]) => !known.includes(readNumber(id)) && activities.includes(readText(activity)))
    .slice(0, limit)
    .map(([id]) => readNumber(id));
}

/** `again`: D7, by the same attempt, which has not begun. */
export function claimTask(
  session: Session,
  id: number,
  request: TaskClaimRequest,
  now: number,
  how: "new" | "again",
): ClaimedTask | undefined {
  const { db } = session;
  const task = findTask(session, id, now);
  if (task === undefined) return undefined;
  const { workerId } = request;
  const leasedUntil = now + Math.min(request.lease, task.startToClose ?? request.lease);
  const claimed: Task = {
    ...task,
    attempt: how === "again" ? task.attempt : task.attempt + 1,
    token: task.token + 1,
    workerId,
    startedAt: now,
    heartbeatAt: now,
    leasedUntil,
  };
  db.run(CLAIM, [claimed.attempt, claimed.token, text(workerId), now, now, leasedUntil, leasedUntil - now, dueWhileRunning(claimed), id]);
  keepAttempt(db, claimed, { status: "running" });
  return withoutInternals(claimed);
}

/** What is the store's business is not the worker's. */
function withoutInternals(task: Task): ClaimedTask {
  const {
    run: _run,
    scheduledAt: _scheduledAt,
    workerId: _workerId,
    startedAt: _startedAt,
    leasedUntil: _until,
    heartbeatAt: _at,
    deadlineAt: _deadline,
    isFiled: _isFiled,
    ...claimed
  } = task;
  return claimed;
}

export interface Heartbeat {
  readonly id: number;
  readonly token: number;
  readonly lease: number;
  readonly details?: Task["lastHeartbeat"] | undefined;
}

/** The task, if this claim of it still holds. */
export function heldTask(session: Session, id: number, token: number, now: number): Task | undefined {
  const task = findTask(session, id, now);
  return task?.workerId !== undefined && task.token === token ? task : undefined;
}

/** As with runs: workers ask at hints, and a lease whose end is off by less than this share of its length is left as it is. */
const NOT_WORTH_A_WRITE = 0.1;

/** Whether these claims hold, if that is all there is to say: undefined if one of them has something to be written. */
export function readFresh(db: Connection, beats: readonly Heartbeat[], now: number): boolean[] | undefined {
  const held: boolean[] = [];
  for (const { id, token, lease, details } of beats) {
    const [worker, current, leasedUntil] = db.get("SELECT worker_id, token, leased_until FROM holdfast_tasks WHERE id = ?", [id]) ?? [null];
    const isHeld = worker !== null && current === token;
    const isFresh = Math.abs(now + lease - Number(leasedUntil)) <= lease * NOT_WORTH_A_WRITE;
    if (details !== undefined || (isHeld && !isFresh)) return undefined;
    held.push(isHeld);
  }
  return held;
}

/** Extends the lease. Only a heartbeat of the activity's own, with details, is one for its heartbeat limit. */
export function heartbeatTask(session: Session, beat: Heartbeat, now: number): boolean {
  const task = heldTask(session, beat.id, beat.token, now);
  if (task === undefined) return false;
  const details = beat.details ?? task.lastHeartbeat;
  const heartbeatAt = beat.details === undefined ? task.heartbeatAt : now;
  const leasedUntil = now + beat.lease;
  session.db.run("UPDATE holdfast_tasks SET leased_until = ?, heartbeat_at = ?, last_heartbeat = ?, due_at = ? WHERE id = ?", [
    leasedUntil,
    heartbeatAt,
    payloadOrNull(details),
    dueWhileRunning({ ...task, leasedUntil, heartbeatAt }),
    beat.id,
  ]);
  return true;
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}
