// The door to LevelDB.
// Owns: nothing; it re-exports.
// Invariants: none.

export type { AlarmQueue } from "./alarms.ts";
export type { LevelDriver } from "./driver.ts";
export { LevelStore, type LevelStoreOptions } from "./store.ts";
