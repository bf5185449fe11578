// `Holdfast`: what users open, start runs with, and run workers in.
// Owns: the checks of what users hand over; the engine does the rest.
// Invariants: bad input gets a typed error and nothing is written; P10 (ids and conflicts), K7 (deadlines), V2 (versions).

// Where people have no lib with it. Without "preserve" TypeScript drops the reference from what it emits.
/// <reference lib="esnext.disposable" preserve="true" />

import {
  type Activity,
  type ActivityInfo,
  type AnyWorkflow,
  type Codec,
  checkedId,
  checkedPriority,
  checkedText,
  type Duration,
  HoldfastError,
  type InputArgs,
  jsonCodec,
  type Limits,
  type Logger,
  parseDuration,
  type Queries,
  RunAlreadyExistsError,
  RunClosedError,
  type RunInfo,
  type RunStatus,
  type SignalSpec,
  type Signals,
  type UpdateOutput,
  type UpdateSent,
  type Updates,
  uncheckedSeed,
  type Workflow,
} from "@holdfast/core";
import {
  byName,
  declaredMessage,
  type Environment,
  isActivity,
  isWorkflow,
  listed,
  realEnvironment,
  timeOrderedId,
  validated,
} from "@holdfast/host";
import { stopOnSignals } from "@holdfast/host/node";
import { Engine, type EngineOptions } from "../engine/engine.ts";
import { WorkflowTable } from "../host/versions.ts";
import type { WorkerHost } from "../host/worker.ts";
import { consoleLogger } from "../logger.ts";
import { otherWorkflow } from "../store/conflicts.ts";
import { openStore } from "../store/open.ts";
import type { NewMessage, NewRun, Store } from "../store/port.ts";
import {
  checkedAttributes,
  checkedBeginning,
  checkedCodec,
  checkedConflict,
  checkedDefinition,
  checkedDeterminism,
  checkedItems,
  checkedLease,
  checkedLimit,
  checkedLimits,
  checkedLogger,
  checkedOptions,
  checkedRunId,
  checkedRunRetry,
  checkedSignals,
  checkedStopOn,
  checkedUpdate,
  checkedWorkflow,
  FILTER,
  invalid,
  moment,
  OPEN,
  queryOf,
  START,
  storedRunRetry,
  WORKER,
  wholeNumber,
} from "./options.ts";
import { RunHandle } from "./run.ts";
import type { Run, RunFilter, StartOptions, UpdateOptions, Worker, WorkerOptions } from "./types.ts";

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

/** Of `startMany`. */
const CHECKED_AT_ONCE = 500;

