// Which failed operations stand behind an error that ends the run.
// Owns: the errors that operations failed with.
// Invariants: D10 (a resume voids the operations that caused the failure, and no others).

import { read } from "../../base/text.ts";

export class FailureCauses {
  readonly #seqs = new WeakMap<object, number>();

  /** This error is the failure of that operation. */
  put(error: Error, seq: number): void {
    this.#seqs.set(error, seq);
  }
  /** The failed operations behind an error: its own, those of its causes, those of a join or race. */
  causesOf(error: unknown, found: Set<number> = new Set(), depth = 0): Set<number> {
    if (typeof error !== "object" || error === null || depth > 16) return found;
    const seq = this.#seqs.get(error);
    if (seq !== undefined) found.add(seq);
    this.causesOf(read(error, "cause"), found, depth + 1);
    for (const one of partsOf(error)) this.causesOf(one, found, depth + 1);
    return found;
  }
}

/** The errors that an error gathers: those of a join, a race, an AggregateError. */
export function partsOf(error: unknown): unknown[] {
  const errors = read(error, "errors");
  try {
    return typeof errors === "object" && errors !== null ? Object.values(errors) : [];
  } catch {
    return [];
  }
}
