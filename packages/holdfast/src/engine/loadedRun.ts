// One run in the memory of a worker: its executor, its open operations, its inbox, and how far its history goes.
// Owns: what a turn changes in these, and the drafts of commits. The driver decides when turns are computed and written.
// Invariants: P7 (time does not go back), D9 (an end, which may be undone, changes nothing here), D10 (a run that failed is retried as a
// whole), K7 (nothing but rollbacks begins after the deadline), S1 (a run that rolls back does so until it ends).

import {
  type Activation,
  type AnyWorkflow,
  type Command,
  type Completion,
  Executor,
  formatLocation,
  isUncheckedSeed,
  type Job,
  type OpeningCommand,
  recordCount,
  type Turn,
} from "@holdfast/core";
import { type Body, idempotencyKeyOf, isoTime, keptFor } from "@holdfast/host";
import { isRollingBack, OpenOperations, recoveryOf, resumedView, waitingWords } from "@holdfast/host/attempts";
import { unguardedCodec } from "@holdfast/host/node";
import type { ClaimedRun, ForkMessage, RunRow } from "../store/port.ts";
import type { DriverHost } from "./driverHost.ts";
import { JobQueue } from "./jobQueue.ts";
import { askAgain, type Draft, draftOf, type JournalContext, STEPS } from "./journal.ts";
import { forkedRequestsOf, type RepeatedRequest, repeatedRequestsOf } from "./repeatedRequests.ts";
import { lateIfOf, RunInbox } from "./runInbox.ts";
import { knownAttempts } from "./setbacks.ts";
import { transactionBody } from "./transactions.ts";

export class LoadedRun {
  readonly workflow: AnyWorkflow;
  readonly queue = new JobQueue();
  readonly inbox: RunInbox;
  readonly operations: OpenOperations;
  readonly #host: DriverHost;
  #run: RunRow;
  #executor: Executor;
  /** D10: requests to activity workers and other runs that the turn of the resume repeats. */
  #repeated: RepeatedRequest[] = [];
  #turns: number;
  #historyLength: number;
  /** P7: no turn is earlier than the last one, although the estimate of the store's time may have been corrected since. */
  #notBefore = 0;
  /** S1: stays true until the run has ended, whatever its rollbacks wait for. */
  #rollingBack = false;
  /** When the run is retried as a whole (D10): until then no code runs. */
  #retryRunAt: number | undefined;

