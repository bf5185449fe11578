// Parked runs that a worker keeps in memory, so that their next claim needs no replay (W5).
// Owns: their drivers, least recently used first.
// Invariants: no more than the limit, except for runs whose history a claim under way leaves out: these stay until it has answered.

import type { RunDriver } from "./runDriver.ts";

export class RunCache {
  readonly #limit: number;
  readonly #drivers = new Map<string, RunDriver>();
  readonly #promised = new Set<string>();

  constructor(limit: number) {
    this.#limit = limit;
  }
  add(driver: RunDriver): void {
    if (this.#limit === 0) return driver.evict();
    this.#drivers.set(driver.runId, driver);
    if (this.#drivers.size > this.#limit) this.#evictOldest();
  }
  /** How much of this run's history a claim may leave out. */
  promise(runId: string): { readonly execution: number; readonly turns: number } | undefined {
    const driver = this.#drivers.get(runId);
    if (driver === undefined) return undefined;
    this.#promised.add(runId);
    return { execution: driver.execution, turns: driver.turns };
  }
  /** The claim has answered. */
  releasePromises(): void {
    this.#promised.clear();
    while (this.#drivers.size > this.#limit) this.#evictOldest();
  }
  /** Removes it without evicting it. */
  take(runId: string): RunDriver | undefined {
    const driver = this.#drivers.get(runId);
    this.#drivers.delete(runId);
    return driver;
  }
  clear(): void {
    for (const driver of this.#drivers.values()) driver.evict();
    this.#drivers.clear();
  }
  #evictOldest(): void {
    for (const [runId, driver] of this.#drivers) {
      if (this.#promised.has(runId)) continue;
      this.#drivers.delete(runId);
      driver.evict();
      return;
    }
  }
}
