// The entry point for LevelDB.
// Owns: nothing; it only re-exports.
// Invariants: none.

export type { AlarmQueue } from "./alarms.ts";
export type { LevelDriver } from "./driver.ts";
export { LevelStore, type LevelStoreOptions } from "./store.ts";
