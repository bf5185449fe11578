// What a live run waits on when nothing can advance.
// Owns: whether something has happened since the last wait.
// Invariants: D9 (an event between two waits is not missed: the next wait ends at once).

import type { Timer } from "../environment.ts";

export class WakeFlag {
  #isSet = false;
  #onSet: (() => void) | undefined;

  readonly set = (): void => {
    this.#isSet = true;
    this.#onSet?.();
  };
  /** Whether something has happened since the last wait. */
  get isSet(): boolean {
    return this.#isSet;
  }
  clear(): void {
    this.#isSet = false;
  }
  /** Waits until it is set, and clears it; returns at once if it is set already. `timer` may set it. */
  async wait(timer: () => Timer | undefined): Promise<void> {
    if (!this.#isSet) {
      const running = timer();
      await new Promise<void>((resolve) => {
        this.#onSet = resolve;
      });
      this.#onSet = undefined;
      running?.cancel();
    }
    this.#isSet = false;
  }
}
