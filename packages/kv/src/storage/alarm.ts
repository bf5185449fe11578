// The alarm of one run: when its host is to wake it.
// Owns: what the driver's alarm is at, as far as this session knows, and the order of its changes.
// Invariants: H3; D9 (an alarm that a message stands behind is not cleared: changes are made one after the other); an alarm stands before
// what needs it does: a crash in between costs a wake-up, not the run.

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
  /** Undefined if there is none, or nobody knows. */
  get at(): number | undefined {
    return typeof this.#at === "number" ? this.#at : undefined;
  }
  /** It is at that time or earlier. */
  isBy(at: number): boolean {
    return typeof this.#at === "number" && this.#at <= at;
  }
  /** An alarm at that time or earlier: it stands when this resolves. */
  arm(at: number): Promise<void> {
    return this.#change(async () => {
      if (this.isBy(at)) return;
      await this.#driver.setAlarm(this.#runId, at);
      this.#at = at;
    });
  }
  /**
   * Of a run that is left alone: just then, or never. Not if it is `needed` by then for something that has come meanwhile. True if it was
   * changed: it may have stood for a message that this session has not heard of.
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
