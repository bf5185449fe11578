// Jobs: the events that a host delivers to a run; the input of a turn.
// Owns: the union `Job`, with every kind of event that can reach a run from outside.
// Invariants: X1 (jobs in, commands out, nothing else), X6 (applied in order), M8 M9 (updates), K1 (cancel), D10 (resume).

import type { SerializedError } from "../errors/index.ts";
import type { ResolvedRetry } from "../values/index.ts";
import type { Outcome, Payload } from "./payload.ts";

/** Starts an execution. The first job of its first activation. */
export interface StartJob {
  readonly type: "start";
  readonly runId: string;
  readonly workflow: string;
  readonly version?: string | undefined;
  readonly input: Payload;
  /** The seed of this execution's random numbers (P7). */
  readonly seed: string;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** The number of this execution in the chain of its run, from 1 (P10). */
  readonly execution?: number;
  readonly attempt?: number;
  readonly parentId?: string | undefined;
  /** Retry of the run as a whole, resolved by the host. Absent: the executor does not retry the run (the host may). */
  readonly retry?: StoredRunRetry | undefined;
}
export interface StoredRunRetry extends ResolvedRetry {
  readonly nonRetryable?: readonly string[];
}

/** An operation that the host carried out has ended. */
export interface ResolveJob {
  readonly type: "resolve";
  readonly seq: number;
  readonly outcome: Outcome;
}
/** A timer is due: a sleep, or the timeout of a wait, a receive or a condition. */
export interface FireJob {
  readonly type: "fire";
  readonly seq: number;
}
/** A child run was created. Its outcome comes later as a `resolve`. */
export interface ChildStartedJob {
  readonly type: "childStarted";
  readonly seq: number;
  readonly runId: string;
}
export interface SignalJob {
  readonly type: "signal";
  /** Unique within the run. */
  readonly id: string;
  readonly name: string;
  readonly payload: Payload;
  /** The receiver's schema rejected the payload: the signal is recorded but not delivered (M13). */
  readonly refused?: string;
  /** This worker can't decode the payload: the run is blocked until a worker can (V4). */
  readonly unreadable?: string;
  /** The receiver's schema was already applied, by the previous execution, which did not consume the signal (P10). */
  readonly checked?: true;
}
export interface UpdateJob {
  readonly type: "update";
  readonly id: string;
  readonly name: string;
  readonly input: Payload;
  /** False if the update was accepted before (replay on hosts that match commands themselves). Default true. */
  readonly validate?: boolean;
  /**
   * How long the update may wait for a receive that handles it, in the store's time (M8). An activation in which no receive accepts it
   * replies with `keepUpdate`; an activation at or after that time rejects it. Absent: the first activation accepts or rejects it.
   */
  readonly acceptUntil?: number | undefined;
  /** The receiver's schema rejected the input: the update is rejected, even if a receive handles it. */
  readonly refused?: string;
}
export interface QueryJob {
  readonly type: "query";
  readonly id: string;
  readonly name: string;
  readonly args: Payload;
}
export interface CancelJob {
  readonly type: "cancel";
  readonly reason?: string | undefined;
}
/** The host's history has a marker for this patch (hosts that match commands themselves). */
export interface PatchJob {
  readonly type: "patch";
  readonly id: string;
}
export interface SeedJob {
  readonly type: "seed";
  readonly seed: string;
}
/** The deadline of the run has passed: no workflow code runs any more except due rollbacks (K7). */
export interface ExpireJob {
  readonly type: "expire";
  readonly error: SerializedError;
}
/** Voids the terminal outcome and the failed operations that caused it, so that the run continues (D10). */
export interface ResumeJob {
  readonly type: "resume";
  readonly attempt: number;
  /** The numbers of the failed operations that are retried. */
  readonly voids: readonly number[];
}
export interface EvictJob {
  readonly type: "evict";
  readonly reason?: string;
}

export type Job =
  | StartJob
  | ResolveJob
  | FireJob
  | ChildStartedJob
  | SignalJob
  | UpdateJob
  | QueryJob
  | CancelJob
  | PatchJob
  | SeedJob
  | ExpireJob
  | ResumeJob
  | EvictJob;

/** A message that was not consumed yet, as a commit records it (L3, R11). */
export type BufferedMessage =
  | { readonly type: "signal"; readonly id: string; readonly name: string; readonly payload: Payload }
  | { readonly type: "update"; readonly id: string; readonly name: string; readonly input: Payload }
  | { readonly type: "fire"; readonly seq: number };
