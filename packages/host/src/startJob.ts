// The first job of an execution.
// Owns: nothing.
// Invariants: Y1 (it contains everything that workflow code can know about its run: the same run gives the same job).

import type { Payload, StartJob, StoredRunRetry } from "@holdfast/core";

/** The stored properties of a run that its code can read. */
export interface StartedRun {
  readonly id: string;
  readonly workflow: string;
  readonly version?: string | undefined;
  readonly input: Payload;
  readonly seed: string;
  readonly execution: number;
  /** Attempt of the run as a whole (D10). */
  readonly attempt: number;
  readonly parent?: { readonly runId: string } | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly createdAt: number;
}

export function startJobOf({ id, parent, createdAt, ...run }: StartedRun): StartJob {
  const { workflow, version, input, seed, execution, attempt, retry } = run;
  return {
    type: "start",
    runId: id,
    workflow,
    version,
    input,
    seed,
    startedAt: createdAt,
    execution,
    attempt,
    parentId: parent?.runId,
    retry,
  };
}
