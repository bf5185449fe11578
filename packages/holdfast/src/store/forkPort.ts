// What a store does for forks: it creates a run with the history of another one, and shows the messages that wait for a run.
// Owns: the shape of a copied history, and of the message that begins the first turn after it.
// Invariants: F1 (the copied turns are there with the run, or neither is), F2 (the source is only read).

import type { ForkJob, Job, Payload, Turn } from "@holdfast/core";
import type { AttemptRow, InboxMessage } from "./port.ts";

/** The history that a new run begins with. If it has turns, the run is not `pending`: it goes on from the last of them. */
export interface CopiedHistory {
  /** The turns that are shared. */
  readonly turns: readonly Turn[];
  /** The attempts of their operations; `task`: those of activities. */
  readonly attempts: readonly (AttemptRow & {
    /** Whether it is an attempt of an activity. */
    readonly task?: boolean;
  })[];
  /** The worker that committed each of these turns, by index (D12). */
  readonly workers: ReadonlyMap<number, string>;
  /** The attempt of the run as a whole. */
  readonly attempt: number;
  /** As in TurnCommit. */
  readonly rollbacks: number;
  /** The published state at the cut. */
  readonly state: Payload | undefined;
  /** The ids of the signals in these turns and in the message that begins the first own turn, each once. They count as used keys (M3): no two signals of a run have the same id. */
  readonly keys: readonly string[];
}

/** The first message of a fork. Its turn has these jobs, after the fork itself, and no others. */
export interface ForkMessage extends ForkJob {
  /** The jobs of the first turn. */
  readonly jobs: readonly Job[];
}

/** What forks of runs need. */
export interface ForkStore {
  /** The messages that no turn of the run has consumed, in order of arrival. None if there is no such run. */
  inbox(runId: string): Promise<readonly InboxMessage[]>;
}
