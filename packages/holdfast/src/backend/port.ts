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
// - If the backend lacks a feature, its optional method is absent. If an option asks for it, the call rejects with an `UnsupportedError`
//   that names the feature, the backend and an alternative. An option is never ignored.

import type {
  Activity,
  AnyWorkflow,
  Codec,
  History,
  Job,
  Limits,
  Logger,
  OperationInfo,
  Payload,
  RunStatus,
  SerializedError,
  StoredRunRetry,
} from "@holdfast/core";
import type { Served } from "@holdfast/host";

// ───────────────────────────── opening ──────────────────────────

/** What `Holdfast.open` passes to the package of a backend. */
export interface BackendOptions {
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly namespace: string | undefined;
}
/** What such a package exports, for example `@holdfast/temporal`. */
export interface BackendPackage {
  /** Resolves once the backend is ready. Rejects with InvalidInputError for an invalid URL or option. */
  openBackend(url: string, options: BackendOptions): Promise<Backend>;
}

// ───────────────────────────── runs ─────────────────────────────

/** A run to be started. */
export interface RunStart {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  /** False if the caller has no definition, so that no schema was applied to `input`. The worker applies it before the first turn. */
  readonly isChecked: boolean;
  readonly queue: string;
  readonly priority: number;
  /** The run does not begin before this duration from now has passed … */
  readonly delay?: number | undefined;
  /** … or before this moment. At most one of the two is set. */
  readonly startAt?: number | undefined;
  /** The deadline as a duration from now, or as a moment (K7). At most one of the two is set. */
  readonly deadline?: number | undefined;
  readonly deadlineAt?: number | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** A repeated start with the same key finds the run of the first one, whatever its id (M3). Keys are separate for each workflow. */
  readonly idempotencyKey?: string | undefined;
  /** What to do if a run with this id and workflow exists. If it belongs to another workflow, it is always a conflict (M3). */
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed";
  /** Randomness for the first execution (P7). Unused by a backend whose service creates its own seeds. */
  readonly seed: string;
  /** Delivered in the first activation (M8), or to the existing run with "use-existing". At most one is an update. */
  readonly messages?: readonly Message<SignalJob | UpdateJob>[] | undefined;
}

/** The result of a start. */
export type StartAnswer =
  /** The run's id: with an idempotency key it may differ from the id asked for (M3). */
  | { readonly status: "created" | "existing"; readonly id: string }
  /**
   * Nothing was written: the id is taken and `onConflict` is "reject", the existing run is closed and can't get the messages of a
   * "use-existing" start, or the existing run belongs to another workflow. `workflow` and `runStatus` are those of the existing run.
   */
  | { readonly status: "conflict"; readonly id: string; readonly runStatus: RunStatus; readonly workflow: string }
  /** This start failed; the caller gets `error`. */
  | { readonly status: "failed"; readonly error: unknown };

/** A run as it stood when it was read. */
export interface RunSnapshot {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly status: RunStatus;
  readonly queue: string;
  readonly priority: number;
  readonly input: Payload;
  readonly output: Payload | undefined;
  readonly error: SerializedError | undefined;
  /** For a failed run: whether `resume` would continue it (D10). */
  readonly resumable?: boolean | undefined;
  /** The published state (P5). */
  readonly state: Payload | undefined;
  readonly execution: number;
  readonly attempt: number;
  readonly parent: { readonly runId: string } | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly createdAt: number;
  readonly startedAt: number | undefined;
  readonly availableAt: number | undefined;
  readonly deadlineAt: number | undefined;
  /** Undefined while the run is open. */
  readonly finishedAt: number | undefined;
  readonly workerId: string | undefined;
  readonly historyLength: number;
}
/** A snapshot, with a description of what an open run waits for (P11). */
export interface RunDescription extends RunSnapshot {
  readonly waitingFor: readonly string[];
}
/** How a run ended, or that it is blocked (V4): `error` has the reason. */
export type RunEnd = Pick<RunSnapshot, "id" | "status" | "output" | "error" | "resumable">;

// ─────────────────────────── messages ───────────────────────────

export type SignalJob = Extract<Job, { type: "signal" }>;
export type UpdateJob = Extract<Job, { type: "update" }>;
export type CancelJob = Extract<Job, { type: "cancel" }>;

/** A message for a run. Its payload is as sent, checked against the schema; the worker transforms it by the schema. */
export interface Message<J extends SignalJob | UpdateJob | CancelJob> {
  readonly job: J;
  /** A repeated send with the same key is delivered once (M3). For updates the job's id is the key, even if it is not set here. */
  readonly idempotencyKey?: string | undefined;
  /** For an update: how long it is offered to the run until a `receive` accepts it. Undefined: it is offered once (M8). */
  readonly acceptWithin?: number | undefined;
}
/** A message and its recipient. If `workflow` is set, only a run of that workflow accepts it (M3); this is checked before the key. */
export interface AddressedTo<M> {
  readonly runId: string;
  readonly workflow: string | undefined;
  readonly message: M;
}

