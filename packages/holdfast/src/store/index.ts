// `holdfast/store`: the port of stores, its errors, and the two stores of this package.
// Owns: nothing; it re-exports.
// Invariants: what a store, its tests and the simulation need of this package is here, and nothing else is exported for them.

export { storeErrors } from "../errorCatalog.ts";
export type * from "./batch.ts";
export { Batcher, type BatcherOptions, type Waiting, type Write } from "./batcher.ts";
export { sizeOfMessage } from "./batchSizes.ts";
export * from "./errors.ts";
export * from "./inspectPort.ts";
export { isolate, type Refused } from "./isolate.ts";
export type * from "./keepingPort.ts";
export { MemoryStore } from "./memory/store.ts";
export { migrationSql } from "./migrationSql.ts";
export type * from "./port.ts";
export * from "./queuePort.ts";
export * from "./recordFields.ts";
export * from "./schedulePort.ts";
export { compareTexts, findsNothing, type Limit, type Meaning, meaningOf, passes, textAfter } from "./search/attributeTests.ts";
export { type Choice, chooseSource, type Look, type Source } from "./search/choose.ts";
export { formatCursor, type Place, parseCursor } from "./search/cursors.ts";
export { type AttributeTest, DEFAULT_QUEUE, type RunCounts, type RunFilter, type Scalar } from "./searchPort.ts";
export { openLibrary } from "./sqlite/library.ts";
export { SqliteStore } from "./sqlite/store.ts";
export type { SqliteTransaction } from "./sqlite/transact.ts";
export * from "./workerPort.ts";
