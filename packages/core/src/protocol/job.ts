// Jobs: the events that a host delivers to a run; the input of a turn.
// Owns: the union `Job`, with every kind of event that can reach a run from outside.
// Invariants: X1 (jobs in, commands out, nothing else), X6 (applied in order), M8 M9 (updates), K1 (cancel), D10 (resume), F1 F2 F4 (fork).

import type { SerializedError } from "../errors/index.ts";
import type { ResolvedRetry } from "../values/index.ts";
import type { Outcome, Payload } from "./payload.ts";

/** Starts an execution. The first job of its first activation. */
export interface StartJob {
  readonly type: "start";
  /** The id of the run. */
  readonly runId: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** The version that it was started with. */
  readonly version?: string | undefined;
  /** The input, encoded. */
  readonly input: Payload;
  /** The seed of this execution's random numbers (P7). */
  readonly seed: string;
  /** When the run was created, in milliseconds since 1970: `ctx.run.startedAt`. */
  readonly startedAt: number;
  /**
   * The number of this execution in the chain of its run, from 1 (P10).
   * @defaultValue `1`
   */
  readonly execution?: number;
  /**
   * The number of the attempt at the run as a whole, from 1.
   * @defaultValue `1`
   */
  readonly attempt?: number;
  /** The run that started it as a child. */
  readonly parentId?: string | undefined;
  /** Whose work it is. */
  readonly key?: string | undefined;
  /** The nominal time of the tick that started the run, in milliseconds since the Unix epoch. */
  readonly tick?: number | undefined;
  /** Retry of the run as a whole, resolved by the host. Absent: the executor does not retry the run (the host may). */
  readonly retry?: StoredRunRetry | undefined;
}
/** The retry policy of a run, as it is stored. */
export interface StoredRunRetry extends ResolvedRetry {
  /** Class names of errors that are never retried. */
  readonly nonRetryable?: readonly string[];
}

/** An operation that the host carried out has ended. */
export interface ResolveJob {
  readonly type: "resolve";
  /** The number of the operation. */
  readonly seq: number;
  /** How it ended. */
  readonly outcome: Outcome;
}
/** A timer is due: a sleep, or the timeout of a wait, a receive or a condition. */
export interface FireJob {
  readonly type: "fire";
  /** The number of the operation. */
  readonly seq: number;
}
/** A child run was created. Its outcome comes later as a `resolve`. */
export interface ChildStartedJob {
  readonly type: "childStarted";
  /** The number of the operation. */
  readonly seq: number;
  /** The run id of the child. */
  readonly runId: string;
  /** In the copied turns of a fork: the ids that this child had in the runs that the turns come from. Replay treats them as `runId` (F1). */
  readonly standsFor?: readonly string[];
}
/** A signal has arrived. */
export interface SignalJob {
  readonly type: "signal";
  /** Unique within the run. */
  readonly id: string;
  /** The name of the signal. */
  readonly name: string;
  /** The payload, encoded. */
  readonly payload: Payload;
  /** The receiver's schema rejected the payload: the signal is recorded but not delivered (M13). */
  readonly refused?: string;
  /** This worker can't decode the payload: the run is blocked until a worker can (V4). */
  readonly unreadable?: string;
  /** The receiver's schema was already applied, by the previous execution, which did not consume the signal (P10). */
  readonly checked?: true;
}
/** An update has arrived. */
export interface UpdateJob {
  readonly type: "update";
  /** The id of the update. */
  readonly id: string;
  /** Its name. */
  readonly name: string;
  /** The input, encoded. */
  readonly input: Payload;
  /**
   * False if the update was accepted before (replay on hosts that match commands themselves).
   * @defaultValue `true`
   */
  readonly validate?: boolean;
  /**
   * How long the update may wait for a receive that handles it, in the store's time (M8). An activation in which no receive accepts it
   * replies with `keepUpdate`; an activation at or after that time rejects it. Absent: the first activation accepts or rejects it.
   */
  readonly acceptUntil?: number | undefined;
  /** The receiver's schema rejected the input: the update is rejected, even if a receive handles it. */
  readonly refused?: string;
}
/** A query is asked. */
export interface QueryJob {
  readonly type: "query";
  /** The id of the query. */
  readonly id: string;
  /** Its name. */
  readonly name: string;
  /** Its arguments, encoded. */
  readonly args: Payload;
}
/** Cancellation was requested. */
export interface CancelJob {
  readonly type: "cancel";
  /** The reason that the caller gave. */
  readonly reason?: string | undefined;
}
/** The host's history has a marker for this patch in this unit (hosts that match commands themselves). */
export interface PatchJob {
  readonly type: "patch";
  /** The id of the patch. */
  readonly id: string;
  /** The path of the unit; empty for the root. */
  readonly unit: string;
}
/** Random numbers have this seed from here on. */
export interface SeedJob {
  readonly type: "seed";
  /** The new seed. */
  readonly seed: string;
}
/** The deadline of the run has passed: no workflow code runs any more except due rollbacks (K7). */
export interface ExpireJob {
  readonly type: "expire";
  /** The error that the run ends with. */
  readonly error: SerializedError;
}
/** Voids the terminal outcome and the failed operations that caused it, so that the run continues (D10). */
export interface ResumeJob {
  readonly type: "resume";
  /** The number of the attempt at the run as a whole, from 1. */
  readonly attempt: number;
  /** The numbers of the failed operations that are retried. */
  readonly voids: readonly number[];
}
/**
 * The turns before this one were copied from another run. From here on the run has its own identity and seed (F1, F2). It comes before the
 * other jobs of the first turn that is not copied.
 */
export interface ForkJob {
  readonly type: "fork";
  /** The id of this run. Until now `ctx.run` was that of the source. */
  readonly runId: string;
  /** The id of the source. */
  readonly from: string;
  /** The version of the fork. */
  readonly version?: string | undefined;
  /** The seed of its random numbers. */
  readonly seed: string;
  /** When the fork was created, in milliseconds since 1970: `ctx.run.startedAt` from here on. */
  readonly startedAt: number;
  /** The rollbacks of steps that the source completed stay with the source (F4). */
  readonly dropsRollbacks?: true;
}
/** The run is removed from this process: no code runs, and nothing is recorded (X6). */
export interface EvictJob {
  readonly type: "evict";
  /** Why it is removed, for people who read the job: it changes nothing. */
  readonly reason?: string;
}

/** What a turn has to do. */
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
  | ForkJob
  | EvictJob;

/** A message that was not consumed yet, as a commit records it (L3, R11). */
export type BufferedMessage =
  | {
      readonly type: "signal";
      /** The id of the message. */
      readonly id: string;
      /** Its name. */
      readonly name: string;
      /** The payload, encoded. */
      readonly payload: Payload;
    }
  | {
      readonly type: "update";
      /** The id of the message. */
      readonly id: string;
      /** Its name. */
      readonly name: string;
      /** The input, encoded. */
      readonly input: Payload;
    }
  | {
      readonly type: "fire";
      /** The number of the operation whose timer has fired. */
      readonly seq: number;
    };
