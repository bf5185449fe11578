// What follows from a turn: first into the batch, then, once that is written, into the world.
// Owns: nothing; a translation of commands.
// Invariants: D1 (effects begin after the batch that records them), D2 (one batch a turn), C7 (what is given up is told after the batch).

import type { Activation, Command, Completion, TerminalCommand, Turn } from "@holdfast/core";
import type { Starting } from "@holdfast/host/attempts";
import type { Execution } from "./execution.ts";

/** The turn and what its commands change in storage; returns how the execution ends, if it does. */
export function record(
  execution: Execution,
  turn: Turn | undefined,
  activation: Activation,
  { commands, state }: Completion & { status: "ok" },
): TerminalCommand | undefined {
  const { storage, operations, updates } = execution;
  for (const job of activation.jobs) {
    if (job.type === "resolve") operations.answered(job.seq);
    if (job.type === "resolve" || job.type === "fire" || job.type === "childStarted") operations.settled(job.seq);
  }
  if (turn !== undefined) storage.appendTurn(turn);
  if (state !== undefined) storage.setState(state);
  const time = turn?.time ?? activation.time;
  let terminal: TerminalCommand | undefined;
  for (const command of commands) {
    updates.track(command);
    if ("n" in command) operations.opened(command, time);
    switch (command.type) {
      case "settle":
        operations.settled(command.seq);
        break;
      case "cancel":
        cancelOperation(execution, command.seq, command.join === true);
        break;
      case "child":
        storage.putChild(command.seq, { runId: command.id, parentClose: command.parentClose ?? "cancel" });
        break;
      case "attributes":
        storage.mergeAttributes(command.attributes);
        break;
      case "rollBack":
        execution.rollingBack = true;
        break;
      case "complete":
      case "fail":
      case "canceled":
      case "continueAsNew":
        terminal = command;
        break;
      default:
        command satisfies Exclude<Command, TerminalCommand>;
        break; // records only, and what has a body
    }
  }
  return terminal;
}
/** C7: a step is told after the batch; a child is asked to cancel. */
function cancelOperation({ storage, operations, head }: Execution, seq: number, join: boolean): void {
  if (!join) operations.settled(seq);
  const child = storage.children.find((one) => one.execution === head.execution && one.seq === seq);
  if (child !== undefined) storage.putLetter({ type: "cancel", runId: child.runId, reason: `its parent ${head.id} gave it up` });
}

/** Does the host begin something once this turn is written? */
export function beginsOperations({ operations }: Execution, turn: Turn | undefined): boolean {
  return turn?.commands.some((command) => "n" in command && operations.carries(command)) ?? false;
}
/** After the batch. */
export function begin({ operations }: Execution, turn: Turn | undefined, starting: readonly Starting[]): void {
  for (const { seq, number } of starting) operations.begin(seq, number);
  for (const command of turn?.commands ?? []) {
    if (command.type === "cancel") operations.cancel(command.seq, command.join === true);
    else if ("n" in command && operations.carries(command)) operations.begin(command.seq, 1);
  }
}
