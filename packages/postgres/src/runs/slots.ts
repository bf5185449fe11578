// Runs, or activities, of this process that hold slots of limited queues.
// Owns: their ids, from their claim until its end.
// Invariants: Q7 (what frees a slot hints that there may be work); one that is forgotten costs time, never progress.

import type { Answer, CommitResult, TurnCommit } from "holdfast/store";

const MOST_REMEMBERED = 10_000;

export class Slots {
  readonly #held = new Set<string>();

  hold(id: string): void {
    if (this.#held.size >= MOST_REMEMBERED) this.#held.clear();
    this.#held.add(id);
  }
  /** Did it hold one? */
  free(id: string): boolean {
    return this.#held.delete(id);
  }
  /** Does one of these commits give a slot back? */
  freedBy(commits: readonly TurnCommit[], results: readonly Answer<CommitResult>[]): boolean {
    if (this.#held.size === 0) return false;
    let isFreed = false;
    for (const [i, { runId, lease, close }] of commits.entries()) {
      const result = results[i];
      if (result === undefined || result === "busy" || result.status === "late") continue;
      if (result.status === "committed" && lease === "keep" && close === undefined) continue;
      if (this.free(runId)) isFreed = true;
    }
    return isFreed;
  }
}
