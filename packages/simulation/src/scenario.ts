// A scenario: some workflows, what clients do with them, and what must have come of it.
// Owns: nothing; the shape that workloads have.
// Invariants: everything in a scenario is drawn from the seed.

import type { Activity, ActivityInfo, AnyWorkflow, StepInfo } from "@holdfast/core";
import type { Effects } from "./checks/effects.ts";
import type { Clients } from "./clients.ts";
import type { StepBodies } from "./stepBodies.ts";

/** Bodies that take the place of real ones, by name. */
export interface StandIns {
  readonly steps?: Readonly<Record<string, (info: StepInfo) => unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
  readonly activities?: Readonly<Record<string, (args: any, info: ActivityInfo) => unknown>>;
}

export interface Scenario {
  readonly name: string;
  /** The code as one process has it. `build` grows with deploys. */
  workflows(bodies: StepBodies, build: number): readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?(bodies: StepBodies): readonly Activity<any, any>[];
  /** Stand-ins for steps and activities that do something real: nothing in a simulation may wait for real time or I/O. */
  replace?(bodies: StepBodies): StandIns;
  /** What clients do; it is over when the runs of the scenario have ended. */
  play(clients: Clients): Promise<void>;
  /** Holds what has come of it against what should. */
  verify?(clients: Clients, effects: Effects): Promise<void> | void;
  /** Its runs may be blocked for a while: a deploy diverges. */
  readonly mayBlock?: boolean;
  /** Some of its runs can be finished only by older builds: once the faults are over, each build gets its turns. */
  readonly needsBuilds?: boolean;
}
