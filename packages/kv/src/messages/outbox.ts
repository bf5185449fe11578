// Word for other runs: written with the turn that has it, delivered after, and struck off once delivered.
// Owns: the delivery of letters, one at a time.
// Invariants: K6 M12; a letter is delivered at least once, however often the process dies; one that can't be delivered is tried again later.

import { HoldfastError, type Logger } from "@holdfast/core";
import type { Environment } from "../environment.ts";
import type { Router } from "../router.ts";
import type { Letter } from "../storage/contents.ts";
import type { Storage } from "../storage/storage.ts";

export interface OutboxOptions {
  readonly storage: Storage;
  readonly router: Router | undefined;
  readonly environment: Environment;
  readonly logger: Logger;
  readonly runId: string;
  readonly onChange: () => void;
}

const LONGEST_WAIT = 100_000;

export class Outbox {
  readonly #options: OutboxOptions;
  #delivering: Promise<void> | undefined;
  #failures = 0;
  #nextAt = 0;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }
  /** A delivery is under way. */
  get busy(): boolean {
    return this.#delivering !== undefined;
  }
  /** There is something to deliver now. */
  get pending(): boolean {
    return this.busy || (this.#options.storage.outbox.size > 0 && this.#nextAt <= this.#options.environment.now());
  }
  /** When to try again what could not be delivered. */
  get nextAt(): number | undefined {
    return this.#options.storage.outbox.size === 0 || this.busy ? undefined : this.#nextAt;
  }
  /** Begins to deliver what is due. */
  deliver(): void {
    const { storage, environment, onChange } = this.#options;
    if (this.busy || storage.outbox.size === 0 || environment.now() < this.#nextAt) return;
    this.#delivering = this.#deliverAll().finally(() => {
      this.#delivering = undefined;
      onChange();
    });
  }
  /** Until all is delivered, or something can't be. */
  async settle(): Promise<void> {
    this.deliver();
    await this.#delivering;
  }
  async #deliverAll(): Promise<void> {
    const { storage, logger, environment, runId } = this.#options;
    for (const [n, letter] of [...storage.outbox]) {
      try {
        await this.#hand(letter);
        storage.removeLetter(n); // written with the next batch: until then it may be delivered once more
        this.#failures = 0;
      } catch (error) {
        this.#nextAt = environment.now() + Math.min(1_000 * 2 ** this.#failures++, LONGEST_WAIT);
        logger.error(`Run ${runId} could not reach another run (${letter.type}); trying again.`, { runId, error });
        return;
      }
    }
  }
  async #hand(letter: Letter): Promise<void> {
    const { router } = this.#options;
    if (router === undefined) throw new HoldfastError("There is no router to hand it to.", { code: "HF_KV_NO_ROUTER" });
    if (letter.type === "ended") await router.ended(letter.parent, letter.outcome);
    else await router[letter.type](letter.runId, letter.reason);
  }
}
