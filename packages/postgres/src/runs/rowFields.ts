// Turns and new runs as they are handed to the server.
// Owns: the short names of their fields, which `sql/001/commit_turns.sql` reads; which turns are usual ones; which other runs a turn may reach.
// Invariants: P8 (values as `columns.ts` writes them); ids that could not be found again with SQL are refused before anything is written.

import type { Turn } from "@holdfast/core";
import type { ExecutionStart, LateIf, NewRun, NewTask, RunClose, TurnCommit, UpdateOutcome } from "holdfast/store";
import { attributesOf, json, optionalJson, optionalPayload, optionalText, payload, text, time } from "../columns.ts";
import { laneOf, type NameIds, taskLaneOf } from "../nameIds.ts";
import { recordsOf, rowsOf, trimsOf } from "./history.ts";
import { attemptFields, type MessageFields, messageFields, waitingForOf } from "./runRow.ts";

// ── the usual turn ──

/** Records in, messages taken, state, attempts, outcomes of updates; it keeps its lease, parks or ends. Nothing that concerns another run or an index. */
export function isUsual(commit: TurnCommit): boolean {
  const { children, sends, tasks, cancelTasks, cancelChildren, attributes, attempt, turn, close, accepts, retention } = commit;
  return (
    accepts === undefined &&
    retention === undefined &&
    children === undefined &&
    sends === undefined &&
    tasks === undefined &&
    cancelTasks === undefined &&
    cancelChildren === undefined &&
    attributes === undefined &&
    attempt === undefined &&
    close?.status !== "continued" &&
    (turn === undefined || trimsOf(turn).length === 0)
  );
}

/** What the row of the run gets: t turns, n records, s status, k keeps its lease, wf waits, rb rollbacks, er error, bc code it is blocked by. */
export interface TurnFields {
  id: string;
  x: number;
  e: number;
  t: number;
  n: number;
  s: string;
  k: boolean;
  seen: number;
  wf: string | undefined;
  wake: number | undefined;
  rb: number | undefined;
  er: string | undefined;
  bc: string | undefined;
}
export function turnFields(commit: TurnCommit): TurnFields {
  const { turn, blocked } = commit;
  return {
    id: text(commit.runId),
    x: commit.execution,
    e: commit.epoch,
    t: turn === undefined ? 0 : 1,
    n: turn === undefined ? 0 : recordsOf(turn),
    s: commit.status,
    k: commit.lease === "keep",
    seen: commit.seen ?? 0,
    wf: waitingForOf(commit.waitingFor),
    wake: time(commit.wakeAt),
    rb: commit.rollbacks,
    er: blocked === undefined ? undefined : json(blocked.error),
    bc: optionalText(blocked?.code),
  };
}
/** What the row of turn `i` of a batch gets besides what it counts: s status, wf waits, wake, er error, bc code it is blocked by. */
export function rowFields(i: number, { status, waitingFor, wakeAt, blocked }: TurnCommit): object {
  const error = blocked === undefined ? undefined : json(blocked.error);
  return { i, s: status, wf: waitingForOf(waitingFor), wake: time(wakeAt), er: error, bc: optionalText(blocked?.code) };
}
/** The same of one that ends: c status it ends with, o output, er error, rs resumable; lc, ls: what makes it late (D9). */
export function endFields(i: number, close: RunClose, lateIf: LateIf | undefined): object {
  const { status, output, error, resumable, unconsumed } = close;
  const left = unconsumed === undefined ? {} : { uc: unconsumed.map(messageFields) };
  return { i, ...left, c: status, o: optionalPayload(output), er: optionalJson(error), rs: resumable, ...lateFields(lateIf) };
}
/**
 * M1: signals that come before this end matter: the run would have received them (D9), or gets them when it is resumed (D10). So it waits for
 * transactions of callers that have sent some and are still open.
 */
export function isHearing({ close, lateIf }: TurnCommit): boolean {
  if (close === undefined || close.status === "continued") return false;
  return (lateIf?.signals.length ?? 0) > 0 || (close.status === "failed" && close.resumable !== false);
}
/** D9: lc a cancellation makes the end late, ls so do signals of these names. */
function lateFields(lateIf: LateIf | undefined): object {
  return lateIf === undefined ? {} : { lc: lateIf.cancel, ls: lateIf.signals.map(text) };
}

// ── all others ──

