// How an execution ends: what is stored, and which runs and callers are notified.
// Owns: nothing.
// Invariants: P1 (one end), P10 (the next execution begins in the batch that ends the previous one), K5, K6 (children follow, the parent is
// notified), M10 (no caller waits forever).

import {
  type Completion,
  type EndWants,
  type Outcome,
  RunClosedError,
  type RunStatus,
  RunTerminatedError,
  type SerializedError,
  serializeError,
  type TerminalCommand,
} from "@holdfast/core";
import { carriedSignals, type EndCommand, retryTimeOf, runEndOf, type UpdateAnswer } from "@holdfast/host";
import type { End } from "../storage/contents.ts";
import { carriedKey } from "../storage/layout.ts";
import type { Execution } from "./execution.ts";

export type ClosingCommand = EndCommand | { readonly type: "terminated"; readonly reason?: string | undefined };

const STATUS_OF = { complete: "completed", fail: "failed", canceled: "canceled", terminated: "terminated" } as const;

/** D10: when the run is tried again as a whole, if the command asks for it. */
export function retryTime({ head, executor }: Execution, command: TerminalCommand, time: number): number | undefined {
  return retryTimeOf(command, time, { deadlineAt: head.deadlineAt, rollbacks: executor.rollbacks });
}
/** D9: which messages would change the decision of a turn that ends the run. Undefined for other turns. */
export function endWants(execution: Execution, completion: Completion & { status: "ok" }, time: number): EndWants | undefined {
  const end = completion.commands.at(-1);
  const isEnd = end?.type === "complete" || end?.type === "canceled" || end?.type === "fail";
  return isEnd && retryTime(execution, end, completion.time ?? time) === undefined ? completion : undefined;
}

/** Adds status, end and notifications to the batch. Returns the answers to the updates that are still open. */
export function close(execution: Execution, command: ClosingCommand): UpdateAnswer[] {
  const { storage, head, updates, settings } = execution;
  const status = STATUS_OF[command.type];
  storage.setStatus({ status });
  storage.setEnd({ ...endOf(command, head.id), endedAt: settings.environment.now() });
  const answers = updates.fail(closedError(head.id, status));
  for (const { id, outcome } of answers) storage.setUpdate(id, outcome, settings.environment.now());
  tellFamily(execution);
  return answers;
}
function endOf(command: ClosingCommand, runId: string): End {
  if (command.type !== "terminated") {
    const { status: _, ...end } = runEndOf(command);
    return end;
  }
  const { reason } = command;
  return { error: serializeError(new RunTerminatedError(reason === undefined ? { runId } : { runId, reason })), reason };
}
export function closedError(runId: string, status: RunStatus): SerializedError {
  return serializeError(new RunClosedError({ runId, status }));
}

/** K6: children follow their parentClose, the parent is notified. */
function tellFamily(execution: Execution): void {
  const { storage, head } = execution;
  const reason = `its parent ${head.id} has ended`;
  for (const { execution: number, seq, runId, parentClose } of storage.children) {
    if (parentClose !== "abandon") storage.putLetter({ type: parentClose, runId, reason });
    storage.removeChild(number, seq);
  }
  if (head.parent !== undefined) storage.putLetter({ type: "ended", parent: head.parent, outcome: outcomeOf(execution) });
}
/** The outcome of the run for its parent's operation. */
function outcomeOf({ storage: { status, end }, head, settings }: Execution): Outcome {
  if (status?.status === "completed") return { status: "completed", value: end?.value ?? settings.codec.encode(undefined) };
  if (status?.status === "canceled") return { status: "canceled", ...(end?.reason !== undefined && { reason: end.reason }) };
  return { status: "failed", error: end?.error ?? { name: "Error", message: `The child ${head.id} ended as ${status?.status}.` } };
}

/** P10: begins the next execution in the batch that ends this one. Signals that no code consumed stay, before those that arrived since. */
export function continueAsNew(execution: Execution, command: Extract<TerminalCommand, { type: "continueAsNew" }>, time: number): void {
  const { storage, settings, head } = execution;
  const { input, version = head.version } = command;
  const { environment } = settings;
  storage.continue({ ...head, version, input, execution: head.execution + 1, attempt: 1, seed: environment.uuid(), lastTime: time });
  storage.setStatus({ status: "pending", wakeAt: environment.now() });
  for (const [i, job] of carriedSignals(command).entries()) storage.putMessage(carriedKey(head.execution, i), { job });
}
