// A worker on a Temporal cluster: takes tasks from Core and hands them to its runs and to the functions of steps and activities.
// Owns: the Core workers (runs and activities of the queue, steps of its own runs, steps of runs whose worker was lost), the runs in
// memory, and the order of starting and stopping.
// Invariants: W4 (a worker that stops takes nothing new, waits for what is in progress, then gives the rest back), V4 (a run that this
// worker can't advance is tried again by the server, and never failed), X8 (turns begin in fresh macrotasks).

import {
  type Codec,
  HoldfastError,
  InvalidInputError,
  type Limits,
  type Logger,
  messageOf,
  type Payload,
  type RunningTurn,
  serializeError,
  type Turn,
  type TurnWatch,
  toError,
} from "@holdfast/core";
import { BlockedLog, blockedReason, type Environment, isBrokenRule, type Timer, TurnQueue, tolerateRejections } from "@holdfast/host";
import { codeOf, DeterminismGuard, unguardedCodec, Watchdog } from "@holdfast/host/node";
import type { BackendWorker, RunSnapshot, WorkerSettings } from "holdfast/backend";
import type { ActivationCompletion, Connection, CoreWorker, TemporalHistory, WorkflowActivation } from "../bridge.ts";
import { evictionOf } from "../evictions.ts";
import { toFailure } from "../failures.ts";
import { startHeader } from "../headers.ts";
import { downloadHistory } from "../history.ts";
import type { Payloads, TemporalPayload } from "../payloads.ts";
import type { Timing } from "../timing.ts";
import { Rehydration } from "./rehydration.ts";
import { HostedRun } from "./run.ts";
import type { RunWorker } from "./runWorker.ts";
import { ownQueueOf, stepQueueOf } from "./schedules.ts";
import { Tasks } from "./tasks.ts";

/** Steps of the worker's own runs at a time: they are limited by its runs, not by this number. */
const OWN_STEPS = 1_000;
const SHORTEST_WATCHDOG = 5_000;
/** Runs that are remembered because a step of theirs broke a rule. */
const MOST_BROKEN = 1_000;
/** Milliseconds that the server waits for the answer to a task, unless a start says otherwise. */
const TASK_TIMEOUT = 10_000;
/** Milliseconds after the grace period in which a worker that stops tries to reach the server. */
const UNREACHABLE = 2_000;

type HistorySource = (workflowId: string, runId: string) => Promise<TemporalHistory | undefined>;

export interface TemporalWorkerOptions {
  readonly settings: WorkerSettings;
  readonly connection: Connection;
  readonly queue: string;
  readonly codec: Codec;
  readonly payloads: Payloads;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly environment: Environment;
  /** The search attributes for these attributes, as far as they are registered; `null` removes one. */
  readonly searchAttributes: (attributes: Readonly<Record<string, string | number | boolean | null>>) => Record<string, TemporalPayload>;
  /** The number of the newest execution of a run; 0 if there is no such run. */
  readonly executionOf: (runId: string) => Promise<number>;
  readonly timing: Timing;
  readonly encode: (value: unknown, what: string) => Payload;
}

export class TemporalWorker implements BackendWorker, RunWorker {
  readonly id: string;
  readonly settings: WorkerSettings;
  readonly namespace: string;
  readonly queue: string;
  readonly ownQueue: string | undefined;
  readonly stepQueue: string;
  readonly timing: Timing;
  readonly codec: Codec;
  readonly payloads: Payloads;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly environment: Environment;
  readonly turns: TurnQueue;
  readonly watch: TurnWatch;
  readonly freezeStates: boolean;
  readonly isStrict = false;
  readonly stopped: Promise<void>;
  readonly #options: TemporalWorkerOptions;
  readonly #guard: DeterminismGuard | undefined;
  readonly #runs = new Map<string, HostedRun>();
  /** Runs of which the function of a step broke a rule, with the error. By Temporal's run id. */
  readonly #broken = new Map<string, Error>();
  readonly #tasks: Tasks;
  readonly #rehydration: Rehydration;
  readonly #cores: CoreWorker[] = [];
  readonly #loops: Promise<void>[] = [];
  readonly #blockedLog: BlockedLog;
  readonly #restoreRejections: () => void;
  readonly #alive: Timer;
  #activations = 0;
  #isDead = false;
  #patience: Timer | undefined;
  #hasStopped: () => void = () => {};
  #stopping: Promise<void> | undefined;
  #left: Promise<boolean> = Promise.resolve(true);

