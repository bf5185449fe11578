// The contexts of workflow code: what a root, a branch, a handler and an async handler have besides the calls of every unit.
// Owns: interfaces only. The executor implements them, and throws at run time for calls that bypass the types.
// Invariants: N (the types express its table: only the root has `receive`, only async handlers have `updateState`).

import type { Duration, RetryPolicy, StoredRetryPolicy } from "../values/index.ts";
import type { Messages } from "./messages.ts";
import type { ReceiveHandlers } from "./receive.ts";
import type { UnitContext } from "./unitContext.ts";

/** What a step function knows about the attempt that it runs in. */
export interface StepInfo {
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The same for every attempt: pass it to the service that you call. */
  readonly idempotencyKey: string;
  /** Aborts on cancellation, timeout, lost claim and shutdown. */
  readonly signal: AbortSignal;
}
/**
 * Options of `ctx.step`.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) =>
 *   ctx.step("charge", () => "receipt-1", {
 *     timeout: "30s",
 *     retry: { maxAttempts: 5, initialInterval: "2s" },
 *     rollback: (receipt) => console.warn(`refund ${receipt}`),
 *   }),
 * );
 * const engine = await testEngine({ workflows: [order] });
 * console.log(await (await engine.start(order)).result()); // "receipt-1"
 * await engine.close();
 * ```
 */
export interface StepOptions<T> {
  /**
   * How often and when failed attempts are repeated.
   * @defaultValue 10 attempts with exponential backoff from one second
   */
  retry?: RetryPolicy;
  /**
   * Longest duration of one attempt. Then its `signal` aborts, and it counts as failed with a `StepTimeoutError`.
   * @defaultValue no limit
   */
  timeout?: Duration;
  /**
   * Undoes the step if the run rolls back. It is a durable step too, with the retry policy of its step.
   * @defaultValue the step is not undone
   */
  rollback?: (output: T, info: StepInfo) => Promise<void> | void;
  /**
   * On Temporal: faster, but may run again though it completed. Elsewhere it has no effect.
   * @defaultValue `false`
   */
  local?: boolean;
}
/**
 * Options of `ctx.child` and `ctx.startChild`.
 * @example
 * ```ts
 * const ship = workflow("ship", async (_, item: string) => `shipped ${item}`);
 * const order = workflow("order", (ctx) => ctx.child(ship, "book", { id: "parcel-1", parentClose: "abandon" }));
 * const engine = await testEngine({ workflows: [order, ship] });
 * await (await engine.start(order)).result();
 * console.log((await engine.run("parcel-1").describe()).status); // "completed"
 * await engine.close();
 * ```
 */
export interface ChildOptions {
  /**
   * The run id of the child.
   * @defaultValue an id derived from that of the parent
   */
  id?: string;
  /**
   * The queue whose workers run the child.
   * @defaultValue the queue of the parent
   */
  queue?: string;
  /**
   * Whose work it is: limits and fairness of its queue depend on it.
   * @defaultValue the key of the parent
   */
  key?: string;
  /**
   * Runs with a higher priority are claimed first.
   * @defaultValue the priority of the parent
   */
  priority?: number;
  /**
   * The version of the workflow that runs it.
   * @defaultValue the version of the child's definition
   */
  version?: string;
  /**
   * The child fails with a `DeadlineExceededError` at this time, or this long after its start.
   * @defaultValue the deadline of its definition
   */
  deadline?: Duration | Date;
  /**
   * Retry of the child run as a whole.
   * @defaultValue the policy of its definition
   */
  retry?: StoredRetryPolicy;
  /**
   * What happens to the open child when its parent closes.
   * @defaultValue `"cancel"`
   */
  parentClose?: "cancel" | "abandon" | "terminate";
  /**
   * Searchable values, by name. `list` and `count` filter by them.
   * @defaultValue none
   */
  attributes?: Record<string, string | number | boolean>;
  /**
   * What to do if a run with that id exists. "reject": the call fails. "restart-if-closed": a closed run gets its next execution, as a
   * child of this run; the call fails if that run is open.
   * @defaultValue `"reject"`
   */
  onConflict?: "reject" | "restart-if-closed";
}
/** A child run that `ctx.startChild` has started. */
export interface ChildHandle<O> {
  /** The run id of the child. */
  readonly id: string;
  /**
   * Waits for the child to end and returns its output.
   * @throws `ChildFailedError` if it did not complete; see `cause`.
   */
  result(): Promise<O>;
  /**
   * Sends a signal to the child. Resolves once it is durable.
   * @throws `RunClosedError` if the child has ended; on Temporal `RunNotFoundError`.
   */
  signal(name: string, payload?: unknown): Promise<void>;
  /**
   * Requests the cancellation of the child. Resolves once the request is durable; `result` then throws a `ChildFailedError`.
   * @throws `RunClosedError` if the child ended before and was not canceled; on Temporal `RunNotFoundError`.
   */
  cancel(): Promise<void>;
}

