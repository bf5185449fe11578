// How much fits into one batch.
// Owns: nothing; it estimates.
// Invariants: D2 P9 (a turn is one complete batch: if batches are limited, the turn gets only as many jobs as leave room for its commands).

import { type Job, LimitExceededError } from "@holdfast/core";
import type { EngineDriver } from "../driver.ts";

export function isTooLarge(error: unknown): error is LimitExceededError {
  return error instanceof LimitExceededError;
}

/** How many of the jobs the next turn gets: all; if batches are limited, as many as leave half of a batch for the turn's commands. */
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
/** Estimated size of the key and value of a job, in bytes, on the high side. */
function roughSize(job: Job): number {
  const payload =
    job.type === "resolve" ? (job.outcome.status === "completed" ? job.outcome.value : JSON.stringify(job.outcome)) : JSON.stringify(job);
  return 64 + payload.length * (typeof payload === "string" ? 3 : 1);
}
/**
 * Estimated number of writes for a job and its consequences: a message is deleted, its key stored, and it is recorded, consumed and
 * answered.
 */
function roughWrites({ type }: Job): number {
  return type === "update" ? 8 : type === "signal" ? 5 : 2;
}