/** A turn with whatever it may ask for, as `commit_turn_1` reads it. */
export function commitFields(commit: TurnCommit, names: NameIds, executionStart: ExecutionStart | undefined, reach: Reach): object {
  const { turn, close, sends, children, updates, tasks } = commit;
  const trims = turn === undefined ? [] : trimsOf(turn);
  const attributes = commit.attributes === undefined ? undefined : attributesOf(commit.attributes);
  reach.touched.push(text(commit.runId), ...(sends ?? []).map(({ runId }) => text(runId)));
  if (close !== undefined || commit.cancelChildren !== undefined) reach.ending.push(text(commit.runId));
  for (const { runId, message } of sends ?? []) if (message.job.type === "cancel") reach.ending.push(text(runId));
  return {
    ...turnFields(commit),
    ra: commit.attempt,
    rt: retentionOf(commit.retention),
    state: optionalPayload(commit.state),
    attributes: attributes === undefined ? undefined : Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null)),
    removed: Object.entries(attributes ?? {}).flatMap(([key, value]) => (value === null ? [key] : [])),
    turnIndex: turn?.index,
    trims: trims.length === 0 ? undefined : trims,
    records: turn === undefined ? undefined : rowsOf(turn, names.worker(commit.workerId), executionStart),
    attempts: listed(lastOfEach(commit.attempts ?? [], ({ seq, number }) => `${seq}.${number}`).map(attemptFields)),
    consumed: commit.consumed,
    accepts: commit.accepts?.map(text),
    updates: listed(firstOfEach(updates ?? []).map(updateFields)),
    tasks: listed((tasks ?? []).map((task) => taskFields(task, names))),
    cancelTasks: commit.cancelTasks,
    children: listed((children ?? []).map((child): NewRunFields => newRunFields(child, names, reach))),
    cancelChildren: commit.cancelChildren,
    sends: listed((sends ?? []).map(({ seq, runId, message }) => ({ ...messageFields(message), r: text(runId), seq }))),
    ...(close !== undefined && { close: closeFields(close), h: isHearing(commit), ...lateFields(commit.lateIf) }),
  };
}
function listed<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}
/** An update ends once: of several outcomes the first counts. */
export function firstOfEach(updates: NonNullable<TurnCommit["updates"]>): NonNullable<TurnCommit["updates"]> {
  return lastOfEach(updates.toReversed(), ({ id }) => id);
}
/** A statement can't write one row twice: of several the last counts. */
export function lastOfEach<T>(items: readonly T[], keyOf: (item: T) => string): T[] {
  return items.length < 2 ? [...items] : [...new Map(items.map((item) => [keyOf(item), item])).values()];
}
export function updateFields({ id, outcome }: { readonly id: string; readonly outcome: UpdateOutcome }): object {
  return outcome.status === "completed"
    ? { id: text(id), status: outcome.status, value: payload(outcome.value) }
    : { id: text(id), status: outcome.status, error: json(outcome.error) };
}
function taskFields(task: NewTask, names: NameIds): object {
  const lane = taskLaneOf(task);
  const { maxAttempts, initialInterval, backoff, maxInterval, jitter } = task.retry;
  return {
    seq: task.seq,
    activity: text(task.activity),
    queue: text(task.queue),
    location: text(task.location),
    input: payload(task.input),
    retry: json(task.retry),
    stc: time(task.startToClose),
    sc: time(task.scheduleToClose),
    ss: time(task.scheduleToStart),
    hb: time(task.heartbeat),
    // JSON has no Infinity; PostgreSQL reads it from text.
    ma: String(maxAttempts),
    ii: String(initialInterval),
    bo: backoff,
    mi: String(maxInterval),
    ji: jitter,
    at: task.attempt,
    lane: lane === undefined ? undefined : names.lane(lane),
    wk: optionalText(task.key),
    pr: task.priority,
  };
}
function closeFields(close: RunClose): object {
  const { status, output, error, resumable, next, unconsumed } = close;
  if (status === "continued" && next === undefined)
    throw new TypeError('A commit that closes a run as "continued" names its next execution.');
  return {
    status,
    output: optionalPayload(output),
    error: optionalJson(error),
    resumable,
    unconsumed: unconsumed?.map(messageFields),
    next:
      next === undefined
        ? undefined
        : {
            input: payload(next.input),
            version: optionalText(next.version),
            seed: text(next.seed),
            // Used keys or not: they have been delivered once.
            carried: next.carried.map(({ job }) => messageFields({ job })),
          },
  };
}

// ── new runs ──

