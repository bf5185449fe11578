// Describes what a run in memory waits for, in the same words as for a parked run.
// Owns: the wording.
// Invariants: P11 (what an open run waits for can be seen from outside).

import { kindOf } from "@holdfast/core";
import { isoTime } from "../waitingFor.ts";
import type { OpenOperations } from "./openOperations.ts";

interface Waiting {
  readonly waiting: readonly { readonly seq: number; readonly description: string }[];
}

/** What a run waits for, in words. `executor` knows what workflow code waits for; `operations` knows pending retries and due times. */
export function waitingWords(executor: Waiting, operations: OpenOperations): string[] {
  const { retries } = operations;
  const words = retries.map(({ command, attempt, at }) => {
    const kind = kindOf(command) ?? command.type;
    return `${kind} ${command.name} (attempt ${attempt} at ${isoTime(at)})`;
  });
  const retried = new Set(retries.map(({ command }) => command.seq));
  for (const { seq, description } of executor.waiting) {
    if (retried.has(seq)) continue;
    const due = operations.dueOf(seq);
    words.push(due === undefined ? description : `${description} until ${isoTime(due)}`);
  }
  return words;
}
