// The operations of an execution, as Temporal's events tell of them.
// Owns: which events belong to which operation.
// Invariants: D12 (operations in order of emission, with the attempts that Temporal has recorded: the last one of each), P11 (what an open
// run waits for). Operations that the executor settles by itself have no events, unless they have a timeout.

import {
  type Codec,
  carriedOutBy,
  describeOperation,
  OPERATIONS,
  type OperationInfo,
  type OperationKind,
  parseLocation,
  type SerializedError,
} from "@holdfast/core";
import { isoTime, readable } from "@holdfast/host";
import { adviseHere } from "../advice.ts";
import type { HistoryEvent } from "../bridge.ts";
import { fromFailure, innermost, type TemporalFailure } from "../failures.ts";
import { activityHeader } from "../headers.ts";
import { boundedId, HOST_TIMERS, RETRY_OF, ROLLBACK_SUFFIX, STEP_TYPE } from "../names.ts";
import { type Payloads, readJson, readReturned, type TemporalPayload } from "../payloads.ts";
import { api, msIfSet } from "../proto.ts";
import { patchOf } from "../worker/patches.ts";
import type { PendingActivity } from "./executions.ts";

const { PendingActivityState } = api.api.enums.v1;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type AttemptInfo = Mutable<OperationInfo["attempts"][number]>;
type OperationType = keyof typeof OPERATIONS;
interface Draft extends Omit<Mutable<OperationInfo>, "attempts"> {
  readonly type: OperationType;
  readonly n: number;
  readonly attempts: AttemptInfo[];
  /** Attempts of earlier schedulings. */
  before: number;
  /** When its timer fires. */
  dueAt: number | undefined;
  /** The attempt that runs or comes next, if it is not the first, and when it begins. */
  current: number | undefined;
  retryAt: number | undefined;
}
/** What an open run waits for. */
export interface OpenOperation {
  readonly type: OperationType;
  readonly location: string;
  /** `activity charge (attempt 2 at …)` */
  readonly words: string;
  readonly childId: string | undefined;
  /** When its next attempt begins, if one has failed. */
  readonly retryAt: number | undefined;
  readonly openedAt: number;
  /** Of the last attempt. */
  readonly error: SerializedError | undefined;
}
type EventId = { toString(): string } | null | undefined;

/** Operations that a worker of the run carries out: cancelled ones are abandoned. */
const STEPS = carriedOutBy("worker");

const ROWS = Object.entries(OPERATIONS) as [OperationType, { readonly words?: string }][];

export class OperationLog {
  readonly #payloads: Payloads;
  readonly #codec: Codec;
  readonly #drafts: Draft[] = [];
  /** By the id of the event that scheduled it. */
  readonly #byEvent = new Map<string, Draft>();
  /** By the executor's number: an operation may be scheduled several times. */
  readonly #bySeq = new Map<number, Draft>();
  readonly #byActivityId = new Map<string, Draft>();

  constructor(payloads: Payloads) {
    this.#payloads = payloads;
    this.#codec = payloads.codec;
  }

