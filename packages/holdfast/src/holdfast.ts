// `Holdfast`: what users open, start runs with, and run workers in.
// Owns: the checks of what users hand over; the engine does the rest.
// Invariants: bad input gets a typed error and nothing is written; P10 (ids and conflicts), K7 (deadlines), V2 (versions).

import {
  type Activity,
  type ActivityInfo,
  type AnyWorkflow,
  type Codec,
  type Duration,
  InvalidInputError,
  jsonCodec,
  type Limits,
  type Logger,
  parseDuration,
  type Queries,
  type RetryPolicy,
  RunAlreadyExistsError,
  RunClosedError,
  type RunInfo,
  type RunStatus,
  resolveRetry,
  type Signals,
  type StoredRetryPolicy,
  type StoredRunRetry,
  type UpdateInput,
  type UpdateOutput,
  type Updates,
  validateRetry,
  type Workflow,
} from "@holdfast/core";
import { Engine } from "./engine.ts";
import { byName, isActivity, isWorkflow, validated } from "./host/definitions.ts";
import { type Environment, realEnvironment, timeOrderedId } from "./host/environment.ts";
import type { Determinism } from "./host/guard.ts";
import type { WorkerHost } from "./host/worker.ts";
import { consoleLogger } from "./logger.ts";
import { RunHandle, refuseTx } from "./run.ts";
import { openStore } from "./store/open.ts";
import type { NewMessage, NewRun, Store } from "./store/port.ts";
import type { Run, RunFilter, SendOptions, StartOptions, Worker, WorkerOptions } from "./surface.ts";

export interface OpenOptions {
  codec?: Codec;
  namespace?: string;
  logger?: Logger;
  limits?: Partial<Limits>;
}

/** What tests and the simulation put in place of the real thing. */
export interface Internals {
  readonly store: Store;
  /** Default: the real one. */
  readonly environment?: Environment;
  /** The shortest turn that the watchdog tells of, in milliseconds. Default 5,000. */
  readonly watchdogAfter?: number;
  readonly replaceStep?: (name: string) => ((info: unknown) => unknown) | undefined;
  readonly replaceActivity?: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;
}

const STATUSES: ReadonlySet<string> = new Set<RunStatus>([
  "pending",
  "running",
  "sleeping",
  "blocked",
  "rolling_back",
  "completed",
  "failed",
  "canceled",
  "terminated",
  "continued",
]);

