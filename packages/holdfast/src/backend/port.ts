// The port behind the surface: what `Holdfast`, `Run` and `Worker` ask of the engine that was opened.
// Owns: the words between the two. A backend implements `Backend`; the embedded engine (memory, SQLite, PostgreSQL) is the first.
// Invariants: M1 M3 M10 (an acknowledged message is durable and delivered once), M11 (reading needs no worker), M12 (unknown and closed
// runs), P8 (user values cross the port encoded).
//
// For implementers.
// - Above the port: options are checked, schemas applied, values encoded and decoded with the codec, answers turned into errors. A backend
//   never calls the codec for what crosses the port; its workers use the codec that it was opened with for what workflow code sees.
// - Definitions are known above the port and to the workers of the backend. A start names its workflow and version; a client process may
//   have no definition at all.
// - An answer says what happened to one run. A rejection means that the backend could not find out or could not do it: an error with a
//   `code`, as `StoreError` has, or one of the errors that a method names. After a rejection of `create`, `send` or `update` the write may
//   or may not have happened; repeating the call with the same id or key is safe.
// - Times are milliseconds since the epoch by the clock of the backend; lengths of time are milliseconds.
// - Once `close` was called, calls that would write something or start a worker reject with `engineClosed()`. Reading and waiting go on until
//   the promise of `close` resolves; from then on they reject with the same error.
// - A feature that the backend lacks is an optional method that is absent, or, where an option asks for it, an `UnsupportedError` that
//   names the feature, the backend and what to use instead. An option that can't be honoured is never ignored.

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

/** What `Holdfast.open` hands to the package of a backend. */
export interface BackendOptions {
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly namespace: string | undefined;
}
/** What such a package exports: `@holdfast/temporal` is one. */
export interface BackendPackage {
  /** Resolves once the backend can be used. Rejects with InvalidInputError for a url or an option that is wrong. */
  openBackend(url: string, options: BackendOptions): Promise<Backend>;
}

// ───────────────────────────── runs ─────────────────────────────

/** A run to be started. */
export interface RunStart {
  readonly id: string;
  readonly workflow: string;
  readonly version: string | undefined;
  readonly input: Payload;
  /** False: the starter has no definition, so no schema was applied to `input`. The worker applies it before the first turn. */
  readonly isChecked: boolean;
  readonly queue: string;
  readonly priority: number;
  /** Not before this long from now … */
  readonly delay?: number | undefined;
  /** … or not before this moment. At most one of the two is given. */
  readonly startAt?: number | undefined;
  /** The deadline as a length from now, or as a moment (K7). At most one of the two is given. */
  readonly deadline?: number | undefined;
  readonly deadlineAt?: number | undefined;
  readonly retry?: StoredRunRetry | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** A start that is repeated under its key finds the run of the first, whatever id it names (M3). Keys are kept by workflow. */
  readonly idempotencyKey?: string | undefined;
  /** When a run of this id and workflow exists. One of another workflow is a conflict, whatever this says (M3). */
  readonly onConflict: "reject" | "use-existing" | "restart-if-closed";
  /** Randomness for the first execution (P7). A backend whose service makes its own seeds leaves it unused. */
  readonly seed: string;
  /** Delivered in the first activation (M8), or to the run that exists with "use-existing". At most one is an update. */
  readonly messages?: readonly Message<SignalJob | UpdateJob>[] | undefined;
}

/** What a start resulted in. */
export type StartAnswer =
  /** The run's id: under an idempotency key it may be another than was asked for (M3). */
  | { readonly status: "created" | "existing"; readonly id: string }
  /**
   * Nothing was written: "reject" and the id is taken, "use-existing" with messages for a run that is closed, or the run of this id is of
   * another workflow. `workflow` and `runStatus` are those of the run that exists.
   */
  | { readonly status: "conflict"; readonly id: string; readonly runStatus: RunStatus; readonly workflow: string }
  /** This start could not be carried out; `error` is what the caller gets. */
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
  /** Of a failed run: would `resume` continue it (D10)? */
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
/** A snapshot with what an open run waits for, in words (P11). */
export interface RunDescription extends RunSnapshot {
  readonly waitingFor: readonly string[];
}
/** How a run ended, or that it is blocked (V4): `error` says why. */
export type RunEnd = Pick<RunSnapshot, "id" | "status" | "output" | "error" | "resumable">;

// ─────────────────────────── messages ───────────────────────────

export type SignalJob = Extract<Job, { type: "signal" }>;
export type UpdateJob = Extract<Job, { type: "update" }>;
export type CancelJob = Extract<Job, { type: "cancel" }>;

/** A message for a run. Its payload is as the sender gave it, valid by the schema; the worker makes of it what the schema does. */
export interface Message<J extends SignalJob | UpdateJob | CancelJob> {
  readonly job: J;
  /** A repeated send with the same key is one delivery (M3). For updates the job's id is the key, whether or not it is named here. */
  readonly idempotencyKey?: string | undefined;
  /** Of an update: how long it is offered to the run until a `receive` accepts it. Undefined: once (M8). */
  readonly acceptWithin?: number | undefined;
}
/** A message and the run that it is for. With `workflow` it goes only to a run of that workflow (M3); that is decided before its key. */
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

/** The outcome of an update. "failed": its handler failed. "rejected": it was not accepted, and nothing entered the history. */
export type UpdateOutcome =
  | { readonly status: "completed"; readonly value: Payload }
  | { readonly status: "failed" | "rejected"; readonly error: SerializedError };
export type UpdateAnswer = UpdateOutcome | NotDelivered;

export type ResumeAnswer = "resumed" | "woken" | "not-found" | "not-resumable";

