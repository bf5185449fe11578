// What a failed call to Temporal means.
// Owns: telling apart unknown runs, closed runs and everything else; the errors that callers of the port get.
// Invariants: M12 (unknown and closed runs are answers, not errors); an error of the connection is never taken for a missing run.

import { HoldfastError, InvalidInputError, messageOf } from "@holdfast/core";
import { failureTypeOf, Status, statusOf } from "../bridge.ts";
import { executionFull, isFull } from "../messageLimits.ts";

/** Undefined: the call failed for another reason. */
export function absenceOf(error: unknown): "not-found" | "closed" | undefined {
  if (statusOf(error) !== Status.NOT_FOUND || failureTypeOf(error) === "NamespaceNotFoundFailure") return undefined;
  // The server has one failure type for both.
  return /already completed|aborted by closing workflow/.test(messageOf(error)) ? "closed" : "not-found";
}
export function isAlreadyStarted(error: unknown): boolean {
  return statusOf(error) === Status.ALREADY_EXISTS;
}

const UNREACHABLE: ReadonlySet<number | undefined> = new Set([
  Status.UNAVAILABLE,
  Status.DEADLINE_EXCEEDED,
  Status.RESOURCE_EXHAUSTED,
  Status.CANCELLED,
  Status.ABORTED,
]);
/** A repetition of the same call may succeed. */
export function isPassing(error: unknown): boolean {
  return UNREACHABLE.has(statusOf(error)) && !isTooLarge(error);
}

/** The server, or gRPC on its way there, refuses the size. */
function isTooLarge(error: unknown): boolean {
  return /size exceeds limit|larger than max/i.test(messageOf(error));
}
/** Core could not read the request, because a text in it is not Unicode. */
function isUnreadable(error: unknown): boolean {
  return statusOf(error) === undefined && messageOf(error).includes("DecodeError");
}

/** Resolves like the call. A failed call rejects with an error for the caller, except for answers that `absenceOf` understands. */
export async function called<T>(what: string, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw absenceOf(error) !== undefined || isAlreadyStarted(error) ? error : callerError(what, error);
  }
}

/** Undefined if the run was deleted meanwhile. */
export async function unlessDeleted<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (absenceOf(error) === undefined) throw error;
    return undefined;
  }
}

/** The error for the caller of a backend: it has a `code`. */
export function callerError(what: string, error: unknown): unknown {
  const status = statusOf(error);
  const invalid = (message: string): unknown => new InvalidInputError({ what, issues: [{ message }] });
  if (isUnreadable(error)) return invalid("An id or a name has half of a surrogate pair, which Temporal can't keep.");
  if (status === undefined) return error;
  if (isTooLarge(error)) return invalid(`A value is too large for Temporal, which accepts 2 MiB by default (${messageOf(error)}).`);
  if (isFull(error)) return executionFull(what === "signal" ? "signals" : "updates", error);
  if (status === Status.INVALID_ARGUMENT) return invalid(messageOf(error));
  if (isPassing(error))
    return new HoldfastError(`Temporal did not answer (${what}): ${messageOf(error)}`, {
      code: "HF_TEMPORAL_UNAVAILABLE",
      retryable: true,
      cause: error,
    });
  return new HoldfastError(`Temporal refused the call (${what}): ${messageOf(error)}`, { code: "HF_TEMPORAL_REFUSED", cause: error });
}
