// Applies the commands of a turn: first to the batch, then, once it is written, to the outside.
// Owns: nothing; it translates commands.
// Invariants: D1 (effects begin after the batch that records them), D2 (one batch per turn), C7 (abandoned steps are notified after the
// batch).

import type { Activation, Command, Completion, TerminalCommand, Turn } from "@holdfast/core";
import type { Starting } from "@holdfast/host/attempts";
import type { Execution } from "./execution.ts";

/** Adds the turn and the changes of its commands to the storage. Returns how the execution ends, if it does. */
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
        break; // only recorded, or run by a body
    }
  }
  return terminal;
}
/** C7: a step is notified after the batch; a child gets a cancellation. */
function cancelOperation({ storage, operations, head }: Execution, seq: number, join: boolean): void {
  if (!join) operations.settled(seq);
  const child = storage.children.find((one) => one.execution === head.execution && one.seq === seq);
  if (child !== undefined) storage.putLetter({ type: "cancel", runId: child.runId, reason: `its parent ${head.id} canceled it` });
}

/** Whether the host begins operations once this turn is written. */
export function beginsOperations({ operations }: Execution, turn: Turn | undefined): boolean {
  return turn?.commands.some((command) => "n" in command && operations.carries(command)) ?? false;
}
/** Begins operations, after the batch. */
export function begin({ operations }: Execution, turn: Turn | undefined, starting: readonly Starting[]): void {
  for (const { seq, number } of starting) operations.begin(seq, number);
  for (const command of turn?.commands ?? []) {
    if (command.type === "cancel") operations.cancel(command.seq, command.join === true);
    else if ("n" in command && operations.carries(command)) operations.begin(command.seq, 1);
  }
}
