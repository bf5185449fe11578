// What every unit of a workflow may call: steps, activities, children, waits, and the values that replay repeats.
// Owns: one interface. The executor implements it.
// Invariants: P6 P7 (values are recorded or deterministic), M4 M5 (waits), V1 V3 (changed code).

import type { OperationKind } from "../protocol/index.ts";
import type { Duration } from "../values/index.ts";
import type { Activity, ActivityOptions } from "./activity.ts";
import type { ChildHandle, ChildOptions, Logger, StepInfo, StepOptions } from "./context.ts";
import type { InputArgs, Messages, SignalPayload } from "./messages.ts";
import type { Scopes } from "./scopes.ts";
import type { Workflow } from "./workflow.ts";

/** The calls that every unit of a workflow may make on its `ctx`. A unit must use the `ctx` that its own function was given. */
export interface UnitContext<M extends Messages = Messages> extends Scopes<M> {
  /**
   * Facts about this run. They never change while it executes.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => ctx.run.id);
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order, undefined, { id: "order-1" });
   * console.log(await run.result()); // "order-1"
   * await engine.close();
   * ```
   */
  readonly run: {
    /** The id of the run. */
    readonly id: string;
    /** The name of its workflow. */
    readonly workflow: string;
    /** The version that the run was started with. Undefined: it has none. */
    readonly version: string | undefined;
    /** The number of this attempt at the run as a whole, from 1. It grows with the workflow's `retry`, not with retries of steps. */
    readonly attempt: number;
    /** When the run was created. It is the same in all executions of the run. */
    readonly startedAt: Date;
    /** The run that started this one as a child. Undefined: it is not a child. */
    readonly parentId: string | undefined;
    /** The `key` that the run was started with: whose work it is. */
    readonly key: string | undefined;
    /** The nominal time of the tick, if a schedule started the run. */
    readonly tick: Date | undefined;
  };
  /**
   * The version of the workflow that the run was started with. Undefined: it has none.
   * @example
   * ```ts
   * const options = { name: "order", version: "2", serves: ["1"] };
   * const order = workflow(options, async (ctx) => (ctx.version === "1" ? "old path" : "new path"));
   * const engine = await testEngine({ workflows: [order] });
   * const old = await engine.start(order, undefined, { version: "1" });
   * console.log(await old.result()); // "old path"
   * await engine.close();
   * ```
   */
  readonly version: string | undefined;
  /** Aborts when this unit is canceled. Steps get their own signal in `info.signal`. */
  readonly signal: AbortSignal;
  /**
   * Logs with the id of the run and the unit. Silent during replay, so that a line appears once.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   ctx.log.info("charging", { order: ctx.run.id });
   *   return ctx.step("charge", () => "charged");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "charged"
   * await engine.close();
   * ```
   */
  readonly log: Logger;