export class Holdfast implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #internals: Internals;

  protected constructor(engine: Engine, internals: Internals) {
    this.#engine = engine;
    this.#internals = internals;
  }

  /** "file:./app.db" (default file:.holdfast/holdfast.db), "memory:", "postgres://…", "temporal://host:7233/namespace?queue=…". */
  static async open(url?: string, options: OpenOptions = {}): Promise<Holdfast> {
    if (options.namespace !== undefined && options.namespace !== "default") {
      throw invalid("Holdfast.open", "This store keeps one namespace. Use a file of its own for another.", "namespace");
    }
    return Holdfast.with({ store: await openStore(url) }, options);
  }
  /** On a store of your own. */
  static async with(internals: Internals, options: OpenOptions = {}): Promise<Holdfast> {
    const engine = new Engine({
      store: internals.store,
      environment: internals.environment ?? realEnvironment,
      codec: options.codec ?? jsonCodec,
      logger: options.logger ?? consoleLogger,
      limits: options.limits ?? {},
    });
    await engine.open();
    return new Holdfast(engine, internals);
  }

  // ── starting ──

  start<I, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<I, O, S, U, Q>,
    input: I,
    options?: StartOptions,
  ): Promise<Run<O, S, U, Q>>;
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<Run<unknown>>;
  async start(workflow: AnyWorkflow | string, input?: unknown, options: StartOptions = {}): Promise<Run<unknown>> {
    const definition = typeof workflow === "string" ? this.#engine.workflowNamed(workflow) : workflow;
    const run = await this.#newRun(workflow, input, options);
    await this.#create(run, definition);
    return this.#handle(run.id, definition);
  }
  /** Starts the run, or finds it, and sends it an update that its first receive may accept. */
  async updateWithStart<I, O, S extends Signals, U extends Updates, Q extends Queries, K extends keyof U & string>(
    workflow: Workflow<I, O, S, U, Q>,
    input: I,
    update: { name: K; input: UpdateInput<U[K]> } & SendOptions,
    options: StartOptions = {},
  ): Promise<{ run: Run<O, S, U, Q>; result: UpdateOutput<U[K]> }> {
    const run = await this.#newRun(workflow, input, { onConflict: "use-existing", ...options });
    const handle = new RunHandle(this.#engine, run.id, workflow);
    const message = await handle.updateMessage(update.name, update.input, update);
    await this.#create({ ...run, messages: [...(run.messages ?? []), message] }, workflow);
    const result = (await handle.update(update.name, update.input, { idempotencyKey: message.job.id })) as UpdateOutput<U[K]>;
    return { run: this.#handle(run.id, workflow) as unknown as Run<O, S, U, Q>, result };
  }
  async startMany<I, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<I, O, S, U, Q>,
    items: Iterable<{ input: I } & StartOptions>,
  ): Promise<Run<O, S, U, Q>[]> {
    const runs = await Promise.all([...items].map(({ input, ...options }) => this.#newRun(workflow, input, options)));
    await Promise.all(runs.map((run) => this.#create(run, workflow)));
    return runs.map((run) => this.#handle(run.id, workflow) as unknown as Run<O, S, U, Q>);
  }
  async #create(run: NewRun, workflow: AnyWorkflow | undefined): Promise<void> {
    const result = await this.#engine.start(run, workflow);
    if (result.status !== "conflict") return;
    if (run.onConflict === "use-existing") throw new RunClosedError({ runId: run.id, status: result.runStatus });
    throw new RunAlreadyExistsError({ runId: run.id });
  }
  async #newRun(workflow: AnyWorkflow | string, input: unknown, options: StartOptions): Promise<NewRun> {
    this.#engine.assertOpen();
    refuseTx("start", options);
    const definition = typeof workflow === "string" ? this.#engine.workflowNamed(workflow) : workflow;
    const name = typeof workflow === "string" ? workflow : workflow.name;
    if (typeof name !== "string" || name === "") throw invalid("start", "Give a workflow, or the name of one.");
    const value = await validated(`the input of workflow ${name}`, definition?.options.input as never, input);
    const deadline = options.deadline ?? definition?.options.deadline;
    return {
      id: checkedId(options.id) ?? timeOrderedId(this.#engine.environment),
      workflow: name,
      version: options.version ?? definition?.version,
      input: this.#engine.encode(value, `the input of workflow ${name}`),
      queue: options.queue ?? "default",
      priority: checkedPriority(options.priority ?? 0),
      delay: options.delay === undefined ? undefined : parseDuration(options.delay),
      startAt: options.startAt === undefined ? undefined : moment("startAt", options.startAt),
      deadline: deadline === undefined || deadline instanceof Date ? undefined : parseDuration(deadline as Duration),
      deadlineAt: deadline instanceof Date ? moment("deadline", deadline) : undefined,
      retry: storedRunRetry(options.retry ?? definition?.options.retry),
      attributes: checkedAttributes(options.attributes ?? {}),
      idempotencyKey: options.idempotencyKey,
      onConflict: options.onConflict ?? "reject",
      seed: this.#engine.environment.uuid(),
      messages: options.signals === undefined ? undefined : await this.#startSignals(definition, options.signals),
    };
  }
  async #startSignals(workflow: AnyWorkflow | undefined, signals: NonNullable<StartOptions["signals"]>): Promise<NewMessage[]> {
    const specs = (workflow?.options.signals ?? {}) as Readonly<Record<string, { schema?: unknown }>>;
    return Promise.all(
      signals.map(async ({ name, payload }): Promise<NewMessage> => {
        const value = await validated(`signal ${name}`, specs[name]?.schema as never, payload);
        return {
          job: { type: "signal", id: this.#engine.environment.uuid(), name, payload: this.#engine.encode(value, `signal ${name}`) },
        };
      }),
    );
  }

  // ── finding ──

  run<I, O, S extends Signals, U extends Updates, Q extends Queries>(id: string, workflow?: Workflow<I, O, S, U, Q>): Run<O, S, U, Q> {
    return this.#handle(id, workflow) as unknown as Run<O, S, U, Q>;
  }
  #handle(id: string, workflow: AnyWorkflow | undefined): Run<unknown> {
    return new RunHandle(this.#engine, id, workflow) as unknown as Run<unknown>;
  }
  async list(filter: RunFilter = {}): Promise<{ runs: RunInfo[]; cursor: string | undefined }> {
    const limit = filter.limit ?? 100;
    if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) throw invalid("list", "limit is a whole number from 1 to 1,000.", "limit");
    const { runs, cursor } = await this.#engine.store.list({ ...queryOf(filter), limit, cursor: filter.cursor });
    return { runs: runs.map((row) => this.#engine.infoOf(row)), cursor };
  }
  count(filter: RunFilter = {}): Promise<Record<RunStatus, number>> {
    return this.#engine.store.count(queryOf(filter));
  }

  // ── working ──

  /** Starts at once; `await worker.stop()` for a graceful end. */
  async worker(options: WorkerOptions): Promise<Worker> {
    const workflows = byName("worker.workflows", options.workflows as readonly AnyWorkflow[], isWorkflow);
    const activities = byName("worker.activities", (options.activities ?? []) as readonly Activity<unknown, unknown>[], isActivity);
    const whole = (key: "concurrency" | "activityConcurrency" | "cachedRuns", fallback: number, least: number): number => {
      const value = options[key] ?? fallback;
      if (!Number.isInteger(value) || value < least)
        throw invalid("worker", `${key} is a whole number of at least ${least}, not ${value}.`, key);
      return value;
    };
    const { environment } = this.#engine;
    const turnTimeout = parseDuration(options.turnTimeout ?? "2s");
    const host = await this.#engine.startWorker({
      id: `worker-${environment.uuid().slice(0, 8)}`,
      queue: options.queue ?? "default",
      workflows,
      activities,
      concurrency: whole("concurrency", 100, 1),
      activityConcurrency: whole("activityConcurrency", 100, 1),
      cachedRuns: whole("cachedRuns", 1_000, 0),
      lease: parseDuration(options.lease ?? "30s"),
      gracePeriod: parseDuration(options.gracePeriod ?? "10s"),
      turnTimeout,
      watchdogAfter: Math.max(this.#internals.watchdogAfter ?? 5_000, 2 * turnTimeout),
      determinism: checkedDeterminism(options.determinism),
      maxRecoveries: 100,
      pollInterval: 1_000,
      replaceStep: this.#internals.replaceStep ?? (() => undefined),
      replaceActivity: this.#internals.replaceActivity ?? (() => undefined),
    });
    for (const signal of options.stopOn ?? []) stopOnSignal(signal, host, this.#engine);
    return new WorkerHandle(host);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

class WorkerHandle implements Worker {
  readonly #host: WorkerHost;
  constructor(host: WorkerHost) {
    this.#host = host;
  }
  get id(): string {
    return this.#host.id;
  }
  get active(): number {
    return this.#host.active;
  }
  stop(): Promise<void> {
    return this.#host.stop();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** W4: the signal stops the worker gracefully and the process exits 0; a second one ends it. */
function stopOnSignal(signal: "SIGTERM" | "SIGINT", host: WorkerHost, engine: Engine): void {
  let asked = false;
  process.on(signal, () => {
    if (asked) process.exit(signal === "SIGINT" ? 130 : 143);
    asked = true;
    host
      .stop()
      .then(() => engine.close())
      .then(
        () => process.exit(0),
        (error: unknown) => {
          engine.logger.error("The worker could not stop cleanly.", { error });
          process.exit(1);
        },
      );
  });
}

// ── checks ──

function invalid(what: string, message: string, path?: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [path === undefined ? { message } : { message, path: [path] }] });
}
function checkedId(id: string | undefined): string | undefined {
  if (id === undefined) return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof id !== "string" || id === "" || id.length > 512 || /[\u0000-\u001f\u007f]/.test(id)) {
    throw invalid("start", "An id is text of 1 to 512 characters without control characters.", "id");
  }
  return id;
}
function checkedPriority(priority: number): number {
  if (!Number.isInteger(priority) || Math.abs(priority) > 1_000_000)
    throw invalid("start", `priority is a whole number, not ${priority}.`, "priority");
  return priority;
}
function checkedDeterminism(mode: WorkerOptions["determinism"]): Determinism {
  if (mode === undefined) return process.env["NODE_ENV"] === "production" ? "off" : "warn";
  if (!["off", "warn", "error"].includes(mode))
    throw invalid("worker", `determinism is "off", "warn" or "error", not ${String(mode)}.`, "determinism");
  return mode;
}
function moment(key: string, date: Date): number {
  const time = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isNaN(time)) throw invalid("start", `${key} is not a valid Date.`, key);
  return time;
}
function checkedAttributes(attributes: Record<string, string | number | boolean>): Record<string, string | number | boolean> {
  for (const [key, value] of Object.entries(attributes)) {
    if (!["string", "number", "boolean"].includes(typeof value))
      throw invalid("start", `attribute "${key}" must be text, a number or a boolean.`, key);
  }
  return { ...attributes };
}
function storedRunRetry(retry: RetryPolicy | StoredRetryPolicy | undefined): StoredRunRetry | undefined {
  if (retry === undefined) return undefined;
  validateRetry(retry);
  const { nonRetryable } = retry;
  const resolved = resolveRetry(retry, "run");
  return Array.isArray(nonRetryable) ? { ...resolved, nonRetryable: nonRetryable as readonly string[] } : resolved;
}
function queryOf(filter: RunFilter) {
  const status = filter.status === undefined ? undefined : typeof filter.status === "string" ? [filter.status] : filter.status;
  for (const one of status ?? []) if (!STATUSES.has(one)) throw invalid("list", `There is no status "${one}".`, "status");
  return {
    status,
    workflow: filter.workflow,
    queue: filter.queue,
    parentId: filter.parentId,
    attributes: filter.attributes,
    since: filter.since?.getTime(),
    until: filter.until?.getTime(),
  };
}
