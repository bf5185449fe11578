// The claims of a worker: when it asks the store for runs, for how many, and how it takes them up.
// Owns: the claim under way, the alarm for the next run that is due, how far the blocked runs were tried, and which of them wait for that.
// Invariants: W1 W2 (no more than there is room for), W4 (a worker that stops returns what a claim brings), D9 (a claim is repeated if the
// last one may have left something), V4 (each worker that starts tries each blocked run once).

import { HoldfastError, type Logger, serializeError } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import type { WorkerSettings } from "../backend/port.ts";
import { StoreCorruptError } from "../store/errors.ts";
import type { ClaimedRun, ClaimRequest, ClaimResult, CommitResult, RunRow, Store, TurnCommit } from "../store/port.ts";
import { TakeoverLog } from "./outages.ts";
import type { RunCache } from "./runCache.ts";
import type { RunDriver } from "./runDriver.ts";
import type { StoreClock } from "./storeClock.ts";

/** How long to wait before claiming again, if a run is due but locked. Milliseconds. */
const LOCKED_MS = 100;

export interface ClaimsOptions {
  readonly settings: Pick<WorkerSettings, "id" | "queue" | "lease" | "workflows">;
  readonly store: Store;
  readonly environment: Environment;
  readonly logger: Logger;
  readonly clock: StoreClock;
  readonly cache: RunCache;
  /** The runs that the worker drives, by id. Claimed runs are added. */
  readonly active: Map<string, RunDriver>;
  /** Free slots. */
  room(): number;
  isStopping(): boolean;
  /** Undefined if the worker has no code for the run. */
  driverOf(run: RunRow): RunDriver | undefined;
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void;
}

export class Claims {
  readonly #options: ClaimsOptions;
  readonly #takeovers: TakeoverLog;
  #underWay: Promise<void> | undefined;
  #isScheduled = false;
  /** Claim again when a slot becomes free, or when the claim under way has answered. */
  #again = false;
  #alarm: Timer | undefined;
  /** V4: up to which blocked run they were tried; undefined once all that existed when the worker started were tried. */
  #blockedUpTo: number | undefined = 0;
  /** V4, Q2: blocked runs up to there that could not be tried so far, since a limit holds them back. */
  #heldBack: readonly number[] = [];

