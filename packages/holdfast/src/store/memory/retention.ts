// How long closed runs are kept in memory (B4).
// Owns: which closed runs are to go, and when.
// Invariants: B4 (the moment is written with the end; not while the execution of the parent that started them is open).

import { isOpen, type KeptRun } from "./state.ts";

export class Retention {
  /** Of the engine that writes now. Undefined: forever. */
  ofEngine: number | undefined;
  readonly #closed = new Set<KeptRun>();

  closed(run: KeptRun, now: number): void {
    const keptFor = run.retention ?? this.ofEngine;
    run.removeAt = keptFor === undefined || keptFor === "forever" ? undefined : now + keptFor;
    if (run.removeAt === undefined) this.#closed.delete(run);
    else this.#closed.add(run);
  }
  /** It is open again, or gone. */
  forget(run: KeptRun): void {
    run.removeAt = undefined;
    this.#closed.delete(run);
  }
  /** Closed runs whose retention is over, except those that an execution which is open has started. */
  due(now: number, limit: number, find: (runId: string) => KeptRun | undefined): KeptRun[] {
    const found: KeptRun[] = [];
    for (const run of this.#closed) {
      if (found.length === limit) break;
      const { removeAt, parent } = run;
      if (removeAt === undefined || removeAt >= now) continue;
      const starter = parent === undefined ? undefined : find(parent.runId);
      if (starter === undefined || !isOpen(starter) || starter.execution !== parent?.execution) found.push(run);
    }
    return found;
  }
}
