// The public types of runs: starting, finding, and what a handle can do.
// Owns: types only.
// Invariants: names and shapes are fixed.

import type {
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
import type { Reason } from "./operatingTypes.ts";

/**
 * Options of a start.
 * @example
 * ```ts
 * const order = workflow("order", async () => "done");
 * const engine = await testEngine({ workflows: [order] });
 * const again = { id: "order-7", onConflict: "use-existing", attributes: { customer: "ada" } } as const;
 * console.log((await engine.start(order, undefined, again)).id); // "order-7"
 * await engine.close();
 * ```
 */
export interface StartOptions<S extends Signals = Signals> {
  /**
   * Unique among all runs of the namespace.
   * @defaultValue a time-ordered unique id
   */
  id?: string;
  /**
   * What to do if a run with that id exists. If it belongs to another workflow, the start throws `RunAlreadyExistsError` in any case.
   * "reject": throws `RunAlreadyExistsError`. "use-existing": returns that run, open or closed; `signals` are sent to it, and if it is
   * closed the start throws `RunClosedError` instead.
   * "restart-if-closed": a closed run gets its next execution; an open run is used as with "use-existing". "replace", "debounce": they need
   * an `id`; a run that no worker has claimed takes this start, input and options; one that has begun gets it as its next execution, and
   * "replace" also cancels it; a closed one gets its next execution. With "debounce" each start restarts the `delay`.
   * @defaultValue `"reject"`
   */
  onConflict?: "reject" | "use-existing" | "restart-if-closed" | "replace" | "debounce";
  /**
   * A repeated start with the same key returns the run of the first one. Keys are separate for each workflow and last as long as the run.
   * @defaultValue none
   */
  idempotencyKey?: string;
  /**
   * The queue whose workers run it.
   * @defaultValue `"default"`
   */
  queue?: string;
  /**
   * Whose work it is: limits and fairness of the queue depend on it.
   * @defaultValue none
   */
  key?: string;
  /**
   * The run begins once the run with this id has closed; at once if it has, or if there is none.
   * @defaultValue none
   */
  after?: string;
  /**
   * Runs with a higher priority are claimed first. From -1,000,000 to 1,000,000.
   * @defaultValue `0`
   */
  priority?: number;
  /**
   * The run begins after this time.
   * @defaultValue at once
   */
  delay?: Duration;
  /**
   * Only with "debounce": the longest that later starts may put this one off, from the first one.
   * @defaultValue no limit
   */
  maxDelay?: Duration;
  /**
   * The run begins at this time. Not together with `delay`.
   * @defaultValue at once
   */
  startAt?: Date;
  /**
   * The run fails with `DeadlineExceededError` at this time, or this long after the call.
   * @defaultValue the deadline of the workflow
   */
  deadline?: Duration | Date;
  /**
   * The version of the workflow that runs it.
   * @defaultValue the version of the definition
   */
  version?: string;
  /**
   * Retries of the run as a whole.
   * @defaultValue the policy of the workflow
   */
  retry?: StoredRetryPolicy;
  /**
   * Delivered in the first turn, or to the existing run with "use-existing".
   * @defaultValue none
   */
  signals?: readonly StartSignal<S>[];
  /**
   * Searchable values, by name. `list` and `count` filter by them.
   * @defaultValue none
   */
  attributes?: Record<string, string | number | boolean>;
  /**
   * The caller's open transaction on the same database (PostgreSQL): the run starts if and only if it commits.
   * @defaultValue the start commits by itself
   */
  tx?: unknown;
}
/** Options of `run.fork`. */
export interface ForkOptions {
  /** The location of an operation, as `run.operations()` shows it: "charge", "checkout/~3/charge#1". */
  before: string;
  /**
   * The id of the new run.
   * @defaultValue a time-ordered unique id
   */
  id?: string;
  /**
   * The version of the workflow that the new run has.
   * @defaultValue the version of this run
   */
  version?: string;
  /**
   * Signals that this run got after that point: "keep" sends them to the new run too, in order.
   * @defaultValue `"keep"`
   */
  signals?: "keep" | "drop";
}
/** Options of `run.signal`. */
export interface SendOptions {
  /**
   * A repeated send with the same key is delivered once.
   * @defaultValue every send is delivered
   */
  idempotencyKey?: string;
  /**
   * The caller's open transaction on the same database (PostgreSQL): the message is sent if and only if it commits.
   * @defaultValue the send commits by itself
   */
  tx?: unknown;
}
/** Options of `run.update`. */
export interface UpdateOptions {
  /**
   * A repeated update with the same key is delivered once, and returns the outcome of the first.
   * @defaultValue every update is delivered
   */
  idempotencyKey?: string;
  /**
   * How long to wait for the outcome. The update continues after that.
   * @defaultValue no limit
   */
  timeout?: Duration;
  /**
   * Offer the update again until a `receive` accepts it, for at most this long.
   * @defaultValue it is offered once
   */
  acceptWithin?: Duration;
}
/** The value of an attribute. */
export type Scalar = string | number | boolean;
/**
 * What the value of an attribute must be: equal to a value, by type ("1" is not 1), or to one of a list; a text that begins with `prefix`;
 * or within a range of numbers or texts. Texts are compared by code point.
 */
export type AttributeTest =
  | Scalar
  | {
      /** Equal to one of these values, at most 1,000. */
      in: readonly Scalar[];
    }
  | {
      /** A text that begins with this one. */
      prefix: string;
    }
  | {
      /** Greater than this. */
      gt?: string | number;
      /** This or greater. */
      gte?: string | number;
      /** Less than this. */
      lt?: string | number;
      /** This or less. */
      lte?: string | number;
    };
/** Runs match if they meet everything that is set. */
export interface RunFilter {
  /** In this status, or in one of these. */
  status?: RunStatus | readonly RunStatus[];
  /** Of this workflow, or of one of these. */
  workflow?: string | readonly string[];
  /** Started with this version. */
  version?: string;
  /** In this queue. */
  queue?: string;
  /** The `key` that they were started with. */
  key?: string;
  /** The schedule that started them. */
  schedule?: string;
  /** Children of this run. */
  parentId?: string;
  /** Runs whose id begins with this text. */
  idPrefix?: string;
  /** Runs that have all of these attributes, with such values. */
  attributes?: Record<string, AttributeTest>;
  /** Ended at this time or later. */
  finishedSince?: Date;
  /** Ended before this time. */
  finishedUntil?: Date;
  /** Created at this time or later. */
  since?: Date;
  /** Created before this time. */
  until?: Date;
  /**
   * For `list`: runs per page, 1 to 1,000. For `count`: the most that are counted of each status, 1 to 10,000.
   * @defaultValue `100` for `list`, `10_000` for `count`
   */
  limit?: number;
  /** For `list`: the `cursor` of the previous page. */
  cursor?: string;
}
/** Runs by status. A status of more than 10,000 runs, or than the `limit` of the filter, has that number, and is named in `capped`. */
export interface RunCounts extends Record<RunStatus, number> {
  /** The statuses whose number means "at least". */
  readonly capped: readonly RunStatus[];
}
/**
 * A handle on a run. Making it costs nothing; each call asks the store.
 * @example
 * ```ts
 * const order = workflow("order", (ctx, id: string) => ctx.step("charge", () => `charged ${id}`));
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order, "o-1");
 * console.log(await run.result()); // "charged o-1"
 * console.log((await run.describe()).status); // "completed"
 * await engine.close();
 * ```
 */
export interface Run<O, S extends Signals = Signals, U extends Updates = Updates, Q extends Queries = Queries> {
  /** The id of the run. */
  readonly id: string;
  /**
   * Waits until the run has ended and returns its output. Waits for at most `timeout` (without it: no limit), and until `signal` aborts;
   * the run goes on either way.
   * @throws `RunFailedError` if it failed; `cause` is the error.
   * @throws `CanceledError` if it was canceled.
   * @throws `RunTerminatedError` if it was terminated.
   * @throws `RunBlockedError` while its code can't advance it.
   * @throws `RunNotFoundError` if there is no such run.
   * @throws `HoldfastError` with the code HF_WAIT_TIMEOUT after `timeout`.
   * @throws the reason of `signal` if it aborts.
   * @example
   * ```ts
   * const order = workflow("order", (ctx) => ctx.sleep("1d"));
   * const engine = await testEngine({ workflows: [order], skipTime: false });
   * const run = await engine.start(order);
   * const error = await run.result({ timeout: "10ms" }).catch((error) => error);
   * console.log(error.code); // "HF_WAIT_TIMEOUT"
   * await engine.close();
   * ```
   */
  result(options?: { timeout?: Duration; signal?: AbortSignal }): Promise<O>;
  /**
   * Sends a signal. Resolves once it is durable: an open run never loses it.
   * @throws `RunNotFoundError` or `RunClosedError` if it can't be delivered.
   * @throws `InvalidInputError` if the declared schema refuses the payload.
   * @throws `HoldfastError` with the code HF_UNKNOWN_MESSAGE if the workflow declares signals, but none of this name.
   * @example
   * ```ts
   * const approval = workflow({ name: "approval", signals: { approve: signal<string>() } }, (ctx) => ctx.waitForSignal("approve"));
   * const engine = await testEngine({ workflows: [approval] });
   * const run = await engine.start(approval);
   * await run.signal("approve", "Ada", { idempotencyKey: "click-1" });
   * console.log(await run.result()); // "Ada"
   * await engine.close();
   * ```
   */
  signal<K extends keyof S & string>(name: K, ...payload: InputArgs<SignalInput<S[K]>, SendOptions>): Promise<void>;
  /**
   * Sends an update and waits for its reply.
   * @throws `UpdateRejectedError` if no open `receive` accepts it, or its validator rejects it.
   * @throws `UpdateFailedError` if its handler failed.
   * @throws `ReceiveClosedError` if the receive closed before handling it.
   * @throws `RunNotFoundError`, `RunClosedError` or `RunBlockedError` if it can't be delivered.
   * @throws `InvalidInputError` if the declared schema refuses the input.
   * @throws `HoldfastError` with the code HF_UNKNOWN_MESSAGE if the workflow declares updates, but none of this name.
   * @throws `HoldfastError` with the code HF_WAIT_TIMEOUT after `timeout`.
   * @example
   * ```ts
   * const account = workflow({ name: "account", updates: { deposit: update<number, number>() } }, async (ctx) => {
   *   const deposit = (amount: number, balance: number) => Receive.reply(balance + amount, balance + amount);
   *   await ctx.receive(100, { updates: { deposit }, timeout: "1d" });
   * });
   * const engine = await testEngine({ workflows: [account] });
   * const run = await engine.start(account);
   * console.log(await run.update("deposit", 5, { acceptWithin: "10s" })); // 105
   * await engine.close();
   * ```
   */
  update<K extends keyof U & string>(name: K, ...input: InputArgs<UpdateSent<U[K]>, UpdateOptions>): Promise<UpdateOutput<U[K]>>;
  /**
   * Asks for something that the workflow derives from its published state. Needs no worker, and works for closed runs too.
   * @throws `QueryFailedError` if the workflow declares no such query, if it throws or its result can't be encoded, or if this process does
   * not know the workflow.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const order = workflow({ name: "order", queries: { phase: (state: { phase: string }) => state.phase } }, async (ctx) => {
   *   ctx.publishState({ phase: "paid" });
   * });
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * console.log(await run.query("phase")); // "paid"
   * await engine.close();
   * ```
   */
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; whatever the state is, the arguments follow it
  query<K extends keyof Q & string>(name: K, ...args: Parameters<Q[K]> extends [any?, ...infer A] ? A : []): Promise<ReturnType<Q[K]>>;
  /**
   * The last published state; undefined if there is none.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => ctx.publishState({ phase: "paid" }));
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * console.log(await run.state<{ phase: string }>()); // { phase: "paid" }
   * await engine.close();
   * ```
   */
  state<T = unknown>(): Promise<T | undefined>;
  /**
   * Requests cancellation. Resolves once the request is durable; the run then ends "canceled" after its cleanup. A run that is already
   * canceled stays canceled: no error.
   * @throws `RunNotFoundError` if there is no such run, `RunClosedError` if it ended otherwise.
   * @example
   * ```ts
   * const wait = workflow("wait", (ctx) => ctx.sleep("30d"));
   * const engine = await testEngine({ workflows: [wait], skipTime: false });
   * const run = await engine.start(wait);
   * await run.cancel("no longer needed");
   * await run.result().catch(() => {});
   * console.log((await run.describe()).status); // "canceled"
   * await engine.close();
   * ```
   */
  cancel(reason?: string): Promise<void>;
  /**
   * Ends the run at once, without running workflow code or rollbacks.
   * @throws `RunNotFoundError` if there is no such run, `RunClosedError` if it has already ended, also if it was terminated.
   * @example
   * ```ts
   * const wait = workflow("wait", (ctx) => ctx.sleep("30d"));
   * const engine = await testEngine({ workflows: [wait], skipTime: false });
   * const run = await engine.start(wait);
   * await run.terminate("wrong customer");
   * console.log((await run.describe()).status); // "terminated"
   * await engine.close();
   * ```
   */
  terminate(reason?: string): Promise<void>;
  /**
   * Continues a failed or blocked run from where it stopped: completed steps do not run again. Wakes an open run that waits at an operation
   * that was removed from the code. A run that has not begun stays as it is.
   * @throws `RunNotFoundError` if there is no such run.
   * @throws `HoldfastError` with the code HF_NOT_RESUMABLE if it has ended and did not fail, or if its rollbacks have run.
   * @example
   * ```ts
   * let isUp = false;
   * const order = workflow("order", (ctx) =>
   *   ctx.step("charge", () => {
   *     if (!isUp) throw new FatalError("the bank is down");
   *     return "charged";
   *   }),
   * );
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result().catch(() => {});
   * isUp = true;
   * await run.resume();
   * console.log(await run.result()); // "charged"
   * await engine.close();
   * ```
   */
  resume(): Promise<void>;
  /**
   * Starts a new run that shares the history of this one up to an operation: the turns before the one that emitted it. What those turns
   * settled is kept, everything else is done again. This run is not changed.
   * @throws `InvalidInputError` if there is no operation at `before`, if the history before it was trimmed, or if a child is open there
   * whose id the code gives it.
   * @throws `RunAlreadyExistsError` if the id is taken.
   * @throws `RunNotFoundError` if there is no such run.
   * @throws `UnsupportedError` on Temporal.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   await ctx.step("charge", () => "charged");
   *   return ctx.step("ship", () => "shipped");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * const fork = await run.fork({ before: "ship", id: "again" }); // does not charge again
   * console.log(await fork.result()); // "shipped"
   * await engine.close();
   * ```
   */
  fork(options: ForkOptions): Promise<Run<O, S, U, Q>>;
  /**
   * Removes a closed run with all that belongs to it: its id and its idempotency keys are free then.
   * @throws `RunOpenError` if it is open.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const order = workflow("order", async () => "done");
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * await run.delete();
   * console.log((await engine.list()).runs); // []
   * await engine.close();
   * ```
   */
  delete(): Promise<void>;
  /**
   * What is known about the run: status, times, input, output, what it waits for.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * const run = await engine.start("order", { item: "book" }, { key: "ada" });
   * const { status, input, key } = await run.describe();
   * console.log({ status, input, key }); // { status: "pending", input: { item: "book" }, key: "ada" }
   * await engine.close();
   * ```
   */
  describe(): Promise<RunInfo>;
  /**
   * Why it does not advance: one reason for each obstacle, the nearest first.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * const run = await engine.start("order");
   * console.log((await run.why()).map((reason) => reason.kind)); // ["no-worker"]
   * await engine.close();
   * ```
   */
  why(): Promise<readonly Reason[]>;
  /**
   * Every operation with its attempts, in the order of the calls.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   await ctx.step("charge", (info) => (info.attempt < 2 ? Promise.reject(new Error("no network")) : "charged"));
   *   await ctx.sleep("grace", "1h");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * const operations = await run.operations();
   * console.log(operations.map((one) => `${one.kind} ${one.name}: ${one.attempts.length}`)); // ["step charge: 2", "sleep grace: 0"]
   * await engine.close();
   * ```
   */
  operations(): Promise<OperationInfo[]>;
  /**
   * The portable history of the newest execution, the input of `replay`.
   * @throws `RunNotFoundError` if there is no such run.
   * @example
   * ```ts
   * const order = workflow("order", (ctx) => ctx.step("charge", () => "charged"));
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * const text = JSON.stringify(await run.history());
   * await replay(order, JSON.parse(text));
   * console.log(text.includes("charge")); // true
   * await engine.close();
   * ```
   */
  history(): Promise<History>;
}
