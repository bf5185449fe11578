// New runs, and new executions of runs.
// Owns: what happens when a run of that id, or of that idempotency key, exists; the first values of every column.
// Invariants: P10 (executions are numbered, the inbox and the keys stay), M8 (messages that come with the start), W2 (not before its time).

import { jsonCodec, type Payload } from "@holdfast/core";
import type { CreateResult, NewRun } from "../port.ts";
import { deadlineTime, startTime } from "../startTimes.ts";
import { indexAttributes } from "./attributes.ts";
import { jsonOrNull, numberOrNull, readOptionalPayload, text, textOrNull } from "./columns.ts";
import { isPlain, recordsOf, turnsOf, waitingForOf } from "./commitKind.ts";
import { resume } from "./controlRuns.ts";
import { copyHistory } from "./copyHistory.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { beginStart, insertExecution, originOf, rememberStart } from "./executions.ts";
import { laneFor } from "./filedLanes.ts";
import { findByStartKey, findRun, type RunHead } from "./findRun.ts";
import { answerOperation, putMessage } from "./inbox.ts";
import { removeOrphan } from "./removeRuns.ts";
import type { Session } from "./session.ts";
import { supersede } from "./supersede.ts";
import { findAwaited, waitFor } from "./waitingRuns.ts";

const NOTHING: Payload = jsonCodec.encode(undefined);

/** Creates the run, finds it, or reports a conflict. With a `first` turn it is created leased, and `begin` commits the turn. */
export function createRun(session: Session, run: NewRun, now: number, begin?: (key: number) => void): CreateResult {
  const { db } = session;
  const byKey = run.idempotencyKey === undefined ? undefined : findByStartKey(db, run.workflow, run.idempotencyKey);
  if (byKey !== undefined) return meetExisting(session, byKey, run, true, now);
  const key = insertRun(session, isBegunByClaim(session, run, now) ? { ...run, first: undefined } : run, now);
  if (key === undefined) {
    if (run.replacesOrphan === true && removeOrphan(session, run)) return createRun(session, run, now, begin);
    return meetExisting(session, findRun(db, run.id), run, false, now);
  }
  rememberStart(session, key, run);
  if (run.copied !== undefined) copyHistory(session, key, run.copied);
  const { parent } = run;
  if (parent?.announce === true) announce(session, run.id, parent, now);
  const inboxIds = deliverAll(session, run.id, run.messages, now);
  if (run.first !== undefined && isBegunByClaim(session, run, now))
    return { status: "created", id: run.id, execution: 1, inboxIds, begun: false };
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
  const isSuperseding = run.onConflict === "replace" || run.onConflict === "debounce";
  if (!isOpen && (isSuperseding || run.onConflict === "restart-if-closed")) return restart(session, existing, run, now);
  if (run.onConflict === "reopen") return reopen(session, existing, run, now) ?? conflict;
  if (isOpen ? run.parent !== undefined : messages.length > 0) return conflict;
  rememberStart(session, existing.key, run);
  if (isSuperseding) return supersede(session, existing, run, now);
  return { status: "existing", id, execution, inboxIds: deliverAll(session, id, messages, now) };
}

const INSERT = `INSERT INTO holdfast_runs (id, workflow, version, status, queue, priority, lane, available_at, worker_id, lease, epoch, execution,
    attempt, turns, history_length, rollbacks, waiting_for, last_message, recoveries, recovered, created_at, started_at, deadline_at,
    expired, resumable, attributes, retry, parent_id, parent_execution, parent_seq, parent_close, parent_announce, work_key, schedule, tick,
    forked_from, retention)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO NOTHING`;

/** Undefined: there is one of that id. */
function insertRun(session: Session, run: NewRun, now: number): number | undefined {
  const { id, workflow, version, queue, priority, attributes, retry, parent, first } = run;
  const plain = first !== undefined && isPlain(first.commit) ? first.commit : undefined;
  const status = first === undefined ? "pending" : (plain?.status ?? "running");
  const awaited = findAwaited(session, id, run.after);
  const availableAt = first !== undefined ? now + first.lease : awaited !== undefined ? null : startTime(run, now);
  const key = session.db.insert(INSERT, [
    text(id),
    text(workflow),
    textOrNull(version),
    status,
    text(queue),
    priority,
    first === undefined ? laneFor(session, run, availableAt, now) : session.laneOf(queue, workflow, version, priority),
    availableAt,
    textOrNull(first?.workerId),
    numberOrNull(first?.lease),
    first === undefined ? 0 : 1,
    plain === undefined ? 0 : turnsOf(plain),
    plain === undefined ? 0 : recordsOf(plain),
    plain?.rollbacks ?? 0,
    plain === undefined ? null : waitingForOf(plain),
    now,
    first === undefined ? null : now,
    numberOrNull(deadlineTime(run, now)),
    JSON.stringify(attributes),
    jsonOrNull(retry),
    textOrNull(parent?.runId),
    numberOrNull(parent?.execution),
    numberOrNull(parent?.seq),
    textOrNull(parent?.parentClose),
    parent === undefined ? null : Number(parent.announce),
    ...originOf(run),
  ]);
  if (key === undefined) return undefined;
  insertExecution(session, key, 1, run);
  indexAttributes(session.db, key, now, attributes);
  if (awaited !== undefined) waitFor(session, key, awaited, startTime(run, now));
  if (first === undefined) session.changed("work");
  return key;
}

/** Q2, Q8: it has a key, or its queue limits or a pause. */
function isBegunByClaim(session: Session, { first, queue, key }: NewRun, now: number): boolean {
  if (first === undefined) return false;
  const { spec, pausedUntil } = session.filing(queue);
  return key !== undefined || spec !== undefined || pausedUntil > now;
}

/** Messages that come with a start. */
function deliverAll(session: Session, id: string, messages: NewRun["messages"], now: number): number[] {
  return (messages ?? []).map((message) => {
    const result = deliverMessage(session, { runId: id, message }, now);
    return "inboxId" in result ? result.inboxId : 0;
  });
}

/** Notifies the parent that its child exists, in the same transaction. */
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

function restart(session: Session, closed: RunHead, run: NewRun, now: number): CreateResult {
  const { parent } = run;
  session.db.run("DELETE FROM holdfast_inbox WHERE run = ?", [closed.key]);
  beginStart(session, closed, run, startTime(run, now), now, now);
  rememberStart(session, closed.key, run);
  if (parent?.announce === true) announce(session, run.id, parent, now);
  const inboxIds = deliverAll(session, closed.id, run.messages, now);
  return { status: "created", id: closed.id, execution: closed.execution + 1, inboxIds };
}
