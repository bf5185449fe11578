// The operations of a run that the server carries out: activities, timers, children, messages to other runs.
// Owns: which of Core's numbers belongs to which operation, and what is scheduled again: a step whose worker was lost, a task that a worker
// has declined, a side effect that backs off.
// Invariants: D7 (a lost attempt counts; one that no worker began does not), C7 (an operation that is no longer awaited gets no outcome),
// Y1 (everything here follows from the jobs and commands of the run, so that replay schedules the same).

import {
  type CancelRunCommand,
  type CarriedOutBy,
  type Command,
  carriedOutBy,
  DeadlineExceededError,
  dueOf,
  type Executor,
  type Job,
  OPTIONS,
  type OpeningCommand,
  type Outcome,
  RunAlreadyExistsError,
  resolveRetry,
  type SignalRunCommand,
  serializeError,
  type Turn,
  UnsupportedError,
} from "@holdfast/core";
import { activityRetry, workerLost } from "@holdfast/host";
import type { ActivationJob, CoreCommand } from "../bridge.ts";
import { attemptOf, fromFailure, innermost, isTooLate, stepTimeout, type TemporalFailure, timeoutOf } from "../failures.ts";
import type { RecordedOptions } from "../headers.ts";
import { ANOTHER_WORKER, HOST, RETRY_OF } from "../names.ts";
import { type Returned, readReturned } from "../payloads.ts";
import { msOf } from "../proto.ts";
import type { HistoryCheck } from "./historyCheck.ts";
import { childFailure, lastBeat, limitOf, messageFailure } from "./outcomes.ts";
import {
  activityIdOf,
  cancelRun,
  locationOf,
  refusalOf,
  type ScheduledRun,
  type Scheduling,
  scheduleActivity,
  scheduleLocal,
  scheduleStep,
  signalRun,
  startChild,
  startTimer,
  wordsFor,
} from "./schedules.ts";

/** Operations whose function is part of the workflow. */
const STEPS = carriedOutBy("worker");
/** Core's numbers of what the host schedules by itself: far from those of the executor. */
const FIRST_OWN_SEQ = 2 ** 31;
/** Milliseconds until a declined task is offered again: doubled each time. */
const FIRST_DECLINE = 1_000;
const LONGEST_DECLINE = 60_000;

type ResolveActivity = NonNullable<ActivationJob["resolveActivity"]>;
type Backoff = NonNullable<NonNullable<ResolveActivity["result"]>["backoff"]>;

/** Operations that the server carries out, besides timers. */
type HeldCommand = CarriedOutBy<"worker" | "activityWorker" | "otherRun" | "inline">;

interface Held {
  readonly command: HeldCommand;
  readonly openedAt: number;
  /** Core's number of what is scheduled now. */
  coreSeq: number;
  isLocal: boolean;
  /** Attempts that have failed or were lost before this scheduling. */
  before: number;
  declines: number;
  /** The run has asked to cancel it, and awaits its end. */
  isCanceled: boolean;
  /** Set while it waits to be scheduled again. */
  timer: number | undefined;
  backoff: Backoff | undefined;
}

export interface HeldOptions {
  readonly run: ScheduledRun;
  readonly executor: Executor;
  readonly ownQueue: string | undefined;
  readonly stepQueue: string;
  readonly deadlineAt: number | undefined;
}

export class HeldOperations {
  readonly #options: HeldOptions;
  readonly #held = new Map<number, Held>();
  readonly #activities = new Map<number, Held>();
  /** Timers of operations, by the operation's number, which is Core's number too. */
  readonly #timers = new Set<number>();
  /** Timers after which an operation is scheduled again. */
  readonly #pauses = new Map<number, Held>();
  /** Children that an earlier execution has started, and that have started. */
  readonly #childrenBefore = new Set<number>();
  #deadlineTimer: number | undefined;
  #nextSeq = FIRST_OWN_SEQ;
  #commands: CoreCommand[] = [];
  /** The time of the turn. */
  now = 0;

  constructor(options: HeldOptions) {
    this.#options = options;
  }

  /** Operations that were cancelled in this activation. */
  readonly canceled: number[] = [];
  /** Set once the run is replayed: the recorded options of its operations (Y2). */
  recorded: Pick<HistoryCheck, "optionsOf"> | undefined;

