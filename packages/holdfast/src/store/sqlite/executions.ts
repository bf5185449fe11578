// Executions of runs, and what a start says of the one that it begins.
// Owns: the table `holdfast_executions`, the keys of starts, and the columns of a run that its start decides.
// Invariants: P10 (executions are numbered), M3 (keys of starts are kept for the life of the run), Q9 (a run that no worker has claimed takes
// over a newer start).

import type { Payload } from "@holdfast/core";
import type { NewRun } from "../port.ts";
import { deadlineTime, keepingPlace, startTime } from "../startTimes.ts";
import { reindexAttributes } from "./attributes.ts";
import {
  jsonOrNull,
  numberOrNull,
  payload,
  readNumber,
  readOptionalNumber,
  readOptionalText,
  readText,
  text,
  textOrNull,
} from "./columns.ts";
import { arrivalLane } from "./filedLanes.ts";
import type { RunHead } from "./findRun.ts";
import type { Value } from "./library.ts";
import { retentionOrNull } from "./runs.ts";
import type { Session } from "./session.ts";
import { findAwaited, waitFor } from "./waitingRuns.ts";

/** M3: for the life of the run, beside the keys that it has. */
export function rememberStart({ db }: Session, key: number, { workflow, idempotencyKey }: NewRun): void {
  if (idempotencyKey !== undefined)
    db.run("INSERT INTO holdfast_start_keys (workflow, key, run) VALUES (?, ?, ?)", [text(workflow), text(idempotencyKey), key]);
}

/** work_key, schedule, tick, forked_from, retention. */
export function originOf({ key, schedule, tick, forkedFrom, retention }: NewRun): Value[] {
  return [textOrNull(key), textOrNull(schedule), numberOrNull(tick), textOrNull(forkedFrom), retentionOrNull(retention)];
}

export function insertExecution(
  session: Session,
  run: number,
  execution: number,
  executionStart: { readonly workflow: string; readonly version: string | undefined; readonly seed: string; readonly input: Payload },
): void {
  const { workflow, version, seed, input } = executionStart;
  session.db.run("INSERT INTO holdfast_executions (run, execution, workflow, version, seed, input) VALUES (?, ?, ?, ?, ?, ?)", [
    run,
    execution,
    text(workflow),
    textOrNull(version),
    text(seed),
    payload(input),
  ]);
}

const NEXT = `UPDATE holdfast_runs SET workflow = ?, version = ?, lane = ?, available_at = ?, status = 'pending',
  execution = execution + 1, epoch = epoch + 1, attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL,
  finished_at = NULL, remove_at = NULL, expired = 0, resumable = 0, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL WHERE key = ?`;

interface NextExecution {
  readonly workflow: string;
  readonly version: string | undefined;
  readonly queue: string;
  readonly key?: string | undefined;
  readonly priority: number;
  readonly seed: string;
  readonly input: Payload;
  /** Undefined: it waits for another run (Q10). */
  readonly availableAt: number | undefined;
}

function beginExecution(session: Session, run: RunHead, next: NextExecution): void {
  const { workflow, version, availableAt } = next;
  const lane = arrivalLane(session, next);
  session.leasedRuns.forget(run.key);
  session.db.run(NEXT, [text(workflow), textOrNull(version), lane, numberOrNull(availableAt), run.key]);
  insertExecution(session, run.key, run.execution + 1, next);
  session.changed("work");
}

/** P10: as the code before it chose, on the same queue. */
export function continueRun(
  session: Session,
  run: RunHead,
  next: { input: Payload; version: string | undefined; seed: string },
  now: number,
): void {
  const [workflow, queue, priority, key] =
    session.db.get("SELECT workflow, queue, priority, work_key FROM holdfast_runs WHERE key = ?", [run.key]) ?? [];
  const lane = { workflow: readText(workflow), queue: readText(queue), priority: readNumber(priority), key: readOptionalText(key) };
  beginExecution(session, run, { ...lane, ...next, availableAt: now });
}

function createdAtOf({ db }: Session, key: number): number {
  return readNumber(db.get("SELECT created_at FROM holdfast_runs WHERE key = ?", [key])?.[0]);
}

const OPTIONS = `queue = ?, priority = ?, deadline_at = ?, attributes = ?, retry = ?, work_key = ?, schedule = ?, tick = ?, forked_from = ?,
  retention = ?`;
/** What a start says besides its input: the values of `OPTIONS`. */
function optionsOf(run: NewRun, now: number): Value[] {
  const { queue, priority, attributes, retry } = run;
  const deadline = numberOrNull(deadlineTime(run, now));
  return [text(queue), priority, deadline, JSON.stringify(attributes), jsonOrNull(retry), ...originOf(run)];
}

const BEGIN = `UPDATE holdfast_runs SET ${OPTIONS}, parent_id = ?, parent_execution = ?, parent_seq = ?, parent_close = ?, parent_announce = ?,
  first_start = ?, started_at = NULL WHERE key = ?`;

/** The next execution of a run that has closed, as a new start says. `firstAt`: when the first of the starts was made that it has taken over. */
export function beginStart(session: Session, run: RunHead, start: NewRun, at: number, firstAt: number, now: number): void {
  const { parent, attributes } = start;
  const awaited = findAwaited(session, run.id, start.after);
  beginExecution(session, run, { ...start, availableAt: awaited === undefined ? at : undefined });
  if (awaited !== undefined) waitFor(session, run.key, awaited, at);
  session.db.run(BEGIN, [
    ...optionsOf(start, now),
    textOrNull(parent?.runId),
    numberOrNull(parent?.execution),
    numberOrNull(parent?.seq),
    textOrNull(parent?.parentClose),
    parent === undefined ? null : Number(parent.announce),
    firstAt,
    run.key,
  ]);
  reindexAttributes(session.db, run.key, createdAtOf(session, run.key), attributes);
}

const PLACE = "SELECT coalesce(available_at, not_before), coalesce(first_start, created_at) FROM holdfast_runs WHERE key = ?";
const TAKE_OVER = `UPDATE holdfast_runs SET ${OPTIONS}, version = ?, lane = ?, available_at = ?, after_id = NULL, not_before = NULL WHERE key = ?`;
const RESTART = "UPDATE holdfast_executions SET version = ?, seed = ?, input = ? WHERE run = ? AND execution = ?";

/** Q9: a run that no worker has claimed takes this start. It stays the child of its parent, which waits for it, and keeps its place in the queue. */
export function takeOver(session: Session, run: RunHead, start: NewRun, now: number): void {
  const { db } = session;
  const { version, seed, input } = start;
  const [before, first] = db.get(PLACE, [run.key]) ?? [];
  const at = keepingPlace(startTime(start, now, readNumber(first)), readOptionalNumber(before), now);
  const awaited = findAwaited(session, run.id, start.after);
  db.run(TAKE_OVER, [
    ...optionsOf(start, now),
    textOrNull(version),
    arrivalLane(session, start),
    awaited === undefined ? at : null,
    run.key,
  ]);
  if (awaited !== undefined) waitFor(session, run.key, awaited, at);
  db.run(RESTART, [textOrNull(version), text(seed), payload(input), run.key, run.execution]);
  reindexAttributes(db, run.key, createdAtOf(session, run.key), start.attributes);
  session.changed("work");
}
