// A scene: some workflows, what clients do with them, and what must have come of it.
// Owns: nothing; the shape that workloads have.
// Invariants: everything in a scene is drawn from the seed.

import type { Activity, AnyWorkflow } from "@holdfast/core";
import type { Hands } from "./hands.ts";
import type { Ledger } from "./ledger.ts";
import type { Stage } from "./stage.ts";

export interface Scene {
  readonly name: string;
  /** The code as one process has it. `build` grows with deploys. */
  workflows(hands: Hands, build: number): readonly AnyWorkflow[];
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?(hands: Hands): readonly Activity<any, any>[];
  /** What clients do; it is over when the runs of the scene have ended. */
  play(stage: Stage): Promise<void>;
  /** Holds what has come of it against what should. */
  verify?(stage: Stage, ledger: Ledger): Promise<void> | void;
  /** Its runs may be blocked for a while: a deploy diverges. */
  readonly mayBlock?: boolean;
}
