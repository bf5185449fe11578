// What is left to do for a run that is over: messages that came too late, word for other runs.
// Owns: nothing.
// Invariants: M10 M12 (no caller waits for ever), K6 (family hears of it, now or at a later wake-up). If it is cut short, the next wake-up
// does the rest.

import type { RunStatus } from "@holdfast/core";
import type { UpdateAnswer } from "@holdfast/host";
import { closedError } from "./endings.ts";
import type { Execution } from "./execution.ts";
import type { Flusher } from "./flusher.ts";
import type { Intake } from "./intake.ts";

export async function settleAfterEnd(execution: Execution, intake: Intake, flusher: Flusher): Promise<void> {
  await refuseLeftovers(execution, intake, flusher);
  await settlePost(execution, flusher);
  const { storage, post } = execution;
  await flusher.alarm.leaveAt(storage.outbox.size > 0 ? post.nextAt : undefined, () => intake.waiting > 0);
}

/** Messages that nobody will take go, and callers hear of it. */
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
/** Word for others goes out before the run is over here; what can't be delivered now is, at a later wake-up. */
async function settlePost({ storage, post }: Execution, flusher: Flusher): Promise<void> {
  if (storage.outbox.size === 0) return;
  await post.settle();
  if (post.nextAt !== undefined) await flusher.alarm.arm(post.nextAt);
  await flusher.flush(storage);
}
