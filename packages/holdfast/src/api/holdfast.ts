// `Holdfast`: opens an engine, starts and finds runs, and runs workers.
// Owns: checking and encoding what users pass, and turning the backend's answers into errors. The backend does the rest.
// Invariants: invalid input is a typed error, and nothing is written; P10 (ids and conflicts), K7 (deadlines), V2 (versions).

// For projects whose `lib` lacks it. Without "preserve" TypeScript drops the reference from its output.
/// <reference lib="esnext.disposable" preserve="true" />

import {
  type Activity,
  type AnyWorkflow,
  checkedText,
  checkedWorkflowName,
  type InputArgs,
  jsonCodec,
  parseDuration,
  type Queries,
  type RunInfo,
  type Signals,
  type UpdateOutput,
  type UpdateSent,
  type Updates,
  type Workflow,
} from "@holdfast/core";
import { byName, type Environment, isActivity, isWorkflow, listed, realEnvironment, WorkflowTable } from "@holdfast/host";
import { forgetSignals, stopOnSignals } from "@holdfast/host/node";
import { featureOf } from "../backend/features.ts";
import type { Backend, RunStart, StartAnswer } from "../backend/port.ts";
import { Engine, type EngineInternals } from "../engine/engine.ts";
import type { Store } from "../store/port.ts";
import { checkedBulkAction, checkedBulkFilter } from "./bulk.ts";
import { type Client, type ClientSettings, encoded } from "./client.ts";
import { Definitions } from "./definitions.ts";
import { cappedAt, checkedCountLimit, checkedLimit, queryOf } from "./filters.ts";
import { consoleLogger } from "./logger.ts";
import { openBackend } from "./open.ts";
import type { OpenOptions } from "./openOptions.ts";
import type { BulkAction, BulkResult, WorkerInfo } from "./operatingTypes.ts";
import {
  checkedCodec,
  checkedDefinition,
  checkedDeterminism,
  checkedItems,
  checkedLease,
  checkedLimits,
  checkedLogger,
  checkedOptions,
  checkedRetention,
  checkedRunId,
  checkedStopOn,
  checkedUpdate,
  FILTER,
  invalid,
  OPEN,
  START,
  WORKER,
  wholeNumber,
} from "./options.ts";
import { QueuesHandle } from "./queues.ts";
import type { Queues } from "./queueTypes.ts";
import { RunHandle } from "./run.ts";
import { runInfo } from "./runInfo.ts";
import { SchedulesHandle } from "./schedules.ts";
import type { Schedules } from "./scheduleTypes.ts";
import { closedId, newRun, startedId, startFailure } from "./starts.ts";
import type { Run, RunCounts, RunFilter, StartOptions, UpdateOptions } from "./types.ts";
import { WorkerHandle, workerInfo } from "./worker.ts";
import type { Worker, WorkerOptions } from "./workerTypes.ts";

/** Your own store, or a backend that is already open. Tests replace more. */
export type Internals = (({ readonly store: Store } & EngineInternals) | { readonly backend: Backend }) & {
  /**
   * Time, timers and randomness.
   * @defaultValue the real environment
   */
  readonly environment?: Environment;
};

/** Number of runs that `startMany` checks before it yields to other work of the process. */
const CHECKED_AT_ONCE = 500;

let clientOfEngine: (engine: Holdfast) => Client;
/** The backend of an engine, its codec and its logger, for other parts of this package. */
export function clientOf(engine: Holdfast): Client {
  return clientOfEngine(engine);
}

/**
 * An engine: starts and finds runs, sends them messages, and runs workers. Several processes may open the same database at once.
 * @example
 * ```ts
 * const order = workflow("order", (ctx, id: string) => ctx.step("charge", () => `charged ${id}`));
 *
 * const engine = await Holdfast.open("file:./app.db");
 * await engine.worker({ workflows: [order] });
 * const run = await engine.start(order, "o-1");
 * console.log(await run.result()); // "charged o-1"
 * await engine.close();
 * ```
 */
export class Holdfast implements AsyncDisposable {
  /** Limits and pauses of queues. */
  readonly queues: Queues;
  readonly #backend: Backend;
  readonly #client: Client;
  /** Runs that start by the clock. */
  readonly schedules: Schedules;

  static {
    clientOfEngine = (engine) => engine.#client;
  }