  /** `onChange`: a step has ended, or a timer is due. */
  constructor(workflow: AnyWorkflow, run: RunRow, host: DriverHost, onChange: () => void) {
    this.workflow = workflow;
    this.#host = host;
    this.#run = run;
    this.#turns = run.turns;
    this.#historyLength = run.historyLength;
    this.inbox = new RunInbox(workflow, host, this.queue, () => this.#run);
    this.#executor = this.#createExecutor();
    this.operations = new OpenOperations({
      carries: STEPS,
      environment: host.environment,
      logger: host.logger,
      run: this,
      workerId: host.workerId,
      now: () => host.now(),
      bodyOf: (command) => this.#bodyOf(command),
      keyOf: ({ unit, name, n }) => idempotencyKeyOf(this.runId, this.#run.execution, formatLocation(unit, name, n)),
      encode: (value, what) => this.#executor.encode(value, what),
      deadlineAt: () => this.#run.deadlineAt,
      expires: false,
      onChange,
    });
  }

  /** Its row, as it was claimed. */
  get run(): RunRow {
    return this.#run;
  }
  get runId(): string {
    return this.#run.id;
  }
  get epoch(): number {
    return this.#run.epoch;
  }
  get executor(): Executor {
    return this.#executor;
  }
  /** Turns that are in memory. */
  get turns(): number {
    return this.#turns;
  }
  get retryRunAt(): number | undefined {
    return this.#retryRunAt;
  }

  // ── loading ──

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
  /** A claim begins. */
  claimed(claim: ClaimedRun): void {
    this.inbox.beginClaim(claim.turns !== undefined);
    this.#run = claim.run;
    this.#historyLength = claim.run.historyLength;
    if (claim.turns !== undefined) this.#rollingBack = isRollingBack(claim.turns); // S1: also of a claim that ends before it is replayed
    this.#notBefore = Math.max(this.#notBefore, claim.lastTime ?? 0); // P7: also after an execution that another worker ended
  }
  /** The run waits to be retried as a whole: messages that have come wait, too. */
  waitToRetry(at: number, { inbox }: ClaimedRun): void {
    this.#retryRunAt = at;
    this.inbox.passOver(inbox);
  }
  /** The run is still in memory: only its attempts are read again. */
  recount(claim: ClaimedRun): void {
    this.operations.recount(claim.attempts, knownAttempts(this.#host.blocked, claim));
  }
  /** Replays the history. Returns an error if the code can't. */
  async recover(claim: ClaimedRun, resumed: boolean, isOver: () => boolean): Promise<Error | undefined> {
    const turns = claim.turns ?? [];
    const { attempt, deadlineAt } = claim.run;
    this.#turns = claim.run.turns;
    this.#notBefore = Math.max(this.#notBefore, turns.at(-1)?.time ?? 0); // P7: also of a turn that a resume voids
    const fork = pendingFork(claim);
    if (fork !== undefined) return this.#recoverFork(claim, fork, isOver);
    const { view, jobs, voided } = recoveryOf(turns, { resumed, attempt, deadlineAt });
    for (const job of jobs) this.queue.push(job);
    const failure = await this.replay(view, isOver);
    if (failure !== undefined || isOver()) return failure;
    const stored = { turns, attempts: claim.attempts, voids: voided?.causes };
    this.operations.restore(this.#executor, stored, knownAttempts(this.#host.blocked, claim));
    this.#repeated = voided === undefined ? [] : await this.#requestsOf(turns, resumed ? undefined : (voided.causes ?? []));
    return undefined;
  }
  /** F1: replays the copied turns of a fork. What they left open, and its first turn does not settle, is done again. */
  async #recoverFork(claim: ClaimedRun, { jobs }: ForkMessage, isOver: () => boolean): Promise<Error | undefined> {
    const turns = claim.turns ?? [];
    const resume = jobs.find((job) => job.type === "resume");
    const failure = await this.replay(resumedView(turns, resume), isOver);
    if (failure !== undefined || isOver()) return failure;
    const settled = new Set(jobs.flatMap((job) => (job.type === "resolve" || job.type === "fire" ? job.seq : [])));
    const openOperations = this.#executor.openOperations.filter((seq) => !settled.has(seq));
    this.operations.restore({ openOperations }, { turns, attempts: claim.attempts, voids: resume?.voids });
    this.#repeated = forkedRequestsOf({ turns, jobs, openOperations, runId: this.runId });
    return undefined;
  }
  /** Replays these turns with a new executor. `isOver`: whether the claim has ended meanwhile; then no code runs. */
  async replay(view: readonly Turn[], isOver: () => boolean): Promise<Error | undefined> {
    const executor = this.#createExecutor();
    this.#executor = executor;
    const completion = await this.#host.turnQueue.run(async () => (isOver() ? undefined : executor.replay(view)));
    return completion?.status === "failed" ? completion.error : undefined;
  }
  #requestsOf(turns: readonly Turn[], only: readonly number[] | undefined): Promise<RepeatedRequest[]> {
    const { openOperations } = this.#executor;
    return repeatedRequestsOf({ turns, jobs: this.queue.jobs, openOperations, only, attempts: () => this.#host.attempts(this.runId) });
  }
  /** Drops the executor, and with it all promises of its code. */
  evict(): void {
    void this.#executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }

  /** Undefined: the step is no longer open. */
  #bodyOf({ seq }: OpeningCommand): Body | undefined {
    const body = this.#executor.body(seq);
    if (body === undefined) return undefined;
    const standIn = this.#host.replaceStep(body.name);
    if (standIn !== undefined) return { ...body, run: standIn as Body["run"] };
    return body.kind === "transaction" ? transactionBody(body, seq, this, this.#host) : body;
  }

  // ── turns ──

  /** A turn with these jobs at the current time. */
  activationOf(jobs: readonly Job[]): Activation {
    const time = Math.max(this.#host.now(), this.#notBefore, this.operations.latestFired);
    return { time, jobs, historyLength: this.#historyLength };
  }
  /** A commit without a turn: attempts, or parking. */
  bareDraft(given: "running" | "sleeping" | "blocked"): Draft {
    const { id: runId, execution, epoch } = this.#run;
    const status = this.#rollingBack && given !== "blocked" ? "rolling_back" : given;
    return { runId, execution, epoch, workerId: this.#host.workerId, status, lease: "keep" };
  }
  /** The commit of a turn. What the turn has changed is noted, except for its effects, which wait for the commit (D1). */
  turnDraft(activation: Activation, completion: Completion & { status: "ok" }): Draft {
    const { id: runId, execution, epoch, queue, key, priority, version, deadlineAt } = this.#run;
    const context: JournalContext = {
      runId,
      execution,
      epoch,
      workerId: this.#host.workerId,
      queue,
      key,
      priority,
      version,
      turns: this.#turns,
      historyLength: this.#historyLength,
      deadlineAt,
      environment: this.#host.environment,
      executor: this.#executor,
    };
    const draft = draftOf(context, activation, completion);
    for (const { command, attempts, isStarted } of this.#repeated) askAgain(context, command, draft, attempts, isStarted);
    // D9: an end, which may be undone, changes nothing here: the run ends with its commit, or continues from before it.
    const continues = draft.close === undefined;
    if (!continues) draft.lateIf = lateIfOf(completion);
    for (const job of activation.jobs) {
      if (job.type === "resolve") this.operations.answered(job.seq);
      if (continues && (job.type === "resolve" || job.type === "fire")) this.operations.settled(job.seq);
    }
    // P7: not earlier than the last turn.
    const { time = activation.time } = completion;
    if (continues) for (const command of completion.commands) this.#note(command, time);
    const fail = completion.commands.find((command) => command.type === "fail");
    if (fail?.type === "fail" && fail.retryAfter !== undefined && continues) {
      const retryRunAt = time + fail.retryAfter;
      this.#retryRunAt = this.#isAfterDeadline(retryRunAt) ? time : retryRunAt;
      this.inbox.leaveAll();
      draft.attempt = this.#run.attempt + 1;
      draft.status = "sleeping";
      this.operations.clearTimers();
    }
    this.#rollingBack ||= draft.status === "rolling_back";
    if (this.#rollingBack && continues) draft.status = "rolling_back";
    draft.rollbacks = this.#executor.rollbacks;
    const retention = this.#turns > 0 ? undefined : unrecordedRetention(this.#run, this.workflow);
    if (retention !== undefined) draft.retention = retention;
    return draft;
  }
  /** Keeps track of operations that a command opens, settles or cancels. */
  #note(command: Command, time: number): void {
    if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) {
      this.operations.settled(command.seq);
      if (!this.queue.isEmpty) this.queue.dropFire(command.seq);
    } else if ("n" in command) this.operations.opened(command, time);
  }
  /** `historyLength`: the length after this turn, if the store counted it. */
  turnWritten(turn: Turn, historyLength: number | undefined): void {
    if (this.#repeated.length > 0) this.#repeated = [];
    this.#turns++;
    this.#historyLength = historyLength ?? this.#historyLength + recordCount(turn);
    this.#host.blocked.delete(this.runId);
  }

  /** Queues outcomes and timers that are due, for the next turn. */
  collect(): void {
    for (const job of this.operations.takeJobs()) this.queue.push(job);
  }
  /** The same without checking the clock for timers. */
  collectReady(): void {
    for (const job of this.operations.takeReady()) this.queue.push(job);
  }
  waitingFor(): string[] {
    const again = this.#retryRunAt === undefined ? [] : [`another attempt at ${isoTime(this.#retryRunAt)}`];
    return [...again, ...waitingWords(this.#executor, this.operations)];
  }

  #isAfterDeadline(moment: number): boolean {
    return this.#run.deadlineAt !== undefined && moment >= this.#run.deadlineAt;
  }
  /** K7: its deadline has passed by the estimate of the store's time: no turn and no step begins, except for rollbacks. */
  get isOverdue(): boolean {
    if (this.#run.deadlineAt === undefined || this.#rollingBack) return false;
    return this.#isAfterDeadline(this.#host.now()) && !this.queue.jobs.some(({ type }) => type === "expire");
  }
}

/** The first turn of a fork, until it is committed. */
function pendingFork({ inbox }: ClaimedRun): ForkMessage | undefined {
  for (const { job } of inbox) if (job.type === "fork") return job;
  return undefined;
}

/** B4: of the first turn of a run whose start had no definition of its workflow: how long that keeps it. */
function unrecordedRetention({ retention, seed, parent, schedule }: RunRow, { options }: AnyWorkflow): RunRow["retention"] {
  if (retention !== undefined || options.retention === undefined) return undefined;
  return isUncheckedSeed(seed) || parent !== undefined || schedule !== undefined ? keptFor(options.retention) : undefined;
}
