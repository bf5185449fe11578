// Turns operations of a run into Core's commands.
// Owns: how each kind of operation is scheduled on the server: ids, queues, timeouts, retries.
// Invariants: D8 (the recorded policy applies; the server counts and delays attempts), C7 (a step with a rollback is joined when it is
// cancelled), Y2 (ids and summaries are locations, so that people and replay recognize an operation).

import {
  type ActivityCommand,
  type AnyWorkflow,
  type CancelRunCommand,
  type ChildCommand,
  describeOperation,
  formatLocation,
  type HoldfastError,
  InvalidInputError,
  type OpeningCommand,
  type RecordedRetry,
  type RetryPolicy,
  RunNotFoundError,
  recordedRetry,
  resolveRetry,
  type SignalRunCommand,
  type StepBody,
  type StoredRunRetry,
} from "@holdfast/core";
import { childStartOf, idempotencyKeyOf } from "@holdfast/host";
import type { CoreCommand } from "../bridge.ts";
import { headerOf, type RecordedOptions } from "../headers.ts";
import { memoFields } from "../memo.ts";
import { boundedId, isImpossible, isName, MOST_BYTES, priorityFields, ROLLBACK_SUFFIX, STEP_TYPE, type Urgency } from "../names.ts";
import { jsonPayload, type Payloads, type TemporalPayload } from "../payloads.ts";
import { api, core, durationOf, type temporal } from "../proto.ts";

export const SIDE_EFFECT_TYPE = "holdfast.sideEffect";
/** The server wants a limit for every activity. */
const TEN_YEARS = 10 * 365 * 24 * 3_600_000;
/** Milliseconds by which the server's limit is later than the worker's own, which knows more about the attempt. */
const LATER = 1_000;

/** The server counts attempts in 32 bits. */
const MANY = 2 ** 31 - 1;

const { ActivityCancellationType } = core.workflow_commands;
const { ChildWorkflowCancellationType, ParentClosePolicy } = core.child_workflow;
const { WorkflowIdReusePolicy } = api.api.enums.v1;
/** The server's name for the failure of an attempt whose worker stopped sending heartbeats: such an attempt is lost, not failed (D7). */
const HEARTBEAT_TIMEOUT = "TemporalTimeout:Heartbeat";

/** The run that the operations belong to. */
export interface ScheduledRun {
  readonly workflowId: string;
  readonly execution: number;
  readonly namespace: string;
  /** The queue of the run. */
  readonly queue: string;
  /** Children and activities inherit both unless they set their own. */
  readonly urgency: Urgency;
  /** Milliseconds without a heartbeat after which an attempt counts as lost. */
  readonly lease: number;
  readonly deadlineAt: number | undefined;
  /** Milliseconds that a step waits for the worker that has the run, before any other worker may run it. */
  readonly ownQueueWait: number;
  readonly payloads: Payloads;
  /** Search attributes for these attributes, as far as the server knows them. */
  searchAttributes(attributes: Readonly<Record<string, string | number | boolean | null>>): Record<string, TemporalPayload> | undefined;
}

/** One scheduling of an operation. An operation is scheduled again if its worker was lost or had not the code. */
export interface Scheduling {
  /** Core's number. */
  readonly seq: number;
  /** The number of attempts that have failed before. */
  readonly before: number;
  /** When the operation was opened, and the time of this turn, in milliseconds since 1970. */
  readonly openedAt: number;
  readonly now: number;
}

export function locationOf({ unit, name, n }: OpeningCommand): string {
  return formatLocation(unit, name, n);
}
/** The id of an activity: its location. The name of a rollback is the location of its step. */
export function activityIdOf(command: OpeningCommand): string {
  return boundedId(command.type === "rollback" ? `${command.name}${ROLLBACK_SUFFIX}` : locationOf(command));
}
/** `step charge`, `sleep#2`. */
export function wordsFor({ type, unit, name, n }: OpeningCommand): string {
  return describeOperation(type, unit, name, n);
}
function summary(text: string): Pick<CoreCommand, "userMetadata"> {
  return { userMetadata: { summary: jsonPayload(text) } };
}

// ── what the server would refuse ──

/** The error of an operation with which the server would refuse the whole task, each time: the run could not handle that (V4). */
export function refusalOf(command: OpeningCommand): HoldfastError | undefined {
  switch (command.type) {
    case "signalRun":
      // M12: there can be no such run.
      return isImpossible(command.runId) ? new RunNotFoundError(command) : misnamed("ctx.signalRun", { signal: command.signal });
    case "cancelRun":
      return isImpossible(command.runId) ? new RunNotFoundError(command) : undefined;
    case "child":
      return misnamed("ctx.child", { id: command.id, workflow: command.name, queue: command.queue });
    case "activity":
      return misnamed("ctx.activity", { activity: command.name, queue: command.queue });
    default:
      return undefined; // their ids are cut to fit
  }
}
function misnamed(what: string, names: Readonly<Record<string, string | undefined>>): InvalidInputError | undefined {
  for (const [option, name] of Object.entries(names)) {
    if (name === undefined || isName(name)) continue;
    const message = `Temporal accepts at most ${MOST_BYTES} bytes in UTF-8, without halves of surrogate pairs: this has ${Buffer.byteLength(name)} bytes.`;
    return new InvalidInputError({ what, issues: [{ message, path: [option] }] });
  }
  return undefined;
}

