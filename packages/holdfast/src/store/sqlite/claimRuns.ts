// Handing out runs.
// Owns: which runs a worker gets, in which order, and with what.
// Invariants: W1 W2 (only what it serves; by priority, then by when it became available, then by arrival), W3 (leases), D7 (recoveries),
// K7 (a run past its deadline is ended, never handed out, except for its rollbacks).
// A claim looks at the heads of lanes, never at runs that sleep or that it does not serve.

import type { Turn } from "@holdfast/core";
import type { ClaimedRun, ClaimRequest, RunRow, Served } from "../port.ts";
import { loseRunningAttempts, readAttempts } from "./attempts.ts";
import { LAST_MOMENT, numberOrNull, readNumber, readOptionalNumber, readOptionalText, readText, text } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { expireRun } from "./controlRuns.ts";
import { readingRow } from "./damage.ts";
import { findRun, headOfClaimed } from "./findRun.ts";
import { readInbox } from "./inbox.ts";
import type { Row } from "./library.ts";
import { readLastTime, readRecords, turnsOf } from "./records.ts";
import { CLAIM_COLUMNS, executionStartOf, RUN_TABLES, runRow } from "./runs.ts";
import type { Session } from "./session.ts";
import { putBack } from "./stranded.ts";

export interface Lane {
  readonly lane: number;
  /** Undefined: something else has written a value that is not a number. */
  readonly priority: number | undefined;
  /** When its first run is available. Undefined: it has no run with a readable time. */
  readonly head: number | undefined;
  /** It has runs whose `available_at` is not a moment. */
  readonly isDamaged: boolean;
}
interface Candidate {
  readonly key: number;
  readonly availableAt: number;
}

// A column holds whatever is written to it. SQLite sorts texts and blobs after every number: what is below the last moment of
// JavaScript's clock is a moment, and the rest is found at the end of the same index, so that one bad value does not hide the others.
export const LANE_HEADS = `SELECT lane, workflow, version, priority,
    (SELECT min(available_at) FROM holdfast_runs WHERE lane = l.lane AND available_at <= ${LAST_MOMENT}),
    EXISTS (SELECT 1 FROM holdfast_runs WHERE lane = l.lane AND available_at > ${LAST_MOMENT})
  FROM holdfast_lanes l WHERE queue = ?1 AND EXISTS (SELECT 1 FROM holdfast_runs WHERE lane = l.lane AND available_at IS NOT NULL)
  UNION ALL SELECT 0, NULL, NULL, NULL, NULL, NULL FROM holdfast_queues WHERE queue = ?1`;
export const DUE_RUNS = `SELECT key, available_at FROM holdfast_runs WHERE lane = ? AND available_at IS NOT NULL AND available_at <= ?
  ORDER BY available_at, key LIMIT ?`;
export const LATER_RUN = `SELECT min(available_at) FROM holdfast_runs WHERE lane = ? AND available_at > ? AND available_at <= ${LAST_MOMENT}`;
export const DAMAGED_RUNS = `SELECT key FROM holdfast_runs WHERE lane = ? AND available_at > ${LAST_MOMENT}`;

function served(all: readonly Served[]): (workflow: string, version: string | undefined) => boolean {
  const serves = new Map<string, Served["versions"]>();
  for (const { workflow, versions } of all) {
    const known = serves.get(workflow);
    serves.set(workflow, known === "*" || versions === "*" ? "*" : [...(known ?? []), ...versions]);
  }
  return (workflow, version) => {
    const versions = serves.get(workflow);
    return versions !== undefined && (versions === "*" || versions.includes(version));
  };
}

export interface Lanes {
  readonly lanes: readonly Lane[];
  /** The queue has limits, a pause or work with keys: the lanes are not all there is, and not all may be claimed (Q). */
  readonly isFiled: boolean;
}
/** What a claim is for in one queue: in the worker's own, or in another that some of what it serves is for (B3). */
export type ClaimPart = Pick<ClaimRequest, "queue" | "serves">;
/** Other queues have few runs, and come first. */
export function partsOf({ queue, serves }: ClaimPart): ClaimPart[] {
  if (serves.every((one) => one.queue === undefined || one.queue === queue)) return [{ queue, serves }];
  const others = serves.flatMap((one) => (one.queue === undefined || one.queue === queue ? [] : [one.queue]));
  const inQueue = (where: string): readonly Served[] => serves.filter((one) => (one.queue ?? queue) === where);
  return [...new Set([...others, queue])].map((where) => ({ queue: where, serves: inQueue(where) }));
}

/** The lanes of a queue that the worker serves, and that are not empty. */
export function findLanes(db: Connection, request: ClaimPart): Lanes {
  const isServed = served(request.serves);
  const lanes: Lane[] = [];
  let isFiled = false;
  for (const [lane, workflow, version, priority, head, isDamaged] of db.all(LANE_HEADS, [text(request.queue)])) {
    if (lane === 0) isFiled = true;
    if (lane === 0 || !isServed(readText(workflow), readOptionalText(version))) continue;
    const rank = typeof priority === "number" ? priority : undefined;
    lanes.push({ lane: readNumber(lane), priority: rank, head: readOptionalNumber(head), isDamaged: isDamaged === 1 });
  }
  return { lanes, isFiled };
}

