// How a run ends without missing a message that was acknowledged.
// Owns: the mark `closing` of the run's status, and what senders of this process wait for.
// Invariants: H5 (a run marks itself, lists its messages once more, and then ends or takes the mark away), D9 K1 (what makes an end late),
// M1 (a sender whose message comes after that list is acknowledged only once it is known what came of it).

import type { EndWants, Job } from "@holdfast/core";
import type { Execution } from "./execution.ts";
import type { Flusher } from "./flusher.ts";
import type { Intake } from "./intake.ts";

export class Closing {
  readonly #intake: Intake;
  readonly #flusher: Flusher;
  #decided: Promise<void> | undefined;
  #tell: () => void = () => {};

  constructor(intake: Intake, flusher: Flusher) {
    this.#intake = intake;
    this.#flusher = flusher;
  }
  /** Undefined while messages that come are still looked at. Otherwise resolves once the end is durable, or the run has stopped without it. */
  get decided(): Promise<void> | undefined {
    return this.#decided;
  }
  /** The run ends, whatever comes from now on. */
  decide(): void {
    this.#decided ??= new Promise((resolve) => {
      this.#tell = resolve;
    });
  }
  /** What has come of it can be read. */
  over(): void {
    this.#tell();
  }

  /** D9: may the turn end the run? If not, something came that it should have been given. `jobs`: of the turn. */
  async mayEnd(execution: Execution, jobs: readonly Job[], wants: EndWants): Promise<boolean> {
    if (wants.overtaken !== undefined && jobs.some(isOutcome)) return false;
    const isLate = (job: { readonly type: string; readonly name?: string }): boolean =>
      job.type === "cancel" ? wants.heedsCancel === true : job.type === "signal" && wants.stillWanted?.includes(job.name ?? "") === true;
    const hasLate = (): boolean => execution.jobs.some(isLate) || this.#intake.has(isLate);
    if (wants.heedsCancel !== true && wants.stillWanted === undefined) return true;
    if (hasLate()) return false;
    // A run that is not stored yet has no messages.
    if (execution.storage.isStored) {
      await this.#flusher.apart(() => execution.storage.markClosing());
      await this.#intake.look();
      if (hasLate()) {
        await this.#flusher.apart(() => execution.storage.unmarkClosing());
        return false;
      }
    }
    this.decide();
    return true;
  }
}

/** Not a message, nor what begins the turn of an execution or attempt. */
export function isOutcome({ type }: Job): boolean {
  return type === "resolve" || type === "fire" || type === "childStarted";
}
/** What begins an execution, or an attempt of it: first in its turn. */
export function isBeginning({ type }: Job): boolean {
  return type === "start" || type === "resume";
}
