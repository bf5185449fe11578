// One run in the memory of a worker: the way from jobs to commits and back.
// Owns: the pipeline of one run: inbox → jobs → activation → commit → effects → jobs; steps.ts and timers.ts have their own.
// Invariants: D1 (effects after the commit), D2 (one commit a turn), D4 (a stale epoch ends it), D5 (parks only when no step is in
// flight), D9 (parks with what it has seen; takes back an end that messages came before), V4 (blocked).

import {
  type Activation,
  type AnyWorkflow,
  type Codec,
  type Command,
  type Completion,
  carriedOutBy,
  DeadlineExceededError,
  Executor,
  formatLocation,
  HoldfastError,
  isError,
  isInstance,
  type Job,
  type Limits,
  type Logger,
  type OpeningCommand,
  recordCount,
  type StepBody,
  type StepInfo,
  serializeError,
  type Turn,
  type TurnWatch,
  trimmed,
} from "@holdfast/core";
import { type Body, type Environment, idempotencyKeyOf, isBrokenRule, isoTime, Recorded, startJobOf, type TurnQueue } from "@holdfast/host";
import {
  type KnownAttempts,
  OpenOperations,
  type Prepared,
  recoveryOf,
  resumedView,
  retryRunAtOf,
  waitingWords,
} from "@holdfast/host/attempts";
import { unguardedCodec } from "@holdfast/host/node";
import { type BlockedLog, reasonOf } from "../host/blocking.ts";
import { isMixed, isPatient, JobQueue, type TurnJobs } from "../host/jobs.ts";
import { askAgain, type Draft, draftOf, type JournalContext } from "../host/journal.ts";
import { isRefusal, StoreError } from "../store/errors.ts";
import type { AttemptRow, ClaimedRun, CommitResult, InboxMessage, LateIf, RunRow, TurnCommit } from "../store/port.ts";

export interface DriverHost {
  readonly workerId: string;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  now(): number;
  replaceStep(name: string): ((info: unknown) => unknown) | undefined;
  /** D6: a step in a transaction of the store. */
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale">;
  readonly limits: Partial<Limits>;
  readonly turnTimeout: number;
  readonly maxRecoveries: number;
  /** Sees workflow code run. */
  readonly watch: TurnWatch | undefined;
  /** With the determinism guard on: code that changes a state in place gets a TypeError (R9). */
  readonly freezeStates: boolean;
  /** Tells one of the two, later. */
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
  /** Its row, if there is one. */
  look(runId: string): Promise<RunRow | undefined>;
  history(runId: string): Promise<readonly Turn[]>;
  attempts(runId: string): Promise<readonly (AttemptRow & { readonly task?: boolean })[]>;
  /** Refines a signal by the workflow's schema before it is delivered (M13). */
  checked(workflow: AnyWorkflow, job: Job): Promise<Job>;
  codeOf(workflow: AnyWorkflow): string;
  /** W4: a run is on its way back; a worker that stops waits for it. */
  givesBack(given: Promise<void>): void;
  /** K7: a deadline seems to have passed: the store is to look. */
  lookAtDeadlines(): void;
  /** How often in a row runs were blocked here or set back, for the backoff, and why the last time (V4). */
  readonly blocked: Map<string, { readonly times: number; readonly reason?: string; readonly unsure?: Unsure }>;
  readonly blockedLog: BlockedLog;
  readonly turnQueue: TurnQueue;
  /** Turns that are being computed: their commits come soon. */
  computing: number;
  /** The driver is through with its claim: parked, closed, blocked or lost. */
  released(driver: RunDriver, how: "parked" | "closed" | "blocked" | "lost"): void;
}

/** Attempts that a commit has announced of which this worker does not know whether it was written: it has not begun them. */
export interface Unsure {
  /** Of its execution, and its claim. */
  readonly seed: string;
  readonly epoch: number;
  readonly attempts: Prepared["starting"];
}
/** Something that others were asked for, and will be again. */
interface Asked {
  readonly command: OpeningCommand;
  /** That an activity has had. */
  readonly attempts: number;
  /** Of a child: the run knows that it exists. */
  readonly isStarted: boolean;
}

/** Jobs that a run takes at once, also while it waits to be tried again. */
const OVERRULING: ReadonlySet<string> = new Set(["cancel", "expire", "resume"]);
/** What steps are told that are still running when their run has ended; one for all, an error is dear to make. */
const RUN_OVER = new HoldfastError("The run is over.", { code: "HF_RUN_OVER" });
/** M8: what steps are told of a run that is replayed without an update. */
const REJECTED_MEANWHILE = new HoldfastError("An update was rejected as the run accepted it: the turn is undone.", {
  code: "HF_CLAIM_LOST",
});
/** Operations that others carry out. */
const ASKED = carriedOutBy("activityWorker", "otherRun");
/** To give a run back: by then its lease is over, as a rule. */
const MOST_TRIES = 50;
const LONGEST_PAUSE = 1_000;
/** Until a run whose deadline seems to have passed may be claimed again: by then the store has looked. */
const DEADLINE_PAUSE = 100;
const NO_JOBS: TurnJobs = { jobs: [], messages: [] };
/** D9, K1: most ends look for nothing but a cancellation. */
const LATE_IF_CANCELED: LateIf = { cancel: true, signals: [] };
/** Operations that the worker which has the run carries out. */
const STEPS = carriedOutBy("worker");
const NOTHING_STARTING: Prepared["starting"] = [];

