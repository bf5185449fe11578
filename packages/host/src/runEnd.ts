// How an execution ends, by the last command of its last turn.
// Owns: nothing.
// Invariants: P1 (one end), D10 K7 S1 (when a failed run is tried again as a whole), P10 (continue-as-new carries over the signals that no
// code consumed).

import type { Payload, SerializedError, SignalJob, TerminalCommand } from "@holdfast/core";

export type RunEnd =
  | { readonly status: "completed"; readonly value: Payload }
  /** `resumable`: no rollback has run (D10). */
  | { readonly status: "failed"; readonly error: SerializedError; readonly resumable: boolean }
  | {
      readonly status: "canceled";
      readonly value: Payload | undefined;
      readonly error: SerializedError | undefined;
      readonly reason: string | undefined;
    };
export type EndCommand = Exclude<TerminalCommand, { type: "continueAsNew" }>;

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
 * D10: when the run is tried again as a whole, if the command asks for it. If that would be after the deadline (K7), the run fails now, or,
 * if it has rollbacks, is tried again at once to run only those (S1). `time`: of the turn.
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
