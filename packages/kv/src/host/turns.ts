// What follows from a turn: first into the batch, then, once that is written, into the world.
// Owns: nothing; a translation of commands.
// Invariants: D1 (effects begin after the batch that records them), D2 (one batch a turn), C7 (what is given up is told after the batch).

import type { Activation, Command, Completion, TerminalCommand, Turn } from "@holdfast/core";
import { isEffect } from "./bodies.ts";
import type { Execution } from "./execution.ts";

/** An attempt that begins once its batch is written. */
export interface Starting {
  readonly seq: number;
  readonly number: number;
}

/** The turn and what its commands change in storage; returns how the execution ends, if it does. */
export function record(
  execution: Execution,
  turn: Turn | undefined,
  activation: Activation,
  { commands, state }: Completion & { status: "ok" },
): TerminalCommand | undefined {
  const { storage, effects, updates } = execution;
  for (const job of activation.jobs)
    if (job.type === "resolve" || job.type === "fire" || job.type === "childStarted") effects.settled(job.seq);
  if (turn !== undefined) storage.appendTurn(turn);
  if (state !== undefined) storage.setState(state);
  const time = turn?.time ?? activation.time;
  let terminal: TerminalCommand | undefined;
  for (const command of commands) {
    updates.track(command);
    if ("n" in command) effects.opened(command, time);
    switch (command.type) {
      case "settle":
        effects.settled(command.seq);
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
function cancelOperation({ storage, effects, head }: Execution, seq: number, join: boolean): void {
  if (!join) effects.settled(seq);
  const child = storage.children.find((one) => one.execution === head.execution && one.seq === seq);
  if (child !== undefined) storage.putLetter({ type: "cancel", runId: child.runId, reason: `its parent ${head.id} gave it up` });
}

/** Does the host begin something once this turn is written? */
export function beginsEffects(turn: Turn | undefined): boolean {
  return turn?.commands.some((command) => "n" in command && isEffect(command)) ?? false;
}
/** After the batch. */
export function begin({ effects }: Execution, turn: Turn | undefined, starting: readonly Starting[]): void {
  for (const { seq, number } of starting) effects.begin(seq, number);
  for (const command of turn?.commands ?? []) {
    if (command.type === "cancel") effects.cancel(command.seq, command.join === true);
    else if ("n" in command && isEffect(command)) effects.begin(command.seq, 1);
  }
}
