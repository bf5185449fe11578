// What an `Executor` needs from its host.
// Owns: the type only.
// Invariants: X1 (the executor gets its clock, its barrier and its logger from here).

import type { Codec } from "../codec/index.ts";
import type { AnyWorkflow, Logger } from "../model/index.ts";
import type { Barrier } from "./barrier.ts";
import type { Limits } from "./limits.ts";
import type { ExecutionObserver, TurnWatch } from "./observer.ts";

/** What an `Executor` needs. */
export interface ExecutorOptions {
  /** The code that it runs. */
  readonly workflow: AnyWorkflow;
  /**
   * Encodes all user values.
   * @defaultValue `jsonCodec`
   */
  readonly codec?: Codec;
  /**
   * Where messages go.
   * @defaultValue none
   */
  readonly logger?: Logger;
  /**
   * Upper bounds for payloads and histories.
   * @defaultValue `DEFAULT_LIMITS`
   */
  readonly limits?: Partial<Limits>;
  /**
   * How it finds out that a unit has paused.
   * @defaultValue the best one that the runtime has
   */
  readonly barrier?: Barrier;
  /**
   * A monotonic clock in milliseconds, used only for the turn timeout (X9); the same function for all executors of a host.
   * `createTurnClock` makes a clock that ignores time in which the process was frozen.
   * @defaultValue none, and no timeout
   */
  readonly elapsed?: () => number;
  /**
   * Longest duration of a turn, in milliseconds; 0 means no limit.
   * @defaultValue `2_000`
   */
  readonly turnTimeout?: number;
  /**
   * "scheduled": the host runs side effects like steps, because it can't record a value inline.
   * @defaultValue `"inline"`
   */
  readonly sideEffects?: "inline" | "scheduled";
  /** Called when user code starts to run and when it has stopped. */
  readonly watch?: TurnWatch | undefined;
  /**
   * Freeze plain objects and arrays in the states of loops and receives: changing one in place is a TypeError (R9).
   * @defaultValue `false`
   */
  readonly freezeStates?: boolean;
  /**
   * Replay reports changed options of operations as divergence too (Y2).
   * @defaultValue `false`
   */
  readonly strictReplay?: boolean;
  /**
   * The host withholds the rejections of workflow code from the process (`withholdRejections`) and reports the unhandled ones
   * (`noteUnhandled`, `noteHandled`, `reportUnheard`): then a failure that no code awaits is logged. If not, such rejections are ignored.
   * @defaultValue `false`
   */
  readonly withholdsRejections?: boolean;
  /** The name of a host that matches commands itself (`Activation.replaying`). It has no records that `ctx.removed` could match. */
  readonly matchedBy?: string;
  /** Largest published state in bytes, if the host has a lower limit than `limits.payloadBytes`. */
  readonly stateBytes?: number;
  /**
   * Sees what the execution does.
   * @defaultValue none, which costs nothing
   */
  readonly observer?: ExecutionObserver | undefined;
}
