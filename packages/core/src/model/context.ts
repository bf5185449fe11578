// Job: what workflow code may do, unit by unit: the contexts handed to a root, a branch, a handler, an async handler.
// Owns: interfaces only; the executor implements them, and refuses at run time what a caller gets past the types.
// Invariants: N (the table of who may do what is these types: `receive` the root's, `updateState` an async handler's), C1 to C3, L1, P7.

import type { OperationKind } from "../protocol/index.ts";
import type { Duration, RetryPolicy, StoredRetryPolicy } from "../values/index.ts";
import type { Activity, ActivityOptions } from "./activity.ts";
import type { BreakValue, LoopOptions, LoopResult } from "./loop.ts";
import type { InputArgs, Messages, SignalPayload } from "./messages.ts";
import type { ReceiveHandlers } from "./receive.ts";
import type { Workflow } from "./workflow.ts";

export interface StepInfo {
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
}
export interface StepOptions<T> {
  retry?: RetryPolicy;
  /** Of one attempt. Default: none. */
  timeout?: Duration;
  /** Undoes the step when the run rolls back. */
  rollback?: (output: T, info: StepInfo) => Promise<void> | void;
}
export interface ChildOptions {
  id?: string;
  queue?: string;
  /** Default: the parent's. */
  priority?: number;
  version?: string;
  deadline?: Duration | Date;
  retry?: StoredRetryPolicy;
  parentClose?: "cancel" | "abandon" | "terminate";
  attributes?: Record<string, string | number | boolean>;
  /**
   * When a run of that id exists. "restart-if-closed": its next execution, now a child of this run; one that is open is an error.
   * Default "reject".
   */
  onConflict?: "reject" | "restart-if-closed";
}
export interface ChildHandle<O> {
  readonly id: string;
  result(): Promise<O>;
  signal(name: string, payload?: unknown): Promise<void>;
  cancel(): Promise<void>;
}

/** What every unit of a workflow may do. */
export interface UnitContext<M extends Messages = Messages> {
  readonly run: {
    readonly id: string;
    readonly workflow: string;
    readonly version: string | undefined;
    readonly attempt: number;
    readonly startedAt: Date;
    readonly parentId: string | undefined;
  };
  readonly version: string | undefined;
  /** Aborts when this unit is cancelled. */
  readonly signal: AbortSignal;
  readonly log: Logger;

  /** Work with effects: run here, recorded, never run again once its outcome is durable. */
  step<T>(name: string, fn: (info: StepInfo) => Promise<T> | T, options?: StepOptions<T>): Promise<T>;
  /** A step whose writes through `tx` commit together with its record: exactly once. */
  // biome-ignore lint/suspicious/noExplicitAny: the transaction's type is the store's, which the core can't name; users give it
  transaction<T, Tx = any>(
    name: string,
    fn: (tx: Tx, info: StepInfo) => Promise<T> | T,
    options?: Omit<StepOptions<T>, "timeout">,
  ): Promise<T>;
  activity<A, R>(activity: Activity<A, R>, ...args: InputArgs<A, ActivityOptions>): Promise<R>;
  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; a child may declare whatever messages it likes
  child<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<O>;
  startChild<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<ChildHandle<O>>;
  // biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
  signalRun(runId: string, name: string, payload?: unknown): Promise<void>;
  cancelRun(runId: string): Promise<void>;

  sleep(duration: Duration): Promise<void>;
  sleep(name: string, duration: Duration): Promise<void>;
  sleepUntil(time: Date | number): Promise<void>;
  sleepUntil(name: string, time: Date | number): Promise<void>;

  waitForSignal<K extends keyof M["signals"] & string>(name: K): Promise<SignalPayload<M["signals"][K]>>;
  waitForSignal<K extends keyof M["signals"] & string>(
    name: K,
    options: { timeout: Duration },
  ): Promise<{ timedOut: true; payload?: undefined } | { timedOut: false; payload: SignalPayload<M["signals"][K]> }>;
  listen<K extends keyof M["signals"] & string>(
    names: readonly K[],
    options?: { count?: number; timeout?: Duration },
  ): Promise<Array<{ name: K; payload: SignalPayload<M["signals"][K]> }>>;

  sideEffect<T>(fn: () => T): Promise<T>;
  publishState(state: unknown): void;
  now(): Date;
  random(): number;
  uuid(): string;

  parallel<T extends readonly ((ctx: BranchContext<M>) => Promise<unknown>)[]>(
    branches: readonly [...T],
  ): Promise<{ [I in keyof T]: PromiseSettledResult<Awaited<ReturnType<T[I]>>> }>;
  join<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T]: Awaited<ReturnType<T[K]>> }>;
  race<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T & string]: { winner: K; value: Awaited<ReturnType<T[K]>> } }[keyof T & string]>;
  loop<R extends LoopResult<void, unknown> | void>(name: string, run: (ctx: this) => Promise<R>): Promise<BreakValue<R>>;
  loop<S, R extends LoopResult<S, unknown>>(options: LoopOptions<S>, run: (ctx: this, state: S) => Promise<R>): Promise<BreakValue<R>>;
  /** Errors as values; control flow (cancellation, divergence) still passes through. */
  try<T>(name: string, run: (ctx: this) => Promise<T>): Promise<{ ok: true; value: T } | { ok: false; error: Error }>;
  /** Pauses until the predicate is truthy; yields its value, or undefined on timeout. */
  condition<T>(predicate: () => T | undefined | null | false | 0 | ""): Promise<T>;
  condition<T>(predicate: () => T | undefined | null | false | 0 | "", timeout: Duration): Promise<T | undefined>;
  ivar<T>(): IVar<T>;
  /** Runs `fn` to its end even when the run is cancelled. */
  shield<T>(fn: (ctx: this) => Promise<T>): Promise<T>;

  /** Lets other runnable units go first. */
  yield(): Promise<void>;

  patched(id: string): boolean;
  deprecatePatch(id: string): void;
  removed(name: string, kind: OperationKind): void;
  rollbackCheckpoint(name: string): void;
  setAttributes(attributes: Record<string, string | number | boolean | null>): void;
  historyLength(): number;
}
export interface BranchContext<M extends Messages = Messages> extends UnitContext<M> {}
/** A handler of a `receive`, while the receive waits for it. */
export interface HandlerContext<M extends Messages = Messages> extends UnitContext<M> {}
/** A handler that runs beside its `receive`. */
export interface AsyncHandlerContext<S, M extends Messages = Messages> extends UnitContext<M> {
  updateState<R>(fn: (state: S) => readonly [result: R, state: S]): Promise<R>;
}
/** The root of a workflow. */
// biome-ignore lint/suspicious/noExplicitAny: inference helper; a context of every input type is assignable to the default
export interface WorkflowContext<M extends Messages = Messages, I = any> extends UnitContext<M> {
  receive<St>(state: St, handlers: ReceiveHandlers<St, M>): Promise<{ state: St; timedOut: boolean }>;
  /** To be returned: `return ctx.continueAsNew(input)`. */
  continueAsNew(input: I, options?: { version?: string }): ContinueAsNew;
}

export interface IVar<T> {
  put(value: T): void;
  wait(): Promise<T>;
  tryRead(): T | undefined;
  readonly filled: boolean;
}
export interface ContinueAsNew {
  readonly continueAsNew: unknown;
}

export interface Logger {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}
