// Pauses between polls for data that another process may write.
// Owns: the length of the pauses, and the timer of the current one.
// Invariants: pauses grow; no timer is left behind.

import type { Environment, Timer } from "./environment.ts";

/** Milliseconds. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 30_000;

/** Pauses between polls: longer each time, and ended at once when polling stops. */
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
