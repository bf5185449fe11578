// Retry policies as they are stored: complete, and without what only code has.
// Owns: nothing.
// Invariants: D8 D10 (what a policy leaves open has the defaults of its kind; a predicate is never stored).

import {
  type RecordedRetry,
  type RetryPolicy,
  resolveRetry,
  type StoredRetryPolicy,
  type StoredRunRetry,
  validateRetry,
} from "@holdfast/core";

/** As a command records it. */
export function storedRetry(retry: RecordedRetry | undefined, kind: "operation" | "run"): StoredRunRetry {
  const { nonRetryable, ...policy } = retry ?? {};
  const resolved = resolveRetry(policy, kind);
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
/** Of a run as a whole, as code says it. */
export function storedRunRetry(retry: RetryPolicy | StoredRetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  validateRetry(retry);
  const { nonRetryable } = retry;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
