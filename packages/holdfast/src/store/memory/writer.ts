// What creates runs and commits their turns, in memory.
// Owns: the fence around every commit.
// Invariants: D2 (all of a commit or nothing), D4 (a claim that is over writes nothing), D9 (parking and ending see the inbox), L4 (trimming).

import {
  jsonCodec,
  type Outcome,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  recordCount,
  serializeError,
  type Turn,
  trimmed,
} from "@holdfast/core";
import { otherWorkflow } from "../conflicts.ts";
import type { AttemptRow, CommitResult, CreateResult, NewMessage, NewRun, ParentLink, TurnCommit } from "../port.ts";
import { REPLACED, waitingStart } from "../startTimes.ts";
import type { Runs } from "./runs.ts";
import { isOpen, type KeptRun, type NextStart } from "./state.ts";

/** Whether a claim of this run still counts. */
export function holds(run: KeptRun | undefined, epoch: number): run is KeptRun {
  return run !== undefined && isOpen(run) && run.epoch === epoch && run.workerId !== undefined;
}

export class Writer {
  readonly #runs: Runs;

  constructor(runs: Runs) {
    this.#runs = runs;
  }

  // ── creating ──

  create(run: NewRun, now: number): CreateResult {
    const begun = this.#runs.startedUnder(run);
    if (begun !== undefined) return { status: "existing", id: begun.id, execution: begun.execution, inboxIds: [] };
    const existing = this.#runs.get(run.id);
    if (existing !== undefined && run.replacesOrphan === true && isReplaceable(existing, run)) this.#runs.remove(existing);
    else if (existing !== undefined) return this.#existing(existing, run, now);
    const kept = this.#runs.insert(run, now);
    this.#announce(run, now);
    const inboxIds = this.#putAll(kept, run.messages, now);
    // Q2, Q8: only a claim begins it.
    const isFiled =
      run.first !== undefined && (this.#runs.slots.work.isFiled(run) || this.#runs.slots.table.pauses(run.queue, now).queue !== undefined);
    if (isFiled) return { status: "created", id: kept.id, execution: 1, inboxIds, begun: false };
    if (run.first !== undefined) {
      kept.epoch = 1;
      kept.status = "running";
      kept.startedAt = now;
      kept.workerId = run.first.workerId;
      this.#runs.lend(kept, run.first.lease, now);
      this.commit(run.first.commit, now);
    }
    return { status: "created", id: kept.id, execution: 1, inboxIds };
  }
  #existing(existing: KeptRun, run: NewRun, now: number): CreateResult {
    const { id } = existing;
    const closed = !isOpen(existing);
    const conflict: CreateResult = { status: "conflict", id, runStatus: existing.status, workflow: existing.workflow };
    if (run.onConflict === "reject" || existing.workflow !== run.workflow) return conflict;
    if (run.onConflict === "reopen") return this.#reopen(existing, run, now) ?? conflict;
    if (!closed && run.parent !== undefined) return conflict;
    const isSuperseding = run.onConflict === "replace" || run.onConflict === "debounce";
    if (!closed && isSuperseding) return this.#supersede(existing, run, now);
    if (closed && (isSuperseding || run.onConflict === "restart-if-closed")) {
      this.#runs.restart(existing, run, now);
      this.#announce(run, now);
      return { status: "created", id, execution: existing.execution, inboxIds: this.#putAll(existing, run.messages, now) };
    }
    if (closed && (run.messages?.length ?? 0) > 0) return conflict;
    this.#runs.keepStartKey(existing, run);
    return { status: "existing", id, execution: existing.execution, inboxIds: this.#putAll(existing, run.messages, now) };
  }
  /** Q9: a newer start of an open run. */
  #supersede(existing: KeptRun, run: NewRun, now: number): CreateResult {
    const { id, startedAt, turns, execution } = existing;
    if (startedAt === undefined && turns === 0) {
      this.#runs.takeOver(existing, run, now);
      return { status: "existing", id, execution, inboxIds: this.#putAll(existing, run.messages, now) };
    }
    const { firstAt = now, isReplacing = false, inbox = [] } = existing.next ?? {};
    const isToCancel = run.onConflict === "replace" && !isReplacing;
    const next: NextStart = { start: waitingStart(run, now, firstAt), firstAt, isReplacing: isReplacing || isToCancel, inbox };
    existing.next = next;
    this.#runs.keepStartKey(existing, run);
    const inboxIds = (run.messages ?? []).map((message) => this.#runs.putAside(existing, next, message, now));
    if (isToCancel) this.#runs.cancel(existing, { job: { type: "cancel", reason: REPLACED } }, now);
    return { status: existing.execution > execution ? "created" : "existing", id, execution: existing.execution, inboxIds };
  }
  /** D10. Undefined: it is not the child that its parent asks for. */
  #reopen(child: KeptRun, run: NewRun, now: number): CreateResult | undefined {
    const { id, parent } = child;
    if (parent === undefined || run.parent === undefined || !isSameLink(parent, run.parent)) return undefined;
    this.#announce(run, now);
    const isFound = isOpen(child) || child.status === "completed";
    if (child.status === "completed") this.#runs.tellParent(child, now);
    else if (!isFound && this.#runs.resume(child, now) !== "resumed") this.#runs.restart(child, run, now);
    return { status: isFound ? "existing" : "created", id, execution: child.execution, inboxIds: [] };
  }
  /** Notifies the parent that its child exists, in the same call. */
  #announce({ id, parent }: NewRun, now: number): void {
    const waiting = parent?.announce === true ? this.#runs.get(parent.runId) : undefined;
    if (parent === undefined || waiting === undefined || !isOpen(waiting) || waiting.execution !== parent.execution) return;
    this.#runs.put(waiting, { job: { type: "childStarted", seq: parent.seq, runId: id } }, now);
  }
  #putAll(run: KeptRun, messages: readonly NewMessage[] | undefined, now: number): number[] {
    return (messages ?? []).map((message) => this.#runs.put(run, message, now));
  }

  // ── turns ──

  commit(commit: TurnCommit, now: number): CommitResult {
    const run = this.#runs.get(commit.runId);
    if (!holds(run, commit.epoch) || run.execution !== commit.execution) return { status: "stale" };
    if (isLate(run, commit)) return { status: "late", inbox: unseen(run, commit) };
    if (commit.accepts?.some((id) => run.updates?.has(id)) === true) return { status: "stale" }; // M8
    this.#write(run, commit, now);
    this.#carryOut(run, commit, now);
    const goesOn = commit.close !== undefined && commit.close.status !== "continued" && run.next !== undefined;
    if (commit.close !== undefined) this.#runs.close(run, commit.close, now);
    else if (commit.lease === "park") this.#park(run, commit, now);
    if (goesOn) return { status: "committed", inbox: [], goesOn };
    return { status: "committed", inbox: unseen(run, commit), historyLength: run.historyLength };
  }
  /** What the commit changes of the run itself. */
  #write(run: KeptRun, commit: TurnCommit, now: number): void {
    if (commit.turn !== undefined) this.#appendTurn(run, commit.turn, commit.workerId);
    for (const row of commit.attempts ?? []) upsertAttempt(run, row);
    const consumed = new Set(commit.consumed ?? []);
    if (consumed.size > 0) run.inbox = run.inbox.filter(({ id }) => !consumed.has(id));
    run.status = commit.status;
    run.error = commit.blocked?.error;
    run.blockedCode = commit.blocked?.code;
    run.waitingFor = [...(commit.waitingFor ?? [])];
    if (commit.attempt !== undefined) run.attempt = commit.attempt;
    if (commit.retention !== undefined) run.retention = commit.retention;
    if (commit.rollbacks !== undefined) run.rollbacks = commit.rollbacks;
    if (commit.state !== undefined) run.state = commit.state;
    if (commit.attributes !== undefined) this.#runs.setAttributes(run, mergedAttributes(run.attributes, commit.attributes));
    for (const { id, outcome } of commit.updates ?? []) this.#runs.settleUpdate(run, id, outcome, now);
    if (commit.status === "blocked") this.#runs.wake("results"); // V4: callers that wait for a result are notified
  }
  #appendTurn(run: KeptRun, turn: Turn, workerId: string): void {
    run.turns++;
    run.recoveries = 0;
    run.history.push(turn);
    run.workers.set(turn.index, workerId);
    run.historyLength += recordCount(turn);
    if (turn.commands.some((command) => command.type === "commit" && command.trim !== undefined)) this.#trim(run);
  }
  /** L4: with the records go the attempts of what they recorded. */
  #trim(run: KeptRun): void {
    const gone = new Set(openedIn(run.history));
    run.history = trimmed(run.history);
    run.historyLength = run.history.reduce((sum, turn) => sum + recordCount(turn), 0);
    run.workers = new Map(run.history.map(({ index }) => [index, run.workers.get(index) ?? ""]));
    for (const seq of openedIn(run.history)) gone.delete(seq);
    if (gone.size === 0) return;
    run.attempts = run.attempts.filter(({ seq }) => !gone.has(seq));
    this.#runs.tasks.forgetAttemptsOf(run.id, gone);
  }
  /** What the commit changes of other runs. */
  #carryOut(run: KeptRun, commit: TurnCommit, now: number): void {
    const runs = this.#runs;
    for (const task of commit.tasks ?? []) {
      runs.tasks.add(run.id, run.execution, task, now);
      runs.wake("tasks");
    }
    if (commit.cancelTasks !== undefined) runs.giveUpTasks(run, now, commit.cancelTasks);
    for (const child of commit.children ?? []) this.#createChild(run, child, now);
    for (const seq of commit.cancelChildren ?? []) this.#cancelChild(run, seq, now);
    for (const { seq, runId, message } of commit.sends ?? []) runs.resolve(run, seq, this.#deliver(runId, message, now), now);
  }
  #createChild(parent: KeptRun, child: NewRun, now: number): void {
    const created = this.create(child, now);
    if (created.status !== "conflict") return;
    const error = serializeError(new RunAlreadyExistsError({ runId: child.id, workflow: otherWorkflow(created, child) }));
    this.#runs.resolve(parent, child.parent?.seq ?? 0, { status: "failed", error }, now);
  }
  #cancelChild(run: KeptRun, seq: number, now: number): void {
    for (const child of this.#runs.childrenOf(run.id)) {
      if (child.parent?.seq !== seq || child.parent.execution !== run.execution) continue;
      if (isOpen(child)) this.#runs.cancel(child, { job: { type: "cancel", reason: `its parent ${run.id} canceled it` } }, now);
    }
  }
  #deliver(runId: string, message: NewMessage, now: number): Outcome {
    const result = this.#runs.send({ runId, message }, now);
    if (result.status === "not-found") return { status: "failed", error: serializeError(new RunNotFoundError({ runId })) };
    if (result.status === "closed")
      return { status: "failed", error: serializeError(new RunClosedError({ runId, status: result.runStatus })) };
    return { status: "completed", value: jsonCodec.encode(undefined) };
  }
  #park(run: KeptRun, commit: TurnCommit, now: number): void {
    run.workerId = undefined;
    this.#runs.slots.freed(run);
    this.#runs.setAvailable(run, commit.wakeAt);
    if (unseen(run, commit).length > 0) this.#runs.availableNow(run, now); // D9
  }
}

