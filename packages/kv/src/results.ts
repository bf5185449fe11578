// The result of running a run.
// Owns: `RunResult`.
// Invariants: P1 P11 (one status), K3 (a canceled run keeps what its root returned).

import { type Codec, HoldfastError, type RunStatus, reviveError } from "@holdfast/core";
import { adviseHere } from "./advice.ts";
import type { End, Status } from "./storage/contents.ts";

/** What running a run has resulted in. */
export type RunResult<O = unknown> =
  | {
      readonly status: "completed";
      /** What the workflow returned. */
      readonly output: O;
    }
  /**
   * Nothing can advance it now. `wakeAt` is when to run it again, in milliseconds since 1970; without it, only a message can advance it.
   */
  | {
      readonly status: "sleeping";
      /** When to run it again, in milliseconds since 1970. Absent: only a message can advance it. */
      readonly wakeAt?: number;
      /** What it waits for, in words. */
      readonly waitingFor: readonly string[];
    }
  | {
      readonly status: "failed";
      /** Why. */
      readonly error: Error;
    }
  /** The current code can't advance it (V4). The run is unharmed. */
  | {
      readonly status: "blocked";
      /** Why. */
      readonly error: Error;
      /** When to run it again, in milliseconds since 1970. Absent: only a message can advance it. */
      readonly wakeAt?: number;
    }
  | {
      readonly status: "canceled";
      /** What the workflow returned. */
      readonly output?: unknown;
      /** The reason that the caller of `cancel` gave. */
      readonly reason?: string;
      /** Why. */
      readonly error?: Error;
    }
  | {
      readonly status: "terminated";
      /** Why. */
      readonly error: Error;
    }
  /** P10: the next execution has this input, and begins when the run is run again. */
  | {
      readonly status: "continued";
      /** The input of the next execution. */
      readonly input: unknown;
    };

const CLOSED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated"]);

export function isClosed(status: RunStatus | undefined): boolean {
  return status !== undefined && CLOSED.has(status);
}

/** The result of a run that is not live. */
export function resultOf(status: Status, end: End | undefined, codec: Codec): RunResult {
  const stored = end?.error ?? status.error;
  const error = stored === undefined ? undefined : adviseHere(reviveError(stored));
  const unknown = new HoldfastError("The run has ended, but no error is stored.", { code: "HF_KV_NO_REASON" });
  switch (status.status) {
    case "completed":
      return { status: "completed", output: end?.value === undefined ? undefined : codec.decode(end.value) };
    case "failed":
    case "terminated":
      return { status: status.status, error: error ?? unknown };
    case "canceled":
      return {
        status: "canceled",
        ...(end?.value !== undefined && { output: codec.decode(end.value) }),
        ...(end?.reason !== undefined && { reason: end.reason }),
        ...(error !== undefined && { error }),
      };
    case "blocked":
      return { status: "blocked", error: error ?? unknown, ...(status.wakeAt !== undefined && { wakeAt: status.wakeAt }) };
    default:
      return {
        status: "sleeping",
        ...(status.wakeAt !== undefined && { wakeAt: status.wakeAt }),
        waitingFor: status.waitingFor ?? [],
      };
  }
}
