// Finishes a run that has ended: answers messages that arrived too late, and notifies other runs.
// Owns: nothing.
// Invariants: M10 M12 (no caller waits forever), K6 (parent and children are notified, now or at a later wake-up). If it is interrupted,
// the next wake-up does the rest.

import type { RunStatus } from "@holdfast/core";
import type { UpdateAnswer } from "@holdfast/host";
import { closedError } from "./endings.ts";
import type { Execution } from "./execution.ts";
import type { Flusher } from "./flusher.ts";
import type { Intake } from "./intake.ts";

export async function settleAfterEnd(execution: Execution, intake: Intake, flusher: Flusher): Promise<void> {
  await refuseLeftovers(execution, intake, flusher);
  await settleOutbox(execution, flusher);
  const { storage, outbox } = execution;
  await flusher.alarm.leaveAt(storage.outbox.size > 0 ? outbox.nextAt : undefined, () => intake.waiting > 0);
}

/** Deletes messages that no turn will consume, and notifies their callers. */
async function refuseLeftovers({ storage, settings }: Execution, intake: Intake, flusher: Flusher): Promise<void> {
  const { maxBatchBytes, maxBatchWrites } = settings.driver;
  const status: RunStatus = storage.status?.status ?? "completed";
  const left = intake.takeLeftovers(storage.end?.resumable === true);
  const atOnce = maxBatchBytes === undefined && maxBatchWrites === undefined ? left.length : 1;
  for (let at = 0; at < left.length; at += atOnce) {
    const answers: UpdateAnswer[] = [];
    for (const message of left.slice(at, at + atOnce)) {
      storage.consume(message);
      const { job } = message;
      if (job.type === "update") answers.push({ id: job.id, outcome: { status: "rejected", error: closedError(settings.id, status) } });
    }
    for (const { id, outcome } of answers) storage.setUpdate(id, outcome, settings.environment.now());
    await flusher.flush(storage);
    flusher.tell(answers);
  }
}
/** Notifies other runs before the run leaves this process. What can't be delivered now is delivered at a later wake-up. */
async function settleOutbox({ storage, outbox }: Execution, flusher: Flusher): Promise<void> {
  if (storage.outbox.size === 0) return;
  await outbox.settle();
  if (outbox.nextAt !== undefined) await flusher.alarm.arm(outbox.nextAt);
  await flusher.flush(storage);
}
