// The door for tests.
// Owns: nothing; it re-exports.
// Invariants: none.

export { type DriverConformanceOptions, driverConformance, writeUntilKilled } from "./driverConformance.ts";
