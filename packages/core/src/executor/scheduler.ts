// Decides which unit runs next: deterministic rounds over the runnable units of one run.
// Owns: the snapshot of the current round and the units that wait for the next one.
// Invariants: X2 (one unit at a time), X4 (a round is a snapshot in stable order; units that become runnable meanwhile wait for the next).

import { compareOrder } from "../protocol/location.ts";
import type { Unit } from "./unit.ts";

const NO_UNITS: readonly Unit[] = [];

export class Scheduler {
  #round: readonly Unit[] = NO_UNITS;
  #position = 0;
  #next: Unit[] = [];
  /** The number of rounds started so far. */
  rounds = 0;

  /** The unit gets a step in the next round, or in this one if its step is still to come. */
  schedule(unit: Unit): void {
    if (unit.scheduled) return;
    unit.scheduled = true;
    this.#next.push(unit);
  }

  /** The unit that gets the next step; undefined if none is runnable. */
  take(): Unit | undefined {
    for (;;) {
      while (this.#position < this.#round.length) {
        const unit = this.#round[this.#position++] as Unit;
        unit.scheduled = false;
        if (unit.runnable) return unit;
      }
      if (this.#next.length === 0) {
        this.#round = NO_UNITS; // release ended units while the run is parked
        this.#position = 0;
        return undefined;
      }
      const round = this.#next;
      if (round.length > 1) round.sort((a, b) => compareOrder(a.order, b.order));
      this.#round = round;
      this.#next = [];
      this.#position = 0;
      this.rounds++;
    }
  }

  clear(): void {
    this.#round = NO_UNITS;
    this.#next = [];
    this.#position = 0;
  }
}
