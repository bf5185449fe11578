// The input and output of one turn: an activation of a run and its completion.
// Owns: `Activation`, `Completion`, `EndWants`, `Answer`, and `Turn`, an activation and its completion as history keeps them.
// Invariants: X6 (exactly one completion), V4 (the host discards a failed turn), M8 M11 (replies never enter history), D9 (which messages
// could still have changed the end of the run).

import type { SerializedError } from "../errors/index.ts";
import type { Command } from "./command.ts";
import type { Job } from "./job.ts";
import type { Payload } from "./payload.ts";

/** What goes into a turn. */
export interface Activation {
  /** The time of the turn in milliseconds: the host's estimate of the store's time (P7). */
  readonly time: number;
  /** What the turn has to do, in order. */
  readonly jobs: readonly Job[];
  /**
   * The number of records in history before this turn.
   * @defaultValue the executor's own count
   */
  readonly historyLength?: number;
  /** The host replays the run and matches the commands itself (Temporal). Other hosts replay recorded turns with `Executor.replay`. */
  readonly replaying?: boolean;
}

/** A reply to a caller that leaves no trace in history. */
export type Answer =
  | {
      readonly type: "rejectUpdate";
      /** The id of the update. */
      readonly id: string;
      /** Why it was rejected. */
      readonly error: SerializedError;
    }
  /** No receive has accepted the update, and it may still wait for one: the host delivers it again with the next activation (M8). */
  | {
      readonly type: "keepUpdate";
      /** The id of the update. */
      readonly id: string;
    }
  | {
      readonly type: "answerQuery";
      /** The id of the query. */
      readonly id: string;
      /** The answer, encoded. */
      readonly value: Payload;
    }
  | {
      readonly type: "failQuery";
      /** The id of the query. */
      readonly id: string;
      /** Why it failed. */
      readonly error: SerializedError;
    };

/**
 * Which messages would have changed the end of an execution (D9, K1); never in history. Present only with a `complete`, `fail` or
 * `canceled` command, and not after a deadline. If such a message was acknowledged but delivered in no turn before the host could commit
 * the end, the host undoes the turn: the messages of the turn and the late ones, in order of arrival, become a separate turn; timers and
 * outcomes of operations follow in the turn after it.
 */
export interface EndWants {
  /**
   * Names of signals for which a wait or `receive` ended in this turn without a message: it timed out, lost a race, or its unit returned.
   * One more signal of such a name may change the end. Sorted; absent if there are none. Left out are names of which the run has an
   * unconsumed signal (it would not consume the next one either), and names of waits that the cancellation of the run ended.
   */
  readonly stillWanted?: readonly string[];
  /**
   * Names of signals that this activation delivered and no code consumed, although a wait or `receive` for them ended in it, as above. If
   * the activation had timers or outcomes of operations as well, the host undoes the turn in the same way.
   */
  readonly overtaken?: readonly string[];
  /** A cancellation would change the end: the run was not canceled before, and it has not rolled back. */
  readonly heedsCancel?: true;
}

/** What comes out of a turn. */
export type Completion =
  | ({
      readonly status: "ok";
      /** What the code asked for, in order. */
      readonly commands: readonly Command[];
      /** Answers to updates and queries. */
      readonly replies: readonly Answer[];
      /** The last published state of this turn (P5). */
      readonly state?: Payload;
      /** The turn's time as workflow code saw it, if it is later than the activation's (P7: time never decreases). History records it. */
      readonly time?: number;
    } & EndWants)
  /** The turn broke a rule or diverged from history: the host discards the turn and the executor (V4). */
  | {
      readonly status: "failed";
      /** Why the turn is not accepted. */
      readonly error: Error;
    };

/** One turn as it is recorded in history. */
export interface Turn {
  /** The position among all turns of the execution, from 0. Trimming leaves gaps. */
  readonly index: number;
  /** The time of the turn, in milliseconds since 1970. */
  readonly time: number;
  /** The number of records in history before this turn. */
  readonly historyLength: number;
  /** What went in. */
  readonly jobs: readonly Job[];
  /** What came out. */
  readonly commands: readonly Command[];
  /** The published state, if this turn changed it. */
  readonly state?: Payload;
}

/** A turn as the input of replay. */
export interface ReplayTurn extends Turn {
  /** A resume voided a failure of this turn: code may not emit the commands that followed it, so their outcomes are kept for reuse. */
  readonly voided?: Voided;
}
/** A voided failure. Commands that code emits instead of failing belong to the turn of the resume. */
export interface Voided {
  /** The operations that are retried: code that waits for them may act differently than before. */
  readonly seqs: readonly number[];
  /** The workflow code itself failed: any unit may act differently. */
  readonly free: boolean;
  /** The attempt number of the run, from the resume on. */
  readonly attempt: number;
}
