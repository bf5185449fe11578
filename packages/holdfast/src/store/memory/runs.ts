// The runs of the memory store, their inboxes, and their ends.
// Owns: every kept run, the order of arrival, the index for lists, the links between parents and children, the changes that watchers will be called with.
// Invariants: M1 M3 (once for each key, in order), D9 (a message makes a parked run available), K5 (a closed run stays closed),
// K6 (children follow and parents are notified, in the same call), Q10 (so do runs that wait for it), K9 (no turn, no worker: canceled at once), P10 (the next execution).

import {
  DeadlineExceededError,
  jsonCodec,
  type Outcome,
  type Payload,
  RunClosedError,
  RunTerminatedError,
  recordCount,
  type SerializedError,
  serializeError,
} from "@holdfast/core";
import { canceledBy } from "@holdfast/host";
import type {
  AddressedMessage,
  AttemptRow,
  CopiedHistory,
  InboxJob,
  NewMessage,
  NewRun,
  ResumeResult,
  RunClose,
  SendResult,
  Store,
  UpdateOutcome,
  Wakeup,
  WakeupKind,
} from "../port.ts";
import { deadlineTime, keepingPlace, startTime } from "../startTimes.ts";
import { arrivingJob } from "../updates.ts";
import { refuseUpdates, rejectUpdate, settleUpdate } from "./keptUpdates.ts";
import { keyOf, signalKey, startKey, usedKey } from "./messageKeys.ts";
import { QueueSlots } from "./queueSlots.ts";
import { Retention } from "./retention.ts";
import { SearchIndex } from "./searchIndex.ts";
import { isOpen, type KeptRun, type NextStart, unbegun } from "./state.ts";
import { Tasks } from "./tasks.ts";
import { WaitingRuns } from "./waitingRuns.ts";

const NOTHING: Payload = jsonCodec.encode(undefined);

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type RejectedUpdate = Parameters<Store["rejectUpdates"]>[0][number];
type Beginning = Pick<NewRun, "input" | "version" | "seed">;
type CancelMessage = NewMessage & { readonly job: Extract<InboxJob, { type: "cancel" }> };

export class Runs {
  readonly #runs = new Map<string, KeptRun>();
  readonly #startKeys = new Map<string, KeptRun>();
  readonly #children = new Map<string, Set<KeptRun>>();
  /** Open runs whose deadline has not been delivered to them. */
  readonly deadlines = new Set<KeptRun>();
  readonly #waiting = new WaitingRuns();
  readonly retention = new Retention();
  readonly searchIndex = new SearchIndex();
  readonly slots = new QueueSlots({
    find: (id) => this.get(id),
    all: () => this.all(),
    childrenOf: (id) => this.childrenOf(id),
    endLease: (run) => this.#endLease(run),
    fileTasks: (queue) => this.tasks.fileAnew(queue),
    wake: (what) => this.wake(what),
  });
  readonly tasks = new Tasks(this.slots.table, {
    resolve: ({ runId, execution, seq }, outcome, now) => {
      const run = this.#runs.get(runId);
      if (run !== undefined && isOpen(run) && run.execution === execution) this.resolve(run, seq, outcome, now);
    },
    deadlineOf: (runId) => this.#runs.get(runId)?.deadlineAt,
    expire: (runId, now) => {
      const run = this.#runs.get(runId);
      if (run !== undefined && isOpen(run)) this.expire(run, now);
    },
  });
  #wakeup: Mutable<Wakeup> = {};
  #lastOrder = 0;
  #lastInbox = 0;

  // ── runs ──

