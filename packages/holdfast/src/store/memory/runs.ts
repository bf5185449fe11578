// The runs of the memory store, their inboxes, and their ends.
// Owns: every kept run, the order of arrival, the links between parents and children, what watchers will be told.
// Invariants: M1 M3 (once for each key, in order), D9 (a message makes a parked run available), K5 (a closed run stays closed),
// K6 (children follow, parents are told, in the same call), K9 (no turn, no worker: canceled at once), P10 (the next execution).

import {
  DeadlineExceededError,
  jsonCodec,
  type Outcome,
  type Payload,
  RunClosedError,
  RunTerminatedError,
  type SerializedError,
  serializeError,
} from "@holdfast/core";
import { canceledBy } from "../canceled.ts";
import type {
  AddressedMessage,
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
import { arrivingJob, KEYLESS_OUTCOME_KEPT } from "../updates.ts";
import { ClaimQueue } from "./claimQueue.ts";
import { isOpen, type KeptRun, type UsedKey, unbegun } from "./state.ts";
import { Tasks } from "./tasks.ts";

const NOTHING: Payload = jsonCodec.encode(undefined);

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type RejectedUpdate = Parameters<Store["rejectUpdates"]>[0][number];
type Beginning = Pick<NewRun, "input" | "version" | "seed">;

export class Runs {
  readonly #runs = new Map<string, KeptRun>();
  readonly #startKeys = new Map<string, KeptRun>();
  readonly #children = new Map<string, Set<KeptRun>>();
  /** Open runs that have a deadline which nobody has told them of. */
  readonly deadlines = new Set<KeptRun>();
  readonly claimQueue = new ClaimQueue<KeptRun>();
  readonly tasks = new Tasks({
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
    if (key !== undefined) this.#startKeys.set(startKey(workflow, key), kept);
  }
  insert(run: NewRun, now: number): KeptRun {
    const kept = unbegun(++this.#lastOrder, run, now);
    this.#runs.set(kept.id, kept);
    this.#settle(kept, run, now);
    return kept;
  }
  /** P10: a closed run begins again, as a new start says. */
  restart(kept: KeptRun, run: NewRun, now: number): void {
    kept.inbox = [];
    this.#nextExecution(kept, run);
    const { queue, priority } = run;
    Object.assign(kept, { queue, priority, startedAt: undefined } satisfies Partial<KeptRun>);
    this.#settle(kept, run, now);
  }
  /** What a start says, for a new run and for one that begins again. */
  #settle(kept: KeptRun, run: NewRun, now: number): void {
    if (kept.parent !== undefined) this.#children.get(kept.parent.runId)?.delete(kept);
    kept.parent = run.parent;
    kept.retry = run.retry;
    kept.attributes = { ...run.attributes };
    kept.deadlineAt = run.deadlineAt ?? (run.deadline === undefined ? undefined : now + run.deadline);
    if (kept.deadlineAt !== undefined) this.deadlines.add(kept);
    this.keepStartKey(kept, run);
    if (run.parent !== undefined) {
      const siblings = this.#children.get(run.parent.runId);
      if (siblings === undefined) this.#children.set(run.parent.runId, new Set([kept]));
      else siblings.add(kept);
    }
    this.setAvailable(kept, run.startAt ?? now + (run.delay ?? 0));
  }
  childrenOf(runId: string): KeptRun[] {
    return [...(this.#children.get(runId) ?? [])];
  }

  // ── availability ──

  setAvailable(run: KeptRun, at: number | undefined): void {
    run.availableAt = at;
    this.claimQueue.put(run.queue, run.workflow, run.version, run);
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
  }
  availableNow(run: KeptRun, now: number): void {
    if (run.availableAt === undefined || run.availableAt > now) this.setAvailable(run, now);
    this.wake("work");
  }
  wake(what: WakeupKind): void {
    this.#wakeup[what] = true;
  }
  /** What watchers are to be told since this was last asked. */
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
    const inboxId = this.put(run, message, now);
    if (message.job.type === "cancel" && run.turns === 0 && run.workerId === undefined)
      this.close(run, { status: "canceled", error: canceledBy(message.job.reason) }, now); // K9
    return { status: "sent", inboxId };
  }
  /** Into the inbox of an open run, once for each key. Wakes it if it is parked; one that has yet to start keeps its time, a blocked one stays so (V4). */
  put(run: KeptRun, message: NewMessage, now: number): number {
    const used = usedKey(run, message);
    if (used !== undefined) return used.inboxId;
    const key = keyOf(message);
    const inboxId = this.append(run, arrivingJob(message, now));
    if (key !== undefined) {
      run.keys ??= new Map();
      const update = message.job.type === "update" ? message.job.id : undefined;
      run.keys.set(key, { inboxId, update, isKeyless: message.idempotencyKey === undefined });
    }
    if (run.workerId === undefined && run.status !== "pending" && run.status !== "blocked") this.availableNow(run, now);
    return inboxId;
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
      if (run.deadlineAt !== undefined) this.deadlines.add(run);
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
    run.recoveries = 0;
    run.workerId = undefined;
    run.availableAt = undefined;
    run.waitingFor = [];
    run.epoch++; // K5: nothing that was computed before counts any more, even if the run is resumed
    this.#refuseUpdates(run);
    run.inbox = run.resumable ? run.inbox.filter(({ job }) => job.type === "signal") : []; // D10: it may be resumed
    this.deadlines.delete(run);
    this.tasks.removeOf(run.id, now);
    this.wake("results");
    this.tellParent(run, now);
    for (const child of this.childrenOf(run.id)) this.#followParent(child, run, now);
  }
  terminate(run: KeptRun, reason: string | undefined, now: number): void {
    const error = serializeError(new RunTerminatedError(reason === undefined ? { runId: run.id } : { runId: run.id, reason }));
    this.overrule(run, { status: "terminated", error }, now);
  }
  /** Over the head of the worker that has it: it hears at once that its claim is lost (D4). */
  overrule(run: KeptRun, close: RunClose, now: number): void {
    if (run.workerId !== undefined) this.wake("messages");
    this.close(run, close, now);
  }
  /** K7: is its deadline over, and has nothing been done about it? Rollbacks under way are exempt. */
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
  /** M10: no caller waits for ever. */
  #refuseUpdates(run: KeptRun): void {
    const ids = [...(run.keys?.values() ?? [])].flatMap(({ update }) => update ?? []);
    const open = ids.filter((id) => run.updates?.has(id) !== true);
    if (open.length === 0) return;
    const error = serializeError(new RunClosedError({ runId: run.id, status: run.status }));
    const waiting = new Set(run.inbox.map(({ job }) => (job.type === "update" ? job.id : undefined)));
    run.updates ??= new Map();
    for (const id of open) run.updates.set(id, { status: waiting.has(id) ? "rejected" : "failed", error });
  }
  /** M10: the first outcome counts. Those without a key that have been kept for long enough go with it. */
  settleUpdate(run: KeptRun, id: string, outcome: UpdateOutcome, now: number): void {
    while (run.forgettable?.[0] !== undefined && run.forgettable[0].at <= now) this.#forgetUpdate(run, run.forgettable.shift()?.id ?? "");
    run.updates ??= new Map();
    if (run.updates.has(id)) return;
    run.updates.set(id, outcome);
    this.wake("results");
    if (run.keys?.get(updateKey(id))?.isKeyless !== true) return;
    run.forgettable ??= [];
    run.forgettable.push({ id, at: now + KEYLESS_OUTCOME_KEPT });
  }
  #forgetUpdate(run: KeptRun, id: string): void {
    run.updates?.delete(id);
    run.keys?.delete(updateKey(id));
  }
  /** M8: what has waited in vain for a receive. */
  rejectUpdate({ runId, id, error }: RejectedUpdate, now: number): UpdateOutcome | "waiting" | undefined {
    const run = this.#runs.get(runId);
    const waiting = run?.inbox.find(({ job }) => job.type === "update" && job.id === id);
    const known = run?.updates?.get(id);
    if (run === undefined || known !== undefined || waiting?.job.type !== "update" || waiting.job.acceptUntil === undefined) return known;
    if (waiting.job.acceptUntil > now) return "waiting";
    run.inbox = run.inbox.filter((message) => message !== waiting);
    const outcome: UpdateOutcome = { status: "rejected", error };
    this.settleUpdate(run, id, outcome, now);
    return outcome;
  }
  tellParent(run: KeptRun, now: number): void {
    const { parent } = run;
    const waiting = parent === undefined ? undefined : this.#runs.get(parent.runId);
    if (parent === undefined || waiting === undefined || !isOpen(waiting) || waiting.execution !== parent.execution) return;
    this.resolve(waiting, parent.seq, outcomeOf(run), now);
  }
  /** D11: attempts whose time is up; whoever is at one hears of it, and whoever has room may have the next. */
  sweepTasks(now: number): void {
    if (this.tasks.sweep(now)) this.wake("tasks");
  }
  /** C7: their workers are told at once. */
  giveUpTasks(run: KeptRun, now: number, seqs?: readonly number[]): void {
    if (this.tasks.removeOf(run.id, now, seqs)) this.wake("tasks");
  }
  #followParent(child: KeptRun, parent: KeptRun, now: number): void {
    if (!isOpen(child)) return;
    const reason = `its parent ${parent.id} has ended`;
    if (child.parent?.parentClose === "terminate") this.terminate(child, reason, now);
    else if (child.parent?.parentClose === "cancel") this.send({ runId: child.id, message: { job: { type: "cancel", reason } } }, now);
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

/** Answers are to operations of one execution; the next uses their numbers again (P10). */
const isAnswer = (job: InboxJob): boolean => job.type === "resolve" || job.type === "childStarted" || job.type === "resume";

/** No two pairs of texts have the same: the length of the first is part of it. */
const startKey = (workflow: string, key: string): string => `${workflow.length} ${workflow} ${key}`;

const updateKey = (id: string): string => `update ${id}`;

/** For updates the key is the update's id (M10): no other message's key is the same. */
function keyOf({ job, idempotencyKey }: NewMessage): string | undefined {
  if (job.type === "update") return updateKey(job.id);
  return idempotencyKey === undefined ? undefined : `key ${idempotencyKey}`;
}

function usedKey(run: KeptRun, message: NewMessage): UsedKey | undefined {
  const key = keyOf(message);
  return key === undefined ? undefined : run.keys?.get(key);
}

/** The end of a child as its parent's operation sees it. */
function outcomeOf(run: KeptRun): Outcome {
  if (run.status === "completed") return { status: "completed", value: run.output ?? NOTHING };
  if (run.status === "canceled") return { status: "canceled" };
  const error: SerializedError = run.error ?? { name: "Error", message: `The run ${run.id} ended as ${run.status}.` };
  return { status: "failed", error };
}
