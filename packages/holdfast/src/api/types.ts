// The shapes of the public surface outside of workflows: runs, workers, options.
// Owns: types only.
// Invariants: names and shapes are fixed.

// Where people have no lib with it. Without "preserve" TypeScript drops the reference from what it emits.
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
   * What to do when a run of that id exists. It must be of the same workflow, else `RunAlreadyExistsError`, whatever this says.
   * "reject" (default): `RunAlreadyExistsError`. "use-existing": that run, open or closed; `signals` go to it. "restart-if-closed": a closed
   * one gets its next execution, an open one is used as with "use-existing".
   */
  onConflict?: "reject" | "use-existing" | "restart-if-closed";
  /** A start that is repeated under its key finds the run of the first. Keys are kept by workflow, for the life of the run. */
  idempotencyKey?: string;
  queue?: string;
  /** Higher goes first. Default 0. */
  priority?: number;
  delay?: Duration;
  startAt?: Date;
  deadline?: Duration | Date;
  version?: string;
  retry?: StoredRetryPolicy;
  /** Delivered with the start, in the first activation; to the existing run with "use-existing". */
  signals?: readonly StartSignal<S>[];
  attributes?: Record<string, string | number | boolean>;
  /** The caller's own open transaction on the same database: the run starts if and only if it commits. */
  tx?: unknown;
}
export interface SendOptions {
  idempotencyKey?: string;
  /** As in StartOptions. */
  tx?: unknown;
}
export interface UpdateOptions {
  idempotencyKey?: string;
  /** How long to wait for the outcome; the update goes on. */
  timeout?: Duration;
  /** Keep offering it until a `receive` accepts it, for at most this long. Default: once. */
  acceptWithin?: Duration;
}
export interface RunFilter {
  status?: RunStatus | readonly RunStatus[];
  workflow?: string;
  queue?: string;
  parentId?: string;
  attributes?: Record<string, string | number | boolean>;
  since?: Date;
  until?: Date;
  limit?: number;
  cursor?: string;
}
export interface Run<O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  readonly id: string;
  result(options?: { timeout?: Duration; signal?: AbortSignal }): Promise<O>;
  signal<K extends keyof S & string>(name: K, ...payload: InputArgs<SignalInput<S[K]>, SendOptions>): Promise<void>;
  update<K extends keyof U & string>(name: K, ...input: InputArgs<UpdateSent<U[K]>, UpdateOptions>): Promise<UpdateOutput<U[K]>>;
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; whatever the state is, the arguments follow it
  query<K extends keyof Q & string>(name: K, ...args: Parameters<Q[K]> extends [any?, ...infer A] ? A : []): Promise<ReturnType<Q[K]>>;
  /** The last published state. */
  state<T = unknown>(): Promise<T | undefined>;
  /** One that is canceled already stays so: no error. */
  cancel(reason?: string): Promise<void>;
  terminate(reason?: string): Promise<void>;
  /** Runs a failed or blocked run again from where it stopped. */
  resume(): Promise<void>;
  describe(): Promise<RunInfo>;
  /** Every operation with its attempts, in order of emission. */
  operations(): Promise<OperationInfo[]>;
  history(): Promise<History>;
}
export interface WorkerOptions {
  // biome-ignore lint/suspicious/noExplicitAny: any activity, whatever its arguments
  activities?: readonly Activity<any, any>[] | Record<string, unknown>;
  workflows: readonly AnyWorkflow[] | Record<string, unknown>;
  queue?: string;
  /** Runs in progress at once. Default 100. */
  concurrency?: number;
  /** Activities at once. Default 100. */
  activityConcurrency?: number;
  lease?: Duration;
  cachedRuns?: number;
  gracePeriod?: Duration;
  /** Process signals that stop the worker gracefully and then exit. Default: none, the process is yours. */
  stopOn?: readonly ("SIGTERM" | "SIGINT")[];
  turnTimeout?: Duration;
  /** What calling Date.now, Math.random, setTimeout or fetch in workflow code does. Default: "error" in testEngine, "off" under NODE_ENV=production, else "warn". */
  determinism?: "off" | "warn" | "error";
}
export interface Worker extends AsyncDisposable {
  readonly id: string;
  readonly active: number;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
