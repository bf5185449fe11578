// A worker: claims runs that it has room and code for, drives them, keeps their leases, gives them back.
// Owns: the drivers in progress, the cache of parked ones, the rhythm of claims and renewals.
// Invariants: W1–W6, D4 (a lost lease stops the run's steps), D9 (hints may be lost: polling is the fallback), V2 (versions served).

import {
  type ActivityInfo,
  type AnyWorkflow,
  type Codec,
  HoldfastError,
  IllegalReturnError,
  type Job,
  type Limits,
  type Logger,
  type Payload,
  type RunningTurn,
  type StepBody,
  type StepInfo,
  serializeError,
  type TurnWatch,
} from "@holdfast/core";
import { checkedMessage, type Environment, type Timer, TurnQueue, tolerateRejections } from "@holdfast/host";
import { codeOf, DeterminismGuard, Watchdog } from "@holdfast/host/node";
import type { BackendWorker, WorkerSettings } from "../backend/port.ts";
import { TakeoverLog } from "../engine/outages.ts";
import { isRefusal, StoreCorruptError, StoreError } from "../store/errors.ts";
import type { ClaimedRun, ClaimResult, CommitResult, InboxMessage, NewRun, RunRow, Store, TurnCommit, Wakeup } from "../store/port.ts";
import { ActivityRunner } from "./activities.ts";
import type { BlockedLog } from "./blocking.ts";
import { Driver, type DriverHost } from "./driver.ts";

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

