// Messages for other runs: written with the turn that sends them, delivered later, and deleted once delivered.
// Owns: the delivery of these letters, one at a time.
// Invariants: K6 M12; a letter is delivered at least once, however often the process dies; a failed delivery is retried later.

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
  /** Whether a delivery is in progress. */
  get busy(): boolean {
    return this.#delivering !== undefined;
  }
  /** Whether there is something to deliver now. */
  get pending(): boolean {
    return this.busy || (this.#options.storage.outbox.size > 0 && this.#nextAt <= this.#options.environment.now());
  }
  /** When to retry a failed delivery. */
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
  /** Resolves when everything is delivered, or a delivery has failed. */
  async settle(): Promise<void> {
    this.deliver();
    await this.#delivering;
  }
  async #deliverAll(): Promise<void> {
    const { storage, logger, environment, runId } = this.#options;
    for (const [n, letter] of [...storage.outbox]) {
      try {
        await this.#hand(letter);
        storage.removeLetter(n); // deleted with the next batch: until then it may be delivered again
        this.#failures = 0;
      } catch (error) {
        this.#nextAt = environment.now() + Math.min(1_000 * 2 ** this.#failures++, LONGEST_WAIT);
        logger.error(`Run ${runId} could not deliver a message (${letter.type}) to another run; it will be retried.`, { runId, error });
        return;
      }
    }
  }
  async #hand(letter: Letter): Promise<void> {
    const { router } = this.#options;
    if (router === undefined) throw new HoldfastError("There is no router to deliver it.", { code: "HF_KV_NO_ROUTER" });
    if (letter.type === "ended") await router.ended(letter.parent, letter.outcome);
    else await router[letter.type](letter.runId, letter.reason);
  }
}
