// What the namespace of a run contains besides records: head, status, end, messages, attempts, letters to other runs.
// Owns: the types, not their encoding.
// Invariants: all of it is plain data.

import type { Job, Outcome, Payload, RunStatus, SerializedError, StoredRunRetry } from "@holdfast/core";
import type { AttemptRow } from "@holdfast/host";

export type { UpdateOutcome } from "@holdfast/host";

/** The operation of the parent run that started this run as its child. */
export interface ParentLink {
  /** The id of the parent. */
  readonly runId: string;
  /** Only this execution of the parent gets the child's outcome: the next execution uses the same numbers again. */
  readonly execution: number;
  /** The number of the operation that started the child. */
  readonly seq: number;
}

/** The data that an execution begins with. */
export interface Head {
  readonly id: string;
  readonly workflow: string;
  readonly version?: string | undefined;
  readonly execution: number;
  /** Attempt of the run as a whole (D10). */
  readonly attempt: number;
  readonly seed: string;
  readonly input: Payload;
  readonly createdAt: number;
  /** For an execution after the first: the time of the last turn before it (P7). */
  readonly lastTime?: number | undefined;
  readonly deadlineAt?: number | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly parent?: ParentLink | undefined;
}

/** The state of the run, for readers that don't run it. */
export interface Status {
  readonly status: RunStatus;
  readonly wakeAt?: number | undefined;
  readonly waitingFor?: readonly string[] | undefined;
  /** H5: the run is about to end. The next batch shows whether it did. */
  readonly closing?: true | undefined;
  /** For a blocked run: why, and how often in a row. */
  readonly error?: SerializedError | undefined;
  readonly times?: number | undefined;
}

/** How the execution ended. */
export interface End {
  readonly value?: Payload | undefined;
  readonly error?: SerializedError | undefined;
  readonly reason?: string | undefined;
  /** For a failed run: whether it can be resumed (D10). */
  readonly resumable?: boolean | undefined;
  readonly endedAt?: number | undefined;
}

/** What may be appended to a namespace from outside (H2). */
export type MessageJob =
  | Extract<Job, { type: "signal" | "cancel" }>
  /** `acceptWithin`: milliseconds that it may wait for a receive, set by its sender; the run decides until when (M8). */
  | (Extract<Job, { type: "update" }> & { readonly acceptWithin?: number | undefined })
  /** A child has ended. The message is for one execution only. */
  | (Extract<Job, { type: "resolve" }> & { readonly execution: number })
  | { readonly type: "terminate"; readonly reason?: string | undefined }
  /** Try again what has failed, is blocked or waits for its next attempt. */
  | { readonly type: "recover" };
export interface Message {
  readonly job: MessageJob;
  /** M3: a second message with the same key is not delivered. */
  readonly key?: string | undefined;
}
export interface InboxMessage extends Message {
  /** Its key in the namespace. */
  readonly at: Uint8Array;
}

/** One attempt of a step, an activity or a call of the router (D12). A namespace has no separate workers. */
export type Attempt = Omit<AttemptRow, "workerId">;

export interface ChildLink {
  readonly runId: string;
  readonly parentClose: "cancel" | "abandon" | "terminate";
}

/** A letter: a message to another run. */
export type Letter =
  | { readonly type: "cancel" | "terminate"; readonly runId: string; readonly reason?: string | undefined }
  | { readonly type: "ended"; readonly parent: ParentLink; readonly outcome: Outcome };
