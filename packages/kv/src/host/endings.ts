// How an execution ends: what is stored of it, and word for those whom it concerns.
// Owns: nothing.
// Invariants: P1 (one end), P10 (the next execution begins in the batch that ends the one before), K5, K6 (children follow, the parent
// hears of it), M10 (no caller waits for ever).

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
import type { End } from "../storage/contents.ts";
import { carriedKey } from "../storage/layout.ts";
import type { Execution } from "./execution.ts";
import type { Answer } from "./updates.ts";

export type ClosingCommand =
  | Exclude<TerminalCommand, { type: "continueAsNew" }>
  | { readonly type: "terminated"; readonly reason?: string | undefined };

const STATUS_OF = { complete: "completed", fail: "failed", canceled: "canceled", terminated: "terminated" } as const;

/**
 * D10: when the run is tried again as a whole, if the command says so. If that is after its deadline it fails now (K7): at once, or, if
 * there is something to undo, as an attempt that does only that (S1).
 */
export function retryTimeOf({ head, executor }: Execution, command: TerminalCommand, time: number): number | undefined {
  if (command.type !== "fail" || command.retryAfter === undefined) return undefined;
  const retryAt = time + command.retryAfter;
  if (head.deadlineAt === undefined || retryAt < head.deadlineAt) return retryAt;
  return executor.rollbacks > 0 ? time : undefined;
}
/** D9: of a turn that ends the run, which messages would change that. Undefined for any other. */
export function endWants(execution: Execution, completion: Completion & { status: "ok" }, time: number): EndWants | undefined {
  const end = completion.commands.at(-1);
  const isEnd = end?.type === "complete" || end?.type === "canceled" || end?.type === "fail";
  return isEnd && retryTimeOf(execution, end, completion.time ?? time) === undefined ? completion : undefined;
}

/** Status, end, and word for family and callers, all into the batch; returns the answers to updates that it leaves open. */
export function close(execution: Execution, command: ClosingCommand): Answer[] {
  const { storage, head, updates, settings } = execution;
  const status = STATUS_OF[command.type];
  storage.setStatus({ status });
  storage.setEnd(endOf(command, head.id));
  const answers = updates.fail(closedError(head.id, status));
  for (const { id, outcome } of answers) storage.setUpdate(id, outcome, settings.environment.now());
  tellFamily(execution);
  return answers;
}
function endOf(command: ClosingCommand, runId: string): End {
  switch (command.type) {
    case "complete":
      return { value: command.value };
    case "fail": {
      const { error, rollbackError, rolledBack } = command;
      return { error: rollbackError === undefined ? error : { ...error, data: { rollbackError } }, resumable: rolledBack !== true };
    }
    case "canceled":
      return { value: command.value, error: command.error, reason: command.reason };
    case "terminated": {
      const { reason } = command;
      return { error: serializeError(new RunTerminatedError(reason === undefined ? { runId } : { runId, reason })), reason };
    }
  }
}
export function closedError(runId: string, status: RunStatus): SerializedError {
  return serializeError(new RunClosedError({ runId, status }));
}

/** K6: children follow their parentClose, the parent hears of it. */
function tellFamily(execution: Execution): void {
  const { storage, head } = execution;
  const reason = `its parent ${head.id} has ended`;
  for (const { execution: number, seq, runId, parentClose } of storage.children) {
    if (parentClose !== "abandon") storage.putLetter({ type: parentClose, runId, reason });
    storage.removeChild(number, seq);
  }
  if (head.parent !== undefined) storage.putLetter({ type: "ended", parent: head.parent, outcome: outcomeOf(execution) });
}
/** Of the run, as its parent's operation sees it. */
function outcomeOf({ storage: { status, end }, head, settings }: Execution): Outcome {
  if (status?.status === "completed") return { status: "completed", value: end?.value ?? settings.codec.encode(undefined) };
  if (status?.status === "canceled") return { status: "canceled", ...(end?.reason !== undefined && { reason: end.reason }) };
  return { status: "failed", error: end?.error ?? { name: "Error", message: `The run ${head.id} ended as ${status?.status}.` } };
}

/** P10: the next execution, in the batch that ends this one. What nobody consumed stays, in front of what has come since. */
export function continueAsNew(execution: Execution, command: Extract<TerminalCommand, { type: "continueAsNew" }>, time: number): void {
  const { storage, settings, head } = execution;
  const { input, version = head.version, signals = [] } = command;
  const { environment } = settings;
  storage.continue({ ...head, version, input, execution: head.execution + 1, attempt: 1, seed: environment.uuid(), lastTime: time });
  storage.setStatus({ status: "pending", wakeAt: environment.now() });
  for (const [i, { id, name, payload }] of signals.entries()) {
    // What the schema made of it is what goes on (M13).
    storage.putMessage(carriedKey(head.execution, i), { job: { type: "signal", id, name, payload, checked: true } });
  }
}
