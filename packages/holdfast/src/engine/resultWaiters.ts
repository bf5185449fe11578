// Callers in this process that wait for the end of a run or of an update.
// Owns: which caller waits for what, and when to read it from the store.
// Invariants: M10 (a caller gets the outcome once it is durable), D9 (hints may be lost: the store is also read periodically), V4 (blocked
// runs).

import { type HoldfastError, type Logger, RunClosedError, RunNotFoundError, type RunStatus } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import { onAbort } from "@holdfast/host";
import type { RunDescription, RunEnd, UpdateOutcome, WaitOptions } from "../backend/port.ts";
import { blockedError, engineClosed, waitTimeout } from "../backend/waiting.ts";
import { StoreCorruptError } from "../store/errors.ts";
import type { RunRow, Store } from "../store/port.ts";

interface Waiter {
  readonly resolve: (value: RunEnd | UpdateOutcome) => void;
  readonly reject: (error: unknown) => void;
  readonly hasTimeout: boolean;
}
/** What callers wait for: the end of a run or, with `update`, of one of its updates. */
interface Awaited {
  readonly runId: string;
  readonly update: string | undefined;
  readonly waiters: Set<Waiter>;
  /** When the first caller began to wait, in monotonic milliseconds. */
  readonly since: number;
}
interface AwaitedUpdate {
  readonly runId: string;
  readonly id: string;
  readonly waiters: ReadonlySet<Waiter>;
}
/** What the engine knows in addition to its store. */
interface EngineInfo {
  /** True if a worker of this process may be about to retry blocked runs. */
  readonly isRetryingBlocked?: () => boolean;
  readonly describe?: (runId: string) => Promise<RunDescription | undefined>;
}
const ENDED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated", "blocked"]);
/** Reading everything that is waited for may take this share of the time. */
const SHARE = 0.03;
/** How long a blocked run that is due may wait for a worker to retry it before callers get RunBlockedError, in milliseconds. */
const RETRIED_WITHIN = 10_000;
const MOST_REMEMBERED = 10_000;
/** How long a caller whose timeout has passed waits for the description of its run, in milliseconds. */
const DESCRIBED_WITHIN = 1_000;
/** The most runs that are checked at once for a worker that serves them. */
const MOST_CHECKED = 200;
/** The longest that reading one run takes on any store without an outage, in milliseconds. */
const LONGEST_EACH = 0.03;

export class ResultWaiters {
  readonly #store: Store;
  readonly #environment: Environment;
  readonly #logger: Logger;
  readonly #describe: (runId: string) => Promise<RunDescription | undefined>;
  readonly #awaited = new Map<string, Awaited>();
  /** The keys of updates that are waited for, by their runs. */
  readonly #updatesOf = new Map<string, Set<string>>();
  /** Runs that were not checked yet for a worker that serves them, the oldest wait first. */
  readonly #unchecked = new Set<Awaited>();
  /** Keeps the process alive while a caller waits. */
  #alive: Timer | undefined;
  /** Waited for, and not read from the store yet. */
  #fresh = new Set<string>();
  #freshScheduled = false;
  /** Runs that this process has created and that have not ended, as far as it knows; with the number of hints from other processes by then. */
  readonly #expected = new Map<string, number>();
  #hints = 0;
  /** Runs that other processes ended recently: the end of a run may be known before the answer to its creation. */
  readonly #endedElsewhere = new Set<string>();
  readonly #isRetryingBlocked: () => boolean;
  #looking = 0;
  #nextLook = 0;
  #scheduled: "nothing" | "unexpected" | "everything" = "nothing";
  #closed = false;

  constructor(store: Store, environment: Environment, logger: Logger, { isRetryingBlocked, describe }: EngineInfo = {}) {
    this.#describe = describe ?? (async () => undefined);
    this.#store = store;
    this.#environment = environment;
    this.#logger = logger;
    this.#isRetryingBlocked = isRetryingBlocked ?? (() => false);
  }
  get waiting(): boolean {
    return this.#awaited.size > 0;
  }
  get busy(): boolean {
    return this.#looking > 0 || this.#freshScheduled; // a scheduled read is like any timer
  }

  // ── waiting ──

