// One turn of one run: all that it decided, or nothing.
// Owns: the fence, the order of effects, the next state of the run's row.
// Invariants: D2 (all or nothing, in the caller's transaction), D4 (a stale epoch writes nothing), D9 (parking and ending see every message),
// P10 (continuing). A turn of a step costs two statements, and writes only one of them: is the claim held, and its records.

import { jsonCodec, type Outcome, RunAlreadyExistsError, RunClosedError, RunNotFoundError, serializeError } from "@holdfast/core";
import { otherWorkflow } from "../conflicts.ts";
import type { CommitResult, NewRun, RunClose, SendResult, TurnCommit } from "../port.ts";
import type { ExecutionStart } from "../recordFields.ts";
import { deadlineTime } from "../startTimes.ts";
import { writeAttempt } from "./attempts.ts";
import { indexAttributes } from "./attributes.ts";
import { cancelRun, closeRun } from "./closeRun.ts";
import { jsonOrNull, numberOrNull, payload, readNumber, readOptionalText, readPayload, readText, textOrNull } from "./columns.ts";
import { isPlain, recordsOf, turnsOf, waitingForOf } from "./commitKind.ts";
import type { Connection } from "./connection.ts";
import { deliverMessage } from "./deliverMessage.ts";
import { continueRun } from "./executions.ts";
import { findOpenChildren, findRun, headOfFirst, isHeld, type RunHead } from "./findRun.ts";
import { carryOver, consume, holdsAwaited, putMessage, readInbox } from "./inbox.ts";
import { createRun } from "./insertRun.ts";
import type { LeasedRun } from "./leasedRunCache.ts";
import { appendTurn } from "./records.ts";
import { retentionOrNull } from "./runs.ts";
import type { Session } from "./session.ts";
import { addTask, dropTasks } from "./tasks.ts";
import { trimRecords } from "./trimRecords.ts";
import { hasOutcome, settleUpdates } from "./updates.ts";

/** `executionStart`: of a run that is created with this turn; otherwise it is looked up if it is needed. */
export function commitTurn(session: Session, commit: TurnCommit, now: number, executionStart?: ExecutionStart): CommitResult {
  return commitKeeping(session, commit, now, executionStart) ?? commitOther(session, commit, now, executionStart);
}

/** The turn that a run is created with. The row has what a plain one writes into it from the start. */
export function commitFirst(session: Session, key: number, run: NewRun, commit: TurnCommit, now: number): void {
  const { id: runId, workflow, version, seed, input } = run;
  const executionStart: ExecutionStart = { runId, workflow, version, seed, input };
  if (!isPlain(commit)) {
    commitOther(session, commit, now, executionStart);
    return;
  }
  session.leasedRuns.hold(headOfFirst(key, run, commit, deadlineTime(run, now)), {
    isBare: (run.messages ?? []).length === 0 && !hasOthers(commit),
  });
  writeEffects(session, { key, forgetAt: undefined }, commit, now, executionStart);
}

// ── a worker that goes on ──

/** The usual turn: the lease stays, the status too, the row of the run is as it was. Undefined: it is not one of these, or it is stale. */
function commitKeeping(
  session: Session,
  commit: TurnCommit,
  now: number,
  executionStart: ExecutionStart | undefined,
): CommitResult | undefined {
  const { execution, epoch, status, rollbacks, seen = 0 } = commit;
  if (!isPlain(commit) || recordsOf(commit) === 0 || mayTrim(commit) || commit.accepts !== undefined) return undefined;
  const run = heldRun(session, commit.runId);
  if (run === undefined || run.epoch !== epoch || run.execution !== execution) return undefined;
  if (run.status !== status || (rollbacks ?? run.rollbacks) !== run.rollbacks) return undefined;
  const { sent } = writeEffects(session, run, commit, now, executionStart ?? run.executionStart);
  run.turns += turnsOf(commit);
  run.historyLength += recordsOf(commit);
  run.executionStart = undefined;
  if (hasOthers(commit)) run.isBare = false;
  return committed(run.lastMessage > seen ? readInbox(session.db, run.key, seen) : [], sent);
}
function heldRun(session: Session, id: string): LeasedRun | undefined {
  const held = session.leasedRuns.find(id);
  if (held !== undefined) return held;
  const head = findRun(session.db, id);
  return head === undefined ? undefined : session.leasedRuns.hold(head);
}
/** Leaves something behind that has to be cleaned up when the run closes. */
function hasOthers({ tasks, children }: TurnCommit): boolean {
  return tasks !== undefined || children !== undefined;
}
function mayTrim({ turn }: TurnCommit): boolean {
  return turn?.commands.some((command) => command.type === "commit") === true;
}

