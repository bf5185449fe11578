// Finds the failed operations that caused an error which ends the run.
// Owns: the errors with which operations failed.
// Invariants: D10 (a resume voids the operations that caused the failure, and no others).

import { read } from "../../base/text.ts";

export class FailureCauses {
  readonly #seqs = new WeakMap<object, number>();

  /** Records that the operation failed with this error. */
  put(error: Error, seq: number): void {
    this.#seqs.set(error, seq);
  }
  /** The failed operations behind an error: its own, those of its causes, and those of a join or race. */
  causesOf(error: unknown, found: Set<number> = new Set(), depth = 0): Set<number> {
    if (typeof error !== "object" || error === null || depth > 16) return found;
    const seq = this.#seqs.get(error);
    if (seq !== undefined) found.add(seq);
    this.causesOf(read(error, "cause"), found, depth + 1);
    for (const one of partsOf(error)) this.causesOf(one, found, depth + 1);
    return found;
  }
}

/** The errors inside a JoinError, a RaceError or an AggregateError. */
export function partsOf(error: unknown): unknown[] {
  const errors = read(error, "errors");
  try {
    return typeof errors === "object" && errors !== null ? Object.values(errors) : [];
  } catch {
    return [];
  }
}
