// One run in the memory of a worker: its executor, its timers, its steps, and the way from jobs to commits and back.
// Owns: the pipeline of one run: inbox → jobs → activation → commit → effects → jobs.
// Invariants: D1 (effects after the commit), D2 (one commit a turn), D4 (a stale epoch ends it), D5 (parks only when no step is in
// flight), D7 D8 (attempts, retries as durable timers), D9 (parks with what it has seen), K8 (no timer early), V4 (blocked).

import {
  type Activation,
  type AnyWorkflow,
  type Codec,
  type Command,
  type Completion,
  DeadlineExceededError,
  Executor,
  formatLocation,
  HoldfastError,
  type Job,
  type Limits,
  type Logger,
  type OpeningCommand,
  type Outcome,
  type ReplayTurn,
  recordCount,
  replayView,
  type StartJob,
  type StepBody,
  serializeError,
  type Turn,
  type TurnWatch,
} from "@holdfast/core";
import type { AttemptRow, ClaimedRun, CommitResult, InboxMessage, RunRow, TurnCommit } from "../store/port.ts";
import { type AttemptEnd, Attempts, Recorded, retryAfter } from "./attempts.ts";
import type { Environment, Timer } from "./environment.ts";
import { unguardedCodec } from "./guard.ts";
import { type Draft, draftOf } from "./journal.ts";

export interface DriverHost {
  readonly workerId: string;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly turnTimeout: number;
  readonly maxRecoveries: number;
  /** Sees workflow code run. */
  readonly watch: TurnWatch | undefined;
  /** The host's estimate of the store's time. */
  now(): number;
  commit(turn: TurnCommit): Promise<CommitResult>;
  /** D6: a step in a transaction of the store. */
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: object): Promise<InboxMessage | "stale">;
  replaceStep(name: string): ((info: unknown) => unknown) | undefined;
  /** Refines a signal by the workflow's schema before it is delivered (M13). */
  checked(workflow: AnyWorkflow, job: Job): Promise<Job>;
  codeOf(workflow: AnyWorkflow): string;
  /** How often in a row runs were blocked here, for the backoff (V4). */
  readonly blocked: Map<string, number>;
  /** Turns that are being computed: their commits come soon. */
  computing: number;
  /** The driver is through with its claim: parked, closed, blocked or lost. */
  released(driver: Driver, how: "parked" | "closed" | "blocked" | "lost"): void;
}

/** What is known of an operation of the host's that is open. */
interface Open {
  readonly command: OpeningCommand;
  /** Time of the turn that opened it. */
  readonly time: number;
}

/** Jobs that a run takes at once, also while it waits to be tried again. */
const OVERRULING: ReadonlySet<string> = new Set(["cancel", "expire", "resume"]);
/** What steps are told that are still running when their run has ended; one for all, an error is dear to make. */
const RUN_OVER = new HoldfastError("The run is over.", { code: "HF_RUN_OVER" });
const TIMED: ReadonlySet<string> = new Set(["sleep", "signal", "receive", "condition"]);

export class Driver {
  readonly workflow: AnyWorkflow;
  readonly #host: DriverHost;
  #run: RunRow;
  #epoch: number;
  #executor: Executor;
  #attempts: Attempts;
  readonly #open = new Map<number, Open>();
  /** Due times of timers, and of retries (as `-seq`). */
  readonly #due = new Map<number, number>();
  /** The last attempt of each open step that has had more than one, or none in flight. */
  readonly #tried = new Map<number, number>();
  /** Open steps whose attempt in flight has a row, which its end has to be written to (D12). */
  readonly #listed = new Set<number>();
  /** Attempts before the failure that a resume has voided (D10). */
  readonly #forgiven = new Map<number, number>();
  #jobs: Job[] = [];
  #consumed: number[] = [];
  readonly #attemptRows: AttemptRow[] = [];
  /** Of completed attempts whose outcome waits for its turn. */
  readonly #settledRows: AttemptRow[] = [];
  readonly #retriesDue: number[] = [];
  #seen = 0;
  #deliveries: Promise<void> = Promise.resolve();
  #delivering = 0;
  #turns: number;
  #historyLength: number;
  #busy = false;
  #alarm: Timer | undefined;
  #closed = false;
  #released = false;
  #stopping = false;
  /** S1: it stays so until the run has ended, whatever its rollbacks wait for. */
  #rollingBack = false;
  /** When it is to be tried again as a whole (D10): until then no code runs. */
  #retryRunAt: number | undefined;