// ── steps ──

export function stepQueueOf(queue: string): string {
  return `${queue}~steps`;
}
export function ownQueueOf(queue: string, workerId: string): string {
  return `${queue}~${workerId}`;
}

/** `queue`: the worker's own, or that of all workers of the run's queue. */
export function scheduleStep(
  command: OpeningCommand,
  body: StepBody,
  run: ScheduledRun,
  { seq, before }: Scheduling,
  { queue, isOwn }: { readonly queue: string; readonly isOwn: boolean },
): CoreCommand {
  const { timeout, retry } = body;
  return {
    ...summary(wordsFor(command)),
    scheduleActivity: {
      seq,
      activityId: activityIdOf(command),
      activityType: STEP_TYPE,
      taskQueue: queue,
      headers: headerOf({
        seq: command.seq,
        before,
        execution: run.execution,
        key: keyOf(command, run),
        ...(run.deadlineAt !== undefined && command.type !== "rollback" && { deadlineAt: run.deadlineAt }),
        options: { timeout, retry: retry && recordedRetry(retry) },
      }),
      arguments: [],
      scheduleToStartTimeout: isOwn ? durationOf(run.ownQueueWait) : null,
      startToCloseTimeout: durationOf(timeout === undefined ? TEN_YEARS : timeout + LATER),
      heartbeatTimeout: durationOf(run.lease),
      retryPolicy: retryPolicyOf(retry, before, [HEARTBEAT_TIMEOUT]),
      cancellationType:
        body.rollback === undefined ? ActivityCancellationType.TRY_CANCEL : ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
      doNotEagerlyExecute: true,
    },
  };
}

/** Milliseconds. A longer wait before the next attempt is a timer of the run: during it messages arrive, and a cancellation has effect. */
const LONGEST_LOCAL_WAIT = 1_000;

/** A side effect, or a step with `local: true`: the worker that computes the turn runs it, without the server. */
export function scheduleLocal(
  command: OpeningCommand,
  body: StepBody,
  run: ScheduledRun,
  { seq, before, now }: Scheduling,
  again?: { readonly attempt: number; readonly originalScheduleTime: temporal.api.common.v1.IPayload | object | null },
): CoreCommand {
  const { timeout, retry } = body;
  return {
    ...summary(wordsFor(command)),
    scheduleLocalActivity: {
      seq,
      activityId: activityIdOf(command),
      activityType: command.type === "sideEffect" ? SIDE_EFFECT_TYPE : STEP_TYPE,
      attempt: again?.attempt ?? 1,
      originalScheduleTime: (again?.originalScheduleTime ?? null) as null,
      headers: headerOf({ seq: command.seq, before, execution: run.execution, key: keyOf(command, run), at: now }),
      arguments: [],
      startToCloseTimeout: durationOf(timeout === undefined ? TEN_YEARS : timeout + LATER),
      retryPolicy: retryPolicyOf(retry, 0, []),
      localRetryThreshold: durationOf(LONGEST_LOCAL_WAIT),
      cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    },
  };
}
function keyOf(command: OpeningCommand, { workflowId, execution }: ScheduledRun): string {
  return idempotencyKeyOf(workflowId, execution, locationOf(command));
}

type TemporalRetry = temporal.api.common.v1.IRetryPolicy;
/** 0 means no limit. */
function attemptsOf(maxAttempts: number, before: number): number {
  return maxAttempts > MANY ? 0 : Math.max(1, maxAttempts - before);
}
/** `before`: the attempts that were used up before. */
function retryPolicyOf(retry: RetryPolicy | RecordedRetry | undefined, before: number, nonRetryable: readonly string[]): TemporalRetry {
  const { nonRetryable: _, ...policy } = retry ?? {};
  const { maxAttempts, initialInterval, backoff, maxInterval } = resolveRetry(policy, "operation");
  const initial = Math.max(1, initialInterval * backoff ** Math.min(before, 60));
  return {
    maximumAttempts: attemptsOf(maxAttempts, before),
    initialInterval: durationOf(Math.min(initial, Math.max(1, maxInterval))),
    backoffCoefficient: Math.max(1, backoff),
    maximumInterval: durationOf(Math.max(1, maxInterval)),
    nonRetryableErrorTypes: [...nonRetryable],
  };
}

// ── activities ──