/** How long a caller waits. The wait ends with `waitTimeout(…)` after `timeout`, and with the signal's reason when it aborts. */
export interface WaitOptions {
  readonly timeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

// ───────────────────────────── reading ──────────────────────────

/** Which runs. All that is given must match. */
export interface RunSelection {
  readonly status?: readonly RunStatus[] | undefined;
  readonly workflow?: string | undefined;
  readonly queue?: string | undefined;
  readonly parentId?: string | undefined;
  /** All of them, by value and type: "1" is not 1. */
  readonly attributes?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Created at this moment or later … */
  readonly since?: number | undefined;
  /** … and before this one. */
  readonly until?: number | undefined;
}
export interface RunPage extends RunSelection {
  readonly limit: number;
  /** What the page before answered as `cursor`. */
  readonly cursor?: string | undefined;
}

// ───────────────────────────── workers ──────────────────────────

/** The workflows of a worker: which definition drives a run of which version (V2). */
export interface ServedWorkflows {
  readonly all: readonly AnyWorkflow[];
  /** By name: the versions (undefined for runs without one), or all of them. */
  readonly serves: readonly Served[];
  /** Undefined: this worker has no code for such a run. */
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
  /** Runs and activities that it works on now. */
  readonly active: number;
  /** Takes nothing new, lets what runs end within the grace period, gives the rest back (W4). May be called again: the same promise. */
  stop(): Promise<void>;
  /** Resolves when it has stopped, by its own `stop` or with the backend. */
  readonly stopped: Promise<void>;
}

// ───────────────────────────── the port ─────────────────────────

export interface Backend {
  /** For messages: "SQLite", "Temporal". */
  readonly name: string;

  /**
   * Starts runs; answers in order, each by itself: one that conflicts or fails changes nothing for the others. A run is created with its
   * messages or not at all. Calls may be repeated: a start whose answer was lost finds its run by id or key.
   * `tx`, the caller's open transaction: all of it happens if and only if that commits. A backend without such transactions rejects.
   */
  create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]>;
  /**
   * Delivers a signal or a cancellation. Resolves once it is durable (M1). A repetition under the same key is answered "duplicate", also
   * after the run has closed; a cancellation of a run that is canceled is such a repetition. `tx` as for `create`.
   */
  send(message: AddressedTo<Message<SignalJob | CancelJob>>, tx?: unknown): Promise<SendAnswer>;
  /**
   * Delivers an update and waits for its outcome (M10). The update is durable from the moment the run is found; it goes on when the caller
   * stops waiting, and a repetition under the same id waits for the same outcome, also after the run has closed. With `acceptWithin` it is
   * offered until a `receive` accepts it or that time is over; then it is rejected. "closed": the run has closed and there is no outcome.
   * Rejects with RunBlockedError while no code can advance the run (V4), and with RunClosedError if the run closes without an outcome.
   */
  update(update: AddressedTo<Message<UpdateJob>>, wait: WaitOptions): Promise<UpdateAnswer>;
  /**
   * Waits until the run has ended, across all executions in its chain (P10), or is blocked (V4). At once if it has. Rejects with
   * RunNotFoundError if there is no such run.
   */
  ended(runId: string, wait: WaitOptions): Promise<RunEnd>;
  /** The newest execution of each run, in order; undefined for those that do not exist. Sees everything that was acknowledged before (M11). */
  get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]>;
  /** As `get`, with what takes more reading: what the run waits for, and of an operation that is retried the last failure. */
  describe(runId: string): Promise<RunDescription | undefined>;
  /** Ends a run at once, without running workflow code (K6). Not repeatable: the second time it is "closed". */
  terminate(runId: string, reason: string | undefined): Promise<SendAnswer>;
  /**
   * Continues a failed run from where it stopped, or makes a blocked one available now ("resumed"); wakes an open one that waits ("woken",
   * V3). "not-resumable": it has not begun, or has ended in a way that can't be continued (D10).
   */
  resume(runId: string): Promise<ResumeAnswer>;
  /** Every operation of the newest execution with its attempts, in order of emission (D12). `run` is what `get` has just answered. */
  operations(run: RunSnapshot): Promise<OperationInfo[]>;
  /** The portable history of the newest execution, in a format that `replay` takes (Y5). `run` as for `operations`. */
  history(run: RunSnapshot): Promise<History>;
  /** Newest first, at most `limit`. `cursor` is undefined on the last page. A page may miss what was written a moment ago. */
  list(page: RunPage): Promise<{ readonly runs: readonly RunDescription[]; readonly cursor: string | undefined }>;
  /** How many runs of each status match. */
  count(selection: RunSelection): Promise<Record<RunStatus, number>>;
  /** Resolves once the worker takes work. */
  startWorker(settings: WorkerSettings): Promise<BackendWorker>;
  /** Stops the workers, ends all waiting with `engineClosed()`, and gives back what the backend holds. May be called again: the same promise. */
  close(): Promise<void>;

  // Optional: absent where the backend lacks the feature. See `featureOf`.

  /** A new run that shares the history of `runId` up to the operation at `before`, with what it was sent since then, or without. */
  fork?(
    runId: string,
    fork: { readonly id: string; readonly before: string; readonly version: string | undefined; readonly signals: "keep" | "drop" },
  ): Promise<StartAnswer | { readonly status: "not-found" }>;
  /** Removes a closed run with all that belongs to it. */
  delete?(runId: string): Promise<"deleted" | "not-found" | "open">;
  /** Does something to every run that matches now, as a run that publishes its progress. Resolves with the id of that run. */
  bulk?(selection: RunSelection, action: BulkAction): Promise<string>;
  /** The workers of all processes that were seen lately. */
  workers?(): Promise<WorkerSighting[]>;
  /** Why the run does not advance. Undefined: there is no such run. */
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
