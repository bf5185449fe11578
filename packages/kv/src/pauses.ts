// Waiting for what another process may write.
// Owns: the length of the waits, and the timer of the one that is under way.
// Invariants: they grow; no timer is left behind.

import type { Environment, Timer } from "./environment.ts";

/** Milliseconds. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 30_000;

/** Between looks at something that another process may change: longer each time, and over at once if nothing is looked for any more. */
export class Pauses {
  readonly #environment: Environment;
  #wait = FIRST_PAUSE;
  #timer: Timer | undefined;

  constructor(environment: Environment) {
    this.#environment = environment;
  }
  /** Never resolves after the end. */
  next(): Promise<void> {
    const wait = this.#wait;
    this.#wait = Math.min(wait * 1.5, LONGEST_PAUSE);
    if (wait === 0) return new Promise(() => {});
    return new Promise((resolve) => {
      this.#timer = this.#environment.after(wait, resolve);
    });
  }
  end(): void {
    this.#wait = 0;
    this.#timer?.cancel();
  }
}