/** The context of a branch of `parallel`, `join` or `race`. */
export interface BranchContext<M extends Messages = Messages> extends UnitContext<M> {}
/** The context of a synchronous handler: its `receive` dispatches the next message only after it has ended. */
export interface HandlerContext<M extends Messages = Messages> extends UnitContext<M> {}
/** The context of a function given to `Receive.async`, which runs concurrently with its `receive`. */
export interface AsyncHandlerContext<S, M extends Messages = Messages> extends UnitContext<M> {
  /**
   * Changes the state of the receive atomically and returns the result. `fn` is synchronous and must not use `ctx`; it waits while a
   * synchronous handler holds the state.
   * If `fn` calls something on `ctx`, or returns something other than a pair, the run is blocked.
   * @throws the error that `fn` throws; the state is unchanged then.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const counter = workflow({ name: "counter", signals: { add: signal<number>() } }, async (ctx) => {
   *   const { state } = await ctx.receive(0, {
   *     signals: {
   *       add: (amount, total) => {
   *         const later = async (handler: AsyncHandlerContext<number>) => {
   *           await handler.step("audit", () => amount);
   *           await handler.updateState((sum) => [undefined, sum + amount]);
   *         };
   *         return Receive.async(later, total);
   *       },
   *     },
   *     timeout: "1h",
   *   });
   *   return state;
   * });
   * const engine = await testEngine({ workflows: [counter] });
   * const run = await engine.start(counter, undefined, { signals: [{ name: "add", payload: 2 }, { name: "add", payload: 3 }] });
   * console.log(await run.result()); // 5
   * await engine.close();
   * ```
   */
  updateState<R>(fn: (state: S) => readonly [result: R, state: S]): Promise<R>;
}
/** The context of the workflow function itself: besides the calls of every unit it may `receive` messages and continue as new. */
// biome-ignore lint/suspicious/noExplicitAny: inference helper; a context of every input type is assignable to the default
export interface WorkflowContext<M extends Messages = Messages, I = any> extends UnitContext<M> {
  /**
   * Dispatches messages to handlers until one of them stops it or the timeout fires, and returns the last `state` and whether it
   * `timedOut`. Signals that were buffered before are dispatched first. One receive is open at a time. If a handler returns something other
   * than a result of `Receive`, the run is blocked.
   * @throws the error of a synchronous signal handler that failed, once the async handlers have ended.
   * @throws `CanceledError` if the run is canceled.
   * @example
   * ```ts
   * const cart = workflow({ name: "cart", updates: { add: update<string, number>(), checkout: update<void, string>() } }, async (ctx) => {
   *   const items: readonly string[] = [];
   *   const { state } = await ctx.receive(items, {
   *     updates: {
   *       add: (item, state) => Receive.reply(state.length + 1, [...state, item]),
   *       checkout: (_, state) => Receive.stop("thank you", state),
   *     },
   *   });
   *   return state.length;
   * });
   * const engine = await testEngine({ workflows: [cart] });
   * const run = await engine.start(cart);
   * console.log(await run.update("add", "book")); // 1
   * await run.update("checkout");
   * console.log(await run.result()); // 1
   * await engine.close();
   * ```
   */
  receive<St>(state: St, handlers: ReceiveHandlers<St, M>): Promise<{ state: St; timedOut: boolean }>;
  /**
   * Ends this execution and starts the next one under the same id, with an empty history. Unconsumed signals, attributes and the deadline
   * move on; `version` is that of the next execution, by default the same. It must be returned: otherwise the run is blocked.
   * @example
   * ```ts
   * const poll = workflow<number, string>("poll", async (ctx, round) => {
   *   await ctx.sleep("1h");
   *   return round < 3 ? ctx.continueAsNew(round + 1) : "done";
   * });
   * const engine = await testEngine({ workflows: [poll] });
   * const run = await engine.start(poll, 1);
   * console.log(await run.result()); // "done"
   * console.log((await run.describe()).execution); // 3
   * await engine.close();
   * ```
   */
  continueAsNew(input: I, options?: { version?: string }): ContinueAsNew;
}

/** A write-once cell, made by `ctx.ivar()`. */
export interface IVar<T> {
  /**
   * Sets the value.
   * @throws `IllegalCallError` if it is already set.
   */
  put(value: T): void;
  /**
   * Waits for the value.
   * @throws `CanceledError` if the unit that waits is canceled.
   */
  wait(): Promise<T>;
  /** The value, or undefined if it is not set yet. */
  tryRead(): T | undefined;
  /** Whether the value is set. */
  readonly filled: boolean;
}
/** The result of `ctx.continueAsNew`, which the workflow must return. */
export interface ContinueAsNew {
  /** Marks the value. It has no meaning outside the engine. */
  readonly continueAsNew: unknown;
}

/** Where an engine writes its messages. `fields` are structured details, such as the id of the run. */
export interface Logger {
  /** Logs details for finding errors. */
  debug(message: string, fields?: object): void;
  /** Logs what happens in normal operation. */
  info(message: string, fields?: object): void;
  /** Logs what may need attention. */
  warn(message: string, fields?: object): void;
  /** Logs what needs attention. */
  error(message: string, fields?: object): void;
}
