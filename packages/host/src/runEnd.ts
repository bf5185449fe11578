// How an execution ends, by the last command of its last turn.
// Owns: nothing.
// Invariants: P1 (one end), D10 K7 S1 (when a failed run is tried again as a whole), P10 (continue-as-new carries over the signals that no
// code consumed).

import type { Payload, SerializedError, SignalJob, TerminalCommand } from "@holdfast/core";

/** How a run has ended. */
export type RunEnd =
  | {
      readonly status: "completed";
      /** What it returned, encoded. */
      readonly value: Payload;
    }
  | {
      readonly status: "failed";
      /** Why it failed. */
      readonly error: SerializedError;
      /** Whether `resume` may continue it: false once rollbacks have run (D10). */
      readonly resumable: boolean;
    }
  | {
      readonly status: "canceled";
      /** What it returned all the same, encoded. */
      readonly value: Payload | undefined;
      /** What it threw, if that was not the cancellation. */
      readonly error: SerializedError | undefined;
      /** The reason that the caller of `cancel` gave. */
      readonly reason: string | undefined;
    };
/** The commands that end a run. */
export type EndCommand = Exclude<TerminalCommand, { type: "continueAsNew" }>;

/** How a run ends by this command. */
export function runEndOf(command: EndCommand): RunEnd {
  switch (command.type) {
    case "complete":
      return { status: "completed", value: command.value };
    case "fail": {
      const { error, rollbackError, rolledBack } = command;
      const whole = rollbackError === undefined ? error : { ...error, data: { rollbackError } };
      return { status: "failed", error: whole, resumable: rolledBack !== true };
    }
    case "canceled":
      return { status: "canceled", value: command.value, error: command.error, reason: command.reason };
  }
}

/**
 * When the run is tried again as a whole, if the command asks for it (D10). If that would be after `deadlineAt` (K7), the run fails now,
 * or, if it has `rollbacks`, is tried again at once to run only those (S1). `time`: of the turn.
 */
export function retryTimeOf(
  command: TerminalCommand,
  time: number,
  { deadlineAt, rollbacks }: { readonly deadlineAt: number | undefined; readonly rollbacks: number },
): number | undefined {
  if (command.type !== "fail" || command.retryAfter === undefined) return undefined;
  const retryAt = time + command.retryAfter;
  if (deadlineAt === undefined || retryAt < deadlineAt) return retryAt;
  return rollbacks > 0 ? time : undefined;
}

/** P10: signals for the next execution. M13: the schema has already transformed them. */
export function carriedSignals(command: Extract<TerminalCommand, { type: "continueAsNew" }>): SignalJob[] {
  return (command.signals ?? []).map((signal) => ({ type: "signal", ...signal, checked: true }));
}
