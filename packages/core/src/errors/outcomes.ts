// Errors that workflow code throws and catches: how steps, activities, children, scopes and the run itself end.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: D8 (FatalError and RollbackError are never retried, RetryLaterError sets the delay), C2 and C3 (all branch errors are kept),
// K3, K7.

import { advise } from "../base/catalog.ts";
import { formatDuration } from "../base/formatDuration.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { because, count, preview } from "../base/text.ts";
import { type Duration, parseDuration } from "../values/duration.ts";
import { NOT_RESUMABLE } from "./advice.ts";

/**
 * Throw it from a step or activity to fail without further attempts.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) =>
 *   ctx.step("charge", () => {
 *     throw new FatalError("card declined", { data: { code: 51 } });
 *   }),
 * );
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error.cause.cause.data); // { code: 51 }
 * await engine.close();
 * ```
 */
export class FatalError extends HoldfastError {
  static {
    declareError(this, "FatalError");
  }
  /** What was passed as `data`. It is stored with the error. */
  readonly data: unknown;
  /** `data` is stored with the error, and `cause` too. */
  constructor(message: string, options: { cause?: unknown; data?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.data = options.data;
  }
}

/**
 * Throw it anywhere in a workflow to fail the run and roll back its completed steps, the last one first. It is never retried.
 * @example
 * ```ts
 * const undone: string[] = [];
 * const order = workflow("order", async (ctx) => {
 *   await ctx.step("charge", () => "c-1", { rollback: (charge) => void undone.push(`refunded ${charge}`) });
 *   throw new RollbackError("out of stock");
 * });
 * const engine = await testEngine({ workflows: [order] });
 * await (await engine.start(order)).result().catch(() => {});
 * console.log(undone); // ["refunded c-1"]
 * await engine.close();
 * ```
 */
export class RollbackError extends HoldfastError {
  static {
    declareError(this, "RollbackError");
  }
  /** `cause` is stored with the error. */
  constructor(message: string, options: { cause?: unknown } = {}) {
    super(message, { cause: options.cause });
  }
}

/**
 * Throw it from a step or activity to set the delay before the next attempt, instead of the backoff of its policy.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) =>
 *   ctx.step("charge", (info) => {
 *     if (info.attempt === 1) throw new RetryLaterError("too many requests", { after: "10m" });
 *     return `charged in attempt ${info.attempt}`;
 *   }),
 * );
 * const engine = await testEngine({ workflows: [order] });
 * console.log(await (await engine.start(order)).result()); // "charged in attempt 2"
 * await engine.close();
 * ```
 */
export class RetryLaterError extends HoldfastError {
  static {
    declareError(this, "RetryLaterError");
  }
  /** Delay before the next attempt, in milliseconds from the end of this one. */
  readonly after: number;
  /**
   * `after` is the delay before the next attempt; `cause` is stored with the error.
   * @throws `InvalidInputError` if `after` is not a duration.
   */
  constructor(message: string, options: { after: Duration; cause?: unknown }) {
    super(message, { cause: options?.cause });
    this.after = parseDuration(options?.after, "after");
  }
}

/**
 * A step failed for good: all its attempts failed, or its error is not retryable. `cause` is the error of the last attempt.
 * @example
 * ```ts
 * const order = workflow("order", async (ctx) => {
 *   try {
 *     await ctx.step("charge", () => Promise.reject(new Error("no network")), { retry: { maxAttempts: 2 } });
 *     return "charged";
 *   } catch (error) {
 *     if (!(error instanceof StepFailedError)) throw error;
 *     return `${error.step} failed after ${error.attempts} attempts`;
 *   }
 * });
 * const engine = await testEngine({ workflows: [order] });
 * console.log(await (await engine.start(order)).result()); // "charge failed after 2 attempts"
 * await engine.close();
 * ```
 */
export class StepFailedError extends HoldfastError {
  static {
    declareError(this, "StepFailedError");
  }
  /** The name of the step. */
  readonly step: string;
  /** How many attempts were made. */
  readonly attempts: number;
  constructor(details: { step: string; attempts: number; cause?: unknown }) {
    const { step, attempts, cause } = details;
    super(advise("StepFailedError", `step "${step}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
    this.step = step;
    this.attempts = attempts;
  }
}

/** The time limits that an activity may have. */
export type ActivityLimit = "startToClose" | "scheduleToClose" | "scheduleToStart" | "heartbeat";

function lateActivity(limit: ActivityLimit, activity: string, attempt: number, length: string): string {
  switch (limit) {
    case "startToClose":
      return `attempt ${attempt} of activity "${activity}" took longer than its startToClose of ${length}`;
    case "scheduleToClose":
      return `activity "${activity}" did not end within its scheduleToClose of ${length} (attempt ${attempt})`;
    case "scheduleToStart":
      return `no worker started activity "${activity}" within its scheduleToStart of ${length}`;
    case "heartbeat":
      return `attempt ${attempt} of activity "${activity}" sent no heartbeat for ${length} (its heartbeat limit)`;
  }
}
const LIMIT_ADVICE: Readonly<Record<ActivityLimit, string>> = {
  startToClose: "Raise `startToClose`, or pass `signal` to the calls inside so that they end in time.",
  scheduleToClose: "Raise `scheduleToClose`. run.operations() shows how long each attempt took.",
  scheduleToStart: "Start more workers that serve the activity on its queue, or raise `scheduleToStart`.",
  heartbeat: "Call info.heartbeat() more often, or raise `heartbeat`.",
};

/**
 * One attempt of a step took longer than its `timeout`, or an activity exceeded one of its time limits.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) =>
 *   ctx.step("charge", () => new Promise<void>(() => {}), { timeout: "30s", retry: { maxAttempts: 1 } }),
 * );
 * const engine = await testEngine({ workflows: [order] }); // skips the 30 seconds
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error.cause instanceof StepFailedError && error.cause.cause instanceof StepTimeoutError); // true
 * await engine.close();
 * ```
 */
export class StepTimeoutError extends HoldfastError {
  static {
    declareError(this, "StepTimeoutError");
  }
  /** The name of the step or activity. */
  readonly step: string;
  /** The limit that was exceeded, in milliseconds. */
  readonly timeout: number;
  /** The number of the attempt that took too long, from 1. */
  readonly attempt: number;
  /** The limit of the activity that was exceeded; undefined for the timeout of a step. */
  readonly limit: ActivityLimit | undefined;
  /** If `limit` is given, `step` is the name of an activity. */
  constructor(details: { step: string; timeout: number; attempt: number; limit?: ActivityLimit }) {
    const { step, timeout, attempt, limit } = details;
    const length = formatDuration(timeout);
    super(
      limit === undefined
        ? advise("StepTimeoutError", `attempt ${attempt} of step "${step}" took longer than its timeout of ${length}`)
        : advise("StepTimeoutError", lateActivity(limit, step, attempt, length), LIMIT_ADVICE[limit]),
    );
    this.step = step;
    this.timeout = timeout;
    this.attempt = attempt;
    this.limit = limit;
  }
}

/**
 * An activity failed for good: all its attempts failed, it timed out, or its error is not retryable. See `cause`.
 * @example
 * ```ts
 * const charge = activity("charge", () => Promise.reject(new Error("no network")), { retry: { maxAttempts: 2 } });
 * const order = workflow("order", async (ctx) => {
 *   const paid = await ctx.try("pay", (body) => body.activity(charge));
 *   return !paid.ok && paid.error instanceof ActivityFailedError ? paid.error.attempts : 0;
 * });
 * const engine = await testEngine({ workflows: [order], activities: [charge] });
 * console.log(await (await engine.start(order)).result()); // 2
 * await engine.close();
 * ```
 */
export class ActivityFailedError extends HoldfastError {
  static {
    declareError(this, "ActivityFailedError");
  }
  /** The name of the activity. */
  readonly activity: string;
  /** How many attempts were made. */
  readonly attempts: number;
  constructor(details: { activity: string; attempts: number; cause?: unknown }) {
    const { activity, attempts, cause } = details;
    super(advise("ActivityFailedError", `activity "${activity}" failed after ${count(attempts, "attempt")}${because(cause)}`), { cause });
    this.activity = activity;
    this.attempts = attempts;
  }
}

/**
 * A child run failed, was canceled or was terminated, or could not be started because its id is taken. See `cause`.
 * @example
 * ```ts
 * const ship = workflow("ship", async () => Promise.reject(new Error("no courier")));
 * const order = workflow("order", async (ctx) => {
 *   const shipped = await ctx.try("ship", (body) => body.child(ship, undefined, { id: "ship-1" }));
 *   return !shipped.ok && shipped.error instanceof ChildFailedError ? `${shipped.error.childId} failed` : "shipped";
 * });
 * const engine = await testEngine({ workflows: [order, ship] });
 * console.log(await (await engine.start(order)).result()); // "ship-1 failed"
 * await engine.close();
 * ```
 */
export class ChildFailedError extends HoldfastError {
  static {
    declareError(this, "ChildFailedError");
  }
  /** The run id of the child. */
  readonly childId: string;
  /** The name of its workflow. */
  readonly workflow: string | undefined;
  constructor(details: { childId: string; workflow?: string; cause?: unknown }) {
    const { childId, workflow, cause } = details;
    const of = workflow === undefined ? "" : ` of workflow "${workflow}"`;
    super(advise("ChildFailedError", `child run "${childId}"${of} did not complete${because(cause)}`), { cause });
    this.childId = childId;
    this.workflow = workflow;
  }
}

/** A sentence about a failed rollback, whose error hosts store with the error of the run (S2). */
function notUndone(cause: unknown): string {
  const { rollbackError } = (cause ?? {}) as { readonly rollbackError?: { readonly message?: unknown } };
  if (typeof rollbackError?.message !== "string") return "";
  const [first = ""] = rollbackError.message.split("\n");
  return `\nNot all of its steps were rolled back: ${first}; the steps before that one were not undone.`;
}

/**
 * The run whose result was requested has failed. `cause` is the error that the workflow threw, or a `DeadlineExceededError`. Once the
 * reason is gone, `run.resume()` continues where the run stopped, unless its rollbacks have run or its deadline is over.
 * @example
 * ```ts
 * const order = workflow("order", () => Promise.reject(new FatalError("out of stock")));
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order, undefined, { id: "order-1" });
 * const error = await run.result().catch((error) => error);
 * console.log(error instanceof RunFailedError && error.runId); // "order-1"
 * await engine.close();
 * ```
 */
export class RunFailedError extends HoldfastError {
  static {
    declareError(this, "RunFailedError");
  }
  /** The id of the run. */
  readonly runId: string;
  /** `resumable`: false if `run.resume()` would be refused (D10). Default true. */
  constructor(details: { runId: string; cause?: unknown; resumable?: boolean }) {
    const { runId, cause, resumable = true } = details;
    const what = `run "${runId}" failed${because(cause)}${notUndone(cause)}`;
    super(advise("RunFailedError", what, resumable ? undefined : NOT_RESUMABLE), { cause });
    this.runId = runId;
  }
}

/**
 * The run, or the scope around this operation, was canceled. In a workflow: let it propagate, or clean up inside `ctx.shield`.
 * @example
 * ```ts
 * const wait = workflow("wait", (ctx) => ctx.sleep("30d"));
 * const engine = await testEngine({ workflows: [wait], skipTime: false });
 * const run = await engine.start(wait);
 * await run.cancel("no longer needed");
 * const error = await run.result().catch((error) => error);
 * console.log(error instanceof CanceledError && error.reason); // "no longer needed"
 * await engine.close();
 * ```
 */
export class CanceledError extends HoldfastError {
  static {
    declareError(this, "CanceledError");
  }
  /** The reason that the caller of `cancel` gave. */
  readonly reason: string | undefined;
  constructor(reason?: string) {
    super(advise("CanceledError", reason === undefined ? "canceled" : `canceled: ${reason}`));
    this.reason = reason;
  }
}

/**
 * The run was ended from outside, without running workflow code. It can't be resumed.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) => ctx.sleep("1d"));
 * const engine = await testEngine({ workflows: [order], skipTime: false });
 * const run = await engine.start(order);
 * await run.terminate("wrong order");
 * const error = await run.result().catch((error) => error);
 * console.log(error instanceof RunTerminatedError); // true
 * await engine.close();
 * ```
 */
export class RunTerminatedError extends HoldfastError {
  static {
    declareError(this, "RunTerminatedError");
  }
  /** The id of the run. */
  readonly runId: string;
  /** The reason that the caller of `terminate` gave. */
  readonly reason: string | undefined;
  constructor(details: { runId: string; reason?: string }) {
    const { runId, reason } = details;
    super(advise("RunTerminatedError", `run "${runId}" was terminated${reason === undefined ? "" : `: ${reason}`}`));
    this.runId = runId;
    this.reason = reason;
  }
}

/**
 * The run did not end before its deadline. It is the `cause` of the `RunFailedError` that `run.result()` throws.
 * @example
 * ```ts
 * const order = workflow({ name: "order", deadline: "1h" }, (ctx) => ctx.sleep("1d"));
 * const engine = await testEngine({ workflows: [order] });
 * const error = await (await engine.start(order)).result().catch((error) => error);
 * console.log(error.cause instanceof DeadlineExceededError); // true
 * await engine.close();
 * ```
 */
export class DeadlineExceededError extends HoldfastError {
  static {
    declareError(this, "DeadlineExceededError");
  }
  /** The id of the run. */
  readonly runId: string;
  /** In milliseconds since the Unix epoch. */
  readonly deadline: number | undefined;
  constructor(details: { runId: string; deadline?: number }) {
    const { runId, deadline } = details;
    const when = deadline === undefined ? "" : ` of ${isoTime(deadline)}`;
    super(advise("DeadlineExceededError", `run "${runId}" did not end before its deadline${when}`));
    this.runId = runId;
    this.deadline = deadline;
  }
}

/**
 * At least one branch of `ctx.join` failed. All branches have ended.
 * @example
 * ```ts
 * const trip = workflow("trip", async (ctx) => {
 *   try {
 *     await ctx.join("book", {
 *       flight: async () => "LH 400",
 *       hotel: () => Promise.reject(new FatalError("no rooms")),
 *     });
 *     return [];
 *   } catch (error) {
 *     if (!(error instanceof JoinError)) throw error;
 *     return Object.keys(error.errors);
 *   }
 * });
 * const engine = await testEngine({ workflows: [trip] });
 * console.log(await (await engine.start(trip)).result()); // ["hotel"]
 * await engine.close();
 * ```
 */
export class JoinError extends HoldfastError {
  static {
    declareError(this, "JoinError");
  }
  /** The name of the join. */
  readonly scope: string;
  /** The errors of the failed branches, by branch name. */
  readonly errors: Readonly<Record<string, Error>>;
  constructor(details: { name: string; errors: Readonly<Record<string, Error>> }) {
    const failed = count(Object.keys(details.errors).length, "branch", "branches");
    super(advise("JoinError", `join "${details.name}" failed in ${failed}: ${listBranches(details.errors)}`));
    this.scope = details.name;
    this.errors = details.errors;
  }
}

/**
 * Every branch of `ctx.race` failed.
 * @example
 * ```ts
 * const quote = workflow("quote", async (ctx) => {
 *   const failing = () => Promise.reject(new FatalError("no quote"));
 *   const { ok, ...raced } = await ctx.try("quote", (body) => body.race("quote", { a: failing, b: failing }));
 *   return !ok && "error" in raced && raced.error instanceof RaceError ? Object.keys(raced.error.errors) : [];
 * });
 * const engine = await testEngine({ workflows: [quote] });
 * console.log(await (await engine.start(quote)).result()); // ["a", "b"]
 * await engine.close();
 * ```
 */
export class RaceError extends HoldfastError {
  static {
    declareError(this, "RaceError");
  }
  /** The name of the race. */
  readonly scope: string;
  /** The errors of all branches, by branch name. */
  readonly errors: Readonly<Record<string, Error>>;
  constructor(details: { name: string; errors: Readonly<Record<string, Error>> }) {
    super(advise("RaceError", `no branch of race "${details.name}" succeeded: ${listBranches(details.errors)}`));
    this.scope = details.name;
    this.errors = details.errors;
  }
}

function listBranches(errors: Readonly<Record<string, Error>>): string {
  return Object.entries(errors)
    .map(([branch, error]) => `${branch} (${preview(error)})`)
    .join(", ");
}

function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}