/** Ids of runs that a call may write to, and of those that it may end: they are locked first, with all that their end may reach. */
export interface Reach {
  readonly touched: string[];
  readonly ending: string[];
}

interface Common {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly queue: string;
  readonly priority: number;
  readonly lane: number;
  readonly input: string;
  readonly seed: string;
  readonly startAt: number | undefined;
  readonly delay: number | undefined;
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly retry: string | undefined;
  readonly attributes: object;
  readonly conflict: NewRun["onConflict"];
}
export function commonFields(run: NewRun, names: NameIds): Common {
  return {
    id: text(run.id),
    workflow: text(run.workflow),
    version: optionalText(run.version),
    queue: text(run.queue),
    priority: run.priority,
    lane: names.lane(laneOf(run)),
    input: payload(run.input),
    seed: text(run.seed),
    startAt: time(run.startAt),
    delay: time(run.delay),
    deadline: time(run.deadline),
    deadlineAt: time(run.deadlineAt),
    retry: optionalJson(run.retry),
    attributes: attributesOf(run.attributes),
    conflict: run.onConflict,
  };
}

/** A run with whatever may come with it, as `create_run_1` reads it. */
export interface NewRunFields extends Common {
  readonly ikey: string | undefined;
  readonly maxDelay: number | undefined;
  readonly origin: object | undefined;
  readonly parent: object | undefined;
  readonly messages: readonly MessageFields[] | undefined;
  readonly first: object | undefined;
  readonly copied: object | undefined;
  readonly replacesOrphan: true | undefined;
}
export function newRunFields(run: NewRun, names: NameIds, reach: Reach): NewRunFields {
  const { idempotencyKey, parent, messages, first } = run;
  const id = text(run.id);
  reach.touched.push(id);
  if (parent?.announce === true) reach.touched.push(text(parent.runId));
  if (run.after !== undefined) reach.touched.push(text(run.after));
  if (run.onConflict === "replace") reach.ending.push(id);
  if (messages?.some(({ job }) => job.type === "cancel") === true) reach.ending.push(id);
  return {
    ...commonFields(run, names),
    ikey: optionalText(idempotencyKey),
    maxDelay: time(run.maxDelay),
    origin: originFields(run),
    parent: parent === undefined ? undefined : { ...parent, runId: text(parent.runId) },
    messages: messages === undefined || messages.length === 0 ? undefined : messages.map(messageFields),
    first:
      first === undefined
        ? undefined
        : {
            worker: text(first.workerId),
            lease: time(first.lease),
            commit: commitFields(first.commit, names, executionStartOf(run), reach),
          },
    copied: run.copied === undefined ? undefined : copiedFields(run.copied),
    replacesOrphan: run.replacesOrphan,
  };
}
/** Forever: -1. */
function retentionOf(retention: NewRun["retention"]): number | undefined {
  return retention === "forever" ? -1 : time(retention);
}

/** What most runs don't have; undefined if this one has none of it. */
function originFields({ key, schedule, tick, forkedFrom, after, retention }: NewRun): object | undefined {
  if ([key, schedule, tick, forkedFrom, after, retention].every((one) => one === undefined)) return undefined;
  return {
    key: optionalText(key),
    schedule: optionalText(schedule),
    tick: time(tick),
    from: optionalText(forkedFrom),
    after: optionalText(after),
    retention: retentionOf(retention),
  };
}
/** The history that a fork begins with, as `copy_history_1` reads it. */
function copiedFields(copied: NonNullable<NewRun["copied"]>): object {
  const { turns, attempts, attempt, rollbacks, state, keys } = copied;
  const workers = [...new Set(copied.workers.values())];
  const placeOf = ({ index }: Turn): number => workers.indexOf(copied.workers.get(index) ?? "") + 1;
  return {
    turns: (turns.at(-1)?.index ?? -1) + 1,
    length: turns.reduce((sum, turn) => sum + recordsOf(turn), 0),
    attempt,
    rollbacks,
    state: optionalPayload(state),
    keys: keys.map(text),
    records: JSON.stringify(turns.flatMap((turn) => rowsOf(turn, placeOf(turn), undefined))),
    attempts: attempts.map(({ task, ...row }) => ({ ...attemptFields(row), task })),
    workers: workers.map(text),
  };
}
export function executionStartOf({ id: runId, workflow, version, seed, input }: NewRun): ExecutionStart {
  return { runId, workflow, version, seed, input };
}
