// The updates that an execution has accepted and not answered, and the answers of a turn.
// Owns: which are open.
// Invariants: M8 M10 (each has one outcome, stored with the turn that has it; no caller waits for ever).

import type { Command, Completion, SerializedError } from "@holdfast/core";
import type { UpdateOutcome } from "../storage/contents.ts";

/** The outcome of an update, for those who wait for it. */
export interface Answer {
  readonly id: string;
  readonly outcome: UpdateOutcome;
}

export class Updates {
  readonly #open = new Set<string>();

  track(command: Command): void {
    if (command.type === "acceptUpdate") this.#open.add(command.id);
    else if (command.type === "completeUpdate") this.#open.delete(command.id);
  }
  /** The run closes: what is open fails with this. */
  fail(error: SerializedError): Answer[] {
    const answers = [...this.#open].map((id): Answer => ({ id, outcome: { status: "failed", error } }));
    this.#open.clear();
    return answers;
  }
}

/** M8: those that no receive has taken up, and that may wait on. */
export function keptBy({ replies }: Completion & { status: "ok" }): ReadonlySet<string> {
  const kept = new Set<string>();
  for (const reply of replies) if (reply.type === "keepUpdate") kept.add(reply.id);
  return kept;
}

export function answersOf({ commands, replies }: Completion & { status: "ok" }): Answer[] {
  const answers: Answer[] = [];
  for (const reply of replies)
    if (reply.type === "rejectUpdate") answers.push({ id: reply.id, outcome: { status: "rejected", error: reply.error } });
  for (const command of commands) {
    if (command.type !== "completeUpdate") continue;
    const { id, value, error } = command;
    const outcome: UpdateOutcome =
      error === undefined && value !== undefined
        ? { status: "completed", value }
        : { status: "failed", error: error ?? { name: "Error", message: "The update has no reply." } };
    answers.push({ id, outcome });
  }
  return answers;
}
