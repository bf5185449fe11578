// Checks that nothing of a run begins after its deadline: the oracle of claims, activities and steps.
// Owns: the deadlines of runs, as their claims contain them.
// Invariants: K7 (a run past its deadline is claimed only for its rollbacks, none of its activities is handed out, and none of its steps
// begins, by the store's clock as far as the worker knows it).

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
    this.#check(id, 0, "was claimed to continue");
  }
  handedOut({ runId, activity }: ClaimedTask): void {
    this.#check(runId, 0, `had its activity ${activity} handed out`);
  }
  /** The body of a step began that is not a rollback. `tolerance`: how far its worker's clock may be off. */
  began(runId: string, key: string, tolerance: number): void {
    this.#check(runId, tolerance, `began step ${key}`);
  }
  #check(runId: string, tolerance: number, what: string): void {
    const late = this.#world.now - (this.#of.get(runId) ?? Number.POSITIVE_INFINITY);
    if (late >= 0 && late >= tolerance) this.#world.violate("deadlines", "K7", `${runId} ${what} ${late} ms after its deadline`);
  }
}
