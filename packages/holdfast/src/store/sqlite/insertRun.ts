// New runs, and new executions of runs.
// Owns: what happens when a run of that id, or of that idempotency key, exists; the first values of every column.
// Invariants: P10 (executions are numbered, the inbox and the keys stay), M8 (messages that come with the start), W2 (not before its time).

import { jsonCodec, type Payload } from "@holdfast/core";
import type { CreateResult, NewRun } from "../port.ts";
import { jsonOrNull, numberOrNull, payload, readNumber, readOptionalPayload, readText, text, textOrNull } from "./columns.ts";
import { isPlain, recordsOf, turnsOf, waitingForOf } from "./commitKind.ts";
import { resume } from "./controlRuns.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { findByStartKey, findRun, type RunHead } from "./findRun.ts";
import { answerOperation, putMessage } from "./inbox.ts";
import type { Session } from "./session.ts";

const NOTHING: Payload = jsonCodec.encode(undefined);

/** Creates the run, finds it, or says that it is in the way. With a `first` turn it is created leased, and `begin` commits the turn. */
export function createRun(session: Session, run: NewRun, now: number, begin?: (key: number) => void): CreateResult {
  const { db } = session;
  const byKey = run.idempotencyKey === undefined ? undefined : findByStartKey(db, run.workflow, run.idempotencyKey);
  if (byKey !== undefined) return meetExisting(session, byKey, run, true, now);
  const key = insertRun(session, run, now);
  if (key === undefined) return meetExisting(session, findRun(db, run.id), run, false, now);
  rememberStart(session, key, run);
  const { parent } = run;
  if (parent?.announce === true) announce(session, run.id, parent, now);
  const inboxIds = deliverAll(session, run.id, run.messages, now);
  if (run.first !== undefined) begin?.(key);
  return { status: "created", id: run.id, execution: 1, inboxIds };
}

function meetExisting(session: Session, existing: RunHead | undefined, run: NewRun, isSameStart: boolean, now: number): CreateResult {
  if (existing === undefined) throw new TypeError(`The run ${run.id} is there and is not.`);
  const { id, execution, isOpen, status, workflow } = existing;
  const messages = run.messages ?? [];
  const conflict: CreateResult = { status: "conflict", id, runStatus: status, workflow };
  // The same call, made again: its messages are there.
  if (isSameStart) return { status: "existing", id, execution, inboxIds: [] };
  if (run.onConflict === "reject" || workflow !== run.workflow) return conflict;
  if (!isOpen && run.onConflict === "restart-if-closed") return restart(session, existing, run, now);
  if (run.onConflict === "reopen") return reopen(session, existing, run, now) ?? conflict;
  if (isOpen ? run.parent !== undefined : messages.length > 0) return conflict;
  rememberStart(session, existing.key, run);
  return { status: "existing", id, execution, inboxIds: deliverAll(session, id, messages, now) };
}

/** M3: for the life of the run, beside the keys that it has. */
function rememberStart({ db }: Session, key: number, { workflow, idempotencyKey }: NewRun): void {
  if (idempotencyKey !== undefined)
    db.run("INSERT INTO holdfast_start_keys (workflow, key, run) VALUES (?, ?, ?)", [text(workflow), text(idempotencyKey), key]);
}

const INSERT = `INSERT INTO holdfast_runs (id, workflow, version, status, queue, priority, lane, available_at, worker_id, lease, epoch, execution,
    attempt, turns, history_length, rollbacks, waiting_for, last_message, recoveries, recovered, created_at, started_at, deadline_at,
    expired, resumable, attributes, retry, parent_id, parent_execution, parent_seq, parent_close, parent_announce)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO NOTHING`;

/** Undefined: there is one of that id. */
function insertRun(session: Session, run: NewRun, now: number): number | undefined {
  const { id, workflow, version, queue, priority, attributes, retry, parent, first } = run;
  const plain = first !== undefined && isPlain(first.commit) ? first.commit : undefined;
  const status = first === undefined ? "pending" : (plain?.status ?? "running");
  const key = session.db.insert(INSERT, [
    text(id),
    text(workflow),
    textOrNull(version),
    status,
    text(queue),
    priority,
    session.laneOf(queue, workflow, version, priority),
    first === undefined ? startOf(run, now) : now + first.lease,
    textOrNull(first?.workerId),
    numberOrNull(first?.lease),
    first === undefined ? 0 : 1,
    plain === undefined ? 0 : turnsOf(plain),
    plain === undefined ? 0 : recordsOf(plain),
    plain?.rollbacks ?? 0,
    plain === undefined ? null : waitingForOf(plain),
    now,
    first === undefined ? null : now,
    numberOrNull(deadlineOf(run, now)),
    JSON.stringify(attributes),
    jsonOrNull(retry),
    textOrNull(parent?.runId),
    numberOrNull(parent?.execution),
    numberOrNull(parent?.seq),
    textOrNull(parent?.parentClose),
    parent === undefined ? null : Number(parent.announce),
  ]);
  if (key === undefined) return undefined;
  insertExecution(session, key, 1, run);
  if (first === undefined) session.changed("work");
  return key;
}

