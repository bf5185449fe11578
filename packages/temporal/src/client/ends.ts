// How an execution ended, from its last event.
// Owns: the statuses of closed runs, and their outputs and errors.
// Invariants: P1 (one end), K1 (the reason of a cancellation), K6 (a terminated run), E1 (errors are opened with the codec), P10 (a
// continued execution has no end of its own: the chain goes on).

import {
  DeadlineExceededError,
  opened,
  type Payload,
  payloadFromJson,
  type RunStatus,
  RunTerminatedError,
  type SerializedError,
  serializeError,
} from "@holdfast/core";
import { canceledBy } from "@holdfast/host";
import { adviseHere } from "../advice.ts";
import type { HistoryEvent } from "../bridge.ts";
import { fromFailure } from "../failures.ts";
import { readJson } from "../payloads.ts";
import { api } from "../proto.ts";
import type { ClientSettings } from "./settings.ts";

const { WorkflowExecutionStatus: Status } = api.api.enums.v1;

/** What the server records if a termination has no reason. */
const NO_REASON = "terminated by user via frontend";

export interface ExecutionEnd {
  readonly status: RunStatus;
  readonly output: Payload | undefined;
  readonly error: SerializedError | undefined;
  /** D10: Temporal has no way to continue a failed run. */
  readonly resumable?: false;
}
/** The worker's record of a cancellation, in the details of the event. */
export interface CancelDetails {
  readonly reason?: string;
  /** As `payloadToJson` makes it. */
  readonly value?: unknown;
  readonly error?: SerializedError;
}

/** Temporal's id of the execution that continues this one: continue-as-new, or a retry. Undefined if the event ended the run. */
export function successorIn(event: HistoryEvent): string | undefined {
  const attributes =
    event.workflowExecutionContinuedAsNewEventAttributes ??
    event.workflowExecutionFailedEventAttributes ??
    event.workflowExecutionTimedOutEventAttributes ??
    event.workflowExecutionCompletedEventAttributes;
  const next = attributes?.newExecutionRunId ?? "";
  return next === "" ? undefined : next;
}

export function endIn(event: HistoryEvent, runId: string, { payloads, codec }: ClientSettings): ExecutionEnd {
  const {
    workflowExecutionCompletedEventAttributes: completed,
    workflowExecutionFailedEventAttributes: failed,
    workflowExecutionCanceledEventAttributes: canceled,
    workflowExecutionTerminatedEventAttributes: terminated,
  } = event;
  if (completed) return { status: "completed", output: payloads.first(completed.result?.payloads), error: undefined };
  if (failed) return { status: "failed", output: undefined, error: adviseHere(fromFailure(failed.failure, codec)), resumable: false };
  if (canceled) {
    const { reason, value, error } = opened((readJson(canceled.details?.payloads?.[0]) ?? {}) as CancelDetails, codec);
    return {
      status: "canceled",
      output: value === undefined ? undefined : payloadFromJson(value),
      error: canceledBy(reason, error),
    };
  }
  if (terminated) {
    const { reason = "" } = opened({ reason: terminated.reason ?? "" }, codec);
    const error = new RunTerminatedError(reason === "" || reason === NO_REASON ? { runId } : { runId, reason });
    return { status: "terminated", output: undefined, error: serializeError(error) };
  }
  if (event.workflowExecutionContinuedAsNewEventAttributes) return { status: "continued", output: undefined, error: undefined };
  // A time limit that another client has set: those of Holdfast are kept by its workers.
  return { status: "failed", output: undefined, error: serializeError(new DeadlineExceededError({ runId })), resumable: false };
}

/** Undefined while the execution is open. */
export function closedStatus(status: number): RunStatus | undefined {
  switch (status) {
    case Status.WORKFLOW_EXECUTION_STATUS_COMPLETED:
      return "completed";
    case Status.WORKFLOW_EXECUTION_STATUS_FAILED:
    case Status.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
      return "failed";
    case Status.WORKFLOW_EXECUTION_STATUS_CANCELED:
      return "canceled";
    case Status.WORKFLOW_EXECUTION_STATUS_TERMINATED:
      return "terminated";
    case Status.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
      return "continued";
    default:
      return undefined;
  }
}