/** B4: a child that an earlier parent of the same id has left. */
const isReplaceable = (existing: KeptRun, { workflow }: NewRun): boolean =>
  existing.isOrphan && !isOpen(existing) && existing.workflow === workflow && existing.retention !== "forever";

const isSameLink = (a: ParentLink, b: ParentLink): boolean => a.runId === b.runId && a.execution === b.execution && a.seq === b.seq;

const unseen = (run: KeptRun, { seen = 0 }: TurnCommit) => run.inbox.filter(({ id }) => id > seen);

/** D9: whether the inbox holds a message that the end should have waited for. */
function isLate(run: KeptRun, { close, lateIf, consumed }: TurnCommit): boolean {
  if (close === undefined || lateIf === undefined || run.inbox.length === 0) return false;
  const taken = new Set(consumed);
  return run.inbox.some(({ id, job }) => {
    if (taken.has(id)) return false;
    return job.type === "cancel" ? lateIf.cancel : job.type === "signal" && lateIf.signals.includes(job.name);
  });
}

function mergedAttributes(before: KeptRun["attributes"], changes: NonNullable<TurnCommit["attributes"]>): KeptRun["attributes"] {
  const merged = Object.entries({ ...before, ...changes });
  return Object.fromEntries(merged.filter((entry): entry is [string, string | number | boolean] => entry[1] !== null));
}

const openedIn = (turns: readonly Turn[]): number[] =>
  turns.flatMap(({ commands }) => commands.flatMap((command) => ("n" in command ? [command.seq] : [])));

function upsertAttempt(run: KeptRun, row: AttemptRow): void {
  const at = run.attempts.findIndex(({ seq, number }) => seq === row.seq && number === row.number);
  if (at < 0) run.attempts.push(row);
  else run.attempts[at] = row;
}
