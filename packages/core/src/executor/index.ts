// The executor and what its hosts need.
// Owns: nothing; it is the door to the files beside it.
// Invariants: X1.

export { type Barrier, createBarrier } from "./barrier.ts";
export type { Limits } from "./execution.ts";
export { DEFAULT_LIMITS } from "./execution.ts";
export { Executor, type ExecutorOptions, evaluateQuery } from "./executor.ts";
export { formatLocation, type LocationPart, NameRegistry } from "./location.ts";
export { isDeliveredError } from "./operation.ts";
export type { StepBody } from "./steps.ts";
export type { RunningTurn, TurnWatch } from "./watch.ts";
