// The retry policy of a run as a whole, as hosts store it.
// Owns: nothing.
// Invariants: what is stored is complete (defaults are resolved when the run starts) and holds names only, no functions.

import { type RetryPolicy, resolveRetry, type StoredRetryPolicy, type StoredRunRetry, validateRetry } from "@holdfast/core";

/** A `nonRetryable` that is a function is left out: the definition has it. */
export function storedRunRetry(retry: RetryPolicy | StoredRetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  validateRetry(retry);
  const { nonRetryable } = retry;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
