// Converts stored errors of Holdfast to Temporal's failures and back.
// Owns: where each part of an error is kept: `type` is the name, `details` the data, `cause` the cause.
// Invariants: P8 (fromFailure(toFailure(e)) equals e); E1 (with a user's codec only name and code are readable); failures of other SDKs
// become errors with the same name, message and causes.

import {
  CanceledError,
  type Codec,
  NO_OPEN_RECEIVE,
  opened,
  type SerializedError,
  StepTimeoutError,
  sealed,
  serializeError,
} from "@holdfast/core";
import { jsonPayload, readJson, type TemporalPayload } from "./payloads.ts";
import { api, durationOf, type temporal, textOf } from "./proto.ts";

export type TemporalFailure = temporal.api.failure.v1.IFailure;

const SOURCE = "holdfast";
const { TimeoutType } = api.api.enums.v1;

interface FailureOptions {
  readonly nonRetryable?: boolean;
  /** Milliseconds. */
  readonly nextRetryDelay?: number | undefined;
  /** The number of the attempt that failed. */
  readonly attempt?: number | undefined;
  /** The next attempt would begin after the deadline of the run (K7). */
  readonly isTooLate?: boolean;
  /** When a local step failed, in the time of its run. */
  readonly at?: number | undefined;
}
/** The second entry of `details`: what the other fields have no place for. */
interface Extra {
  readonly hasData?: boolean;
  readonly sealed?: unknown;
  readonly attempt?: number | undefined;
  readonly isTooLate?: boolean;
  readonly at?: number;
}

export function toFailure(error: SerializedError, codec: Codec, options: FailureOptions = {}): TemporalFailure {
  return convert(sealed({ error }, codec).error as SerializedError & { readonly sealed?: unknown }, options);
}
function convert(error: SerializedError & { readonly sealed?: unknown }, options: FailureOptions): TemporalFailure {
  const { name, message, stack, cause, data, sealed: secret } = error;
  const { nonRetryable = false, nextRetryDelay, attempt, isTooLate = false, at } = options;
  const extra: Extra = {
    ...(data !== undefined && { hasData: true }),
    ...(secret !== undefined && { sealed: secret }),
    ...(attempt !== undefined && { attempt }),
    ...(isTooLate && { isTooLate }),
    ...(at !== undefined && { at }),
  };
  const details: TemporalPayload[] = data === undefined && Object.keys(extra).length === 0 ? [] : [jsonPayload(data ?? null)];
  if (secret !== undefined || attempt !== undefined) details.push(jsonPayload(extra));
  return {
    message: textOf(message),
    source: SOURCE,
    stackTrace: textOf(stack ?? ""),
    ...(cause !== undefined && { cause: convert(cause, {}) }),
    applicationFailureInfo: {
      type: textOf(name),
      nonRetryable,
      ...(details.length > 0 && { details: { payloads: details } }),
      ...(nextRetryDelay !== undefined && { nextRetryDelay: durationOf(nextRetryDelay) }),
    },
  };
}

export function fromFailure(failure: TemporalFailure | null | undefined, codec: Codec): SerializedError {
  return opened({ error: revert(failure ?? {}) }, codec).error;
}
function revert(failure: TemporalFailure): SerializedError {
  const info = failure.applicationFailureInfo;
  if (failure.source === SOURCE && info !== null && info !== undefined) return ours(failure);
  const name = foreignName(failure);
  const { message, stackTrace } = readable(failure);
  const error: SerializedError = { name, message };
  if (stackTrace !== "") error.stack = stackTrace;
  if (failure.cause !== null && failure.cause !== undefined) error.cause = revert(failure.cause);
  const details = info?.details?.payloads ?? [];
  if (details.length > 0) error.data = { details: details.map((payload) => readJson(payload)) };
  return error;
}
function ours(failure: TemporalFailure): SerializedError {
  const info = failure.applicationFailureInfo;
  const [data, second] = info?.details?.payloads ?? [];
  const extra = (readJson(second) ?? { hasData: data !== undefined }) as Extra;
  const error: SerializedError & { sealed?: unknown } = { name: info?.type ?? "Error", message: failure.message ?? "" };
  if (failure.stackTrace !== "" && failure.stackTrace !== null && failure.stackTrace !== undefined) error.stack = failure.stackTrace;
  if (failure.cause !== null && failure.cause !== undefined) error.cause = revert(failure.cause);
  if (extra.hasData === true) error.data = readJson(data);
  if (extra.sealed !== undefined) error.sealed = extra.sealed;
  return error;
}

