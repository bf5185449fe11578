// What time does to runs: looks at the store for deadlines, timeouts of activities and due schedules.
// Owns: when the store is looked at. Does not own: what is overdue (the store), starting ticks (engine/schedules.ts).
// Invariants: K7 T2 (within a second, by one statement for all of it); one look at a time, however slow the store is.

import type { Logger } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import type { NewRun, Store } from "../store/port.ts";
import type { DueSchedules } from "../store/schedulePort.ts";

const LOOK_EVERY_MS = 500;

export interface DeadlinesHost {
  readonly store: Store;
  readonly environment: Environment;
  readonly logger: Logger;
  /** The store has answered. */
  reached(): void;
  /** These schedules are due. */
  due(found: DueSchedules): void;
}

export class Deadlines {
  readonly #host: DeadlinesHost;
  #timer: Timer | undefined;
  #isClosed = false;
  #isLooking = false;
  #again = false;
  /** Why the last look failed. Logged once, since there are two per second. */
  #failure: string | undefined;

  constructor(host: DeadlinesHost) {
    this.#host = host;
  }
  start(): void {
    this.#timer = this.#host.environment.every(LOOK_EVERY_MS, () => {
      if (!this.#isLooking) void this.look();
    });
  }
  stop(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }
  async look(): Promise<void> {
    this.#again = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#again && !this.#isClosed) {
      this.#again = false;
      try {
        const found = await this.#host.store.expire();
        this.#host.reached();
        this.#failure = undefined;
        if (!this.#isClosed) this.#host.due(found);
      } catch (error) {
        const isLogged = this.#failure === String(error);
        this.#failure = String(error);
        if (!this.#isClosed && !isLogged) this.#host.logger.error("Deadlines could not be checked; trying again.", { error });
      }
    }
    this.#isLooking = false;
  }
  /** Deadlines that are near are checked when they are due; those that have passed, at once. */
  expect(runs: readonly NewRun[]): void {
    const { environment } = this.#host;
    for (const { deadline, deadlineAt } of runs) {
      const after = deadline ?? (deadlineAt === undefined ? undefined : deadlineAt - environment.now());
      // Later ones are found in time by the periodic look; a timer for each would be expensive.
      if (after !== undefined && after <= 0) void this.look();
      else if (after !== undefined && after <= 1_000) environment.after(after, () => void this.look());
    }
  }
}
