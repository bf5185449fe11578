// The part of the port that is about activities.
// Owns: the words of storage for activities: task, answer.
// Invariants: D11 (an activity is claimed under a lease of its own; late answers are dropped).

import type { Payload, SerializedError, StoredRunRetry } from "@holdfast/core";

/** An activity to be carried out by a worker of its queue (D11). */
export interface NewTask {
  /** The number of the operation. */
  readonly seq: number;
  /** The name of the activity. */
  readonly activity: string;
  /** The queue whose workers run it. */
  readonly queue: string;
  /** The input, encoded. */
  readonly input: Payload;
  /** Its retry policy. */
  readonly retry: StoredRunRetry;
  /** Longest duration of one attempt, in milliseconds. */
  readonly startToClose?: number | undefined;
  /** Longest time from scheduling to the end, in milliseconds. */
  readonly scheduleToClose?: number | undefined;
  /** Longest wait for the first attempt to be claimed, in milliseconds. */
  readonly scheduleToStart?: number | undefined;
  /** Longest time between two heartbeats, in milliseconds. */
  readonly heartbeat?: number | undefined;
  /** The location of the operation. */
  readonly location: string;
  /** Whose work it is (Q). */
  readonly key?: string | undefined;
  /** Higher goes first. */
  readonly priority?: number | undefined;
  /**
   * Attempts that the activity had before the run failed and was resumed (D10): the next one has the number after them, and
   * `retry.maxAttempts` includes them.
   * @defaultValue `0`
   */
  readonly attempt?: number | undefined;
}
/** An activity that a worker has claimed. */
export interface ClaimedTask extends NewTask {
  /** The id of the task. */
  readonly id: number;
  /** The run that called it. */
  readonly runId: string;
  /** The execution that called it. */
  readonly execution: number;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Fences the answer: a task that timed out and went to another worker has another. */
  readonly token: number;
  /** The details of the last heartbeat of the previous attempt, encoded. */
  readonly lastHeartbeat: Payload | undefined;
}
/** What a worker asks for. */
export interface TaskClaimRequest {
  /** The worker that asks. */
  readonly workerId: string;
  /** The queue that it works for. */
  readonly queue: string;
  /** The names of the activities that it serves. */
  readonly activities: readonly string[];
  /** How many it has room for. */
  readonly limit: number;
  /** How long they stay claimed, in milliseconds. */
  readonly lease: number;
  /**
   * D7: the answer to an earlier claim of this worker was lost. These are the tasks that it has run or runs; all others that are leased to it
   * have never begun, and are given out again as the same attempt, under another token, before any new ones.
   */
  readonly known?: readonly number[] | undefined;
}
/** How an attempt of an activity has ended. */
export interface TaskAnswer {
  /** The id of the task. */
  readonly id: number;
  /** The `token` of the claim: with another one the answer is dropped. */
  readonly token: number;
  /** A failure that may be retried is retried by the store, by the task's policy. */
  readonly outcome:
    | {
        readonly status: "completed";
        /** The result, encoded. */
        readonly value: Payload;
      }
    | {
        readonly status: "failed";
        /** Why it failed. */
        readonly error: SerializedError;
        /** Whether another attempt may be made. */
        readonly retryable: boolean;
        /** A random number from 0 up to 1, for the jitter of the next attempt. */
        readonly random: number;
        /** The wait before the next attempt, where the error asks for one: it counts instead of the policy's, without a cap (D8). */
        readonly after?: number | undefined;
      };
}