  constructor(workflow: AnyWorkflow, run: RunRow, host: DriverHost) {
    this.workflow = workflow;
    this.#host = host;
    this.#run = run;
    this.#epoch = run.epoch;
    this.#turns = run.turns;
    this.#historyLength = run.historyLength;
    this.#executor = this.#createExecutor();
    this.#attempts = this.#createAttempts();
  }

  get runId(): string {
    return this.#run.id;
  }
  get execution(): number {
    return this.#run.execution;
  }
  get epoch(): number {
    return this.#epoch;
  }
  get seen(): number {
    return this.#seen;
  }
  /** Is a turn, a commit or a step under way? */
  get busy(): boolean {
    return this.#busy || this.#delivering > 0 || this.#jobs.length > 0 || this.#attempts.size > 0;
  }
  /** Turns that are in memory, for a claim that needs no history. */
  get turns(): number {
    return this.#turns;
  }

  #createExecutor(): Executor {
    const { codec, logger, limits, environment, turnTimeout, watch } = this.#host;
    return new Executor({
      workflow: this.workflow,
      codec: unguardedCodec(codec),
      logger,
      limits,
      elapsed: environment.elapsed,
      turnTimeout,
      watch,
    });
  }
  #createAttempts(): Attempts {
    const { environment, codec } = this.#host;
    return new Attempts({
      environment,
      codec,
      encode: (value, what) => this.#executor.encode(value, what),
      now: () => this.#host.now(),
      onEnd: (end) => this.#attemptEnded(end),
      replace: (name) => this.#host.replaceStep(name),
    });
  }

  // ── beginning ──

  /** The first turn of a run that does not exist yet; undefined if it can't be computed (then let a claim do it). */
  async firstTurn(jobs: readonly Job[]): Promise<TurnCommit | undefined> {
    this.#busy = true;
    const activation: Activation = { time: this.#host.now(), jobs: [this.#startJob(), ...jobs], historyLength: 0 };
    await this.#freshMacrotask();
    const completion = await this.#executor.activate(activation);
    return completion.status === "ok" ? this.#draft(activation, completion) : undefined;
  }
  /** The run was created with its first turn. */
  begun(commit: TurnCommit): void {
    this.#busy = false;
    this.#committed(commit, { status: "committed", inbox: [] });
  }

  /** A claim: replays if there is history to replay, then works off what is there. */
  async claimed(claim: ClaimedRun): Promise<void> {
    this.#run = claim.run;
    this.#epoch = claim.run.epoch;
    this.#released = false;
    this.#historyLength = claim.run.historyLength;
    if (claim.recovered && claim.run.recoveries > this.#host.maxRecoveries) {
      const message = `Run ${this.runId} was recovered ${claim.run.recoveries} times without a commit: it seems to kill its workers. Mend it, then resume it.`;
      return this.#block(new HoldfastError(message, { code: "HF_TOO_MANY_RECOVERIES" }));
    }
    const retryRunAt = retryRunAtOf(claim.turns ?? []);
    if (retryRunAt !== undefined && retryRunAt > this.#host.now() && !claim.inbox.some(({ job }) => OVERRULING.has(job.type))) {
      // Messages came while it waits to be tried again: they wait with it.
      this.#retryRunAt = retryRunAt;
      this.#seen = Math.max(0, ...claim.inbox.map(({ id }) => id));
      return this.#write(this.#bare("sleeping"));
    }
    const resume = claim.inbox.find(({ job }) => job.type === "resume");
    // Before anything that arrives while it recovers: a cancellation that overtook the start would be lost.
    if (claim.run.turns === 0) this.#jobs.push(this.#startJob());
    if (claim.turns === undefined) this.#recount(claim);
    else {
      this.#busy = true; // what arrives meanwhile waits
      const failure = await this.#recover(claim, resume !== undefined);
      this.#busy = false;
      if (this.#released) return;
      if (failure !== undefined) return this.#block(failure);
    }
    await this.deliver(claim.inbox);
    this.#fireDue();
    if (this.#jobs.length === 0 && this.#executor.hasWork) return this.#activate();
    this.#pump();
  }
  #startJob(): StartJob {
    const { id, workflow, version, input, seed, execution, attempt, parent, retry, createdAt } = this.#run;
    return {
      type: "start",
      runId: id,
      workflow,
      version,
      input,
      seed,
      startedAt: createdAt,
      execution,
      attempt,
      parentId: parent?.runId,
      retry,
    };
  }

  async #recover(claim: ClaimedRun, resumed: boolean): Promise<Error | undefined> {
    const turns = claim.turns ?? [];
    this.#executor = this.#createExecutor();
    this.#attempts = this.#createAttempts();
    this.#open.clear();
    this.#due.clear();
    this.#tried.clear();
    this.#listed.clear();
    this.#forgiven.clear();
    this.#turns = claim.run.turns;
    this.#rollingBack = turns.some(({ commands }) => commands.some(({ type }) => type === "rollBack"));
    let view: ReplayTurn[] = replayView(turns);
    const fail = lastFailure(turns);
    if (fail !== undefined && (resumed || fail.retryAfter !== undefined)) {
      const job: Job = { type: "resume", attempt: claim.run.attempt, voids: fail.causes ?? [] };
      const turn: Turn = { index: claim.run.turns, time: 0, historyLength: 0, jobs: [job], commands: [] };
      view = replayView([...turns, turn]).slice(0, -1);
      this.#jobs.push(job);
    }
    await this.#freshMacrotask();
    if (this.#released) return undefined;
    const completion = await this.#executor.replay(view);
    if (completion.status === "failed") return completion.error;
    this.#forgive([...turns, { time: Number.MAX_SAFE_INTEGER, jobs: this.#jobs }], claim.attempts);
    this.#reopen(turns);
    this.#recount(claim);
    return undefined;
  }
  #forgive(turns: readonly { readonly time: number; readonly jobs: readonly Job[] }[], attempts: readonly AttemptRow[]): void {
    for (const { time, jobs } of turns) {
      for (const job of jobs) {
        if (job.type !== "resume") continue;
        for (const seq of job.voids) {
          const before = attempts.filter((row) => row.seq === seq && (row.endedAt ?? 0) <= time);
          this.#forgiven.set(seq, Math.max(1, ...before.map((row) => row.number)));
        }
      }
    }
  }
  /** What was open when the run was last in somebody's memory. */
  #reopen(turns: readonly Turn[]): void {
    const open = new Set(this.#executor.openOperations);
    for (const turn of turns) {
      for (const command of turn.commands) if ("n" in command && open.has(command.seq)) this.#opened(command, turn.time);
    }
  }
  /** Where the open steps stand: since this driver parked, others may have made attempts without a turn (D7, D8). */
  #recount({ attempts, inbox }: ClaimedRun): void {
    this.#retriesDue.length = 0;
    for (const { command, time } of this.#open.values()) {
      const { seq } = command;
      const last = attempts.filter((row) => row.seq === seq).at(-1);
      this.#tried.set(seq, last?.number ?? 1);
      this.#due.delete(-seq);
      // D6: a transaction that was recorded, by a worker that could not say so any more, has not been lost.
      if (inbox.some(({ job }) => job.type === "resolve" && job.seq === seq)) {
        if (last !== undefined) this.#attemptRows.push({ ...last, status: "completed" });
        continue;
      }
      if (last === undefined) {
        // Its first attempt was begun by whoever committed the command, and never came back (D7).
        this.#attemptRows.push({ seq, number: 1, status: "lost", startedAt: time, endedAt: this.#host.now(), workerId: "" });
      } else if (last.status === "running") {
        // W4: whoever made it gave the run back without waiting for it.
        this.#attemptRows.push({ ...last, status: "lost", endedAt: this.#host.now() });
      }
      this.#due.set(-seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);
    }
  }

  // ── jobs ──

  /** Messages from the inbox, in order; what was delivered before is passed over. */
  deliver(messages: readonly InboxMessage[]): Promise<void> {
    this.#delivering++;
    // One batch after the other: a schema that takes its time lets nobody overtake (M2), and no turn or parking begins meanwhile (D9).
    this.#deliveries = this.#deliveries.then(() => this.#deliver(messages)).finally(() => this.#delivering--);
    return this.#deliveries;
  }
  async #deliver(messages: readonly InboxMessage[]): Promise<void> {
    for (const message of messages) {
      if (message.id <= this.#seen) continue;
      this.#seen = message.id;
      const job = message.job.type === "resume" ? undefined : await this.#host.checked(this.workflow, message.job);
      this.#consumed.push(message.id);
      if (job !== undefined) this.#jobs.push(job); // of a resume the host has its own, with what it voids
    }
  }
  async receive(messages: readonly InboxMessage[]): Promise<void> {
    await this.deliver(messages);
    this.#pump();
  }
  #fireDue(): void {
    const now = this.#host.now();
    for (const [key, due] of this.#due) {
      if (due > now) continue;
      this.#due.delete(key);
      if (key < 0) this.#retriesDue.push(-key);
      else this.#jobs.push({ type: "fire", seq: key });
    }
  }
  #setAlarm(): void {
    this.#alarm?.cancel();
    this.#alarm = undefined;
    const next = this.#nextDue();
    if (next === undefined || this.#released) return;
    this.#alarm = this.#host.environment.after(next - this.#host.now(), () => {
      this.#fireDue();
      this.#pump();
      this.#setAlarm();
    });
  }
  #nextDue(): number | undefined {
    let next: number | undefined;
    for (const due of this.#due.values()) if (next === undefined || due < next) next = due;
    return next;
  }

  // ── the pipeline ──

  /** Does the next thing, if there is one: a turn, a commit of attempts, or parking. */
  #pump(): void {
    if (this.#busy || this.#delivering > 0 || this.#released || this.#closed) return;
    if (this.#stopping && this.#attempts.size > 0) return; // W4: they may finish first
    if (this.#jobs.length > 0) void this.#activate();
    else if (this.#retriesDue.length > 0 || this.#attemptRows.length > 0) void this.#write(this.#bare("running"));
    else if (this.#attempts.size === 0) void this.#write(this.#bare("sleeping"));
  }
  async #activate(): Promise<void> {
    this.#busy = true;
    this.#host.computing++;
    let computed: { activation: Activation; completion: Completion; consumed: number[] } | undefined;
    try {
      await this.#freshMacrotask();
      computed = this.#released ? undefined : await this.#compute();
    } finally {
      this.#host.computing--;
    }
    if (computed === undefined) return;
    const { activation, completion, consumed } = computed;
    if (this.#released) return;
    if (completion.status === "failed") return this.#block(completion.error);
    this.#busy = false;
    const draft = this.#draft(activation, completion);
    if (consumed.length > 0) draft.consumed = consumed;
    await this.#write(draft);
  }

  async #compute(): Promise<{ activation: Activation; completion: Completion; consumed: number[] }> {
    // What has become ready by now shares the turn: steps that end together cost one commit.
    const jobs = this.#jobs;
    this.#jobs = [];
    const consumed = this.#consumed; // M7: what arrives during the turn is consumed by the next
    this.#consumed = [];
    const activation: Activation = { time: this.#host.now(), jobs, historyLength: this.#historyLength };
    return { activation, completion: await this.#executor.activate(activation), consumed };
  }
  /** X8: no foreign continuation runs in the microtasks of a turn, and nothing else is taken for workflow code (the guard). */
  #freshMacrotask(): Promise<void> {
    return new Promise((resolve) => this.#host.environment.soon(resolve));
  }

  /** A commit without a turn: attempts, or parking. */
  #bare(given: "running" | "sleeping" | "blocked"): Draft {
    const { runId, execution } = this;
    const status = this.#rollingBack && given !== "blocked" ? "rolling_back" : given;
    return { runId, execution, epoch: this.#epoch, workerId: this.#host.workerId, status, lease: "keep" };
  }
  #draft(activation: Activation, completion: Completion & { status: "ok" }): Draft {
    const { environment, workerId } = this.#host;
    const draft = draftOf(
      {
        runId: this.runId,
        execution: this.execution,
        epoch: this.#epoch,
        workerId,
        queue: this.#run.queue,
        turns: this.#turns,
        historyLength: this.#historyLength,
        deadlineAt: this.#run.deadlineAt,
        seed: () => environment.uuid(),
        childWorkflow: (seq) => this.#executor.childWorkflow(seq),
      },
      activation,
      completion,
    );
    for (const job of activation.jobs) if (job.type === "resolve" || job.type === "fire") this.#settled(job.seq);
    for (const command of completion.commands) this.#apply(command, activation.time);
    const fail = completion.commands.find((command) => command.type === "fail");
    if (fail?.type === "fail" && fail.retryAfter !== undefined && draft.close === undefined) {
      this.#retryRunAt = activation.time + fail.retryAfter;
      this.#seen = 0; // what came meanwhile is the next claim's
      draft.attempt = this.#run.attempt + 1;
      draft.status = "sleeping";
      this.#due.clear();
    }
    this.#rollingBack ||= draft.status === "rolling_back";
    if (this.#rollingBack && draft.close === undefined) draft.status = "rolling_back";
    draft.rollbacks = this.#executor.rollbacks;
    return draft;
  }
  /** Keeps track of what the commands open, settle and give up; effects wait for the commit. */
  #apply(command: Command, time: number): void {
    if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) this.#settled(command.seq);
    else if ("n" in command) this.#opened(command, time);
  }
  #opened(command: OpeningCommand, time: number): void {
    if (command.type === "sleep") this.#due.set(command.seq, command.until ?? time + (command.duration ?? 0));
    else if (TIMED.has(command.type) && "timeout" in command && command.timeout !== undefined)
      this.#due.set(command.seq, time + command.timeout);
    if (isStep(command)) this.#open.set(command.seq, { command, time });
  }
  #settled(seq: number): void {
    this.#open.delete(seq);
    this.#due.delete(seq);
    this.#due.delete(-seq);
    this.#tried.delete(seq);
    this.#listed.delete(seq);
    this.#forgiven.delete(seq);
  }

  async #write(draft: Draft): Promise<void> {
    this.#busy = true;
    const starting: { seq: number; number: number }[] = [];
    const halting = this.#stopping && this.#attempts.size === 0;
    for (const seq of halting ? [] : this.#retriesDue.splice(0)) {
      const number = (this.#tried.get(seq) ?? 0) + 1;
      if (!this.#open.has(seq)) continue;
      if (this.#exhausted(seq, number)) continue;
      this.#tried.set(seq, number);
      this.#listed.add(seq);
      starting.push({ seq, number });
      this.#attemptRows.push({ seq, number, status: "running", startedAt: this.#host.now(), workerId: this.#host.workerId });
    }
    const fresh = draft.turn?.commands.filter((command): command is OpeningCommand => "n" in command && isStep(command)) ?? [];
    const working =
      fresh.length > 0 ||
      starting.length > 0 ||
      this.#retriesDue.length > 0 || // W4: halting, it leaves them to others, at once
      this.#attempts.size > 0 ||
      this.#jobs.length > 0 ||
      this.#delivering > 0;
    if (halting) for (const { seq } of fresh) this.#attemptRows.push(this.#notBegun(seq));
    // An attempt has completed when its outcome is recorded: not in the commit of a turn that did not have it yet (D6, D12).
    for (const row of this.#settledRows.splice(0)) {
      const recorded = draft.turn?.jobs.some((job) => job.type === "resolve" && job.seq === row.seq) === true;
      (recorded ? this.#attemptRows : this.#settledRows).push(row);
    }
    if (this.#attemptRows.length > 0) draft.attempts = this.#attemptRows.splice(0);
    if (draft.close === undefined && (halting || !working || this.#retryRunAt !== undefined)) {
      draft.lease = "park";
      draft.status = draft.status === "rolling_back" ? "rolling_back" : "sleeping";
      draft.waitingFor = this.#waitingFor();
      draft.wakeAt = this.#retryRunAt ?? (halting && working ? 0 : this.#nextDue());
    }
    draft.seen = this.#seen;
    let result: CommitResult;
    try {
      result = await this.#host.commit(draft);
    } catch (error) {
      this.#host.logger.error("A commit failed; the run is given back.", { runId: this.runId, error });
      return this.lose(error);
    }
    if (this.#released) return; // given back or lost meanwhile: no step of it is begun here
    this.#busy = false;
    for (const { seq, number } of starting) if (result.status === "committed") this.#startStep(seq, number);
    this.#committed(draft, result);
  }
  /** W4: its command is recorded, but the worker that recorded it stops: whoever comes next begins with attempt 1. */
  #notBegun(seq: number): AttemptRow {
    const now = this.#host.now();
    return { seq, number: 0, status: "failed", startedAt: now, endedAt: now, workerId: this.#host.workerId, retryAt: 0 };
  }
  /** D7: attempts that never came back count too. */
  #exhausted(seq: number, number: number): boolean {
    const body = this.#executor.body(seq);
    if (body === undefined) return true;
    const last = number - 1 - (this.#forgiven.get(seq) ?? 0);
    const lost = new HoldfastError(`The worker that ran attempt ${last} did not come back.`, { code: "HF_WORKER_LOST" });
    if (last <= 0 || retryAfter(body, last, lost, 0) !== undefined) return false;
    const outcome: Outcome = { status: "failed", error: serializeError(lost), attempts: last };
    this.#jobs.push({ type: "resolve", seq, outcome });
    return true;
  }
  #waitingFor(): string[] {
    const until = (seq: number) => {
      const due = this.#due.get(seq);
      return due === undefined ? "" : ` until ${new Date(due).toISOString()}`;
    };
    const retries = [...this.#due]
      .filter(([key]) => key < 0)
      .map(([key, due]) => {
        const open = this.#open.get(-key);
        return `step ${open?.command.name ?? -key} (attempt ${(this.#tried.get(-key) ?? 0) + 1} at ${new Date(due).toISOString()})`;
      });
    const again = this.#retryRunAt === undefined ? [] : [`another attempt at ${new Date(this.#retryRunAt).toISOString()}`];
    return [
      ...again,
      ...retries,
      ...this.#executor.waiting.filter(({ seq }) => !this.#due.has(-seq)).map(({ seq, description }) => description + until(seq)),
    ];
  }

  /** After the commit: effects (D1). */
  #committed(commit: TurnCommit, result: CommitResult): void {
    if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));
    const { turn } = commit;
    if (turn !== undefined) {
      this.#turns++;
      this.#historyLength = result.historyLength ?? this.#historyLength + recordCount(turn);
      this.#host.blocked.delete(this.runId);
    }
    if (commit.close !== undefined) {
      this.#closed = true;
      return this.#release("closed", RUN_OVER);
    }
    // D10: a run that is to be tried again begins with a replay that leaves out what failed: this executor is of no more use.
    if (commit.lease === "park") return this.#release(this.#retryRunAt === undefined ? "parked" : "closed", undefined);
    if (this.#retryRunAt !== undefined) return void this.#write(this.#bare("sleeping"));
    for (const command of turn?.commands ?? []) {
      if (command.type === "cancel")
        this.#attempts.cancel(
          command.seq,
          new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" }),
          command.join === true,
        );
      else if ("n" in command && isStep(command)) {
        this.#tried.set(command.seq, 1);
        this.#startStep(command.seq, 1);
      }
    }
    if (result.inbox.length > 0) void this.receive(result.inbox);
    this.#fireDue();
    this.#setAlarm();
    this.#pump();
  }

  #startStep(seq: number, number: number): void {
    const body = this.#executor.body(seq);
    const open = this.#open.get(seq);
    if (body === undefined || open === undefined) return;
    const { unit, name, n } = open.command;
    const execution = this.execution === 1 ? "" : `~${this.execution}/`;
    const forgiven = this.#forgiven.get(seq) ?? 0;
    const key = `${this.runId}/${execution}${formatLocation(unit, name, n)}`;
    if (body.kind === "transaction") this.#attempts.start(seq, this.#inTransaction(seq, body, key, number), number, forgiven, key);
    else this.#attempts.start(seq, body, number, forgiven, key);
  }
  /** D6: the outcome is in the inbox by the time the body has ended; it is not reported a second time. */
  #inTransaction(seq: number, body: StepBody, idempotencyKey: string, attempt: number): StepBody {
    const run = async (info: { signal: AbortSignal }) => {
      const message = await this.#host.transact({ runId: this.runId, epoch: this.#epoch, seq }, body, { ...info, idempotencyKey, attempt });
      if (message === "stale") throw new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" });
      return new Recorded(message);
    };
    return { ...body, run: run as never };
  }

  #attemptEnded(end: AttemptEnd): void {
    const { attempt } = end;
    const { seq, number, startedAt } = attempt;
    const row = { seq, number, startedAt, endedAt: this.#host.now(), workerId: this.#host.workerId };
    if (end.type === "retry") {
      const retryAt = this.#host.now() + end.delay;
      if (this.#isTooLate(seq, retryAt)) {
        this.#attemptRows.push({ ...row, status: "failed", error: end.error });
        return this.#expire();
      }
      this.#attemptRows.push({ ...row, status: "failed", error: end.error, retryAt });
      this.#due.set(-seq, retryAt);
      this.#setAlarm();
    } else if (end.type === "recorded") {
      if (this.#listed.has(seq)) this.#attemptRows.push({ ...row, status: "completed" });
      void this.receive([end.message]);
      return;
    } else {
      if (end.outcome.status === "failed") this.#attemptRows.push({ ...row, status: "failed", error: end.outcome.error });
      else if (this.#listed.has(seq)) this.#settledRows.push({ ...row, status: "completed" });
      this.#jobs.push({ type: "resolve", seq, outcome: end.outcome });
    }
    this.#pump();
  }

  /** K7: a retry after the deadline is none. Rollbacks are exempt. */
  #isTooLate(seq: number, retryAt: number): boolean {
    return this.#run.deadlineAt !== undefined && retryAt >= this.#run.deadlineAt && this.#open.get(seq)?.command.type !== "rollback";
  }
  /** K7: the deadline can't be met any more: the run fails now. */
  #expire(): void {
    const error = new DeadlineExceededError({ runId: this.runId, deadline: this.#run.deadlineAt ?? 0 });
    this.#jobs.push({ type: "expire", error: serializeError(error) });
    this.#pump();
  }

  // ── the end of a claim ──

  /** V4: the run is unharmed; it is tried again later, or when other code comes. */
  async #block(error: Error): Promise<void> {
    const times = this.#host.blocked.get(this.runId) ?? 0;
    this.#host.blocked.set(this.runId, times + 1);
    const backoff = Math.min(1_000 * 2 ** times, 300_000);
    this.#host.logger.error(`Run ${this.runId} is blocked: ${error.message}`, { runId: this.runId, workflow: this.workflow.name, error });
    const draft = this.#bare("blocked");
    draft.blocked = { error: serializeError(error), code: this.#host.codeOf(this.workflow) };
    draft.lease = "park";
    draft.wakeAt = this.#host.now() + backoff;
    draft.seen = Number.MAX_SAFE_INTEGER;
    draft.waitingFor = [`code that can replay it (${error.name})`];
    try {
      await this.#host.commit(draft);
    } catch (failure) {
      this.#host.logger.error("A blocked run could not be given back.", { runId: this.runId, error: failure });
    }
    this.#release("blocked", error);
  }
  /** D4: somebody else has it. Its steps are told, nothing more is written. */
  lose(reason: unknown): void {
    this.#release("lost", reason);
  }
  /** W4: no more turns are begun once its steps have ended. */
  stop(): void {
    this.#stopping = true;
    this.#pump();
  }
  /** W4: the grace period is over: its steps are told, and its lease ends so that others resume at once. */
  async giveBack(): Promise<void> {
    if (this.#released) return;
    const reason = new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" });
    const { workerId } = this.#host;
    const endedAt = this.#host.now();
    for (const { seq, number, startedAt } of this.#attempts.abandonAll(reason))
      this.#attemptRows.push({ seq, number, status: "lost", startedAt, endedAt, workerId });
    const draft = this.#bare("sleeping");
    draft.attempts = this.#attemptRows.splice(0);
    draft.lease = "park";
    draft.wakeAt = 0;
    draft.seen = 0;
    const given = this.#host.commit(draft);
    this.#release("lost", reason);
    try {
      await given;
    } catch (error) {
      this.#host.logger.error("A run could not be given back; others have it when its lease ends.", { runId: this.runId, error });
    }
  }
  #release(how: "parked" | "closed" | "blocked" | "lost", reason: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.#busy = false;
    this.#alarm?.cancel();
    this.#attempts.abandonAll(reason);
    if (how !== "parked") void this.#executor.activate({ time: 0, jobs: [{ type: "evict" }] });
    this.#host.released(this, how);
  }
  /** Out of the cache (W5). */
  evict(): void {
    void this.#executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }
}

function isStep(command: OpeningCommand): boolean {
  return command.type === "step" || command.type === "transaction" || command.type === "rollback";
}

/** When a run that failed is to be tried again. */
function retryRunAtOf(turns: readonly Turn[]): number | undefined {
  const after = lastFailure(turns)?.retryAfter;
  return after === undefined ? undefined : (turns.at(-1)?.time ?? 0) + after;
}
function lastFailure(turns: readonly Turn[]) {
  const last = turns.at(-1)?.commands.at(-1);
  return last?.type === "fail" ? last : undefined;
}
