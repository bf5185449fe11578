// How long a turn took: the time of its own code, not that of the runs that share its tick.
// Owns: one running lap for each clock, and what each executor's code has spent of it.
// Invariants: X9 (who is slow fails, its neighbours do not), X1 (the clock comes from outside).

/** The clock with its running lap. Whoever ends a lap takes the time since the last one ended. */
class Laps {
  readonly #elapsed: () => number;
  #last: number;

  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
    this.#last = elapsed();
  }
  end(): number {
    const now = this.#elapsed();
    const lap = now - this.#last;
    this.#last = now;
    return lap;
  }
}

const lapsOf = new WeakMap<() => number, Laps>();

export class Stopwatch {
  readonly #laps: Laps;
  spent = 0;

  constructor(elapsed: () => number) {
    const laps = lapsOf.get(elapsed) ?? new Laps(elapsed);
    lapsOf.set(elapsed, laps);
    this.#laps = laps;
  }
  /** A turn begins: what went before is nobody's. */
  restart(): void {
    this.spent = 0;
    this.#laps.end();
  }
  /**
   * The time since the last lap was this turn's. Called before and after the executor's own work, and in a microtask right behind
   * the code that a step resumes, before the code of a neighbour begins.
   */
  readonly take = (): void => {
    this.spent += this.#laps.end();
  };
}