  /**
   * Runs code with effects in this worker and records its result. It runs at least once until its outcome is durable, and never again after
   * that: pass `info.idempotencyKey` to the services that it calls.
   * @throws `StepFailedError` if all attempts failed or the error is not retryable; `cause` is the last error.
   * @throws `CanceledError` if the unit is canceled.
   * @throws `InvalidInputError` if an option is invalid.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx, amount: number) => {
   *   const receipt = await ctx.step("charge", (info) => ({ amount, key: info.idempotencyKey }), { retry: { maxAttempts: 3 } });
   *   return receipt.amount;
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order, 42)).result()); // 42
   * await engine.close();
   * ```
   */
  step<T>(name: string, fn: (info: StepInfo) => Promise<T> | T, options?: StepOptions<T>): Promise<T>;
  /**
   * A step whose writes through `tx` commit together with its record, so that they happen exactly once. On SQLite `fn` must be synchronous.
   * The type of `tx` depends on the store: for SQLite `SqliteTransaction` of `holdfast/store`, for PostgreSQL a client of `pg`; in memory
   * and on Temporal there is none, and on Temporal it runs like a step. Not on key-value hosts, where it blocks the run.
   * @throws `StepFailedError` if all attempts failed or the error is not retryable; `cause` is the last error. On SQLite it is an
   * `IllegalReturnError` if `fn` returns a promise.
   * @throws `CanceledError` if the unit is canceled.
   * @throws `InvalidInputError` if an option is invalid.
   * @example
   * ```ts
   * import type { SqliteTransaction } from "holdfast/store";
   *
   * const order = workflow("order", (ctx, amount: number) =>
   *   ctx.transaction("book", (tx: SqliteTransaction) => {
   *     tx.prepare("CREATE TABLE IF NOT EXISTS bookings (amount INTEGER)").run();
   *     tx.prepare("INSERT INTO bookings VALUES (?)").run(amount);
   *     return "booked";
   *   }),
   * );
   * const engine = await Holdfast.open("file:./app.db");
   * await engine.worker({ workflows: [order] });
   * console.log(await (await engine.start(order, 42)).result()); // "booked"
   * await engine.close();
   * ```
   */
  // biome-ignore lint/suspicious/noExplicitAny: the transaction's type is the store's, which the core can't name; users give it
  transaction<T, Tx = any>(
    name: string,
    fn: (tx: Tx, info: StepInfo) => Promise<T> | T,
    options?: Omit<StepOptions<T>, "timeout">,
  ): Promise<T>;
  /**
   * Runs an activity on a worker of its queue, which may be another process, and returns its result.
   * @throws `ActivityFailedError` if all attempts failed, a time limit was exceeded or the error is not retryable; see `cause`.
   * @throws `InvalidInputError` if an option is invalid.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const resize = activity("resize", async (width: number) => `${width}px`);
   * const upload = workflow("upload", (ctx, width: number) => ctx.activity(resize, width, { startToClose: "30s" }));
   * const engine = await testEngine({ workflows: [upload], activities: [resize] });
   * console.log(await (await engine.start(upload, 640)).result()); // "640px"
   * await engine.close();
   * ```
   */
  activity<A, R>(activity: Activity<A, R>, ...args: InputArgs<A, ActivityOptions>): Promise<R>;
  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; a child may declare whatever messages it likes
  /**
   * Starts a run of another workflow as a child and waits for its result.
   * @throws `ChildFailedError` if the child failed, was canceled or terminated; see `cause`.
   * @throws `ChildFailedError` with a `RunAlreadyExistsError` as `cause` if its id is taken; see `onConflict`.
   * @throws `InvalidInputError` if the input or an option is invalid.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const ship = workflow("ship", async (_, item: string) => `shipped ${item}`);
   * const order = workflow("order", (ctx, item: string) => ctx.child(ship, item));
   * const engine = await testEngine({ workflows: [order, ship] });
   * console.log(await (await engine.start(order, "book")).result()); // "shipped book"
   * await engine.close();
   * ```
   */
  child<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<O>;
  /**
   * Starts a child and returns once it has started, without waiting for its result. When this run closes, `parentClose` decides about an
   * open child.
   * @throws `ChildFailedError` with a `RunAlreadyExistsError` as `cause` if its id is taken; see `onConflict`.
   * @throws `InvalidInputError` if the input or an option is invalid.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const ship = workflow("ship", async (_, item: string) => `shipped ${item}`);
   * const order = workflow("order", async (ctx, items: string[]) => {
   *   const parcels = [];
   *   for (const item of items) parcels.push(await ctx.startChild(ship, item));
   *   return Promise.all(parcels.map((parcel) => parcel.result()));
   * });
   * const engine = await testEngine({ workflows: [order, ship] });
   * console.log(await (await engine.start(order, ["book", "pen"])).result()); // ["shipped book", "shipped pen"]
   * await engine.close();
   * ```
   */
  startChild<In, O>(workflow: Workflow<any, O, any, any, any, In>, ...args: InputArgs<NoInfer<In>, ChildOptions>): Promise<ChildHandle<O>>;
  // biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers
  /**
   * Sends a signal to another run. Resolves once it is durable.
   * @throws `RunNotFoundError` if there is no such run.
   * @throws `RunClosedError` if it has ended; on Temporal that is a `RunNotFoundError` too.
   * @throws `UnserializableValueError` or `LimitExceededError` if the payload can't be stored.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const approval = workflow({ name: "approval", signals: { approve: signal<string>() } }, (ctx) => ctx.waitForSignal("approve"));
   * const manager = workflow("manager", (ctx) => ctx.signalRun("approval-1", "approve", "Ada"));
   * const engine = await testEngine({ workflows: [approval, manager] });
   * const run = await engine.start(approval, undefined, { id: "approval-1" });
   * await engine.start(manager);
   * console.log(await run.result()); // "Ada"
   * await engine.close();
   * ```
   */
  signalRun(runId: string, name: string, payload?: unknown): Promise<void>;
  /**
   * Requests the cancellation of another run. Resolves once the request is durable. No error if that run is already canceled.
   * @throws `RunNotFoundError` if there is no such run.
   * @throws `RunClosedError` if it ended otherwise; on Temporal that is a `RunNotFoundError` too.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const wait = workflow("wait", (ctx) => ctx.sleep("1d"));
   * const stopper = workflow("stopper", (ctx) => ctx.cancelRun("wait-1"));
   * const engine = await testEngine({ workflows: [wait, stopper], skipTime: false });
   * const run = await engine.start(wait, undefined, { id: "wait-1" });
   * await engine.start(stopper);
   * await run.result().catch(() => {});
   * console.log((await run.describe()).status); // "canceled"
   * await engine.close();
   * ```
   */
  cancelRun(runId: string): Promise<void>;

