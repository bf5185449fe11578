// The entry point of executor/: the executor and what hosts need to run it.
// Owns: nothing; it only re-exports.
// Invariants: X1.

export { quietController } from "./abortSignals.ts";
export { type Barrier, createBarrier } from "./barrier.ts";
export { describeCommand } from "./comparison.ts";
export { Executor, NOT_ACCEPTED_IN_TIME } from "./executor.ts";
export type { ExecutorOptions } from "./executorOptions.ts";
export { isUncheckedSeed, uncheckedSeed } from "./inputs.ts";
export { DEFAULT_LIMITS, encodeLimited, type Limits } from "./limits.ts";
export { NO_OPEN_RECEIVE } from "./mailbox.ts";
export type { ExecutionObserver, RunningTurn, TurnWatch } from "./observer.ts";
export { isDeliveredError } from "./operation.ts";
export { recordedRetry, type StepBody } from "./operations/steps.ts";
export { evaluateQuery } from "./queries.ts";
export { type RejectionFilter, withholdRejections } from "./rejections.ts";
export { changedOptionText } from "./replay/matcher.ts";
export { createTurnClock } from "./turnClock.ts";
export { noteHandled, noteUnhandled } from "./unheardResults.ts";
