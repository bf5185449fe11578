// Runs the tasks that Core hands out: functions of steps and side effects, and activities.
// Owns: the attempts in progress, their heartbeats, and what is reported of each.
// Invariants: D1 (one attempt for one task), D8 (whether an error is retried is decided here, where the error is; the server does the rest),
// C7 (a body whose outcome is not awaited any more is notified and dropped), D11 (heartbeats, and details of earlier attempts), W4 (a
// worker that stops gives tasks back without an outcome).

import {
  askedWait,
  CanceledError,
  type Codec,
  HoldfastError,
  IllegalCallError,
  isRetryable,
  type Logger,
  OutOfTurnError,
  type Payload,
  resolveRetry,
  retryDelay,
  type StepInfo,
  serializeError,
} from "@holdfast/core";
import {
  Attempt,
  type AttemptHost,
  activityRetry,
  type Body,
  type Environment,
  outcomeOf,
  type Report,
  runActivity,
  type Timer,
} from "@holdfast/host";
import type { WorkerSettings } from "holdfast/backend";
import type { ActivityTask, CoreWorker } from "../bridge.ts";
import { toFailure } from "../failures.ts";
import { type ActivityHeader, activityHeader, type RecordedOptions } from "../headers.ts";
import { STEP_TYPE } from "../names.ts";
import { datedPayload, jsonPayload, type Payloads, returnedPayload, type TemporalPayload } from "../payloads.ts";
import { core, type coresdk, msIfSet } from "../proto.ts";
import type { HostedRun } from "./run.ts";
import { SIDE_EFFECT_TYPE } from "./schedules.ts";

type Start = NonNullable<ActivityTask["start"]>;
type Cancel = NonNullable<ActivityTask["cancel"]>;
type Result = coresdk.activity_result.IActivityExecutionResult;
const { ActivityCancelReason } = core.activity_task;

/** Heartbeats of a body that has just begun: the first one decides how soon it is notified of a cancellation. */
const FIRST_BEAT = 1_000;

export interface TaskContext {
  readonly settings: WorkerSettings;
  readonly codec: Codec;
  readonly payloads: Payloads;
  readonly logger: Logger;
  readonly environment: Environment;
  encode(value: unknown, what: string): Payload;
  /** The run in this worker's memory; undefined if it is not there. */
  cached(runId: string): HostedRun | undefined;
  /** The run with its history replayed, for the step `seq`; undefined if it is closed, or no code here can replay it. */
  rehydrated(workflowId: string, runId: string, seq: number): Promise<RehydratedRun | undefined>;
  /** The function of a step of the run broke a rule of workflow code. */
  broken(runId: string, error: Error): void;
}
export interface RehydratedRun {
  readonly run: HostedRun;
  /** The run may be dropped again. */
  release(): void;
}

interface Found {
  readonly body: Body;
  readonly release: (() => void) | undefined;
  /** For an activity: passes on the details of its heartbeats. */
  readonly onDetails?: (listener: Report) => void;
}

interface Running {
  /** Of Temporal; undefined for a task of another SDK's workflow. */
  readonly runId: string | undefined;
  /** Only for a local one: when it was scheduled, in the time of its run and by the clock of this process. */
  readonly local: { readonly at: number; readonly since: number } | undefined;
  readonly attempt: Attempt;
  readonly core: CoreWorker;
  readonly taskToken: Uint8Array;
  readonly title: string;
  readonly isOurs: boolean;
  readonly deadlineAt: number | undefined;
  readonly startedAt: number;
  details: TemporalPayload | undefined;
  /** Milliseconds; undefined if the host sends no heartbeats by itself. */
  readonly lease: number | undefined;
  beat: Timer | undefined;
  readonly body: Body;
  readonly release: (() => void) | undefined;
  isCanceled: boolean;
}

export class Tasks implements AttemptHost {
  readonly environment: Environment;
  readonly logger: Logger;
  readonly #context: TaskContext;
  readonly #running = new Map<string, Running>();
  readonly #byAttempt = new Map<Attempt, Running>();
  /** Tasks whose function is not found yet, and whether they were cancelled since. */
  readonly #starting = new Map<string, Cancel | undefined>();
  #isDead = false;

  constructor(context: TaskContext) {
    this.#context = context;
    this.environment = context.environment;
    this.logger = context.logger;
  }
  get size(): number {
    return this.#running.size;
  }

