// A child as its parent's command asks for it.
// Owns: nothing.
// Invariants: K5 (what the call leaves open, the child's definition decides, as for any start).

import { type AnyWorkflow, type ChildCommand, type Payload, parseDuration, type StoredRunRetry } from "@holdfast/core";
import { storedRetry, storedRunRetry } from "./storedRetry.ts";

export interface RequestedChild {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  /** Milliseconds from its start, or with `deadlineAt` a moment. */
  readonly deadline: number | undefined;
  readonly deadlineAt: number | undefined;
  readonly retry: StoredRunRetry | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly onConflict: "reject" | "restart-if-closed";
}

/** `definition`: the child's, if the parent's code has it. Queue, priority and the link to the parent are the host's. */
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
