// The embedded engine, a `Backend` on a store: one store, its workers in this process, and the clients that wait for something.
// Owns: the committer, the workers, the waiters for results and updates.
// Invariants: D3 (all writes of this process share its committer), M1 (acknowledged means durable), D9 (hints may be lost).

import {
  type ActivityInfo,
  type Codec,
  DEFAULT_LIMITS,
  encodeLimited,
  type History,
  InvalidInputError,
  type Limits,
  type Logger,
  messageOf,
  NOT_ACCEPTED_IN_TIME,
  type OperationInfo,
  type RunStatus,
  sealed,
  serializeError,
  toHistory,
  UpdateRejectedError,
} from "@holdfast/core";
import { type Environment, operationsOf, type Timer } from "@holdfast/host";
import type {
  AddressedTo,
  Backend,
  Message,
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
} from "../backend/port.ts";
import { engineClosed } from "../backend/waiting.ts";
import { BlockedLog } from "../host/blocking.ts";
import { Committer } from "../host/committer.ts";
import { WorkerHost, type WorkerHostSettings } from "../host/worker.ts";
import { Batcher } from "../store/batcher.ts";
import { sizeOfMessage } from "../store/batchSizes.ts";
import { isRefusal } from "../store/errors.ts";
import type {
  AddressedMessage,
  CreateResult,
  NewRun,
  ResumeResult,
  RunRow,
  SendResult,
  Store,
  StoreWithin,
  Termination,
  TurnCommit,
  UpdateOutcome,
} from "../store/port.ts";
import { sealedStore } from "../store/sealedStore.ts";
import { Descriptions } from "./descriptions.ts";
import { OutageLog } from "./outages.ts";
import { ResultWaiters } from "./resultWaiters.ts";
import type { RunDriver } from "./runDriver.ts";

/** M8: after the time that an update may wait, in milliseconds, until its sender rejects it; and between tries. */
const REJECT_LATER_MS = 100;
const REJECT_AGAIN_MS = 500;

