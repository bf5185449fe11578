// The updates that an execution has accepted and not answered yet.
// Owns: which are open.
// Invariants: M8 M10 (each has one outcome, stored with the turn that produced it; no caller waits forever).

import type { Command, Completion, SerializedError } from "@holdfast/core";
import type { UpdateAnswer } from "@holdfast/host";

export class Updates {
  readonly #open = new Set<string>();

  track(command: Command): void {
    if (command.type === "acceptUpdate") this.#open.add(command.id);
    else if (command.type === "completeUpdate") this.#open.delete(command.id);
  }
  /** The run closes: the open updates fail with this error. */
  fail(error: SerializedError): UpdateAnswer[] {
    const answers = [...this.#open].map((id): UpdateAnswer => ({ id, outcome: { status: "failed", error } }));
    this.#open.clear();
    return answers;
  }
}

/** M8: updates that no receive has accepted, and that may wait longer. */
export function keptBy({ replies }: Completion & { status: "ok" }): ReadonlySet<string> {
  const kept = new Set<string>();
  for (const reply of replies) if (reply.type === "keepUpdate") kept.add(reply.id);
  return kept;
}
