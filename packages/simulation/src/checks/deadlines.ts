// What begins of runs past their deadline: the oracle of what is handed out and started.
// Owns: the deadlines of runs, as claims have told them.
// Invariants: K7 (a run past its deadline is claimed for its rollbacks alone, none of its activities is handed out, and no step of it
// begins; by the store's clock, as far as a worker can know it).

import type { ClaimedRun, ClaimedTask } from "holdfast/store";
import type { World } from "../world.ts";

export class Deadlines {
  readonly #world: World;
  readonly #of = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }
  claimed({ run, inbox }: ClaimedRun): void {
    const { id, deadlineAt, status } = run;
    if (deadlineAt === undefined) this.#of.delete(id);
    else this.#of.set(id, deadlineAt);
    if (status === "rolling_back" || inbox.some(({ job }) => job.type === "expire")) return;
    this.#check(id, 0, "was claimed to go on");
  }
  handedOut({ runId, activity }: ClaimedTask): void {
    this.#check(runId, 0, `had its activity ${activity} handed out`);
  }
  /** A step's body, which is no rollback. `tolerance`: by so much the clock of its worker may be off. */
  began(runId: string, key: string, tolerance: number): void {
    this.#check(runId, tolerance, `had its step ${key} begun`);
  }
  #check(runId: string, tolerance: number, what: string): void {
    const late = this.#world.now - (this.#of.get(runId) ?? Number.POSITIVE_INFINITY);
    if (late >= 0 && late >= tolerance) this.#world.violate("deadlines", "K7", `${runId} ${what} ${late} ms after its deadline`);
  }
}
