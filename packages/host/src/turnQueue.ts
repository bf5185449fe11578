// Begins and ends turns, each in a fresh macrotask.
// Owns: the turns that are about to begin, and the host's callbacks for turns that have ended.
// Invariants: X8 (no foreign continuation runs in the microtasks of a turn), X11 (in that macrotask only workflow code rejects promises:
// the host's own work on the turn, and the code that waits for it, run in the next one). Turns of several runs may share a macrotask and
// the executor's barrier, unless the host must know which run's code is running (the determinism guard).

import type { Environment } from "./environment.ts";
import { enterTurns, leaveTurns } from "./unhandledRejections.ts";

/** Runs the turns of many runs one after another, and lets the process do other work in between. */
export class TurnQueue {
  readonly #environment: Pick<Environment, "soon">;
  readonly #isShared: boolean;
  readonly #waiting: (() => void)[] = [];
  #ended: (() => void)[] = [];
  #isOpen = false;

  constructor(environment: Pick<Environment, "soon">, { isShared }: { readonly isShared: boolean }) {
    this.#environment = environment;
    this.#isShared = isShared;
  }
  /** Calls back in a fresh macrotask. */
  enter(begin: () => void): void {
    if (this.#waiting.push(begin) > 1 && this.#isShared) return;
    // Both at once: nothing runs in between, and the second needs no further round of the event loop.
    this.#environment.soon(this.#open);
    this.#environment.soon(this.#close);
  }
  /** Calls back in the macrotask after the turn's. */
  leave(then: () => void): void {
    if (this.#isOpen) this.#ended.push(then);
    else then();
  }
  /** Runs a turn. It begins in a fresh macrotask; the promise resolves in the next one. */
  run<T>(turn: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const begin = (): void =>
        void turn().then(
          (result) => this.leave(() => resolve(result)),
          (error) => this.leave(() => reject(error)),
        );
      this.enter(begin);
    });
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
        void Promise.reject(error); // the process reports it, and the other runs continue
      }
    }
  };
}
