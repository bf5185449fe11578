// `@holdfast/simulation`: simulates a world with faults, generated from a seed, for your workflows and for our own tests.
// Owns: nothing; it exports the public names of this folder.
// Invariants: the same seed gives the same trace.

export type { Effects } from "./checks/effects.ts";
export type { Asked, Clients } from "./clients.ts";
export { type Exploration, explore, SimulationFailed } from "./explore.ts";
export { FAULT_KINDS, type FaultKind, type Faults } from "./faults.ts";
export { Random } from "./random.ts";
export type { Scenario, StandIns } from "./scenario.ts";
export { type Shrunk, shrink } from "./shrink.ts";
export { type SimulationOptions, type SimulationReport, simulate } from "./simulation.ts";
export type { StepBodies, WorkOptions } from "./stepBodies.ts";
export { Violation } from "./violation.ts";
export { drawnScenarios, SCENARIOS } from "./workload/index.ts";
