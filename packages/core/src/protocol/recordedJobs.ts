// Which jobs of a turn history keeps.
// Owns nothing.
// Invariants: M8 M9 M11 (what left no trace in the run leaves none in history).

import type { Answer } from "./activation.ts";
import type { Job } from "./job.ts";

/** The jobs of a turn that enter history: not queries, evictions and updates that were rejected or wait on (M8, M9, M11). */
export function recordedJobs(jobs: readonly Job[], replies: readonly Answer[]): readonly Job[] {
  if (replies.length === 0 && jobs.every((job) => job.type !== "evict")) return jobs;
  const unaccepted = new Set(replies.map((reply) => (reply.type === "rejectUpdate" || reply.type === "keepUpdate" ? reply.id : undefined)));
  return jobs.filter((job) => job.type !== "query" && job.type !== "evict" && !(job.type === "update" && unaccepted.has(job.id)));
}
