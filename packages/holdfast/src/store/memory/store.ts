// The store that forgets: runs in plain maps, for tests and for `memory:`.
// Owns: everything it keeps, for the life of the process.
// Invariants: those of the port. Every method does its work synchronously, so that each call is a transaction by itself (D2, D4, D9).

import {
  DeadlineExceededError,
  jsonCodec,
  type Outcome,
  type Payload,
  RunAlreadyExistsError,
  RunClosedError,
  RunNotFoundError,
  type RunStatus,
  RunTerminatedError,
  recordCount,
  type SerializedError,
  serializeError,
  type Turn,
  trimmed,
} from "@holdfast/core";
import type {
  AttemptRow, ClaimedRun, ClaimRequest, ClaimResult, CommitResult, CreateResult, InboxJob, InboxMessage, NewMessage, NewRun, RunClose, RunQuery,
  RunRow, SendResult, Store, TaskAnswer, TaskClaimRequest, TurnCommit, UpdateOutcome, Wakeup,
} from "../port.ts";
import { isOpen, type KeptRun, rowOf } from "./state.ts";
import { Tasks } from "./tasks.ts";

const ALL_STATUSES: readonly RunStatus[] = [
  "pending", "running", "sleeping", "blocked", "rolling_back", "completed", "failed", "canceled", "terminated", "continued",
];
const NOTHING: Payload = jsonCodec.encode(undefined);

export class MemoryStore implements Store {
  readonly #clock: () => number;
  readonly #runs = new Map<string, KeptRun>();
  readonly #startKeys = new Map<string, string>();
  readonly #children = new Map<string, Set<string>>();
  readonly #tasks = new Tasks((runId, execution, seq, outcome) => this.#resolveOperation(runId, execution, seq, outcome));
  readonly #watchers = new Set<(wakeup: Wakeup) => void>();
  #lastOrder = 0;
  #lastInbox = 0;
  #wakeup: { work?: boolean; tasks?: boolean; results?: boolean } = {};

  constructor(options: { clock?: () => number } = {}) {
    this.#clock = options.clock ?? Date.now;
  }
  async open(): Promise<void> {}
  async close(): Promise<void> {}
  async now(): Promise<number> {
    return this.#clock();
  }