  async handle(worker: CoreWorker, task: ActivityTask): Promise<void> {
    const taskToken = task.taskToken ?? new Uint8Array(0);
    if (task.cancel) return this.#cancel(taskToken, task.cancel);
    if (!task.start) return;
    const key = tokenKey(taskToken);
    this.#starting.set(key, undefined);
    try {
      await this.#start(worker, taskToken, task.start);
    } catch (error) {
      await this.#report(worker, taskToken, { failed: { failure: toFailure(serializeError(error), this.#context.codec) } });
    }
    const canceled = this.#starting.get(key);
    this.#starting.delete(key);
    if (canceled !== undefined) this.#cancel(taskToken, canceled);
  }

  // ── beginning ──

  async #start(worker: CoreWorker, taskToken: Uint8Array, start: Start): Promise<void> {
    const header = activityHeader(start.headerFields);
    const number = (header?.before ?? 0) + (start.attempt ?? 1);
    const isStep = header !== undefined && (start.activityType === STEP_TYPE || start.activityType === SIDE_EFFECT_TYPE);
    const found = !isStep
      ? this.#activityBody(start)
      : start.isLocal === true
        ? this.#localBody(start, header)
        : await this.#stepBody(start, header);
    if (this.#isDead) return;
    if (found === "over") return this.#report(worker, taskToken, { cancelled: { failure: { canceledFailureInfo: {} } } });
    if (found === undefined) {
      if (header !== undefined) return this.#report(worker, taskToken, returned("declined", number - 1));
      const failure = toFailure(serializeError(notServed(start.activityType ?? "", this.#context.settings)), this.#context.codec);
      return this.#report(worker, taskToken, { failed: { failure } });
    }
    const { body, release, onDetails } = found;
    const key = header?.key ?? `${start.workflowExecution?.workflowId}/${start.activityId}`;
    const attempt = new Attempt(this, header?.seq ?? 0, number, this.environment.now(), body, () => key);
    const running: Running = {
      runId: isStep ? (start.workflowExecution?.runId ?? undefined) : undefined,
      local:
        start.isLocal === true
          ? { at: header?.at ?? this.environment.now(), since: msIfSet(start.scheduledTime) ?? this.environment.now() }
          : undefined,
      attempt,
      core: worker,
      taskToken,
      title: body.title ?? `step ${body.name}`,
      isOurs: header !== undefined,
      deadlineAt: header?.deadlineAt,
      startedAt: this.environment.elapsed(),
      details: start.heartbeatDetails?.[0],
      lease: start.isLocal === true || body.activity?.heartbeat !== undefined ? undefined : msIfSet(start.heartbeatTimeout),
      beat: undefined,
      body,
      release,
      isCanceled: false,
    };
    onDetails?.((payload) => {
      running.details = this.#context.payloads.toTemporal(payload);
      this.#beat(running);
    });
    this.#running.set(tokenKey(taskToken), running);
    this.#byAttempt.set(attempt, running);
    // D7: the number of the attempt is known to the run even if this worker is lost.
    if (running.lease !== undefined && number > 1) this.#beat(running);
    this.#scheduleBeat(running, FIRST_BEAT);
    attempt.start();
  }
  /** It is in the memory of this worker, or over. */
  #localBody({ workflowExecution }: Start, { seq }: ActivityHeader): Found | "over" {
    const run = this.#context.cached(workflowExecution?.runId ?? "");
    const body = run?.held.isCanceled(seq) === true ? undefined : run?.executor.body(seq);
    return body === undefined ? "over" : { body: bodyOf(body, undefined), release: undefined };
  }
  /** "over": the run does not wait for it any more. Undefined: this worker can't run it. */
  async #stepBody(start: Start, { seq, options }: ActivityHeader): Promise<Found | "over" | undefined> {
    const runId = start.workflowExecution?.runId ?? "";
    const cached = this.#context.cached(runId);
    const known = cached?.executor.body(seq);
    if (known !== undefined) return { body: bodyOf(known, options), release: undefined };
    const rehydrated = await this.#context.rehydrated(start.workflowExecution?.workflowId ?? "", runId, seq);
    if (rehydrated === undefined) return undefined;
    const body = rehydrated.run.executor.body(seq);
    if (body !== undefined) return { body: bodyOf(body, options), release: rehydrated.release };
    rehydrated.release();
    return "over";
  }
  #activityBody(start: Start): Found | undefined {
    const { settings, payloads, codec, encode } = this.#context;
    const activity = settings.activities.get(start.activityType ?? "");
    if (activity === undefined) return undefined;
    const { name } = activity;
    const header = activityHeader(start.headerFields);
    const options: RecordedOptions = header?.options ?? {};
    const [details] = start.heartbeatDetails ?? [];
    const call = {
      name,
      input: payloads.first(start.input),
      lastHeartbeat: details === undefined || isNone(details) ? undefined : payloads.fromTemporal(details),
    };
    let send: Report = () => {};
    const run = (info: StepInfo, report: Report): unknown => {
      const beat: Report = (payload) => {
        report(payload);
        send(payload);
      };
      return runActivity(activity.run as never, call, info, beat, { codec, encode });
    };
    // Of another SDK's workflow there is only what the server knows.
    const heartbeat = header === undefined ? msIfSet(start.heartbeatTimeout) || undefined : options.heartbeat;
    const body: Body = {
      title: `activity ${name}`,
      name,
      run,
      retry: activityRetry(options.retry, activity.options.retry),
      timeout: options.startToClose,
      activity: { heartbeat },
    };
    const onDetails = (listener: Report): void => {
      send = listener;
    };
    return { body, release: undefined, onDetails };
  }

