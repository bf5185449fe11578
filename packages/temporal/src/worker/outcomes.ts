// What the server's failures mean to the operation that they end.
// Owns: nothing; it only reads them.
// Invariants: D7 (the attempt that a lost worker was at), M12 (a message to a run that does not exist), K6 (a child that was ended from outside).

import {
  type ActivityCommand,
  type Codec,
  DeadlineExceededError,
  type OpeningCommand,
  type Outcome,
  RunNotFoundError,
  RunTerminatedError,
  type SerializedError,
  serializeError,
} from "@holdfast/core";
import { type ActivityTimeout, canceled, fromFailure, type TemporalFailure } from "../failures.ts";
import { executionFull } from "../messageLimits.ts";
import { readJson } from "../payloads.ts";

/** What the last heartbeat before a timeout said of its attempt. */
export function lastBeat(failure: TemporalFailure): { readonly attempt: number; readonly isOver?: boolean } | undefined {
  const payloads = failure.timeoutFailureInfo?.lastHeartbeatDetails?.payloads ?? [];
  const { attempt, isOver } = (readJson(payloads[1]) ?? {}) as { readonly attempt?: number; readonly isOver?: boolean };
  return attempt === undefined ? undefined : { attempt, isOver: isOver === true };
}
/** The length of the limit that has passed. */
export function limitOf(command: OpeningCommand, limit: ActivityTimeout): number | undefined {
  if (command.type === "activity") return (command as ActivityCommand)[limit];
  return command.type === "step" || command.type === "transaction" ? command.timeout : undefined;
}
/** The server says of these only how they ended. A time limit is one that another tool has set. */
export function childFailure(failure: TemporalFailure, runId: string, codec: Codec): Outcome {
  if (failure.canceledFailureInfo) return { status: "canceled" };
  if (failure.terminatedFailureInfo) return { status: "failed", error: serializeError(new RunTerminatedError({ runId })) };
  if (failure.timeoutFailureInfo) return { status: "failed", error: serializeError(new DeadlineExceededError({ runId })) };
  return { status: "failed", error: fromFailure(failure, codec) };
}
/** The server does not tell an unknown run from a closed one. */
export function messageFailure(failure: TemporalFailure, runId: string, codec: Codec): SerializedError {
  const type = failure.applicationFailureInfo?.type;
  if (failure.canceledFailureInfo) return canceled(undefined);
  if (type === "SignalCountLimitExceeded") return serializeError(executionFull("signals"));
  return type === "ExternalWorkflowExecutionNotFound" ? serializeError(new RunNotFoundError({ runId })) : fromFailure(failure, codec);
}