  get(id: string): KeptRun | undefined {
    return this.#runs.get(id);
  }
  all(): Iterable<KeptRun> {
    return this.#runs.values();
  }
  /** M3: keys are kept by workflow. */
  startedUnder({ workflow, idempotencyKey: key }: NewRun): KeptRun | undefined {
    return key === undefined ? undefined : this.#startKeys.get(startKey(workflow, key));
  }
  keepStartKey(kept: KeptRun, { workflow, idempotencyKey: key }: NewRun): void {
    if (key === undefined) return;
    const name = startKey(workflow, key);
    this.#startKeys.set(name, kept);
    kept.startKeys ??= [];
    kept.startKeys.push(name);
  }
  insert(run: NewRun, now: number): KeptRun {
    const kept = unbegun(++this.#lastOrder, run, now);
    if (run.copied !== undefined) this.#copyHistory(kept, run.copied);
    this.#runs.set(kept.id, kept);
    this.searchIndex.add(kept);
    this.#settle(kept, run, now);
    return kept;
  }
  /** F1: a fork goes on from turns of its source. */
  #copyHistory(kept: KeptRun, { turns, attempts, workers, attempt, rollbacks, state, keys }: CopiedHistory): void {
    if (turns.length > 0) kept.status = "sleeping";
    kept.history = [...turns];
    kept.turns = (turns.at(-1)?.index ?? -1) + 1;
    kept.historyLength = turns.reduce((sum, turn) => sum + recordCount(turn), 0);
    kept.workers = new Map(workers);
    kept.attempt = attempt;
    kept.rollbacks = rollbacks;
    kept.state = state;
    if (keys.length > 0) kept.keys = new Map(keys.map((key) => [signalKey(key), { inboxId: 0, update: undefined, isKeyless: false }]));
    for (const { task, ...row } of attempts) {
      if (task === true) this.tasks.keepAttempt(kept.id, row);
      else kept.attempts.push(row);
    }
  }
  /** P10: a closed run begins again, as a new start says. */
  restart(kept: KeptRun, run: NewRun, now: number): void {
    kept.inbox = [];
    this.#nextExecution(kept, run);
    const { queue, priority } = run;
    Object.assign(kept, { queue, priority, startedAt: undefined, firstStart: now } satisfies Partial<KeptRun>);
    this.#settle(kept, run, now);
  }
  /** Q9: a run that no worker has claimed takes this start. It stays the child of its parent, which waits for it. */
  takeOver(kept: KeptRun, run: NewRun, now: number): void {
    const { version, input, seed, queue, priority } = run;
    const before = kept.availableAt ?? kept.notBefore;
    const startAt = keepingPlace(startTime(run, now, kept.firstStart), before, now);
    Object.assign(kept, { version, input, seed, queue, priority } satisfies Partial<KeptRun>);
    this.deadlines.delete(kept);
    this.#settle(kept, { ...run, parent: kept.parent, onConflict: "replace", startAt }, now);
  }
  /** Q9: the end of the execution before. What it left unconsumed moves on, and goes before what came later. */
  #beginNext(run: KeptRun, { start, firstAt, inbox }: NextStart, unconsumed: readonly NewMessage[], now: number): void {
    const waiting = [...run.inbox, ...inbox].sort((a, b) => a.id - b.id);
    run.next = undefined;
    this.restart(run, { ...start, startAt: Math.max(start.startAt ?? now, now) }, now);
    run.firstStart = firstAt;
    if (unconsumed.length === 0) run.inbox = waiting;
    else for (const { job } of [...unconsumed, ...waiting]) this.append(run, job);
  }
  /** Q9: a caller cancels or terminates the run, and with it what would have followed. */
  dropNext(run: KeptRun, status: "canceled" | "terminated", now: number): void {
    const { next } = run;
    run.next = undefined;
    const error = serializeError(new RunClosedError({ runId: run.id, status }));
    for (const { job } of next?.inbox ?? []) if (job.type === "update") this.settleUpdate(run, job.id, { status: "rejected", error }, now);
  }
  /** What a start says, for a new run and for one that begins again. */
  #settle(kept: KeptRun, run: NewRun, now: number): void {
    if (kept.parent !== undefined) this.#children.get(kept.parent.runId)?.delete(kept);
    kept.parent = run.parent;
    kept.isOrphan = false;
    kept.retry = run.retry;
    kept.key = run.key;
    kept.schedule = run.schedule;
    kept.tick = run.tick;
    kept.forkedFrom = run.forkedFrom;
    kept.retention = run.retention;
    kept.held = 0;
    this.setAttributes(kept, { ...run.attributes });
    kept.deadlineAt = deadlineTime(run, now);
    if (kept.deadlineAt !== undefined) this.deadlines.add(kept);
    this.keepStartKey(kept, run);
    if (run.parent !== undefined) {
      const siblings = this.#children.get(run.parent.runId);
      if (siblings === undefined) this.#children.set(run.parent.runId, new Set([kept]));
      else siblings.add(kept);
    }
    this.#place(kept, run.after, startTime(run, now));
  }
  /** It begins at this time, and not before the run has closed that it waits for (Q10). */
  #place(kept: KeptRun, after: string | undefined, at: number): void {
    const find = (id: string): KeptRun | undefined => this.#runs.get(id);
    this.#waiting.add(kept, after === undefined ? undefined : find(after), find);
    kept.notBefore = kept.after === undefined ? undefined : at;
    this.setAvailable(kept, kept.after === undefined ? at : undefined);
  }
  setAttributes(run: KeptRun, attributes: KeptRun["attributes"]): void {
    const before = run.attributes;
    run.attributes = attributes;
    this.searchIndex.changed(run, before);
  }
  /** B4: with everything that belongs to it. */
  remove(run: KeptRun): void {
    this.#runs.delete(run.id);
    this.searchIndex.delete(run);
    this.retention.forget(run);
    for (const key of run.startKeys ?? []) this.#startKeys.delete(key);
    this.tasks.forgetAttemptsOf(run.id);
    if (run.parent !== undefined) this.#children.get(run.parent.runId)?.delete(run);
    for (const child of this.childrenOf(run.id)) {
      child.parent = undefined; // another run may have the id soon
      child.isOrphan = true;
    }
    this.#children.delete(run.id);
  }
  childrenOf(runId: string): KeptRun[] {
    return [...(this.#children.get(runId) ?? [])];
  }

  // ── availability ──

  /** Q3: a worker has lost it, and the one that claims has no code for it. D7: that counts as a recovery. */
  #endLease(run: KeptRun): void {
    run.epoch++;
    run.recoveries++;
    run.workerId = undefined;
    if (run.status === "running") run.status = "sleeping";
    const now = run.availableAt ?? 0;
    run.attempts = run.attempts.map((row) => (row.status === "running" ? { ...row, status: "lost", endedAt: now } : row));
    this.setAvailable(run, now);
    this.wake("messages");
  }
  setAvailable(run: KeptRun, at: number | undefined): void {
    run.availableAt = at;
    this.slots.work.put(run.queue, run.workflow, run.version, run);
    if (at !== undefined && run.workerId === undefined) this.wake("work");
  }
  lend(run: KeptRun, lease: number, now: number): void {
    run.lease = lease;
    this.setAvailable(run, now + lease);
  }
  /** W3: the clock was set back, and no lease that is given now ends as late as these. Those of dead workers would last until then. */
  cutLeases(now: number): void {
    for (const run of this.#runs.values()) {
      const { availableAt = 0 } = run;
      if (availableAt <= now) continue;
      if (run.workerId !== undefined) {
        if (availableAt > now + run.lease * 1.1) this.setAvailable(run, now + run.lease);
      } else if (run.status === "pending" ? availableAt <= run.createdAt : run.status !== "blocked" && run.inbox.length > 0)
        this.setAvailable(run, now); // W1: it was due by the old time
    }
    this.tasks.cutLeases(now);
    this.slots.work.cutStarts(now);
  }
  availableNow(run: KeptRun, now: number): void {
    if (run.availableAt === undefined || run.availableAt > now) this.setAvailable(run, now);
    this.wake("work");
  }
  wake(what: WakeupKind): void {
    this.#wakeup[what] = true;
  }
  /** The changes for watchers since the last call. */
  takeWakeup(): Wakeup | undefined {
    const wakeup = this.#wakeup;
    if (wakeup.work !== true && wakeup.tasks !== true && wakeup.results !== true) return undefined;
    this.#wakeup = {};
    return wakeup;
  }

  // ── messages ──

  send({ runId, message, workflow }: AddressedMessage, now: number): SendResult {
    const run = this.#runs.get(runId);
    if (run === undefined) return { status: "not-found" };
    if (workflow !== undefined && run.workflow !== workflow) return { status: "other-workflow", workflow: run.workflow };
    const used = usedKey(run, message);
    if (used !== undefined) return { status: "duplicate", inboxId: used.inboxId };
    if (message.job.type === "cancel" && run.status === "canceled") return { status: "duplicate", inboxId: 0 };
    if (!isOpen(run)) return { status: "closed", runStatus: run.status };
    const { job } = message;
    if (job.type !== "cancel") return { status: "sent", inboxId: this.put(run, message, now) };
    if (run.next !== undefined) this.dropNext(run, "canceled", now);
    return { status: "sent", inboxId: this.cancel(run, { ...message, job }, now) };
  }
  /** Of an open run. One that no worker has begun with is canceled here and now (K9). */
  cancel(run: KeptRun, message: CancelMessage, now: number): number {
    const inboxId = this.put(run, message, now);
    if (run.turns === 0 && run.workerId === undefined) this.close(run, { status: "canceled", error: canceledBy(message.job.reason) }, now);
    return inboxId;
  }
  /** Into the inbox of an open run, once for each key. Wakes it if it is parked; one that has yet to start keeps its time, a blocked one stays so (V4). */
  put(run: KeptRun, message: NewMessage, now: number): number {
    const used = usedKey(run, message);
    if (used !== undefined) return used.inboxId;
    const inboxId = this.append(run, arrivingJob(message, now));
    this.#keepKey(run, message, inboxId);
    if (run.workerId === undefined && run.status !== "pending" && run.status !== "blocked") this.availableNow(run, now);
    return inboxId;
  }
  #keepKey(run: KeptRun, message: NewMessage, inboxId: number): void {
    const key = keyOf(message);
    if (key === undefined) return;
    run.keys ??= new Map();
    const update = message.job.type === "update" ? message.job.id : undefined;
    run.keys.set(key, { inboxId, update, isKeyless: message.idempotencyKey === undefined });
  }
  /** Q9: waits with the next start of the run, once for each key. */
  putAside(run: KeptRun, { inbox }: NextStart, message: NewMessage, now: number): number {
    const used = usedKey(run, message);
    if (used !== undefined) return used.inboxId;
    const id = ++this.#lastInbox;
    inbox.push({ id, job: arrivingJob(message, now) });
    this.#keepKey(run, message, id);
    return id;
  }
  /** Into the inbox, key or no key. */
  append(run: KeptRun, job: InboxJob): number {
    const id = ++this.#lastInbox;
    run.inbox.push({ id, job });
    this.wake("work");
    this.wake("messages");
    return id;
  }
  resolve(run: KeptRun, seq: number, outcome: Outcome, now: number): void {
    this.put(run, { job: { type: "resolve", seq, outcome } }, now);
  }

  /** D10, or another try for a blocked run. */
  resume(run: KeptRun, now: number): ResumeResult {
    if (isOpen(run) && run.status !== "blocked") return this.#wakeUp(run, now);
    if (run.status !== "blocked") {
      if (run.status !== "failed" || !run.resumable || run.turns === 0) return "not-resumable";
      run.status = "sleeping";
      run.attempt++;
      run.error = undefined;
      run.finishedAt = undefined;
      this.retention.forget(run);
      if (run.deadlineAt !== undefined) this.deadlines.add(run);
      this.slots.refileBelow(run);
      this.append(run, { type: "resume", attempt: run.attempt, voids: [] });
    }
    this.availableNow(run, now);
    return "resumed";
  }
  /** V3: an open run that waits. */
  #wakeUp(run: KeptRun, now: number): ResumeResult {
    if (run.status === "pending") return "not-resumable";
    if (run.workerId === undefined) this.availableNow(run, now);
    return "woken";
  }

  // ── ends ──

  close(run: KeptRun, close: RunClose, now: number): void {
    if (close.status === "continued" && close.next !== undefined) return this.#continue(run, close.next, now);
    run.status = close.status;
    run.output = close.output;
    run.error = close.error;
    run.resumable = close.status === "failed" && close.resumable !== false;
    run.finishedAt = now;
    this.retention.closed(run, now);
    run.recoveries = 0;
    this.slots.freed(run);
    run.held = 0;
    run.workerId = undefined;
    run.availableAt = undefined;
    run.waitingFor = [];
    run.epoch++; // K5: nothing that was computed before counts any more, even if the run is resumed
    refuseUpdates(run);
    run.inbox = run.resumable || run.next !== undefined ? run.inbox.filter(({ job }) => job.type === "signal") : []; // D10: it may be resumed
    this.deadlines.delete(run);
    this.tasks.removeOf(run.id, now);
    this.wake("results");
    this.tellParent(run, now);
    for (const child of this.childrenOf(run.id)) this.#followParent(child, run, now);
    this.slots.refileBelow(run);
    if (run.next !== undefined) this.#beginNext(run, run.next, close.unconsumed ?? [], now);
    else this.#releaseWaiting(run, now);
  }
  /** Q10: those that waited for it begin when their time has come, or wait for the run that it waited for itself. */
  #releaseWaiting(run: KeptRun, now: number): void {
    const { after } = run;
    this.#waiting.delete(run);
    for (const waiting of this.#waiting.of(run)) this.#place(waiting, after, Math.max(waiting.notBefore ?? now, now));
  }
  terminate(run: KeptRun, reason: string | undefined, now: number): void {
    const error = serializeError(new RunTerminatedError(reason === undefined ? { runId: run.id } : { runId: run.id, reason }));
    this.overrule(run, { status: "terminated", error }, now);
  }
  /** Although a worker may have it, which is notified at once that its claim is lost (D4). */
  overrule(run: KeptRun, close: RunClose, now: number): void {
    if (run.workerId !== undefined) this.wake("messages");
    this.close(run, close, now);
  }
  /** K7: whether its deadline has passed and was not handled yet. Rollbacks in progress are exempt. */
  isLate(run: KeptRun, now: number): boolean {
    return run.deadlineAt !== undefined && run.deadlineAt <= now && run.status !== "rolling_back" && this.deadlines.has(run);
  }
  /** K7: with nothing to undo it fails at once; otherwise it is claimed for its rollbacks, but a blocked one stays blocked. */
  expire(run: KeptRun, now: number): void {
    this.deadlines.delete(run);
    const { id: runId, deadlineAt: deadline, status } = run;
    if (status === "rolling_back") return; // nothing else is left to end
    const error = serializeError(new DeadlineExceededError({ runId, ...(deadline !== undefined && { deadline }) }));
    if (run.rollbacks === 0) return this.overrule(run, { status: "failed", error, resumable: false }, now);
    run.epoch++;
    run.workerId = undefined;
    if (status === "running") run.status = "sleeping";
    this.append(run, { type: "expire", error });
    if (status !== "blocked") this.setAvailable(run, Math.min(run.availableAt ?? now, now));
  }
  settleUpdate(run: KeptRun, id: string, outcome: UpdateOutcome, now: number): void {
    if (settleUpdate(run, id, outcome, now)) this.wake("results");
  }
  rejectUpdate(update: RejectedUpdate, now: number): UpdateOutcome | "waiting" | undefined {
    const settle = (run: KeptRun, outcome: UpdateOutcome): void => this.settleUpdate(run, update.id, outcome, now);
    return rejectUpdate(this.#runs.get(update.runId), update, now, settle);
  }
  tellParent(run: KeptRun, now: number): void {
    const { parent } = run;
    const waiting = parent === undefined ? undefined : this.#runs.get(parent.runId);
    if (parent === undefined || waiting === undefined || !isOpen(waiting) || waiting.execution !== parent.execution) return;
    this.resolve(waiting, parent.seq, outcomeOf(run), now);
  }
  /** D11: ends attempts whose time is up. Their workers are notified, and any worker with a free slot may claim the next attempt. */
  sweepTasks(now: number): void {
    if (this.tasks.sweep(now)) this.wake("tasks");
  }
  /** C7: their workers are notified at once. */
  giveUpTasks(run: KeptRun, now: number, seqs?: readonly number[]): void {
    if (this.tasks.removeOf(run.id, now, seqs)) this.wake("tasks");
  }
  #followParent(child: KeptRun, parent: KeptRun, now: number): void {
    if (!isOpen(child)) return;
    const reason = `its parent ${parent.id} has ended`;
    if (child.parent?.parentClose === "terminate") this.terminate(child, reason, now);
    else if (child.parent?.parentClose === "cancel") this.cancel(child, { job: { type: "cancel", reason } }, now);
  }
  #continue(run: KeptRun, next: NonNullable<RunClose["next"]>, now: number): void {
    const waiting = run.inbox.map(({ job }) => job);
    run.inbox = [];
    this.giveUpTasks(run, now);
    this.#nextExecution(run, next);
    for (const { job } of next.carried) this.append(run, job);
    for (const job of waiting) if (!isAnswer(job)) this.append(run, job);
    this.setAvailable(run, now);
  }
  #nextExecution(run: KeptRun, { input, version, seed }: Beginning): void {
    keepPast(run, this.tasks.attemptsOf(run.id));
    this.tasks.forgetAttemptsOf(run.id);
    run.input = input;
    run.version = version;
    run.seed = seed;
    run.execution++;
    run.epoch++;
    run.attempt = 1;
    run.status = "pending";
    run.workerId = undefined;
    run.output = undefined;
    run.error = undefined;
    run.finishedAt = undefined;
    this.retention.forget(run);
    run.waitingFor = [];
    run.blockedCode = undefined;
    run.rollbacks = 0;
    run.resumable = true;
    run.historyLength = 0;
    run.turns = 0;
    run.recoveries = 0;
    run.lastTime = run.history.at(-1)?.time ?? run.lastTime;
    run.history = [];
    run.workers = new Map();
    run.attempts = [];
  }
}

/** Executions that can be looked at once the next one has begun. */
const MOST_PAST = 10;
function keepPast(run: KeptRun, tasks: readonly AttemptRow[]): void {
  const { execution, workflow, version, input, history, workers } = run;
  const attempts = [...run.attempts, ...tasks.map((row) => ({ ...row, task: true }))];
  run.past = [...(run.past ?? []), { execution, workflow, version, input, history, workers, attempts }].slice(-MOST_PAST);
}

/** Answers are to operations of one execution; the next uses their numbers again (P10). */
const isAnswer = (job: InboxJob): boolean => job.type === "resolve" || job.type === "childStarted" || job.type === "resume";

/** The end of a child as its parent's operation sees it. */
function outcomeOf(run: KeptRun): Outcome {
  if (run.status === "completed") return { status: "completed", value: run.output ?? NOTHING };
  if (run.status === "canceled") return { status: "canceled" };
  const error: SerializedError = run.error ?? { name: "Error", message: `The child ${run.id} ended as ${run.status}.` };
  return { status: "failed", error };
}
