// Claims in queues with limits, a pause, or work with keys.
// Owns: which places a claimer serves there, and how runs and activities become a shelf.
// Invariants: Q1 (plain work of a queue without limits is one key among the others), Q2 (one writer: what is decided in its transaction is
// exact), Q8 (a pause stops every claim).

import { admits, choose, limitsFor } from "../filing/choose.ts";
import { needsOf, TASK_NEEDS } from "../filing/rules.ts";
import type { Served, TaskClaimRequest } from "../port.ts";
import type { LimitedWork, LimitsFor, StoredQueueSpec } from "../queuePort.ts";
import { loseRunningAttempts } from "./attempts.ts";
import { readNumber, readOptionalText, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { ABOVE, coveredAt } from "./coveredSlots.ts";
import { type Kind, type Place, refileBelow } from "./filedLanes.ts";
import { findRun } from "./findRun.ts";
import { readPauses } from "./queues.ts";
import type { Session } from "./session.ts";
import { readFiling } from "./session.ts";
import { type NumberedPlace, type PlainLanes, type ShelfOptions, SqliteShelf } from "./shelf.ts";

/** What a claim is for, in one queue. */
export interface FiledClaim extends Pick<ShelfOptions, "queue" | "kind" | "isServed" | "plain" | "now" | "isOne" | "take"> {
  readonly limit: number;
}
interface Claimed {
  readonly nextAt: number | undefined;
  /** Looking: a claim would change something. */
  readonly isNeeded: boolean;
  /** Their time is not a moment. */
  readonly damaged: readonly number[];
}

/** With `take`: in the transaction that claims. Without: only checks whether a claim would find anything. */
export function claimFiled(db: Connection, session: Session | undefined, claim: FiledClaim): Claimed {
  const { queue, kind, now, limit, plain } = claim;
  const pauses = readPauses(db, queue, now);
  if (pauses.queue !== undefined) return { nextAt: Number.isFinite(pauses.queue) ? pauses.queue : undefined, isNeeded: false, damaged: [] };
  const { spec } = readFiling(db, queue);
  const changes =
    session === undefined
      ? {}
      : { endLease: (id: number) => endLostLease(session, id, now), tookSlots: (id: number) => refileBelowKey(session, id) };
  const options = { ...claim, places: placesOf(db, queue, kind), spec, plain: spec === undefined ? plain : undefined, ...changes };
  const shelf = new SqliteShelf(db, options);
  const damaged = shelf.ripen();
  // Computed before anything is leased: new leases are not news to the worker that claims them.
  const arrival = shelf.nextArrival();
  if (limit <= 0 || (claim.take === undefined && shelf.isNeeded)) return { nextAt: arrival, isNeeded: shelf.isNeeded, damaged };
  const { taken, nextAt } = choose(shelf, spec, pauses, claim.take === undefined ? 1 : limit, now);
  if (claim.take !== undefined && taken > 0) shelf.forgetKeys();
  const next = taken >= limit ? now : arrival === undefined || nextAt === undefined ? (arrival ?? nextAt) : Math.min(arrival, nextAt);
  return { nextAt: next, isNeeded: shelf.isNeeded || taken > 0, damaged };
}
/** What may be claimed there, in no order, for finding out which of them can't be written. */
export function filedCandidates(db: Connection, claim: FiledClaim): number[] {
  const { queue, kind, limit } = claim;
  const shelf = new SqliteShelf(db, { ...claim, places: placesOf(db, queue, kind), spec: undefined });
  return shelf.candidates(limit);
}

/** V4: whether this blocked run may be claimed out of its turn. If so, `claimed` writes what it holds then. */
export function admitBlocked(session: Session, queue: string, key: number, now: number): { claimed: () => void } | undefined {
  const { db } = session;
  const { spec } = session.filing(queue);
  const work = waitingRun(db, queue, key, spec);
  const shelf = new SqliteShelf(db, {
    ...nothingServed({ queue, kind: "run", spec, now }),
    tookSlots: (id) => refileBelowKey(session, id),
  });
  if (!admits(shelf, spec, readPauses(db, queue, now), work, now)) return undefined;
  return { claimed: () => (work.lane < 0 ? shelf.claimed(key, work) : undefined) };
}
function waitingRun(db: Connection, queue: string, key: number, spec: StoredQueueSpec | undefined) {
  const [lane, name, workerId, startedAt, held, above = null] =
    db.get(`SELECT lane, work_key, worker_id, started_at, held, ${ABOVE} FROM holdfast_runs WHERE key = ?`, [key]) ?? [];
  const workKey = readOptionalText(name);
  const covered = spec?.counts === "open" ? coveredAt(db, { queue, key: workKey, above }) : 0;
  const waiter = { isLeased: workerId !== null, isBegun: startedAt !== null, held: readNumber(held), covered };
  return { lane: readNumber(lane), key: workKey, needs: needsOf(waiter, spec) };
}
/** A shelf that only counts. */
function nothingServed<T extends Pick<ShelfOptions, "queue" | "kind" | "spec" | "now">>(options: T) {
  return { ...options, places: [], isServed: () => false, plain: undefined };
}
export function readLimits(db: Connection, work: LimitedWork, now: number): LimitsFor | undefined {
  const [key, name] = work.of === "runs" ? (db.get("SELECT key, queue FROM holdfast_runs WHERE id = ?", [text(work.runId)]) ?? []) : [];
  if (work.of === "runs" && key === undefined) return undefined;
  const queue = work.of === "runs" ? readText(name) : work.queue;
  const { spec } = readFiling(db, queue);
  const waiter = work.of === "runs" ? waitingRun(db, queue, readNumber(key), spec) : { key: work.key, needs: TASK_NEEDS };
  const shelf = new SqliteShelf(db, nothingServed({ queue, kind: work.of === "runs" ? "run" : "task", spec, now }));
  return limitsFor(shelf, spec, readPauses(db, queue, now), waiter, now);
}

export function placesOf(db: Connection, queue: string, kind: Kind): NumberedPlace[] {
  const sql = "SELECT lane, name, version FROM holdfast_filed_lanes WHERE queue = ? AND kind = ? AND place IS NULL";
  return db
    .all(sql, [text(queue), kind])
    .map(([lane, name, version]) => ({ lane: readNumber(lane), queue, kind, name: readText(name), version: readOptionalText(version) }));
}
export const servesPlace =
  (serves: readonly Served[]) =>
  ({ name, version }: Place): boolean =>
    serves.some(({ workflow, versions }) => workflow === name && (versions === "*" || versions.includes(version)));

function refileBelowKey(session: Session, key: number): void {
  const [id] = session.db.get("SELECT id FROM holdfast_runs WHERE key = ?", [key]) ?? [];
  refileBelow(session, readText(id));
}

const END_LEASE = `UPDATE holdfast_runs SET epoch = epoch + 1, recoveries = recoveries + 1, worker_id = NULL, turns = ?1, history_length = ?2,
  status = CASE status WHEN 'running' THEN 'sleeping' ELSE status END WHERE key = ?3`;

/** Q3: a worker has lost it, and the one that claims has no code for it. D7: that counts as a recovery, and its attempts are lost. */
function endLostLease(session: Session, key: number, now: number): void {
  const { db } = session;
  session.leasedRuns.forget(key);
  const run = findRun(db, readText(db.get("SELECT id FROM holdfast_runs WHERE key = ?", [key])?.[0]));
  if (run === undefined) return;
  db.run(END_LEASE, [run.turns, run.historyLength, key]);
  loseRunningAttempts(db, key, run.execution, now);
  session.changed("work");
  session.changed("messages");
}

// ── work without a key, in a queue without limits ──

/** The lanes of plain runs that the claimer serves, with their priorities. */
export function plainRuns(
  db: Connection,
  lanes: readonly { readonly lane: number; readonly priority: number | undefined }[],
  now: number,
): PlainLanes {
  const sql = `SELECT key, available_at, worker_id IS NOT NULL FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL AND available_at <= ?
    ORDER BY available_at, key LIMIT 1`;
  const headOf = (lane: number) => {
    const row = db.get(sql, [lane, now]);
    if (row === undefined) return undefined;
    const [key, availableAt, isLeased] = row;
    return { id: readNumber(key), availableAt: readNumber(availableAt), order: readNumber(key), isLeased: isLeased === 1 };
  };
  return {
    nextPriority: (below) => {
      const found = lanes.filter(({ lane, priority = 0 }) => priority < below && headOf(lane) !== undefined);
      return found.length === 0 ? undefined : Math.max(...found.map(({ priority = 0 }) => priority));
    },
    head: (at) => {
      const heads = lanes.flatMap(({ lane, priority = 0 }) => (priority === at ? (headOf(lane) ?? []) : []));
      return heads.sort((a, b) => a.availableAt - b.availableAt || a.order - b.order)[0];
    },
  };
}
/** Plain activities have no priority. */
export function plainTasks(db: Connection, { queue, activities }: Pick<TaskClaimRequest, "queue" | "activities">, now: number): PlainLanes {
  const sql = `SELECT id, available_at FROM holdfast_tasks WHERE queue = ? AND activity = ? AND available_at IS NOT NULL AND lane IS NULL
    AND available_at <= ? ORDER BY available_at, id LIMIT 1`;
  const head = () => {
    const heads = activities.flatMap((activity) => db.all(sql, [text(queue), text(activity), now]));
    const found = heads.map(([id, at]) => ({ id: readNumber(id), availableAt: readNumber(at), order: readNumber(id), isLeased: false }));
    return found.sort((a, b) => a.availableAt - b.availableAt || a.order - b.order)[0];
  };
  return {
    nextPriority: (below) => (below > 0 && head() !== undefined ? 0 : undefined),
    head: (priority) => (priority === 0 ? head() : undefined),
  };
}
