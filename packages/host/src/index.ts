// The first door: what every host needs, in any JavaScript runtime. It knows nothing of attempts, timers or stores.

export { onAbort } from "./abortListeners.ts";
export { byName, isActivity, isWorkflow, listed } from "./definitions.ts";
export { type Environment, keepAliveEnvironment, realEnvironment, type Timer, timeOrderedId } from "./environment.ts";
export { checkedMessage, checkedSignal, checkedUpdate, declaredMessage, validated } from "./messageSchemas.ts";
export { readable } from "./readable.ts";
export { storedRunRetry } from "./storedRunRetry.ts";
export { TurnQueue } from "./turnQueue.ts";
export { tolerateRejections, withholdsRejections } from "./unhandledRejections.ts";
export { type Served, WorkflowTable } from "./workflowTable.ts";
