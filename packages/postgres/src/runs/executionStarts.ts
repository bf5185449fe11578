// The starts of executions whose runs were claimed before their first turn.
// Owns: these starts, until the first turn is committed.
// Invariants: a start that is not remembered is written in full: this saves bytes, nothing else.

import type { ExecutionStart, RunRow, TurnCommit } from "holdfast/store";
import type { ExecutionStartOf } from "./commitTurns.ts";
import { executionStartOf } from "./runRow.ts";

const MOST_KEPT = 10_000;

export class ExecutionStarts {
  readonly #starts = new Map<string, ExecutionStart & { execution: number }>();

  remember(run: RunRow): void {
    if (this.#starts.size >= MOST_KEPT) this.#starts.clear();
    this.#starts.set(run.id, { ...executionStartOf(run), execution: run.execution });
  }
  /** For these turns; those that have a start are forgotten. */
  take(turns: readonly TurnCommit[]): ExecutionStartOf {
    const found = new Map<TurnCommit, ExecutionStart>();
    for (const commit of turns) {
      if (commit.turn?.jobs[0]?.type !== "start") continue;
      const start = this.#starts.get(commit.runId);
      this.#starts.delete(commit.runId);
      if (start?.execution === commit.execution) found.set(commit, start);
    }
    return (commit) => found.get(commit);
  }
}
