// What the namespace of a run holds besides records: head, status, end, messages, attempts, word for other runs.
// Owns: the shapes, and nothing of how they are written.
// Invariants: all of it is plain data.

import type { Job, Outcome, Payload, RunStatus, SerializedError, StoredRunRetry } from "@holdfast/core";
import type { AttemptRow } from "@holdfast/host";

export type { UpdateOutcome } from "@holdfast/host";

/** The operation of another run that this one is the child of. */
export interface ParentLink {
  readonly runId: string;
  /** Only this execution of the parent is told of the child's end: the next one uses the numbers again. */
  readonly execution: number;
  readonly seq: number;
}

/** What an execution is born with. */
export interface Head {
  readonly id: string;
  readonly workflow: string;
  readonly version?: string | undefined;
  readonly execution: number;
  /** Of the run as a whole (D10). */
  readonly attempt: number;
  readonly seed: string;
  readonly input: Payload;
  readonly createdAt: number;
  /** Of an execution after the first: the time of the last turn before it (P7). */
  readonly lastTime?: number | undefined;
  readonly deadlineAt?: number | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly parent?: ParentLink | undefined;
}

/** How the run stands, for whoever asks without running it. */
export interface Status {
  readonly status: RunStatus;
  readonly wakeAt?: number | undefined;
  readonly waitingFor?: readonly string[] | undefined;
  /** H5: the run is about to end. Whether it does, the next batch says. */
  readonly closing?: true | undefined;
  /** Of a blocked run: why, and how often in a row. */
  readonly error?: SerializedError | undefined;
  readonly times?: number | undefined;
}

/** How the execution ended. */
export interface End {
  readonly value?: Payload | undefined;
  readonly error?: SerializedError | undefined;
  readonly reason?: string | undefined;
  /** Of a failed run: whether it can be resumed (D10). */
  readonly resumable?: boolean | undefined;
  readonly endedAt?: number | undefined;
}

/** What may be appended to a namespace from outside (H2). */
export type MessageJob =
  | Extract<Job, { type: "signal" | "cancel" }>
  /** `acceptWithin`: milliseconds that it may wait for a receive, as its sender said; the run says until when (M8). */
  | (Extract<Job, { type: "update" }> & { readonly acceptWithin?: number | undefined })
  /** A child has ended. It counts for one execution only. */
  | (Extract<Job, { type: "resolve" }> & { readonly execution: number })
  | { readonly type: "terminate"; readonly reason?: string | undefined }
  /** Try again what is exhausted, blocked or waiting for its next attempt. */
  | { readonly type: "recover" };
export interface Message {
  readonly job: MessageJob;
  /** M3: a second one with the same key is no second delivery. */
  readonly key?: string | undefined;
}
export interface InboxMessage extends Message {
  /** Where it lies. */
  readonly at: Uint8Array;
}

/** One attempt of a step, an activity or a call of the router (D12). A namespace has no workers to tell apart. */
export type Attempt = Omit<AttemptRow, "workerId">;

export interface ChildLink {
  readonly runId: string;
  readonly parentClose: "cancel" | "abandon" | "terminate";
}

/** Word for another run. */
export type Letter =
  | { readonly type: "cancel" | "terminate"; readonly runId: string; readonly reason?: string | undefined }
  | { readonly type: "ended"; readonly parent: ParentLink; readonly outcome: Outcome };
