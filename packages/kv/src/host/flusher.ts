// Writes the batches of a run, with the alarm that each needs, and tells of what has become durable.
// Owns: the run's alarm.
// Invariants: D2 H2 (one batch, whole), D9 (the alarm that a status needs stands before the status does; a message that comes while the
// run is left alone keeps its alarm), M10 (callers hear of what is durable).

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
  /** Throws LimitExceededError if the driver can't take it whole, KvWriteError if it can't write: then nothing was written. */
  async flush(storage: Storage): Promise<void> {
    if (!storage.dirty) return;
    await this.apart(async () => {
      const at = this.#alarmFor(storage.status);
      if (at !== undefined && !this.alarm.isBy(at)) await this.alarm.arm(at);
      await storage.flush();
      this.#onFlush();
    });
  }
  /** A write that takes nothing of what is pending with it. Throws as `flush` does. */
  async apart(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (cause) {
      if (isTooLarge(cause)) throw cause;
      // biome-ignore lint/style/useErrorCause: it is among the details
      throw new KvWriteError({ runId: this.#settings.id, cause });
    }
  }
  /** A run that works has an alarm that is due: a host that was killed finds it. */
  #alarmFor(status: Status | undefined): number | undefined {
    if (status === undefined || isClosed(status.status)) return undefined;
    return status.waitingFor === undefined ? this.turnTime : status.wakeAt;
  }
  /** After the batch that has them. */
  tell(answers: readonly UpdateAnswer[]): void {
    for (const { id, outcome } of answers) this.#namespace.tellUpdate(id, outcome);
  }
}
