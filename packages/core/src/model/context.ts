// The contexts of workflow code: what a root, a branch, a handler and an async handler may call.
// Owns: interfaces only. The executor implements them, and throws at run time for calls that bypass the types.
// Invariants: N (the types express its table: only the root has `receive`, only async handlers have `updateState`), C1 to C3, L1, P7.

import type { OperationKind } from "../protocol/index.ts";
import type { Duration, RetryPolicy, StoredRetryPolicy } from "../values/index.ts";
import type { Activity, ActivityOptions } from "./activity.ts";
import type { BreakValue, LoopOptions, LoopResult } from "./loop.ts";
import type { InputArgs, Messages, SignalPayload } from "./messages.ts";
import type { ReceiveHandlers } from "./receive.ts";
import type { Workflow } from "./workflow.ts";

/** What a step function knows about the attempt that it runs in. */
export interface StepInfo {
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The same for every attempt: pass it to the service that you call. */
  readonly idempotencyKey: string;
  /** Aborts on cancellation, timeout, lost claim and shutdown. */
  readonly signal: AbortSignal;
}
export interface StepOptions<T> {
  /** Default: 10 attempts with exponential backoff. */
  retry?: RetryPolicy;
  /** Longest duration of one attempt. Default: no limit. */
  timeout?: Duration;
  /** Undoes the step if the run rolls back. It is retried like a step. */
  rollback?: (output: T, info: StepInfo) => Promise<void> | void;
}
export interface ChildOptions {
  /** The run id of the child. Default: derived from the parent's id. */
  id?: string;
  /** Default: the queue of the parent. */
  queue?: string;
  /** Default: the parent's. */
  priority?: number;
  /** Default: the version of the child's definition. */
  version?: string;
  /** A duration from the start of the child, or a point in time. */
  deadline?: Duration | Date;
  /** Retry of the child run as a whole. Default: the policy of its definition. */
  retry?: StoredRetryPolicy;
  /** What happens to the open child when its parent closes. Default "cancel". */
  parentClose?: "cancel" | "abandon" | "terminate";
  attributes?: Record<string, string | number | boolean>;
  /**
   * What to do if a run with that id exists. "reject" (default): the call fails. "restart-if-closed": a closed run gets its next execution,
   * as a child of this run; the call fails if that run is open.
   */
  onConflict?: "reject" | "restart-if-closed";
}
/** A child run that `ctx.startChild` has started. */
export interface ChildHandle<O> {
  readonly id: string;
  /** Waits for the child to end; throws ChildFailedError if it did not complete. */
  result(): Promise<O>;
  /** Sends a signal to the child. */
  signal(name: string, payload?: unknown): Promise<void>;
  /** Requests the cancellation of the child. */
  cancel(): Promise<void>;
}

/** The operations that every unit of a workflow may use. */
export interface UnitContext<M extends Messages = Messages> {
  readonly run: {
    readonly id: string;
    readonly workflow: string;
    readonly version: string | undefined;
    readonly attempt: number;
    readonly startedAt: Date;
    readonly parentId: string | undefined;
  };
  /** The workflow version that the run was started with. */
  readonly version: string | undefined;
  /** Aborts when this unit is canceled. */
  readonly signal: AbortSignal;
  /** Logs with the run id and the unit. Silent during replay. */
  readonly log: Logger;

  /** Runs code with effects in this worker and records its result. Once the outcome is durable it never runs again. */
  step<T>(name: string, fn: (info: StepInfo) => Promise<T> | T, options?: StepOptions<T>): Promise<T>;
  /** A step whose writes through `tx` commit together with its record, so that they happen exactly once. */
  // biome-ignore lint/suspicious/noExplicitAny: the transaction's type is the store's, which the core can't name; users give it
  transaction<T, Tx = any>(
    name: string,
    fn: (tx: Tx, info: StepInfo) => Promise<T> | T,
    options?: Omit<StepOptions<T>, "timeout">,
  ): Promise<T>;
  /** Runs an activity on a worker of its queue and returns its result; throws ActivityFailedError if it fails for good. */
  activity<A, R>(activity: Activity<A, R>, ...args: InputArgs<A, ActivityOptions>): Promise<R>;
  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; a child may declare whatever messages it likes
  /** Starts a child run and waits for its result; throws ChildFailedError if it does not complete. */
  child<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<O>;
  /** Starts a child run and returns a handle once it has started, without waiting for its result. */
  startChild<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<ChildHandle<O>>;
  // biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
  /** Sends a signal to another run. */
  signalRun(runId: string, name: string, payload?: unknown): Promise<void>;
  /** Requests the cancellation of another run. */
  cancelRun(runId: string): Promise<void>;

  /** Waits for a duration. Survives restarts and never fires early. */
  sleep(duration: Duration): Promise<void>;
  sleep(name: string, duration: Duration): Promise<void>;
  /** Waits until a point in time (a Date, or milliseconds since the Unix epoch). Survives restarts and never fires early. */
  sleepUntil(time: Date | number): Promise<void>;
  sleepUntil(name: string, time: Date | number): Promise<void>;

  /** Consumes the oldest buffered signal of that name, or waits for the next one. With a timeout the result says whether it timed out. */
  waitForSignal<K extends keyof M["signals"] & string>(name: K): Promise<SignalPayload<M["signals"][K]>>;
  waitForSignal<K extends keyof M["signals"] & string>(
    name: K,
    options: { timeout: Duration },
  ): Promise<{ timedOut: true; payload?: undefined } | { timedOut: false; payload: SignalPayload<M["signals"][K]> }>;
  /** Waits for a signal of one of the names and consumes up to `count` (default 1) buffered ones, in arrival order. Empty on timeout. */
  listen<K extends keyof M["signals"] & string>(
    names: readonly K[],
    options?: { count?: number; timeout?: Duration },
  ): Promise<Array<{ name: K; payload: SignalPayload<M["signals"][K]> }>>;