export class Holdfast implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #internals: Internals;

  protected constructor(engine: Engine, internals: Internals) {
    this.#engine = engine;
    this.#internals = internals;
  }

  /** "file:./app.db" (default file:.holdfast/holdfast.db), "memory:", "postgres://…". */
  static async open(url?: string, options?: OpenOptions): Promise<Holdfast> {
    const settings = engineSettings(options);
    const { namespace } = checkedOptions("Holdfast.open", options, OPEN);
    return Holdfast.#on({ store: await openStore(url, { logger: settings.logger, namespace }) }, settings);
  }
  /** On a store of your own. */
  static async with(internals: Internals, options?: OpenOptions): Promise<Holdfast> {
    return Holdfast.#on(internals, engineSettings(options));
  }
  static async #on(internals: Internals, settings: EngineSettings): Promise<Holdfast> {
    const { store, environment = realEnvironment } = internals;
    const engine = new Engine({ store, environment, ...settings });
    await engine.open();
    return new Holdfast(engine, internals);
  }

  // ── starting ──

  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; callers give `In`, whatever the workflow makes of it
  /** By name it takes the definition, with its version, that is the last of that name in the list of a worker of this engine. */
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<Run<unknown>>;
  start<In, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<any, O, S, U, Q, In>,
    ...args: InputArgs<NoInfer<In>, StartOptions<S>>
  ): Promise<Run<O, S, U, Q>>;
  async start(workflow: AnyWorkflow | string, input?: unknown, given?: StartOptions): Promise<Run<unknown>> {
    const options = checkedOptions("start", given, START);
    const definition = typeof workflow === "string" ? this.#engine.servedAs(workflow) : workflow;
    const run = await this.#newRun(workflow, input, options);
    return this.#handleOf(await this.#create(run, definition, options.tx), definition);
  }
  /** Starts the run, or finds it, and sends it an update that its first receive may accept. */
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
      throw invalid("updateWithStart", "An update can't be sent in a transaction: its outcome comes after the commit.", "tx");
    const run = await this.#newRun(workflow, input, { onConflict: "use-existing", ...options });
    const message = await new RunHandle(this.#engine, run.id, workflow).updateMessage(update.name, update.input, update);
    const created = await this.#engine.start({ ...run, messages: [...(run.messages ?? []), message] }, workflow);
    const other = created.status === "conflict" ? otherWorkflow(created, run) : undefined;
    if (created.status === "conflict" && (run.onConflict === "reject" || other !== undefined))
      throw new RunAlreadyExistsError({ runId: run.id, workflow: other });
    // M10: the send is repeated under the same id, so that an update that ended before the run closed still has its outcome.
    const handle = new RunHandle(this.#engine, created.id, workflow, true);
    const { name, input: sent, timeout, acceptWithin } = update;
    const waits = { ...(timeout !== undefined && { timeout }), ...(acceptWithin !== undefined && { acceptWithin }) };
    const result = await handle.update(name, sent, { idempotencyKey: message.job.id, ...waits });
    return { run: handle as unknown as Run<unknown>, result };
  }
  /**
   * All of them are checked before any is started. What clashes with a run that exists, or with one before it in the list, is told of
   * together once all others are started.
   */
  startMany<In, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<any, O, S, U, Q, In>,
    items: Iterable<(undefined extends In ? { input?: NoInfer<In> } : { input: NoInfer<In> }) & StartOptions<NoInfer<S>>>,
  ): Promise<Run<O, S, U, Q>[]>;
  async startMany(workflow: AnyWorkflow, items: Iterable<{ input?: unknown } & StartOptions>): Promise<Run<unknown>[]> {
    const given = checkedItems(items);
    const runs = await this.#newRuns(workflow, given);
    const ends = await Promise.allSettled(runs.map((run, i) => this.#create(run, workflow, given[i]?.tx)));
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    if (failures.length > 0) throw startFailure(failures, runs.length);
    return ends.map((end) => this.#handleOf(end.status === "fulfilled" ? end.value : "", workflow));
  }
  // biome-ignore-end lint/suspicious/noExplicitAny: end of the inference helpers

  /** All of them before any is created. Other work of the process has a turn now and then: to check and encode thousands takes a while. */
  async #newRuns(workflow: AnyWorkflow, items: readonly ({ input?: unknown } & StartOptions)[]): Promise<NewRun[]> {
    const runs: NewRun[] = [];
    for (let from = 0; from < items.length; from += CHECKED_AT_ONCE) {
      if (from > 0) await new Promise<void>((done) => this.#engine.environment.soon(done));
      const some = items.slice(from, from + CHECKED_AT_ONCE);
      runs.push(...(await Promise.all(some.map(({ input, ...options }) => this.#newRun(workflow, input, options)))));
    }
    return runs;
  }
  /** The id of the run that was created, or found: under an idempotency key it may be another than was asked for (M3). */
  async #create(run: NewRun, definition: AnyWorkflow | undefined, tx: unknown): Promise<string> {
    const result = await this.#engine.start(run, definition, tx);
    if (result.status !== "conflict") return result.id;
    const workflow = otherWorkflow(result, run);
    if (run.onConflict === "use-existing" && workflow === undefined) throw new RunClosedError({ runId: run.id, status: result.runStatus });
    throw new RunAlreadyExistsError({ runId: run.id, workflow });
  }
  async #newRun(workflow: AnyWorkflow | string, input: unknown, options: StartOptions): Promise<NewRun> {
    this.#engine.assertOpen();
    const given = checkedWorkflow(workflow);
    const definition = typeof given === "string" ? this.#engine.servedAs(given) : given;
    const name = typeof given === "string" ? given : given.name;
    const { value } = await validated(`the input of workflow ${name}`, definition?.options.input as never, input);
    const deadline = options.deadline ?? definition?.options.deadline;
    return {
      id: checkedId("start", options.id) ?? timeOrderedId(this.#engine.environment),
      workflow: name,
      version: checkedText("start", "version", options.version) ?? definition?.version,
      input: this.#engine.encode(value, `the input of workflow ${name}`),
      queue: checkedText("start", "queue", options.queue) ?? "default",
      priority: checkedPriority("start", options.priority) ?? 0,
      ...checkedBeginning(options),
      deadline: deadline === undefined || deadline instanceof Date ? undefined : parseDuration(deadline as Duration),
      deadlineAt: deadline instanceof Date ? moment("start", "deadline", deadline) : undefined,
      retry: storedRunRetry(checkedRunRetry(options.retry) ?? definition?.options.retry),
      attributes: checkedAttributes(options.attributes),
      idempotencyKey: checkedText("start", "idempotencyKey", options.idempotencyKey),
      onConflict: checkedConflict(options.onConflict),
      seed: definition === undefined ? uncheckedSeed(this.#engine.environment.uuid()) : this.#engine.environment.uuid(),
      messages: options.signals === undefined ? undefined : await this.#startSignals(definition, checkedSignals(options.signals)),
    };
  }
  async #startSignals(workflow: AnyWorkflow | undefined, signals: NonNullable<StartOptions["signals"]>): Promise<NewMessage[]> {
    return Promise.all(
      signals.map(async ({ name, payload }): Promise<NewMessage> => {
        const spec = declaredMessage<SignalSpec<unknown>>(workflow, "signals", name);
        await validated(`signal ${name}`, spec?.schema as never, payload); // the receiver makes of it what the schema does
        return {
          job: { type: "signal", id: this.#engine.environment.uuid(), name, payload: this.#engine.encode(payload, `signal ${name}`) },
        };
      }),
    );
  }

  // ── finding ──

  run(id: string): Run<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; what it is started with does not matter to a handle
  run<O, S extends Signals, U extends Updates, Q extends Queries>(id: string, workflow: Workflow<any, O, S, U, Q, any>): Run<O, S, U, Q>;
  run(id: string, workflow?: AnyWorkflow): Run<unknown> {
    return new RunHandle(this.#engine, checkedRunId(id), checkedDefinition("run", workflow)) as unknown as Run<unknown>;
  }
  /** Of a run that was started or found: it is of that workflow. */
  #handleOf(id: string, workflow: AnyWorkflow | undefined): Run<unknown> {
    return new RunHandle(this.#engine, id, workflow, true) as unknown as Run<unknown>;
  }
  async list(given?: RunFilter): Promise<{ runs: RunInfo[]; cursor: string | undefined }> {
    const filter = checkedOptions("list", given, FILTER);
    const limit = checkedLimit(filter.limit);
    const after = checkedText("list", "cursor", filter.cursor, Number.POSITIVE_INFINITY);
    const { runs, cursor } = await this.#engine.readable.list({ ...queryOf(filter), limit, cursor: after });
    return { runs: runs.map((row) => this.#engine.infoOf(row)), cursor };
  }
  async count(filter?: RunFilter): Promise<Record<RunStatus, number>> {
    return this.#engine.readable.count(queryOf(checkedOptions("count", filter, FILTER)));
  }

  // ── working ──

  /** Starts at once; `await worker.stop()` for a graceful end. */
  async worker(asked: WorkerOptions): Promise<Worker> {
    this.#engine.assertOpen();
    const options = checkedOptions("worker", asked, WORKER);
    const given = listed("worker.workflows", options.workflows as readonly AnyWorkflow[], isWorkflow);
    const workflows = new WorkflowTable("worker.workflows", given);
    const activities = byName("worker.activities", (options.activities ?? []) as readonly Activity<unknown, unknown>[], isActivity);
    const stopOn = checkedStopOn(options.stopOn);
    const { environment } = this.#engine;
    const turnTimeout = parseDuration(options.turnTimeout ?? "2s");
    const host = await this.#engine.startWorker({
      id: `worker-${environment.uuid().slice(0, 8)}`,
      queue: checkedText("worker", "queue", options.queue) ?? "default",
      workflows,
      activities,
      concurrency: wholeNumber(options, "concurrency", 100),
      activityConcurrency: wholeNumber(options, "activityConcurrency", 100),
      cachedRuns: wholeNumber(options, "cachedRuns", 1_000),
      lease: checkedLease(options.lease),
      gracePeriod: parseDuration(options.gracePeriod ?? "10s"),
      turnTimeout,
      watchdogAfter: Math.max(this.#internals.watchdogAfter ?? 5_000, 2 * turnTimeout),
      determinism: checkedDeterminism(options.determinism),
      maxRecoveries: 100,
      pollInterval: 1_000,
      replaceStep: this.#internals.replaceStep ?? (() => undefined),
      replaceActivity: this.#internals.replaceActivity ?? (() => undefined),
    });
    if (stopOn.length > 0) stopOnSignals(stopOn, host, this.#engine);
    return new WorkerHandle(host);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

type EngineSettings = Pick<EngineOptions, "codec" | "logger" | "limits">;

function engineSettings(given: OpenOptions | undefined): EngineSettings {
  const { codec = jsonCodec, logger = consoleLogger, limits } = checkedOptions("Holdfast.open", given, OPEN);
  return { codec: checkedCodec(codec), logger: checkedLogger(logger), limits: checkedLimits(limits) };
}

/** One error for all that could not be started; the others are. */
function startFailure(failures: readonly unknown[], all: number): unknown {
  const [first] = failures;
  if (failures.length === 1) return first; // of an id that is taken it names it in `runIds`, as with many
  const taken = failures.flatMap((failure) => (failure instanceof RunAlreadyExistsError ? [failure.runId] : []));
  if (taken.length === failures.length) return new RunAlreadyExistsError({ runId: taken[0] ?? "", runIds: taken });
  const why = failures.map((failure) => (failure instanceof Error ? failure.message.split("\n", 1)[0] : String(failure)));
  return new HoldfastError(`${failures.length} of ${all} runs could not be started: ${why.join("; ")}`, {
    code: "HF_START_FAILED",
    cause: new AggregateError(failures, "Some runs could not be started."),
  });
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