/** Failures whose text another SDK has encoded keep it in a payload of its own. */
function readable(failure: TemporalFailure): { readonly message: string; readonly stackTrace: string } {
  const encoded = readJson(failure.encodedAttributes) as { readonly message?: string; readonly stack_trace?: string } | undefined;
  return {
    message: encoded?.message ?? failure.message ?? "",
    stackTrace: encoded?.stack_trace ?? failure.stackTrace ?? "",
  };
}

function foreignName(failure: TemporalFailure): string {
  const { applicationFailureInfo: application } = failure;
  if (application !== null && application !== undefined) return application.type || "Error";
  if (failure.canceledFailureInfo) return "CanceledError";
  if (failure.terminatedFailureInfo) return "RunTerminatedError";
  if (failure.timeoutFailureInfo) return "TimeoutFailure";
  if (failure.serverFailureInfo) return "ServerFailure";
  if (failure.activityFailureInfo) return "ActivityFailure";
  if (failure.childWorkflowExecutionFailureInfo) return "ChildWorkflowFailure";
  if (failure.resetWorkflowFailureInfo) return "ResetFailure";
  return "Error";
}

/** The number of the attempt that failed, if one of our workers has recorded it. */
export function attemptOf(failure: TemporalFailure | null | undefined): number | undefined {
  return extraOf(failure)?.attempt;
}
export function isTooLate(failure: TemporalFailure | null | undefined): boolean {
  return extraOf(innermost(failure))?.isTooLate === true;
}
/** When a local step failed, in the time of its run. */
export function failedAt(failure: TemporalFailure | null | undefined): number | undefined {
  return extraOf(innermost(failure))?.at;
}
function extraOf(failure: TemporalFailure | null | undefined): Extra | undefined {
  if (failure?.source !== SOURCE) return undefined;
  return readJson(failure.applicationFailureInfo?.details?.payloads?.[1]) as Extra | undefined;
}

/** The failure beneath the wrappers that the server puts around failures of activities and children. */
export function innermost(failure: TemporalFailure | null | undefined): TemporalFailure {
  let found = failure ?? {};
  while ((found.activityFailureInfo || found.childWorkflowExecutionFailureInfo) && found.cause) found = found.cause;
  return found;
}

export type ActivityTimeout = "startToClose" | "scheduleToClose" | "scheduleToStart" | "heartbeat";
/** Which limit of an activity has passed; undefined if the failure is not a timeout. */
export function timeoutOf(failure: TemporalFailure): ActivityTimeout | undefined {
  const info = failure.timeoutFailureInfo;
  if (info === null || info === undefined) return undefined;
  switch (info.timeoutType) {
    case TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE:
      return "scheduleToClose";
    case TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START:
      return "scheduleToStart";
    case TimeoutType.TIMEOUT_TYPE_HEARTBEAT:
      return "heartbeat";
    default:
      return "startToClose";
  }
}
export function stepTimeout(details: { step: string; timeout: number; attempt: number; limit?: ActivityTimeout }): SerializedError {
  return serializeError(new StepTimeoutError(details));
}
/** M8: no receive handles the update now; a later one may. */
export function isEarly({ data }: SerializedError): boolean {
  return (data as { readonly reason?: unknown } | undefined)?.reason === NO_OPEN_RECEIVE;
}
export function canceled(reason: string | undefined): SerializedError {
  return serializeError(new CanceledError(reason));
}
