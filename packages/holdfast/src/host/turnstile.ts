// Where turns begin and end: in a macrotask that is theirs.
// Owns: the turns that are about to begin, and what the host does with those that have ended.
// Invariants: X8 (no foreign continuation runs in the microtasks of a turn), X11 (in that macrotask nothing but workflow code rejects
// promises: what the host does with a turn, and whoever waits for it, comes in the next). Turns of several runs may share a macrotask, and
// with it the executor's barrier, unless somebody has to know whose code is running (the determinism guard).

import type { Environment } from "./environment.ts";
import { enterTurns, leaveTurns } from "./rejections.ts";

export class Turnstile {
  readonly #environment: Environment;
  readonly #isShared: boolean;
  readonly #waiting: (() => void)[] = [];
  #ended: (() => void)[] = [];
  #isOpen = false;

  constructor(environment: Environment, isShared: boolean) {
    this.#environment = environment;
    this.#isShared = isShared;
  }
  /** Calls back in a fresh macrotask. */
  pass(begin: () => void): void {
    if (this.#waiting.push(begin) > 1 && this.#isShared) return;
    // Both at once: nothing comes in between, and the event loop does not go round for the second.
    this.#environment.soon(this.#open);
    this.#environment.soon(this.#close);
  }
  /** Calls back in the macrotask after the turn's. */
  leave(then: () => void): void {
    if (this.#isOpen) this.#ended.push(then);
    else then();
  }
  readonly #open = (): void => {
    const begins = this.#waiting.splice(0, this.#isShared ? this.#waiting.length : 1);
    this.#isOpen = true;
    enterTurns();
    for (const begin of begins) begin();
  };
  readonly #close = (): void => {
    const ended = this.#ended;
    this.#ended = [];
    this.#isOpen = false;
    leaveTurns();
    for (const then of ended) {
      try {
        then();
      } catch (error) {
        void Promise.reject(error); // the process hears of it, and the other runs go on
      }
    }
  };
}
