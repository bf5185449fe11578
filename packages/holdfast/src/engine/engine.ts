// The embedded engine, a `Backend` on a store: one store, its workers in this process, and the clients that wait for something.
// Owns: the committer, the workers, the waiters for results and updates.
// Invariants: D3 (all writes of this process share its committer), M1 (acknowledged means durable), D9 (hints may be lost).

import {
  type ActivityInfo,
  type AnyWorkflow,
  type Codec,
  DEFAULT_LIMITS,
  encodeLimited,
  type History,
  InvalidInputError,
  type Limits,
  type Logger,
  messageOf,
  type OperationInfo,
  sealed,
  toHistory,
  UnsupportedError,
} from "@holdfast/core";
import { BlockedLog, type Environment, operationsOf, type Timer, timeOrderedId } from "@holdfast/host";
import type {
  AddressedTo,
  Backend,
  BulkAction,
  Message,
  Reason,
  RunCounts,
  RunDescription,
  RunEnd,
  RunPage,
  RunSelection,
  RunSnapshot,
  RunStart,
  StartAnswer,
  UpdateAnswer,
  UpdateJob,
  WaitOptions,
  WorkerSettings,
  WorkerSighting,
} from "../backend/port.ts";
import { engineClosed } from "../backend/waiting.ts";
import { Batcher } from "../store/batcher.ts";
import { sizeOfMessage } from "../store/batchSizes.ts";
import { isRefusal } from "../store/errors.ts";
import type { DeleteResult } from "../store/keepingPort.ts";
import type {
  AddressedMessage,
  CreateResult,
  NewRun,
  ResumeResult,
  SendResult,
  Store,
  StoreWithin,
  Termination,
  TurnCommit,
} from "../store/port.ts";
import { sealedStore } from "../store/sealedStore.ts";
import { type AcceptanceHost, waitForAcceptance } from "./acceptance.ts";
import { type BulkInput, bulkStart, bulkWorkflow, servingBulk } from "./bulk.ts";
import { Committer } from "./committer.ts";
import { Deadlines } from "./deadlines.ts";
import { Descriptions } from "./descriptions.ts";
import { FiledQueues, openQueues } from "./filedQueues.ts";
import { type ForkRequest, forkedRun } from "./fork.ts";
import { OutageLog } from "./outages.ts";
import { reasonsOf } from "./reasons.ts";
import { ResultWaiters } from "./resultWaiters.ts";
import { RETIRE_EVERY_MS, Retirement } from "./retirement.ts";
import type { RunDriver } from "./runDriver.ts";
import { Schedules } from "./schedules.ts";
import { UnservedRuns } from "./unservedRuns.ts";
import { WorkerHost, type WorkerHostSettings } from "./worker.ts";

export interface EngineOptions {
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  /** How long closed runs are kept whose workflow says nothing (B4). Default: as the store says, else forever. */
  readonly retention?: number | "forever" | undefined;
  readonly internals?: EngineInternals | undefined;
}
/** Replacements for tests. */
export interface EngineInternals {
  /** The shortest turn that the watchdog logs, in milliseconds. Default 5,000. */
  readonly watchdogAfter?: number;
  readonly replaceStep?: (name: string) => ((info: unknown) => unknown) | undefined;
  readonly replaceActivity?: (name: string) => ((args: unknown, info: ActivityInfo) => unknown) | undefined;
}