function committed(
  inbox: ReturnType<typeof readInbox>,
  sent: readonly SendResult[] | undefined,
): Extract<CommitResult, { status: "committed" }> {
  return sent === undefined ? { status: "committed", inbox } : { status: "committed", inbox, sent };
}

// ── parking, closing, and whatever else changes ──

function commitOther(session: Session, commit: TurnCommit, now: number, executionStart: ExecutionStart | undefined): CommitResult {
  const { db } = session;
  const run = session.find(commit.runId);
  if (run === undefined || !isHeld(run, commit.epoch) || run.execution !== commit.execution) return { status: "stale" };
  if (isLate(db, run, commit)) return { status: "late", inbox: readInbox(db, run.key, commit.seen) };
  if (commit.accepts !== undefined && hasOutcome(db, run.key, commit.accepts)) return { status: "stale" }; // M8
  const { sent, forgotten } = writeEffects(session, run, commit, now, executionStart ?? session.leasedRuns.find(run.id)?.executionStart);
  const records = recordsOf(commit) - forgotten;
  if (commit.retention !== undefined)
    db.run("UPDATE holdfast_runs SET retention = ? WHERE key = ?", [retentionOrNull(commit.retention), run.key]);
  if (commit.close !== undefined) {
    end(session, run, commit, commit.close, records, now);
    const goesOn = run.hasNext && commit.close.status !== "continued";
    return goesOn ? { ...committed([], sent), goesOn } : committed([], sent);
  }
  updateRun(session, run, commit, records, now);
  const result = committed(commit.lease === "keep" ? readInbox(db, run.key, commit.seen) : [], sent);
  return mayTrim(commit) ? { ...result, historyLength: run.historyLength + records } : result;
}

/** D9: whether the inbox holds a message that the end should have waited for. A run that never had a message is not looked up. */
function isLate(db: Connection, { key, lastMessage }: RunHead, { close, lateIf, consumed }: TurnCommit): boolean {
  return close !== undefined && lateIf !== undefined && lastMessage > 0 && holdsAwaited(db, key, lateIf, consumed ?? []);
}

const SET = `SET status = ?1, waiting_for = ?2, error = ?3, blocked_code = ?4, attempt = coalesce(?5, attempt),
  rollbacks = coalesce(?6, rollbacks), attributes = coalesce(?7, attributes), turns = ?8, history_length = ?9,
  recoveries = CASE WHEN ?10 THEN 0 ELSE recoveries END`;
const STAY = `UPDATE holdfast_runs ${SET} WHERE key = ?11`;
// D9: what the worker was not given makes the run available at once.
const PARKED = `worker_id = NULL, available_at = CASE
    WHEN EXISTS (SELECT 1 FROM holdfast_inbox WHERE run = ?11 AND id > ?12) THEN min(coalesce(?13, ?14), ?14) ELSE ?13 END
  WHERE key = ?11 RETURNING available_at`;
const PARK = `UPDATE holdfast_runs ${SET}, ${PARKED}`;
// Q3: a claim that found its lease lost has sorted it into a lane, which goes when nothing in it is due: it waits with the arrivals again.
const PARK_FILED = `UPDATE holdfast_runs ${SET},
  lane = coalesce((SELECT -place FROM holdfast_filed_lanes f WHERE f.lane = -holdfast_runs.lane), lane), ${PARKED}`;

function updateRun(session: Session, run: RunHead, commit: TurnCommit, records: number, now: number): void {
  const { blocked, attempt, rollbacks } = commit;
  session.leasedRuns.forget(run.key);
  const set = [
    commit.status,
    waitingForOf(commit),
    jsonOrNull(blocked?.error),
    textOrNull(blocked?.code),
    numberOrNull(attempt),
    numberOrNull(rollbacks),
    mergedAttributes(session.db, run.key, commit.attributes),
    run.turns + turnsOf(commit),
    run.historyLength + records,
    turnsOf(commit),
    run.key,
  ];
  if (commit.lease === "keep") session.db.run(STAY, set);
  else {
    const [availableAt] =
      session.db.get(run.isFiled ? PARK_FILED : PARK, [...set, commit.seen ?? 0, numberOrNull(commit.wakeAt), now]) ?? [];
    if (availableAt !== null || run.isFiled) session.changed("work");
  }
}

/** What the column becomes; the rows that index it are written here. */
function mergedAttributes(db: Connection, run: number, changes: TurnCommit["attributes"]): string | null {
  if (changes === undefined) return null;
  const [found, createdAt] = db.get("SELECT attributes, created_at FROM holdfast_runs WHERE key = ?", [run]) ?? [];
  indexAttributes(db, run, readNumber(createdAt), changes);
  const merged = { ...(JSON.parse(readText(found)) as Record<string, unknown>), ...changes };
  return JSON.stringify(Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null)));
}

