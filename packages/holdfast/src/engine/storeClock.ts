// A worker's estimate of the time by the store's clock.
// Owns: the difference between that clock and the steady one of this process.
// Invariants: only the store's clock counts; it is never compared with the wall clock of this process, which may be set at any time.

import type { Environment } from "@holdfast/host";

export class StoreClock {
  readonly #environment: Environment;
  #offset = Number.NEGATIVE_INFINITY;

  constructor(environment: Environment) {
    this.#environment = environment;
  }
  now(): number {
    return this.local() + this.#offset;
  }
  /** The steady clock of this process. `set` needs its time from when the store was asked. */
  local(): number {
    return this.#environment.steady();
  }
  /** An answer is older than its arrival by an unknown time, so it changes the estimate only as far as the two disagree. */
  set(asked: number, storeTime: number): void {
    const earliest = storeTime - this.local();
    const latest = storeTime - asked;
    this.#offset = Math.min(Math.max(this.#offset, earliest), Math.max(earliest, latest));
  }
}