export class Engine implements Backend {
  readonly name = "the embedded engine";
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Limits;
  readonly queues: Backend["queues"];
  readonly #committer: Committer;
  readonly #sends: Batcher<AddressedMessage, SendResult>;
  readonly #terminations: Batcher<Termination, SendResult>;
  readonly #resumptions: Batcher<string, ResumeResult>;
  readonly #deletions: Batcher<string, DeleteResult>;
  readonly #workers = new Set<WorkerHost>();
  readonly #results: ResultWaiters;
  readonly #blockedLog: BlockedLog;
  readonly #descriptions: Descriptions;
  readonly #internals: EngineInternals;
  readonly #unserved: UnservedRuns;
  readonly #outages: OutageLog;
  readonly #filed: FiledQueues;
  readonly #bulk: AnyWorkflow;
  readonly #retention: EngineOptions["retention"];
  #unwatch: () => void = () => {};
  #unwatchOutages: (() => void) | undefined;
  readonly #timers: Timer[] = [];
  readonly #commitWatchers = new Set<(runId: string) => void>();
  /** The latest start of an id, until it is answered. */
  readonly #starting = new Map<string, Promise<unknown>>();
  #closure: Promise<void> | undefined;
  #closing = false;
  #closed = false;
  readonly #retirement: Retirement;
  readonly #deadlines: Deadlines;
  readonly schedules: Schedules;
  constructor(options: EngineOptions) {
    this.store = sealedStore(options.store, options.codec);
    this.environment = options.environment;
    this.codec = options.codec;
    this.queues = openQueues(this.store, () => this.#assertOpen());
    this.#retention = options.retention;
    this.#bulk = bulkWorkflow({
      store: this.store,
      send: (message) => this.send(message),
      terminate: (runId, reason) => this.terminate(runId, reason),
      resume: (runId) => this.resume(runId),
      delete: (runId) => this.delete(runId),
    });
    this.#filed = new FiledQueues(options.environment);
    this.#outages = new OutageLog(options.logger, options.environment);
    this.logger = this.#outages;
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#blockedLog = new BlockedLog(options.logger, options.environment);
    this.#descriptions = new Descriptions(() => this.#workers);
    this.#internals = options.internals ?? {};
    this.#results = new ResultWaiters(this.store, options.environment, this.logger, {
      isRetryingBlocked: () => [...this.#workers].some((worker) => worker.isTryingBlocked),
      describe: (runId) => this.describe(runId),
    });
    const { store, logger } = this;
    this.#unserved = new UnservedRuns({
      store,
      logger,
      results: this.#results,
      descriptions: this.#descriptions,
    });
    this.#retirement = new Retirement(store, logger);
    this.#committer = new Committer(
      this.store,
      options.environment,
      () => [...this.#workers].some((worker) => worker.computing > 0),
      () => [...this.#workers].reduce((sum, worker) => sum + worker.inProgress, 0),
      (turn, result) => this.#committed(turn, result.goesOn === true),
      ({ runId }, error) => this.logger.warn(`The end of a run waits for a lock. ${messageOf(error)}`, { runId }),
    );
    const { limits } = this.store;
    const { environment } = options;
    this.schedules = new Schedules({
      ...{ store: this.store, environment, codec: options.codec, logger: this.logger },
      assertOpen: () => this.#assertOpen(),
      readable: () => this.#readable,
      create: (starts) => this.create(starts),
      canceled: (runId) => this.#results.mayEndElsewhere(runId),
      lookAgain: () => void this.#deadlines.look(),
    });
    this.#deadlines = new Deadlines({
      ...{ store: this.store, environment, logger: this.logger },
      reached: () => this.#outages.reached(),
      due: (found) => this.schedules.tick(found),
    });
    this.#sends = new Batcher(environment, (messages, wait) => this.store.send(messages, wait), {
      limits,
      keyOf: ({ runId }) => runId,
      sizeOf: sizeOfMessage,
    });
    this.#terminations = new Batcher(environment, (runs) => this.store.terminate(runs), { limits, keyOf: ({ runId }) => runId });
    this.#deletions = new Batcher(environment, (runIds) => this.store.delete(runIds), { limits, keyOf: (runId) => runId });
    this.#resumptions = new Batcher(environment, (runIds) => this.store.resume(runIds), { limits, keyOf: (runId) => runId });
  }
  async open(): Promise<void> {
    await this.store.open({ retention: this.#retention });
    this.#unwatchOutages = this.store.watchOutages?.({
      gone: (error, since) => this.#outages.gone(error, since),
      back: () => this.#outages.reached(),
    });
    this.#unwatch = this.store.watch((wakeup) => {
      for (const worker of this.#workers) worker.wake(wakeup);
      if (wakeup.results !== true) return;
      if (wakeup.ended !== undefined && wakeup.isOwn !== true) this.#results.lookAtEnded(wakeup.ended);
      else this.#results.look(wakeup.isOwn === true);
    });
    this.#deadlines.start();
    this.#timers.push(
      this.environment.every(1_000, () => this.#results.look()),
      this.environment.every(1_000, () => void this.#unserved.look()),
      this.environment.every(RETIRE_EVERY_MS, () => void this.#retirement.look()),
    );
  }
  /** From now on nothing new begins. What has begun may end. */
  refuse(): void {
    this.#closing = true;
  }
  close(): Promise<void> {
    this.refuse();
    this.#closure ??= this.#close();
    return this.#closure;
  }
  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    this.#closed = true;
    this.#retirement.stop();
    this.#unwatch();
    this.#unwatchOutages?.();
    this.#deadlines.stop();
    for (const timer of this.#timers) timer.cancel();
    await this.schedules.close();
    this.#results.close();
    this.#blockedLog.flush();
    await this.store.close();
  }
  /** For calls that must not begin once `close` was called. */
  #assertOpen(): void {
    if (this.#closing) throw engineClosed();
  }
  /** The store, for reading. Works while the engine closes, too. */
  get #readable(): Store {
    if (this.#closed) throw engineClosed();
    return this.store;
  }

  // ── workers ──

  async startWorker(asked: WorkerSettings): Promise<WorkerHost> {
    this.#assertOpen();
    const { watchdogAfter = 5_000, replaceStep = NONE, replaceActivity = NONE } = this.#internals;
    const settings: WorkerHostSettings = {
      ...asked,
      workflows: servingBulk(asked.workflows, this.#bulk),
      watchdogAfter: Math.max(watchdogAfter, 2 * asked.turnTimeout),
      maxRecoveries: 100,
      pollInterval: 1_000,
      replaceStep,
      replaceActivity,
    };
    const worker = new WorkerHost(settings, {
      store: this.store,
      environment: this.environment,
      codec: this.codec,
      logger: this.logger,
      limits: this.limits,
      encode: (value, what) => encodeLimited(this.codec, value, this.limits, what),
      commit: (turn, done, failed) => this.#committer.commit(turn, done, failed),
      blockedLog: this.#blockedLog,
      checkDeadlines: () => void this.#deadlines.look(),
      stopped: (one) => void this.#workers.delete(one),
    });
    this.#workers.add(worker);
    try {
      await worker.start();
    } catch (error) {
      this.#workers.delete(worker);
      throw error;
    }
    return worker;
  }
  /** True while this process does something that continues without a message or a timer. */
  get busy(): boolean {
    const batchers = [this.#sends, this.#terminations, this.#resumptions, this.#deletions, this.#committer];
    return (
      this.#results.busy || this.schedules.busy || batchers.some(({ idle }) => !idle) || [...this.#workers].some((worker) => worker.busy)
    );
  }
  /** The steps and activities that are running. They may continue by themselves, or wait for time to pass. */
  get running(): string[] {
    return [...this.#workers].flatMap((worker) => worker.running);
  }
  /** True if a caller in this process waits for a result or an update. */
  get waiting(): boolean {
    return this.#results.waiting;
  }
  /** True if one of these callers has no timeout. */
  get waitsWithoutTimeout(): boolean {
    return this.#results.waitsWithoutTimeout;
  }
  /** Rejects the waits without a timeout, with an error for each run. */
  rejectEndlessWaits(errorOf: (runId: string) => Promise<Error>): Promise<void> {
    return this.#results.rejectEndlessWaits(errorOf);
  }
  /** Calls back with the id of each run of which a worker of this process has committed a turn. Returns how to stop. */
  watchCommits(onCommit: (runId: string) => void): () => void {
    this.#commitWatchers.add(onCommit);
    return () => void this.#commitWatchers.delete(onCommit);
  }
  /** Callers in this process get ends and outcomes without reading the store. */
  #committed(turn: TurnCommit, goesOn = false): void {
    if (this.#commitWatchers.size > 0) for (const watcher of this.#commitWatchers) watcher(turn.runId);
    this.#deadlines.expect(turn.children ?? []);
    for (const { runId, message } of turn.sends ?? []) if (message.job.type === "cancel") this.#results.mayEndElsewhere(runId); // as in send()
    for (const { id, outcome } of turn.updates ?? []) this.#results.updateEnded(turn.runId, id, outcome);
    const { close, blocked, runId } = turn;
    if (goesOn) return this.#results.mayEndElsewhere(runId); // Q9: with its next start, which any worker may claim
    if (close !== undefined && close.status !== "continued") {
      const { status, output, error, resumable = true } = close;
      this.#results.runEnded({ id: runId, status, output, error, resumable });
    } else if (blocked !== undefined) this.#results.runEnded({ id: runId, status: "blocked", output: undefined, error: blocked.error });
  }
  // ── starting ──

  create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]> {
    const [one] = starts;
    if (one !== undefined && starts.length === 1) return this.#start(one, tx);
    return Promise.all(starts.map((start) => this.#start(start, tx))).then((answers) => answers.flat());
  }
  /** P10: of starts with one id the first counts. Its first turn may be computed before it is created: the others wait for that. */
  #start(run: RunStart, tx: unknown): Promise<StartAnswer[]> {
    if (run.isIdGenerated || tx !== undefined) return this.#answerStart(run, tx);
    const earlier = this.#starting.get(run.id);
    const answer = earlier === undefined ? this.#answerStart(run, tx) : earlier.then(() => this.#answerStart(run, tx));
    if (run.onConflict !== "reject") return answer; // it is never begun before it is created
    this.#starting.set(run.id, answer);
    return answer.finally(() => this.#starting.get(run.id) === answer && this.#starting.delete(run.id));
  }
  /** Returns a list, like `create`: most calls start one run, and need no further promise for it. */
  async #answerStart(run: RunStart, tx: unknown): Promise<StartAnswer[]> {
    try {
      this.#assertOpen();
      if (tx !== undefined) return await this.#within("start", tx).create([run]);
      const begun = await this.#begin(run);
      if (begun === undefined) return [await this.#create(run)];
      let result: CreateResult;
      const asked = this.environment.elapsed();
      try {
        result = await this.#committer.create({ ...run, first: begun.first });
      } catch (error) {
        if (isRefusal(error)) begun.worker.forget(begun.driver);
        else void begun.driver.creationUnknown(error, begun.first.commit);
        throw error;
      }
      if (result.status !== "created" || this.#filed.isFiled(run, result)) begun.worker.forget(begun.driver);
      else {
        this.#results.expectOwnEnd(run.id);
        begun.driver.created();
        begun.driver.leasedAt = asked;
        await begun.worker.confirmLease(begun.driver, begun.first.commit);
        begun.driver.begun(begun.first.commit);
        this.#committed(begun.first.commit);
      }
      return [result];
    } catch (error) {
      return [{ status: "failed", error }];
    }
  }
  async fork(runId: string, request: ForkRequest): Promise<StartAnswer | { readonly status: "not-found" }> {
    this.#assertOpen();
    const run = await forkedRun(this.store, this.environment, runId, request);
    return run === undefined ? { status: "not-found" } : this.#create(run);
  }
  async #create(run: NewRun): Promise<CreateResult> {
    // Q9: what a run that exists begins with next may end without a worker of this process.
    if (run.onConflict === "replace" || run.onConflict === "debounce") this.#results.mayEndElsewhere(run.id);
    const result = await this.#committer.create(run);
    this.#deadlines.expect([run]);
    const { deadline, deadlineAt } = run;
    // A deadline would end it without its worker.
    if (result.status === "created" && deadline === undefined && deadlineAt === undefined && this.#serves(run))
      this.#results.expectOwnEnd(run.id);
    return result;
  }
  #serves(run: NewRun): boolean {
    return [...this.#workers].some((worker) => worker.hasCodeFor(run));
  }
  /** If a worker of this process has a free slot, the first turn is computed before the run is created: no claim, one commit less. */
  async #begin(run: RunStart): Promise<{ worker: WorkerHost; driver: RunDriver; first: NonNullable<NewRun["first"]> } | undefined> {
    if (!run.isChecked || run.onConflict !== "reject" || (run.delay ?? 0) > 0 || run.startAt !== undefined) return undefined;
    if (run.key !== undefined || run.after !== undefined || run.schedule !== undefined) return undefined; // Q2, Q10: the store decides when
    if (this.#filed.has(run.queue)) return undefined;
    if ((run.messages?.length ?? 0) > 0 || run.deadline !== undefined || run.deadlineAt !== undefined || run.idempotencyKey !== undefined)
      return undefined;
    for (const worker of this.#workers) {
      if (!worker.hasRoomFor(run)) continue;
      const begun = await worker.begin(run);
      return begun === undefined ? undefined : { worker, ...begun };
    }
    return undefined;
  }

  // ── messages and waiting ──

  async send(message: AddressedMessage, tx?: unknown): Promise<SendResult> {
    this.#assertOpen();
    if (message.message.job.type === "cancel") this.#results.mayEndElsewhere(message.runId); // a run that has not begun ends at once
    if (tx === undefined) return this.#sends.add(message);
    const [sent] = await this.#within("signal", tx).send([message]);
    return sent as SendResult;
  }
  async terminate(runId: string, reason: string | undefined): Promise<SendResult> {
    this.#assertOpen();
    this.#results.mayEndElsewhere(runId);
    return this.#terminations.add({ runId, reason });
  }
  async resume(runId: string): Promise<ResumeResult> {
    this.#assertOpen();
    return this.#resumptions.add(runId);
  }
  async delete(runId: string): Promise<DeleteResult> {
    this.#assertOpen();
    return this.#deletions.add(runId);
  }
  /** A store without transactions is an error: the caller relies on `tx`. */
  #within(what: string, tx: unknown): StoreWithin {
    if (this.store.within !== undefined) return this.store.within(tx);
    const message = "This store can't take part in your transaction. Leave out tx, or use a store on the same database.";
    throw new InvalidInputError({ what, issues: [{ message, path: ["tx"] }] });
  }
  get #acceptance(): AcceptanceHost {
    return { store: this.store, environment: this.environment, results: this.#results, isClosed: () => this.#closed };
  }
  async update(update: AddressedTo<Message<UpdateJob>>, wait: WaitOptions): Promise<UpdateAnswer> {
    const sent = await this.send(update);
    const { runId, message } = update;
    const { id } = message.job;
    if (sent.status === "not-found" || sent.status === "other-workflow") return sent;
    // M10: an update that ended before its run closed still has its outcome.
    if (sent.status === "closed") return (await this.#readable.updates([{ runId, id }]))[0] ?? sent;
    if (this.#closed) throw engineClosed();
    return message.acceptWithin === undefined
      ? this.#results.update(runId, id, wait)
      : waitForAcceptance(this.#acceptance, { runId, update: message.job, within: message.acceptWithin }, wait);
  }
  /** Works while the engine closes, too: a run may end meanwhile. */
  ended(runId: string, wait: WaitOptions): Promise<RunEnd> {
    return this.#closed ? Promise.reject(engineClosed()) : this.#results.end(runId, wait);
  }

  async bulk(selection: RunSelection, action: BulkAction): Promise<string> {
    this.#assertOpen();
    // Runs of this millisecond are older, as far as the store can tell.
    const before = (await this.store.now()) + 1;
    const input: BulkInput = { selection, action, before };
    const id = timeOrderedId(this.environment);
    const encoded = encodeLimited(this.codec, input, this.limits, "the filter and the action");
    const [answer] = await this.create([bulkStart(id, encoded, this.environment.uuid())]);
    if (answer?.status === "failed") throw answer.error;
    // What the caller starts from now on is newer: that millisecond is over. In real time, since the clock of a test may stand still.
    const alive = this.environment.stayAlive();
    await new Promise<void>((done) => this.environment.patience(2, done));
    alive.cancel();
    return id;
  }
  async workers(): Promise<WorkerSighting[]> {
    const live = this.#readable.liveWorkers;
    if (live === undefined) throw new UnsupportedError({ feature: "workers", host: "this store", instead: "Use one that keeps workers." });
    return live.call(this.#readable);
  }

  // ── looking ──

  async get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]> {
    return this.#readable.get(runIds);
  }
  async describe(runId: string): Promise<RunDescription | undefined> {
    const [row] = await this.#readable.get([runId]);
    return row === undefined ? undefined : this.#descriptions.describe(row, this.#readable);
  }
  async why(runId: string): Promise<readonly Reason[] | undefined> {
    const [row] = await this.#readable.get([runId]);
    return row === undefined ? undefined : reasonsOf(row, this.#readable, this.#workers);
  }
  async operations({ id, finishedAt }: RunSnapshot): Promise<OperationInfo[]> {
    const store = this.#readable;
    const turns = await store.history(id);
    const [attempts, workers] = await Promise.all([store.attempts(id), store.workers?.(id)]); // after the turns, so that none is missing
    return operationsOf(turns, attempts, workers ?? new Map(), this.codec, finishedAt);
  }
  async history(run: RunSnapshot): Promise<History> {
    return toHistory(sealed(await this.#readable.history(run.id), this.codec), run);
  }
  async list(page: RunPage): Promise<{ runs: RunDescription[]; cursor: string | undefined }> {
    const { runs, cursor } = await this.#readable.list(page);
    return { runs: await this.#descriptions.ofRows(runs, this.#readable), cursor };
  }
  async count(selection: RunSelection): Promise<RunCounts> {
    return this.#readable.count(selection);
  }
}

/** No replacement. */
const NONE = (): undefined => undefined;
