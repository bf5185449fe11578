// A scenario: some workflows, what clients do with them, and how to verify the outcome.
// Owns: nothing; it is the interface of workloads.
// Invariants: everything random in a scenario is drawn from the seed.

import type { Activity, ActivityInfo, AnyWorkflow, StepInfo } from "@holdfast/core";
import type { Effects } from "./checks/effects.ts";
import type { Clients } from "./clients.ts";
import type { StepBodies } from "./stepBodies.ts";

/** Bodies that replace the real ones, by the name of the step or activity. */
export interface StandIns {
  /** Functions that run instead of the bodies of steps, by name. */
  readonly steps?: Readonly<Record<string, (info: StepInfo) => unknown>>;
  /** Functions that run instead of activities, by name. */
  // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
  readonly activities?: Readonly<Record<string, (args: any, info: ActivityInfo) => unknown>>;
}

/** A workload: workflows, what clients do with them, and what must hold. */
export interface Scenario {
  /** The name of the scenario. */
  readonly name: string;
  /** The workflows of one process. `build` is 1 at first; each deploy increases it by one. */
  workflows(bodies: StepBodies, build: number): readonly AnyWorkflow[];
  /** The activities that its workflows call. */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?(bodies: StepBodies): readonly Activity<any, any>[];
  /** Stand-ins for steps and activities with real effects: nothing in a simulation may wait for real time or I/O. */
  replace?(bodies: StepBodies): StandIns;
  /** What clients do. Resolves when the runs of the scenario have ended. */
  play(clients: Clients): Promise<void>;
  /** Compares the outcome with what it should be. */
  verify?(clients: Clients, effects: Effects): Promise<void> | void;
  /** Its runs may be blocked for a while, because a build diverges from their histories. */
  readonly mayBlock?: boolean;
  /** Only older builds can finish some of its runs: once the faults are over, workers of each build run in turn. */
  readonly needsBuilds?: boolean;
  /**
   * The queue of its runs, which has workers of its own.
   * @defaultValue that of all scenarios that name none
   */
  readonly queue?: string;
}