  /** Begins to gather Core's commands for an activation. */
  begin(now: number): void {
    this.#commands = [];
    this.canceled.length = 0;
    this.now = now;
  }
  take(): CoreCommand[] {
    return this.#commands;
  }
  push(command: CoreCommand): void {
    this.#commands.push(command);
  }
  /** Whether something of an earlier turn is in progress at the server, besides timers and abandoned children. */
  isBusy(openedBefore: (seq: number) => boolean): boolean {
    for (const [seq, { command }] of this.#held) {
      const isAbandoned = command.type === "child" && command.parentClose === "abandon" && command.detached === true;
      if (openedBefore(seq) && !isAbandoned) return true;
    }
    return false;
  }
  /** Core's numbers of the side effects and local steps that have not ended. */
  get locals(): number[] {
    return [...this.#held.values()].flatMap(({ isLocal, coreSeq, timer }) => (isLocal && timer === undefined ? coreSeq : []));
  }
  /** Whether the run has cancelled the operation, and waits for its end. */
  isCanceled(seq: number): boolean {
    return this.#held.get(seq)?.isCanceled === true;
  }
  /** The operation of a step that a worker was given. */
  commandOf(seq: number): OpeningCommand | undefined {
    return this.#held.get(seq)?.command;
  }

  // ── commands of a turn ──

  /**
   * Schedules what the commands ask for, in their order; `other` gets each of them as well. What is opened and over within the turn is not
   * scheduled at all.
   */
  apply(commands: readonly Command[], time: number, other: (command: Command) => void): void {
    const over = new Set<number>();
    for (const command of commands)
      if (command.type === "settle" || (command.type === "cancel" && command.join !== true)) over.add(command.seq);
    for (const command of commands) {
      if ("n" in command) {
        if (!over.has(command.seq)) this.open(command, time);
      } else if (command.type === "settle") this.#endTimer(command.seq);
      else if (command.type === "cancel") this.#cancel(command.seq, command.join === true);
      other(command);
    }
  }
  /** After a continue-as-new: schedules the operations that were open, with what is left of their timers. */
  restore(turns: readonly Turn[]): void {
    const open = new Set(this.#options.executor.openOperations);
    for (const { commands, time } of turns)
      for (const command of commands) {
        if ("n" in command && open.has(command.seq)) this.open(command, time);
        else if (command.type === "child") this.#childrenBefore.add(command.seq);
      }
  }

  open(command: OpeningCommand, openedAt: number): void {
    const refusal = refusalOf(command);
    if (refusal !== undefined) {
      this.#jobs.push({ type: "resolve", seq: command.seq, outcome: { status: "failed", error: serializeError(refusal) } });
      return;
    }
    const due = dueOf(command, openedAt);
    if (due !== undefined) {
      this.#timers.add(command.seq);
      this.push(startTimer(command.seq, due - this.now, wordsFor(command)));
    }
    switch (command.type) {
      case "step":
      case "transaction":
      case "rollback":
      case "sideEffect":
      case "activity":
        return this.#schedule(this.#hold(command, openedAt));
      case "child": {
        this.#hold(command, openedAt);
        return this.push(
          startChild(command, this.#options.executor.childWorkflow(command.seq), this.#options.run, this.#scheduling(command)),
        );
      }
      case "signalRun":
      case "cancelRun":
        if (command.runId === this.#options.run.workflowId) return this.#sendToSelf(command);
        this.#hold(command, openedAt);
        return this.push(command.type === "signalRun" ? signalRun(command, this.#options.run) : cancelRun(command, this.#options.run));
      case "childResult":
        return this.#expectNothingOf(command.child);
      default:
        command satisfies Exclude<OpeningCommand, HeldCommand>;
        return; // the executor settles it by itself, or it needs no more than its record
    }
  }
  /** M1: the server delivers no message of a run to itself. It arrives at the end of the turn that sends it. */
  #sendToSelf(command: SignalRunCommand | CancelRunCommand): void {
    const { workflowId, execution, payloads } = this.#options.run;
    const { seq } = command;
    const message: Job =
      command.type === "cancelRun"
        ? { type: "cancel" }
        : { type: "signal", id: `${workflowId}/~${execution}/${seq}`, name: command.signal, payload: command.payload };
    this.#jobs.push({ type: "resolve", seq, outcome: { status: "completed", value: payloads.codec.encode(undefined) } }, message);
  }
  /** The execution that started it would have heard of its end: this one never does. */
  #expectNothingOf(child: number): void {
    if (!this.#childrenBefore.delete(child)) return;
    const instead = 'Let the child signal the run when it ends, or start it without parentClose "abandon".';
    const error = new UnsupportedError({ feature: "the result of an abandoned child after a commit of its parent", host: HOST, instead });
    this.#jobs.push({ type: "resolve", seq: child, outcome: { status: "failed", error: serializeError(error) } });
  }
  #hold(command: HeldCommand, openedAt: number): Held {
    const held: Held = {
      command,
      openedAt,
      coreSeq: command.seq,
      isLocal: false,
      before: 0,
      declines: 0,
      isCanceled: false,
      timer: undefined,
      backoff: undefined,
    };
    this.#held.set(command.seq, held);
    return held;
  }
  #scheduling(command: OpeningCommand): Scheduling {
    return { seq: command.seq, before: 0, openedAt: this.now, now: this.now };
  }
  /** On the queue of this worker, which has the run in memory; after a failure of that, on the queue of all workers. */
  #schedule(held: Held, isOwn = true): void {
    const { run, executor, ownQueue, stepQueue } = this.#options;
    const { command, coreSeq: seq, before, openedAt } = held;
    const scheduling: Scheduling = { seq, before, openedAt, now: this.now };
    this.#activities.set(seq, held);
    // The first time it is compared with history, as the code wants it. From then on what history has is in force (Y2).
    const recorded = seq === command.seq ? undefined : this.recorded?.optionsOf(activityIdOf(command));
    if (command.type === "activity") return this.push(scheduleActivity(withOptions(command, recorded), run, scheduling));
    const code = executor.body(command.seq);
    const body = code && recorded ? { ...code, timeout: recorded.timeout, retry: activityRetry(recorded.retry, code.retry) } : code;
    if (body === undefined) throw new Error(`There is no function for ${command.type} ${locationOf(command)}.`); // an open step has one
    if (command.type === "sideEffect" || body.isLocal === true) {
      held.isLocal = true;
      const { backoff } = held;
      const again = backoff && { attempt: backoff.attempt ?? 1, originalScheduleTime: backoff.originalScheduleTime ?? null };
      return this.push(scheduleLocal(command, body, run, scheduling, again));
    }
    const queue = isOwn && ownQueue !== undefined ? { queue: ownQueue, isOwn } : { queue: stepQueue, isOwn: false };
    this.push(scheduleStep(command, body, run, scheduling, queue));
  }
  #scheduleAgain(held: Held): void {
    this.#activities.delete(held.coreSeq);
    held.coreSeq = this.#nextSeq++;
    this.#schedule(held, false);
  }
  /** Offers a task again later, whatever the reason why it was not taken. */
  #pause(held: Held, ms: number, why: string): void {
    this.#activities.delete(held.coreSeq);
    held.timer = this.#nextSeq++;
    this.#pauses.set(held.timer, held);
    this.push(startTimer(held.timer, ms, `${why} ${locationOf(held.command)}`));
  }

