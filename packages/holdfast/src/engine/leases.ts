// The leases of the runs that a worker drives: renewed while it drives them, and confirmed before steps begin late.
// Owns: the renewal under way and the one after it, and the runs whose renewal waits for a lock.
// Invariants: W3 (no step begins unless the run is certain to be leased), D4 (a lost lease stops the run's steps), M7 (an answer that belongs
// to a claim that has ended is ignored).

import { HoldfastError, type Logger } from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import type { WorkerSettings } from "../backend/port.ts";
import { Batcher, type Waiting } from "../store/batcher.ts";
import { isRefusal } from "../store/errors.ts";
import type { HeldClaim, Renewal, Store } from "../store/port.ts";
import type { RunDriver } from "./runDriver.ts";

export interface LeasesOptions {
  readonly settings: Pick<WorkerSettings, "id" | "lease">;
  readonly store: Store;
  readonly environment: Environment;
  readonly logger: Logger;
  /** The runs that the worker drives, by id. */
  readonly active: ReadonlyMap<string, RunDriver>;
  isStopping(): boolean;
}

export class Leases {
  readonly #options: LeasesOptions;
  readonly #renewals: Batcher<HeldClaim, Renewal>;
  #underWay: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;
  /** Runs whose renewal waits for a lock. */
  readonly #lateRenewals = new Set<string>();

  constructor(options: LeasesOptions) {
    this.#options = options;
    const { settings, store, environment } = options;
    this.#renewals = new Batcher(environment, (claims, wait) => store.renew(settings.id, settings.lease, claims, wait), {
      limits: store.limits,
      keyOf: ({ runId }) => runId,
    });
  }
  /** True while a renewal is under way or about to begin. */
  get busy(): boolean {
    return this.#underWay !== undefined || this.#next !== undefined;
  }

  /** Half of its lease may have passed since the last answer about it: the rest may pass before a step that begins now has done anything. */
  isUncertain({ leasedAt }: RunDriver): boolean {
    const { environment, settings } = this.#options;
    return environment.elapsed() - leasedAt > settings.lease / 2;
  }
  /**
   * W3: a worker that learns late of its commit may have stood still until another worker claimed the run. Resolves once the lease is
   * certain again or lost: no step may begin before. "stopping": the worker stops first.
   */
  async confirm(driver: RunDriver): Promise<"confirmed or lost" | "stopping"> {
    const { active, environment, isStopping, settings } = this.#options;
    while (this.isUncertain(driver) && active.get(driver.runId) === driver) {
      if (isStopping()) return "stopping";
      const isRenewed = (await this.renew()) && !this.#lateRenewals.has(driver.runId);
      if (!isRenewed) await new Promise<void>((resolve) => void environment.after(settings.lease / 20, resolve));
    }
    return "confirmed or lost";
  }

  /**
   * Renews all leases, and delivers the messages that have arrived for the runs. Resolves after a renewal that began after this call: one
   * that is already under way may have read the inbox before the hint. False if the store could not be asked.
   */
  renew(): Promise<boolean> {
    if (this.#options.active.size === 0) return Promise.resolve(true);
    this.#next ??= this.#renewNext();
    return this.#next;
  }
  async #renewNext(): Promise<boolean> {
    await this.#underWay;
    this.#next = undefined;
    this.#underWay = this.#renewOnce();
    const isDone = await this.#underWay;
    if (this.#next === undefined) this.#underWay = undefined;
    return isDone;
  }
  /** Leaves out runs whose renewal waits for a lock: that renewal is still under way, and the others don't wait for it. */
  #renewOnce(): Promise<boolean> {
    const { active, environment, logger } = this.#options;
    const drivers = [...active.values()].filter(({ isCreated, runId }) => isCreated && !this.#lateRenewals.has(runId));
    if (drivers.length === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const asked = environment.elapsed();
      const round = new RenewalRound(drivers.length, (failure) => {
        // Once the worker has stopped, it has no leases to lose.
        if (failure !== undefined && active.size > 0) logger.error("Leases could not be renewed; trying again.", { error: failure.error });
        resolve(failure === undefined);
      });
      for (const driver of drivers) this.#renewals.put(this.#renewal(driver, asked, round));
    });
  }
  #renewal(driver: RunDriver, asked: number, round: RenewalRound): Waiting<HeldClaim, Renewal> {
    const { active, logger } = this.#options;
    const { runId, epoch, seen } = driver;
    // M7: messages in an answer to a claim that has ended may be consumed by now.
    const isCurrent = (): boolean => active.get(runId) === driver && driver.epoch === epoch;
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
        // The other runs keep their leases.
        if (isCurrent() && isRefusal(error)) {
          logger.error(`The lease of run ${runId} can't be renewed; this worker stops driving the run.`, { runId, error });
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
}

/** One renewal of all leases. It ends when each of them is renewed, has failed, or waits for a lock. */
class RenewalRound {
  #left: number;
  #failure: { readonly error: unknown } | undefined;
  readonly #ended: (failure: { readonly error: unknown } | undefined) => void;

  constructor(count: number, ended: (failure: { readonly error: unknown } | undefined) => void) {
    this.#left = count;
    this.#ended = ended;
  }
  /** Called once more for a renewal that waited for a lock, when it is answered. */
  settled(failure?: { readonly error: unknown }): void {
    this.#failure ??= failure;
    if (--this.#left === 0) this.#ended(this.#failure);
  }
}

/** D4: steps are aborted at once. Which of the three it was would take another call to the store. */
function claimLost(): HoldfastError {
  const what = "This run is no longer this worker's: it was terminated, its deadline has passed, or another worker has it.";
  return new HoldfastError(what, { code: "HF_CLAIM_LOST" });
}