  /** Does the work of one call, then tells who watches. */
  async #change<T>(work: (now: number) => T): Promise<T> {
    const result = work(this.#clock());
    const wakeup = this.#wakeup;
    if (wakeup.work === true || wakeup.tasks === true || wakeup.results === true) {
      this.#wakeup = {};
      queueMicrotask(() => {
        for (const watcher of this.#watchers) watcher(wakeup);
      });
    }
    return result;
  }
  watch(onWakeup: (wakeup: Wakeup) => void): () => void {
    this.#watchers.add(onWakeup);
    return () => this.#watchers.delete(onWakeup);
  }

  // ── creating ──

  create(runs: readonly NewRun[]): Promise<CreateResult[]> {
    return this.#change((now) => runs.map((run) => this.#create(run, now)));
  }
  #create(run: NewRun, now: number): CreateResult {
    const existing = this.#runs.get(run.id) ?? this.#runs.get(this.#startKeys.get(run.idempotencyKey ?? "\n") ?? "\n");
    if (existing !== undefined) return this.#existing(existing, run, now);
    const kept = this.#insert(run, now);
    const inboxIds = (run.messages ?? []).map((message) => this.#put(kept, message, now));
    if (run.first !== undefined) {
      kept.epoch = 1;
      kept.status = "running";
      kept.startedAt = now;
      kept.workerId = run.first.workerId;
      kept.availableAt = now + run.first.lease;
      this.#commit(run.first.commit, now);
    }
    this.#wakeup.work = true;
    return { status: "created", id: kept.id, execution: 1, inboxIds };
  }
  #existing(existing: KeptRun, run: NewRun, now: number): CreateResult {
    const { id, execution } = existing;
    const sameKey = run.idempotencyKey !== undefined && this.#startKeys.get(run.idempotencyKey) === id;
    if (!isOpen(existing) && run.onConflict === "restart-if-closed") return this.#restart(existing, run, now);
    if (run.onConflict === "reject" && !sameKey) return { status: "conflict", id, runStatus: existing.status };
    const messages = run.messages ?? [];
    if (messages.length > 0 && !isOpen(existing) && run.onConflict === "use-existing") return { status: "conflict", id, runStatus: existing.status };
    return { status: "existing", id, execution, inboxIds: sameKey ? [] : messages.map((message) => this.#put(existing, message, now)) };
  }
  #insert(run: NewRun, now: number): KeptRun {
    const { id, workflow, version, queue, priority, input, seed, retry, parent } = run;
    const kept: KeptRun = {
      order: ++this.#lastOrder, id, workflow, version, queue, priority, input, seed, retry, parent,
      status: "pending", output: undefined, error: undefined, state: undefined, waitingFor: [], execution: 1, attempt: 1,
      attributes: { ...run.attributes }, createdAt: now, startedAt: undefined,
      availableAt: run.startAt ?? now + (run.delay ?? 0),
      deadlineAt: run.deadlineAt ?? (run.deadline === undefined ? undefined : now + run.deadline),
      finishedAt: undefined, workerId: undefined, epoch: 0, historyLength: 0, turns: 0, recoveries: 0, rollbacks: 0, resumable: true,
      blockedCode: undefined, history: [], attempts: [], inbox: [], keys: new Map(), updates: new Map(),
    };
    this.#runs.set(id, kept);
    if (run.idempotencyKey !== undefined) this.#startKeys.set(run.idempotencyKey, id);
    if (parent !== undefined) {
      const children = this.#children.get(parent.runId) ?? new Set();
      children.add(id);
      this.#children.set(parent.runId, children);
    }
    return kept;
  }
  #restart(kept: KeptRun, run: NewRun, now: number): CreateResult {
    this.#nextExecution(kept, run.input, run.version, run.seed, run.startAt ?? now + (run.delay ?? 0));
    kept.retry = run.retry;
    kept.attributes = { ...run.attributes };
    kept.deadlineAt = run.deadlineAt ?? (run.deadline === undefined ? undefined : now + run.deadline);
    const inboxIds = (run.messages ?? []).map((message) => this.#put(kept, message, now));
    return { status: "created", id: kept.id, execution: kept.execution, inboxIds };
  }
  #nextExecution(kept: KeptRun, input: Payload, version: string | undefined, seed: string, availableAt: number): void {
    Object.assign(kept, {
      input, version, seed, availableAt, status: "pending", output: undefined, error: undefined, execution: kept.execution + 1, attempt: 1,
      finishedAt: undefined, workerId: undefined, historyLength: 0, turns: 0, recoveries: 0, rollbacks: 0, resumable: true, waitingFor: [],
      history: [], attempts: [],
    } satisfies Partial<KeptRun>);
    kept.epoch++;
    this.#wakeup.work = true;
  }

  // ── messages ──