/** Due runs in order, up to the limit, and when the first of the others is due. */
export function findDue(db: Connection, lanes: readonly Lane[], limit: number, now: number): { due: number[]; nextAt: number | undefined } {
  const due: number[] = [];
  let nextAt: number | undefined;
  const sooner = (moment: number | undefined): void => {
    if (moment !== undefined && (nextAt === undefined || moment < nextAt)) nextAt = moment;
  };
  for (const [, peers] of byPriority(lanes)) {
    const candidates: Candidate[] = [];
    for (const { lane, head } of peers) {
      if (head === undefined || head > now) {
        sooner(head);
        continue;
      }
      // One more than there is room for tells whether something is left.
      for (const [key, at] of db.all(DUE_RUNS, [lane, now, limit - due.length + 1]))
        candidates.push({ key: readNumber(key), availableAt: readNumber(at) });
      sooner(readOptionalNumber(db.get(LATER_RUN, [lane, now])?.[0]));
    }
    candidates.sort((a, b) => a.availableAt - b.availableAt || a.key - b.key);
    const taken = candidates.slice(0, limit - due.length);
    due.push(...taken.map(({ key }) => key));
    sooner(candidates[taken.length]?.availableAt);
  }
  return { due, nextAt };
}

/** Few are blocked: they are sorted out here. */
export const BLOCKED = "SELECT key, lane FROM holdfast_runs WHERE status = 'blocked'";

const LANES_OF_BLOCKED = `SELECT lane, workflow, version FROM holdfast_lanes WHERE queue = ?1
  UNION ALL SELECT -lane, name, version FROM holdfast_filed_lanes WHERE queue = ?1 AND kind = 'run' AND place IS NULL`;
/** V4: those that the worker serves. */
export function findBlocked(
  db: Connection,
  request: ClaimPart & Pick<ClaimRequest, "blockedOnly">,
  after: number,
  limit: number,
): number[] {
  const lanes = new Set<unknown>();
  for (const { queue, serves } of partsOf(request)) {
    const isServed = served(serves);
    for (const [lane, workflow, version] of db.all(LANES_OF_BLOCKED, [text(queue)]))
      if (isServed(readText(workflow), readOptionalText(version))) lanes.add(lane);
  }
  if (lanes.size === 0) return [];
  const blocked = db.all(BLOCKED, []).filter(([, lane]) => lanes.has(lane));
  const isWanted = (key: number): boolean => key > after && request.blockedOnly?.includes(key) !== false;
  const keys = blocked.map(([key]) => readNumber(key)).filter(isWanted);
  return keys.sort((a, b) => a - b).slice(0, limit);
}

/** Runs whose `available_at` is not a moment, so that they have no place in the order of claims. */
export function findDamaged(db: Connection, lanes: readonly Lane[]): number[] {
  return lanes.flatMap(({ lane, isDamaged }) => (isDamaged ? db.all(DAMAGED_RUNS, [lane]).map(([key]) => readNumber(key)) : []));
}

const DEFAULT_PRIORITY = 0;

function byPriority(lanes: readonly Lane[]): [number, Lane[]][] {
  const groups = new Map<number, Lane[]>();
  for (const lane of lanes) {
    // The runs of a lane whose own priority is lost are sound: they come with those that never had one.
    const { priority = DEFAULT_PRIORITY } = lane;
    const group = groups.get(priority);
    if (group === undefined) groups.set(priority, [lane]);
    else group.push(lane);
  }
  return [...groups].sort(([a], [b]) => b - a);
}

// To read and then to write: an UPDATE that returns the row takes half as long again as both (20 µs against 12 on node:sqlite).
const AVAILABLE = `SELECT ${CLAIM_COLUMNS}, r.last_message, r.rollbacks, r.expired, r.forget_at, r.awaited, r.has_next, r.lane,
  r.workflow IS e.workflow AND r.version IS e.version FROM ${RUN_TABLES} WHERE r.key = ? AND r.finished_at IS NULL`;
const CLAIM = `UPDATE holdfast_runs SET epoch = ?, status = ?, recovered = ?, recoveries = ?, worker_id = ?, lease = ?, available_at = ?, started_at = ?,
    waiting_for = NULL, error = NULL, blocked_code = NULL, turns = ?, history_length = ? WHERE key = ?`;

/** What a claim has read, to be made a `ClaimedRun` of once the transaction is over. */
export interface Claim {
  readonly key: number;
  readonly run: RunRow;
  readonly records: readonly Row[] | undefined;
  readonly attempts: ClaimedRun["attempts"];
  readonly inbox: ClaimedRun["inbox"];
  readonly recovered: boolean;
  readonly recoveredFrom: string | undefined;
  readonly lastTime: number | undefined;
}

