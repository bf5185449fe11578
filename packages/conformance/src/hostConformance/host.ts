// Job: a host as tests of behaviour see it, whatever it keeps runs in: start, send, let time pass, kill the process, look.
// Owns: the port that an adapter implements for `hostConformance`; types only.
// Invariants: a process that was killed writes nothing more. By a virtual clock, time stands still until it is told to pass.

import type { Activity, AnyWorkflow, Duration, History, OperationInfo, RunStatus } from "@holdfast/core";

/**
 * One storage, and at any time one process that runs what is in it. Every call leaves the host settled, so that tests need not wait.
 * A call that the process dies under rejects, with whatever error.
 */
export interface Host {
  /** Resolves when the run is durable. Its id is "run" unless the options say otherwise. */
  start(workflow: AnyWorkflow, input?: unknown, options?: HostStart): Promise<HostRun>;
  /**
   * A handle on a run, which may exist or not, with the code that is to run it from now on, in place of other code of that name. Handles
   * of before stay good; each checks what it sends by the schemas of the code that it was made with.
   */
  run(workflow: AnyWorkflow, id: string): HostRun;
  /** Code for workflows that others start by name: children. */
  teach(...workflows: AnyWorkflow[]): void;
  /** Until nothing can advance but by messages, time, or what steps wait for. */
  settle(): Promise<void>;
  /** Time passes; whatever becomes due is done, in order. By a real clock: at least so much of it. */
  skip(time: Duration): Promise<void>;
  /**
   * The process dies, whatever it is doing, and another begins with the same storage and the same code. If it takes time until
   * the other may go on (a lease runs out), that time passes: less than a second by a virtual clock, 20 seconds at most by a real one.
   */
  crash(): Promise<void>;
  /**
   * The process will die at its n-th write from now: before anything of it is stored, or when all of it is, and nobody was told.
   * A write is whatever the host stores at once: a start, a message, a turn. It stays dead until `crash()` begins another.
   * Hosts that lack "dieAt" are not asked to.
   */
  dieAt(write: number, when: "before" | "after"): Doom;
  now(): number;
  /** Gives back what it has opened. */
  close?(): Promise<void>;
}
export interface Doom {
  /** Has it come to that? */
  readonly struck: boolean;
}
export interface HostStart {
  readonly id?: string;
  readonly signals?: readonly { readonly name: string; readonly payload?: unknown }[];
  readonly deadline?: Duration;
  /** Hosts that lack "startOptions" are given none of these. */
  readonly idempotencyKey?: string;
  readonly onConflict?: "reject" | "use-existing" | "restart-if-closed";
  readonly delay?: Duration;
}
export interface HostSend {
  readonly idempotencyKey?: string;
}
export interface HostUpdate extends HostSend {
  readonly timeout?: Duration;
  /** Hosts that lack "acceptWithin" are not given it. */
  readonly acceptWithin?: Duration;
}
export interface HostRun {
  readonly id: string;
  /** What it has come to, once nothing can advance: its output, or thrown why there is none. Thrown too if it has not ended. */
  result(): Promise<unknown>;
  status(): Promise<RunStatus>;
  waitingFor(): Promise<readonly string[]>;
  signal(name: string, payload?: unknown, options?: HostSend): Promise<void>;
  /** Resolves with the reply, which may need time to pass meanwhile. */
  update(name: string, input?: unknown, options?: HostUpdate): Promise<unknown>;
  query(name: string, args?: unknown): Promise<unknown>;
  state(): Promise<unknown>;
  cancel(reason?: string): Promise<void>;
  terminate(reason?: string): Promise<void>;
  /** D10: a failed run goes on where it stopped. */
  recover(): Promise<void>;
  history(): Promise<History>;
  /** D12. Hosts that lack "operations" have none. */
  operations?(): Promise<readonly OperationInfo[]>;
}
export interface HostOptions {
  /** What `ctx.activity` may call. */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  readonly activities: readonly Activity<any, any>[];
}
