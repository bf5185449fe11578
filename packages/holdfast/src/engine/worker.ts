// A worker: claims runs that it has room and code for, drives them, and releases them when it stops.
// Owns: the drivers in progress, and its start and stop. Claims, leases, the cache and the clock are in separate files.
// Invariants: W1–W6, D4 (a lost lease stops the run's steps), D9 (hints may be lost: polling is the fallback), V2 (versions served).

import {
  type ActivityInfo,
  type AnyWorkflow,
  type Codec,
  HoldfastError,
  type Job,
  type Limits,
  type Logger,
  type Payload,
  type RunningTurn,
  type StepBody,
  type StepInfo,
  type TurnWatch,
} from "@holdfast/core";
import { type BlockedLog, checkedMessage, type Environment, type Timer, TurnQueue, tolerateRejections } from "@holdfast/host";
import { codeOf, DeterminismGuard, Watchdog } from "@holdfast/host/node";
import type { BackendWorker, WorkerSettings } from "../backend/port.ts";
import type { CommitResult, InboxMessage, NewRun, RunRow, Store, TurnCommit, Wakeup } from "../store/port.ts";
import { ActivityRunner } from "./activityRunner.ts";
import { queueOf } from "./bulk.ts";
import { Claims } from "./claims.ts";
import type { DriverHost } from "./driverHost.ts";
import { Leases } from "./leases.ts";
import { RunCache } from "./runCache.ts";
import { RunDriver } from "./runDriver.ts";
import { StoreClock } from "./storeClock.ts";
import { Transactions } from "./transactions.ts";
import { WorkerBeats, type WorkerBeatsOptions } from "./workerBeats.ts";
import { workflowRows } from "./workflowSchemas.ts";

/** The caller's settings, and those that the engine adds. */
export interface WorkerHostSettings extends WorkerSettings {
  /** A turn that takes longer than this is logged (X9). */
  readonly watchdogAfter: number;
  readonly maxRecoveries: number;
  readonly pollInterval: number;
  readonly replaceStep: (name: string) => ((info: unknown) => unknown) | undefined;
  readonly replaceActivity: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;
}
export interface WorkerPorts {
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly blockedLog: BlockedLog;
  /** P9: throws if the value is over the limits. */
  encode(value: unknown, what: string): Payload;
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
  stopped(worker: WorkerHost): void;
  checkDeadlines(): void;
}

export class WorkerHost implements DriverHost, BackendWorker {
  readonly id: string;
  readonly stopped: Promise<void>;
  #hasStopped: () => void = () => {};
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly turnTimeout: number;
  readonly maxRecoveries: number;
  readonly freezeStates: boolean;
  readonly turnQueue: TurnQueue;
  readonly #settings: WorkerHostSettings;
  readonly #ports: WorkerPorts;
  readonly #activities: ActivityRunner;
  readonly blocked: DriverHost["blocked"] = new Map();
  readonly blockedLog: BlockedLog;
  computing = 0;
  readonly #active = new Map<string, RunDriver>();
  readonly #cache: RunCache;
  readonly #clock: StoreClock;
  readonly #claims: Claims;
  readonly #leases: Leases;
  readonly #transactions: Transactions;
  readonly #beats: WorkerBeats;
  /** Active runs whose last commit is under way: they do nothing more here, so their slots are free. */
  readonly #leaving = new Set<string>();
  /** Runs that are being released. */
  readonly #releases = new Set<Promise<void>>();
  #stopping: Promise<void> | undefined;
  readonly #timers: Timer[] = [];
  #onIdle: (() => void) | undefined;
  #restoreRejections: () => void = () => {};
  #started = false;
  #watchdog: Watchdog | undefined;
  #guard: DeterminismGuard | undefined;

