// What users install: the door of `holdfast`.
// Owns: nothing; it re-exports the model from the core, and the engine.
// Invariants: names and shapes are those of the public surface.

export { type OperationInfo, RunFailedError, type RunInfo, RunOpenError, ScheduleNotFoundError } from "@holdfast/core";
export * from "@holdfast/core/workflows";
export { Holdfast } from "./api/holdfast.ts";
export type { OpenOptions } from "./api/openOptions.ts";
export type { BulkAction, BulkResult, Reason, WorkerInfo } from "./api/operatingTypes.ts";
export type { Limit, QueueInfo, QueueLoad, QueueSpec, Queues, Rate } from "./api/queueTypes.ts";
export { replay, type TemporalEvents } from "./api/replay.ts";
export type { ScheduleInfo, ScheduleOptions, ScheduleSpec, Schedules } from "./api/scheduleTypes.ts";
export type {
  AttributeTest,
  ForkOptions,
  Run,
  RunCounts,
  RunFilter,
  Scalar,
  SendOptions,
  StartOptions,
  UpdateOptions,
} from "./api/types.ts";
export type { Worker, WorkerOptions } from "./api/workerTypes.ts";
export type { TemporalOptions } from "./backend/port.ts";
export { engineErrors, type HostErrorEntry } from "./errorCatalog.ts";
