// Retry policies in their stored form: complete, and without functions.
// Owns: nothing.
// Invariants: D8 D10 (omitted fields get the defaults of the policy's kind; a predicate is never stored).

import {
  type RecordedRetry,
  type RetryPolicy,
  resolveRetry,
  type StoredRetryPolicy,
  type StoredRunRetry,
  validateRetry,
} from "@holdfast/core";

/** The policy that a command has recorded, complete: what it leaves out has the default of an operation, or of a run. */
export function storedRetry(retry: RecordedRetry | undefined, kind: "operation" | "run"): StoredRunRetry {
  const { nonRetryable, ...policy } = retry ?? {};
  const resolved = resolveRetry(policy, kind);
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
/**
 * The policy of a run as a whole, from what code or a start says. Undefined: the run is not retried.
 * @throws `InvalidInputError` if it is invalid.
 */
export function storedRunRetry(retry: RetryPolicy | StoredRetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  validateRetry(retry);
  const { nonRetryable } = retry;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
