// Selects the jobs of a turn that history keeps.
// Owns nothing.
// Invariants: M8 M9 M11 (queries and updates that were not accepted leave no trace in history).

import type { Answer } from "./activation.ts";
import type { Job } from "./job.ts";

/** The jobs of a turn without queries, evictions, and updates that were rejected or still wait (M8, M9, M11). */
export function recordedJobs(jobs: readonly Job[], replies: readonly Answer[]): readonly Job[] {
  if (replies.length === 0 && jobs.every((job) => job.type !== "evict")) return jobs;
  const unaccepted = new Set(replies.map((reply) => (reply.type === "rejectUpdate" || reply.type === "keepUpdate" ? reply.id : undefined)));
  return jobs.filter((job) => job.type !== "query" && job.type !== "evict" && !(job.type === "update" && unaccepted.has(job.id)));
}
