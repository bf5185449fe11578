// What stores share about updates: how long one may wait to be accepted, and how long its outcome is kept.
// Owns: both lengths of time.
// Invariants: M8 (the store's clock decides), M10 (an outcome whose sender gave no key is kept for an hour at least).

import type { InboxJob, NewMessage } from "./port.ts";

/** M10: milliseconds for which the outcome of an update without a key is kept. */
export const KEYLESS_OUTCOME_KEPT = 3_600_000;

/** The job as it goes into the inbox. */
export function arrivingJob({ job, acceptWithin }: NewMessage, now: number): InboxJob {
  return job.type === "update" && acceptWithin !== undefined ? { ...job, acceptUntil: now + acceptWithin } : job;
}
