// What the start of a run says, of runs that were claimed before their first turn.
// Owns: the starts that claims have brought, until their first turn is committed.
// Invariants: a start that is not remembered is written in full: this saves bytes, nothing else.

import type { Birth, RunRow, TurnCommit } from "holdfast/store";
import type { BirthOf } from "./commitTurns.ts";
import { birthOf } from "./runRow.ts";

const MOST_BIRTHS = 10_000;

export class Births {
  readonly #births = new Map<string, Birth & { execution: number }>();

  remember(run: RunRow): void {
    if (this.#births.size >= MOST_BIRTHS) this.#births.clear();
    this.#births.set(run.id, { ...birthOf(run), execution: run.execution });
  }
  /** For these turns; those that have a start are forgotten. */
  take(turns: readonly TurnCommit[]): BirthOf {
    const births = new Map<TurnCommit, Birth>();
    for (const commit of turns) {
      if (commit.turn?.jobs[0]?.type !== "start") continue;
      const birth = this.#births.get(commit.runId);
      this.#births.delete(commit.runId);
      if (birth?.execution === commit.execution) births.set(commit, birth);
    }
    return (commit) => births.get(commit);
  }
}
