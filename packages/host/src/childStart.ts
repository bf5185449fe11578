// The start of a child, as its parent's command requests it.
// Owns: nothing.
// Invariants: K5 (options that the call omits come from the child's definition, as for any start).

import { type AnyWorkflow, type ChildCommand, type Payload, parseDuration, type StoredRunRetry } from "@holdfast/core";
import { storedRetry, storedRunRetry } from "./storedRetry.ts";

export interface RequestedChild {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  /** Milliseconds from its start. `deadlineAt` is a moment instead. */
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly retry: StoredRunRetry | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly onConflict: "reject" | "restart-if-closed";
}

/** `definition`: the child's, if the parent's process has it. The host adds queue, priority and the link to the parent. */
export function childStartOf(command: ChildCommand, definition: AnyWorkflow | undefined): RequestedChild {
  const { retry, deadline } = definition?.options ?? {};
  const ownDeadline = deadline === undefined || command.deadlineAt !== undefined ? undefined : parseDuration(deadline);
  return {
    id: command.id,
    workflow: command.name,
    version: command.version,
    input: command.input,
    deadline: command.deadline ?? ownDeadline,
    deadlineAt: command.deadlineAt,
    retry: command.retry === undefined ? storedRunRetry(retry) : storedRetry(command.retry, "run"),
    attributes: command.attributes ?? {},
    onConflict: command.onConflict ?? "reject",
  };
}