/** Until a run that is due is asked for again, in milliseconds. */
const LOCKED_MS = 100;
/** Between tries of what the store could not carry out, in milliseconds. */
const LONGEST_PAUSE = 5_000;

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
  readonly #active = new Map<string, Driver>();
  /** Parked runs, least recently used first (W5). */
  readonly #cache = new Map<string, Driver>();
  /** Of these, whose history a claim under way will leave out: they stay. */
  readonly #promised = new Set<string>();
  #offset = 0;
  /** Active runs whose last commit here is on its way: they do nothing any more, so others may have their slots. */
  readonly #leaving = new Set<string>();
  /** A claim that is under way. */
  #claiming: Promise<void> | undefined;
  #claimScheduled = false;
  /** V4: this worker has tried the blocked runs up to here; undefined: all that there were when it started. */
  #blockedUpTo: number | undefined = 0;
  readonly #takeovers: TakeoverLog;
  #again = false;
  readonly #givenBack = new Set<Promise<void>>();
  #renewing: Promise<boolean> | undefined;
  #nextRenewal: Promise<boolean> | undefined;
  #stopping: Promise<void> | undefined;
  readonly #timers: Timer[] = [];
  #alarm: Timer | undefined;
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
    this.#takeovers = new TakeoverLog(ports.logger);
    this.turnTimeout = settings.turnTimeout;
    this.maxRecoveries = settings.maxRecoveries;
    this.freezeStates = settings.determinism !== "off";
    this.turnQueue = new TurnQueue(ports.environment, { isShared: settings.determinism === "off" });
    this.#settings = settings;
    this.#ports = ports;
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
      this.#claiming !== undefined ||
      this.#claimScheduled ||
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
    const asked = this.#local();
    this.#offset = Number.NEGATIVE_INFINITY;
    this.#setClock(asked, await store.now());
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
    this.#claimSoon();
  }
  wake(wakeup: Wakeup): void {
    if (!this.#started) return; // it will look for itself
    if (wakeup.tasks === true) void this.#activities.poll();
    // Activities are given up by commits and limits (tasks), and with their runs (results).
    if (wakeup.tasks === true) this.#activities.look();
    else if (wakeup.results === true) this.#activities.look(wakeup.ended);
    if (wakeup.work === true) this.#claimSoon();
    if (wakeup.messages === true) void this.#renew();
  }

  /** Of this process, whatever its clock says. */
  #local(): number {
    return this.environment.steady();
  }
  /** An answer is older than its arrival, by how much nobody knows: it moves the estimate only as far as it contradicts it. */
  #setClock(asked: number, storeTime: number): void {
    const earliest = storeTime - this.#local();
    const latest = storeTime - asked;
    this.#offset = Math.min(Math.max(this.#offset, earliest), Math.max(earliest, latest));
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
    return this.#local() + this.#offset;
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
    if (this.#again) this.#claimSoon();
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
  #isUnsure({ leasedAt }: Driver): boolean {
    return this.environment.elapsed() - leasedAt > this.#settings.lease / 2;
  }
  /**
   * W3: whoever hears of a commit late may have stood still until others had the run: no step begins before its lease is sure again.
   * W4: one that stops before that leaves them to others.
   */
  async makeSure(driver: Driver, turn: TurnCommit): Promise<void> {
    while (this.#isUnsure(driver) && this.#active.get(driver.runId) === driver) {
      if (this.#stopping !== undefined) return this.#giveBack(driver, turn);
      if (!(await this.#renew())) await this.#passed(this.#settings.lease / 20);
    }
  }
  #giveBack(driver: Driver, turn: TurnCommit): Promise<void> {
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
  async transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale"> {
    const { store } = this.#ports;
    if (store.transact === undefined) {
      throw new HoldfastError("This store has no transactions to offer: use ctx.step.", { code: "HF_NO_TRANSACTIONS" });
    }
    const run = body.run as (tx: unknown, info: StepInfo) => unknown;
    const encoded = (value: unknown): Payload => this.#ports.encode(value, `the result of transaction ${body.name}`);
    let hasThrown = false;
    let own: unknown;
    const thrown = (error: unknown): never => {
      hasThrown = true;
      own = error;
      throw error;
    };
    const attempted = (tx: unknown): Payload | Promise<Payload> => {
      hasThrown = false;
      try {
        const result = run(tx, info);
        const waits = typeof (result as { then?: unknown } | null | undefined)?.then === "function";
        return waits ? Promise.resolve(result).then(encoded).catch(thrown) : encoded(result);
      } catch (error) {
        return thrown(error);
      }
    };
    for (let pause = 100; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        return await store.transact(claim, attempted);
      } catch (error) {
        if (hasThrown && error === own) throw error; // whatever it is
        // D6: what the store could not do, it may have done all the same: the inbox tells, at the next claim.
        if (!hasThrown && isUncertain(error)) this.#active.get(claim.runId)?.doubt(claim.epoch, error);
        if (!isTakenBack(error)) throw error;
        // D8: attempts are those of the user's function. The store may have room again later, or the lock.
        this.logger.warn(`The store could not carry out transaction ${body.name}; trying again.`, { runId: claim.runId, error });
        await this.#passed(pause);
        if (info.signal.aborted) throw error;
      }
    }
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
  released(driver: Driver, how: "parked" | "closed" | "blocked" | "lost"): void {
    if (this.#active.get(driver.runId) === driver) {
      this.#active.delete(driver.runId);
      this.#leaving.delete(driver.runId);
    }
    if (how === "parked") {
      // A claim that overtook the news of the parking has given the run to another driver: that one knows more.
      if (this.#settings.cachedRuns === 0 || this.#stopping !== undefined || this.#active.has(driver.runId)) driver.evict();
      else {
        this.#cache.set(driver.runId, driver);
        if (this.#cache.size > this.#settings.cachedRuns) this.#evictOldest();
      }
    }
    if (this.#active.size === 0) this.#onIdle?.();
    if (this.#again) this.#claimSoon();
  }
  #evictOldest(): void {
    for (const [runId, driver] of this.#cache) {
      if (this.#promised.has(runId)) continue;
      this.#cache.delete(runId);
      driver.evict();
      return;
    }
  }

  // ── claims ──

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
    const kept = this.#blockedUpTo === 0 ? Math.min(1, this.#settings.concurrency - 1) : 0;
    if (this.#room <= kept) return false;
    return this.#settings.workflows.find(workflow, version) !== undefined;
  }
  /** Computes the first turn of a run before it is created (no claim). Undefined: let a claim do it. */
  async begin(run: NewRun): Promise<{ first: NonNullable<NewRun["first"]>; driver: Driver } | undefined> {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    if (workflow === undefined || this.#active.has(run.id)) return undefined; // the store says what the id clashes with
    const driver = new Driver(workflow, unborn(run, this.id, this.now()), this);
    this.#active.set(run.id, driver);
    const commit = await driver.firstTurn([]);
    return { first: { workerId: this.id, lease: this.#settings.lease, commit }, driver };
  }
  /** The run turned out to exist, or could not be created. */
  forget(driver: Driver): void {
    if (this.#active.get(driver.runId) === driver) this.#active.delete(driver.runId);
    driver.evict();
  }

  /** Once a turn of the event loop: slots that become free together are filled by one claim, and what was claimed together commits together. */
  #claimSoon(): void {
    if (this.#claimScheduled) return;
    this.#claimScheduled = true;
    this.environment.soon(() => {
      this.#claimScheduled = false;
      void this.#claim();
    });
  }
  async #claim(): Promise<void> {
    if (this.#stopping !== undefined || this.#settings.workflows.all.length === 0) return;
    if (this.#claiming !== undefined) {
      this.#again = true;
      return;
    }
    const room = this.#room;
    if (room <= 0) {
      this.#again = true; // when a slot is free
      return;
    }
    this.#again = false;
    this.#claiming = this.#claimUpTo(room);
    await this.#claiming;
    this.#claiming = undefined;
    if (this.#again && this.#room > 0) void this.#claim();
  }
  async #claimUpTo(room: number): Promise<void> {
    try {
      const tried = this.#blockedUpTo === undefined ? 0 : await this.#tryBlocked(Math.ceil(room / 2), this.#blockedUpTo);
      const left = room - tried;
      if (left <= 0) this.#again = true; // when a slot is free
      if (left <= 0 || this.#stopping !== undefined) return;
      const result = await this.#claimSome(left);
      if (this.#stopping !== undefined) return;
      this.#alarm?.cancel();
      if (result.nextAt !== undefined) this.#claimAfter(result.nextAt - result.now, result.runs.length);
      if (result.runs.length === left || this.#blockedUpTo !== undefined) this.#again = true;
    } catch (error) {
      this.logger.error("Runs could not be claimed; trying again.", { error });
    } finally {
      this.#promised.clear();
      while (this.#cache.size > this.#settings.cachedRuns) this.#evictOldest();
    }
  }
  /** V4: once by each worker that starts, whatever its code looks like; beside other work. */
  async #tryBlocked(limit: number, after: number): Promise<number> {
    const { runs, lastBlocked } = await this.#claimSome(limit, after);
    this.#blockedUpTo = lastBlocked;
    return runs.length;
  }
  async #claimSome(limit: number, blockedAfter?: number): Promise<ClaimResult> {
    const { lease, queue } = this.#settings;
    const asked = this.#local();
    const leasedAt = this.environment.elapsed();
    const result = await this.#ports.store.claim({
      workerId: this.id,
      queue,
      serves: this.#settings.workflows.serves,
      limit,
      lease,
      blockedAfter,
      cached: (runId) => {
        const driver = this.#cache.get(runId);
        if (driver === undefined) return undefined;
        this.#promised.add(runId);
        return { execution: driver.execution, turns: driver.turns };
      },
    });
    this.#setClock(asked, result.now);
    // W4: it was asked for before; others may have it.
    if (this.#stopping !== undefined) await Promise.all(result.runs.map((claim) => this.#driverOf(claim)?.giveBack()));
    else for (const claim of result.runs) this.#take(claim, leasedAt);
    for (const { recoveredFrom } of result.runs) if (recoveredFrom !== undefined) this.#takeovers.note(recoveredFrom);
    return result;
  }
  /** V4: has it yet to try runs that were blocked when it started? */
  get isTryingBlocked(): boolean {
    return this.#blockedUpTo !== undefined && this.#stopping === undefined && this.#settings.workflows.serves.length > 0;
  }
  /** What is due and was not claimed, somebody has locked just now. */
  #claimAfter(ms: number, claimed: number): void {
    this.#alarm = this.environment.after(ms <= 0 && claimed === 0 ? LOCKED_MS : ms, () => void this.#claim());
  }
  #driverOf({ run }: ClaimedRun): Driver | undefined {
    const workflow = this.#settings.workflows.find(run.workflow, run.version);
    return workflow === undefined ? undefined : new Driver(workflow, run, this);
  }
  #take(claim: ClaimedRun, leasedAt: number): void {
    const { run } = claim;
    const cached = this.#cache.get(run.id);
    this.#cache.delete(run.id);
    if (claim.turns === undefined && cached === undefined && run.turns > 0) {
      this.logger.error(`Run ${run.id} came without its history, which is not here; it is given back.`, { runId: run.id });
      return void this.#driverOf(claim)?.giveBack();
    }
    const reusable = claim.turns === undefined && cached !== undefined;
    if (!reusable) cached?.evict();
    const driver = reusable ? cached : this.#driverOf(claim);
    if (driver === undefined) return this.#blockUnserved(claim);
    // D4: a worker that stood still until its lease had run out may claim the same run again: the claim before is lost.
    this.#active.get(run.id)?.lose(new HoldfastError("The lease of this run was lost.", { code: "HF_CLAIM_LOST" }));
    this.#active.set(run.id, driver);
    driver.leasedAt = leasedAt;
    driver.claimed(claim).catch((error: unknown) => {
      this.logger.error(`Run ${run.id} could not be driven; it is given back when its lease ends.`, { runId: run.id, error });
      driver.lose(error);
    });
  }

  /** V4: handed out by a row that something else has written to. Kept, it would lie here until its lease ends, again and again. */
  #blockUnserved({ run, inbox }: ClaimedRun): void {
    const { id: runId, execution, epoch, workflow, version } = run;
    const cause = new TypeError(
      `Run ${runId} was handed out as one that this worker serves, and says that it is of ${workflow}@${version ?? ""}.`,
    );
    const error = new StoreCorruptError({ where: "The store", cause });
    this.logger.error(`Run ${runId} is blocked: this worker has no code for what its row says.`, { runId, error: cause });
    const blocked = { error: serializeError(error), code: "" };
    const turn: TurnCommit = {
      runId,
      execution,
      epoch,
      workerId: this.id,
      status: "blocked",
      blocked,
      lease: "park",
      seen: inbox.at(-1)?.id ?? 0,
    };
    this.#ports.commit(
      turn,
      () => {},
      (failure) =>
        this.logger.error(`Run ${runId} could not be blocked; it is tried again when its lease ends.`, { runId, error: failure }),
    );
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
  async #renewOnce(): Promise<boolean> {
    const drivers = [...this.#active.values()].filter(({ isBorn }) => isBorn);
    const claims = drivers.map(({ runId, epoch, seen }) => ({ runId, epoch, seen }));
    const asked = this.environment.elapsed();
    try {
      const results = await this.#ports.store
        .renew(this.id, this.#settings.lease, claims)
        .catch((error: unknown) => this.#renewEach(claims, error));
      results.forEach(({ held, inbox }, i) => {
        const driver = drivers[i];
        if (driver === undefined || this.#active.get(driver.runId) !== driver) return;
        if (driver.epoch !== claims[i]?.epoch) return; // M7: of a claim that is over; what it tells of may be consumed by now
        if (held) driver.leasedAt = asked;
        else driver.lose(claimLost());
        if (held && inbox.length > 0) void driver.receive(inbox);
      });
      return true;
    } catch (error) {
      this.logger.error("Leases could not be renewed; trying again.", { error });
      return false;
    }
  }

  /** The store won't have the renewal of one of them: those beside it keep their leases, that one is let go. */
  async #renewEach(claims: Parameters<Store["renew"]>[2], refusal: unknown): ReturnType<Store["renew"]> {
    if (!isRefusal(refusal)) throw refusal;
    const results: Awaited<ReturnType<Store["renew"]>> = [];
    for (const claim of claims) {
      const renewed = await this.#ports.store.renew(this.id, this.#settings.lease, [claim]).catch((error: unknown) => {
        if (!isRefusal(error)) throw error;
        this.logger.error(`The lease of run ${claim.runId} can't be renewed; the run is let go.`, { runId: claim.runId, error });
        return [{ held: false, inbox: [] }];
      });
      results.push(...renewed);
    }
    return results;
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
    this.#alarm?.cancel();
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
    const claim = this.#claiming === undefined ? undefined : Promise.race([this.#claiming, this.#passed(gracePeriod)]);
    const given = [...this.#active.values()].map((driver) => driver.giveBack());
    await Promise.all([activities, claim, ...given, ...this.#givenBack]);
    for (const timer of this.#timers) timer.cancel(); // not before: one of them keeps the process alive
    for (const driver of this.#cache.values()) driver.evict();
    this.#cache.clear();
    this.#takeovers.flush();
    this.#intolerant();
    this.#guard?.stop();
    this.#ports.stopped(this);
    this.#hasStopped();
  }
}

/** D4: steps are told at once; which of these it was would have to be asked for. */
function claimLost(): HoldfastError {
  const what = "This run is no longer this worker's: it was terminated, its deadline has passed, or another worker has it.";
  return new HoldfastError(what, { code: "HF_CLAIM_LOST" });
}

/** A fault of the store's that passes, and has taken the transaction back: a full disk, somebody else's lock. */
function isTakenBack(error: unknown): boolean {
  return error instanceof StoreError && error.retryable && error.code !== "HF_STORE_UNAVAILABLE";
}

/** Did the transaction perhaps commit? A store that says what was wrong with it has taken it back. */
function isUncertain(error: unknown): boolean {
  if (error instanceof IllegalReturnError) return false;
  if (error instanceof StoreError) return error.code === "HF_STORE_UNAVAILABLE";
  const { code } = error as { code?: unknown };
  return !(typeof code === "string" && SQL_STATE.test(code));
}
/** A database's own refusal: a constraint that was deferred, a conflict of transactions. */
const SQL_STATE = /^(?:23|25|40)[0-9A-Z]{3}$/;

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