export function scheduleActivity(command: ActivityCommand, run: ScheduledRun, { seq, before, openedAt, now }: Scheduling): CoreCommand {
  const { name, input, queue, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat } = command;
  return {
    ...summary(wordsFor(command)),
    scheduleActivity: {
      seq,
      activityId: activityIdOf(command),
      activityType: name,
      taskQueue: queue ?? run.queue,
      headers: headerOf({
        seq: command.seq,
        before,
        execution: run.execution,
        key: keyOf(command, run),
        ...(run.deadlineAt !== undefined && { deadlineAt: run.deadlineAt }),
        options: optionsOfActivity(command),
      }),
      arguments: [run.payloads.toTemporal(input)],
      scheduleToCloseTimeout: scheduleToClose === undefined ? null : durationOf(Math.max(1, openedAt + scheduleToClose - now)),
      scheduleToStartTimeout: scheduleToStart === undefined ? null : durationOf(scheduleToStart),
      startToCloseTimeout: durationOf(startToClose === undefined ? TEN_YEARS : startToClose + LATER),
      heartbeatTimeout: durationOf(heartbeat ?? run.lease),
      // Without a heartbeat of the user's, the host sends them: then silence means that the worker is gone, and the attempt does not count.
      retryPolicy: retryPolicyOf(retry, before, heartbeat === undefined ? [HEARTBEAT_TIMEOUT] : []),
      cancellationType: ActivityCancellationType.TRY_CANCEL,
      doNotEagerlyExecute: false,
      ...priorityFields(urgencyOf(command, run)),
    },
  };
}
function urgencyOf({ priority, key }: ActivityCommand | ChildCommand, { urgency }: ScheduledRun): Urgency {
  return { priority: priority ?? urgency.priority, key: key ?? urgency.key };
}
function optionsOfActivity(command: ActivityCommand): RecordedOptions {
  const { queue, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat, key, priority } = command;
  return { queue, retry, startToClose, scheduleToClose, scheduleToStart, heartbeat, key, priority };
}

// ── timers ──

/** The server refuses a timer of no length. */
export function startTimer(seq: number, ms: number, what: string): CoreCommand {
  return { ...summary(what), startTimer: { seq, startToFireTimeout: durationOf(Math.max(1, Math.ceil(ms))) } };
}

// ── other runs ──

/** `definition`: of the child, if this worker has it. */
export function startChild(
  command: ChildCommand,
  definition: AnyWorkflow | undefined,
  run: ScheduledRun,
  { now }: Scheduling,
): CoreCommand {
  const child = childStartOf(command, definition);
  const deadlineAt = child.deadlineAt ?? (child.deadline === undefined ? undefined : now + child.deadline);
  const indexed = run.searchAttributes(child.attributes);
  const { priority, key } = urgencyOf(command, run);
  return {
    ...summary(wordsFor(command)),
    startChildWorkflowExecution: {
      seq: command.seq,
      namespace: run.namespace,
      workflowId: child.id,
      workflowType: child.workflow,
      taskQueue: command.queue ?? run.queue,
      input: [run.payloads.toTemporal(child.input)],
      parentClosePolicy: PARENT_CLOSE[command.parentClose ?? "cancel"],
      workflowIdReusePolicy:
        child.onConflict === "restart-if-closed"
          ? WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
          : WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
      retryPolicy: runRetryPolicy(child.retry),
      headers: headerOf({
        version: child.version,
        deadlineAt,
        ...(priority !== undefined && { priority }),
        ...(key !== undefined && { workKey: key }),
        options: optionsOfChild(command),
      }),
      memo: memoFields({ attributes: child.attributes }),
      ...(indexed !== undefined && { searchAttributes: { indexedFields: indexed } }),
      cancellationType: ChildWorkflowCancellationType.TRY_CANCEL,
      ...priorityFields({ priority, key }),
    },
  };
}
function optionsOfChild({ queue, retry, parentClose, key, priority, attributes, onConflict }: ChildCommand): RecordedOptions {
  return { queue, retry, parentClose, key, priority, attributes, onConflict };
}
const PARENT_CLOSE = {
  cancel: ParentClosePolicy.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
  abandon: ParentClosePolicy.PARENT_CLOSE_POLICY_ABANDON,
  terminate: ParentClosePolicy.PARENT_CLOSE_POLICY_TERMINATE,
} as const;

/** The retry of a run as a whole (D10). */
export function runRetryPolicy(retry: StoredRunRetry | undefined): TemporalRetry | null {
  if (retry === undefined) return null;
  const { maxAttempts, initialInterval, backoff, maxInterval, nonRetryable } = retry;
  return {
    maximumAttempts: attemptsOf(maxAttempts, 0),
    initialInterval: durationOf(Math.max(1, initialInterval)),
    backoffCoefficient: Math.max(1, backoff),
    maximumInterval: durationOf(Math.max(1, maxInterval)),
    nonRetryableErrorTypes: [...(nonRetryable ?? [])],
  };
}

export function signalRun(command: SignalRunCommand, run: ScheduledRun): CoreCommand {
  const { seq, runId, signal, payload } = command;
  return {
    ...summary(wordsFor(command)),
    signalExternalWorkflowExecution: {
      seq,
      workflowExecution: { namespace: run.namespace, workflowId: runId, runId: "" },
      signalName: signal,
      args: [run.payloads.toTemporal(payload)],
      headers: {},
    },
  };
}
export function cancelRun(command: CancelRunCommand, run: ScheduledRun): CoreCommand {
  const { seq, runId } = command;
  return {
    ...summary(wordsFor(command)),
    requestCancelExternalWorkflowExecution: {
      seq,
      workflowExecution: { namespace: run.namespace, workflowId: runId, runId: "" },
      reason: "",
    },
  };
}