  constructor(settings: WorkerHostSettings, ports: WorkerPorts) {
    this.id = settings.id;
    this.stopped = new Promise((resolve) => {
      this.#hasStopped = resolve;
    });
    this.environment = ports.environment;
    this.codec = ports.codec;
    this.logger = ports.logger;
    this.limits = ports.limits;
    this.blockedLog = ports.blockedLog;
    this.turnTimeout = settings.turnTimeout;
    this.maxRecoveries = settings.maxRecoveries;
    this.freezeStates = settings.determinism !== "off";
    this.turnQueue = new TurnQueue(ports.environment, { isShared: settings.determinism === "off" });
    this.#settings = settings;
    this.#ports = ports;
    const { store, environment, logger } = ports;
    this.#clock = new StoreClock(environment);
    this.#cache = new RunCache(settings.cachedRuns);
    this.#claims = new Claims({
      settings,
      store,
      environment,
      logger,
      clock: this.#clock,
      cache: this.#cache,
      active: this.#active,
      room: () => this.#room,
      isStopping: () => this.#stopping !== undefined,
      driverOf: (run) => this.#driverOf(run),
      commit: (turn, done, failed) => ports.commit(turn, done, failed),
    });
    this.#leases = new Leases({
      settings,
      store,
      environment,
      logger,
      active: this.#active,
      isStopping: () => this.#stopping !== undefined,
    });
    const workflows = () => workflowRows(settings.workflows.all);
    this.#beats = new WorkerBeats({ store, environment, lease: settings.lease, describe: () => this.#description, workflows });
    this.#transactions = new Transactions({
      store,
      logger,
      encode: (value, what) => ports.encode(value, what),
      delay: (ms) => this.#delay(ms),
      outcomeUnknown: ({ runId, epoch }, error) => this.#active.get(runId)?.outcomeUnknown(epoch, error),
    });
    this.#activities = new ActivityRunner({
      workerId: settings.id,
      store: ports.store,
      environment: ports.environment,
      codec: ports.codec,
      encode: ports.encode,
      logger: ports.logger,
      queue: settings.queue,
      activities: settings.activities,
      concurrency: settings.activityConcurrency,
      lease: settings.lease,
      replace: settings.replaceActivity,
    });
  }
  get workerId(): string {
    return this.id;
  }
  get active(): number {
    return this.#active.size + this.#activities.active;
  }
  /** The number of runs that it drives. */
  get inProgress(): number {
    return this.#active.size;
  }
  /** True while it does something that continues without a message or a timer. */
  get busy(): boolean {
    return this.#claims.busy || this.#leases.busy || this.#activities.busy || [...this.#active.values()].some((driver) => driver.busy);
  }
  /** The steps and activities that are running. */
  get running(): string[] {
    return [...[...this.#active.values()].flatMap((driver) => driver.running), ...this.#activities.running];
  }
  get queue(): string {
    return this.#settings.queue;
  }
  /** What takes its slots now. */
  get load(): { readonly active: number; readonly activeActivities: number } {
    return { active: this.#active.size - this.#leaving.size, activeActivities: this.#activities.active };
  }

  async start(): Promise<void> {
    const { store } = this.#ports;
    const asked = this.#clock.local();
    this.#clock.set(asked, await store.now());
    await this.#beats.start();
    if (this.#stopping !== undefined)
      throw new HoldfastError("The engine was closed while this worker was starting.", { code: "HF_ENGINE_CLOSED" });
    this.#restoreRejections = tolerateRejections();
    const { determinism, watchdogAfter } = this.#settings;
    this.#watchdog = new Watchdog(watchdogAfter);
    if (determinism !== "off")
      this.#guard = new DeterminismGuard(determinism, this.logger, { url: import.meta.url, module: "engine/worker" });
    this.#started = true;
    this.#timers.push(
      this.environment.stayAlive(),
      this.environment.every(this.#settings.lease / 3, () => void this.#leases.renew()),
      this.environment.every(this.#settings.pollInterval, () => this.#lookForWork()),
    );
    this.#lookForWork();
  }
  #lookForWork(): void {
    void this.#activities.poll();
    this.#claims.soon();
  }
  wake(wakeup: Wakeup): void {
    if (!this.#started) return; // it looks for work when it starts
    if (wakeup.tasks === true) void this.#activities.poll();
    // Attempts of activities end by commits and limits (tasks), and with their runs (results).
    if (wakeup.tasks === true) this.#activities.check();
    else if (wakeup.results === true) this.#activities.check(wakeup.ended);
    if (wakeup.work === true) this.#claims.soon();
    if (wakeup.messages === true) void this.#leases.renew();
  }

  // ── as the host of its drivers ──

  readonly watch: TurnWatch = {
    enter: (turn: RunningTurn) => {
      this.#watchdog?.enter(turn);
      this.#guard?.enter(turn);
    },
    leave: (turn: RunningTurn) => {
      this.#guard?.leave(turn);
      this.#watchdog?.leave(turn);
    },
  };
  now(): number {
    return this.#clock.now();
  }
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    if (turn.close === undefined && turn.lease === "keep") this.#commitAndContinue(turn, done, failed);
    else this.#commitAndLeave(turn, done, failed);
  }
  #commitAndContinue(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    const committed = (result: CommitResult): void => {
      const driver = this.#active.get(turn.runId);
      if (result.status === "stale" || driver === undefined || !this.#leases.isUncertain(driver)) return done(result);
      driver.cancelSteps(turn);
      void this.confirmLease(driver, turn).then(() => done(result), failed);
    };
    this.#ports.commit(turn, committed, failed);
  }
  #commitAndLeave(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    const { runId } = turn;
    if (this.#active.get(runId)?.epoch === turn.epoch) this.#leaving.add(runId);
    this.#claims.slotIsFree();
    const left = (result: CommitResult): void => {
      this.#leaving.delete(runId);
      done(result);
    };
    const stayed = (error: unknown): void => {
      this.#leaving.delete(runId);
      failed(error);
    };
    this.#ports.commit(turn, left, stayed);
  }
  /** W3: no step of `turn` begins before its lease is certain. W4: a worker that stops first leaves the steps to others. */
  async confirmLease(driver: RunDriver, turn: TurnCommit): Promise<void> {
    if ((await this.#leases.confirm(driver)) === "stopping") await this.#giveBack(driver, turn);
  }
  #giveBack(driver: RunDriver, turn: TurnCommit): Promise<void> {
    const released = driver.giveBack(turn);
    this.waitBeforeStop(released);
    return released;
  }
  waitBeforeStop(released: Promise<void>): void {
    const forget = (): void => void this.#releases.delete(released);
    this.#releases.add(released);
    released.then(forget, forget);
  }
  drives(runId: string): boolean {
    return this.#active.has(runId);
  }
  async rowOf(runId: string): Promise<RunRow | undefined> {
    return (await this.#ports.store.get([runId]))[0];
  }
  history(runId: string): ReturnType<Store["history"]> {
    return this.#ports.store.history(runId);
  }
  attempts(runId: string): ReturnType<Store["attempts"]> {
    return this.#ports.store.attempts(runId);
  }
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale"> {
    return this.#transactions.run(claim, body, info);
  }
  replaceStep(name: string): ((info: unknown) => unknown) | undefined {
    return this.#settings.replaceStep(name);
  }
  checked(workflow: AnyWorkflow, job: Job): Promise<Job> {
    return checkedMessage(workflow, job, this.codec, this.environment);
  }
  codeOf(workflow: AnyWorkflow): string {
    return codeOf(workflow);
  }
  checkDeadlines(): void {
    this.#ports.checkDeadlines();
  }
  released(driver: RunDriver, how: "parked" | "closed" | "blocked" | "lost"): void {
    if (this.#active.get(driver.runId) === driver) {
      this.#active.delete(driver.runId);
      this.#leaving.delete(driver.runId);
    }
    if (how === "parked") {
      // A later claim may have been answered before the parking commit: then another driver has the run, and knows more.
      if (this.#stopping !== undefined || this.#active.has(driver.runId)) driver.evict();
      else this.#cache.add(driver);
    }
    if (this.#active.size === 0) this.#onIdle?.();
    this.#claims.slotIsFree();
  }

  /** B6. */
  get #description(): ReturnType<WorkerBeatsOptions["describe"]> {
    const { id, queue, workflows, activities, concurrency, activityConcurrency } = this.#settings;
    const active = this.#active.size;
    const activeActivities = this.#activities.active;
    return {
      id,
      queue,
      serves: workflows.serves,
      activities: [...activities.keys()],
      concurrency,
      activityConcurrency,
      active,
      activeActivities,
    };
  }

  // ── runs that it could drive ──

  get #room(): number {
    return this.#settings.concurrency - (this.#active.size - this.#leaving.size);
  }
  hasCodeFor(run: { readonly workflow: string; readonly version: string | undefined; readonly queue: string }): boolean {
    const { queue, workflows } = this.#settings;
    return run.queue === queueOf(run.workflow, queue) && workflows.find(run.workflow, run.version) !== undefined;
  }

  hasActivity(name: string, queue: string): boolean {
    return queue === this.#settings.queue && this.#settings.activities.has(name);
  }

  /** Whether it can begin this new run at once. */
  hasRoomFor({ workflow, queue, version }: Pick<NewRun, "workflow" | "queue" | "version">): boolean {
    if (!this.#started || this.#stopping !== undefined || queue !== this.#settings.queue) return false;
    // V4: it tries blocked runs before it blocks any itself, and needs a slot for that.
    const kept = this.#claims.hasNotTriedBlocked ? Math.min(1, this.#settings.concurrency - 1) : 0;
    if (this.#room <= kept) return false;
    return this.#settings.workflows.find(workflow, version) !== undefined;
  }
  /** Computes the first turn of a run before it is created, without a claim. Undefined if a claim must do it. */
  async begin(run: NewRun): Promise<{ first: NonNullable<NewRun["first"]>; driver: RunDriver } | undefined> {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    if (workflow === undefined || this.#active.has(run.id)) return undefined; // the store reports the conflict
    const driver = new RunDriver(workflow, rowOfNewRun(run, this.id, this.now()), this);
    this.#active.set(run.id, driver);
    const commit = await driver.firstTurn([]);
    if (commit === undefined) return undefined; // W4: the worker has stopped meanwhile
    return { first: { workerId: this.id, lease: this.#settings.lease, commit }, driver };
  }
  /** The run turned out to exist, or could not be created. */
  forget(driver: RunDriver): void {
    if (this.#active.get(driver.runId) === driver) this.#active.delete(driver.runId);
    driver.evict();
  }

  /** V4: true until all runs that were blocked when it started were tried. */
  get isTryingBlocked(): boolean {
    return this.#claims.isTryingBlocked;
  }
  #driverOf(run: RunRow): RunDriver | undefined {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    return workflow === undefined ? undefined : new RunDriver(workflow, run, this);
  }

  // ── stopping (W4) ──

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }
  #delay(ms: number): Promise<void> {
    return new Promise((resolve) => void this.environment.after(ms, resolve));
  }
  async #stop(): Promise<void> {
    const { gracePeriod } = this.#settings;
    this.#claims.stop();
    const activities = this.#activities.stop(gracePeriod);
    if (this.#active.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
        const timer = this.environment.after(gracePeriod, resolve);
        for (const driver of this.#active.values()) driver.stop();
        if (this.#active.size === 0) {
          timer.cancel();
          resolve();
        }
      });
    }
    // A claim that answers later is still released, but the caller may close the store after this.
    const { underWay } = this.#claims;
    const claim = underWay === undefined ? undefined : Promise.race([underWay, this.#delay(gracePeriod)]);
    const released = [...this.#active.values()].map((driver) => driver.giveBack());
    await Promise.all([activities, claim, ...released, ...this.#releases]);
    await this.#beats.stop();
    for (const timer of this.#timers) timer.cancel(); // last, because one of them keeps the process alive
    this.#cache.clear();
    this.#claims.flush();
    this.#restoreRejections();
    this.#guard?.stop();
    this.#ports.stopped(this);
    this.#hasStopped();
  }
}

/** The row of a run that is about to be created, leased to the worker that computes its first turn. */
function rowOfNewRun(run: NewRun, workerId: string, now: number): RunRow {
  const { id, workflow, version, input, queue, key, priority, attributes, seed, retry, parent, retention } = run;
  return {
    id,
    workflow,
    version,
    input,
    queue,
    key,
    priority,
    attributes,
    seed,
    retry,
    parent,
    retention,
    workerId,
    status: "running",
    output: undefined,
    error: undefined,
    state: undefined,
    waitingFor: [],
    execution: 1,
    attempt: 1,
    createdAt: now,
    startedAt: now,
    availableAt: undefined,
    deadlineAt: undefined,
    finishedAt: undefined,
    epoch: 1,
    historyLength: 0,
    turns: 0,
    recoveries: 0,
  };
}