/** Why a message was not delivered. */
export type NotDelivered =
  | { readonly status: "not-found" }
  | { readonly status: "closed"; readonly runStatus: RunStatus }
  | { readonly status: "other-workflow"; readonly workflow: string };
export type SendAnswer = { readonly status: "sent" } | { readonly status: "duplicate" } | NotDelivered;

/** The outcome of an update. "failed": its handler failed. "rejected": it was not accepted, and nothing was added to the history. */
export type UpdateOutcome =
  | { readonly status: "completed"; readonly value: Payload }
  | { readonly status: "failed" | "rejected"; readonly error: SerializedError };
export type UpdateAnswer = UpdateOutcome | NotDelivered;

export type ResumeAnswer = "resumed" | "woken" | "not-found" | "not-resumable";

/** How long a caller waits. The wait rejects with `waitTimeout(…)` after `timeout`, and with the signal's reason if it aborts. */
export interface WaitOptions {
  readonly timeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

// ───────────────────────────── reading ──────────────────────────

/** Which runs: they must match all fields that are set. */
export interface RunSelection {
  readonly status?: readonly RunStatus[] | undefined;
  readonly workflow?: string | undefined;
  readonly queue?: string | undefined;
  readonly parentId?: string | undefined;
  /** The run must have all of them, with the same type: "1" is not 1. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Created at this moment or later … */
  readonly since?: number | undefined;
  /** … and before this one. */
  readonly until?: number | undefined;
}
export interface RunPage extends RunSelection {
  readonly limit: number;
  /** The `cursor` of the previous page. */
  readonly cursor?: string | undefined;
}

// ───────────────────────────── workers ──────────────────────────

/** The workflows of a worker: which definition drives a run of which version (V2). */
export interface ServedWorkflows {
  readonly all: readonly AnyWorkflow[];
  /** By name: the versions (undefined for runs without a version), or all of them. */
  readonly serves: readonly Served[];
  /** Undefined if this worker has no code for such a run. */
  find(workflow: string, version: string | undefined): AnyWorkflow | undefined;
}
export interface WorkerSettings {
  readonly id: string;
  readonly queue: string;
  readonly workflows: ServedWorkflows;
  readonly activities: ReadonlyMap<string, Activity<unknown, unknown>>;
  readonly concurrency: number;
  readonly activityConcurrency: number;
  readonly cachedRuns: number;
  readonly lease: number;
  readonly gracePeriod: number;
  readonly turnTimeout: number;
  readonly determinism: "off" | "warn" | "error";
}
export interface BackendWorker {
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

export interface Backend {
  /** The name used in messages: "SQLite", "Temporal". */
  readonly name: string;

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
  /** Newest first, at most `limit` runs. `cursor` is undefined on the last page. A page may lack very recent writes. */
  list(page: RunPage): Promise<{ readonly runs: readonly RunDescription[]; readonly cursor: string | undefined }>;
  /** The number of matching runs by status. */
  count(selection: RunSelection): Promise<Record<RunStatus, number>>;
  /** Resolves once the worker accepts work. */
  startWorker(settings: WorkerSettings): Promise<BackendWorker>;
  /**
   * Stops the workers, ends all waits with `engineClosed()`, and releases the backend's resources. Calling it again returns the same
   * promise.
   */
  close(): Promise<void>;

  // Optional: absent where the backend lacks the feature. See `featureOf`.

  /** A new run that shares the history of `runId` up to the operation at `before`, with or without the signals sent since then. */
  fork?(
    runId: string,
    fork: { readonly id: string; readonly before: string; readonly version: string | undefined; readonly signals: "keep" | "drop" },
  ): Promise<StartAnswer | { readonly status: "not-found" }>;
  /** Deletes a closed run and all its data. */
  delete?(runId: string): Promise<"deleted" | "not-found" | "open">;
  /** Applies an action to every run that matches now. A run does the work and publishes its progress; resolves with the id of that run. */
  bulk?(selection: RunSelection, action: BulkAction): Promise<string>;
  /** The workers of all processes that were seen recently. */
  workers?(): Promise<WorkerSighting[]>;
  /** Why the run does not advance; undefined if there is no such run. */
  why?(runId: string): Promise<readonly Reason[] | undefined>;
}

export type BulkAction =
  | { readonly do: "cancel" | "terminate" | "resume" | "delete"; readonly reason: string | undefined }
  | { readonly do: "signal"; readonly name: string; readonly payload: Payload };

export interface WorkerSighting {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly queue: string;
  readonly serves: ServedWorkflows["serves"];
  readonly activities: readonly string[];
  readonly concurrency: number;
  readonly activityConcurrency: number;
  readonly active: number;
  readonly activeActivities: number;
  readonly startedAt: number;
  readonly seenAt: number;
}

export interface Reason {
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
  readonly text: string;
  readonly advice: string;
  readonly since: number | undefined;
  readonly location: string | undefined;
}
