// The public types outside of workflows: runs, workers, options.
// Owns: types only.
// Invariants: names and shapes are fixed.

// For projects whose `lib` lacks it. Without "preserve" TypeScript drops the reference from its output.
/// <reference lib="esnext.disposable" preserve="true" />

import type {
  Activity,
  AnyWorkflow,
  Duration,
  History,
  InputArgs,
  OperationInfo,
  Queries,
  RunInfo,
  RunStatus,
  SignalInput,
  Signals,
  StartSignal,
  StoredRetryPolicy,
  UpdateOutput,
  UpdateSent,
  Updates,
} from "@holdfast/core";

export interface StartOptions<S extends Signals = Signals> {
  /** Unique among all runs of the namespace. Default: a time-ordered unique id. */
  id?: string;
  /**
   * What to do if a run with that id exists. If it belongs to another workflow, the start throws `RunAlreadyExistsError` in any case.
   * "reject" (default): throws `RunAlreadyExistsError`. "use-existing": returns that run, open or closed; `signals` are sent to it.
   * "restart-if-closed": a closed run gets its next execution; an open run is used as with "use-existing".
   */
  onConflict?: "reject" | "use-existing" | "restart-if-closed";
  /**
   * A repeated start with the same key returns the run of the first one. Keys are separate for each workflow and last as long as the run.
   */
  idempotencyKey?: string;
  /** The queue whose workers run it. Default "default". */
  queue?: string;
  /** Runs with a higher priority are claimed first. Default 0. */
  priority?: number;
  /** The run begins after this time. Default: at once. */
  delay?: Duration;
  /** The run begins at this time. Not together with `delay`. */
  startAt?: Date;
  /** The run fails with `DeadlineExceededError` at this time, or this long after the call. Default: the workflow's. */
  deadline?: Duration | Date;
  /** The version of the workflow that runs it. Default: the version of the definition. */
  version?: string;
  /** Retries of the run as a whole. Default: the workflow's. */
  retry?: StoredRetryPolicy;
  /** Delivered in the first activation, or to the existing run with "use-existing". */
  signals?: readonly StartSignal<S>[];
  /** Searchable values, by name. `list` and `count` filter by them. */
  attributes?: Record<string, string | number | boolean>;
  /** The caller's open transaction on the same database: the run starts if and only if it commits. */
  tx?: unknown;
}
export interface SendOptions {
  /** A repeated send with the same key is delivered once. */
  idempotencyKey?: string;
  /** The caller's open transaction on the same database: the message is sent if and only if it commits. */
  tx?: unknown;
}
export interface UpdateOptions {
  /** A repeated update with the same key is delivered once, and returns the outcome of the first. */
  idempotencyKey?: string;
  /** How long to wait for the outcome. The update continues after that. Default: no limit. */
  timeout?: Duration;
  /** Offer the update again until a `receive` accepts it, for at most this long. Default: it is offered once. */
  acceptWithin?: Duration;
}
export interface RunFilter {
  status?: RunStatus | readonly RunStatus[];
  workflow?: string;
  queue?: string;
  parentId?: string;
  attributes?: Record<string, string | number | boolean>;
  /** Created at this time or later. */
  since?: Date;
  /** Created before this time. */
  until?: Date;
  /** Runs per page, 1 to 1,000. Default 100. */
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string;
}
export interface Run<O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  readonly id: string;
  /**
   * Waits until the run has ended and returns its output. Throws `RunFailedError`, `CanceledError` or `RunTerminatedError` if it ended
   * otherwise, `RunBlockedError` while its code can't advance it, and an error with the code HF_WAIT_TIMEOUT after `timeout` (default:
   * none).
   */
  result(options?: { timeout?: Duration; signal?: AbortSignal }): Promise<O>;
  /** Sends a signal. Resolves once it is durable. Throws `RunNotFoundError` or `RunClosedError` if it can't be delivered. */
  signal<K extends keyof S & string>(name: K, ...payload: InputArgs<SignalInput<S[K]>, SendOptions>): Promise<void>;
  /** Sends an update and waits for its reply. Throws the error of a rejected update, `UpdateFailedError` if its handler failed. */
  update<K extends keyof U & string>(name: K, ...input: InputArgs<UpdateSent<U[K]>, UpdateOptions>): Promise<UpdateOutput<U[K]>>;
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; whatever the state is, the arguments follow it
  query<K extends keyof Q & string>(name: K, ...args: Parameters<Q[K]> extends [any?, ...infer A] ? A : []): Promise<ReturnType<Q[K]>>;
  /** The last published state; undefined if there is none. */
  state<T = unknown>(): Promise<T | undefined>;
  /** Requests cancellation. A run that is already canceled stays canceled: no error. */
  cancel(reason?: string): Promise<void>;
  /** Ends the run at once, without running workflow code or rollbacks. */
  terminate(reason?: string): Promise<void>;
  /** Continues a failed or blocked run from where it stopped. Throws an error with the code HF_NOT_RESUMABLE if it can't be resumed. */
  resume(): Promise<void>;
  describe(): Promise<RunInfo>;
  /** Every operation with its attempts, in order of emission. */
  operations(): Promise<OperationInfo[]>;
  /** The portable history of the newest execution, the input of `replay`. */
  history(): Promise<History>;
}
export interface WorkerOptions {
  /** A list, or the exports of a module. Default: none. */
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[] | Record<string, unknown>;
  /** A list, or the exports of a module. Several versions of one workflow may be listed. */
  workflows: readonly AnyWorkflow[] | Record<string, unknown>;
  /** Default "default". */
  queue?: string;
  /** Maximum number of runs in progress. Default 100. */
  concurrency?: number;
  /** Maximum number of activities in progress. Default 100. */
  activityConcurrency?: number;
  /** How long a run stays claimed without renewal: another worker takes it over after that. Default "30s". */
  lease?: Duration;
  /** Maximum number of waiting runs kept in memory. Default 1,000. */
  cachedRuns?: number;
  /** How long stop() waits for steps in progress. Default "10s". */
  gracePeriod?: Duration;
  /** Process signals that stop the worker gracefully and then exit the process. Default: none. */
  stopOn?: readonly ("SIGTERM" | "SIGINT")[];
  /** How long the code of one turn may take. Default "2s". */
  turnTimeout?: Duration;
  /**
   * What happens when workflow code calls Date.now, Math.random, setTimeout or fetch. Default: "error" in testEngine, "off" if NODE_ENV is
   * "production", else "warn".
   */
  determinism?: "off" | "warn" | "error";
}
export interface Worker extends AsyncDisposable {
  readonly id: string;
  /** Number of runs and activities in progress. */
  readonly active: number;
  /**
   * Stops gracefully: claims nothing new, waits for work in progress up to the grace period, and releases the rest. May be called again.
   */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
