// Where turns begin: in a macrotask that is theirs.
// Owns: the turns that are about to begin.
// Invariants: X8 (no foreign continuation runs in the microtasks of a turn). Turns of several runs may share a macrotask, and with it
// the executor's barrier, unless somebody has to know whose code is running (the determinism guard).

import type { Environment } from "./environment.ts";

export class Turnstile {
  readonly #environment: Environment;
  readonly #isShared: boolean;
  #waiting: (() => void)[] = [];

  constructor(environment: Environment, isShared: boolean) {
    this.#environment = environment;
    this.#isShared = isShared;
  }
  /** Calls back in a fresh macrotask. */
  pass(begin: () => void): void {
    if (!this.#isShared) this.#environment.soon(begin);
    else if (this.#waiting.push(begin) === 1) this.#environment.soon(() => this.#open());
  }
  #open(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const begin of waiting) begin();
  }
}