  /** Into the inbox, once for each key. Wakes a parked run. */
  #put(run: KeptRun, message: NewMessage, now: number): number {
    const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
    const known = key === undefined ? undefined : run.keys.get(key);
    if (known !== undefined) return known;
    const id = ++this.#lastInbox;
    if (key !== undefined) run.keys.set(key, id);
    run.inbox.push({ id, job: message.job });
    if (run.workerId === undefined && run.turns + run.epoch > 0) this.#available(run, now);
    this.#wakeup.work = true;
    return id;
  }
  #available(run: KeptRun, now: number): void {
    run.availableAt = Math.min(run.availableAt ?? now, now);
    this.#wakeup.work = true;
  }
  send(messages: readonly { readonly runId: string; readonly message: NewMessage }[]): Promise<SendResult[]> {
    return this.#change((now) => messages.map(({ runId, message }) => this.#send(runId, message, now)));
  }
  #send(runId: string, message: NewMessage, now: number): SendResult {
    const run = this.#runs.get(runId);
    if (run === undefined) return { status: "not-found" };
    const key = message.job.type === "update" ? message.job.id : message.idempotencyKey;
    const known = key === undefined ? undefined : run.keys.get(key);
    if (known !== undefined) return { status: "duplicate", inboxId: known };
    if (!isOpen(run)) return { status: "closed", runStatus: run.status };
    if (message.job.type === "cancel" && run.turns === 0 && run.workerId === undefined) {
      this.#close(run, { status: "canceled" }, now); // K9
      return { status: "sent", inboxId: 0 };
    }
    return { status: "sent", inboxId: this.#put(run, message, now) };
  }
  /** The answer to an operation, if it still is one of the run's. */
  #resolveOperation(runId: string, execution: number, seq: number, outcome: Outcome): void {
    const run = this.#runs.get(runId);
    if (run === undefined || run.execution !== execution || !isOpen(run)) return;
    this.#put(run, { job: { type: "resolve", seq, outcome } }, this.#clock());
  }

  // ── claiming ──

  claim(request: ClaimRequest): Promise<ClaimResult> {
    return this.#change((now) => {
      const mine = [...this.#runs.values()].filter((run) => isOpen(run) && run.queue === request.queue && run.availableAt !== undefined && serves(request, run));
      const due = mine.filter((run) => (run.availableAt ?? 0) <= now);
      due.sort((a, b) => b.priority - a.priority || (a.availableAt ?? 0) - (b.availableAt ?? 0) || a.order - b.order);
      const taken = due.slice(0, request.limit);
      const runs = taken.map((run) => this.#claim(run, request, now));
      const later = mine.filter((run) => !taken.includes(run)).map((run) => run.availableAt ?? 0);
      return { now, runs, nextAt: later.length === 0 ? undefined : Math.min(...later) };
    });
  }
  #claim(run: KeptRun, request: ClaimRequest, now: number): ClaimedRun {
    const recovered = run.workerId !== undefined;
    if (recovered) {
      run.recoveries++;
      run.attempts = run.attempts.map((row) => (row.status === "running" ? { ...row, status: "lost", endedAt: now } : row));
    }
    run.epoch++;
    if (run.status !== "rolling_back") run.status = "running";
    run.workerId = request.workerId;
    run.availableAt = now + request.lease;
    run.startedAt ??= now;
    const cached = request.cached(run.id);
    const known = cached !== undefined && cached.execution === run.execution && cached.turns === run.turns;
    return { run: rowOf(run), turns: known ? undefined : [...run.history], attempts: [...run.attempts], inbox: [...run.inbox], recovered };
  }
  async renew(
    workerId: string,
    lease: number,
    claims: readonly { readonly runId: string; readonly epoch: number; readonly seen: number }[],
  ): Promise<{ held: boolean; inbox: InboxMessage[] }[]> {
    const now = this.#clock();
    return claims.map(({ runId, epoch, seen }) => {
      const run = this.#runs.get(runId);
      if (run === undefined || !isOpen(run) || run.epoch !== epoch || run.workerId !== workerId) return { held: false, inbox: [] };
      run.availableAt = now + lease;
      return { held: true, inbox: run.inbox.filter((message) => message.id > seen) };
    });
  }

  // ── turns ──

  commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    return this.#change((now) => turns.map((turn) => this.#commit(turn, now)));
  }
  #commit(commit: TurnCommit, now: number): CommitResult {
    const run = this.#runs.get(commit.runId);
    if (run === undefined || !isOpen(run) || run.epoch !== commit.epoch || run.execution !== commit.execution) return { status: "stale" };
    if (commit.turn !== undefined) this.#append(run, commit.turn);
    for (const row of commit.attempts ?? []) this.#upsertAttempt(run, row);
    const consumed = new Set(commit.consumed ?? []);
    if (consumed.size > 0) run.inbox = run.inbox.filter((message) => !consumed.has(message.id));
    run.status = commit.status;
    run.error = commit.blocked?.error;
    run.blockedCode = commit.blocked?.code;
    if (commit.attempt !== undefined) run.attempt = commit.attempt;
    if (commit.rollbacks !== undefined) run.rollbacks = commit.rollbacks;
    run.waitingFor = commit.waitingFor ?? [];
    if (commit.state !== undefined) run.state = commit.state;
    for (const [key, value] of Object.entries(commit.attributes ?? {})) {
      if (value === null) delete run.attributes[key];
      else run.attributes[key] = value;
    }
    for (const { id, outcome } of commit.updates ?? []) {
      run.updates.set(id, outcome);
      this.#wakeup.results = true;
    }
    for (const task of commit.tasks ?? []) {
      this.#tasks.add(run.id, run.execution, task, now);
      this.#wakeup.tasks = true;
    }
    if (commit.cancelTasks !== undefined) this.#tasks.removeOf(run.id, commit.cancelTasks);
    for (const child of commit.children ?? []) this.#createChild(run, child, now);
    for (const seq of commit.cancelChildren ?? []) this.#cancelChild(run, seq, now);
    for (const { seq, runId, message } of commit.sends ?? []) this.#sendFor(run, seq, runId, message, now);
    if (commit.close !== undefined) this.#close(run, commit.close, now);
    else if (commit.lease === "park") this.#park(run, commit, now);
    return { status: "committed", inbox: run.inbox.filter((message) => message.id > (commit.seen ?? 0)) };
  }
  #append(run: KeptRun, turn: Turn): void {
    run.history = trimmed([...run.history, turn]);
    run.turns++;
    run.historyLength = run.history.reduce((sum, one) => sum + recordCount(one), 0);
    run.recoveries = 0;
  }
  #upsertAttempt(run: KeptRun, row: AttemptRow): void {
    const at = run.attempts.findIndex((one) => one.seq === row.seq && one.number === row.number);
    if (at < 0) run.attempts.push(row);
    else run.attempts[at] = row;
  }
  #park(run: KeptRun, commit: TurnCommit, now: number): void {
    run.workerId = undefined;
    run.availableAt = commit.wakeAt;
    if (run.inbox.some((message) => message.id > (commit.seen ?? 0))) this.#available(run, now); // D9
    if (run.availableAt !== undefined) this.#wakeup.work = true;
  }
  #createChild(parent: KeptRun, child: NewRun, now: number): void {
    const result = this.#create(child, now);
    const seq = child.parent?.seq ?? 0;
    if (result.status === "conflict") {
      const error = serializeError(new RunAlreadyExistsError({ runId: child.id }));
      this.#put(parent, { job: { type: "resolve", seq, outcome: { status: "failed", error } } }, now);
    } else if (child.parent?.announce === true) this.#put(parent, { job: { type: "childStarted", seq, runId: child.id } }, now);
  }
  #cancelChild(run: KeptRun, seq: number, now: number): void {
    for (const id of this.#children.get(run.id) ?? []) {
      const { parent } = this.#runs.get(id) ?? {};
      if (parent?.seq === seq && parent.execution === run.execution) this.#send(id, { job: { type: "cancel", reason: "its parent gave it up" } }, now);
    }
  }
  #sendFor(run: KeptRun, seq: number, target: string, message: NewMessage, now: number): void {
    const result = this.#send(target, message, now);
    const error = (failure: Error): Outcome => ({ status: "failed", error: serializeError(failure) });
    let outcome: Outcome = { status: "completed", value: NOTHING };
    if (result.status === "not-found") outcome = error(new RunNotFoundError({ runId: target }));
    else if (result.status === "closed") outcome = error(new RunClosedError({ runId: target, status: result.runStatus }));
    this.#put(run, { job: { type: "resolve", seq, outcome } }, now);
  }

  // ── ends ──

  #close(run: KeptRun, close: RunClose, now: number): void {
    if (close.status === "continued" && close.next !== undefined) {
      const { input, version, seed, carried } = close.next;
      const waiting = run.inbox.map(({ job }) => job);
      run.inbox = [];
      this.#nextExecution(run, input, version, seed, now);
      for (const { job } of carried) this.#append1(run, job);
      for (const job of waiting) this.#append1(run, job);
      this.#tasks.removeOf(run.id);
      return;
    }
    run.status = close.status;
    run.output = close.output;
    run.error = close.error;
    run.resumable = close.status === "failed" && close.resumable !== false;
    run.finishedAt = now;
    run.workerId = undefined;
    run.availableAt = undefined;
    run.waitingFor = [];
    run.epoch++; // K5: nothing that was computed before counts any more
    const refusal = serializeError(new RunClosedError({ runId: run.id, status: run.status }));
    for (const { job } of run.inbox) if (job.type === "update" && !run.updates.has(job.id)) run.updates.set(job.id, { status: "rejected", error: refusal });
    run.inbox = [];
    this.#tasks.removeOf(run.id);
    this.#wakeup.results = true;
    this.#tellParent(run, now);
    for (const id of this.#children.get(run.id) ?? []) this.#followParent(id, run, now);
  }
  #append1(run: KeptRun, job: InboxJob): void {
    run.inbox.push({ id: ++this.#lastInbox, job });
  }
  #tellParent(run: KeptRun, now: number): void {
    const { parent } = run;
    const waiting = parent === undefined ? undefined : this.#runs.get(parent.runId);
    if (parent === undefined || waiting === undefined || !isOpen(waiting) || waiting.execution !== parent.execution) return;
    const error: SerializedError = run.error ?? { name: "Error", message: `The child ${run.id} ended as ${run.status}.` };
    const outcome: Outcome =
      run.status === "completed" ? { status: "completed", value: run.output ?? NOTHING } : run.status === "canceled" ? { status: "canceled" } : { status: "failed", error };
    this.#put(waiting, { job: { type: "resolve", seq: parent.seq, outcome } }, now);
  }
  #followParent(id: string, parent: KeptRun, now: number): void {
    const child = this.#runs.get(id);
    if (child === undefined || !isOpen(child)) return;
    if (child.parent?.parentClose === "terminate") this.#terminate(child, `its parent ${parent.id} has ended`, now);
    else if (child.parent?.parentClose === "cancel") this.#send(id, { job: { type: "cancel", reason: `its parent ${parent.id} has ended` } }, now);
  }
  terminate(runs: readonly { readonly runId: string; readonly reason: string | undefined }[]): Promise<SendResult[]> {
    return this.#change((now) =>
      runs.map(({ runId, reason }): SendResult => {
        const run = this.#runs.get(runId);
        if (run === undefined) return { status: "not-found" };
        if (!isOpen(run)) return { status: "closed", runStatus: run.status };
        this.#terminate(run, reason, now);
        return { status: "sent", inboxId: 0 };
      }),
    );
  }
  #terminate(run: KeptRun, reason: string | undefined, now: number): void {
    const error = serializeError(new RunTerminatedError(reason === undefined ? { runId: run.id } : { runId: run.id, reason }));
    this.#close(run, { status: "terminated", error }, now);
  }
  resume(runIds: readonly string[]): Promise<("resumed" | "not-found" | "not-resumable")[]> {
    return this.#change((now) =>
      runIds.map((id) => {
        const run = this.#runs.get(id);
        if (run === undefined) return "not-found";
        if (run.status === "blocked") {
          this.#available(run, now);
          return "resumed";
        }
        if (run.status !== "failed" || !run.resumable || run.turns === 0) return "not-resumable";
        run.status = "pending";
        run.attempt++;
        run.error = undefined;
        run.finishedAt = undefined;
        this.#append1(run, { type: "resume", attempt: run.attempt, voids: [] });
        this.#available(run, now);
        return "resumed";
      }),
    );
  }
  expire(): Promise<number> {
    return this.#change((now) => {
      this.#tasks.sweep(now);
      const late = [...this.#runs.values()].filter((run) => isOpen(run) && run.deadlineAt !== undefined && run.deadlineAt <= now);
      for (const run of late) {
        const error = serializeError(new DeadlineExceededError({ runId: run.id, deadline: run.deadlineAt ?? now }));
        run.deadlineAt = undefined;
        if (run.rollbacks === 0) this.#close(run, { status: "failed", error, resumable: false }, now);
        else {
          run.epoch++;
          run.workerId = undefined;
          this.#append1(run, { type: "expire", error });
          this.#available(run, now);
        }
      }
      return late.length;
    });
  }
  unblock(workflows: readonly { readonly workflow: string; readonly code: string }[]): Promise<number> {
    return this.#change((now) => {
      const codes = new Map(workflows.map(({ workflow, code }) => [workflow, code]));
      const blocked = [...this.#runs.values()].filter((run) => run.status === "blocked" && codes.has(run.workflow) && codes.get(run.workflow) !== run.blockedCode);
      for (const run of blocked) this.#available(run, now);
      return blocked.length;
    });
  }
  transact(claim: { readonly runId: string; readonly epoch: number; readonly seq: number }, body: (tx: unknown) => Payload): Promise<InboxMessage | "stale"> {
    return this.#change((now) => {
      const run = this.#runs.get(claim.runId);
      if (run === undefined || !isOpen(run) || run.epoch !== claim.epoch) return "stale";
      const value = body(undefined);
      const job: InboxJob = { type: "resolve", seq: claim.seq, outcome: { status: "completed", value } };
      return { id: this.#put(run, { job }, now), job };
    });
  }

  // ── activities ──

  claimTasks(request: TaskClaimRequest) {
    return this.#change((now) => {
      this.#tasks.sweep(now);
      return { now, ...this.#tasks.claim(request, now) };
    });
  }
  heartbeat(tasks: readonly { readonly id: number; readonly token: number; readonly lease: number; readonly details?: Payload | undefined }[]): Promise<boolean[]> {
    return this.#change((now) => {
      this.#tasks.sweep(now);
      return tasks.map((beat) => this.#tasks.heartbeat(beat, now));
    });
  }
  answerTasks(answers: readonly TaskAnswer[]): Promise<boolean[]> {
    return this.#change((now) => {
      this.#tasks.sweep(now);
      const results = answers.map((answer) => this.#tasks.answer(answer, now));
      this.#wakeup.tasks = true;
      return results;
    });
  }

  // ── reading ──

  async get(runIds: readonly string[]): Promise<(RunRow | undefined)[]> {
    return runIds.map((id) => {
      const run = this.#runs.get(id);
      return run === undefined ? undefined : rowOf(run);
    });
  }
  async history(runId: string): Promise<Turn[]> {
    return [...(this.#runs.get(runId)?.history ?? [])];
  }
  async attempts(runId: string): Promise<(AttemptRow & { task?: boolean })[]> {
    return [...(this.#runs.get(runId)?.attempts ?? []), ...this.#tasks.attemptsOf(runId).map((row) => ({ ...row, task: true }))];
  }
  async updates(keys: readonly { readonly runId: string; readonly id: string }[]): Promise<(UpdateOutcome | undefined)[]> {
    return keys.map(({ runId, id }) => this.#runs.get(runId)?.updates.get(id));
  }
  async list(query: RunQuery): Promise<{ runs: RunRow[]; cursor: string | undefined }> {
    const found = [...this.#runs.values()].filter((run) => matches(query, run)).sort((a, b) => b.createdAt - a.createdAt || b.order - a.order);
    const [at, order] = (query.cursor ?? "").split(".").map(Number);
    const after = query.cursor === undefined ? found : found.filter((run) => run.createdAt < (at ?? 0) || (run.createdAt === at && run.order < (order ?? 0)));
    const page = after.slice(0, query.limit);
    const last = page.at(-1);
    return { runs: page.map(rowOf), cursor: after.length > page.length && last !== undefined ? `${last.createdAt}.${last.order}` : undefined };
  }
  async count(query: Omit<RunQuery, "limit" | "cursor">): Promise<Record<RunStatus, number>> {
    const counts = Object.fromEntries(ALL_STATUSES.map((status) => [status, 0])) as Record<RunStatus, number>;
    for (const run of this.#runs.values()) if (matches(query, run)) counts[run.status]++;
    return counts;
  }
}

function serves(request: ClaimRequest, run: KeptRun): boolean {
  return request.serves.some(({ workflow, versions }) => workflow === run.workflow && (versions === "*" || versions.includes(run.version)));
}

function matches(query: Omit<RunQuery, "limit" | "cursor">, run: KeptRun): boolean {
  return (
    (query.status === undefined || query.status.includes(run.status)) &&
    (query.workflow === undefined || query.workflow === run.workflow) &&
    (query.queue === undefined || query.queue === run.queue) &&
    (query.parentId === undefined || query.parentId === run.parent?.runId) &&
    (query.since === undefined || run.createdAt >= query.since) &&
    (query.until === undefined || run.createdAt < query.until) &&
    Object.entries(query.attributes ?? {}).every(([key, value]) => run.attributes[key] === value)
  );
}

