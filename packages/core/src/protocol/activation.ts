// One activation of a run and its one completion.
// Owns: `Activation`, `Completion`, `EndWants`, `Answer`, and `Turn`, the two of them as history keeps them.
// Invariants: X6 (exactly one completion), V4 (a failed turn is accepted by nobody), M8 M11 (replies never enter history), D9 (what
// an end still wanted).

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
  /** M8: no receive has taken it up, and it may still wait for one: the host offers it again with the next activation. */
  | { readonly type: "keepUpdate"; readonly id: string }
  | { readonly type: "answerQuery"; readonly id: string; readonly value: Payload }
  | { readonly type: "failQuery"; readonly id: string; readonly error: SerializedError };

/**
 * What the end of an execution asks of its messages (D9, K1); never in history. Only with a `complete`, `fail` or `canceled` command, and
 * not after a deadline. A host that finds such a message acknowledged, and given to no turn, before it could write the end takes the turn
 * back: the messages of the turn and the late ones, in order of arrival, are a turn of their own; timers and outcomes of operations come in
 * the turn after.
 */
export interface EndWants {
  /**
   * Names of signals for which a wait or `receive` ended in this turn other than by a message: it timed out, lost a race, or its unit
   * returned. One more signal of such a name may change the end. Sorted; absent if there are none. A name of which the run has one that it
   * left alone is not among them: it would leave the next one alone too. Nor are names of waits that the cancellation of the run ended.
   */
  readonly stillWanted?: readonly string[];
  /**
   * Names of signals of this very activation that were left alone though a wait or `receive` for them ended in it, as above. If the
   * activation had timers or outcomes of operations as well, the host takes the turn back in the same way.
   */
  readonly overtaken?: readonly string[];
  /** A cancellation would change the end: none has reached the run yet, and it has not rolled back. */
  readonly heedsCancel?: true;
}

export type Completion =
  | ({
      readonly status: "ok";
      readonly commands: readonly Command[];
      readonly replies: readonly Answer[];
      /** The last published state of this turn (P5). */
      readonly state?: Payload;
      /** The turn's time as workflow code saw it, where it is later than the activation's (P7: never back). It is what history keeps. */
      readonly time?: number;
    } & EndWants)
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

/** A turn as replay takes it. */
export interface ReplayTurn extends Turn {
  /** A failure of this turn was voided: what followed from it is not emitted again, and is kept for when it is. */
  readonly voided?: Voided;
}
/** What code does instead of failing belongs to the turn of the resume. */
export interface Voided {
  /** The operations that are tried again: what waits for them may do something else than before. */
  readonly seqs: readonly number[];
  /** The workflow failed by itself: any unit may do something else. */
  readonly free: boolean;
  /** Of the run, from the resume on. */
  readonly attempt: number;
}
