// Clients of this process that wait for the end of a run or of an update.
// Owns: who waits for what, and when to look it up.
// Invariants: M10 (a caller gets the outcome once it is durable), D9 (hints may be lost: it also looks now and then), V4 (blocked runs).

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
  /** It ends its waiting by itself. */
  readonly isLimited: boolean;
}
/** Something that is waited for: a run's end, or with `update` that of one of its updates. */
interface Awaited {
  readonly runId: string;
  readonly update: string | undefined;
  readonly waiters: Set<Waiter>;
  /** When the first began to wait, in monotonic milliseconds. */
  readonly since: number;
}
interface AwaitedUpdate {
  readonly runId: string;
  readonly id: string;
  readonly waiters: ReadonlySet<Waiter>;
}
/** What an engine knows besides its store. */
interface Surroundings {
  /** May a worker of this process be about to try blocked runs? */
  readonly isTrying?: () => boolean;
  /** How a run stands, in words. */
  readonly describe?: (runId: string) => Promise<RunDescription | undefined>;
}
const ENDED: ReadonlySet<RunStatus> = new Set(["completed", "failed", "canceled", "terminated", "blocked"]);
/** A look at everything may take this share of the time. */
const SHARE = 0.03;
/** How long a blocked run that is due may wait for a worker to try it again before it counts as blocked, in milliseconds. */
const TRIED_AGAIN_WITHIN = 10_000;
const MOST_REMEMBERED = 10_000;
/** How long a caller whose time is up is kept waiting for what to tell it, in milliseconds. */
const WORDS_WITHIN = 1_000;
/** The most runs that are looked at in one go for what could fulfil them. */
const MOST_WAITED = 200;
/** The longest that a look at one run takes on any store, in milliseconds, outages apart. */
const LONGEST_EACH = 0.03;

export class ResultWaiters {
  readonly #store: Store;
  readonly #environment: Environment;
  readonly #logger: Logger;
  readonly #describe: (runId: string) => Promise<RunDescription | undefined>;
  readonly #awaited = new Map<string, Awaited>();
  /** The keys of updates that are waited for, by their runs. */
  readonly #updatesOf = new Map<string, Set<string>>();
  /** Those whose chances nobody has looked into yet, the oldest first. */
  readonly #unasked = new Set<Awaited>();
  /** Keeps the process alive while somebody waits. */
  #alive: Timer | undefined;
  /** Waited for and never looked up. */
  #fresh = new Set<string>();
  #freshScheduled = false;
  /** Created here and not known to have ended, with how many hints of others had come by then. */
  readonly #expected = new Map<string, number>();
  #hints = 0;
  /** Of late, by others: of a run that is created the end may be known before the answer. */
  readonly #endedElsewhere = new Set<string>();
  readonly #isTrying: () => boolean;
  #looking = 0;
  #nextLook = 0;
  #scheduled: "nothing" | "unexpected" | "everything" = "nothing";
  #closed = false;

  constructor(store: Store, environment: Environment, logger: Logger, { isTrying, describe }: Surroundings = {}) {
    this.#describe = describe ?? (async () => undefined);
    this.#store = store;
    this.#environment = environment;
    this.#logger = logger;
    this.#isTrying = isTrying ?? (() => false);
  }
  get waiting(): boolean {
    return this.#awaited.size > 0;
  }
  get busy(): boolean {
    return this.#looking > 0 || this.#freshScheduled; // a look that waits for its time is like any timer
  }

  // ── waiting ──

