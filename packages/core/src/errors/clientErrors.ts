// Errors that callers of a run get: from messages, queries, run handles, and hosts that lack a feature.
// Owns the fields and wording of these classes; code, retryable and advice come from the catalog.
// Invariants: M8, M9 (a rejected update leaves no trace in history), M10, M11, M12, R6, V4 (a blocked run is unharmed).

import { advise } from "../base/catalog.ts";
import { declareError, HoldfastError } from "../base/holdfastError.ts";
import { because } from "../base/text.ts";

/**
 * No open receive accepted the update, or its validator rejected it. Nothing was recorded.
 * @example
 * ```ts
 * const order = workflow({ name: "order", updates: { pay: update<number>() } }, (ctx) => ctx.sleep("1d"));
 * const engine = await testEngine({ workflows: [order], skipTime: false });
 * const run = await engine.start(order);
 * const error = await run.update("pay", 42).catch((error) => error);
 * console.log(error instanceof UpdateRejectedError && error.update); // "pay"
 * await engine.close();
 * ```
 */
export class UpdateRejectedError extends HoldfastError {
  static {
    declareError(this, "UpdateRejectedError");
  }
  /** The name of the update. */
  readonly update: string;
  /** Why it was rejected. */
  readonly reason: string;
  constructor(details: { update: string; reason: string; cause?: unknown }) {
    const { update, reason, cause } = details;
    super(advise("UpdateRejectedError", `update "${update}" was rejected: ${reason}`), { cause });
    this.update = update;
    this.reason = reason;
  }
}

/**
 * The update was accepted and its handler threw. `cause` is the handler's error; the run continues.
 * @example
 * ```ts
 * const order = workflow({ name: "order", updates: { pay: update<number>() } }, async (ctx) => {
 *   const pay = () => Promise.reject(new Error("card declined"));
 *   await ctx.receive(0, { updates: { pay }, timeout: "1h" });
 * });
 * const engine = await testEngine({ workflows: [order], skipTime: false });
 * const run = await engine.start(order);
 * const error = await run.update("pay", 42, { acceptWithin: "1m" }).catch((error) => error);
 * console.log(error instanceof UpdateFailedError && (error.cause as Error).message); // "card declined"
 * await engine.close();
 * ```
 */
export class UpdateFailedError extends HoldfastError {
  static {
    declareError(this, "UpdateFailedError");
  }
  /** The name of the update. */
  readonly update: string;
  constructor(details: { update: string; cause?: unknown }) {
    const { update, cause } = details;
    super(advise("UpdateFailedError", `the handler of update "${update}" failed${because(cause)}`), { cause });
    this.update = update;
  }
}

/**
 * The query could not be answered: the workflow declares no such query, the query threw, or this process does not know the workflow.
 * @example
 * ```ts
 * const order = workflow({ name: "order", queries: { total: (state: number[]) => state.length } }, async () => {});
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order);
 * await run.result();
 * const error = await run.query("total").catch((error) => error); // no state was published
 * console.log(error instanceof QueryFailedError && error.query); // "total"
 * await engine.close();
 * ```
 */
export class QueryFailedError extends HoldfastError {
  static {
    declareError(this, "QueryFailedError");
  }
  /** The name of the query. */
  readonly query: string;
  /** Why it failed. */
  readonly reason: string;
  constructor(details: { query: string; reason: string; cause?: unknown }) {
    const { query, reason, cause } = details;
    super(advise("QueryFailedError", `query "${query}" failed: ${reason}`), { cause });
    this.query = query;
    this.reason = reason;
  }
}

/**
 * There is no schedule with this id.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const error = await engine.schedules.get("nightly").catch((error) => error);
 * console.log(error instanceof ScheduleNotFoundError && error.schedule); // "nightly"
 * await engine.close();
 * ```
 */
export class ScheduleNotFoundError extends HoldfastError {
  static {
    declareError(this, "ScheduleNotFoundError");
  }
  /** The id that was asked for. */
  readonly schedule: string;
  constructor(details: { schedule: string }) {
    super(advise("ScheduleNotFoundError", `there is no schedule "${details.schedule}"`));
    this.schedule = details.schedule;
  }
}

/**
 * Only a closed run can be deleted, and this one is open.
 * @example
 * ```ts
 * const order = workflow("order", (ctx) => ctx.sleep("1d"));
 * const engine = await testEngine({ workflows: [order], skipTime: false });
 * const run = await engine.start(order, undefined, { id: "order-1" });
 * const error = await run.delete().catch((error) => error);
 * console.log(error instanceof RunOpenError && error.runId); // "order-1"
 * await engine.close();
 * ```
 */
export class RunOpenError extends HoldfastError {
  static {
    declareError(this, "RunOpenError");
  }
  /** The id of the run. */
  readonly runId: string;
  constructor(details: { runId: string }) {
    super(advise("RunOpenError", `run "${details.runId}" is open`));
    this.runId = details.runId;
  }
}

/**
 * The update was accepted, but its receive closed before handling it. Send it again under a new idempotency key.
 * @example
 * ```ts
 * const till = workflow({ name: "till", signals: { close: signal() }, updates: { pay: update<number>() } }, async (ctx) => {
 *   await ctx.receive(0, {
 *     signals: {
 *       close: async (_, total, ctx) => {
 *         await ctx.sleep("1m"); // a payment that comes meanwhile is accepted, and waits for its turn
 *         return Receive.stop(total);
 *       },
 *     },
 *     updates: { pay: (amount, total) => Receive.reply(undefined, total + amount) },
 *   });
 * });
 * const engine = await testEngine({ workflows: [till] });
 * const run = await engine.start(till, undefined, { signals: [{ name: "close" }] });
 * const error = await run.update("pay", 42, { acceptWithin: "30s" }).catch((error) => error);
 * console.log(error instanceof ReceiveClosedError && error.update); // "pay"
 * await engine.close();
 * ```
 */
