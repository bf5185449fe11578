// A worker: claims runs that it has room and code for, drives them, keeps their leases, gives them back.
// Owns: the drivers in progress, their leases, and its beginning and end. Claims, the cache and the clock are beside it in engine/.
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
import { checkedMessage, type Environment, type Timer, TurnQueue, tolerateRejections } from "@holdfast/host";
import { codeOf, DeterminismGuard, Watchdog } from "@holdfast/host/node";
import type { BackendWorker, WorkerSettings } from "../backend/port.ts";
import { Claims } from "../engine/claims.ts";
import type { DriverHost } from "../engine/driverHost.ts";
import { RunCache } from "../engine/runCache.ts";
import { RunDriver } from "../engine/runDriver.ts";
import { StoreClock } from "../engine/storeClock.ts";
import { Transactions } from "../engine/transactions.ts";
import { Batcher, type Waiting } from "../store/batcher.ts";
import { isRefusal } from "../store/errors.ts";
import type { CommitResult, HeldClaim, InboxMessage, NewRun, Renewal, RunRow, Store, TurnCommit, Wakeup } from "../store/port.ts";
import { ActivityRunner } from "./activities.ts";
import type { BlockedLog } from "./blocking.ts";

/** What the engine adds to what a caller asked for. */
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
  /** P9: within the limits. */
  encode(value: unknown, what: string): Payload;
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
  stopped(worker: WorkerHost): void;
  lookAtDeadlines(): void;
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
  readonly #transactions: Transactions;
  /** Active runs whose last commit here is on its way: they do nothing any more, so others may have their slots. */
  readonly #leaving = new Set<string>();
  readonly #givenBack = new Set<Promise<void>>();
  #renewing: Promise<boolean> | undefined;
  readonly #renewals: Batcher<HeldClaim, Renewal>;
  /** Runs whose renewal waits for a lock. */
  readonly #lateRenewals = new Set<string>();
  #nextRenewal: Promise<boolean> | undefined;
  #stopping: Promise<void> | undefined;
  readonly #timers: Timer[] = [];
  #onIdle: (() => void) | undefined;
  #intolerant: () => void = () => {};
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
    this.#renewals = new Batcher(environment, (claims, wait) => store.renew(this.id, settings.lease, claims, wait), {
      limits: store.limits,
      keyOf: ({ runId }) => runId,
    });
    this.#transactions = new Transactions({
      store,
      logger,
      encode: (value, what) => ports.encode(value, what),
      passed: (ms) => this.#passed(ms),
      doubt: ({ runId, epoch }, error) => this.#active.get(runId)?.doubt(epoch, error),
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
  /** Runs that it drives. */
  get inProgress(): number {
    return this.#active.size;
  }
  /** Does anything go on without a message or a timer? */
  get busy(): boolean {
    return (
      this.#claims.busy ||
      this.#renewing !== undefined ||
      this.#nextRenewal !== undefined ||
      this.#activities.busy ||
      [...this.#active.values()].some((driver) => driver.busy)
    );
  }
  /** Steps and activities that run. */
  get running(): string[] {
    return [...[...this.#active.values()].flatMap((driver) => driver.running), ...this.#activities.running];
  }
  get queue(): string {
    return this.#settings.queue;
  }

  async start(): Promise<void> {
    const { store } = this.#ports;
    const asked = this.#clock.local();
    this.#clock.set(asked, await store.now());
    if (this.#stopping !== undefined)
      throw new HoldfastError("The engine was closed as this worker started.", { code: "HF_ENGINE_CLOSED" });
    this.#intolerant = tolerateRejections();
    const { determinism, watchdogAfter } = this.#settings;
    this.#watchdog = new Watchdog(watchdogAfter);
    if (determinism !== "off")
      this.#guard = new DeterminismGuard(determinism, this.logger, { url: import.meta.url, module: "host/worker" });
    this.#started = true;
    this.#timers.push(
      this.environment.stayAlive(),
      this.environment.every(this.#settings.lease / 3, () => void this.#renew()),
      this.environment.every(this.#settings.pollInterval, () => this.#lookForWork()),
    );
    this.#lookForWork();
  }
  #lookForWork(): void {
    void this.#activities.poll();
    this.#claims.soon();
  }
  wake(wakeup: Wakeup): void {
    if (!this.#started) return; // it will look for itself
    if (wakeup.tasks === true) void this.#activities.poll();
    // Activities are given up by commits and limits (tasks), and with their runs (results).
    if (wakeup.tasks === true) this.#activities.look();
    else if (wakeup.results === true) this.#activities.look(wakeup.ended);
    if (wakeup.work === true) this.#claims.soon();
    if (wakeup.messages === true) void this.#renew();
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
    if (turn.close === undefined && turn.lease === "keep") this.#commitAndGoOn(turn, done, failed);
    else this.#commitAndLeave(turn, done, failed);
  }
  #commitAndGoOn(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    const committed = (result: CommitResult): void => {
      const driver = this.#active.get(turn.runId);
      if (result.status === "stale" || driver === undefined || !this.#isUnsure(driver)) return done(result);
      driver.giveUp(turn);
      void this.makeSure(driver, turn).then(() => done(result), failed);
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
  /** Half of its lease may have passed since it was last known to run: by the time that others are told of it, all of it may have. */
  #isUnsure({ leasedAt }: RunDriver): boolean {
    return this.environment.elapsed() - leasedAt > this.#settings.lease / 2;
  }
  /**
   * W3: whoever hears of a commit late may have stood still until others had the run: no step begins before its lease is sure again.
   * W4: one that stops before that leaves them to others.
   */
  async makeSure(driver: RunDriver, turn: TurnCommit): Promise<void> {
    while (this.#isUnsure(driver) && this.#active.get(driver.runId) === driver) {
      if (this.#stopping !== undefined) return this.#giveBack(driver, turn);
      const isRenewed = (await this.#renew()) && !this.#lateRenewals.has(driver.runId);
      if (!isRenewed) await this.#passed(this.#settings.lease / 20);
    }
  }
  #giveBack(driver: RunDriver, turn: TurnCommit): Promise<void> {
    const given = driver.giveBack(turn);
    this.givesBack(given);
    return given;
  }
  givesBack(given: Promise<void>): void {
    const forget = (): void => void this.#givenBack.delete(given);
    this.#givenBack.add(given);
    given.then(forget, forget);
  }
  async look(runId: string): Promise<RunRow | undefined> {
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
  lookAtDeadlines(): void {
    this.#ports.lookAtDeadlines();
  }
  released(driver: RunDriver, how: "parked" | "closed" | "blocked" | "lost"): void {
    if (this.#active.get(driver.runId) === driver) {
      this.#active.delete(driver.runId);
      this.#leaving.delete(driver.runId);
    }
    if (how === "parked") {
      // A claim that overtook the news of the parking has given the run to another driver: that one knows more.
      if (this.#stopping !== undefined || this.#active.has(driver.runId)) driver.evict();
      else this.#cache.add(driver);
    }
    if (this.#active.size === 0) this.#onIdle?.();
    this.#claims.slotIsFree();
  }

  // ── runs that it could take ──

  get #room(): number {
    return this.#settings.concurrency - (this.#active.size - this.#leaving.size);
  }
  hasCodeFor(run: { readonly workflow: string; readonly version: string | undefined; readonly queue: string }): boolean {
    return run.queue === this.#settings.queue && this.#settings.workflows.find(run.workflow, run.version) !== undefined;
  }

  hasActivity(name: string, queue: string): boolean {
    return queue === this.#settings.queue && this.#settings.activities.has(name);
  }

  /** Can it take this new run at once? */
  hasRoomFor({ workflow, queue, version }: Pick<NewRun, "workflow" | "queue" | "version">): boolean {
    if (!this.#started || this.#stopping !== undefined || queue !== this.#settings.queue) return false;
    // V4: it looks for blocked runs before it blocks any itself, and needs a slot for that.
    const kept = this.#claims.isToTryBlocked ? Math.min(1, this.#settings.concurrency - 1) : 0;
    if (this.#room <= kept) return false;
    return this.#settings.workflows.find(workflow, version) !== undefined;
  }
  /** Computes the first turn of a run before it is created (no claim). Undefined: let a claim do it. */
  async begin(run: NewRun): Promise<{ first: NonNullable<NewRun["first"]>; driver: RunDriver } | undefined> {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    if (workflow === undefined || this.#active.has(run.id)) return undefined; // the store says what the id clashes with
    const driver = new RunDriver(workflow, unborn(run, this.id, this.now()), this);
    this.#active.set(run.id, driver);
    const commit = await driver.firstTurn([]);
    return { first: { workerId: this.id, lease: this.#settings.lease, commit }, driver };
  }
  /** The run turned out to exist, or could not be created. */
  forget(driver: RunDriver): void {
    if (this.#active.get(driver.runId) === driver) this.#active.delete(driver.runId);
    driver.evict();
  }

  /** V4: has it yet to try runs that were blocked when it started? */
  get isTryingBlocked(): boolean {
    return this.#claims.isTryingBlocked;
  }
  #driverOf(run: RunRow): RunDriver | undefined {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    return workflow === undefined ? undefined : new RunDriver(workflow, run, this);
  }

  // ── leases ──

  /**
   * Renews the leases of what is active and brings what has come into their inboxes. Resolves when one is over that began after this
   * call, as what was under way may have read what is older than the hint: false if the store could not be asked.
   */
  #renew(): Promise<boolean> {
    if (this.#active.size === 0) return Promise.resolve(true);
    this.#nextRenewal ??= this.#afterRenewal();
    return this.#nextRenewal;
  }
  async #afterRenewal(): Promise<boolean> {
    await this.#renewing;
    this.#nextRenewal = undefined;
    this.#renewing = this.#renewOnce();
    const isDone = await this.#renewing;
    if (this.#nextRenewal === undefined) this.#renewing = undefined;
    return isDone;
  }
  /** A run whose renewal waits for a lock is left out: that renewal is still to come, and holds up no other. */
  #renewOnce(): Promise<boolean> {
    const drivers = [...this.#active.values()].filter(({ isBorn, runId }) => isBorn && !this.#lateRenewals.has(runId));
    if (drivers.length === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const asked = this.environment.elapsed();
      const round = new RenewalRound(drivers.length, (failure) => {
        if (failure !== undefined) this.logger.error("Leases could not be renewed; trying again.", { error: failure.error });
        resolve(failure === undefined);
      });
      for (const driver of drivers) this.#renewals.put(this.#renewal(driver, asked, round));
    });
  }
  #renewal(driver: RunDriver, asked: number, round: RenewalRound): Waiting<HeldClaim, Renewal> {
    const { runId, epoch, seen } = driver;
    // M7: what an answer to a claim that is over tells of may be consumed by now.
    const isCurrent = (): boolean => this.#active.get(runId) === driver && driver.epoch === epoch;
    return {
      item: { runId, epoch, seen },
      resolve: ({ held, inbox }) => {
        this.#lateRenewals.delete(runId);
        if (isCurrent()) {
          if (held) driver.leasedAt = asked;
          else driver.lose(claimLost());
          if (held && inbox.length > 0) void driver.receive(inbox);
        }
        round.settled();
      },
      reject: (error) => {
        this.#lateRenewals.delete(runId);
        // The others keep their leases; this run is given up.
        if (isCurrent() && isRefusal(error)) {
          this.logger.error(`The lease of run ${runId} can't be renewed; the run is given up.`, { runId, error });
          driver.lose(claimLost());
        }
        round.settled(isRefusal(error) ? undefined : { error });
      },
      setAside: () => {
        this.#lateRenewals.add(runId);
        round.settled();
      },
    };
  }

  // ── the end (W4) ──

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }
  #passed(ms: number): Promise<void> {
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
    // A claim that comes later still is given back; but whoever stops a worker may close its store next.
    const { underWay } = this.#claims;
    const claim = underWay === undefined ? undefined : Promise.race([underWay, this.#passed(gracePeriod)]);
    const given = [...this.#active.values()].map((driver) => driver.giveBack());
    await Promise.all([activities, claim, ...given, ...this.#givenBack]);
    for (const timer of this.#timers) timer.cancel(); // not before: one of them keeps the process alive
    this.#cache.clear();
    this.#claims.flush();
    this.#intolerant();
    this.#guard?.stop();
    this.#ports.stopped(this);
    this.#hasStopped();
  }
}

/** One renewal of all leases: over when each is renewed, failed, or waits for a lock. */
class RenewalRound {
  #left: number;
  #failure: { readonly error: unknown } | undefined;
  readonly #over: (failure: { readonly error: unknown } | undefined) => void;

  constructor(count: number, over: (failure: { readonly error: unknown } | undefined) => void) {
    this.#left = count;
    this.#over = over;
  }
  /** Also of one that waited for a lock, after the round is over. */
  settled(failure?: { readonly error: unknown }): void {
    this.#failure ??= failure;
    if (--this.#left === 0) this.#over(this.#failure);
  }
}

/** D4: steps are told at once; which of these it was would have to be asked for. */
function claimLost(): HoldfastError {
  const what = "This run is no longer this worker's: it was terminated, its deadline has passed, or another worker has it.";
  return new HoldfastError(what, { code: "HF_CLAIM_LOST" });
}

/** The row of a run that is about to be created, leased to the worker that computes its first turn. */
function unborn(run: NewRun, workerId: string, now: number): RunRow {
  const { id, workflow, version, input, queue, priority, attributes, seed, retry, parent } = run;
  return {
    id,
    workflow,
    version,
    input,
    queue,
    priority,
    attributes,
    seed,
    retry,
    parent,
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
