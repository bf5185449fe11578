// The claims of a worker: when it asks the store for runs, for how many, and what becomes of those that it gets.
// Owns: the claim under way, the alarm for the next run that is due, and how far the blocked runs were tried.
// Invariants: W1 W2 (no more than there is room for), W4 (a worker that stops gives back what a claim brings), D9 (a claim is repeated
// where the last one may have left something), V4 (each worker that starts tries each blocked run once).

import { HoldfastError, type Logger, serializeError } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import type { WorkerSettings } from "../backend/port.ts";
import { StoreCorruptError } from "../store/errors.ts";
import type { ClaimedRun, ClaimResult, CommitResult, RunRow, Store, TurnCommit } from "../store/port.ts";
import { TakeoverLog } from "./outages.ts";
import type { RunCache } from "./runCache.ts";
import type { RunDriver } from "./runDriver.ts";
import type { StoreClock } from "./storeClock.ts";

/** Until a run that is due is asked for again, in milliseconds. */
const LOCKED_MS = 100;

export interface ClaimsOptions {
  readonly settings: Pick<WorkerSettings, "id" | "queue" | "lease" | "workflows">;
  readonly store: Store;
  readonly environment: Environment;
  readonly logger: Logger;
  readonly clock: StoreClock;
  readonly cache: RunCache;
  /** The runs that the worker drives, by id: what is claimed goes in here. */
  readonly active: Map<string, RunDriver>;
  /** Free slots. */
  room(): number;
  isStopping(): boolean;
  /** Undefined: the worker has no code for it. */
  driverOf(run: RunRow): RunDriver | undefined;
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
}

export class Claims {
  readonly #options: ClaimsOptions;
  readonly #takeovers: TakeoverLog;
  #underWay: Promise<void> | undefined;
  #isScheduled = false;
  /** When a slot is free, or once the claim under way has answered. */
  #again = false;
  #alarm: Timer | undefined;
  /** V4: blocked runs were tried up to here; undefined: all that there were when the worker started. */
  #blockedUpTo: number | undefined = 0;

