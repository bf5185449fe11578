// What a live run waits by when nothing can advance.
// Owns: whether something has happened since it was last asked.
// Invariants: D9 (what happens while nobody waits is not missed: the next wait is over at once).

import type { Timer } from "../environment.ts";

export class Bell {
  #rung = false;
  #onRing: (() => void) | undefined;

  readonly ring = (): void => {
    this.#rung = true;
    this.#onRing?.();
  };
  /** Something has happened since the last wait. */
  get rung(): boolean {
    return this.#rung;
  }
  hush(): void {
    this.#rung = false;
  }
  /** Until it rings; at once if it has. `timer` may ring it. */
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
