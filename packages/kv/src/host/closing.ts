// Ends a run without losing a message that was acknowledged.
// Owns: the mark `closing` of the run's status, and what senders of this process wait for.
// Invariants: H5 (a run sets the mark, lists its messages once more, and then ends or removes the mark), D9 K1 (which messages delay the
// end), M1 (a message that arrives after that list is acknowledged only once the result of the end is known).

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
  /** Undefined while arriving messages are still read. Otherwise resolves once the end is durable, or the run has stopped without it. */
  get decided(): Promise<void> | undefined {
    return this.#decided;
  }
  /** The run ends, whatever arrives from now on. */
  decide(): void {
    this.#decided ??= new Promise((resolve) => {
      this.#tell = resolve;
    });
  }
  /** The result of the end can be read. */
  over(): void {
    this.#tell();
  }

  /** D9: whether the turn may end the run. If not, something arrived that the turn should have received. `jobs`: those of the turn. */
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

/** True for outcomes: neither messages, nor the first job of an execution or attempt. */
export function isOutcome({ type }: Job): boolean {
  return type === "resolve" || type === "fire" || type === "childStarted";
}
/** True for the first job of an execution or of an attempt. */
export function isBeginning({ type }: Job): boolean {
  return type === "start" || type === "resume";
}
