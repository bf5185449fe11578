// The start of a child, as its parent's command requests it.
// Owns: nothing.
// Invariants: K5 (options that the call omits come from the child's definition, as for any start).

import { type AnyWorkflow, type ChildCommand, type Payload, parseDuration, type StoredRunRetry } from "@holdfast/core";
import { keptFor } from "./retention.ts";
import { storedRetry, storedRunRetry } from "./storedRetry.ts";

/** A child that a turn asked for, with its defaults filled in. */
export interface RequestedChild {
  /** The run id of the child. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that runs it. */
  readonly version: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** Milliseconds from its start. `deadlineAt` is a moment instead. */
  readonly deadline: number | undefined;
  /** When it fails if it is still open, in milliseconds since 1970. */
  readonly deadlineAt: number | undefined;
  /** Retry of the child run as a whole. */
  readonly retry: StoredRunRetry | undefined;
  /** Searchable values, by name. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** What to do if a run with that id exists. */
  readonly onConflict: "reject" | "restart-if-closed";
  /** How long its workflow keeps it once it has closed (B4). */
  readonly retention: number | "forever" | undefined;
}

/**
 * The child that a command asks for. `definition`: the child's, if the parent's process has it. The host adds queue, key, priority and the
 * link to the parent.
 */
export function childStartOf(command: ChildCommand, definition: AnyWorkflow | undefined): RequestedChild {
  const { retry, deadline, retention } = definition?.options ?? {};
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
    retention: keptFor(retention),
  };
}
