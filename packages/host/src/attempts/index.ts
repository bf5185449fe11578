// The second door: for hosts that carry operations out themselves, and count attempts and keep timers for them.

export { type AttemptEnd, Attempts, type AttemptsOptions, retryAfter } from "./attempts.ts";
export { type KnownAttempts, OpenOperations, type OpenOperationsOptions, type Prepared, type Starting } from "./openOperations.ts";
export { type Recovery, recoveryOf, resumedView, retryRunAtOf } from "./recovery.ts";
export { waitingWords } from "./waitingWords.ts";