  /** This process has created the run, and will most likely commit its end: no need to read the store at once. */
  expectOwnEnd(runId: string): void {
    if (this.#endedElsewhere.has(runId)) return;
    if (this.#expected.size >= MOST_REMEMBERED) this.#expected.clear();
    this.#expected.set(runId, this.#hints);
  }
  /** A call of this process may end the run without its worker. */
  mayEndElsewhere(runId: string): void {
    this.#expected.delete(runId);
  }
  end(runId: string, options: WaitOptions): Promise<RunEnd> {
    return this.#wait(runId, undefined, options) as Promise<RunEnd>;
  }
  update(runId: string, id: string, options: WaitOptions): Promise<UpdateOutcome> {
    return this.#wait(runId, id, options) as Promise<UpdateOutcome>;
  }
  async #wait(runId: string, update: string | undefined, options: WaitOptions): Promise<RunEnd | UpdateOutcome> {
    const { timeout, signal } = options;
    signal?.throwIfAborted();
    const key = keyOf(runId, update);
    let awaited = this.#awaited.get(key);
    if (awaited === undefined) {
      awaited = { runId, update, waiters: new Set<Waiter>(), since: this.#environment.elapsed() };
      this.#awaited.set(key, awaited);
      if (update === undefined) this.#unchecked.add(awaited);
    }
    const { waiters } = awaited;
    if (update !== undefined) this.#updatesOf.set(runId, (this.#updatesOf.get(runId) ?? new Set()).add(key));
    this.#alive ??= this.#environment.stayAlive();
    let timer: Timer | undefined;
    let stop: (() => void) | undefined;
    try {
      return await new Promise((resolve, reject) => {
        const waiter = { resolve, reject, hasTimeout: timeout !== undefined };
        waiters.add(waiter);
        const forget = signal === undefined ? undefined : onAbort(signal, () => reject(signal.reason));
        stop = () => {
          waiters.delete(waiter);
          forget?.();
        };
        if (timeout !== undefined)
          timer = this.#environment.patience(timeout, () => void this.#timeoutError({ runId, update }, timeout).then(reject));
        // Another process may have ended it before this call.
        if (update !== undefined || this.#expected.get(runId) !== this.#hints) this.#lookAtFresh(key);
      });
    } finally {
      timer?.cancel();
      stop?.();
      if (waiters.size === 0 && this.#awaited.get(key) === awaited) this.#forget(key, awaited);
      if (this.#awaited.size === 0) {
        this.#alive?.cancel();
        this.#alive = undefined;
      }
    }
  }
  #forget(key: string, awaited: Awaited): void {
    const { runId } = awaited;
    this.#awaited.delete(key);
    this.#unchecked.delete(awaited);
    const updates = this.#updatesOf.get(runId);
    updates?.delete(key);
    if (updates?.size === 0) this.#updatesOf.delete(runId);
  }
  /** Takes a moment to find out what the run waits for. If the end comes meanwhile, the caller gets it. */
  async #timeoutError(of: { readonly runId: string; readonly update: string | undefined }, timeout: number): Promise<HoldfastError> {
    const run = await new Promise<RunDescription | undefined>((resolve) => {
      const timer = this.#environment.patience(DESCRIBED_WITHIN, () => resolve(undefined));
      const described = (description: RunDescription | undefined): void => {
        timer.cancel();
        resolve(description);
      };
      this.#describe(of.runId).then(described, () => described(undefined));
    });
    return waitTimeout(of, timeout, run);
  }
  /** The runs whose end callers have waited for at least this long. Each is returned once. */
  takeLongWaits(ms: number): string[] {
    const before = this.#environment.elapsed() - ms;
    const taken: string[] = [];
    for (const awaited of this.#unchecked) {
      if (awaited.since > before || taken.length >= MOST_CHECKED) break;
      this.#unchecked.delete(awaited);
      taken.push(awaited.runId);
    }
    return taken;
  }
  /** It was too early to check this run. */
  checkAgain(runId: string): void {
    const awaited = this.#awaited.get(keyOf(runId, undefined));
    if (awaited !== undefined) this.#unchecked.add(awaited);
  }
  /** Rejects the waits without a timeout. */
  async rejectEndlessWaits(errorOf: (runId: string) => Promise<Error>): Promise<void> {
    for (const { runId, waiters } of [...this.#awaited.values()]) {
      const endless = [...waiters].filter(({ hasTimeout }) => !hasTimeout);
      if (endless.length === 0) continue;
      const error = await errorOf(runId);
      for (const waiter of endless) waiter.reject(error);
    }
  }
  get waitsWithoutTimeout(): boolean {
    for (const { waiters } of this.#awaited.values()) for (const { hasTimeout } of waiters) if (!hasTimeout) return true;
    return false;
  }
  close(): void {
    this.#closed = true;
    const error = engineClosed("The engine was closed while the call was waiting.");
    for (const { waiters } of this.#awaited.values()) for (const waiter of waiters) waiter.reject(error);
  }

  // ── ends that this process has committed ──

  runEnded(end: RunEnd): void {
    this.#expected.delete(end.id);
    for (const waiter of this.#awaited.get(keyOf(end.id, undefined))?.waiters ?? []) waiter.resolve(end);
  }
  updateEnded(runId: string, id: string, outcome: UpdateOutcome): void {
    for (const waiter of this.#awaited.get(keyOf(runId, id))?.waiters ?? []) waiter.resolve(outcome);
  }

  // ── ends that are read from the store ──

  /** It may have ended before the caller began to wait. */
  #lookAtFresh(key: string): void {
    this.#fresh.add(key);
    if (this.#freshScheduled) return;
    this.#freshScheduled = true;
    this.#environment.soon(() => {
      this.#freshScheduled = false;
      const keys = this.#fresh;
      this.#fresh = new Set();
      void this.#lookAt([...keys].flatMap((one) => this.#awaited.get(one) ?? []));
    });
  }
  /**
   * Something may have ended. `isOwn`: by a write of this process, which reports the ends that it expects itself. With many waiters the
   * store is read less often, so that reading never takes more than its share of the time.
   */
  look(isOwn = false): void {
    if (!isOwn) this.#hints++;
    if (this.#closed || this.#awaited.size === 0) return;
    const wasScheduled = this.#scheduled !== "nothing";
    if (!isOwn) this.#scheduled = "everything";
    else if (!wasScheduled) this.#scheduled = "unexpected";
    if (wasScheduled) return;
    const wait = this.#nextLook - this.#environment.elapsed();
    if (wait < 1) this.#environment.soon(() => void this.#lookNow());
    else this.#environment.after(wait, () => void this.#lookNow());
  }
  /** Other processes have ended these runs, or answered updates of them: only these are read. */
  lookAtEnded(runIds: readonly string[]): void {
    if (this.#endedElsewhere.size >= MOST_REMEMBERED) this.#endedElsewhere.clear();
    for (const runId of runIds) {
      this.#expected.delete(runId);
      this.#endedElsewhere.add(runId);
      for (const key of [keyOf(runId, undefined), ...(this.#updatesOf.get(runId) ?? [])])
        if (this.#awaited.has(key)) this.#lookAtFresh(key);
    }
  }
  async #lookNow(): Promise<void> {
    const isEverything = this.#scheduled === "everything";
    this.#scheduled = "nothing";
    const all = [...this.#awaited.values()];
    const awaited = isEverything ? all : all.filter(({ runId, update }) => update !== undefined || !this.#expected.has(runId));
    const start = this.#environment.elapsed();
    await this.#lookAt(awaited);
    const end = this.#environment.elapsed();
    // A read that had to wait for an unreachable server says nothing about what reading costs.
    this.#nextLook = end + Math.min(end - start, awaited.length * LONGEST_EACH + 1) / SHARE;
  }
  async #lookAt(awaited: readonly Awaited[]): Promise<void> {
    if (this.#closed || awaited.length === 0) return;
    this.#looking++;
    try {
      const runs = awaited.filter(({ update }) => update === undefined);
      const updates = awaited.flatMap(({ runId, update, waiters }) => (update === undefined ? [] : { runId, id: update, waiters }));
      await Promise.all([
        this.#lookPastDamage(runs, (some) => this.#lookAtRuns(some)),
        this.#lookPastDamage(updates, (some) => this.#lookAtUpdates(some)),
      ]);
    } catch (error) {
      // The file or schema of the store is gone: reading again won't help.
      if ((error as { code?: unknown } | undefined)?.code === "HF_STORE_MOVED")
        for (const { waiters } of awaited) for (const waiter of waiters) waiter.reject(error);
      else if (!this.#closed) this.#logger.error("Results could not be read; trying again.", { error });
    } finally {
      this.#looking--;
    }
  }
  /** A row that can't be read does not affect the other waits. */
  async #lookPastDamage<A extends { readonly waiters: ReadonlySet<Waiter> }>(
    awaited: readonly A[],
    look: (awaited: readonly A[]) => Promise<void>,
  ): Promise<void> {
    if (awaited.length === 0) return;
    try {
      await look(awaited);
    } catch (error) {
      if (!(error instanceof StoreCorruptError)) throw error;
      if (awaited.length > 1) for (const one of awaited) await this.#lookPastDamage([one], look);
      else for (const { waiters } of awaited) for (const waiter of waiters) waiter.reject(error);
    }
  }
  async #lookAtRuns(awaited: readonly Awaited[]): Promise<void> {
    const retries = await this.#retriesIn(awaited);
    const { rows } = retries;
    for (const [i, { runId, waiters }] of awaited.entries()) {
      const row = rows[i];
      for (const waiter of waiters) {
        if (row === undefined) waiter.reject(new RunNotFoundError({ runId }));
        else if (ENDED.has(row.status) && !(row.status === "blocked" && isRetriedSoon(row, retries))) waiter.resolve(row);
      }
    }
  }
  async #lookAtUpdates(awaited: readonly AwaitedUpdate[]): Promise<void> {
    const outcomes = await this.#store.updates(awaited.map(({ runId, id }) => ({ runId, id })));
    const unanswered: AwaitedUpdate[] = [];
    for (const [i, one] of awaited.entries()) {
      const outcome = outcomes[i];
      if (outcome === undefined) unanswered.push(one);
      else for (const waiter of one.waiters) waiter.resolve(outcome);
    }
    await this.#lookAtClosed(unanswered);
  }
  /** A run that has closed without answering an update never will (a deadline, a termination); a blocked run may not for long (V4). */
  async #lookAtClosed(awaited: readonly AwaitedUpdate[]): Promise<void> {
    if (awaited.length === 0) return;
    const retries = await this.#retriesIn(awaited);
    const closed = awaited.flatMap((one, i) => {
      const refusal = refusalOf(one.runId, retries.rows[i], retries);
      return refusal === undefined ? [] : [{ ...one, refusal }];
    });
    if (closed.length === 0) return;
    // The outcome may have been written between the two reads.
    const outcomes = await this.#store.updates(closed.map(({ runId, id }) => ({ runId, id })));
    for (const [i, { refusal, waiters }] of closed.entries()) {
      const outcome = outcomes[i];
      for (const waiter of waiters) {
        if (outcome === undefined) waiter.reject(refusal);
        else waiter.resolve(outcome);
      }
    }
  }
  /** The rows of runs, and what says whether those that are blocked are about to be retried. */
  async #retriesIn(awaited: readonly { readonly runId: string }[]): Promise<Retries> {
    // Asked before the rows are read: a worker that tries them then may have claimed one by the time that the rows are here.
    const isTrying = this.#isRetryingBlocked();
    const rows = await this.#store.get(awaited.map(({ runId }) => runId));
    const isTimed = rows.some((row) => row?.status === "blocked" && row.availableAt !== undefined);
    // The store's clock has set the time, and may be seconds away from that of this process.
    return { rows, isTrying, now: isTimed ? await this.#store.now() : 0 };
  }
}

interface Retries {
  readonly rows: readonly (RunRow | undefined)[];
  readonly isTrying: boolean;
  readonly now: number;
}
/** Undefined while the run may still answer. */
function refusalOf(runId: string, row: RunRow | undefined, retries: Retries): HoldfastError | undefined {
  const status = row?.status ?? "terminated";
  if (row !== undefined && status === "blocked") return isRetriedSoon(row, retries) ? undefined : blockedError(row);
  return ENDED.has(status) ? new RunClosedError({ runId, status }) : undefined;
}
/** The run was resumed, or a worker has just started: callers wait until it was retried. */
function isRetriedSoon({ availableAt, workerId }: RunRow, { isTrying, now }: Retries): boolean {
  const late = now - (availableAt ?? Number.POSITIVE_INFINITY);
  return workerId !== undefined || isTrying || (late >= 0 && late < RETRIED_WITHIN);
}

function keyOf(runId: string, update: string | undefined): string {
  return update === undefined ? runId : `${runId}\n${update}`;
}
