// The entry point of the key-value host.
// Owns: nothing; it re-exports the host, and the parts of the core that workflows are written with.
// Invariants: nothing here needs Node.

export { type Outcome, type Payload, replay } from "@holdfast/core";
export * from "@holdfast/core/workflows";
export type { EngineDriver, KvEntry, KvWrite } from "./driver.ts";
export { MemoryAlarms, MemoryDriver, type MemoryDriverOptions, MemoryNamespace } from "./drivers/memory.ts";
export type { Environment, Timer } from "./environment.ts";
export { realEnvironment } from "./environment.ts";
export { type KvErrorEntry, kvErrors } from "./errorCatalog.ts";
export { KvFormatError, KvWriteError, RunClosingError, RunLiveError, UnsupportedOperationError, WrongNamespaceError } from "./errors.ts";
export type { RunDescription, WorkflowHandle } from "./handleTypes.ts";
export type { OpenOptions, RunOptions, SendOptions, UpdateOptions } from "./options.ts";
export type { RunResult } from "./results.ts";
export type { ChildStart, Delivery, RoutedSignal, Router } from "./router.ts";
export { createChild, createWorkflow, openWorkflow, runWorkflow } from "./runWorkflow.ts";
export type { ParentLink } from "./storage/contents.ts";
