// `@holdfast/conformance`: the tests that a store, a host and a key-value driver have to pass.
// Owns: nothing; it re-exports the three suites.
// Invariants: nothing behind it depends on a test runner.

export { type DriverConformanceOptions, driverConformance, writeUntilKilled } from "./driverConformance.ts";
export { HoldfastRun, type Settling } from "./hostConformance/holdfastRun.ts";
export {
  type Doom,
  type Host,
  type HostCapability,
  type HostClock,
  type HostConformanceOptions,
  type HostOptions,
  type HostQueues,
  type HostRun,
  type HostSend,
  type HostStart,
  type HostUpdate,
  hostConformance,
  type RuleId,
  type TestTitle,
} from "./hostConformance/index.ts";
export { type StoreConformanceOptions, storeConformance } from "./storeConformance/index.ts";
