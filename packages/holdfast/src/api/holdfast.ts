// `Holdfast`: opens an engine, starts and finds runs, and runs workers.
// Owns: checking and encoding what users pass, and turning the backend's answers into errors. The backend does the rest.
// Invariants: invalid input is a typed error, and nothing is written; P10 (ids and conflicts), K7 (deadlines), V2 (versions).

// For projects whose `lib` lacks it. Without "preserve" TypeScript drops the reference from its output.
/// <reference lib="esnext.disposable" preserve="true" />

import {
  type Activity,
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
  storedRunRetry,
  timeOrderedId,
  validated,
  WorkflowTable,
} from "@holdfast/host";
import { forgetSignals, stopOnSignals } from "@holdfast/host/node";
import type { Backend, Message, RunStart, SignalJob, StartAnswer } from "../backend/port.ts";
import { Engine, type EngineInternals } from "../engine/engine.ts";
import type { Store } from "../store/port.ts";
import { type Client, type ClientSettings, encoded } from "./client.ts";
import { Definitions } from "./definitions.ts";
import { consoleLogger } from "./logger.ts";
import { openBackend } from "./open.ts";
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
  WORKER,
  wholeNumber,
} from "./options.ts";
import { RunHandle } from "./run.ts";
import { runInfo } from "./runInfo.ts";
import type { Run, RunFilter, StartOptions, UpdateOptions, Worker, WorkerOptions } from "./types.ts";
import { WorkerHandle } from "./worker.ts";

export interface OpenOptions {
  /** Encodes all user values. Default: `jsonCodec`. Every process that uses the runs needs the same codec. */
  codec?: Codec;
  /** On Postgres: a separate schema. Other stores have only "default", which is the default. */
  namespace?: string;
  /** Default: warnings and errors go to the console. */
  logger?: Logger;
  /** Upper bounds for payloads and histories. Default: `DEFAULT_LIMITS`. */
  limits?: Partial<Limits>;
}

/** Your own store, or a backend that is already open. Tests replace more. */
export type Internals = (({ readonly store: Store } & EngineInternals) | { readonly backend: Backend }) & {
  /** Default: the real environment. */
  readonly environment?: Environment;
};

/** Number of runs that `startMany` checks before it yields to other work of the process. */
const CHECKED_AT_ONCE = 500;

export class Holdfast implements AsyncDisposable {
  readonly #backend: Backend;
  readonly #client: Client;

  protected constructor(backend: Backend, client: ClientSettings) {
    this.#backend = backend;
    this.#client = { ...client, backend, definitions: new Definitions() };
  }

  /**
   * Opens an engine: "file:./app.db" (default file:.holdfast/holdfast.db), "memory:", "postgres://…", "temporal://host:7233/namespace".
   * Throws InvalidInputError for an invalid URL or option.
   */
  static async open(url?: string, options?: OpenOptions): Promise<Holdfast> {
    const client = clientSettings(options, realEnvironment);
    const { namespace } = checkedOptions("Holdfast.open", options, OPEN);
    return new Holdfast(await openBackend(url, { ...client, namespace }, realEnvironment), client);
  }
  /** Opens an engine on your own store or backend. */
  static async with(internals: Internals, options?: OpenOptions): Promise<Holdfast> {
    const { environment = realEnvironment } = internals;
    const client = clientSettings(options, environment);
    if ("backend" in internals) return new Holdfast(internals.backend, client);
    const engine = new Engine({ ...client, environment, store: internals.store, internals });
    await engine.open();
    return new Holdfast(engine, client);
  }

  // ── starting ──