export class RunDriver {
  readonly workflow: AnyWorkflow;
  /** When the call was made that gave it its lease, or renewed it last: the lease runs no shorter than from there. */
  leasedAt = 0;
  readonly #host: DriverHost;
  #run: RunRow;
  #epoch: number;
  #executor: Executor;
  readonly #operations: OpenOperations;
  /** D10: what is asked of others again with the turn of the resume. */
  #askAgain: Asked[] = [];
  readonly #queue = new JobQueue();
  #seen = 0;
  /** Messages above `#seen` that were delivered before those between: outcomes of transactions, known without reading the inbox. */
  readonly #ahead = new Set<number>();
  #deliveries: Promise<void> = Promise.resolve();
  #delivering = 0;
  #turns: number;
  #historyLength: number;
  #busy = false;
  /** P7: no turn is before the last one, though the estimate of the store's time may have been set back since. */
  #notBefore = 0;
  /** Its executor has been used, or is about to be. */
  #hasBegun = false;
  /** Its run does not exist yet. */
  #unborn = false;
  #closed = false;
  #released = false;
  #stopping = false;
  /** W4: it has left something to others that they can do at once. */
  #leavesWork = false;
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
    this.#operations = new OpenOperations({
      carries: STEPS,
      environment: host.environment,
      logger: host.logger,
      run: this,
      workerId: host.workerId,
      now: () => host.now(),
      bodyOf: (command) => this.#bodyOf(command),
      keyOf: ({ unit, name, n }) => idempotencyKeyOf(this.runId, this.execution, formatLocation(unit, name, n)),
      encode: (value, what) => this.#executor.encode(value, what),
      deadlineAt: () => this.#run.deadlineAt,
      expires: false,
      onChange: () => this.#changed(),
    });
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
  get executor(): Executor {
    return this.#executor;
  }
  get seen(): number {
    return this.#seen;
  }
  /** Is a turn or a commit under way? */
  get busy(): boolean {
    return this.#busy || this.#delivering > 0 || !this.#queue.isEmpty;
  }
  /** Steps that run. */
  get running(): string[] {
    return [...this.#operations.running].map(({ seq, number }) => `${this.runId}/${seq}/${number}`);
  }
  /** Does the store know of this claim? */
  get isBorn(): boolean {
    return !this.#unborn;
  }
  /** Turns that are in memory, for a claim that needs no history. */
  get turns(): number {
    return this.#turns;
  }

  #createExecutor(): Executor {
    const { codec, logger, limits, environment, turnTimeout, watch, freezeStates } = this.#host;
    return new Executor({
      workflow: this.workflow,
      codec: unguardedCodec(codec),
      logger,
      limits,
      elapsed: environment.worked,
      turnTimeout,
      watch,
      freezeStates,
      withholdsRejections: true,
    });
  }

  // ── beginning ──

  /** The first turn of a run that does not exist yet. V4: one that breaks a rule creates the run blocked, it is not computed again. */
  async firstTurn(jobs: readonly Job[]): Promise<TurnCommit> {
    this.#busy = true;
    this.#unborn = true;
    this.#hasBegun = true;
    const activation: Activation = { time: this.#host.now(), jobs: [startJobOf(this.#run), ...jobs], historyLength: 0 };
    const completion = await this.#host.turnQueue.run(() => this.#executor.activate(activation));
    if (completion.status !== "ok") return this.#blocked(completion.error);
    const draft = this.#draft(activation, completion);
    draft.lateIf = undefined; // D9: a run that does not exist has no message but its own
    return draft;
  }
  /** It exists, and has a lease that can be renewed; it goes on when it is told that it has begun. */
  born(): void {
    this.#unborn = false;
  }
  /** The run was created with its first turn. */
  begun(commit: TurnCommit): void {
    this.born();
    this.#busy = false;
    if (this.#released) {
      // W4: its worker has stopped meanwhile.
      this.#operations.notBegun(openedSteps(commit).map(({ seq }) => seq));
      return void this.#returnLease();
    }
    const historyLength = lengthAfterTrims(commit.turn);
    this.#committed(commit, { status: "committed", inbox: [], ...(historyLength !== undefined && { historyLength }) });
  }

  /** A claim: replays if there is history to replay, then works off what is there. */
  async claimed(claim: ClaimedRun): Promise<void> {
    this.#forgetMessages(claim.turns !== undefined);
    this.#run = claim.run;
    this.#epoch = claim.run.epoch;
    this.#released = false;
    this.#historyLength = claim.run.historyLength;
    this.#notBefore = Math.max(this.#notBefore, claim.lastTime ?? 0); // P7: the run goes on, whoever ended the execution before
    if (claim.recovered && claim.run.recoveries > this.#host.maxRecoveries) {
      const message = `Run ${this.runId} was recovered ${claim.run.recoveries} times without a commit: it seems to kill its workers. Mend it, then resume it.`;
      return this.#block(new HoldfastError(message, { code: "HF_TOO_MANY_RECOVERIES" }));
    }
    const retryRunAt = retryRunAtOf(claim.turns ?? [], claim.run.deadlineAt);
    if (retryRunAt !== undefined && retryRunAt > this.#host.now() && !claim.inbox.some(({ job }) => OVERRULING.has(job.type))) {
      // Messages came while it waits to be tried again: they wait with it.
      this.#retryRunAt = retryRunAt;
      this.#seen = claim.inbox.at(-1)?.id ?? 0;
      return this.#write(this.#bare("sleeping"));
    }
    const resume = claim.inbox.find(({ job }) => job.type === "resume");
    // Before anything that arrives while it recovers: a cancellation that overtook the start would be lost.
    if (claim.run.turns === 0) this.#queue.push(startJobOf(this.#run));
    const isNew = claim.run.turns === 0 && !this.#hasBegun;
    this.#hasBegun = true;
    if (claim.turns === undefined) this.#operations.recount(claim.attempts, this.#known(claim));
    else if (!isNew) {
      this.#busy = true; // what arrives meanwhile waits
      const failure = await this.#recover(claim, resume !== undefined);
      this.#busy = false;
      if (this.#released) return;
      if (failure !== undefined) return this.#block(failure);
    }
    await this.deliver(claim.inbox);
    this.#collect();
    if (this.#queue.isEmpty && this.#executor.hasWork && !this.#isOverdue()) return this.#activate();
    this.#pump();
  }
  /** M7: what the claim before was given too late, as it parked, is in the inbox of this one, unless others have taken it. */
  #forgetMessages(isReplayed: boolean): void {
    this.#queue.clear(isReplayed ? "drop fires" : "keep fires");
    this.#seen = 0;
    this.#ahead.clear();
  }
  async #recover(claim: ClaimedRun, resumed: boolean): Promise<Error | undefined> {
    const turns = claim.turns ?? [];
    const { attempt, deadlineAt } = claim.run;
    this.#turns = claim.run.turns;
    this.#notBefore = Math.max(this.#notBefore, turns.at(-1)?.time ?? 0); // P7: also of a turn that a resume voids
    const { view, jobs, voided, rollingBack } = recoveryOf(turns, { resumed, attempt, deadlineAt });
    this.#rollingBack = rollingBack;
    for (const job of jobs) this.#queue.push(job);
    const failure = await this.#replay(view);
    if (failure !== undefined || this.#released) return failure;
    this.#operations.restore(this.#executor, { turns, attempts: claim.attempts, voids: voided?.causes }, this.#known(claim));
    this.#askAgain = voided === undefined ? [] : await this.#asked(turns, resumed ? undefined : (voided.causes ?? []));
    return undefined;
  }
  /** What this worker knows of attempts, besides their rows. */
  #known({ inbox }: ClaimedRun): KnownAttempts {
    const unsure = this.#unsure?.attempts ?? NOTHING_STARTING;
    return {
      isAnswered: (seq) => inbox.some(({ job }) => job.type === "resolve" && job.seq === seq),
      isNotBegun: (seq, number) => unsure.some((one) => one.seq === seq && one.number === number),
    };
  }
  /** D7: what this worker did not begin under the claim before, if nobody has had the run between. */
  get #unsure(): Unsure | undefined {
    const unsure = this.#host.blocked.get(this.runId)?.unsure;
    return unsure?.epoch === this.#epoch - 1 && unsure.seed === this.#run.seed ? unsure : undefined;
  }
  /** A new executor, as these turns leave it. */
  async #replay(view: readonly Turn[]): Promise<Error | undefined> {
    const executor = this.#createExecutor();
    this.#executor = executor;
    const completion = await this.#host.turnQueue.run(async () => (this.#released ? undefined : executor.replay(view)));
    return completion?.status === "failed" ? completion.error : undefined;
  }
  /** What the run had asked of others and has no answer to: these operations, or all (its end has dropped what was under way). */
  async #asked(turns: readonly Turn[], only: readonly number[] | undefined): Promise<Asked[]> {
    const open = new Set(this.#executor.openOperations);
    const answered = new Set<number>();
    const started = new Set<number>();
    for (const job of turns.flatMap(({ jobs }) => jobs)) {
      if (job.type === "resolve") answered.add(job.seq);
      else if (job.type === "childStarted") started.add(job.seq);
      else if (job.type === "resume") for (const seq of job.voids) answered.delete(seq);
    }
    for (const job of this.#queue.jobs) if (job.type === "resume") for (const seq of job.voids) answered.delete(seq);
    const commands = turns
      .flatMap((turn) => turn.commands)
      .filter((command): command is OpeningCommand => "n" in command && ASKED.has(command.type))
      .filter(({ seq }) => only === undefined || only.includes(seq))
      .filter((command) => open.has(command.seq) || (command.type === "child" && started.has(command.seq) && !answered.has(command.seq)));
    const attempts = commands.some(({ type }) => type === "activity") ? await this.#host.attempts(this.runId) : [];
    return commands.map((command) => {
      const numbers = attempts.filter(({ seq, task }) => task === true && seq === command.seq).map(({ number }) => number);
      return { command, attempts: Math.max(0, ...numbers), isStarted: started.has(command.seq) };
    });
  }
  // ── steps ──

  /** Undefined: the step is no longer open. */
  #bodyOf({ seq }: OpeningCommand): Body | undefined {
    const body = this.#executor.body(seq);
    if (body === undefined) return undefined;
    const standIn = this.#host.replaceStep(body.name);
    if (standIn !== undefined) return { ...body, run: standIn as Body["run"] };
    return body.kind === "transaction" ? this.#inTransaction(seq, body) : body;
  }
  /** D6: the outcome is in the inbox by the time the body has ended; it is not reported a second time. */
  #inTransaction(seq: number, body: StepBody): Body {
    const run = async (info: StepInfo): Promise<Recorded> => {
      const { runId, epoch } = this;
      const message = await this.#host.transact({ runId, epoch, seq }, body, info);
      if (message === "stale") throw new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" });
      return new Recorded(() => this.#takeAhead(message));
    };
    return { ...body, run, isFinal: isMisuse };
  }

  // ── jobs ──

  /** Messages from the inbox, in order; what was delivered before is passed over. */
  deliver(messages: readonly InboxMessage[]): Promise<void> {
    this.#delivering++;
    // One batch after the other: a schema that takes its time lets nobody overtake (M2), and no turn or parking begins meanwhile (D9).
    const epoch = this.#epoch;
    this.#deliveries = this.#deliveries.then(() => this.#deliver(messages, epoch)).finally(() => this.#delivering--);
    return this.#deliveries;
  }
  async #deliver(messages: readonly InboxMessage[], epoch: number): Promise<void> {
    for (const message of messages) {
      if (epoch !== this.#epoch) return; // of a claim that is over: the next has its own inbox
      if (message.id <= this.#seen) continue;
      this.#seen = message.id;
      if (this.#ahead.delete(message.id)) continue;
      const job = message.job.type === "resume" ? undefined : await this.#host.checked(this.workflow, message.job);
      if (epoch !== this.#epoch) return;
      this.#queue.pushMessage(message.id, job); // of a resume the host has its own, with what it voids
    }
  }
  /** A message that is known without reading the inbox. M2: what others have sent before it may not have been read yet. */
  #takeAhead({ id, job }: InboxMessage): void {
    if (id <= this.#seen) return; // somebody has read the inbox meanwhile
    this.#ahead.add(id);
    this.#queue.pushMessage(id, job);
  }
  async receive(messages: readonly InboxMessage[]): Promise<void> {
    await this.deliver(messages);
    this.#pump();
  }
  /** What has ended and become due, for the next turn. */
  #collect(): void {
    for (const job of this.#operations.takeJobs()) this.#queue.push(job);
  }
  #changed(): void {
    for (const job of this.#operations.takeReady()) this.#queue.push(job);
    this.#pump();
  }
  #arm(): void {
    if (!this.#released) this.#operations.arm();
  }

  // ── the pipeline ──

  /** Does the next thing, if there is one: a turn, a commit of attempts, or parking. */
  #pump(): void {
    if (this.#busy || this.#delivering > 0 || this.#released || this.#closed) return;
    if (this.#stopping && this.#operations.inFlight > 0) return; // W4: they may finish first
    if (this.#isOverdue()) this.#standAside(undefined);
    else if (!this.#queue.isEmpty) this.#activate();
    else if (this.#operations.hasNews) this.#write(this.#bare("running"));
    else if (this.#operations.inFlight === 0) this.#write(this.#bare("sleeping"));
  }
  #activate(): void {
    this.#busy = true;
    this.#host.computing++;
    this.#host.turnQueue.enter(this.#turn);
  }
  /** Of the turns of many runs each costs little: no async function with all its variables, but callbacks. */
  readonly #turn = (): void => {
    if (this.#released) {
      this.#host.computing--;
      return;
    }
    const turn = this.#queue.take();
    const time = Math.max(this.#host.now(), this.#notBefore, this.#operations.latestFired);
    const activation: Activation = { time, jobs: turn.jobs, historyLength: this.#historyLength };
    void this.#executor.activate(activation).then((completion) =>
      this.#host.turnQueue.leave(() => {
        this.#host.computing--;
        this.#computed(activation, completion, turn);
      }),
    );
  };
  #computed(activation: Activation, completion: Completion, turn: TurnJobs): void {
    if (this.#released) return;
    if (completion.status === "failed") return void this.#block(completion.error);
    this.#busy = false;
    this.#executor.reportUnheard();
    const draft = this.#draft(activation, completion);
    if (turn.messages.length > 0) this.#consume(draft, turn, completion);
    // D9: a timer or an outcome of its own has overtaken a signal that a wait had asked for.
    if (draft.close !== undefined && completion.overtaken !== undefined && isMixed(turn)) void this.#takeBack(draft, turn, []);
    else this.#write(draft, turn);
  }
  /** M7: what the turn has taken leaves the inbox. M8: what it has given back stays there, and is offered to the next one. */
  #consume(draft: Draft, turn: TurnJobs, { replies }: Completion & { status: "ok" }): void {
    const patient = turn.messages.filter(isPatient);
    if (patient.length === 0) {
      draft.consumed = turn.messages.map(({ id }) => id);
      return;
    }
    const replyTo = new Map(replies.map((reply) => [reply.id, reply.type]));
    const accepts = patient.flatMap(({ job }) => (replyTo.has(job.id) ? [] : [job.id]));
    if (accepts.length > 0) draft.accepts = accepts;
    const left = patient.filter(({ job }) => replyTo.get(job.id) === "keepUpdate");
    if (left.length > 0) this.#queue.keep(left);
    const kept = new Set(left.map(({ id }) => id));
    draft.consumed = turn.messages.flatMap(({ id }) => (kept.has(id) ? [] : [id]));
  }

  /** A commit without a turn: attempts, or parking. */
  #bare(given: "running" | "sleeping" | "blocked"): Draft {
    const { runId, execution } = this;
    const status = this.#rollingBack && given !== "blocked" ? "rolling_back" : given;
    return { runId, execution, epoch: this.#epoch, workerId: this.#host.workerId, status, lease: "keep" };
  }
  #draft(activation: Activation, completion: Completion & { status: "ok" }): Draft {
    const { id: runId, execution, queue, priority, version, deadlineAt } = this.#run;
    const context: JournalContext = {
      runId,
      execution,
      epoch: this.#epoch,
      workerId: this.#host.workerId,
      queue,
      priority,
      version,
      turns: this.#turns,
      historyLength: this.#historyLength,
      deadlineAt,
      environment: this.#host.environment,
      executor: this.#executor,
    };
    const draft = draftOf(context, activation, completion);
    for (const { command, attempts, isStarted } of this.#askAgain) askAgain(context, command, draft, attempts, isStarted);
    // D9: of an end, which may be taken back, nothing is noted here: the run is over with its commit, or goes on from before it.
    const goesOn = draft.close === undefined;
    if (!goesOn) draft.lateIf = lateIfOf(completion);
    for (const job of activation.jobs) {
      if (job.type === "resolve") this.#operations.answered(job.seq);
      if (goesOn && (job.type === "resolve" || job.type === "fire")) this.#operations.settled(job.seq);
    }
    // P7: not before the last turn, though the estimate of the store's time may have been set back since.
    const { time = activation.time } = completion;
    if (goesOn) for (const command of completion.commands) this.#apply(command, time);
    const fail = completion.commands.find((command) => command.type === "fail");
    if (fail?.type === "fail" && fail.retryAfter !== undefined && goesOn) {
      const retryRunAt = time + fail.retryAfter;
      this.#retryRunAt = this.#isAfterDeadline(retryRunAt) ? time : retryRunAt;
      this.#seen = 0; // what came meanwhile is the next claim's
      draft.attempt = this.#run.attempt + 1;
      draft.status = "sleeping";
      this.#operations.clearTimers();
    }
    this.#rollingBack ||= draft.status === "rolling_back";
    if (this.#rollingBack && goesOn) draft.status = "rolling_back";
    draft.rollbacks = this.#executor.rollbacks;
    return draft;
  }
  /** Keeps track of what the commands open, settle and give up; effects wait for the commit. */
  #apply(command: Command, time: number): void {
    if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) {
      this.#operations.settled(command.seq);
      if (!this.#queue.isEmpty) this.#queue.dropFire(command.seq);
    } else if ("n" in command) this.#operations.opened(command, time);
  }

  /** `turn`: what it was computed from, if it is a turn's. */
  #write(draft: Draft, turn?: TurnJobs): void {
    this.#busy = true;
    const isOver = draft.close !== undefined;
    const halting = this.#stopping && this.#operations.inFlight === 0;
    const leaves = halting && !isOver;
    const fresh = openedSteps(draft);
    if (leaves) this.#operations.notBegun(fresh.map(({ seq }) => seq));
    const { rows, starting } = this.#operations.prepare(draft.turn?.jobs ?? NO_JOBS.jobs, halting || isOver ? "leave" : "begin");
    if (rows.length > 0) draft.attempts = rows;
    for (const job of this.#operations.takeReady()) this.#queue.push(job); // steps that have no attempt left
    const working =
      fresh.length > 0 ||
      starting.length > 0 ||
      this.#operations.hasRetriesDue || // W4: halting, it leaves them to others, at once
      this.#operations.inFlight > 0 ||
      !this.#queue.isEmpty ||
      this.#delivering > 0;
    this.#leavesWork ||= leaves && working;
    // D6: outcomes that are in memory alone are recorded first.
    const parks = (halting && !this.#queue.hasOutcomes) || !working || this.#retryRunAt !== undefined;
    if (!isOver && parks) {
      draft.lease = "park";
      draft.status = draft.status === "rolling_back" ? "rolling_back" : "sleeping";
      draft.waitingFor = this.#waitingFor();
      draft.wakeAt = this.#retryRunAt ?? (this.#leavesWork ? 0 : this.#operations.nextDue);
    }
    draft.seen = this.#seen;
    this.#host.commit(
      draft,
      (result) => this.#written(draft, turn, starting, result),
      (error) => this.#unwritten(error, draft, starting),
    );
  }
  #written(draft: Draft, turn: TurnJobs | undefined, starting: Prepared["starting"], result: CommitResult): void {
    if (this.#released) return; // given back or lost meanwhile: no step of it is begun here
    if (result.status === "late") return void this.#takeBack(draft, turn ?? NO_JOBS, result.inbox);
    this.#busy = false;
    if (result.status === "committed" && !this.#isOverdue()) for (const { seq, number } of starting) this.#operations.begin(seq, number);
    this.#committed(draft, result);
  }
  /**
   * D9: the run has not ended: messages were acknowledged before that the end should have waited for. Nothing of the turn was written. The
   * run goes on from the turn before it, with those messages first. Steps in flight run on, and no step runs again.
   */
  async #takeBack(draft: Draft, turn: TurnJobs, late: readonly InboxMessage[]): Promise<void> {
    this.#busy = true; // what arrives meanwhile waits
    this.#operations.takeBack(draft.attempts ?? [], turn.jobs);
    this.#evict();
    const resume = turn.jobs.find((job) => job.type === "resume");
    try {
      await this.deliver(late);
      const turns = await this.#host.history(this.runId);
      const failure = this.#released ? undefined : await this.#replay(resumedView(turns, resume));
      if (this.#released) return;
      if (failure !== undefined) return void this.#block(failure);
    } catch (error) {
      return this.#released ? undefined : this.#unwritten(error);
    }
    this.#queue.takeBack(turn);
    this.#busy = false;
    this.#collect();
    this.#arm();
    this.#pump();
  }
  /** `unsure`: it may have been written all the same; `starting`: attempts that it announces. */
  #unwritten(error: unknown, unsure?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): void {
    // V4: whoever computes this turn again has the same refused. The run is unharmed, and somebody has to mend what stands against it.
    if (isRefusal(error)) return void this.#block(error, "the store to take what it writes");
    void this.#setBack(error, unsure, starting); // whatever becomes of the message
    this.#host.logger.error("A commit failed; the run is given back.", { runId: this.runId, error });
  }
  #waitingFor(): string[] {
    const again = this.#retryRunAt === undefined ? [] : [`another attempt at ${isoTime(this.#retryRunAt)}`];
    return [...again, ...waitingWords(this.#executor, this.#operations)];
  }

  /** After the commit: effects (D1). */
  #committed(commit: TurnCommit, result: Exclude<CommitResult, { status: "late" }>): void {
    // M8: or an update that this turn accepts was rejected meanwhile. Then the claim holds, and the run is to be replayed without it.
    if (result.status === "stale" && commit.accepts !== undefined) return void this.#handOver(REJECTED_MEANWHILE, 0, 0);
    if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));
    const { turn } = commit;
    if (turn !== undefined) {
      if (this.#askAgain.length > 0) this.#askAgain = [];
      this.#turns++;
      this.#historyLength = result.historyLength ?? this.#historyLength + recordCount(turn);
      this.#host.blocked.delete(this.runId);
    }
    if (commit.close !== undefined) {
      this.#closed = true;
      this.#release("closed", RUN_OVER);
      const { status, error } = commit.close;
      if (status === "failed") this.#host.logger.warn("A run failed.", { runId: this.runId, workflow: this.workflow.name, error });
      return;
    }
    if (commit.blocked !== undefined) return this.#release("blocked", undefined);
    // D10: a run that is to be tried again begins with a replay that leaves out what failed: this executor is of no more use.
    if (commit.lease === "park") return this.#release(this.#retryRunAt === undefined ? "parked" : "closed", undefined);
    if (this.#retryRunAt !== undefined) return this.#write(this.#bare("sleeping"));
    if (this.#isOverdue()) return this.#standAside(commit);
    for (const command of turn?.commands ?? []) {
      if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
      else if ("n" in command && STEPS.has(command.type) && !this.#leavesWork) this.#operations.begin(command.seq, 1);
    }
    if (result.inbox.length > 0) void this.receive(result.inbox);
    this.#collect();
    this.#arm();
    this.#pump();
  }

  /** C7: steps in flight that the turn has given up are told once it is committed, though its own have to wait. */
  giveUp({ turn }: TurnCommit): void {
    for (const command of turn?.commands ?? []) if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
  }

  #isAfterDeadline(moment: number): boolean {
    return this.#run.deadlineAt !== undefined && moment >= this.#run.deadlineAt;
  }
  /** K7: by the estimate of the store's time its deadline has passed: no turn and no step begins. What undoes it is exempt. */
  #isOverdue(): boolean {
    if (this.#run.deadlineAt === undefined || this.#rollingBack) return false;
    return this.#isAfterDeadline(this.#host.now()) && !this.#queue.jobs.some(({ type }) => type === "expire");
  }
  /** K7: the store decides, by its own clock: it ends the run, or hands it out once more. None of the steps of `turn` has begun. */
  #standAside(turn: TurnCommit | undefined): void {
    if (turn !== undefined) this.#operations.notBegun(openedSteps(turn).map(({ seq }) => seq));
    const reason = new DeadlineExceededError({ runId: this.runId, deadline: this.#run.deadlineAt ?? 0 });
    const given = this.#handOver(reason, this.#host.now() + DEADLINE_PAUSE, this.#seen);
    this.#host.givesBack(given.then(() => this.#host.lookAtDeadlines()));
  }
  // ── the end of a claim ──

  /** V4: the run is unharmed; it is tried again later, or when other code comes. */
  async #block(error: Error, remedy?: string): Promise<void> {
    if (this.#released) return;
    this.#busy = true; // nobody parks it meanwhile: its timers are not set
    await this.#handIn(this.#blocked(error, remedy));
    this.#release("blocked", error);
  }
  #blocked(error: Error, remedy = isBrokenRule(error) ? "code that keeps to the rules" : "code that can replay it"): Draft {
    const { blocked, blockedLog } = this.#host;
    const code = this.#host.codeOf(this.workflow);
    const run = { runId: this.runId, workflow: this.workflow.name, code, error };
    const reason = reasonOf(run);
    const before = blocked.get(this.runId);
    const times = before?.times ?? 0;
    blocked.set(this.runId, { times: times + 1, reason });
    if (before?.reason !== reason) blockedLog.note(run, reason);
    const draft = this.#bare("blocked");
    draft.blocked = { error: serializeError(error), code };
    draft.lease = "park";
    if (!isBrokenRule(error)) draft.wakeAt = this.#host.now() + Math.min(1_000 * 2 ** times, 300_000);
    draft.seen = Number.MAX_SAFE_INTEGER;
    draft.waitingFor = [`${remedy} (${error.name})`];
    return draft;
  }
  /** D4: somebody else has it. Its steps are told, nothing more is written. */
  lose(reason: unknown): void {
    this.#release("lost", reason);
  }
  /** D6: a transaction of this claim may have been carried out, and may not. From the give-back on it can't be, and the next claim finds out. */
  doubt(epoch: number, reason: unknown): void {
    if (epoch === this.#epoch) void this.#setBack(reason);
  }
  /** W4: no more turns are begun once its steps have ended. */
  stop(): void {
    this.#stopping = true;
    this.#pump();
  }
  /** W4: the grace period is over: its steps are told, and its lease ends so that others resume at once. `turn`: none of its steps has begun. */
  async giveBack(turn?: TurnCommit): Promise<void> {
    if (turn !== undefined) this.#operations.notBegun(openedSteps(turn).map(({ seq }) => seq));
    await this.#handOver(new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" }), 0, 0);
  }
  /** A commit failed. The run is free for others after a while: what this worker could not write, they may not be able to either. */
  async #setBack(reason: unknown, unsure?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): Promise<void> {
    const { times, ...why } = this.#host.blocked.get(this.runId) ?? { times: 0 };
    this.#host.blocked.set(this.runId, { ...why, times: times + 1, unsure: this.#unsureOf(unsure, starting) });
    // Jitter: whoever failed together need not meet again.
    const pause = Math.min(100 * 2 ** times, 30_000) * (0.5 + this.#host.environment.random());
    await this.#handOver(reason, this.#host.now() + Math.ceil(pause), this.#seen, unsure);
  }
  #unsureOf(commit: TurnCommit | undefined, starting: Prepared["starting"]): Unsure {
    const opened = openedSteps(commit).map(({ seq }) => ({ seq, number: 1 }));
    return { seed: this.#run.seed, epoch: this.#epoch, attempts: [...starting, ...opened] };
  }
  /** Its run may have been created, with this first turn: the answer was lost. If so, it is given back, else it was none. */
  async notBorn(reason: unknown, first: TurnCommit): Promise<void> {
    const { blocked } = this.#host;
    blocked.set(this.runId, { times: 0, unsure: this.#unsureOf(first, NOTHING_STARTING) });
    this.#release("lost", reason);
    const draft = this.#parking(0, 0);
    const found = await this.#addNotBegun(draft, first).catch(() => "not known");
    if (found === "not written") blocked.delete(this.runId);
    if (found === "written") await this.#handIn(draft); // D4: otherwise there may be a run of others under its id
  }
  async #handOver(reason: unknown, wakeAt: number, seen: number, unsure?: TurnCommit): Promise<void> {
    if (this.#released) return;
    this.#operations.loseAll(reason);
    const given = this.#unborn ? undefined : this.#returnLease(wakeAt, seen, unsure);
    this.#release("lost", reason);
    await given;
  }
  #returnLease(wakeAt = 0, seen = 0, unsure?: TurnCommit): Promise<void> {
    return this.#handIn(this.#parking(wakeAt, seen), unsure);
  }
  #parking(wakeAt: number, seen: number): Draft {
    const draft = this.#bare("sleeping");
    draft.attempts = this.#operations.prepare(NO_JOBS.jobs, "leave").rows;
    draft.lease = "park";
    draft.wakeAt = wakeAt;
    draft.seen = seen;
    return draft;
  }
  /** D7: the steps of a turn that was written, though this worker was not told, have not begun: whoever comes next begins with attempt 1. */
  async #addNotBegun(draft: Draft, unsure: TurnCommit): Promise<"written" | "not written"> {
    const row = await this.#host.look(this.runId);
    const isOurs = row?.seed === this.#run.seed && row.execution === this.#run.execution && row.epoch === this.#epoch;
    if (!isOurs || row.turns <= (unsure.turn?.index ?? row.turns)) return "not written";
    this.#operations.notBegun(openedSteps(unsure).map(({ seq }) => seq));
    draft.attempts = [...(draft.attempts ?? []), ...this.#operations.prepare(NO_JOBS.jobs, "leave").rows];
    return "written";
  }
  /** The last word of a claim. A store that can't take it now (a full disk) is asked again; once somebody else has the run, it is stale (D4). */
  async #handIn(draft: Draft, unsure?: TurnCommit, tries = 0): Promise<void> {
    const { environment, logger } = this.#host;
    let left = unsure;
    try {
      if (left !== undefined) await this.#addNotBegun(draft, left).catch(unlessAway);
      left = undefined;
      await new Promise((resolve, reject) => this.#host.commit(draft, resolve, reject));
    } catch (error) {
      if (tries === 0)
        logger.error("A run could not be given back now; at the latest others have it when its lease ends.", {
          runId: this.runId,
          error,
        });
      const isOver = tries === MOST_TRIES || isRefusal(error) || (error as { code?: unknown } | undefined)?.code === "HF_STORE_CLOSED";
      if (!isOver) environment.after(Math.min(100 * 2 ** tries, LONGEST_PAUSE), () => void this.#handIn(draft, left, tries + 1));
    }
  }
  #release(how: "parked" | "closed" | "blocked" | "lost", reason: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.#busy = false;
    this.#operations.disarm();
    this.#operations.abandonAll(reason);
    if (how !== "parked") this.#evict();
    this.#host.released(this, how);
  }
  /** Out of the cache (W5). */
  evict(): void {
    this.#evict();
  }
  #evict(): void {
    void this.#executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }
}

/** A row that can't be read keeps no run from being given back. */
function unlessAway(error: unknown): void {
  if (error instanceof StoreError && error.retryable) throw error;
}

/** D9: which messages make this end late. Undefined: none. */
function lateIfOf({ heedsCancel, stillWanted }: Completion & { status: "ok" }): LateIf | undefined {
  if (stillWanted === undefined) return heedsCancel === true ? LATE_IF_CANCELED : undefined;
  return { cancel: heedsCancel === true, signals: stillWanted };
}

function openedSteps(commit: TurnCommit | undefined): OpeningCommand[] {
  const steps: OpeningCommand[] = [];
  for (const command of commit?.turn?.commands ?? []) if ("n" in command && STEPS.has(command.type)) steps.push(command);
  return steps;
}

/** L4: what is left of a first turn that trims; undefined if it doesn't. */
function lengthAfterTrims(turn: Turn | undefined): number | undefined {
  if (turn?.commands.some((command) => command.type === "commit" && command.trim !== undefined) !== true) return undefined;
  return trimmed([turn]).reduce((count, left) => count + recordCount(left), 0);
}

/** D6: a body that has ended its transaction by itself, or was about to, would do so again, and may have written something. */
function isMisuse(error: unknown): boolean {
  const seen = new Set<unknown>(); // libraries wrap what `tx` has thrown
  for (let at = error; isError(at) && !seen.has(at); at = causeOf(at)) {
    if (isInstance(at, HoldfastError) && at.code === "HF_STORE_TRANSACTION") return true;
    seen.add(at);
  }
  return false;
}
/** Code throws any value: reading it may throw, too. */
function causeOf(error: Error): unknown {
  try {
    return error.cause;
  } catch {
    return undefined;
  }
}
