// The alarm of one run: when its host should wake it.
// Owns: the time of the driver's alarm, as far as this session knows, and the order of its changes.
// Invariants: H3; D9 (an alarm that a message needs is not cleared: changes are made one after the other); an alarm is set before the data
// that needs it is written: a crash in between costs a wake-up, not the run.

import type { EngineDriver } from "../driver.ts";

export class Alarm {
  readonly #driver: EngineDriver;
  readonly #runId: string;
  #at: number | "unknown" | "none" = "unknown";
  #changes: Promise<void> = Promise.resolve();

  constructor(driver: EngineDriver, runId: string) {
    this.#driver = driver;
    this.#runId = runId;
  }
  /** Undefined if there is none, or if it is unknown. */
  get at(): number | undefined {
    return typeof this.#at === "number" ? this.#at : undefined;
  }
  /** Whether it is set to that time or earlier. */
  isBy(at: number): boolean {
    return typeof this.#at === "number" && this.#at <= at;
  }
  /** Sets an alarm for that time, unless it is set to an earlier time. It is set when this resolves. */
  arm(at: number): Promise<void> {
    return this.#change(async () => {
      if (this.isBy(at)) return;
      await this.#driver.setAlarm(this.#runId, at);
      this.#at = at;
    });
  }
  /**
   * Sets the alarm of a run that leaves memory to exactly this time, or clears it; unless `needed` says that something has arrived
   * meanwhile. Resolves with true if it was changed: the old alarm may have been set for a message that this session does not know yet.
   */
  leaveAt(at: number | undefined, needed: () => boolean): Promise<boolean> {
    return this.#change(async () => {
      if (this.#at === (at ?? "none") || needed()) return false;
      await (at === undefined ? this.#driver.clearAlarm(this.#runId) : this.#driver.setAlarm(this.#runId, at));
      this.#at = at ?? "none";
      return true;
    });
  }
  #change<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changes.then(change);
    this.#changes = done.then(
      () => {},
      () => {},
    );
    return done;
  }
}
