// Writes the batches of a run, sets the alarm that each needs, and notifies callers of durable outcomes.
// Owns: the run's alarm.
// Invariants: D2 H2 (one complete batch), D9 (an alarm is set before the status that needs it is written; a message that arrives while the
// run parks keeps its alarm), M10 (callers are notified of what is durable).

import type { UpdateAnswer } from "@holdfast/host";
import { KvWriteError } from "../errors.ts";
import type { Namespace } from "../messages/namespace.ts";
import { isClosed } from "../results.ts";
import { Alarm } from "../storage/alarm.ts";
import { isTooLarge } from "../storage/batchLimits.ts";
import type { Status } from "../storage/contents.ts";
import type { Storage } from "../storage/storage.ts";
import type { Settings } from "./settings.ts";

export class Flusher {
  readonly alarm: Alarm;
  readonly #settings: Settings;
  readonly #namespace: Namespace;
  readonly #onFlush: () => void;
  /** When the last turn began. */
  turnTime: number;

  constructor(settings: Settings, namespace: Namespace, onFlush: () => void) {
    this.#settings = settings;
    this.#namespace = namespace;
    this.#onFlush = onFlush;
    this.alarm = new Alarm(settings.driver, settings.id);
    this.turnTime = settings.environment.now();
  }
  /**
   * Throws LimitExceededError if the batch is too large for the driver, KvWriteError if the write failed. In both cases nothing was
   * written.
   */
  async flush(storage: Storage): Promise<void> {
    if (!storage.dirty) return;
    await this.apart(async () => {
      const at = this.#alarmFor(storage.status);
      if (at !== undefined && !this.alarm.isBy(at)) await this.alarm.arm(at);
      await storage.flush();
      this.#onFlush();
    });
  }
  /** A separate write, without the pending changes. Throws as `flush` does. */
  async apart(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (cause) {
      if (isTooLarge(cause)) throw cause;
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new KvWriteError({ runId: this.#settings.id, cause });
    }
  }
  /** A working run has an alarm that is already due, so that it is found if its host is killed. */
  #alarmFor(status: Status | undefined): number | undefined {
    if (status === undefined || isClosed(status.status)) return undefined;
    return status.waitingFor === undefined ? this.turnTime : status.wakeAt;
  }
  /** Notifies callers, after the batch that contains the answers. */
  tell(answers: readonly UpdateAnswer[]): void {
    for (const { id, outcome } of answers) this.#namespace.tellUpdate(id, outcome);
  }
}
