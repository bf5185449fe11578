// The entry point for hosts that run operations themselves: counts their attempts and keeps their timers.

export { type AttemptEnd, Attempts, type AttemptsOptions, retryAfter } from "./attempts.ts";
export { type KnownAttempts, OpenOperations, type OpenOperationsOptions, type Prepared, type Starting } from "./openOperations.ts";
export { isRollingBack, type Recovery, recoveryOf, resumedView, retryRunAtOf } from "./recovery.ts";
export { waitingWords } from "./waitingWords.ts";