  /** A run that this process has created, and whose end it will most likely commit itself: no need to look it up at once. */
  expect(runId: string): void {
    if (this.#endedElsewhere.has(runId)) return;
    if (this.#expected.size >= MOST_REMEMBERED) this.#expected.clear();
    this.#expected.set(runId, this.#hints);
  }
  /** Somebody here has done something to it that may end it without its worker. */
  doubt(runId: string): void {
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
      if (update === undefined) this.#unasked.add(awaited);
    }
    const { waiters } = awaited;
    if (update !== undefined) this.#updatesOf.set(runId, (this.#updatesOf.get(runId) ?? new Set()).add(key));
    this.#alive ??= this.#environment.stayAlive();
    let timer: Timer | undefined;
    let stop: (() => void) | undefined;
    try {
      return await new Promise((resolve, reject) => {
        const waiter = { resolve, reject, isLimited: timeout !== undefined };
        waiters.add(waiter);
        const forget = signal === undefined ? undefined : onAbort(signal, () => reject(signal.reason));
        stop = () => {
          waiters.delete(waiter);
          forget?.();
        };
        if (timeout !== undefined)
          timer = this.#environment.patience(timeout, () => void this.#tooLate({ runId, update }, timeout).then(reject));
        // Unless somebody else may have ended it before anybody waited.
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
    this.#unasked.delete(awaited);
    const updates = this.#updatesOf.get(runId);
    updates?.delete(key);
    if (updates?.size === 0) this.#updatesOf.delete(runId);
  }
  /** What its run waits for is worth a moment more; if its end comes meanwhile, all the better. */
  async #tooLate(of: { readonly runId: string; readonly update: string | undefined }, timeout: number): Promise<HoldfastError> {
    const run = await new Promise<RunDescription | undefined>((resolve) => {
      const timer = this.#environment.patience(WORDS_WITHIN, () => resolve(undefined));
      const tell = (description: RunDescription | undefined): void => {
        timer.cancel();
        resolve(description);
      };
      this.#describe(of.runId).then(tell, () => tell(undefined));
    });
    return waitTimeout(of, timeout, run);
  }
  /** The runs whose end has been waited for this long, each once. */
  takeWaited(ms: number): string[] {
    const before = this.#environment.elapsed() - ms;
    const taken: string[] = [];
    for (const awaited of this.#unasked) {
      if (awaited.since > before || taken.length >= MOST_WAITED) break;
      this.#unasked.delete(awaited);
      taken.push(awaited.runId);
    }
    return taken;
  }
  /** It was too early to say of this one. */
  askAgain(runId: string): void {
    const awaited = this.#awaited.get(keyOf(runId, undefined));
    if (awaited !== undefined) this.#unasked.add(awaited);
  }
  /** Those who would wait for ever; who has a timeout is told when it is over. */
  async giveUp(why: (runId: string) => Promise<Error>): Promise<void> {
    for (const { runId, waiters } of [...this.#awaited.values()]) {
      const waiting = [...waiters].filter(({ isLimited }) => !isLimited);
      if (waiting.length === 0) continue;
      const error = await why(runId);
      for (const waiter of waiting) waiter.reject(error);
    }
  }
  /** Does anybody wait for as long as it takes? */
  get waitingForEver(): boolean {
    for (const { waiters } of this.#awaited.values()) for (const { isLimited } of waiters) if (!isLimited) return true;
    return false;
  }
  close(): void {
    this.#closed = true;
    const error = engineClosed("The engine was closed while something waited for it.");
    for (const { waiters } of this.#awaited.values()) for (const waiter of waiters) waiter.reject(error);
  }

  // ── telling: ends that this process has committed ──

  tellEnd(end: RunEnd): void {
    this.#expected.delete(end.id);
    for (const waiter of this.#awaited.get(keyOf(end.id, undefined))?.waiters ?? []) waiter.resolve(end);
  }
  tellUpdate(runId: string, id: string, outcome: UpdateOutcome): void {
    for (const waiter of this.#awaited.get(keyOf(runId, id))?.waiters ?? []) waiter.resolve(outcome);
  }

  // ── looking: ends that others have ──

  /** What is newly waited for may have ended before. */
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
   * Something may have ended. `isOwn`: by a write of this process, which tells of the ends that it expects without being asked. A crowd
   * of waiters is looked at less often, so that looking never takes more than its share.
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
  /** Others have ended these, or answered updates of theirs: to look at what is there takes no more than it is worth. */
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
    // A look that had to wait for a server to come back says nothing about what looks cost.
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
      // What the store was on is gone: no later look will find anything either.
      if ((error as { code?: unknown } | undefined)?.code === "HF_STORE_MOVED")
        for (const { waiters } of awaited) for (const waiter of waiters) waiter.reject(error);
      else if (!this.#closed) this.#logger.error("Results could not be looked up; trying again.", { error });
    } finally {
      this.#looking--;
    }
  }
  /** One row that can't be read keeps nobody from the others. */
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
    const rows = await this.#store.get(awaited.map(({ runId }) => runId));
    for (const [i, { runId, waiters }] of awaited.entries()) {
      const row = rows[i];
      for (const waiter of waiters) {
        if (row === undefined) waiter.reject(new RunNotFoundError({ runId }));
        else if (ENDED.has(row.status) && !(row.status === "blocked" && this.#isTriedSoon(row))) waiter.resolve(row);
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
  /** An update whose run has closed without answering it never will (a deadline, a termination); one whose run is blocked may wait long (V4). */
  async #lookAtClosed(awaited: readonly AwaitedUpdate[]): Promise<void> {
    if (awaited.length === 0) return;
    const rows = await this.#store.get(awaited.map(({ runId }) => runId));
    const closed = awaited.flatMap((one, i) => {
      const refusal = this.#refusalOf(one.runId, rows[i]);
      return refusal === undefined ? [] : [{ ...one, refusal }];
    });
    if (closed.length === 0) return;
    // The outcome may have come between the two looks.
    const outcomes = await this.#store.updates(closed.map(({ runId, id }) => ({ runId, id })));
    for (const [i, { refusal, waiters }] of closed.entries()) {
      const outcome = outcomes[i];
      for (const waiter of waiters) {
        if (outcome === undefined) waiter.reject(refusal);
        else waiter.resolve(outcome);
      }
    }
  }
  /** Undefined while the run may still answer. */
  #refusalOf(runId: string, row: RunRow | undefined): HoldfastError | undefined {
    const status = row?.status ?? "terminated";
    if (row !== undefined && status === "blocked") return this.#isTriedSoon(row) ? undefined : blockedError(row);
    return ENDED.has(status) ? new RunClosedError({ runId, status }) : undefined;
  }
  /** It was resumed, or a worker has just started: what comes of that is waited for. */
  #isTriedSoon({ availableAt, workerId }: RunRow): boolean {
    const late = this.#environment.now() - (availableAt ?? Number.POSITIVE_INFINITY);
    return workerId !== undefined || this.#isTrying() || (late >= 0 && late < TRIED_AGAIN_WITHIN);
  }
}

function keyOf(runId: string, update: string | undefined): string {
  return update === undefined ? runId : `${runId}\n${update}`;
}
