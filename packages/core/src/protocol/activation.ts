// One activation of a run and its one completion.
// Owns: `Activation`, `Completion`, `Answer`, and `Turn`, the two of them as history keeps them.
// Invariants: X6 (exactly one completion), V4 (a failed turn is accepted by nobody), M8 M11 (replies never enter history).

import type { SerializedError } from "../errors/index.ts";
import type { Command } from "./command.ts";
import type { Job } from "./job.ts";
import type { Payload } from "./payload.ts";

export interface Activation {
  /** The turn's time in milliseconds: the host's estimate of the store's (P7). */
  readonly time: number;
  readonly jobs: readonly Job[];
  /** Records in history before this turn. Default: what the executor has counted. */
  readonly historyLength?: number;
  /** The host replays and matches the commands by itself (Temporal). Recorded turns go through `Executor.replay`. */
  readonly replaying?: boolean;
}

/** An answer that leaves no trace in history. */
export type Answer =
  | { readonly type: "rejectUpdate"; readonly id: string; readonly error: SerializedError }
  | { readonly type: "answerQuery"; readonly id: string; readonly value: Payload }
  | { readonly type: "failQuery"; readonly id: string; readonly error: SerializedError };

export type Completion =
  | {
      readonly status: "ok";
      readonly commands: readonly Command[];
      readonly replies: readonly Answer[];
      /** The last published state of this turn (P5). */
      readonly state?: Payload;
      /** The turn's time as workflow code saw it, where it is later than the activation's (P7: never back). It is what history keeps. */
      readonly time?: number;
    }
  /** The turn broke a rule or left its history: nothing of it counts, and the executor is of no more use (V4). */
  | { readonly status: "failed"; readonly error: Error };

/** One turn as history keeps it. */
export interface Turn {
  /** Position among all turns of the execution, from 0; gaps are where trimming took turns away. */
  readonly index: number;
  readonly time: number;
  readonly historyLength: number;
  readonly jobs: readonly Job[];
  readonly commands: readonly Command[];
  readonly state?: Payload;
}