  constructor(options: ClaimsOptions) {
    this.#options = options;
    this.#takeovers = new TakeoverLog(options.logger, options.environment);
  }
  /** True while a claim is under way or about to begin. */
  get busy(): boolean {
    return this.#underWay !== undefined || this.#isScheduled;
  }
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }
  /** V4: true until all runs that were blocked when the worker started were tried. */
  get isTryingBlocked(): boolean {
    const { isStopping, settings } = this.#options;
    return this.#blockedUpTo !== undefined && !isStopping() && settings.workflows.serves.length > 0;
  }
  /** V4: true until the first blocked run was tried. The worker needs a slot for that. */
  get hasNotTriedBlocked(): boolean {
    return this.#blockedUpTo === 0;
  }

  /** Claims once per turn of the event loop: slots that become free together are filled by one claim, and their runs commit together. */
  soon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.environment.soon(() => {
      this.#isScheduled = false;
      void this.#claim();
    });
  }
  /** A slot is free: the last claim may have left runs for it. */
  slotIsFree(): void {
    if (this.#again) this.soon();
  }
  /** Cancels the timer for the next claim. */
  stop(): void {
    this.#alarm?.cancel();
  }
  /** Writes the log lines that were gathered. */
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
      const tried = await this.#tryBlocked(Math.ceil(room / 2));
      const left = room - tried;
      if (left <= 0) this.#again = true;
      if (left <= 0 || isStopping()) return;
      const result = await this.#claimSome(left);
      if (isStopping()) return;
      this.#alarm?.cancel();
      if (result.nextAt !== undefined) this.#claimAfter(result.nextAt - result.now, result.runs.length);
      if (result.runs.length === left || this.#blockedUpTo !== undefined) this.#again = true;
    } catch (error) {
      if (!isStopping()) logger.error("Runs could not be claimed; trying again.", { error });
    } finally {
      cache.releasePromises();
    }
  }
  /** V4: each worker that starts tries each blocked run once, whatever its code is, and does other work meanwhile. */
  async #tryBlocked(limit: number): Promise<number> {
    if (this.#blockedUpTo !== undefined) {
      const { runs, lastBlocked, heldBack = [] } = await this.#claimSome(limit, { blockedAfter: this.#blockedUpTo });
      this.#blockedUpTo = lastBlocked;
      this.#heldBack = [...this.#heldBack, ...heldBack];
      return runs.length;
    }
    if (this.#heldBack.length === 0) return 0;
    const blockedOnly = this.#heldBack.slice(0, limit);
    const { runs, heldBack = [] } = await this.#claimSome(limit, { blockedAfter: 0, blockedOnly });
    this.#heldBack = [...this.#heldBack.slice(limit), ...heldBack];
    return runs.length;
  }
  async #claimSome(limit: number, blocked?: Pick<ClaimRequest, "blockedAfter" | "blockedOnly">): Promise<ClaimResult> {
    const { settings, store, environment, clock, cache, isStopping, driverOf } = this.#options;
    const { id: workerId, lease, queue, workflows } = settings;
    const asked = clock.local();
    const leasedAt = environment.elapsed();
    const cached = (runId: string) => cache.promise(runId);
    const result = await store.claim({ workerId, queue, serves: workflows.serves, limit, lease, cached, ...blocked });
    clock.set(asked, result.now);
    // W4: the claim began before the worker stopped; other workers can claim these runs.
    if (isStopping()) await Promise.all(result.runs.map((claim) => driverOf(claim.run)?.decline(claim)));
    else for (const claim of result.runs) this.#take(claim, leasedAt);
    for (const { recoveredFrom } of result.runs) if (recoveredFrom !== undefined) this.#takeovers.note(recoveredFrom);
    return result;
  }
  /** A run that is due but was not claimed is locked by another process. */
  #claimAfter(ms: number, claimed: number): void {
    this.#alarm = this.#options.environment.after(ms <= 0 && claimed === 0 ? LOCKED_MS : ms, () => void this.#claim());
  }

  #take(claim: ClaimedRun, leasedAt: number): void {
    const { active, cache, logger, driverOf } = this.#options;
    const { run } = claim;
    const cached = cache.take(run.id);
    if (claim.turns === undefined && cached !== undefined && cached.seed !== run.seed) {
      // B4: a run that was removed had the same id. The next claim comes with the history.
      cached.evict();
      return void driverOf(run)?.decline(claim);
    }
    if (claim.turns === undefined && cached === undefined && run.turns > 0) {
      logger.error(`Run ${run.id} was claimed without its history, which is no longer in memory; the run is released.`, { runId: run.id });
      return void driverOf(run)?.decline(claim);
    }
    const reusable = claim.turns === undefined && cached !== undefined;
    if (!reusable) cached?.evict();
    const driver = reusable ? cached : driverOf(run);
    if (driver === undefined) return this.#blockUnserved(claim);
    // D4: a worker that stood still until its lease expired may claim the same run again: its previous claim is lost.
    active.get(run.id)?.lose(new HoldfastError("The lease of this run was lost.", { code: "HF_CLAIM_LOST" }));
    active.set(run.id, driver);
    driver.leasedAt = leasedAt;
    driver.claimed(claim).catch((error: unknown) => {
      logger.error(`Run ${run.id} could not be advanced; workers can claim it again when its lease expires.`, { runId: run.id, error });
      driver.lose(error);
    });
  }

  /** V4: its row was changed by something else. Without this it would be claimed, and kept until its lease expires, again and again. */
  #blockUnserved({ run, inbox }: ClaimedRun): void {
    const { settings, logger, commit } = this.#options;
    const { id: runId, execution, epoch, workflow, version } = run;
    const cause = new TypeError(
      `Run ${runId} was claimed for a workflow that this worker serves, but its row says ${workflow}@${version ?? ""}.`,
    );
    const error = new StoreCorruptError({ where: "The store", cause });
    logger.error(`Run ${runId} is blocked: this worker has no code for the workflow in its row.`, { runId, error: cause });
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
      (failure) => logger.error(`Run ${runId} could not be blocked; it is retried when its lease expires.`, { runId, error: failure }),
    );
  }
}
