// `holdfast/store`: the port of stores, its errors, and the two stores of this package.
// Owns: nothing; it re-exports.
// Invariants: what a store, its tests and the simulation need of this package is here, and nothing else is exported for them.

export { storeErrors } from "../errorCatalog.ts";
export type * from "./batch.ts";
export { Batcher, type BatcherOptions, type Waiting, type Write } from "./batcher.ts";
export { sizeOfMessage } from "./batchSizes.ts";
export * from "./errors.ts";
export { MemoryStore } from "./memory/store.ts";
export type * from "./port.ts";
export { openLibrary } from "./sqlite/library.ts";
export { SqliteStore } from "./sqlite/store.ts";
export type { SqliteTransaction } from "./sqlite/transact.ts";
