// The entry point of values/: durations, retry policies and seeded randomness.
// Owns nothing.
// Invariants: everything here is a pure function of its arguments (X1).

export { formatDuration } from "../base/formatDuration.ts";
export { type Duration, exactDuration, parseDuration } from "./duration.ts";
export { checkOptionNames, edits as editDistance, type OptionNames } from "./options.ts";
export { Random } from "./random.ts";
export {
  askedWait,
  countable,
  isRetryable,
  type ResolvedRetry,
  type RetriedKind,
  type RetryPolicy,
  resolveRetry,
  retryDefaults,
  retryDelay,
  type StoredRetryPolicy,
  validateRetry,
} from "./retry.ts";