function end(session: Session, run: RunHead, commit: TurnCommit, close: RunClose, records: number, now: number): void {
  const attributes = mergedAttributes(session.db, run.key, commit.attributes);
  const { status, output, error, resumable, unconsumed } = close;
  if (status !== "continued")
    return closeRun(
      session,
      hasOthers(commit) ? { ...run, isBare: false } : run,
      { status, output, error, resumable, unconsumed, turns: turnsOf(commit), records, attributes },
      now,
    );
  if (close.next === undefined) throw new TypeError('A commit that closes a run as "continued" names its next execution.');
  if (attributes !== null) session.db.run("UPDATE holdfast_runs SET attributes = ? WHERE key = ?", [attributes, run.key]);
  dropTasks(session, run.key, now);
  continueRun(session, run, close.next, now);
  carryOver(session.db, run.key, close.next.carried.map(({ job }) => job), now); // biome-ignore format: one call
}

// ── what both have in common ──

interface Effects {
  readonly sent: SendResult[] | undefined;
  /** Records that a trim has deleted. */
  readonly forgotten: number;
}

function writeEffects(
  session: Session,
  run: Pick<RunHead, "key" | "forgetAt">,
  commit: TurnCommit,
  now: number,
  executionStart: ExecutionStart | undefined,
): Effects {
  const { db } = session;
  const { key } = run;
  const { execution, turn } = commit;
  let forgotten = 0;
  if (turn !== undefined) {
    const start = turn.jobs[0]?.type === "start" ? (executionStart ?? executionStartOf(db, key, execution)) : undefined;
    appendTurn(db, key, execution, session.workerKey(commit.workerId), turn, start);
    if (mayTrim(commit)) forgotten = trimRecords(db, key, execution, turn);
  }
  if (commit.state !== undefined) db.run("INSERT OR REPLACE INTO holdfast_states (run, state) VALUES (?, ?)", [key, payload(commit.state)]);
  for (const row of commit.attempts ?? []) writeAttempt(db, key, execution, row, "step");
  if (commit.consumed !== undefined) consume(db, key, commit.consumed);
  if (commit.updates !== undefined) settleUpdates(session, run, commit.updates, now);
  for (const task of commit.tasks ?? []) addTask(session, key, execution, task, now);
  if (commit.cancelTasks !== undefined) dropTasks(session, key, now, commit.cancelTasks);
  for (const child of commit.children ?? []) createChild(session, key, child, now);
  if (commit.cancelChildren !== undefined) cancelChildren(session, commit, commit.cancelChildren, now);
  const sent = commit.sends?.map(({ seq, runId, message }) =>
    sendFor(session, key, seq, runId, () => deliverMessage(session, { runId, message }, now), now),
  );
  return { sent, forgotten };
}

function executionStartOf(db: Connection, key: number, execution: number): ExecutionStart | undefined {
  const sql = `SELECT r.id, e.workflow, e.version, e.seed, e.input FROM holdfast_runs r JOIN holdfast_executions e ON e.run = r.key
    WHERE r.key = ? AND e.execution = ?`;
  const row = db.get(sql, [key, execution]);
  if (row === undefined) return undefined;
  const [id, workflow, version, seed, input] = row;
  return {
    runId: readText(id),
    workflow: readText(workflow),
    version: readOptionalText(version),
    seed: readText(seed),
    input: readPayload(input),
  };
}

function createChild(session: Session, parent: number, child: NewRun, now: number): void {
  const created = createRun(session, child, now);
  if (created.status !== "conflict") return;
  const error = serializeError(new RunAlreadyExistsError({ runId: child.id, workflow: otherWorkflow(created, child) }));
  putMessage(session, parent, { type: "resolve", seq: child.parent?.seq ?? 0, outcome: { status: "failed", error } }, now);
}

function cancelChildren(session: Session, { runId, execution }: TurnCommit, seqs: readonly number[], now: number): void {
  if (seqs.length === 0) return;
  for (const child of findOpenChildren(session.db, runId)) {
    if (child.parent?.execution !== execution || !seqs.includes(child.parent.seq)) continue;
    cancelRun(session, child, `its parent ${runId} canceled it`, now);
  }
}

/** M12: the sender gets the result in its own inbox. */
function sendFor(session: Session, sender: number, seq: number, runId: string, deliver: () => SendResult, now: number): SendResult {
  const result = deliver();
  const failed = (error: Error): Outcome => ({ status: "failed", error: serializeError(error) });
  let outcome: Outcome = { status: "completed", value: jsonCodec.encode(undefined) };
  if (result.status === "not-found") outcome = failed(new RunNotFoundError({ runId }));
  else if (result.status === "closed") outcome = failed(new RunClosedError({ runId, status: result.runStatus }));
  putMessage(session, sender, { type: "resolve", seq, outcome }, now);
  return result;
}
