// The first job of an execution.
// Owns: nothing.
// Invariants: Y1 (it contains everything that workflow code can know about its run: the same run gives the same job).

import type { Payload, StartJob, StoredRunRetry } from "@holdfast/core";

/** The stored properties of a run that its code can read. */
export interface StartedRun {
  /** The id of the run. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version?: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** The seed of its random numbers. */
  readonly seed: string;
  /** The number of the execution, from 1. */
  readonly execution: number;
  /** Attempt of the run as a whole (D10). */
  readonly attempt: number;
  /** The run that started it as a child: its `runId`. */
  readonly parent?:
    | {
        /** The id of the parent. */
        readonly runId: string;
      }
    | undefined;
  /** Whose work it is. */
  readonly key?: string | undefined;
  /** The nominal time, if a schedule started it, in milliseconds since 1970. */
  readonly tick?: number | undefined;
  /** Retry of the run as a whole. */
  readonly retry?: StoredRunRetry | undefined;
  /** When the run was created, in milliseconds since 1970: `ctx.run.startedAt`. */
  readonly createdAt: number;
}

/** The job that starts an execution. */
export function startJobOf({ id, parent, createdAt, ...run }: StartedRun): StartJob {
  const { workflow, version, input, seed, execution, attempt, key, tick, retry } = run;
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
    ...(key !== undefined && { key }),
    ...(tick !== undefined && { tick }),
    retry,
  };
}