  add(event: HistoryEvent): void {
    const at = msIfSet(event.eventTime) ?? 0;
    if (event.activityTaskScheduledEventAttributes) this.#activityScheduled(event, at);
    else if (event.activityTaskStartedEventAttributes) this.#activityStarted(event.activityTaskStartedEventAttributes, at);
    else if (event.activityTaskCompletedEventAttributes) {
      const { scheduledEventId, result } = event.activityTaskCompletedEventAttributes;
      this.#completed(this.#of(scheduledEventId), result?.payloads?.[0], at);
    } else if (event.activityTaskFailedEventAttributes) {
      const { scheduledEventId, failure } = event.activityTaskFailedEventAttributes;
      this.#failed(this.#of(scheduledEventId), failure, at);
    } else if (event.activityTaskTimedOutEventAttributes) {
      const { scheduledEventId, failure } = event.activityTaskTimedOutEventAttributes;
      this.#failed(this.#of(scheduledEventId), failure, at);
    } else if (event.activityTaskCanceledEventAttributes)
      this.#canceled(this.#of(event.activityTaskCanceledEventAttributes.scheduledEventId), at);
    else if (event.markerRecordedEventAttributes) this.#marker(event, at);
    else this.#addOther(event, at);
  }
  #addOther(event: HistoryEvent, at: number): void {
    const { timerStartedEventAttributes: timer, timerFiredEventAttributes: fired, timerCanceledEventAttributes: stopped } = event;
    if (timer) {
      const draft = this.#opened(event, at, { type: "sleep", location: `timer ${timer.timerId}` });
      const dueAt = at + (msIfSet(timer.startToFireTimeout) ?? 0);
      if (draft !== undefined) draft.dueAt = dueAt;
      else this.#backsOff(readJson(event.userMetadata?.summary), dueAt);
    } else if (fired) end(this.#of(fired.startedEventId), "completed", at);
    else if (stopped) {
      const draft = this.#of(stopped.startedEventId);
      // The timeout of an operation that has ended otherwise.
      end(draft, draft?.type === "sleep" ? "canceled" : "completed", at);
    } else this.#addMessage(event, at);
  }
  /** The timer of a local step whose next attempt is due later. */
  #backsOff(summary: unknown, dueAt: number): void {
    if (typeof summary !== "string" || !summary.startsWith(`${RETRY_OF} `)) return;
    const draft = this.#byActivityId.get(boundedId(summary.slice(RETRY_OF.length + 1)));
    if (draft !== undefined) Object.assign(draft, { retryAt: dueAt, current: draft.attempts.length + 1 });
  }
  #addMessage(event: HistoryEvent, at: number): void {
    const {
      signalExternalWorkflowExecutionInitiatedEventAttributes: signal,
      requestCancelExternalWorkflowExecutionInitiatedEventAttributes: cancel,
      externalWorkflowExecutionSignaledEventAttributes: signaled,
      signalExternalWorkflowExecutionFailedEventAttributes: notSignaled,
      externalWorkflowExecutionCancelRequestedEventAttributes: canceled,
      requestCancelExternalWorkflowExecutionFailedEventAttributes: notCanceled,
    } = event;
    if (signal) this.#opened(event, at, { type: "signalRun", location: signal.signalName ?? "" });
    else if (cancel) this.#opened(event, at, { type: "cancelRun", location: cancel.workflowExecution?.workflowId ?? "" });
    else if (signaled ?? canceled) end(this.#of((signaled ?? canceled)?.initiatedEventId), "completed", at);
    else if (notSignaled ?? notCanceled) end(this.#of((notSignaled ?? notCanceled)?.initiatedEventId), "failed", at);
    else this.#addChild(event, at);
  }
  #addChild(event: HistoryEvent, at: number): void {
    const started = event.startChildWorkflowExecutionInitiatedEventAttributes;
    if (started) {
      const draft = this.#opened(event, at, { type: "child", location: started.workflowId ?? "" });
      if (draft === undefined) return;
      draft.childId = started.workflowId ?? undefined;
      this.#setInput(draft, started.input?.payloads?.[0]);
      return;
    }
    const completed = event.childWorkflowExecutionCompletedEventAttributes;
    if (completed) return this.#completed(this.#of(completed.initiatedEventId), completed.result?.payloads?.[0], at);
    const failed = event.childWorkflowExecutionFailedEventAttributes;
    if (failed) return this.#failed(this.#of(failed.initiatedEventId), failed.failure, at);
    const ended =
      event.startChildWorkflowExecutionFailedEventAttributes ??
      event.childWorkflowExecutionTerminatedEventAttributes ??
      event.childWorkflowExecutionTimedOutEventAttributes;
    if (ended) return end(this.#of(ended.initiatedEventId), "failed", at);
    const canceled = event.childWorkflowExecutionCanceledEventAttributes;
    if (canceled) this.#canceled(this.#of(canceled.initiatedEventId), at);
  }

  // ── activities ──

  #activityScheduled(event: HistoryEvent, at: number): void {
    const { activityId, activityType, input, header } = event.activityTaskScheduledEventAttributes ?? {};
    const { seq, before = 0 } = activityHeader(header?.fields) ?? {};
    const id = activityId ?? "";
    const known = seq === undefined ? undefined : this.#bySeq.get(seq);
    const isStep = activityType?.name === STEP_TYPE;
    const guess = { type: isStep ? (id.endsWith(ROLLBACK_SUFFIX) ? "rollback" : "step") : "activity", location: id } as const;
    const draft = known ?? this.#opened(event, at, guess);
    if (draft === undefined) return;
    draft.before = before;
    if (known !== undefined) this.#byEvent.set(String(event.eventId), known);
    if (!isStep) this.#setInput(draft, input?.payloads?.[0]);
    if (seq !== undefined) this.#bySeq.set(seq, draft);
    this.#byActivityId.set(id, draft);
    Object.assign(draft, { status: "scheduled", endedAt: undefined, error: undefined });
  }
  #activityStarted(started: NonNullable<HistoryEvent["activityTaskStartedEventAttributes"]>, at: number): void {
    const draft = this.#of(started.scheduledEventId);
    if (draft === undefined) return;
    draft.status = "running";
    const number = draft.before + (started.attempt ?? 1);
    this.#setAttempt(draft, {
      number,
      status: "running",
      error: undefined,
      startedAt: new Date(at),
      endedAt: undefined,
      workerId: started.identity ?? "",
    });
  }
  #setAttempt(draft: Draft, attempt: AttemptInfo): void {
    const at = draft.attempts.findIndex(({ number }) => number === attempt.number);
    if (at < 0) draft.attempts.push(attempt);
    else draft.attempts[at] = attempt;
  }
  /** Attempts that are not events yet. */
  addPending(pending: readonly PendingActivity[]): void {
    for (const activity of pending) {
      const draft = this.#byActivityId.get(activity.activityId ?? "");
      if (draft === undefined || draft.endedAt !== undefined) continue;
      const current = draft.before + (activity.attempt ?? 1);
      const isRunning = activity.state !== PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED;
      draft.status = isRunning ? "running" : "scheduled";
      draft.current = current > 1 ? current : undefined;
      if (activity.lastFailure) draft.error = this.#errorOf(activity.lastFailure);
      if (!isRunning) draft.retryAt = current > 1 ? msIfSet(activity.nextAttemptScheduleTime) : undefined;
      const startedAt = msIfSet(activity.lastStartedTime) ?? msIfSet(activity.lastAttemptCompleteTime);
      if (startedAt === undefined) continue;
      const endedAt = isRunning ? undefined : msIfSet(activity.lastAttemptCompleteTime);
      this.#setAttempt(draft, {
        number: isRunning ? current : current - 1,
        status: isRunning ? "running" : "failed",
        error: isRunning ? undefined : draft.error,
        startedAt: new Date(startedAt),
        endedAt: endedAt === undefined ? undefined : new Date(endedAt),
        workerId: activity.lastWorkerIdentity ?? "",
      });
    }
  }
  /** Side effects, local steps and patches. */
  #marker(event: HistoryEvent, at: number): void {
    const { markerName, details, failure } = event.markerRecordedEventAttributes ?? {};
    if (markerName === "core_patch") {
      const { id } = (readJson(details?.["patch-data"]?.payloads?.[0]) ?? {}) as { readonly id?: string };
      const patch = patchOf(id ?? "");
      this.#push(
        event,
        at,
        { type: "patch", unit: patch.unit, name: patch.id, n: 0 },
        patch.unit === "" ? patch.id : `${patch.unit}/${patch.id}`,
      );
      return end(this.#of(event.eventId), "completed", at);
    }
    if (markerName !== "core_local_activity") return;
    const data = (readJson(details?.["data"]?.payloads?.[0]) ?? {}) as {
      readonly activity_id?: string;
      readonly activity_type?: string;
      readonly attempt?: number;
      readonly backoff?: unknown;
    };
    const id = data.activity_id ?? "";
    const known = this.#byActivityId.get(id);
    const type = data.activity_type === STEP_TYPE ? "step" : "sideEffect";
    const draft = known?.endedAt === undefined && known !== undefined ? known : this.#opened(event, at, { type, location: id });
    if (draft === undefined) return;
    this.#byActivityId.set(id, draft);
    Object.assign(draft, { retryAt: undefined, current: undefined });
    const number = data.attempt ?? 1;
    const ended = new Date(at);
    if (type === "step")
      this.#setAttempt(draft, { number, status: "running", error: undefined, startedAt: ended, endedAt: undefined, workerId: "" });
    if (failure === null || failure === undefined) return this.#completed(draft, details?.["result"]?.payloads?.[0], at);
    this.#failed(draft, failure, at);
    if (data.backoff !== null && data.backoff !== undefined) Object.assign(draft, { status: "scheduled", endedAt: undefined });
  }

  // ── drafts ──

  #of(id: EventId): Draft | undefined {
    return this.#byEvent.get(String(id));
  }
  /** The summary has the type and the place of an operation. `guess`: for those of other SDKs. Undefined: it is not an operation. */
  #opened(event: HistoryEvent, at: number, guess: { readonly type: OperationType; readonly location: string }): Draft | undefined {
    const summary = readJson(event.userMetadata?.summary);
    if (typeof summary !== "string") {
      const name = guess.location;
      return this.#push(event, at, { type: guess.type, unit: "", name, n: 0 }, name);
    }
    const operation = operationIn(summary);
    return operation && this.#push(event, at, { type: operation.type, ...parseLocation(operation.location) }, operation.location);
  }
  #push(event: HistoryEvent, at: number, { type, unit, name, n }: Pick<Draft, "type" | "unit" | "name" | "n">, location: string): Draft {
    const row: { readonly kind: string | undefined; readonly hasAttempts?: true } = OPERATIONS[type];
    const draft: Draft = {
      type,
      n,
      location,
      unit,
      kind: (row.kind ?? type) as OperationKind,
      name,
      status: row.hasAttempts === true ? "scheduled" : "waiting",
      input: undefined,
      output: undefined,
      error: undefined,
      attempts: [],
      scheduledAt: new Date(at),
      endedAt: undefined,
      childId: undefined,
      before: 0,
      dueAt: undefined,
      current: undefined,
      retryAt: undefined,
    };
    this.#drafts.push(draft);
    this.#byEvent.set(String(event.eventId), draft);
    return draft;
  }
  #setInput(draft: Draft, payload: TemporalPayload | null | undefined): void {
    draft.input = readable(this.#codec, this.#payloads.fromTemporal(payload)).value;
  }
  #completed(draft: Draft | undefined, payload: TemporalPayload | null | undefined, at: number): void {
    if (draft === undefined) return;
    if (readReturned(payload) !== undefined) {
      draft.status = "scheduled"; // the task was given back, and is offered again
      draft.attempts.pop();
      return;
    }
    const { value, error } = readable(this.#codec, this.#payloads.fromTemporal(payload));
    draft.output = value;
    draft.error = error;
    this.#endAttempt(draft, "completed", undefined, at);
    end(draft, "completed", at);
  }
  #failed(draft: Draft | undefined, failure: TemporalFailure | null | undefined, at: number): void {
    if (draft === undefined) return;
    draft.error = this.#errorOf(failure);
    this.#endAttempt(draft, "failed", draft.error, at);
    end(draft, "failed", at);
  }
  #canceled(draft: Draft | undefined, at: number): void {
    if (draft === undefined) return;
    this.#endAttempt(draft, "lost", undefined, at);
    end(draft, STEPS.has(draft.type) ? "abandoned" : "canceled", at);
  }
  #endAttempt(draft: Draft, status: AttemptInfo["status"], error: SerializedError | undefined, at: number): void {
    const last = draft.attempts.at(-1);
    if (last?.status !== "running") return;
    last.status = status;
    last.error = error;
    last.endedAt = new Date(at);
  }
  #errorOf(failure: TemporalFailure | null | undefined): SerializedError {
    return adviseHere(fromFailure(innermost(failure), this.#codec));
  }

  // ── answers ──

  /** `closedAt`: when the run ended; since then nothing is in progress. */
  list(closedAt: number | undefined): OperationInfo[] {
    if (closedAt !== undefined) {
      for (const draft of this.#drafts) {
        this.#endAttempt(draft, "lost", undefined, closedAt);
        end(draft, "abandoned", closedAt);
      }
    }
    return this.#drafts.map(
      ({ type: _type, n: _n, before: _before, dueAt: _dueAt, current: _current, retryAt: _retryAt, ...info }) => info,
    );
  }
  /** Those that have not ended. */
  open(): OpenOperation[] {
    const drafts = this.#drafts.filter(({ endedAt }) => endedAt === undefined);
    return drafts.map((draft) => {
      const { type, location, childId, retryAt, scheduledAt, error } = draft;
      return { type, location, words: inWords(draft), childId, retryAt, openedAt: scheduledAt.getTime(), error };
    });
  }
  /** When it goes on by itself, at the earliest: the next timer, or the next attempt of an operation. */
  nextAt(): number | undefined {
    const times = this.#drafts.filter(({ endedAt }) => endedAt === undefined).flatMap(({ dueAt, retryAt }) => dueAt ?? retryAt ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }
  waitingFor(): string[] {
    return this.#drafts.filter(({ endedAt }) => endedAt === undefined).map(inWords);
  }
  /** The last failure of an operation that is tried again. */
  lastFailure(): SerializedError | undefined {
    let last: { readonly error: SerializedError | undefined; readonly at: number } | undefined;
    for (const { endedAt, error, attempts } of this.#drafts) {
      const at = attempts.at(-1)?.startedAt.getTime() ?? 0;
      if (endedAt === undefined && error !== undefined && at >= (last?.at ?? 0)) last = { error, at };
    }
    return last?.error;
  }
}