  protected constructor(backend: Backend, client: ClientSettings) {
    this.#backend = backend;
    this.queues = new QueuesHandle(backend);
    this.#client = { ...client, backend, definitions: new Definitions() };
    this.schedules = new SchedulesHandle(this.#client, (workflow, input, options) => newRun(this.#client, workflow, input, options));
  }

  /**
   * Opens an engine on a database, and creates what it needs there. "file:./app.db" is SQLite, "memory:" is lost with the process,
   * "postgres://…" needs the package `@holdfast/postgres`, "temporal://host:7233/namespace" needs `@holdfast/temporal`.
   * @param url Where the runs are. The default is `file:.holdfast/holdfast.db`.
   * @throws `InvalidInputError` for an invalid URL or option, and if the package that the URL needs is not installed.
   * @throws `HoldfastError` with a code that begins with HF_STORE_ if the database can't be opened: HF_STORE_UNAVAILABLE if it can't be
   * reached, HF_STORE_NEWER if a newer version of Holdfast has written it.
   * @throws `UnsupportedError` for an option that the database does not have, such as `retention` on Temporal.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:", { retention: "30d" });
   * console.log((await engine.list()).runs); // []
   * await engine.close();
   * ```
   */
  static async open(url?: string, options?: OpenOptions): Promise<Holdfast> {
    const client = clientSettings(options, realEnvironment);
    const { namespace, temporal, retention } = checkedOptions("Holdfast.open", options, OPEN);
    const settings = { ...client, namespace, temporal, retention: checkedRetention("Holdfast.open", retention) };
    return new Holdfast(await openBackend(url, settings, realEnvironment), client);
  }
  /**
   * Opens an engine on your own store or backend.
   * @throws `InvalidInputError` for an invalid option.
   */
  static async with(internals: Internals, options?: OpenOptions): Promise<Holdfast> {
    const { environment = realEnvironment } = internals;
    const client = clientSettings(options, environment);
    if ("backend" in internals) return new Holdfast(internals.backend, client);
    const retention = checkedRetention("Holdfast.open", options?.retention);
    const engine = new Engine({ ...client, environment, store: internals.store, retention, internals });
    await engine.open();
    return new Holdfast(engine, client);
  }

  // ── starting ──

  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; callers pass `In`, whatever the schema transforms it to
  /**
   * Starts a run by the name of its workflow, and resolves once it is durable. The process needs no code of the workflow: the input is then
   * checked by the worker. If a worker of this engine serves the name, the last definition of its list is used.
   * @throws `RunAlreadyExistsError` if the id is taken and `onConflict` is "reject", or if it is that of a run of another workflow.
   * @throws `RunClosedError` if `onConflict` is "use-existing", there are `signals` to send, and that run has ended.
   * @throws `InvalidInputError` if the input or an option is invalid.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * const run = await engine.start("order", { item: "book" }, { id: "order-1", delay: "1h" });
   * console.log((await run.describe()).status); // "pending"
   * await engine.close();
   * ```
   */
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<Run<unknown>>;
  /**
   * Starts a run and resolves once it is durable: it will run even if this process dies now.
   * @throws `RunAlreadyExistsError` if the id is taken and `onConflict` is "reject", or if it is that of a run of another workflow.
   * @throws `RunClosedError` if `onConflict` is "use-existing", there are `signals` to send, and that run has ended.
   * @throws `InvalidInputError` if the input or an option is invalid.
   * @example
   * ```ts
   * const order = workflow("order", async (_, item: string) => `sold ${item}`);
   * const engine = await Holdfast.open("memory:");
   * await engine.worker({ workflows: [order] });
   * const run = await engine.start(order, "book", { id: "order-1", onConflict: "use-existing" });
   * console.log(await run.result()); // "sold book"
   * await engine.close();
   * ```
   */
  start<In, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<any, O, S, U, Q, In>,
    ...args: InputArgs<NoInfer<In>, StartOptions<S>>
  ): Promise<Run<O, S, U, Q>>;
  async start(workflow: AnyWorkflow | string, input?: unknown, given?: StartOptions): Promise<Run<unknown>> {
    const options = checkedOptions("start", given, START);
    const definition = typeof workflow === "string" ? this.#client.definitions.servedAs(workflow) : workflow;
    const run = await newRun(this.#client, workflow, input, options);
    return this.#handleOf(await this.#create(run, definition, options.tx), definition);
  }
  /**
   * Starts the run, or finds it (`onConflict` is "use-existing" by default), and sends it an update, which its first `receive` may accept.
   * `name` and `input` are those of the update. Resolves with the `run` and the `result` of the update.
   * @throws `UpdateRejectedError`, `UpdateFailedError`, `ReceiveClosedError`, `RunClosedError` or `RunBlockedError`, as `run.update` does.
   * @throws `RunAlreadyExistsError` if the id is that of a run of another workflow, or is taken and `onConflict` is "reject".
   * @throws `InvalidInputError` if an input or option is invalid.
   * @example
   * ```ts
   * const cart = workflow({ name: "cart", updates: { add: update<string, number>() } }, async (ctx) => {
   *   await ctx.receive(0, { updates: { add: (_, count) => Receive.reply(count + 1, count + 1) }, timeout: "1h" });
   * });
   * const engine = await Holdfast.open("memory:");
   * await engine.worker({ workflows: [cart] });
   * const { result } = await engine.updateWithStart(cart, undefined, { name: "add", input: "book" }, { id: "cart-1" });
   * console.log(result); // 1
   * await engine.close();
   * ```
   */
  updateWithStart<In, O, S extends Signals, U extends Updates, Q extends Queries, K extends keyof U & string>(
    workflow: Workflow<any, O, S, U, Q, In>,
    input: NoInfer<In>,
    update: { name: K; input: UpdateSent<U[K]> } & UpdateOptions,
    options?: Omit<StartOptions<S>, "tx">,
  ): Promise<{ run: Run<O, S, U, Q>; result: UpdateOutput<U[K]> }>;
  async updateWithStart(
    workflow: AnyWorkflow,
    input: unknown,
    update: { name: string; input?: unknown } & UpdateOptions,
    given?: StartOptions,
  ): Promise<{ run: Run<unknown>; result: unknown }> {
    const options = checkedOptions("updateWithStart", given, START);
    checkedUpdate(update);
    checkedDefinition("updateWithStart", workflow);
    if (options.tx !== undefined)
      throw invalid("updateWithStart", "An update can't be sent in a transaction: its outcome is known only after the commit.", "tx");
    const run = await newRun(this.#client, workflow, input, { onConflict: "use-existing", ...options });
    const message = await new RunHandle(this.#client, run.id, workflow).updateMessage(update.name, update.input, update);
    this.#client.definitions.started(workflow);
    const [answer] = await this.#backend.create([{ ...run, messages: [...(run.messages ?? []), message] }]);
    const id = closedId(run, answer as StartAnswer) ?? startedId(run, answer as StartAnswer);
    // M10: sends the update again under the same id: an update that ended before the run closed still has its outcome.
    const handle = new RunHandle(this.#client, id, workflow, true);
    const { name, input: sent, timeout, acceptWithin } = update;
    const waits = { ...(timeout !== undefined && { timeout }), ...(acceptWithin !== undefined && { acceptWithin }) };
    const result = await handle.update(name, sent, { idempotencyKey: message.job.id, ...waits });
    return { run: handle as unknown as Run<unknown>, result };
  }
  /**
   * Starts many runs, far faster than one by one; each item has its `input` and options. All of them are checked before any is started.
   * Conflicts with existing runs, or with earlier runs in the list, are reported together once all others are started.
   * @throws `RunAlreadyExistsError` with all ids that are taken in `runIds`.
   * @throws `HoldfastError` with the code HF_START_FAILED if several failed for different reasons.
   * @throws `InvalidInputError` if an input or option is invalid; then none is started.
   * @example
   * ```ts
   * const mail = workflow("mail", async (_, to: string) => `sent to ${to}`);
   * const engine = await Holdfast.open("memory:");
   * await engine.worker({ workflows: [mail] });
   * const runs = await engine.startMany(mail, [{ input: "ada", id: "mail-ada" }, { input: "bob" }]);
   * console.log(await Promise.all(runs.map((run) => run.result()))); // ["sent to ada", "sent to bob"]
   * await engine.close();
   * ```
   */
  startMany<In, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<any, O, S, U, Q, In>,
    items: Iterable<(undefined extends In ? { input?: NoInfer<In> } : { input: NoInfer<In> }) & StartOptions<NoInfer<S>>>,
  ): Promise<Run<O, S, U, Q>[]>;
  async startMany(workflow: AnyWorkflow, items: Iterable<{ input?: unknown } & StartOptions>): Promise<Run<unknown>[]> {
    const given = checkedItems(items);
    const runs = await this.#newRuns(workflow, given);
    this.#client.definitions.started(workflow);
    const answers = await this.#createAll(runs, given);
    const failures: unknown[] = [];
    const handles: Run<unknown>[] = [];
    for (const [i, run] of runs.entries()) {
      try {
        handles.push(this.#handleOf(startedId(run, answers[i] as StartAnswer), workflow));
      } catch (failure) {
        failures.push(failure);
      }
    }
    if (failures.length > 0) throw startFailure(failures, runs.length);
    return handles;
  }
  // biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers

  /** Checks and encodes all runs before any is created. Yields to other work of the process in between: thousands of runs take a while. */
  async #newRuns(workflow: AnyWorkflow, items: readonly ({ input?: unknown } & StartOptions)[]): Promise<RunStart[]> {
    const runs: RunStart[] = [];
    for (let from = 0; from < items.length; from += CHECKED_AT_ONCE) {
      if (from > 0) await new Promise<void>((done) => this.#client.environment.soon(done));
      const some = items.slice(from, from + CHECKED_AT_ONCE);
      runs.push(...(await Promise.all(some.map(({ input, ...options }) => newRun(this.#client, workflow, input, options)))));
    }
    return runs;
  }
  /** In one call, unless some are to be written in the caller's transactions. */
  async #createAll(runs: readonly RunStart[], items: readonly StartOptions[]): Promise<StartAnswer[]> {
    if (items.every(({ tx }) => tx === undefined)) return this.#backend.create(runs);
    const answers = await Promise.all(runs.map((run, i) => this.#backend.create([run], items[i]?.tx)));
    return answers.flat();
  }
  /** The id of the run that was created or found: with an idempotency key it may differ from the id asked for (M3). */
  async #create(run: RunStart, definition: AnyWorkflow | undefined, tx: unknown): Promise<string> {
    if (definition !== undefined && tx === undefined) this.#client.definitions.started(definition);
    const [answer] = await this.#backend.create([run], tx);
    return startedId(run, answer as StartAnswer);
  }

  // ── finding ──

  /**
   * A handle on a run, which need not exist yet: the first call on it throws `RunNotFoundError` if it does not.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.start("order", undefined, { id: "order-1" });
   * console.log((await engine.run("order-1").describe()).workflow); // "order"
   * await engine.close();
   * ```
   */
  run(id: string): Run<unknown>;
  /**
   * A handle with the types of a workflow, with which queries work too. The first call on it throws `RunNotFoundError` if there is no such
   * run, and `RunAlreadyExistsError` if it belongs to another workflow.
   */
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; a handle does not depend on the input
  run<O, S extends Signals, U extends Updates, Q extends Queries>(id: string, workflow: Workflow<any, O, S, U, Q, any>): Run<O, S, U, Q>;
  run(id: string, workflow?: AnyWorkflow): Run<unknown> {
    return new RunHandle(this.#client, checkedRunId(id), checkedDefinition("run", workflow)) as unknown as Run<unknown>;
  }
  /** The handle on a run that was just started or found, so its workflow is known. */
  #handleOf(id: string, workflow: AnyWorkflow | undefined): Run<unknown> {
    return new RunHandle(this.#client, id, workflow, true) as unknown as Run<unknown>;
  }
  /**
   * The runs that match, newest first, one page at a time: `runs`, and the `cursor` of the next page, which is undefined on the last one.
   * @throws `InvalidInputError` if the filter is invalid.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.startMany(workflow("order", async () => {}), [{ id: "a" }, { id: "b" }, { id: "c" }]);
   * const filter = { workflow: "order", status: "pending", limit: 2 } as const;
   * const first = await engine.list(filter);
   * const second = await engine.list({ ...filter, cursor: first.cursor ?? "" });
   * console.log(first.runs.length + second.runs.length); // 3
   * await engine.close();
   * ```
   */
  async list(given?: RunFilter): Promise<{ runs: RunInfo[]; cursor: string | undefined }> {
    const filter = checkedOptions("list", given, FILTER);
    const limit = checkedLimit(filter.limit);
    const after = checkedText("list", "cursor", filter.cursor, Number.POSITIVE_INFINITY);
    const { runs, cursor } = await this.#backend.list({ ...queryOf(filter), limit, cursor: after });
    return { runs: runs.map((run) => runInfo(run, this.#client.codec)), cursor };
  }
  /**
   * The number of matching runs by status, up to 10,000 each, or up to `limit`.
   * @throws `InvalidInputError` if the filter is invalid, or has a `cursor`.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.start("order");
   * console.log((await engine.count({ workflow: "order" })).pending); // 1
   * await engine.close();
   * ```
   */
  async count(filter?: RunFilter): Promise<RunCounts> {
    const given = checkedOptions("count", filter, FILTER);
    const limit = checkedCountLimit(given);
    return cappedAt(limit, await this.#backend.count(queryOf(given)));
  }

  // ── working ──

  /**
   * Starts a worker in this process, which runs workflows and activities until `await worker.stop()` or `engine.close()`.
   * @throws `InvalidInputError` if an option is invalid.
   * @example
   * ```ts
   * const order = workflow("order", async () => "done");
   * const engine = await Holdfast.open("memory:");
   * const worker = await engine.worker({ workflows: [order], concurrency: 20, stopOn: ["SIGTERM"] });
   * console.log(await (await engine.start(order)).result()); // "done"
   * await worker.stop();
   * await engine.close();
   * ```
   */
  async worker(asked: WorkerOptions): Promise<Worker> {
    const options = checkedOptions("worker", asked, WORKER);
    const given = listed("worker.workflows", options.workflows as readonly AnyWorkflow[], isWorkflow);
    for (const { name } of given) checkedWorkflowName("worker", name);
    const workflows = new WorkflowTable("worker.workflows", given);
    const activities = byName("worker.activities", (options.activities ?? []) as readonly Activity<unknown, unknown>[], isActivity);
    const stopOn = checkedStopOn(options.stopOn);
    const { environment, definitions, logger } = this.#client;
    const worker = await this.#backend.startWorker({
      id: `worker-${environment.uuid().slice(0, 8)}`,
      queue: checkedText("worker", "queue", options.queue) ?? "default",
      workflows,
      activities,
      concurrency: wholeNumber(options, "concurrency", 100),
      activityConcurrency: wholeNumber(options, "activityConcurrency", 100),
      cachedRuns: wholeNumber(options, "cachedRuns", 1_000),
      lease: checkedLease(options.lease),
      gracePeriod: parseDuration(options.gracePeriod ?? "10s", "gracePeriod"),
      turnTimeout: parseDuration(options.turnTimeout ?? "2s", "turnTimeout"),
      determinism: checkedDeterminism(options.determinism),
    });
    const forget = definitions.serve(workflows);
    if (stopOn.length > 0) stopOnSignals(stopOn, worker, { logger, close: () => this.close() });
    void worker.stopped.then(() => {
      forget();
      forgetSignals(worker);
    });
    return new WorkerHandle(worker);
  }

  /**
   * Does something to every run that matches now and is older than the call. It is itself a run, which any worker carries out: durable,
   * cancellable, with its progress in `state()`.
   * @throws `InvalidInputError` for an empty filter, one with `limit` or `cursor`, and an invalid action.
   * @throws `UnsupportedError` on Temporal.
   * @example
   * ```ts
   * const wait = workflow("wait", (ctx) => ctx.sleep("1d"));
   * const engine = await Holdfast.open("memory:");
   * await engine.worker({ workflows: [wait] });
   * await engine.startMany(wait, [{ id: "a" }, { id: "b" }]);
   * const bulk = await engine.bulk({ workflow: "wait" }, { do: "cancel", reason: "cleaning up" });
   * console.log((await bulk.result()).succeeded); // 2
   * await engine.close();
   * ```
   */
  async bulk(filter: RunFilter, action: BulkAction): Promise<Run<BulkResult>> {
    const bulk = featureOf(this.#backend, "bulk");
    const selection = checkedBulkFilter(filter);
    const id = await bulk(
      selection,
      checkedBulkAction(action, (payload) => encoded(this.#client, payload, "the payload of the signal")),
    );
    return new RunHandle(this.#client, id, undefined) as unknown as Run<BulkResult>;
  }
  /**
   * The workers of all processes that are alive, busy or not: those that said so within the last half minute, or within two leases if that
   * is shorter.
   * @throws `UnsupportedError` on Temporal.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * const worker = await engine.worker({ workflows: [workflow("order", async () => {})] });
   * console.log((await engine.workers()).map((one) => one.id === worker.id)); // [true]
   * await engine.close();
   * ```
   */
  async workers(): Promise<WorkerInfo[]> {
    return (await featureOf(this.#backend, "workers")()).map(workerInfo);
  }

  /**
   * Stops the workers of this engine gracefully and closes its database. What is unfinished continues in other processes, or when the
   * engine is opened again. May be called again.
   * @example
   * ```ts
   * const engine = await Holdfast.open("memory:");
   * await engine.close();
   * const error = await engine.start("order").catch((error) => error);
   * console.log(error.code); // "HF_ENGINE_CLOSED"
   * ```
   */
  close(): Promise<void> {
    return this.#backend.close();
  }
  /** The same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function clientSettings(given: OpenOptions | undefined, environment: Environment): ClientSettings {
  const { codec = jsonCodec, logger = consoleLogger, limits } = checkedOptions("Holdfast.open", given, OPEN);
  return { codec: checkedCodec(codec), logger: checkedLogger(logger), limits: checkedLimits(limits), environment };
}
