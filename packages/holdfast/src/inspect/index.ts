// The entry point `holdfast/inspect`: reading an engine or a store, for consoles and other tools.
// Owns: nothing; it only re-exports.
// Invariants: nothing behind it writes.

export { isOptional, workflowSchemas } from "../engine/workflowSchemas.ts";
export { inspect, type OpenReadOnlyOptions, openReadOnly } from "./inspect.ts";
export {
  type ReplayResult,
  type ReplayWithSourceOptions,
  replayWithSource,
  type SourcePosition,
  sourceOfOperation,
} from "./replaySource.ts";
export { timelineOf } from "./timeline/timelineOf.ts";
export type * from "./types.ts";
export { showTurn } from "./values.ts";