/** Operations that a replay knows more of: the executor settles them, and at most their timers have events. */
const WITHOUT_EVENTS = carriedOutBy("executor", "record");
/** All that a replay has found, in order of emission, with what the server has recorded of those that it carries out. */
export function completed(recorded: readonly OperationInfo[], replayed: readonly OperationInfo[]): OperationInfo[] {
  const byLocation = new Map(recorded.map((info) => [info.location, info]));
  return replayed.map((info) => (WITHOUT_EVENTS.has(info.kind) ? info : (byLocation.get(info.location) ?? info)));
}

/** The inverse of `describeOperation`: an operation without a name of its own is described by its location alone. Undefined for timers of the host. */
function operationIn(summary: string): { readonly type: OperationType; readonly location: string } | undefined {
  for (const [type, row] of ROWS) {
    const words = `${row.words ?? type} `;
    if (summary.startsWith(words)) return { type, location: summary.slice(words.length) };
  }
  if (HOST_TIMERS.some((words) => summary.startsWith(words))) return undefined;
  const { name } = parseLocation(summary);
  return Object.hasOwn(OPERATIONS, name) ? { type: name as OperationType, location: summary } : undefined;
}
function end(draft: Draft | undefined, status: OperationInfo["status"], at: number): void {
  if (draft === undefined || draft.endedAt !== undefined) return;
  draft.status = status;
  draft.endedAt = new Date(at);
  draft.dueAt = undefined;
}

/** In the words of the embedded engine: a first attempt goes without saying. */
function inWords({ type, unit, name, n, dueAt, current, retryAt }: Draft): string {
  const at = retryAt === undefined ? "" : ` at ${isoTime(retryAt)}`;
  const which = current === undefined ? "" : ` (attempt ${current}${at})`;
  const until = dueAt === undefined ? "" : ` until ${isoTime(dueAt)}`;
  return `${describeOperation(type, unit, name, n)}${which}${until}`;
}
