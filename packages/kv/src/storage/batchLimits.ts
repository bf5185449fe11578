// How much one batch takes.
// Owns: nothing; estimates.
// Invariants: D2 P9 (a turn is one batch, whole: where batches are bounded it is given only as many jobs as leave room for what it decides).

import { type Job, LimitExceededError } from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";

export function isTooLarge(error: unknown): error is LimitExceededError {
  return error instanceof LimitExceededError;
}

/** How many of the jobs the next turn takes: all; where batches are bounded, only as many as leave half of one to what the turn decides. */
export function jobsThatFit(jobs: readonly Job[], driver: EngineDriver): number {
  const { maxBatchBytes = Number.POSITIVE_INFINITY, maxBatchWrites = Number.POSITIVE_INFINITY } = driver;
  if (maxBatchBytes === Number.POSITIVE_INFINITY && maxBatchWrites === Number.POSITIVE_INFINITY) return jobs.length;
  let bytes = 0;
  let writes = 0;
  const first = jobs.findIndex((job, i) => {
    bytes += roughSize(job);
    writes += roughWrites(job);
    return i > 0 && (bytes > maxBatchBytes / 2 || writes > maxBatchWrites / 2);
  });
  return first < 0 ? jobs.length : first;
}
/** Of the key and value of a job, in bytes, with room to spare. */
function roughSize(job: Job): number {
  const payload =
    job.type === "resolve" ? (job.outcome.status === "completed" ? job.outcome.value : JSON.stringify(job.outcome)) : JSON.stringify(job);
  return 64 + payload.length * (typeof payload === "string" ? 3 : 1);
}
/** How many keys a job is likely to cost with what follows from it: a message is deleted, its key kept, it is recorded, taken, answered. */
function roughWrites({ type }: Job): number {
  return type === "update" ? 8 : type === "signal" ? 5 : 2;
}