  // ── cancellation ──

  #cancel(seq: number, join: boolean): void {
    if (this.#endTimer(seq)) return;
    const held = this.#held.get(seq);
    if (held === undefined) return;
    if (held.timer !== undefined) {
      // It is not scheduled now. A run that waits for its end gets it in `takeJobs`.
      this.#pauses.delete(held.timer);
      this.push({ cancelTimer: { seq: held.timer } });
      held.timer = undefined;
      this.#held.delete(seq);
      if (join) this.#jobs.push({ type: "resolve", seq, outcome: { status: "canceled" } });
      return;
    }
    held.isCanceled = true;
    this.canceled.push(seq);
    switch (held.command.type) {
      case "child":
        this.push({ cancelChildWorkflowExecution: { childWorkflowSeq: held.coreSeq, reason: "" } });
        break;
      case "signalRun":
      case "cancelRun":
        break; // it is on its way
      default:
        held.command satisfies CarriedOutBy<"worker" | "activityWorker" | "inline">;
        // A local one is dropped by the worker, which reports it as cancelled. If Core were asked, and it had just ended, the task would fail.
        if (!held.isLocal) this.push({ requestCancelActivity: { seq: held.coreSeq } });
    }
    if (!join) this.#forget(held);
  }
  readonly #jobs: Job[] = [];
  /** Outcomes that follow from the commands of this turn: they are delivered in the same activation. */
  takeJobs(): Job[] {
    return this.#jobs.splice(0);
  }
  /** Its outcome, if there is one, is dropped. */
  #forget(held: Held): void {
    this.#held.delete(held.command.seq);
    this.#activities.delete(held.coreSeq);
  }
  #endTimer(seq: number): boolean {
    if (!this.#timers.delete(seq)) return false;
    this.push({ cancelTimer: { seq } });
    return true;
  }

  // ── the deadline (K7) ──

  startDeadline(): void {
    const { deadlineAt } = this.#options;
    if (deadlineAt === undefined) return;
    this.#deadlineTimer = this.#nextSeq++;
    this.push(startTimer(this.#deadlineTimer, deadlineAt - this.now, "deadline"));
  }

  expiry(): Job {
    const { run, deadlineAt } = this.#options;
    return { type: "expire", error: serializeError(new DeadlineExceededError({ runId: run.workflowId, deadline: deadlineAt ?? 0 })) };
  }

  // ── jobs of Core ──

  /** A timer, or the outcome of an operation; undefined for other jobs, and for what needs no job of ours. */
  outcomeOf(job: ActivationJob): Job | undefined {
    if (job.fireTimer) return this.fired(job.fireTimer.seq ?? 0);
    if (job.resolveActivity) return this.activityEnded(job.resolveActivity);
    if (job.resolveChildWorkflowExecutionStart) return this.childStarted(job.resolveChildWorkflowExecutionStart);
    if (job.resolveChildWorkflowExecution) return this.childEnded(job.resolveChildWorkflowExecution);
    if (job.resolveSignalExternalWorkflow) return this.messageSent(job.resolveSignalExternalWorkflow);
    if (job.resolveRequestCancelExternalWorkflow) return this.messageSent(job.resolveRequestCancelExternalWorkflow);
    return undefined;
  }

  /** The job for the executor; undefined if the host deals with it, or if the operation is over. */
  fired(seq: number): Job | undefined {
    if (seq === this.#deadlineTimer) {
      this.#deadlineTimer = undefined;
      return this.expiry();
    }
    const paused = this.#pauses.get(seq);
    if (paused !== undefined) {
      this.#pauses.delete(seq);
      paused.timer = undefined;
      this.#scheduleAgain(paused);
      return undefined;
    }
    return this.#timers.delete(seq) ? { type: "fire", seq } : undefined;
  }

  activityEnded({ seq, result }: ResolveActivity): Job | undefined {
    const held = this.#activities.get(seq ?? 0);
    if (held === undefined) return undefined;
    const outcome = this.#outcomeOf(held, result ?? {});
    if (outcome === undefined) return undefined;
    this.#forget(held);
    // K7: the next attempt would begin after the deadline.
    if (outcome.status === "failed" && isTooLate(result?.failed?.failure)) return this.expiry();
    return { type: "resolve", seq: held.command.seq, outcome };
  }
  /** Undefined if the operation goes on. */
  #outcomeOf(held: Held, result: NonNullable<ResolveActivity["result"]>): Outcome | undefined {
    const { payloads } = this.#options.run;
    const { completed, failed, cancelled, backoff } = result;
    if (completed) {
      const returned = readReturned(completed.result);
      if (returned !== undefined) return this.#returned(held, returned);
      return { status: "completed", value: payloads.fromTemporal(completed.result) };
    }
    if (backoff) {
      held.backoff = backoff;
      this.#pause(held, backoff.backoffDuration ? msOf(backoff.backoffDuration) : 1, RETRY_OF);
      return undefined;
    }
    // Core abandons a local one if it drops its run to make room for others: the run has not asked for it, and goes on waiting.
    if (cancelled && held.isLocal) return this.#again(held, () => this.#scheduleAgain(held));
    if (cancelled) return { status: "canceled" };
    return this.#failed(held, failed?.failure ?? {});
  }
  #again(held: Held, schedule: () => void): Outcome | undefined {
    if (held.isCanceled) return { status: "canceled" };
    schedule();
    return undefined;
  }
  #returned(held: Held, { why, before }: Returned): Outcome | undefined {
    // D7: its function has begun, and may have done what it does once.
    if (why === "released") return this.#lost(held, before);
    held.before = before;
    return this.#again(held, () => this.#declined(held));
  }
  #declined(held: Held): void {
    const wait = Math.min(LONGEST_DECLINE, FIRST_DECLINE * 2 ** Math.min(held.declines++, 10));
    this.#pause(held, wait, ANOTHER_WORKER);
  }

  #failed(held: Held, failure: TemporalFailure): Outcome | undefined {
    const { codec } = this.#options.run.payloads;
    const inner = innermost(failure);
    const limit = timeoutOf(inner);
    const { command, before } = held;
    const beat = lastBeat(inner);
    // D1: a worker that is lost at the beginning of an attempt has sent no heartbeat for it.
    const isBegun = limit !== "scheduleToStart" && (beat === undefined || beat.isOver === true);
    const attempt = (beat?.attempt ?? before) + (isBegun ? 1 : 0);
    // No worker has begun it: the one that it was meant for is gone.
    if (limit === "scheduleToStart" && STEPS.has(command.type)) {
      held.before = beat?.attempt ?? before;
      return this.#again(held, () => this.#scheduleAgain(held));
    }
    const options = withOptions<OpeningCommand>(command, this.recorded?.optionsOf(activityIdOf(command)));
    if (limit === "heartbeat" && !(options.type === "activity" && options.heartbeat !== undefined)) return this.#lost(held, attempt);
    if (limit !== undefined) {
      const timeout = limitOf(options, limit) ?? 0;
      const details = { step: command.name, timeout, attempt };
      const error = stepTimeout(command.type === "activity" ? { ...details, limit } : details);
      return { status: "failed", error, attempts: attempt };
    }
    if (inner.canceledFailureInfo) return { status: "canceled" };
    return { status: "failed", error: fromFailure(inner, codec), attempts: attemptOf(inner) ?? before + 1 };
  }
  /** D7: the attempt counts, and other workers take over. */
  #lost(held: Held, attempt: number): Outcome | undefined {
    const retry = this.#retryOf(held);
    held.before = attempt;
    const { nonRetryable: _, ...policy } = retry ?? {};
    if (attempt >= resolveRetry(policy, "operation").maxAttempts)
      return { status: "failed", error: serializeError(workerLost(attempt)), attempts: attempt };
    return this.#again(held, () => this.#scheduleAgain(held));
  }
  #retryOf({ command }: Held) {
    const recorded = this.recorded?.optionsOf(activityIdOf(command));
    if (recorded !== undefined) return recorded.retry;
    return command.type === "activity" ? command.retry : this.#options.executor.body(command.seq)?.retry;
  }

  childStarted({ seq, succeeded, failed, cancelled }: NonNullable<ActivationJob["resolveChildWorkflowExecutionStart"]>): Job | undefined {
    const held = this.#held.get(seq ?? 0);
    if (held === undefined || held.command.type !== "child") return undefined;
    const { command } = held;
    if (succeeded) return command.detached === true ? { type: "childStarted", seq: command.seq, runId: command.id } : undefined;
    this.#held.delete(command.seq);
    if (cancelled) return { type: "resolve", seq: command.seq, outcome: { status: "canceled" } };
    const error = serializeError(new RunAlreadyExistsError({ runId: failed?.workflowId || command.id }));
    return { type: "resolve", seq: command.seq, outcome: { status: "failed", error } };
  }
  childEnded({ seq, result }: NonNullable<ActivationJob["resolveChildWorkflowExecution"]>): Job | undefined {
    const held = this.#held.get(seq ?? 0);
    if (held === undefined || held.command.type !== "child") return undefined;
    this.#held.delete(held.command.seq);
    const { payloads } = this.#options.run;
    const { completed, failed, cancelled } = result ?? {};
    let outcome: Outcome;
    if (completed) outcome = { status: "completed", value: payloads.fromTemporal(completed.result) };
    else if (cancelled) outcome = { status: "canceled" };
    else outcome = childFailure(innermost(failed?.failure), held.command.id, payloads.codec);
    return { type: "resolve", seq: held.command.seq, outcome };
  }
  messageSent({ seq, failure }: NonNullable<ActivationJob["resolveSignalExternalWorkflow"]>): Job | undefined {
    const held = this.#held.get(seq ?? 0);
    if (held === undefined || (held.command.type !== "signalRun" && held.command.type !== "cancelRun")) return undefined;
    this.#held.delete(held.command.seq);
    const { payloads } = this.#options.run;
    const { runId } = held.command;
    const outcome: Outcome = failure
      ? { status: "failed", error: messageFailure(failure, runId, payloads.codec) }
      : { status: "completed", value: payloads.codec.encode(undefined) };
    return { type: "resolve", seq: held.command.seq, outcome };
  }
}

/** Y2: what was recorded is in force, also that there was no such option. */
function withOptions<C extends OpeningCommand>(command: C, recorded: RecordedOptions | undefined): C {
  if (recorded === undefined) return command;
  const none = Object.fromEntries((OPTIONS[command.type] ?? []).map((option) => [option, undefined]));
  return { ...command, ...none, ...recorded };
}
