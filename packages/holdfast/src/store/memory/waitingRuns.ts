// Runs that wait for another run to close before they begin, in memory.
// Owns: which run waits for which.
// Invariants: Q10 (a run waits only for one that is open, and never in a circle).

import { isOpen, type KeptRun } from "./state.ts";

const NONE: readonly KeptRun[] = [];

export class WaitingRuns {
  readonly #waiting = new Map<string, Set<KeptRun>>();

  /** From now on it waits for the target, or for nothing: the target is unknown or closed, or waits for this run itself. */
  add(run: KeptRun, target: KeptRun | undefined, find: (id: string) => KeptRun | undefined): void {
    this.delete(run);
    // A circle needs a run that waits for this one: a new run has none, however long the line is that it joins.
    if (target === undefined || !isOpen(target) || target === run || (this.#waiting.has(run.id) && isBehind(target, run, find))) return;
    run.after = target.id;
    const others = this.#waiting.get(target.id);
    if (others === undefined) this.#waiting.set(target.id, new Set([run]));
    else others.add(run);
  }
  delete(run: KeptRun): void {
    const others = run.after === undefined ? undefined : this.#waiting.get(run.after);
    others?.delete(run);
    if (others?.size === 0 && run.after !== undefined) this.#waiting.delete(run.after);
    run.after = undefined;
  }
  /** In the order in which they began to wait. */
  of({ id }: KeptRun): readonly KeptRun[] {
    const waiting = this.#waiting.get(id);
    return waiting === undefined ? NONE : [...waiting];
  }
}

/** Whether it is the other run, or waits for it, directly or through others. */
function isBehind(run: KeptRun, other: KeptRun, find: (id: string) => KeptRun | undefined): boolean {
  for (let at: KeptRun | undefined = run; at !== undefined; at = at.after === undefined ? undefined : find(at.after))
    if (at === other) return true;
  return false;
}
