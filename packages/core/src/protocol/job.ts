// What a host tells a run: the incoming half of a turn.
// Owns: the union `Job`, every kind of thing that can happen to a run from outside.
// Invariants: X1 (jobs in, commands out, nothing else), X6 (applied in order), M8 M9 (updates), K1 (cancel), D10 (resume).

import type { SerializedError } from "../errors/index.ts";
import type { ResolvedRetry } from "../values/index.ts";
import type { Outcome, Payload } from "./payload.ts";

/** Begins an execution. The first job of its first activation. */
export interface StartJob {
  readonly type: "start";
  readonly runId: string;
  readonly workflow: string;
  readonly version?: string | undefined;
  readonly input: Payload;
  /** Randomness of this execution (P7). */
  readonly seed: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** Number of this execution in the chain of its run, from 1 (P10). */
  readonly execution?: number;
  readonly attempt?: number;
  readonly parentId?: string | undefined;
  /** Retry of the run as a whole, resolved by the host. Absent: the host retries by itself, or nobody does. */
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
/** A timer is due: that of a sleep, or the timeout of a wait, a receive or a condition. */
export interface FireJob {
  readonly type: "fire";
  readonly seq: number;
}
/** A child exists now; its outcome comes later as a `resolve`. */
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
  /** M13: the receiver's schema refused it; it is recorded and delivered to nobody. */
  readonly refused?: string;
  /** V4: its payload can't be decoded here: no turn takes it, the run is blocked until a worker can. */
  readonly unreadable?: string;
  /** The receiver's schema has been applied to it: by the execution before, which did not take it (P10). */
  readonly checked?: true;
}
export interface UpdateJob {
  readonly type: "update";
  readonly id: string;
  readonly name: string;
  readonly input: Payload;
  /** False where the update was accepted before (replay on hosts that match commands themselves). Default true. */
  readonly validate?: boolean;
  /**
   * M8: it may wait until then (the store's time) for a receive that handles it: an activation that no receive takes it up in gives it back
   * with `keepUpdate`, and one at that time or later rejects it. Absent: the activation that delivers it decides.
   */
  readonly acceptUntil?: number | undefined;
  /** The receiver's schema refused it; it is rejected, whoever waits. */
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
/** K7: the run is over now; no workflow function runs any more but due rollbacks. */
export interface ExpireJob {
  readonly type: "expire";
  readonly error: SerializedError;
}
/** D10: voids the terminal outcome and the operation that caused it, so that the run goes on. */
export interface ResumeJob {
  readonly type: "resume";
  readonly attempt: number;
  /** The failed operations that are tried again. */
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

/** A message that waits to be taken, as a commit keeps it (L3, R11). */
export type BufferedMessage =
  | { readonly type: "signal"; readonly id: string; readonly name: string; readonly payload: Payload }
  | { readonly type: "update"; readonly id: string; readonly name: string; readonly input: Payload }
  | { readonly type: "fire"; readonly seq: number };