  // biome-ignore-start lint/suspicious/noExplicitAny: inference helpers; callers pass `In`, whatever the schema transforms it to
  /**
   * Starts a run and resolves once it is durable. A start by name uses the last definition of that name in the list of a worker of this
   * engine.
   */
  start(workflow: string, input?: unknown, options?: StartOptions): Promise<Run<unknown>>;
  start<In, O, S extends Signals, U extends Updates, Q extends Queries>(
    workflow: Workflow<any, O, S, U, Q, In>,
    ...args: InputArgs<NoInfer<In>, StartOptions<S>>
  ): Promise<Run<O, S, U, Q>>;
  async start(workflow: AnyWorkflow | string, input?: unknown, given?: StartOptions): Promise<Run<unknown>> {
    const options = checkedOptions("start", given, START);
    const definition = typeof workflow === "string" ? this.#client.definitions.servedAs(workflow) : workflow;
    const run = await this.#newRun(workflow, input, options);
    return this.#handleOf(await this.#create(run, definition, options.tx), definition);
  }
  /** Starts the run, or finds it, and sends it an update, which its first `receive` may accept. Resolves with the reply. */
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
    const run = await this.#newRun(workflow, input, { onConflict: "use-existing", ...options });
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
   * Starts many runs. All of them are checked before any is started. Conflicts with existing runs, or with earlier runs in the list, are
   * reported together once all others are started.
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
      runs.push(...(await Promise.all(some.map(({ input, ...options }) => this.#newRun(workflow, input, options)))));
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
  async #newRun(workflow: AnyWorkflow | string, input: unknown, options: StartOptions): Promise<RunStart> {
    const { definitions, environment } = this.#client;
    const given = checkedWorkflow(workflow);
    const definition = typeof given === "string" ? definitions.servedAs(given) : given;
    const name = typeof given === "string" ? given : given.name;
    const { value } = await validated(`the input of workflow ${name}`, definition?.options.input as never, input);
    const deadline = options.deadline ?? definition?.options.deadline;
    return {
      id: checkedId("start", options.id) ?? timeOrderedId(environment),
      workflow: name,
      version: checkedText("start", "version", options.version) ?? definition?.version,
      input: encoded(this.#client, value, `the input of workflow ${name}`),
      isChecked: definition !== undefined,
      queue: checkedText("start", "queue", options.queue) ?? "default",
      priority: checkedPriority("start", options.priority) ?? 0,
      ...checkedBeginning(options),
      deadline: deadline === undefined || deadline instanceof Date ? undefined : parseDuration(deadline as Duration),
      deadlineAt: deadline instanceof Date ? moment("start", "deadline", deadline) : undefined,
      retry: storedRunRetry(checkedRunRetry(options.retry) ?? definition?.options.retry),
      attributes: checkedAttributes(options.attributes),
      idempotencyKey: checkedText("start", "idempotencyKey", options.idempotencyKey),
      onConflict: checkedConflict(options.onConflict),
      seed: definition === undefined ? uncheckedSeed(environment.uuid()) : environment.uuid(),
      messages: options.signals === undefined ? undefined : await this.#startSignals(definition, checkedSignals(options.signals)),
    };
  }
  async #startSignals(workflow: AnyWorkflow | undefined, signals: NonNullable<StartOptions["signals"]>): Promise<Message<SignalJob>[]> {
    return Promise.all(
      signals.map(async ({ name, payload }): Promise<Message<SignalJob>> => {
        const spec = declaredMessage<SignalSpec<unknown>>(workflow, "signals", name);
        await validated(`signal ${name}`, spec?.schema as never, payload); // only checked: the receiver's schema transforms it
        const id = this.#client.environment.uuid();
        return { job: { type: "signal", id, name, payload: encoded(this.#client, payload, `signal ${name}`) } };
      }),
    );
  }

  // ── finding ──

  /** A handle on a run, which need not exist yet: the first call on it throws RunNotFoundError if it does not. */
  run(id: string): Run<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: inference helper; a handle does not depend on the input
  run<O, S extends Signals, U extends Updates, Q extends Queries>(id: string, workflow: Workflow<any, O, S, U, Q, any>): Run<O, S, U, Q>;
  run(id: string, workflow?: AnyWorkflow): Run<unknown> {
    return new RunHandle(this.#client, checkedRunId(id), checkedDefinition("run", workflow)) as unknown as Run<unknown>;
  }
  /** The handle on a run that was just started or found, so its workflow is known. */
  #handleOf(id: string, workflow: AnyWorkflow | undefined): Run<unknown> {
    return new RunHandle(this.#client, id, workflow, true) as unknown as Run<unknown>;
  }
  /** Newest first, one page at a time. `cursor` is undefined on the last page. */
  async list(given?: RunFilter): Promise<{ runs: RunInfo[]; cursor: string | undefined }> {
    const filter = checkedOptions("list", given, FILTER);
    const limit = checkedLimit(filter.limit);
    const after = checkedText("list", "cursor", filter.cursor, Number.POSITIVE_INFINITY);
    const { runs, cursor } = await this.#backend.list({ ...queryOf(filter), limit, cursor: after });
    return { runs: runs.map((run) => runInfo(run, this.#client.codec)), cursor };
  }
  /** The number of matching runs by status. */
  async count(filter?: RunFilter): Promise<Record<RunStatus, number>> {
    return this.#backend.count(queryOf(checkedOptions("count", filter, FILTER)));
  }

  // ── working ──

  /** Starts a worker in this process. `await worker.stop()` stops it gracefully. */
  async worker(asked: WorkerOptions): Promise<Worker> {
    const options = checkedOptions("worker", asked, WORKER);
    const given = listed("worker.workflows", options.workflows as readonly AnyWorkflow[], isWorkflow);
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
      gracePeriod: parseDuration(options.gracePeriod ?? "10s"),
      turnTimeout: parseDuration(options.turnTimeout ?? "2s"),
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

  /** Stops the workers of this engine gracefully and closes its database. */
  close(): Promise<void> {
    return this.#backend.close();
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function clientSettings(given: OpenOptions | undefined, environment: Environment): ClientSettings {
  const { codec = jsonCodec, logger = consoleLogger, limits } = checkedOptions("Holdfast.open", given, OPEN);
  return { codec: checkedCodec(codec), logger: checkedLogger(logger), limits: checkedLimits(limits), environment };
}

/** The id of the run that a start has created or found. Throws the error for the caller if there is none. */
function startedId(run: RunStart, answer: StartAnswer): string {
  if (answer.status === "failed") throw answer.error;
  if (answer.status !== "conflict") return answer.id;
  const workflow = otherWorkflow(run, answer);
  if (run.onConflict === "use-existing" && workflow === undefined) throw new RunClosedError({ runId: run.id, status: answer.runStatus });
  throw new RunAlreadyExistsError({ runId: run.id, workflow });
}
/** The id of the existing run, if the start could not send to it because it has closed. */
function closedId(run: RunStart, answer: StartAnswer): string | undefined {
  const isClosed = answer.status === "conflict" && run.onConflict !== "reject" && otherWorkflow(run, answer) === undefined;
  return isClosed ? answer.id : undefined;
}
/** M3: the workflow of the existing run, if it differs from the one that the start names. */
function otherWorkflow({ workflow }: RunStart, conflict: Extract<StartAnswer, { status: "conflict" }>): string | undefined {
  return conflict.workflow === workflow ? undefined : conflict.workflow;
}

/** One error for all runs that could not be started. The others were started. */
function startFailure(failures: readonly unknown[], all: number): unknown {
  const [first] = failures;
  if (failures.length === 1) return first; // it lists the conflicting id in `runIds`, as for many
  const taken = failures.flatMap((failure) => (failure instanceof RunAlreadyExistsError ? [failure.runId] : []));
  if (taken.length === failures.length) return new RunAlreadyExistsError({ runId: taken[0] ?? "", runIds: taken });
  const why = failures.map((failure) => (failure instanceof Error ? failure.message.split("\n", 1)[0] : String(failure)));
  return new HoldfastError(`${failures.length} of ${all} runs could not be started: ${why.join("; ")}`, {
    code: "HF_START_FAILED",
    cause: new AggregateError(failures, "Some runs could not be started."),
  });
}