  private constructor(options: TemporalWorkerOptions) {
    const { settings, connection, queue, codec, payloads, logger, limits, environment, encode } = options;
    const { determinism, turnTimeout } = settings;
    this.#options = options;
    this.id = settings.id;
    this.settings = settings;
    this.namespace = connection.namespace;
    this.queue = queue;
    this.ownQueue = settings.workflows.all.length > 0 && options.timing.ownQueue > 0 ? ownQueueOf(queue, settings.id) : undefined;
    this.stepQueue = stepQueueOf(queue);
    this.timing = options.timing;
    this.codec = unguardedCodec(codec);
    this.payloads = payloads;
    this.logger = logger;
    this.limits = limits;
    this.environment = environment;
    this.turns = new TurnQueue(environment, { isShared: determinism === "off" });
    const guard =
      determinism === "off" ? undefined : new DeterminismGuard(determinism, logger, { url: import.meta.url, module: "worker/worker" });
    this.#guard = guard;
    this.freezeStates = guard !== undefined;
    const watchdog = new Watchdog(Math.max(SHORTEST_WATCHDOG, 2 * turnTimeout));
    this.watch = {
      enter(turn: RunningTurn) {
        watchdog.enter(turn);
        guard?.enter(turn);
      },
      leave(turn: RunningTurn) {
        guard?.leave(turn);
        watchdog.leave(turn);
      },
    };
    this.stopped = new Promise((resolve) => {
      this.#hasStopped = resolve;
    });
    this.#rehydration = new Rehydration({
      connection,
      queue,
      logger,
      begin: (activation, history) => this.#begin(activation, async () => history),
    });
    this.#tasks = new Tasks({
      settings,
      codec,
      payloads,
      logger,
      environment,
      encode,
      cached: (runId) => this.#runs.get(runId),
      rehydrated: (workflowId, runId, seq) => this.#rehydration.get(workflowId, runId, seq),
      broken: (runId, error) => this.#noteBroken(runId, error),
    });
    this.#blockedLog = new BlockedLog(logger, environment);
    this.#restoreRejections = tolerateRejections();
    this.#alive = environment.stayAlive();
  }
  /** Resolves once it takes tasks. */
  static async start(options: TemporalWorkerOptions): Promise<TemporalWorker> {
    const { turnTimeout } = options.settings;
    if (turnTimeout === 0 || turnTimeout >= TASK_TIMEOUT) {
      const message = `On Temporal a turn has less than ${TASK_TIMEOUT / 1_000} s, after which the server gives its task to a worker again: choose a shorter time, of at least 1 ms.`;
      throw new InvalidInputError({ what: "worker", issues: [{ message, path: ["turnTimeout"] }] });
    }
    const worker = new TemporalWorker(options);
    try {
      await worker.#start();
    } catch (error) {
      await worker.stop();
      throw error;
    }
    return worker;
  }
  /** It has stopped without Core: the server could not be reached. */
  get isAbandoned(): boolean {
    return this.#isDead;
  }
  /** When Core no longer uses the connection of a worker that has stopped: that may be later. False if it never says so. */
  get left(): Promise<boolean> {
    return this.#left;
  }
  get active(): number {
    return this.#activations + this.#tasks.size;
  }
  executionOf(runId: string): Promise<number> {
    return this.#options.executionOf(runId);
  }
  searchAttributes(attributes: Readonly<Record<string, string | number | boolean | null>>): Record<string, TemporalPayload> | undefined {
    const fields = this.#options.searchAttributes(attributes);
    return Object.keys(fields).length === 0 ? undefined : fields;
  }

  // ── starting ──

  async #start(): Promise<void> {
    const { concurrency, activityConcurrency, cachedRuns, activities, workflows, gracePeriod, lease } = this.settings;
    const common = {
      identity: this.id,
      workflowSlots: concurrency,
      activitySlots: activityConcurrency,
      cachedRuns,
      gracePeriod,
      stickyTimeout: this.timing.sticky,
      heartbeatInterval: Math.max(100, Math.min(1_000, lease / 3)),
    };
    const hasWorkflows = workflows.all.length > 0;
    if (!hasWorkflows && activities.size === 0) return; // Core refuses a worker that has nothing to ask for
    const main = this.#add({ ...common, queue: this.queue, workflows: hasWorkflows, activities: activities.size > 0 });
    await main.validate();
    if (hasWorkflows) this.#loops.push(this.#pollActivations(main));
    this.#loops.push(this.#pollTasks(main));
    if (!hasWorkflows) return;
    const stepQueues = [[this.stepQueue, activityConcurrency] as const];
    if (this.ownQueue !== undefined) stepQueues.push([this.ownQueue, OWN_STEPS]);
    for (const [queue, activitySlots] of stepQueues)
      this.#loops.push(this.#pollTasks(this.#add({ ...common, queue, workflows: false, activities: true, activitySlots, cachedRuns: 0 })));
  }
  #add(options: Parameters<Connection["newWorker"]>[0]): CoreWorker {
    const core = this.#options.connection.newWorker(options);
    this.#cores.push(core);
    return core;
  }

  // ── runs ──

  async #pollActivations(core: CoreWorker): Promise<void> {
    for (;;) {
      const activation = await this.#poll(() => core.nextActivation());
      if (activation === undefined) return;
      void this.#activate(core, activation);
    }
  }
  async #activate(core: CoreWorker, activation: WorkflowActivation): Promise<void> {
    const runId = activation.runId ?? "";
    this.#activations++;
    try {
      const status = await this.#statusOf(activation);
      const canceled = status.successful ? (this.#runs.get(runId)?.canceled ?? []) : [];
      if (!this.#isDead) await this.#complete(core, { runId, ...status });
      this.#tasks.cancelOf(runId, canceled);
    } catch (error) {
      this.logger.error(`A task of run ${this.#runs.get(runId)?.workflowId ?? runId} could not be completed: ${messageOf(error)}`, {
        error,
      });
    } finally {
      this.#activations--;
    }
  }
  /** V4: an answer that Core can't read, for example with half of a surrogate pair, fails the task. Without any answer the run would hang. */
  async #complete(core: CoreWorker, completion: ActivationCompletion): Promise<void> {
    try {
      await core.complete(completion);
    } catch (error) {
      await core.complete({ runId: completion.runId ?? "", failed: { failure: toFailure(serializeError(error), this.codec) } });
      throw error;
    }
  }
  async #statusOf(activation: WorkflowActivation): Promise<Omit<ActivationCompletion, "runId">> {
    const runId = activation.runId ?? "";
    const eviction = evictionOf(activation);
    if (eviction !== undefined) {
      this.#drop(runId);
      return { successful: {} };
    }
    try {
      const run = this.#runs.get(runId) ?? this.#begin(activation, this.#download);
      if (run === undefined) return this.#notServed(activation);
      this.#runs.set(runId, run);
      const broken = this.#broken.get(runId);
      if (broken !== undefined) return run.failed(broken);
      const status = await run.activate(activation);
      run.executor.reportUnheard();
      if (status.failed) this.#blocked(run);
      if (status.failed && isBrokenRule(run.problem)) this.#noteBroken(runId, toError(run.problem));
      return status;
    } catch (error) {
      return { failed: { failure: toFailure(serializeError(error), this.codec) } };
    }
  }
  /** V4: this code does not advance the run any more; a worker that starts later tries once. */
  #noteBroken(runId: string, error: Error): void {
    this.#broken.set(runId, error);
    for (const oldest of this.#broken.keys()) if (this.#broken.size > MOST_BROKEN) this.#broken.delete(oldest);
  }
  /** V4: the server tries again; one line for all runs that are blocked for the same reason. */
  #blocked({ workflowId, workflow, problem }: HostedRun): void {
    const run = { runId: workflowId, workflow: workflow.name, code: codeOf(workflow), error: toError(problem) };
    this.#blockedLog.note(run, blockedReason(run));
  }
  /** Undefined if this worker has no code for the run. */
  #begin(activation: WorkflowActivation, history: HistorySource): HostedRun | undefined {
    const init = activation.jobs?.find((job) => job.initializeWorkflow)?.initializeWorkflow;
    if (!init) throw new HoldfastError("Core activated a run that is not in memory.", { code: "HF_TEMPORAL_CACHE" });
    const workflow = this.settings.workflows.find(init.workflowType ?? "", startHeader(init.headers).version);
    return workflow === undefined ? undefined : new HostedRun(this, activation, init, workflow, history);
  }
  readonly #download: HistorySource = (workflowId, runId) => downloadHistory(this.#options.connection, workflowId, runId);
  #notServed(activation: WorkflowActivation): Omit<ActivationCompletion, "runId"> {
    const init = activation.jobs?.find((job) => job.initializeWorkflow)?.initializeWorkflow;
    const { version } = startHeader(init?.headers);
    const served = this.settings.workflows.serves.map(({ workflow, versions }) =>
      versions === "*" ? `${workflow} (all versions)` : `${workflow} (${versions.map((one) => one ?? "no version").join(", ")})`,
    );
    const wanted = `workflow "${init?.workflowType}" ${version === undefined ? "without a version" : `of version "${version}"`}`;
    const error = new HoldfastError(
      `This worker does not serve ${wanted}. It serves: ${served.join(", ") || "none"}. All workers of a queue must serve the same workflows: deploy it, or use another queue.`,
      { code: "HF_NOT_SERVED" },
    );
    return { failed: { failure: toFailure(serializeError(error), this.codec) } };
  }
  #drop(runId: string): void {
    const run = this.#runs.get(runId);
    this.#runs.delete(runId);
    void run?.executor.activate({ time: 0, jobs: [{ type: "evict" }] });
  }

  /** The turns of a run, by replay. Undefined if this worker stops, has no code for it, or has other code. */
  async turnsOf({ id, workflow, version }: Pick<RunSnapshot, "id" | "workflow" | "version">): Promise<readonly Turn[] | undefined> {
    if (this.#stopping !== undefined || this.settings.workflows.find(workflow, version) === undefined) return undefined;
    return this.#rehydration.turnsOf(id);
  }

  // ── tasks ──

  async #pollTasks(core: CoreWorker): Promise<void> {
    for (;;) {
      const task = await this.#poll(() => core.nextActivityTask());
      if (task === undefined) return;
      void this.#tasks.handle(core, task);
    }
  }
  /** Core retries by itself; what it still reports is a mistake in the configuration, and is logged. */
  async #poll<T>(poll: () => Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await poll();
    } catch (error) {
      this.logger.error(`Worker ${this.id} can't get tasks from Temporal any more: ${messageOf(error)}`, { error });
      return undefined;
    }
  }

  // ── stopping ──

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }
  async #stop(): Promise<void> {
    const late = new Promise<"late">((resolve) => {
      this.#patience = this.environment.after(this.settings.gracePeriod + UNREACHABLE, () => resolve("late"));
    });
    this.#left = this.#drain().then(
      () => true,
      (error: unknown) => {
        if (!this.#isDead) this.logger.warn(`Worker ${this.id} did not stop cleanly: ${messageOf(error)}`, { workerId: this.id });
        return false;
      },
    );
    const end = await Promise.race([this.#left, late]);
    this.#patience?.cancel();
    if (end === "late") this.#abandon("The Temporal server can't be reached: the worker has stopped without giving back its tasks.");
    this.#end();
  }
  /** The order that Core wants: no new tasks, answers to those in progress, then the end. */
  async #drain(): Promise<void> {
    for (const core of this.#cores) core.initiateShutdown();
    await Promise.all(this.#loops);
    for (const core of this.#cores) await core.finalizeShutdown();
    await this.#rehydration.stop();
  }
  #abandon(reason: string): void {
    this.#isDead = true;
    this.#tasks.abandon();
    this.logger.warn(reason, { workerId: this.id });
  }
  #end(): void {
    for (const runId of [...this.#runs.keys()]) this.#drop(runId);
    this.#blockedLog.flush();
    this.#guard?.stop();
    this.#restoreRejections();
    this.#alive.cancel();
    this.#hasStopped();
  }
}
