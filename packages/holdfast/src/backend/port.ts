// The port behind the public API: what `Holdfast`, `Run` and `Worker` need from the engine that was opened.
// Owns: the types on both sides. A backend implements `Backend`; the embedded engine (memory, SQLite, PostgreSQL) is the first.
// Invariants: M1 M3 M10 (an acknowledged message is durable and delivered once), M11 (reading needs no worker), M12 (unknown and closed
// runs), P8 (user values cross the port encoded).
//
// For implementers:
// - The caller of the port checks options, applies schemas, encodes and decodes values with the codec, and turns answers into errors. A
//   backend never uses the codec on values that cross the port. Its workers use the codec that it was opened with for the values that
//   workflow code sees.
// - The caller of the port and the workers of the backend know the definitions. A start names its workflow and version; a client process
//   may have no definition at all.
// - An answer says what happened to one run. A rejection means that the backend could not do it or could not find out: an error with a
//   `code`, like `StoreError`, or one of the errors that a method names. After a rejection of `create`, `send` or `update` the write may or
//   may not have happened; repeating the call with the same id or key is safe.
// - Times are milliseconds since 1970 by the clock of the backend; durations are milliseconds.
// - After `close` was called, calls that write something or start a worker reject with `engineClosed()`. Reading and waiting continue until
//   the promise of `close` resolves, and reject with the same error after that.
// - If the backend lacks a feature, its optional member is absent. If an option asks for it, the call rejects with an `UnsupportedError`
//   that names the feature, the backend and an alternative. An option is never ignored.

import type { Activity, AnyWorkflow, Codec, History, HostAdvice, Limits, Logger, OperationInfo, Payload } from "@holdfast/core";
import type { Served } from "@holdfast/host";
import type { QueueStore } from "../store/queuePort.ts";
import type { AttributeTest, RunCounts, RunFilter, Scalar } from "../store/searchPort.ts";
import type {
  AddressedTo,
  CancelJob,
  Message,
  ResumeAnswer,
  RunDescription,
  RunEnd,
  RunSnapshot,
  RunStart,
  SendAnswer,
  SignalJob,
  StartAnswer,
  UpdateAnswer,
  UpdateJob,
  WaitOptions,
} from "./runs.ts";
import type { BackendSchedules } from "./schedules.ts";

export type * from "./runs.ts";
export type { AttributeTest, RunCounts, Scalar };

// ───────────────────────────── opening ──────────────────────────

/** What `Holdfast.open` passes to the package of a backend. */
export interface BackendOptions {
  /** Encodes the values that workflow code sees. */
  readonly codec: Codec;
  /** Where messages go. */
  readonly logger: Logger;
  /** Upper bounds for payloads and histories. */
  readonly limits: Limits;
  /** The namespace of the runs. */
  readonly namespace: string | undefined;
  /** How to reach a Temporal cluster. */
  readonly temporal?: TemporalOptions | undefined;
}
/** How to reach a Temporal cluster, and what its own tools should see. */
export interface TemporalOptions {
  /**
   * An API key, or a function that returns one; it is called again every minute.
   * @defaultValue none
   */
  apiKey?: string | (() => Promise<string>);
  /**
   * For `temporals://`: certificates.
   * @defaultValue those that the machine trusts
   */
  tls?: {
    /** The certificate of the authority that signed the server's, in PEM. */
    serverRootCACertificate?: Uint8Array;
    /** The certificate (`crt`) and key (`key`) of this client, for mutual TLS. */
    clientCertPair?: {
      /** The certificate, in PEM. */
      crt: Uint8Array;
      /** Its private key, in PEM. */
      key: Uint8Array;
    };
    /**
     * The name that the server's certificate must have.
     * @defaultValue the host of the URL
     */
    serverNameOverride?: string;
  };
  /**
   * Payload codecs of Temporal's SDKs, for payloads that other SDKs have to read.
   * @defaultValue none
   */
  payloadCodecs?: readonly unknown[];
  /**
   * Attribute → registered search attribute. Attributes that are registered under their own name need no entry.
   * @defaultValue none
   */
  searchAttributes?: Record<string, string>;
}
/** What such a package exports, for example `@holdfast/temporal`. */
export interface BackendPackage {
  /** Resolves once the backend is ready. Rejects with InvalidInputError for an invalid URL or option. */
  openBackend(url: string, options: BackendOptions): Promise<Backend>;
}

// ───────────────────────────── reading ──────────────────────────

/** Which runs: they must match all fields that are set. */
export type RunSelection = RunFilter;
/** A page of runs. */
export interface RunPage extends RunSelection {
  /** Runs per page. */
  readonly limit: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string | undefined;
}

