// A scene: some workflows, what clients do with them, and what must have come of it.
// Owns: nothing; the shape that workloads have.
// Invariants: everything in a scene is drawn from the seed.

import type { Activity, ActivityInfo, AnyWorkflow, StepInfo } from "@holdfast/core";
import type { Ledger } from "./checks/effects.ts";
import type { Stage } from "./clients.ts";
import type { Hands } from "./stepBodies.ts";

/** Bodies that take the place of real ones, by name. */
export interface StandIns {
  readonly steps?: Readonly<Record<string, (info: StepInfo) => unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: the arguments are the activity's own
  readonly activities?: Readonly<Record<string, (args: any, info: ActivityInfo) => unknown>>;
}

export interface Scene {
  readonly name: string;
  /** The code as one process has it. `build` grows with deploys. */
  workflows(hands: Hands, build: number): readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?(hands: Hands): readonly Activity<any, any>[];
  /** Stand-ins for steps and activities that do something real: nothing in a simulation may wait for real time or I/O. */
  replace?(hands: Hands): StandIns;
  /** What clients do; it is over when the runs of the scene have ended. */
  play(stage: Stage): Promise<void>;
  /** Holds what has come of it against what should. */
  verify?(stage: Stage, ledger: Ledger): Promise<void> | void;
  /** Its runs may be blocked for a while: a deploy diverges. */
  readonly mayBlock?: boolean;
  /** Some of its runs can be finished only by older builds: once the faults are over, each build gets its turns. */
  readonly needsBuilds?: boolean;
}