  /** Runs a synchronous function once and records its value, or the error that it throws. Replay returns the record. */
  sideEffect<T>(fn: () => T): Promise<T>;
  /** Replaces the published state, which queries and `run.state()` read. Visible with the commit of the turn. */
  publishState(state: unknown): void;
  /** The time of the turn: deterministic, and never decreasing within a run. */
  now(): Date;
  /** A deterministic random number in [0, 1). Not for secrets. */
  random(): number;
  /** A deterministic version 4 UUID. Not for secrets. */
  uuid(): string;

  /** Runs all branches concurrently to their end and returns their outcomes in input order, like Promise.allSettled. */
  parallel<T extends readonly ((ctx: BranchContext<M>) => Promise<unknown>)[]>(
    branches: readonly [...T],
  ): Promise<{ [I in keyof T]: PromiseSettledResult<Awaited<ReturnType<T[I]>>> }>;
  /** Runs all branches concurrently and returns their values by key; throws JoinError once all have ended if any failed. */
  join<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T]: Awaited<ReturnType<T[K]>> }>;
  /** Returns the first branch to succeed and cancels the others; throws RaceError if every branch fails. */
  race<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T & string]: { winner: K; value: Awaited<ReturnType<T[K]>> } }[keyof T & string]>;
  /** Repeats `run` until it returns `Loop.break(value)`. Commits its state and trims its history as it runs (see LoopOptions). */
  loop<R extends LoopResult<void, unknown> | void>(name: string, run: (ctx: this) => Promise<R>): Promise<BreakValue<R>>;
  loop<S, R extends LoopResult<S, unknown>>(options: LoopOptions<S>, run: (ctx: this, state: S) => Promise<R>): Promise<BreakValue<R>>;
  /** Runs `run` and returns its error as a value. Cancellation and divergence are still thrown. */
  try<T>(name: string, run: (ctx: this) => Promise<T>): Promise<{ ok: true; value: T } | { ok: false; error: Error }>;
  /** Waits until the predicate is truthy and returns its value, or undefined on timeout. */
  condition<T>(predicate: () => T | undefined | null | false | 0 | ""): Promise<T>;
  condition<T>(predicate: () => T | undefined | null | false | 0 | "", timeout: Duration): Promise<T | undefined>;
  /** Creates a write-once cell, with which units of this run pass a value to each other. */
  ivar<T>(): IVar<T>;
  /** Runs `fn` to its end even if the run is canceled: for cleanup. */
  shield<T>(fn: (ctx: this) => Promise<T>): Promise<T>;

  /** Lets other runnable units run first. Leaves no record. */
  yield(): Promise<void>;

  /** Whether this unit takes the new code path of the patch. Runs that passed this place before the patch keep the old path. */
  patched(id: string): boolean;
  /** Replaces `patched(id)` once no run needs the old path: accepts histories with and without the patch. */
  deprecatePatch(id: string): void;
  /** Marks where an operation was removed from the code, so that runs which recorded it can still replay. */
  removed(name: string, kind: OperationKind): void;
  /** Discards the rollbacks of all steps completed so far: a later failure does not undo them. */
  rollbackCheckpoint(name: string): void;
  /** Changes the attributes by which runs are found. `null` removes an attribute. */
  setAttributes(attributes: Record<string, string | number | boolean | null>): void;
  /** The number of records in the history, for deciding when to continue as new. */
  historyLength(): number;
}
/** The context of a branch of `parallel`, `join` or `race`. */
export interface BranchContext<M extends Messages = Messages> extends UnitContext<M> {}
/** The context of a synchronous handler: its `receive` dispatches the next message only after it has ended. */
export interface HandlerContext<M extends Messages = Messages> extends UnitContext<M> {}
/** The context of a function given to `Receive.async`, which runs concurrently with its `receive`. */
export interface AsyncHandlerContext<S, M extends Messages = Messages> extends UnitContext<M> {
  /** Changes the state of the receive atomically and returns the result. `fn` is synchronous and must not use ctx. */
  updateState<R>(fn: (state: S) => readonly [result: R, state: S]): Promise<R>;
}
/** The context of the workflow function itself. */
// biome-ignore lint/suspicious/noExplicitAny: inference helper; a context of every input type is assignable to the default
export interface WorkflowContext<M extends Messages = Messages, I = any> extends UnitContext<M> {
  /** Dispatches messages to handlers until one of them stops it or the timeout fires. One receive is open at a time. */
  receive<St>(state: St, handlers: ReceiveHandlers<St, M>): Promise<{ state: St; timedOut: boolean }>;
  /** Ends this execution and starts the next one with an empty history. It must be returned: `return ctx.continueAsNew(input)`. */
  continueAsNew(input: I, options?: { version?: string }): ContinueAsNew;
}

/** A write-once cell, made by `ctx.ivar()`. */
export interface IVar<T> {
  /** Sets the value. A second call throws. */
  put(value: T): void;
  /** Waits for the value. */
  wait(): Promise<T>;
  /** The value, or undefined if it is not set yet. */
  tryRead(): T | undefined;
  readonly filled: boolean;
}
/** The result of `ctx.continueAsNew`, which the workflow must return. */
export interface ContinueAsNew {
  readonly continueAsNew: unknown;
}

export interface Logger {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}
