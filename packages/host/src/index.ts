// The main entry point: what every host needs, in any JavaScript runtime. It counts no attempts, keeps no timers and knows no store.

export { onAbort } from "./abortListeners.ts";
export { type ActivityCall, type AnyActivity, activityRetry, runActivity } from "./activityBody.ts";
export {
  type ActivityLimits,
  Attempt,
  type AttemptHost,
  type AttemptRow,
  type Body,
  failureOf,
  idempotencyKeyOf,
  outcomeOf,
  quietControllerOf,
  Recorded,
  type Report,
  type StoredAttempt,
  workerLost,
} from "./attempt.ts";
export { BlockedLog, type BlockedRun, blockedReason } from "./blockedLog.ts";
export { isBrokenRule } from "./brokenRules.ts";
export { canceledBy } from "./canceled.ts";
export { childStartOf, type RequestedChild } from "./childStart.ts";
export { byName, isActivity, isWorkflow, listed } from "./definitions.ts";
export { type Environment, keepAliveEnvironment, realEnvironment, type Timer, timeOrderedId } from "./environment.ts";
export { checkedMessage, checkedSignal, checkedUpdate, declaredMessage, validated } from "./messageSchemas.ts";
export { operationsOf, type RecordedOperation, recordedOperations } from "./operationsOf.ts";
export { readable } from "./readable.ts";
export { keptFor } from "./retention.ts";
export { carriedSignals, type EndCommand, type RunEnd, retryTimeOf, runEndOf } from "./runEnd.ts";
export { serves } from "./serves.ts";
export { type StartedRun, startJobOf } from "./startJob.ts";
export { storedRetry, storedRunRetry } from "./storedRetry.ts";
export { TurnQueue } from "./turnQueue.ts";
export { tolerateRejections, withholdsRejections } from "./unhandledRejections.ts";
export { type UpdateAnswer, type UpdateOutcome, updateAnswers } from "./updateAnswers.ts";
export { type Awaited, type AwaitedOperation, awaitedBy, isoTime, lastFailure } from "./waitingFor.ts";
export { type Served, WorkflowTable } from "./workflowTable.ts";