  constructor(options: ClaimsOptions) {
    this.#options = options;
    this.#takeovers = new TakeoverLog(options.logger, options.environment);
  }
  /** Is a claim under way, or about to be? */
  get busy(): boolean {
    return this.#underWay !== undefined || this.#isScheduled;
  }
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }
  /** V4: has it yet to try runs that were blocked when the worker started? */
  get isTryingBlocked(): boolean {
    const { isStopping, settings } = this.#options;
    return this.#blockedUpTo !== undefined && !isStopping() && settings.workflows.serves.length > 0;
  }
  /** V4: has it not even begun to? It needs a slot for that. */
  get isToTryBlocked(): boolean {
    return this.#blockedUpTo === 0;
  }

  /** Once a turn of the event loop: slots that become free together are filled by one claim, and what was claimed together commits together. */
  soon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.environment.soon(() => {
      this.#isScheduled = false;
      void this.#claim();
    });
  }
  /** A slot is free: the last claim may have left something for it. */
  slotIsFree(): void {
    if (this.#again) this.soon();
  }
  /** No further claim begins by time. */
  stop(): void {
    this.#alarm?.cancel();
  }
  /** What was gathered for the log. */
  flush(): void {
    this.#takeovers.flush();
  }

  async #claim(): Promise<void> {
    const { isStopping, settings, room } = this.#options;
    if (isStopping() || settings.workflows.all.length === 0) return;
    if (this.#underWay !== undefined || room() <= 0) {
      this.#again = true;
      return;
    }
    this.#again = false;
    this.#underWay = this.#claimUpTo(room());
    await this.#underWay;
    this.#underWay = undefined;
    if (this.#again && room() > 0) void this.#claim();
  }
  async #claimUpTo(room: number): Promise<void> {
    const { isStopping, logger, cache } = this.#options;
    try {
      const tried = this.#blockedUpTo === undefined ? 0 : await this.#tryBlocked(Math.ceil(room / 2), this.#blockedUpTo);
      const left = room - tried;
      if (left <= 0) this.#again = true;
      if (left <= 0 || isStopping()) return;
      const result = await this.#claimSome(left);
      if (isStopping()) return;
      this.#alarm?.cancel();
      if (result.nextAt !== undefined) this.#claimAfter(result.nextAt - result.now, result.runs.length);
      if (result.runs.length === left || this.#blockedUpTo !== undefined) this.#again = true;
    } catch (error) {
      logger.error("Runs could not be claimed; trying again.", { error });
    } finally {
      cache.releasePromises();
    }
  }
  /** V4: once by each worker that starts, whatever its code looks like; beside other work. */
  async #tryBlocked(limit: number, after: number): Promise<number> {
    const { runs, lastBlocked } = await this.#claimSome(limit, after);
    this.#blockedUpTo = lastBlocked;
    return runs.length;
  }
  async #claimSome(limit: number, blockedAfter?: number): Promise<ClaimResult> {
    const { settings, store, environment, clock, cache, isStopping, driverOf } = this.#options;
    const { id: workerId, lease, queue, workflows } = settings;
    const asked = clock.local();
    const leasedAt = environment.elapsed();
    const cached = (runId: string) => cache.promise(runId);
    const result = await store.claim({ workerId, queue, serves: workflows.serves, limit, lease, blockedAfter, cached });
    clock.set(asked, result.now);
    // W4: it was asked for before; others may have it.
    if (isStopping()) await Promise.all(result.runs.map(({ run }) => driverOf(run)?.giveBack()));
    else for (const claim of result.runs) this.#take(claim, leasedAt);
    for (const { recoveredFrom } of result.runs) if (recoveredFrom !== undefined) this.#takeovers.note(recoveredFrom);
    return result;
  }
  /** A run that is due and was not claimed is locked by another process at this moment. */
  #claimAfter(ms: number, claimed: number): void {
    this.#alarm = this.#options.environment.after(ms <= 0 && claimed === 0 ? LOCKED_MS : ms, () => void this.#claim());
  }

  #take(claim: ClaimedRun, leasedAt: number): void {
    const { active, cache, logger, driverOf } = this.#options;
    const { run } = claim;
    const cached = cache.take(run.id);
    if (claim.turns === undefined && cached === undefined && run.turns > 0) {
      logger.error(`Run ${run.id} came without its history, which is not here; it is given back.`, { runId: run.id });
      return void driverOf(run)?.giveBack();
    }
    const reusable = claim.turns === undefined && cached !== undefined;
    if (!reusable) cached?.evict();
    const driver = reusable ? cached : driverOf(run);
    if (driver === undefined) return this.#blockUnserved(claim);
    // D4: a worker that stood still until its lease had run out may claim the same run again: the claim before is lost.
    active.get(run.id)?.lose(new HoldfastError("The lease of this run was lost.", { code: "HF_CLAIM_LOST" }));
    active.set(run.id, driver);
    driver.leasedAt = leasedAt;
    driver.claimed(claim).catch((error: unknown) => {
      logger.error(`Run ${run.id} could not be driven; it is given back when its lease ends.`, { runId: run.id, error });
      driver.lose(error);
    });
  }

  /** V4: handed out by a row that something else has written to. Kept, it would lie here until its lease ends, again and again. */
  #blockUnserved({ run, inbox }: ClaimedRun): void {
    const { settings, logger, commit } = this.#options;
    const { id: runId, execution, epoch, workflow, version } = run;
    const cause = new TypeError(
      `Run ${runId} was handed out as one that this worker serves, and says that it is of ${workflow}@${version ?? ""}.`,
    );
    const error = new StoreCorruptError({ where: "The store", cause });
    logger.error(`Run ${runId} is blocked: this worker has no code for what its row says.`, { runId, error: cause });
    const turn: TurnCommit = {
      runId,
      execution,
      epoch,
      workerId: settings.id,
      status: "blocked",
      blocked: { error: serializeError(error), code: "" },
      lease: "park",
      seen: inbox.at(-1)?.id ?? 0,
    };
    commit(
      turn,
      () => {},
      (failure) => logger.error(`Run ${runId} could not be blocked; it is tried again when its lease ends.`, { runId, error: failure }),
    );
  }
}