/** Messages that come with a start. */
function deliverAll(session: Session, id: string, messages: NewRun["messages"], now: number): number[] {
  return (messages ?? []).map((message) => {
    const result = deliverMessage(session, { runId: id, message }, now);
    return "inboxId" in result ? result.inboxId : 0;
  });
}

function insertExecution(
  session: Session,
  run: number,
  execution: number,
  birth: { readonly workflow: string; readonly version: string | undefined; readonly seed: string; readonly input: Payload },
): void {
  const { workflow, version, seed, input } = birth;
  session.db.run("INSERT INTO holdfast_executions (run, execution, workflow, version, seed, input) VALUES (?, ?, ?, ?, ?, ?)", [
    run,
    execution,
    text(workflow),
    textOrNull(version),
    text(seed),
    payload(input),
  ]);
}

function startOf(run: NewRun, now: number): number {
  return run.startAt ?? now + (run.delay ?? 0);
}
export function deadlineOf(run: NewRun, now: number): number | undefined {
  return run.deadlineAt ?? (run.deadline === undefined ? undefined : now + run.deadline);
}

/** The parent learns that its child exists, in the same transaction. */
function announce(session: Session, id: string, parent: NonNullable<NewRun["parent"]>, now: number): void {
  const run = session.find(parent.runId);
  if (run?.isOpen !== true || run.execution !== parent.execution) return;
  putMessage(session, run.key, { type: "childStarted", seq: parent.seq, runId: id }, now);
}

/** D10: the parent goes on after a failure, and with it this child of its. Undefined: it is not that child. */
function reopen(session: Session, child: RunHead, run: NewRun, now: number): CreateResult | undefined {
  const { id, execution, status, parent } = child;
  const isAsked = parent?.runId === run.parent?.runId && parent?.execution === run.parent?.execution && parent?.seq === run.parent?.seq;
  if (parent === undefined || !isAsked) return undefined;
  const found: CreateResult = { status: "existing", id, execution, inboxIds: [] };
  if (!child.isOpen && status !== "completed" && resume(session, id, now) !== "resumed") return restart(session, child, run, now);
  if (run.parent?.announce === true) announce(session, id, run.parent, now);
  if (child.isOpen) return found;
  if (status === "completed") {
    const [output = null] = session.db.get("SELECT output FROM holdfast_runs WHERE key = ?", [child.key]) ?? [];
    const value = readOptionalPayload(output) ?? NOTHING;
    answerOperation(session, parent.runId, parent.execution, parent.seq, { status: "completed", value }, now);
    return found;
  }
  return { ...found, status: "created" };
}

// ── executions ──

const NEXT = `UPDATE holdfast_runs SET workflow = ?, version = ?, lane = ?, available_at = ?, status = 'pending',
  execution = execution + 1, epoch = epoch + 1, attempt = 1, turns = 0, history_length = 0, rollbacks = 0, recoveries = 0, worker_id = NULL,
  finished_at = NULL, expired = 0, resumable = 0, waiting_for = NULL, blocked_code = NULL, error = NULL, output = NULL WHERE key = ?`;

export interface NextExecution {
  readonly workflow: string;
  readonly version: string | undefined;
  readonly queue: string;
  readonly priority: number;
  readonly seed: string;
  readonly input: Payload;
  readonly availableAt: number;
}

export function beginExecution(session: Session, run: RunHead, next: NextExecution): void {
  const { workflow, version, queue, priority, availableAt } = next;
  const lane = session.laneOf(queue, workflow, version, priority);
  session.leasedRuns.forget(run.key);
  session.db.run(NEXT, [text(workflow), textOrNull(version), lane, availableAt, run.key]);
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
  const [workflow, queue, priority] = session.db.get("SELECT workflow, queue, priority FROM holdfast_runs WHERE key = ?", [run.key]) ?? [];
  const lane = { workflow: readText(workflow), queue: readText(queue), priority: readNumber(priority) };
  beginExecution(session, run, { ...lane, ...next, availableAt: now });
}

function restart(session: Session, closed: RunHead, run: NewRun, now: number): CreateResult {
  const { id, queue, priority, attributes, retry, parent } = run;
  session.db.run("DELETE FROM holdfast_inbox WHERE run = ?", [closed.key]);
  beginExecution(session, closed, { ...run, availableAt: startOf(run, now) });
  session.db.run(
    `UPDATE holdfast_runs SET queue = ?, priority = ?, deadline_at = ?, attributes = ?, retry = ?, parent_id = ?, parent_execution = ?,
       parent_seq = ?, parent_close = ?, parent_announce = ?, started_at = NULL WHERE key = ?`,
    [
      text(queue),
      priority,
      numberOrNull(deadlineOf(run, now)),
      JSON.stringify(attributes),
      jsonOrNull(retry),
      textOrNull(parent?.runId),
      numberOrNull(parent?.execution),
      numberOrNull(parent?.seq),
      textOrNull(parent?.parentClose),
      parent === undefined ? null : Number(parent.announce),
      closed.key,
    ],
  );
  rememberStart(session, closed.key, run);
  if (parent?.announce === true) announce(session, id, parent, now);
  const inboxIds = deliverAll(session, closed.id, run.messages, now);
  return { status: "created", id: closed.id, execution: closed.execution + 1, inboxIds };
}
