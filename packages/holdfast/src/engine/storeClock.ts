// The time by the store's clock, as far as a worker can know it.
// Owns: the difference between that clock and the steady one of this process.
// Invariants: one clock, the store's; the clock of this process is never compared with it, since it may be set at any time.

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
  /** For `set`: when the store was asked. Of this process, whatever its clock says. */
  local(): number {
    return this.#environment.steady();
  }
  /** An answer is older than its arrival by an unknown time: it moves the estimate only as far as it contradicts it. */
  set(asked: number, storeTime: number): void {
    const earliest = storeTime - this.local();
    const latest = storeTime - asked;
    this.#offset = Math.min(Math.max(this.#offset, earliest), Math.max(earliest, latest));
  }
}
