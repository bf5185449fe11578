// The point at which a run with copied turns becomes a run with its own identity.
// Owns: nothing between calls.
// Invariants: F1 (`ctx.run` is that of the fork from its first turn on; open children get ids of the fork), F2 (draws from here on have a
// new seed), F4 (rollbacks of steps that the source completed may stay with the source).

import { childRunId, type ForkJob, type Job } from "../protocol/index.ts";
import type { Execution } from "./execution.ts";

/** `jobs`: those of the turn. The source settled what they settle: only the rest is done again. */
export function becomeFork(execution: Execution, fork: ForkJob, jobs: readonly Job[]): void {
  const { start } = execution;
  if (start === undefined) throw new TypeError("A fork has no start.");
  const { runId, version, startedAt } = fork;
  execution.start = { ...start, runId, version, startedAt, execution: 1, parentId: undefined, tick: undefined };
  execution.reseed(fork.seed);
  const settled = new Set(jobs.flatMap((job) => (job.type === "resolve" ? job.seq : [])));
  for (const operation of execution.operations.values()) {
    if (operation.kind === "child" && !settled.has(operation.seq)) operation.childId = childRunId(runId, 1, operation.location);
  }
  if (fork.dropsRollbacks === true) execution.saga.disown([...settled, ...(execution.reusableOutcomes?.settled ?? [])]);
}
