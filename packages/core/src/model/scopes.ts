// The scopes of a unit: calls that run other units and return when these have ended, and what units wait for in each other.
// Owns: one interface. The executor implements it.
// Invariants: C1 to C3 and C6 (branches, conditions, cells), L1 (loops), K2 (shield).

import type { Duration } from "../values/index.ts";
import type { BranchContext, IVar } from "./context.ts";
import type { BreakValue, LoopOptions, LoopResult } from "./loop.ts";
import type { Messages } from "./messages.ts";

/** The part of `UnitContext` for concurrency, loops and cleanup. */
export interface Scopes<M extends Messages = Messages> {
  /**
   * Runs all branches concurrently to their end and returns their outcomes in input order, like `Promise.allSettled`. A failed branch does
   * not disturb the others.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   const outcomes = await ctx.parallel([
   *     (branch) => branch.step("mail", () => "mailed"),
   *     (branch) => branch.step("invoice", () => Promise.reject(new FatalError("no address"))),
   *   ]);
   *   return outcomes.map((outcome) => outcome.status);
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // ["fulfilled", "rejected"]
   * await engine.close();
   * ```
   */
  parallel<T extends readonly ((ctx: BranchContext<M>) => Promise<unknown>)[]>(
    branches: readonly [...T],
  ): Promise<{ [I in keyof T]: PromiseSettledResult<Awaited<ReturnType<T[I]>>> }>;
  /**
   * Runs all branches concurrently and returns their values by key.
   * @throws `JoinError` with the error of each failed branch, once all have ended.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const trip = workflow("trip", (ctx) =>
   *   ctx.join("book", {
   *     flight: (branch) => branch.step("flight", () => "LH 400"),
   *     hotel: (branch) => branch.step("hotel", () => "room 12"),
   *   }),
   * );
   * const engine = await testEngine({ workflows: [trip] });
   * console.log(await (await engine.start(trip)).result()); // { flight: "LH 400", hotel: "room 12" }
   * await engine.close();
   * ```
   */
  join<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T]: Awaited<ReturnType<T[K]>> }>;
  /**
   * Returns the key (`winner`) and the `value` of the first branch to succeed, and cancels the others.
   * @throws `RaceError` with the errors of all branches if every branch fails.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const quote = workflow("quote", (ctx) =>
   *   ctx.race("quote", {
   *     fast: (branch) => branch.step("fast", () => 100),
   *     late: (branch) => branch.sleep("1h"),
   *   }),
   * );
   * const engine = await testEngine({ workflows: [quote] });
   * console.log(await (await engine.start(quote)).result()); // { winner: "fast", value: 100 }
   * await engine.close();
   * ```
   */
  race<T extends Record<string, (ctx: BranchContext<M>) => Promise<unknown>>>(
    name: string,
    branches: T,
  ): Promise<{ [K in keyof T & string]: { winner: K; value: Awaited<ReturnType<T[K]>> } }[keyof T & string]>;
  /**
   * Repeats `run` until it returns `Loop.break(value)`, and returns that value. It trims its history as it runs, so that it may go on for
   * years. Use the `ctx` that `run` is given. `run` may also return nothing, which continues.
   * @throws the error that `run` throws.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const poll = workflow("poll", (ctx) =>
   *   ctx.loop("poll", async (iteration) => {
   *     const isReady = await iteration.step("check", () => true);
   *     if (isReady) return Loop.break("ready");
   *     await iteration.sleep("1m");
   *     return Loop.continue();
   *   }),
   * );
   * const engine = await testEngine({ workflows: [poll] });
   * console.log(await (await engine.start(poll)).result()); // "ready"
   * await engine.close();
   * ```
   */
  loop<R extends LoopResult<void, unknown> | void>(name: string, run: (ctx: this) => Promise<R>): Promise<BreakValue<R>>;
  /**
   * The same with a state, which each iteration gets and `Loop.continue(state)` replaces. It is committed as the loop runs: what a loop
   * needs later belongs in it, not in outer variables.
   * @throws the error that `run` throws.
   * @throws `InvalidInputError` if an option is invalid.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const count = workflow("count", (ctx) =>
   *   ctx.loop({ name: "count", state: 0 }, async (iteration, done) => {
   *     await iteration.step("work", () => done);
   *     return done < 99 ? Loop.continue(done + 1) : Loop.break(done);
   *   }),
   * );
   * const engine = await testEngine({ workflows: [count] });
   * console.log(await (await engine.start(count)).result()); // 99
   * await engine.close();
   * ```
   */
  loop<S, R extends LoopResult<S, unknown>>(options: LoopOptions<S>, run: (ctx: this, state: S) => Promise<R>): Promise<BreakValue<R>>;
  /**
   * Runs `run` and returns its outcome as a value: `ok` with the `value`, or not with the `error`. Cancellation and divergence from history
   * are still thrown.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   const paid = await ctx.try("pay", (body) => body.step("charge", () => Promise.reject(new FatalError("card declined"))));
   *   return paid.ok ? "paid" : paid.error.name;
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "StepFailedError"
   * await engine.close();
   * ```
   */
  try<T>(name: string, run: (ctx: this) => Promise<T>): Promise<{ ok: true; value: T } | { ok: false; error: Error }>;
  /**
   * Waits until the predicate is truthy and returns its value. It is read in each turn of the run, once the other units can't go on, so it
   * may depend on whatever they change.
   * @throws `CanceledError` if the unit is canceled.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   let paid = 0;
   *   const outcomes = await ctx.parallel([
   *     (buyer) => buyer.step("pay", () => 42).then((amount) => (paid = amount)),
   *     (shipper) => shipper.condition(() => paid > 0 && `ship for ${paid}`),
   *   ]);
   *   return outcomes[1].status === "fulfilled" && outcomes[1].value;
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "ship for 42"
   * await engine.close();
   * ```
   */
  condition<T>(predicate: () => T | undefined | null | false | 0 | ""): Promise<T>;
  /**
   * The same for at most `timeout`; undefined once it is over.
   * @throws `CanceledError` if the unit is canceled.
   */
  condition<T>(predicate: () => T | undefined | null | false | 0 | "", timeout: Duration): Promise<T | undefined>;
  /**
   * Creates a write-once cell, with which units of this run pass a value to each other.
   * @example
   * ```ts
   * const order = workflow("order", async (ctx) => {
   *   const receipt = ctx.ivar<string>();
   *   const { ship } = await ctx.join("order", {
   *     pay: async (branch) => receipt.put(await branch.step("charge", () => "r-1")),
   *     ship: async () => `shipped with ${await receipt.wait()}`,
   *   });
   *   return ship;
   * });
   * const engine = await testEngine({ workflows: [order] });
   * console.log(await (await engine.start(order)).result()); // "shipped with r-1"
   * await engine.close();
   * ```
   */
  ivar<T>(): IVar<T>;
  /**
   * Runs `fn` to its end even if the run is canceled: for cleanup. Use the `ctx` that `fn` is given.
   * @throws the error that `fn` throws.
   * @example
   * ```ts
   * const lease = workflow("lease", async (ctx) => {
   *   try {
   *     await ctx.sleep("30d");
   *   } finally {
   *     await ctx.shield((cleanup) => cleanup.step("release", () => "released"));
   *   }
   * });
   * const engine = await testEngine({ workflows: [lease], skipTime: false });
   * const run = await engine.start(lease);
   * await run.cancel();
   * await run.result().catch(() => {});
   * console.log((await run.operations()).at(-1)?.name); // "release"
   * await engine.close();
   * ```
   */
  shield<T>(fn: (ctx: this) => Promise<T>): Promise<T>;
}
