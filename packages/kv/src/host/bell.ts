// What a live run waits on when nothing can advance.
// Owns: whether something has happened since the last wait.
// Invariants: D9 (an event between two waits is not missed: the next wait ends at once).

import type { Timer } from "../environment.ts";

export class Bell {
  #rung = false;
  #onRing: (() => void) | undefined;

  readonly ring = (): void => {
    this.#rung = true;
    this.#onRing?.();
  };
  /** Whether something has happened since the last wait. */
  get rung(): boolean {
    return this.#rung;
  }
  hush(): void {
    this.#rung = false;
  }
  /** Waits until it rings; returns at once if it has rung. `timer` may ring it. */
  async wait(timer: () => Timer | undefined): Promise<void> {
    if (!this.#rung) {
      const running = timer();
      await new Promise<void>((resolve) => {
        this.#onRing = resolve;
      });
      this.#onRing = undefined;
      running?.cancel();
    }
    this.#rung = false;
  }
}