export interface EngineOptions {
  readonly store: Store;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  readonly limits: Partial<Limits>;
  readonly internals?: EngineInternals | undefined;
}
/** What tests put in place of the real thing. */
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
  readonly #committer: Committer;
  readonly #sends: Batcher<AddressedMessage, SendResult>;
  readonly #terminations: Batcher<Termination, SendResult>;
  readonly #resumptions: Batcher<string, ResumeResult>;
  readonly #workers = new Set<WorkerHost>();
  readonly #results: ResultWaiters;
  readonly #blockedLog: BlockedLog;
  readonly #descriptions: Descriptions;
  readonly #internals: EngineInternals;
  /** What was warned of: nothing alive, as far as this process knows, could fulfil what is waited for. */
  readonly #warned = new Set<string>();
  readonly #outages: OutageLog;
  #unwatch: () => void = () => {};
  #unwatchOutages: (() => void) | undefined;
  readonly #timers: Timer[] = [];
  #closure: Promise<void> | undefined;
  #closing = false;
  #closed = false;
  #retiring = false;
  #expiring = false;
  #expireAgain = false;
  /** Why deadlines could not be looked at: told once, since they are looked at twice a second. */
  #lateError: string | undefined;
  constructor(options: EngineOptions) {
    this.store = sealedStore(options.store, options.codec);
    this.environment = options.environment;
    this.codec = options.codec;
    this.#outages = new OutageLog(options.logger, options.environment);
    this.logger = this.#outages;
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#blockedLog = new BlockedLog(options.logger, options.environment);
    this.#descriptions = new Descriptions(options.environment, () => this.#workers);
    this.#internals = options.internals ?? {};
    this.#results = new ResultWaiters(this.store, options.environment, this.logger, {
      isTrying: () => [...this.#workers].some((worker) => worker.isTryingBlocked),
      describe: (runId) => this.describe(runId),
    });
    this.#committer = new Committer(
      this.store,
      options.environment,
      () => [...this.#workers].some((worker) => worker.computing > 0),
      () => [...this.#workers].reduce((sum, worker) => sum + worker.inProgress, 0),
      (turn) => this.#tell(turn),
      ({ runId }, error) => this.logger.warn(`The end of a run waits for a lock. ${messageOf(error)}`, { runId }),
    );
    const { limits } = this.store;
    const { environment } = options;
    this.#sends = new Batcher(environment, (messages, wait) => this.store.send(messages, wait), {
      limits,
      keyOf: ({ runId }) => runId,
      sizeOf: sizeOfMessage,
    });
    this.#terminations = new Batcher(environment, (runs) => this.store.terminate(runs), { limits, keyOf: ({ runId }) => runId });
    this.#resumptions = new Batcher(environment, (runIds) => this.store.resume(runIds), { limits, keyOf: (runId) => runId });
  }
  async open(): Promise<void> {
    await this.store.open();
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
    this.#timers.push(
      this.environment.every(500, () => {
        if (!this.#expiring) void this.#expire();
      }),
      this.environment.every(1_000, () => this.#results.look()),
      this.environment.every(1_000, () => void this.#warnOfUnserved()),
      this.environment.every(60_000, () => void this.#retire()),
    );
  }
  /** Nothing new is begun from here on: what was begun may end. */
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
    this.#unwatch();
    this.#unwatchOutages?.();
    for (const timer of this.#timers) timer.cancel();
    this.#results.close();
    this.#blockedLog.flush();
    await this.store.close();
  }
  /** For what can't be begun once `close` was called. */
  #assertOpen(): void {
    if (this.#closing) throw engineClosed();
  }
  /** The store, for reading: also while the engine closes. */
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
      lookAtDeadlines: () => void this.#expire(),
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
  /** Is anything of this process's under way that will go on by itself? */
  get busy(): boolean {
    const batchers = [this.#sends, this.#terminations, this.#resumptions, this.#committer];
    return this.#results.busy || batchers.some(({ idle }) => !idle) || [...this.#workers].some((worker) => worker.busy);
  }
  /** Code of users that runs: steps and activities. It may go on by itself, or wait for time to pass. */
  get running(): string[] {
    return [...this.#workers].flatMap((worker) => worker.running);
  }
  /** Does anybody in this process wait for a result or an update? */
  get waiting(): boolean {
    return this.#results.waiting;
  }
  /** Does anybody wait for as long as it takes? */
  get waitingForEver(): boolean {
    return this.#results.waitingForEver;
  }
  /** Tells those who wait for as long as it takes, run by run, that they wait in vain. */
  giveUp(why: (runId: string) => Promise<Error>): Promise<void> {
    return this.#results.giveUp(why);
  }
  /** Clients of this process learn of ends and outcomes without looking them up. */
  #tell(turn: TurnCommit): void {
    this.#expectDeadlines(turn.children ?? []);
    for (const { runId, message } of turn.sends ?? []) if (message.job.type === "cancel") this.#results.doubt(runId); // as in send()
    for (const { id, outcome } of turn.updates ?? []) this.#results.tellUpdate(turn.runId, id, outcome);
    const { close, blocked, runId } = turn;
    if (close !== undefined && close.status !== "continued") {
      const { status, output, error, resumable = true } = close;
      this.#results.tellEnd({ id: runId, status, output, error, resumable });
    } else if (blocked !== undefined) this.#results.tellEnd({ id: runId, status: "blocked", output: undefined, error: blocked.error });
  }
  /** K7: looks at deadlines, and at the timeouts of activities. One look after the other, however slow the store is. */
  async #expire(): Promise<void> {
    this.#expireAgain = true;
    if (this.#expiring) return;
    this.#expiring = true;
    while (this.#expireAgain && !this.#closed) {
      this.#expireAgain = false;
      try {
        await this.store.expire();
        this.#outages.reached();
        this.#lateError = undefined;
      } catch (error) {
        const isTold = this.#lateError === String(error);
        this.#lateError = String(error);
        if (!this.#closed && !isTold) this.logger.error("Deadlines could not be looked at; trying again.", { error });
      }
    }
    this.#expiring = false;
  }
  /** Small batches, one after the other, so that nobody waits long for one. */
  async #retire(): Promise<void> {
    if (this.#retiring || this.store.retire === undefined) return;
    this.#retiring = true;
    try {
      while (!this.#closed && (await this.store.retire()) > 0);
    } catch (error) {
      this.logger.error("Closed runs could not be retired; trying again later.", { error });
    } finally {
      this.#retiring = false;
    }
  }
  /** Deadlines that are near are looked at when they strike; those that are over already, at once. */
  #expectDeadlines(runs: readonly NewRun[]): void {
    for (const { deadline, deadlineAt } of runs) {
      const after = deadline ?? (deadlineAt === undefined ? undefined : deadlineAt - this.environment.now());
      // Later ones are found in time by looking now and then; a timer each would be dear.
      if (after !== undefined && after <= 0) void this.#expire();
      else if (after !== undefined && after <= 1_000) this.environment.after(after, () => void this.#expire());
    }
  }

  // ── starting ──

  create(starts: readonly RunStart[], tx?: unknown): Promise<StartAnswer[]> {
    const [one] = starts;
    if (one !== undefined && starts.length === 1) return this.#answerStart(one, tx);
    return Promise.all(starts.map((start) => this.#answerStart(start, tx))).then((answers) => answers.flat());
  }
  /** In a list, as `create` answers: most calls start one run, and need no further promise for it. */
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
        else void begun.driver.notBorn(error, begun.first.commit);
        throw error;
      }
      if (result.status !== "created") begun.worker.forget(begun.driver);
      else {
        this.#results.expect(run.id);
        begun.driver.born();
        begun.driver.leasedAt = asked;
        await begun.worker.makeSure(begun.driver, begun.first.commit);
        begun.driver.begun(begun.first.commit);
        this.#tell(begun.first.commit);
      }
      return [result];
    } catch (error) {
      return [{ status: "failed", error }];
    }
  }
  async #create(run: NewRun): Promise<CreateResult> {
    const result = await this.#committer.create(run);
    this.#expectDeadlines([run]);
    const { deadline, deadlineAt } = run;
    // A deadline ends it without its worker.
    if (result.status === "created" && deadline === undefined && deadlineAt === undefined && this.#serves(run))
      this.#results.expect(run.id);
    return result;
  }
  #serves(run: NewRun): boolean {
    return [...this.#workers].some((worker) => worker.hasCodeFor(run));
  }
  /** Where a worker here has a free slot, the first turn is computed before the run is created: no claim, one commit less. */
  async #begin(run: RunStart): Promise<{ worker: WorkerHost; driver: RunDriver; first: NonNullable<NewRun["first"]> } | undefined> {
    if (!run.isChecked || run.onConflict !== "reject" || (run.delay ?? 0) > 0 || run.startAt !== undefined) return undefined;
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
    if (message.message.job.type === "cancel") this.#results.doubt(message.runId); // one that has not begun ends at once
    if (tx === undefined) return this.#sends.add(message);
    const [sent] = await this.#within("signal", tx).send([message]);
    return sent as SendResult;
  }
  async terminate(runId: string, reason: string | undefined): Promise<SendResult> {
    this.#assertOpen();
    this.#results.doubt(runId);
    return this.#terminations.add({ runId, reason });
  }
  async resume(runId: string): Promise<ResumeResult> {
    this.#assertOpen();
    return this.#resumptions.add(runId);
  }
  /** Never ignored: a caller who passes a transaction counts on it. */
  #within(what: string, tx: unknown): StoreWithin {
    if (this.store.within !== undefined) return this.store.within(tx);
    throw new InvalidInputError({ what, issues: [{ message: "This store can't take part in a transaction of yours.", path: ["tx"] }] });
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
      : this.#waitForAcceptance(runId, message.job, message.acceptWithin, wait);
  }
  /**
   * M8: what waits for an update that may wait to be accepted also rejects it, once its time is over. A little later than that: a turn that
   * has just accepted it is likely to be in the store by then.
   */
  async #waitForAcceptance(runId: string, { id, name }: UpdateJob, within: number, wait: WaitOptions): Promise<UpdateOutcome> {
    const error = serializeError(new UpdateRejectedError({ update: name, reason: NOT_ACCEPTED_IN_TIME }));
    let timer: Timer | undefined;
    let isOver = false;
    const again = (ms: number): void => {
      if (!isOver) timer = this.environment.after(ms, () => void reject());
    };
    const reject = async (): Promise<void> => {
      if (isOver || this.#closed) return;
      try {
        const [outcome] = await this.store.rejectUpdates([{ runId, id, error }]);
        if (outcome === "waiting") again(REJECT_AGAIN_MS);
        else if (outcome !== undefined) this.#results.tellUpdate(runId, id, outcome);
      } catch {
        again(REJECT_AGAIN_MS); // the store can't be asked now
      }
    };
    again(within + REJECT_LATER_MS);
    try {
      return await this.#results.update(runId, id, wait);
    } finally {
      isOver = true;
      timer?.cancel();
    }
  }
  /** Also while it closes: a run may end meanwhile. */
  ended(runId: string, wait: WaitOptions): Promise<RunEnd> {
    return this.#closed ? Promise.reject(engineClosed()) : this.#results.end(runId, wait);
  }

  // ── looking ──

  async get(runIds: readonly string[]): Promise<(RunSnapshot | undefined)[]> {
    return this.#readable.get(runIds);
  }
  async describe(runId: string): Promise<RunDescription | undefined> {
    const [row] = await this.#readable.get([runId]);
    return row === undefined ? undefined : this.#descriptions.describe(row, this.#readable);
  }
  async operations({ id, finishedAt }: RunSnapshot): Promise<OperationInfo[]> {
    const store = this.#readable;
    const [turns, attempts] = await Promise.all([store.history(id), store.attempts(id)]);
    const workers = await store.workers?.(id); // behind the turns: none of them may be unknown to it
    return operationsOf(turns, attempts, workers ?? new Map(), this.codec, finishedAt);
  }
  async history(run: RunSnapshot): Promise<History> {
    return toHistory(sealed(await this.#readable.history(run.id), this.codec), run);
  }
  async list(page: RunPage): Promise<{ runs: RunDescription[]; cursor: string | undefined }> {
    const { runs, cursor } = await this.#readable.list(page);
    return { runs: runs.map((row) => this.#descriptions.ofRow(row)), cursor };
  }
  async count(selection: RunSelection): Promise<Record<RunStatus, number>> {
    return this.#readable.count(selection);
  }
  /** Says once of each workflow and activity that a caller has waited for in vain, with no worker here that serves it. */
  async #warnOfUnserved(): Promise<void> {
    const waited = this.#results.takeWaited(UNSERVED_AFTER);
    if (waited.length === 0) return;
    try {
      const rows = await this.store.get(waited);
      for (const row of rows) if (row !== undefined) await this.#warnIfUnserved(row);
    } catch {
      // Whatever is wrong with the store, others say so.
    }
  }
  async #warnIfUnserved(row: RunRow): Promise<void> {
    const now = this.environment.now();
    const unserved = this.#descriptions.unserved(row);
    if (unserved !== undefined && now - (row.availableAt ?? now) < UNSERVED_AFTER) return this.#results.askAgain(row.id);
    const why = unserved ?? (await this.#descriptions.unservedActivity(row, this.store));
    if (why === undefined || this.#warned.has(why)) return;
    if (unserved !== undefined && (await this.#isServedElsewhere(row, now))) return;
    this.#warned.add(why);
    const text = `The result of run ${row.id} is waited for, and nothing has taken it up: ${why}. Start a worker for it, here or in another process.`;
    this.logger.warn(text, { runId: row.id, workflow: row.workflow });
  }
  /** Has a worker that lives another run of it? Then it may just be busy. */
  async #isServedElsewhere({ workflow, version, queue }: RunRow, now: number): Promise<boolean> {
    const { runs } = await this.store.list({ workflow, queue, status: ["running"], limit: 100 });
    return runs.some((one) => one.version === version && one.workerId !== undefined && (one.availableAt ?? 0) > now);
  }
}

/** How long a result is waited for, and its run for a worker, before it is asked what could fulfil it, in milliseconds. */
const UNSERVED_AFTER = 5_000;

/** No stand-in: the real thing. */
const NONE = (): undefined => undefined;
