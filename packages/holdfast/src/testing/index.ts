// `holdfast/testing`: what tests of workflows, of stores, and of hosts, are written with.
// Owns: nothing; it is the door to the files beside it.
// Invariants: nothing behind it knows a test runner.

/** The store in memory: what another store answers can be held against it. */
export { MemoryStore } from "../store/memory/store.ts";
export {
  type Doom,
  type Host,
  type HostCapability,
  type HostConformanceOptions,
  type HostOptions,
  type HostRun,
  type HostSend,
  type HostStart,
  type HostUpdate,
  hostConformance,
  type RuleId,
} from "./hostConformance/index.ts";
export { type StoreConformanceOptions, storeConformance } from "./storeConformance/index.ts";
export { TestEngine, type TestEngineOptions, testEngine } from "./testEngine.ts";