  // ── heartbeats ──

  #scheduleBeat(running: Running, after: number): void {
    const { lease } = running;
    if (lease === undefined || lease === 0) return;
    running.beat = this.environment.after(Math.min(after, lease / 3), () => {
      this.#beat(running);
      // The longer a body runs, the less a late notification of a cancellation costs.
      this.#scheduleBeat(running, Math.max(FIRST_BEAT, (this.environment.elapsed() - running.startedAt) / 5));
    });
  }
  /** `isOver`: the attempt has failed. If a worker is lost after that, it was with the next one. */
  #beat({ core: worker, taskToken, attempt, details }: Running, isOver = false): void {
    if (this.#isDead) return;
    const sent = [details ?? jsonPayload(null), jsonPayload({ attempt: attempt.number, ...(isOver && { isOver }) })];
    void worker.heartbeat({ taskToken, details: sent });
  }

  // ── ending ──

  completed(attempt: Attempt, value: unknown): void {
    const running = this.#end(attempt);
    if (running === undefined) return;
    const { payloads, codec, encode } = this.#context;
    const outcome = outcomeOf(attempt, value, encode);
    if (outcome.status === "completed")
      return void this.#report(running.core, running.taskToken, {
        completed: { result: datedPayload(payloads.toTemporal(outcome.value), this.#endOf(running)) },
      });
    const error = outcome.status === "failed" ? outcome.error : serializeError(new CanceledError(undefined));
    const failure = toFailure(error, codec, { nonRetryable: true, attempt: attempt.number, at: this.#endOf(running) });
    void this.#report(running.core, running.taskToken, { failed: { failure } });
  }
  failed(attempt: Attempt, error: unknown): void {
    const running = this.#end(attempt);
    if (running === undefined) return;
    const { core: worker, taskToken, body, isCanceled } = running;
    if (isCanceled) return void this.#report(worker, taskToken, { cancelled: { failure: { canceledFailureInfo: {} } } });
    if (running.runId !== undefined && isIllegalCall(error)) {
      // V4: its function has called `ctx`. The run is blocked, and the step is left to a worker with corrected code.
      this.#context.broken(running.runId, error);
      return void this.#report(worker, taskToken, returned("declined", attempt.number - 1));
    }
    const nonRetryable = !isRetryable(error, body.retry) || body.isFinal?.(error) === true;
    const isTooLate = !nonRetryable && this.#isTooLate(running, error);
    const failure = toFailure(serializeError(error), this.#context.codec, {
      nonRetryable: nonRetryable || isTooLate,
      nextRetryDelay: askedWait(error),
      attempt: attempt.number,
      isTooLate,
      at: this.#endOf(running),
    });
    // D7: whichever worker gets the next attempt, the run knows how many there were.
    if (running.lease !== undefined) this.#beat(running, true);
    void this.#report(worker, taskToken, { failed: { failure } });
  }
  /** Y1: the time at which a local one has ended, which its run can't see in the history. */
  #endOf({ local }: Running): number | undefined {
    return local && local.at + Math.max(0, this.environment.now() - local.since);
  }
  /** Whether another attempt is due, but after the deadline of the run. */
  #isTooLate({ deadlineAt, body, attempt }: Running, error: unknown): boolean {
    if (deadlineAt === undefined) return false;
    const { nonRetryable: _, ...policy } = body.retry ?? {};
    const resolved = resolveRetry(policy, "operation");
    if (attempt.number >= resolved.maxAttempts) return false;
    const delay = askedWait(error) ?? retryDelay({ ...resolved, jitter: 0 }, attempt.number, 0);
    return this.environment.now() + delay >= deadlineAt;
  }
  /** Undefined if the attempt was dropped. */
  #end(attempt: Attempt): Running | undefined {
    const running = this.#byAttempt.get(attempt);
    if (running === undefined) return undefined;
    this.#byAttempt.delete(attempt);
    this.#running.delete(tokenKey(running.taskToken));
    running.beat?.cancel();
    running.release?.();
    return running;
  }
  async #report(worker: CoreWorker, taskToken: Uint8Array, result: Result): Promise<void> {
    if (this.#isDead) return;
    try {
      await worker.completeActivity({ taskToken, result });
    } catch (error) {
      this.logger.warn("The outcome of a task could not be reported; the server gives the task to a worker again.", { error });
    }
  }

  // ── cancellation ──

  #cancel(taskToken: Uint8Array, cancel: Cancel): void {
    const key = tokenKey(taskToken);
    const running = this.#running.get(key);
    if (running === undefined) {
      if (this.#starting.has(key)) this.#starting.set(key, cancel); // its run is being replayed
      return;
    }
    const { reason } = cancel;
    const { attempt, core: worker, isOurs, body } = running;
    const isStopping = reason === ActivityCancelReason.WORKER_SHUTDOWN;
    attempt.abort(isStopping ? new HoldfastError("The worker stops.", { code: "HF_WORKER_STOPPED" }) : new CanceledError(undefined));
    // C7: the outcome of a step with a rollback is awaited.
    running.isCanceled = true;
    if (!isStopping && reason === ActivityCancelReason.CANCELLED && (body as { readonly rollback?: unknown }).rollback !== undefined)
      return;
    attempt.drop();
    this.#end(attempt);
    if (isStopping && isOurs) void this.#report(worker, taskToken, returned("released", attempt.number));
    else void this.#report(worker, taskToken, { cancelled: { failure: { canceledFailureInfo: {} } } });
  }
  /**
   * Functions that run in this process are notified of their cancellation at once, not with their next heartbeat. Local ones are notified only
   * here, except of the end of the run, of which Core tells them.
   */
  cancelOf(runId: string, canceled: readonly number[] | "all"): void {
    if (canceled.length === 0) return;
    for (const running of [...this.#running.values()]) {
      if (running.runId !== runId) continue;
      if (canceled === "all" ? running.local !== undefined : !canceled.includes(running.attempt.seq)) continue;
      this.#cancel(running.taskToken, { reason: ActivityCancelReason.CANCELLED });
    }
  }
  /** Nothing is reported any more: the server gives the tasks to other workers once their time is over. */
  abandon(): void {
    this.#isDead = true;
    for (const running of [...this.#running.values()]) {
      running.attempt.drop();
      this.#end(running.attempt);
    }
  }
}

function returned(why: "declined" | "released", before: number): Result {
  return { completed: { result: returnedPayload({ why, before }) } };
}
function tokenKey(token: Uint8Array): string {
  return Buffer.from(token.buffer, token.byteOffset, token.byteLength).toString("latin1");
}
function isNone(payload: TemporalPayload): boolean {
  return payload.data !== null && payload.data !== undefined && Buffer.from(payload.data).toString() === "null";
}
/** The recorded options stay in force (Y2). A transaction has no connection to write to here: its function runs like a step's, at least once. */
function bodyOf(code: NonNullable<ReturnType<HostedRun["executor"]["body"]>>, recorded: RecordedOptions | undefined): Body {
  const body = recorded === undefined ? code : { ...code, timeout: recorded.timeout, retry: activityRetry(recorded.retry, code.retry) };
  if (body.kind !== "transaction") return body;
  return { ...body, run: (info: StepInfo) => (body.run as (tx: unknown, info: StepInfo) => unknown)(undefined, info) };
}
/** X11: a function may throw what can't even be looked at. */
function isIllegalCall(error: unknown): error is Error {
  try {
    return error instanceof OutOfTurnError || error instanceof IllegalCallError;
  } catch {
    return false;
  }
}
function notServed(type: string, { activities }: WorkerSettings): HoldfastError {
  const names = [...activities.keys()].join(", ") || "none";
  return new HoldfastError(`This worker has no activity "${type}". It serves: ${names}.`, { code: "HF_NOT_SERVED" });
}
