// A host as the tests see it: start runs, send messages, let time pass, kill the process, read.
// Owns: the port that an adapter implements for `hostConformance`; types only.
// Invariants: a process that was killed writes nothing more. With a virtual clock, time passes only in `skip` and `crash`.

import type { Activity, AnyWorkflow, Duration, History, OperationInfo, RunStatus } from "@holdfast/core";

/**
 * One storage, and at any time one process that executes its runs. Every call leaves the host settled, so that tests need not wait.
 * If the process dies during a call, the call rejects with any error.
 */
export interface Host {
  /** Resolves when the run is durable. Its id is "run" unless the options say otherwise. */
  start(workflow: AnyWorkflow, input?: unknown, options?: HostStart): Promise<HostRun>;
  /**
   * A handle on a run, which may exist or not. From now on this code executes it, in place of other code of that name. Earlier handles
   * stay valid; each checks messages with the schemas of the code that it was made with.
   */
  run(workflow: AnyWorkflow, id: string): HostRun;
  /** Adds the code of workflows that other workflows start as children. */
  teach(...workflows: AnyWorkflow[]): void;
  /** Waits until runs can advance only by messages, by time, or by what their steps wait for. */
  settle(): Promise<void>;
  /** Lets time pass; what becomes due is carried out, in order. With a real clock at least this much time passes. */
  skip(time: Duration): Promise<void>;
  /**
   * The process dies in the middle of its work, and another one starts with the same storage and the same code. If the new one has to
   * wait (for the end of a lease), that time passes: less than a second with a virtual clock, at most 20 seconds with a real one.
   */
  crash(): Promise<void>;
  /**
   * The process dies at its n-th write from now: before anything of the write is stored, or after all of it is stored and before a
   * caller is notified. A write is what the host stores at once: a start, a message, a turn. `crash()` starts the next process.
   * Not called on hosts that lack "dieAt".
   */
  dieAt(write: number, when: "before" | "after"): Doom;
  /** The time of the host, in milliseconds since 1970. */
  now(): number;
  /** Limits and pauses of the queue that it serves. Absent on hosts that lack "queues". */
  readonly queues?: HostQueues;
  /** Releases what it has opened. */
  close?(): Promise<void>;
}
/** When the process of a host dies, for tests of crashes. */
export interface Doom {
  /** Whether the process has died by it. */
  readonly struck: boolean;
}
/** Options of a start. */
export interface HostStart {
  /** The id of the run. */
  readonly id?: string;
  /** Signals that are delivered with the start: the `name` and `payload` of each. */
  readonly signals?: readonly {
    /** The name of the signal. */
    readonly name: string;
    /** The payload. */
    readonly payload?: unknown;
  }[];
  /** When it fails if it is still open, from its start. */
  readonly deadline?: Duration;
  /** Not passed to hosts that lack "startOptions". */
  readonly idempotencyKey?: string;
  /** "replace" and "debounce" are not passed to hosts that lack "Q9". */
  readonly onConflict?: "reject" | "use-existing" | "restart-if-closed" | "replace" | "debounce";
  /** The run begins after this time. */
  readonly delay?: Duration;
  /** The id of a run. Not passed to hosts that lack "Q10". */
  readonly after?: string;
  /** The longest that later starts may put this one off. */
  readonly maxDelay?: Duration;
  /** Not passed to hosts that lack "queues". */
  readonly key?: string;
}
interface HostLimit {
  readonly concurrency?: number;
  readonly rate?: { readonly limit: number; readonly per: Duration };
}
/** Every call leaves the host settled. */
export interface HostQueues {
  /** Sets the limits of the queue: for each key those in `perKey`; `counts` says when a run counts. */
  set(limits: HostLimit & { readonly perKey?: HostLimit; readonly counts?: "running" | "open" }): Promise<void>;
  /** Pauses the queue, or with `key` that key; with `for`, for this long. */
  pause(pause?: { readonly key?: string; readonly for?: Duration }): Promise<void>;
  /** Ends a pause of the queue, or with `key` of that key. */
  resume(pause?: { readonly key?: string }): Promise<void>;
}
/** Options of a message. */
export interface HostSend {
  /** A repeated message with the same key is delivered once. */
  readonly idempotencyKey?: string;
}
/** Options of an update. */
export interface HostUpdate extends HostSend {
  /** How long to wait for the reply. */
  readonly timeout?: Duration;
  /** Not passed to hosts that lack "acceptWithin". */
  readonly acceptWithin?: Duration;
}
/** A handle on a run of the host. */
export interface HostRun {
  /** The id of the run. */
  readonly id: string;
  /**
   * The output of the run, once nothing can advance.
   * @throws the error of the run if it has failed, or an error if it has not ended.
   */
  result(): Promise<unknown>;
  /** Where the run is in its life. */
  status(): Promise<RunStatus>;
  /** What it waits for, in words. */
  waitingFor(): Promise<readonly string[]>;
  /** Sends a signal. */
  signal(name: string, payload?: unknown, options?: HostSend): Promise<void>;
  /** Resolves with the reply; until then time may pass. */
  update(name: string, input?: unknown, options?: HostUpdate): Promise<unknown>;
  /** Asks a query. */
  query(name: string, args?: unknown): Promise<unknown>;
  /** The published state. */
  state(): Promise<unknown>;
  /** Requests cancellation. */
  cancel(reason?: string): Promise<void>;
  /** Ends the run without running workflow code. */
  terminate(reason?: string): Promise<void>;
  /** D10: a failed run continues where it stopped. */
  recover(): Promise<void>;
  /** Of the newest execution. */
  history(): Promise<History>;
  /**
   * Replays the recorded history with the code of this handle (Y5).
   * @defaultValue `replay` of the core, with `history()`
   */
  replay?(): Promise<void>;
  /** D12. Absent on hosts that lack "operations". */
  operations?(): Promise<readonly OperationInfo[]>;
}
/** What a host is made with. */
export interface HostOptions {
  /** What `ctx.activity` may call. */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  readonly activities: readonly Activity<any, any>[];
}