// ───────────────────────────── workers ──────────────────────────

/** The workflows of a worker: which definition drives a run of which version (V2). */
export interface ServedWorkflows {
  /** All definitions. */
  readonly all: readonly AnyWorkflow[];
  /** By name: the versions (undefined for runs without a version), or all of them. */
  readonly serves: readonly Served[];
  /** Undefined if this worker has no code for such a run. */
  find(workflow: string, version: string | undefined): AnyWorkflow | undefined;
}
/** A worker to start. Durations are milliseconds. */
export interface WorkerSettings {
  /** The id of the worker. */
  readonly id: string;
  /** The queue that it works for. */
  readonly queue: string;
  /** The workflows that it serves. */
  readonly workflows: ServedWorkflows;
  /** The activities that it serves, by name. */
  readonly activities: ReadonlyMap<string, Activity<unknown, unknown>>;
  /** The most runs in progress. */
  readonly concurrency: number;
  /** The most activities in progress. */
  readonly activityConcurrency: number;
  /** The most waiting runs that it keeps in memory. */
  readonly cachedRuns: number;
  /** How long a run stays claimed without renewal. */
  readonly lease: number;
  /** How long `stop` waits for steps in progress. */
  readonly gracePeriod: number;
  /** How long the code of one turn may take. */
  readonly turnTimeout: number;
  /** What happens when workflow code calls Date.now, Math.random, setTimeout or fetch. */
  readonly determinism: "off" | "warn" | "error";
}
/** A worker of a backend. */
export interface BackendWorker {
  /** The id of the worker. */
  readonly id: string;
  /** Number of runs and activities in progress. */
  readonly active: number;
  /**
   * Claims nothing new, waits for work in progress up to the grace period, and releases the rest (W4). Calling it again returns the same
   * promise.
   */
  stop(): Promise<void>;
  /** Resolves when it has stopped, by its own `stop` or because the backend was closed. */
  readonly stopped: Promise<void>;
}

// ───────────────────────────── the port ─────────────────────────

/** The engine behind `Holdfast`, `Run` and `Worker`. A feature that a backend lacks is absent. */
export interface Backend {
  /** The name used in messages: "SQLite", "Temporal". */
  readonly name: string;
  /** What to do about errors that all hosts share, where this one has other ways. */
  readonly advice?: HostAdvice;