  /**
   * Waits for a duration. It survives restarts and deploys, and never fires early. A waiting run occupies no worker.
   * @throws `CanceledError` if the unit is canceled.
   * @throws `InvalidInputError` if the duration is invalid.
   * @example
   * ```ts
   * const trial = workflow("trial", async (ctx) => {
   *   await ctx.sleep("14d");
   *   return ctx.now().toISOString();
   * });
   * const engine = await testEngine({ workflows: [trial] }); // skips the two weeks
   * console.log(await (await engine.start(trial)).result()); // "2026-01-15T00:00:00.000Z"
   * await engine.close();
   * ```
   */
  sleep(duration: Duration): Promise<void>;
  /**
   * Waits for a duration, under a name that histories and consoles show.
   * @throws `CanceledError` if the unit is canceled.
   */
  sleep(name: string, duration: Duration): Promise<void>;
  /**
   * Waits until a point in time: a Date, or milliseconds since the Unix epoch. It survives restarts and never fires early. A time that is
   * over does not wait.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const report = workflow("report", async (ctx, due: Date) => {
   *   await ctx.sleepUntil(due);
   *   return ctx.now().toISOString();
   * });
   * const engine = await testEngine({ workflows: [report] });
   * console.log(await (await engine.start(report, new Date("2026-02-01"))).result()); // "2026-02-01T00:00:00.000Z"
   * await engine.close();
   * ```
   */
  sleepUntil(time: Date | number): Promise<void>;
  /**
   * Waits until a point in time, under a name that histories and consoles show.
   * @throws `CanceledError` if the unit is canceled.
   */
  sleepUntil(name: string, time: Date | number): Promise<void>;

  /**
   * Consumes the oldest buffered signal of that name, or waits for the next one. Signals that arrive before the call are kept for it.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const approval = workflow({ name: "approval", signals: { approve: signal<string>() } }, (ctx) => ctx.waitForSignal("approve"));
   * const engine = await testEngine({ workflows: [approval] });
   * const run = await engine.start(approval);
   * await run.signal("approve", "Ada");
   * console.log(await run.result()); // "Ada"
   * await engine.close();
   * ```
   */
  waitForSignal<K extends keyof M["signals"] & string>(name: K): Promise<SignalPayload<M["signals"][K]>>;
  /**
   * The same for at most `timeout`: either `timedOut` is true, or `payload` is that of the signal. A signal that arrives later stays
   * buffered.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const approval = workflow({ name: "approval", signals: { approve: signal<string>() } }, async (ctx) => {
   *   const approved = await ctx.waitForSignal("approve", { timeout: "7d" });
   *   return approved.timedOut ? "expired" : approved.payload;
   * });
   * const engine = await testEngine({ workflows: [approval] }); // skips the week
   * console.log(await (await engine.start(approval)).result()); // "expired"
   * await engine.close();
   * ```
   */
  waitForSignal<K extends keyof M["signals"] & string>(
    name: K,
    options: { timeout: Duration },
  ): Promise<{ timedOut: true; payload?: undefined } | { timedOut: false; payload: SignalPayload<M["signals"][K]> }>;
  /**
   * Waits for a signal of one of the names, then consumes up to `count` (one by default) buffered ones in order of arrival. Each has its
   * `name` and `payload`. Empty once `timeout` is over; without it there is no limit.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const inbox = workflow({ name: "inbox", signals: { mail: signal<string>(), call: signal<string>() } }, (ctx) =>
   *   ctx.listen(["mail", "call"], { count: 10, timeout: "1h" }),
   * );
   * const engine = await testEngine({ workflows: [inbox] });
   * const run = await engine.start(inbox, undefined, { signals: [{ name: "mail", payload: "hello" }] });
   * console.log(await run.result()); // [{ name: "mail", payload: "hello" }]
   * await engine.close();
   * ```
   */
  listen<K extends keyof M["signals"] & string>(
    names: readonly K[],
    options?: { count?: number; timeout?: Duration },
  ): Promise<Array<{ name: K; payload: SignalPayload<M["signals"][K]> }>>;