/** Undefined: its deadline had passed, and it has ended, with nothing to undo. */
export function claimRun(
  session: Session,
  key: number,
  worker: { readonly id: string; readonly lease: number },
  request: Pick<ClaimRequest, "cached" | "queue" | "serves">,
  now: number,
): Claim | undefined {
  const { db } = session;
  const row = db.get(AVAILABLE, [key]);
  if (row === undefined) throw new TypeError("A run was available that has ended, or has no execution.");
  const [last, rollbacks, expired, forgetAt, awaited, next, lane, isOfExecution] = row.slice(-8);
  const found = readingRow("holdfast_runs", `key ${key}`, () => runRow(row));
  if (isOfExecution !== 1) throw new TypeError(`holdfast_runs, key ${key}: its workflow and version are not those of its execution.`);
  // It was found by its lane: a run that says something else would wait for a worker that has no code for it.
  if (!isServed(request, found))
    throw new TypeError(`holdfast_runs, key ${key}: its queue, workflow and version are not those of its lane.`);
  if (found.deadlineAt !== undefined && found.deadlineAt <= now && expired === 0 && found.status !== "rolling_back") {
    const late = findRun(db, found.id);
    if (late !== undefined) expireRun(session, late, now);
    return findRun(db, found.id)?.isOpen === true ? claimRun(session, key, worker, request, now) : undefined;
  }
  const { run, recovered } = taken(found, worker, now);
  const { epoch, status, recoveries, availableAt, startedAt, turns, historyLength } = run;
  const moments = [numberOrNull(availableAt), numberOrNull(startedAt)];
  db.run(CLAIM, [epoch, status, recovered ? 1 : 0, recoveries, text(worker.id), worker.lease, ...moments, turns, historyLength, key]);
  if (recovered) loseRunningAttempts(db, key, run.execution, now);
  if (found.status === "blocked") putBack(session, key, now);
  const known = request.cached(run.id);
  const isCached = known !== undefined && known.execution === run.execution && known.turns === run.turns;
  const isNew = run.turns === 0;
  const lastMessage = readNumber(last);
  const isBare = isNew && run.execution === 1 && run.attempt === 1 && lastMessage === 0;
  const head = headOfClaimed(key, run, {
    rollbacks: readNumber(rollbacks),
    lastMessage,
    forgetAt: readOptionalNumber(forgetAt),
    isAwaited: awaited === 1,
    hasNext: next === 1,
    isFiled: Number(lane) < 0,
  });
  session.leasedRuns.hold(head, { isBare, executionStart: isNew ? executionStartOf(run) : undefined });
  return {
    key,
    run,
    records: isCached ? undefined : isNew ? [] : readRecords(db, key, run.execution),
    attempts: isNew ? [] : readingRow("holdfast_attempts", `run ${key}`, () => readAttempts(db, key, run.execution, "steps")),
    inbox: lastMessage === 0 ? [] : readInbox(db, key),
    recovered,
    recoveredFrom: found.workerId,
    lastTime: isNew && run.execution > 1 ? readLastTime(db, key, run.execution) : undefined,
  };
}

function isServed({ queue, serves }: ClaimPart, run: RunRow): boolean {
  return serves.some((one) => {
    if ((one.queue ?? queue) !== run.queue || one.workflow !== run.workflow) return false;
    return one.versions === "*" || one.versions.includes(run.version);
  });
}

/** The run as the claim leaves it. */
function taken(run: RunRow, worker: { readonly id: string; readonly lease: number }, now: number): { run: RunRow; recovered: boolean } {
  const recovered = run.workerId !== undefined;
  const claimed: RunRow = {
    ...run,
    epoch: run.epoch + 1,
    status: run.status === "rolling_back" ? run.status : "running",
    recoveries: run.recoveries + (recovered ? 1 : 0),
    workerId: worker.id,
    availableAt: now + worker.lease,
    startedAt: run.startedAt ?? now,
  };
  return { run: claimed, recovered };
}

export function claimedRun({ key, run, records, attempts, inbox, recovered, recoveredFrom, lastTime }: Claim): ClaimedRun {
  const turns = records === undefined ? undefined : readingRow("holdfast_records", `run ${key}`, () => wholeHistory(run, records));
  return { run, turns, attempts, inbox, recovered, recoveredFrom, lastTime };
}

/** Exactly what the row of the run counts: with a record missing, the run would repeat what it has done. */
function wholeHistory(run: RunRow, rows: readonly Row[]): Turn[] {
  const turns = turnsOf(rows, executionStartOf(run));
  const count = turns.reduce((sum, { jobs, commands }) => sum + jobs.length + commands.length, 0);
  const found = (turns.at(-1)?.index ?? -1) + 1;
  if (found !== run.turns || count !== run.historyLength)
    throw new TypeError(
      `Its row counts ${run.turns} turns and ${run.historyLength} records, and there are ${found} turns and ${count} records.`,
    );
  return turns;
}
