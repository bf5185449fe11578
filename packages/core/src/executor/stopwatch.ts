// Measures how long a turn took, without the code of other runs that share its tick.
// Owns: one running lap per clock, and the time that each executor's code has spent.
// Invariants: X9 (a slow run fails, the other runs in its tick don't), X1 (the clock is passed in).

/** A clock with its running lap. `end` returns the time since the previous lap ended. */
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
  /** A turn begins: the time before it is charged to no run. */
  restart(): void {
    this.spent = 0;
    this.#laps.end();
  }
  /**
   * Charges the time since the last lap to this turn. Called before and after the executor's own work, and in a microtask right after
   * the code that a step resumes, before the code of another run starts.
   */
  readonly take = (): void => {
    this.spent += this.#laps.end();
  };
}