  /**
   * Runs a synchronous function once and records its value, or the error that it throws; replay returns the record. For cheap values that
   * code may not compute itself, such as an environment variable. It may run again if the worker dies before the turn is committed: effects
   * belong in `step`.
   * @throws the error that `fn` throws, in replay too.
   * @example
   * ```ts
   * const order = workflow("order", (ctx) => ctx.sideEffect(() => process.env["REGION"] ?? "eu"));
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "eu"
   * await engine.close();
   * ```
   */
  sideEffect<T>(fn: () => T): Promise<T>;
  /**
   * Replaces the published state, which queries and `run.state()` read, also after the run has ended. Readers see it with the commit of the
   * turn.
   * @throws `UnserializableValueError` or `LimitExceededError` if the state can't be stored.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   ctx.publishState({ phase: "paid" });
   * });
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * console.log(await run.state()); // { phase: "paid" }
   * await engine.close();
   * ```
   */
  publishState(state: unknown): void;
  /**
   * The time of the turn: the same in replay, and never decreasing within a run. Use it instead of `new Date()`.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => ctx.now().getUTCFullYear());
   * const engine = await testEngine({ workflows: [order] }); // its clock starts at 2026-01-01
   * console.log(await (await engine.start(order)).result()); // 2026
   * await engine.close();
   * ```
   */
  now(): Date;
  /**
   * A random number from 0 up to 1 that is the same in replay. Not for secrets.
   * @example
   * ```ts
   * const lottery = workflow("lottery", async (ctx) => ctx.random() < 1);
   * const engine = await testEngine({ workflows: [lottery] });
   * console.log(await (await engine.start(lottery)).result()); // true
   * await engine.close();
   * ```
   */
  random(): number;
  /**
   * A version 4 UUID that is the same in replay. Not for secrets.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => ctx.uuid().length);
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // 36
   * await engine.close();
   * ```
   */
  uuid(): string;

  /**
   * Lets other runnable units of the run go first. Leaves no record.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   const seen: string[] = [];
   *   const busy = async (name: string, unit: { yield(): Promise<void> }) => {
   *     for (let i = 1; i <= 2; i++, await unit.yield()) seen.push(`${name}${i}`);
   *   };
   *   await ctx.parallel([(a) => busy("a", a), (b) => busy("b", b)]);
   *   return seen;
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // ["a1", "b1", "a2", "b2"]
   * await engine.close();
   * ```
   */
  yield(): Promise<void>;

  /**
   * Whether this unit takes the new path of a change in the code. Runs that passed this place before the change keep the old path; all
   * others record that they took the new one. The first call in a unit decides for the whole unit: a loop takes the new path with its next
   * iteration, a receive with its next message.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   if (ctx.patched("check-stock-first")) await ctx.step("stock", () => "in stock");
   *   return ctx.step("charge", () => "charged");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * const run = await engine.start(order);
   * await run.result();
   * console.log((await run.operations()).map((one) => one.name)); // ["check-stock-first", "stock", "charge"]
   * await engine.close();
   * ```
   */
  patched(id: string): boolean;
  /**
   * Replaces `patched(id)` once no open run needs the old path: it accepts histories with the patch and without.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   ctx.deprecatePatch("check-stock-first");
   *   return ctx.step("stock", () => "in stock");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "in stock"
   * await engine.close();
   * ```
   */
  deprecatePatch(id: string): void;
  /**
   * Marks where an operation was removed from the code, so that runs which recorded it still replay. An operation without a name is called
   * by its kind. Not on Temporal, where it blocks the run.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   ctx.removed("check-stock", "step"); // `await ctx.step("check-stock", …)` was here
   *   return ctx.step("charge", () => "charged");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "charged"
   * await engine.close();
   * ```
   */
  removed(name: string, kind: OperationKind): void;
  /**
   * Discards the rollbacks of all steps completed so far: a later failure does not undo them.
   * @example
   * ```ts
   * const undone: string[] = [];
   * const order = workflow("order", async (ctx) => {
   *   await ctx.step("charge", () => "c-1", { rollback: (id) => void undone.push(id) });
   *   ctx.rollbackCheckpoint("charged");
   *   throw new RollbackError("no courier");
   * });
   * const engine = await testEngine({ workflows: [order] });
   * await (await engine.start(order)).result().catch(() => {});
   * console.log(undone); // []
   * await engine.close();
   * ```
   */
  rollbackCheckpoint(name: string): void;
  /**
   * Changes the attributes by which runs are found; those not named stay. `null` removes an attribute.
   * @throws `InvalidInputError` if a name or value is invalid or too long.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => ctx.setAttributes({ customer: "ada", priority: null }));
   * const engine = await testEngine({ workflows: [order] });
   * await (await engine.start(order, undefined, { id: "order-1" })).result();
   * const { runs } = await engine.list({ attributes: { customer: "ada" } });
   * console.log(runs.map((run) => run.id)); // ["order-1"]
   * await engine.close();
   * ```
   */
  setAttributes(attributes: Record<string, string | number | boolean | null>): void;
  /**
   * The number of records in the history of this execution, for deciding when to continue as new.
   * @example
   * ```ts
   * const poll = workflow<number, number>("poll", async (ctx, count) => {
   *   let done = count;
   *   while (ctx.historyLength() < 20) done = await ctx.step("poll", () => done + 1);
   *   return done < 30 ? ctx.continueAsNew(done) : done;
   * });
   * const engine = await testEngine({ workflows: [poll] });
   * console.log((await (await engine.start(poll, 0)).result()) >= 30); // true
   * await engine.close();
   * ```
   */
  historyLength(): number;
}