  /**
   * Starts runs and answers in the same order. Each start is independent: a conflict or failure does not affect the others. A run is
   * created together with its messages or not at all. Calls may be repeated: a start whose answer was lost finds its run by id or key. `tx`
   * is the caller's open transaction: everything happens if and only if it commits. A backend without such transactions rejects.
   */
  create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]>;
  /**
   * Delivers a signal or a cancellation. Resolves once it is durable (M1). A repetition with the same key is answered with "duplicate",
   * even after the run has closed; so is a cancellation of a run that is already canceled. `tx` as for `create`.
   */
  send(message: AddressedTo<Message<SignalJob | CancelJob>>, tx?: unknown): Promise<SendAnswer>;
  /**
   * Delivers an update and waits for its outcome (M10). The update is durable once the run was found. It continues if the caller stops
   * waiting, and a repetition with the same id waits for the same outcome, even after the run has closed. With `acceptWithin` it is offered
   * until a `receive` accepts it or that time is over; then it is rejected. "closed": the run has closed and there is no outcome. Rejects
   * with RunBlockedError while no code can advance the run (V4), and with RunClosedError if the run closes without an outcome.
   */
  update(update: AddressedTo<Message<UpdateJob>>, wait: WaitOptions): Promise<UpdateAnswer>;
  /**
   * Waits until the run has ended, across all executions in its chain (P10), or is blocked (V4). Resolves at once if it already has.
   * Rejects with RunNotFoundError if there is no such run.
   */
  ended(runId: string, wait: WaitOptions): Promise<RunEnd>;
  /**
   * The newest execution of each run, in order; undefined for runs that don't exist. Includes everything acknowledged before the call
   * (M11).
   */
  get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]>;
  /**
   * Like `get`, with data that takes longer to read: what the run waits for, and the last failure of an operation that is being retried.
   */
  describe(runId: string): Promise<RunDescription | undefined>;
  /** Ends a run at once, without running workflow code (K6). A second call is answered with "closed". */
  terminate(runId: string, reason: string | undefined): Promise<SendAnswer>;
  /**
   * Continues a failed run from where it stopped, or makes a blocked run available now ("resumed"); wakes an open run that waits ("woken",
   * V3). "not-resumable": the run has not begun, or has ended in a way that can't be continued (D10).
   */
  resume(runId: string): Promise<ResumeAnswer>;
  /** Every operation of the newest execution with its attempts, in order of emission (D12). `run` is a fresh answer of `get`. */
  operations(run: RunSnapshot): Promise<OperationInfo[]>;
  /** The portable history of the newest execution, the input of `replay` (Y5). `run` as for `operations`. */
  history(run: RunSnapshot): Promise<History>;
  /** Newest first, at most `limit` `runs`. `cursor` is undefined on the last page. A page may lack very recent writes. */
  list(page: RunPage): Promise<{ readonly runs: readonly RunDescription[]; readonly cursor: string | undefined }>;
  /** The number of matching runs by status. */
  count(selection: RunSelection): Promise<RunCounts>;
  /** Resolves once the worker accepts work. */
  startWorker(settings: WorkerSettings): Promise<BackendWorker>;
  /**
   * Stops the workers, ends all waits with `engineClosed()`, and releases the backend's resources. Calling it again returns the same
   * promise.
   */
  close(): Promise<void>;

  // Optional: absent where the backend lacks the feature. See `featureOf`.

  /** Limits and pauses of queues (Q). After `close` was called its calls reject with `engineClosed()`. */
  readonly queues?: BackendQueues | undefined;

  /**
   * A new run `id` that shares the history of `runId` up to the operation at `before`, with or without the `signals` sent since then (F).
   * `version` is that of the new run; undefined: that of `runId`. "failed": the history can't be cut there.
   */
  fork?(
    runId: string,
    fork: { readonly id: string; readonly before: string; readonly version: string | undefined; readonly signals: "keep" | "drop" },
  ): Promise<StartAnswer | { readonly status: "not-found" }>;
  /** Deletes a closed run and all its data: its id and its keys are free then. "open": nothing was deleted. */
  delete?(runId: string): Promise<"deleted" | "not-found" | "open">;
  /** Applies an action to every run that matches now. A run does the work and publishes its progress; resolves with the id of that run. */
  bulk?(selection: RunSelection, action: BulkAction): Promise<string>;
  /** The workers of all processes that were seen recently. */
  workers?(): Promise<WorkerSighting[]>;
  /** Runs that start by the clock. */
  readonly schedules?: BackendSchedules;
  /** Why the run does not advance; undefined if there is no such run. */
  why?(runId: string): Promise<readonly Reason[] | undefined>;
}

/** Limits and pauses of queues. */
export type BackendQueues = Omit<QueueStore, "limitsFor">;

/** What a bulk action does to each run. */
export type BulkAction =
  | {
      /** What is done. */
      readonly do: "cancel" | "terminate" | "resume" | "delete";
      /** The reason for `cancel` and `terminate`. */
      readonly reason: string | undefined;
    }
  | {
      /** What is done. */
      readonly do: "signal";
      /** The name of the signal. */
      readonly name: string;
      /** The payload of the signal, encoded. */
      readonly payload: Payload;
    };

/** A worker that is alive. */
export interface WorkerSighting {
  /** The id of the worker. */
  readonly id: string;
  /** The name of its machine. */
  readonly host: string;
  /** The id of its process. */
  readonly pid: number;
  /** The queue that it works for. */
  readonly queue: string;
  /** The workflows and versions that it serves. */
  readonly serves: ServedWorkflows["serves"];
  /** The names of the activities that it serves. */
  readonly activities: readonly string[];
  /** The most runs in progress. */
  readonly concurrency: number;
  /** The most activities in progress. */
  readonly activityConcurrency: number;
  /** Runs in progress when it was last seen. */
  readonly active: number;
  /** Activities in progress when it was last seen. */
  readonly activeActivities: number;
  /** When it started. */
  readonly startedAt: number;
  /** When it last said that it is alive. */
  readonly seenAt: number;
}

/** Why a run does not advance: one obstacle. */
export interface Reason {
  /** The kind of obstacle, for programs. */
  readonly kind:
    | "no-worker"
    | "queue-full"
    | "rate"
    | "after"
    | "delayed"
    | "no-activity-worker"
    | "activity"
    | "retrying"
    | "running"
    | "signal"
    | "timer"
    | "child"
    | "condition"
    | "blocked"
    | "lease"
    | "paused"
    | "closed";
  /** The obstacle in words. */
  readonly text: string;
  /** What to do about it, if anything. */
  readonly advice: string;
  /** Since when, if that is known. */
  readonly since: number | undefined;
  /** The location of the operation that it waits for. */
  readonly location: string | undefined;
}
