// Job: stand in for the package "holdfast" while the seed examples are type-checked against the core alone.
// Owns: the outer shapes (engine, run handle, worker, schedules), as the design declares them; every model type is the core's own.
// Invariants: N, P2, R4 as the compiler sees them: whatever the examples infer, they infer from packages/core/src.
import type {
  Activity,
  AnyWorkflow,
  Codec,
  Duration,
  History,
  Logger,
  OperationInfo,
  Queries,
  RunInfo,
  RunStatus,
  SignalPayload,
  Signals,
  StoredRetryPolicy,
  UpdateInput,
  UpdateOutput,
  Updates,
  Workflow,
} from "@holdfast/core";

export * from "@holdfast/core";

export interface OpenOptions {
  codec?: Codec;
  namespace?: string;
  logger?: Logger;
  limits?: Partial<Limits>;
}
export interface Limits {
  payloadBytes: number;
  historyWarn: number;
  historyMax: number;
}
export interface StartOptions {
  /** Unique among all runs of the namespace. Default: a time-ordered unique id. */
  id?: string;
  /** What to do when a run of that id exists. Default "reject". */
  onConflict?: "reject" | "use-existing" | "restart-if-closed";
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
  signals?: readonly { name: string; payload?: unknown }[];
  attributes?: Record<string, string | number | boolean>;
  /** The caller's own open transaction on the same database: the run starts if and only if it commits. */
  tx?: unknown;
}
export class Holdfast implements AsyncDisposable {
  /** "file:./app.db" (default file:.holdfast/holdfast.db), "memory:", "postgres://…", "temporal://host:7233/namespace?queue=…". */
  static open(url?: string, options?: OpenOptions): Promise<Holdfast>;
  start<I, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<I, O, S, U, Q>,
    input: I,
    options?: StartOptions,
  ): Promise<Run<O, S, U, Q>>;
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<Run<unknown>>;
  /** Starts the run, or finds it, and sends it an update that its first receive may accept. */
  updateWithStart<I, O, S extends Signals, U extends Updates, Q extends Queries, K extends keyof U & string>(
    workflow: Workflow<I, O, S, U, Q>,
    input: I,
    update: { name: K; input: UpdateInput<U[K]> } & SendOptions,
    options?: StartOptions,
  ): Promise<{ run: Run<O, S, U, Q>; result: UpdateOutput<U[K]> }>;
  startMany<I, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<I, O, S, U, Q>,
    items: Iterable<{ input: I } & StartOptions>,
  ): Promise<Run<O, S, U, Q>[]>;
  run<I, O, S extends Signals, U extends Updates, Q extends Queries>(id: string, workflow?: Workflow<I, O, S, U, Q>): Run<O, S, U, Q>;
  list(filter?: RunFilter): Promise<{ runs: RunInfo[]; cursor: string | undefined }>;
  count(filter?: RunFilter): Promise<Record<RunStatus, number>>;
  /** Starts at once; `await worker.stop()` for a graceful end. */
  worker(options: WorkerOptions): Promise<Worker>;
  readonly schedules: Schedules;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
export interface Run<O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  readonly id: string;
  result(options?: { timeout?: Duration; signal?: AbortSignal }): Promise<O>;
  signal<K extends keyof S & string>(
    name: K,
    ...payload: SignalPayload<S[K]> extends void
      ? [payload?: undefined, options?: SendOptions]
      : [payload: SignalPayload<S[K]>, options?: SendOptions]
  ): Promise<void>;
  update<K extends keyof U & string>(
    name: K,
    ...input: UpdateInput<U[K]> extends void
      ? [input?: undefined, options?: SendOptions & { timeout?: Duration }]
      : [input: UpdateInput<U[K]>, options?: SendOptions & { timeout?: Duration }]
  ): Promise<UpdateOutput<U[K]>>;
  query<K extends keyof Q & string>(name: K, args?: Parameters<Q[K]>[1]): Promise<ReturnType<Q[K]>>;
  /** The last published state. */
  state<T = unknown>(): Promise<T | undefined>;
  cancel(reason?: string): Promise<void>;
  terminate(reason?: string): Promise<void>;
  /** Runs a failed or blocked run again from where it stopped. */
  resume(): Promise<void>;
  /** A new run that shares this one's history up to an operation. */
  fork(options: { before: string; id?: string }): Promise<Run<O, S, U, Q>>;
  describe(): Promise<RunInfo>;
  /** Every operation with its attempts, in order of emission. */
  operations(): Promise<OperationInfo[]>;
  history(): Promise<History>;
}
export interface SendOptions {
  idempotencyKey?: string /** As in StartOptions. */;
  tx?: unknown;
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
export interface WorkerOptions {
  workflows: readonly AnyWorkflow[] | Record<string, unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: the only arguments that every activity is assignable to
  activities?: readonly Activity<any, any>[] | Record<string, unknown>;
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

export interface Schedules {
  /** Creates or replaces. */
  set(id: string, schedule: ScheduleSpec): Promise<void>;
  get(id: string): Promise<ScheduleInfo>;
  list(): Promise<ScheduleInfo[]>;
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  trigger(id: string): Promise<string>;
  delete(id: string): Promise<void>;
}
export interface ScheduleSpec {
  workflow: AnyWorkflow | string;
  input?: unknown;
  cron?: string;
  every?: Duration;
  timezone?: string;
  overlap?: "skip" | "queue" | "allow" | "cancel-previous";
  catchUp?: Duration;
  start?: Omit<StartOptions, "id" | "delay" | "startAt">;
}
export interface ScheduleInfo extends ScheduleSpec {
  id: string;
  paused: boolean;
  nextRuns: Date[];
  lastRunId: string | undefined;
}