export class ReceiveClosedError extends HoldfastError {
  static {
    declareError(this, "ReceiveClosedError");
  }
  /** The name of the update. */
  readonly update: string;
  constructor(details: { update: string }) {
    super(advise("ReceiveClosedError", `update "${details.update}" was accepted, but the receive closed before it was dispatched`));
    this.update = details.update;
  }
}

/**
 * No run with that id exists in this store and namespace.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:");
 * const error = await engine.run("nothing").describe().catch((error) => error);
 * console.log(error instanceof RunNotFoundError && error.runId); // "nothing"
 * await engine.close();
 * ```
 */
export class RunNotFoundError extends HoldfastError {
  static {
    declareError(this, "RunNotFoundError");
  }
  /** The id that was asked for. */
  readonly runId: string;
  constructor(details: { runId: string }) {
    super(advise("RunNotFoundError", `there is no run "${details.runId}"`));
    this.runId = details.runId;
  }
}

/** Replaces the catalog's advice: no `onConflict` helps if the id belongs to a run of another workflow (M3). */
const OTHER_WORKFLOW = "Choose another id, or use the workflow that this run belongs to.";

/**
 * A run with that id already exists. `onConflict` of the start decides whether that is an error.
 * @example
 * ```ts
 * const order = workflow("order", async () => "done");
 * const engine = await testEngine({ workflows: [order] });
 * await engine.start(order, undefined, { id: "order-1" });
 * const error = await engine.start(order, undefined, { id: "order-1" }).catch((error) => error);
 * console.log(error instanceof RunAlreadyExistsError && error.runId); // "order-1"
 * await engine.close();
 * ```
 */
export class RunAlreadyExistsError extends HoldfastError {
  static {
    declareError(this, "RunAlreadyExistsError");
  }
  /** The first of `runIds`. */
  readonly runId: string;
  /** All ids that already exist: for `startMany`, every conflicting id. */
  readonly runIds: readonly string[];
  /** Set if the existing run belongs to another workflow than the requested one: the name of that workflow. */
  declare readonly workflow?: string;
  constructor(details: { runId: string; runIds?: readonly string[]; workflow?: string | undefined }) {
    const { runId, runIds = [runId], workflow } = details;
    const what =
      runIds.length === 1 ? `run "${runIds[0]}" already exists` : `runs ${runIds.map((id) => `"${id}"`).join(", ")} already exist`;
    super(
      workflow === undefined
        ? advise("RunAlreadyExistsError", what)
        : advise("RunAlreadyExistsError", `${what}: it is a run of workflow "${workflow}"`, OTHER_WORKFLOW),
    );
    this.runId = runId;
    this.runIds = runIds;
    if (workflow !== undefined) this.workflow = workflow;
  }
}

/**
 * The run has ended and accepts no more messages. `status` says how it ended.
 * @example
 * ```ts
 * const order = workflow("order", async () => "done");
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order);
 * await run.result();
 * const error = await run.signal("paid").catch((error) => error);
 * console.log(error instanceof RunClosedError && error.status); // "completed"
 * await engine.close();
 * ```
 */
export class RunClosedError extends HoldfastError {
  static {
    declareError(this, "RunClosedError");
  }
  /** The id of the run. */
  readonly runId: string;
  /** How it ended: a `RunStatus`. */
  readonly status: string;
  constructor(details: { runId: string; status: string }) {
    const { runId, status } = details;
    super(advise("RunClosedError", `run "${runId}" is closed (${status})`));
    this.runId = runId;
    this.status = status;
  }
}

/**
 * The workers' code or codec can't advance the run. The run itself is unharmed: it continues once fitting code is deployed.
 * @example
 * ```ts
 * const order = workflow("order", async () => Math.random()); // ctx.random() is the same in replay
 * const engine = await testEngine({ workflows: [order] });
 * const run = await engine.start(order, undefined, { id: "order-1" });
 * const error = await run.result().catch((error) => error);
 * console.log(error instanceof RunBlockedError && error.runId); // "order-1"
 * await engine.close();
 * ```
 */
export class RunBlockedError extends HoldfastError {
  static {
    declareError(this, "RunBlockedError");
  }
  /** The id of the run. */
  readonly runId: string;
  /** Why its code can't advance it. */
  readonly reason: string;
  constructor(details: { runId: string; reason: string; cause?: unknown }) {
    const { runId, reason, cause } = details;
    super(advise("RunBlockedError", `run "${runId}" is blocked: ${reason}`), { cause });
    this.runId = runId;
    this.reason = reason;
  }
}

/**
 * This host does not support the feature. Nothing was written.
 * @example
 * ```ts
 * const engine = await Holdfast.open("memory:"); // or a Temporal cluster, where queues have no limits
 * await engine.queues.set("mail", { concurrency: 5 }).catch((error) => {
 *   if (!(error instanceof UnsupportedError)) throw error;
 * });
 * console.log((await engine.queues.get("mail")).concurrency); // 5
 * await engine.close();
 * ```
 */
export class UnsupportedError extends HoldfastError {
  static {
    declareError(this, "UnsupportedError");
  }
  /** The unsupported feature: "fork", "tx". */
  readonly feature: string;
  /** The host that lacks it: "Temporal". */
  readonly host: string;
  /** `instead`: advice as a full sentence. Default: the catalog's advice. */
  constructor(details: { feature: string; host: string; instead?: string }) {
    const { feature, host, instead } = details;
    super(advise("UnsupportedError", `${feature} is not supported on ${host}`, instead));
    this.feature = feature;
    this.host = host;
  }
}
