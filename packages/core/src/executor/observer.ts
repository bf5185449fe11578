// The interfaces for watching workflow code run: hosts use them to check determinism and the duration of turns, tools to see which line of
// code asked for which operation.
// Owns: types only.
// Invariants: X1 (a watch does not change a turn, unless the turn breaks a rule of the host).

import type { Command } from "../protocol/index.ts";

/** An execution whose user code may be running. */
export interface RunningTurn {
  /** The id of the run. */
  readonly runId: string;
  /** The workflow, with its `name`. */
  readonly workflow: {
    /** The name of the workflow. */
    readonly name: string;
  };
  /** The unit that has the turn; undefined while the executor calls a predicate or a validator. */
  readonly current:
    | {
        /** The name of the unit, for messages. */
        readonly title: string;
      }
    | undefined;
  /** The predicate or validator that the executor calls, in words. */
  readonly closure: string | undefined;
  /** Records a broken rule: the turn fails even if user code catches the error (V4). */
  violate<E extends Error>(error: E): E;
}

/**
 * Called just before user code runs, and once its microtasks have run. Runs that share a barrier are entered together. Functions that the
 * executor calls for user code (a side effect, the logger) are outside.
 */
export interface TurnWatch {
  /** User code of this run is about to run. */
  enter(turn: RunningTurn): void;
  /** It has run, and its microtasks too. */
  leave(turn: RunningTurn): void;
}

/** For tools such as `replay`. It only looks: the execution is the same with it and without it. */
export interface ExecutionObserver {
  /**
   * A command is about to be recorded, or compared with its record. The command of a call is observed within that call: the first frame of
   * the stack outside Holdfast is the line of the workflow. `unit`: the path of the unit that has the turn, if one has it.
   */
  emitted(command: Command, unit: string | undefined): void;
}
