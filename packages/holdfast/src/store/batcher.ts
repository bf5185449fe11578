// Collects items that many callers add one by one and writes them in batches. One bad or locked item never hurts the others of its batch.
// Owns: the waiting items, the size of batches, and how a batch that is not written as a whole is split.
// Does not own: what is written. The write function is one call of the store (see store/batch.ts).
// Invariants: D2 (each item is settled once, and written at most once), D3 (items share writes; none fails or waits because of an item with
// another key), M1 (items with the same key are written in the order in which they were added).

import type { Environment } from "@holdfast/host";
import type { Answer, BatchLimits } from "./batch.ts";
import { faultOf, StoreLockedError } from "./errors.ts";

/** An item, and the caller that waits for it to be written. */
export interface Waiting<I, R> {
  /** What is to be written. */
  readonly item: I;
  /** Gives its caller the result. */
  resolve(result: R): void;
  /** Gives its caller an error. */
  reject(error: unknown): void;
  /** Called if the item has to wait for a lock that another transaction holds. It will be settled later. */
  setAside?(): void;
}

/** Options of a `Batcher`. */
export interface BatcherOptions<I, R> {
  /** The most items and bytes of one call. */
  readonly limits: BatchLimits;
  /** Items with the same key keep their order: an item waits while an earlier one with its key is being written or waits for a lock. */
  readonly keyOf: (item: I) => string;
  /** About how many bytes it adds to a call. Only called if the store limits bytes. */
  readonly sizeOf?: (item: I) => number;
  /**
   * How many calls may be in progress at once.
   * @defaultValue `1`
   */
  readonly calls?: number;
  /**
   * The most items of a batch, in addition to the limits of the store.
   * @defaultValue `limits` alone
   */
  readonly most?: () => number;
  /** Whether more items are about to be added: a batch waits for them, but not for long. */
  readonly expecting?: () => boolean;
  /** Whether no other item could share the write, so that waiting for more would only take time. */
  readonly alone?: () => boolean;
  /** Called for each item that was written, before any caller gets its result. */
  readonly written?: (item: I, result: R) => void;
  /**
   * How long an item waits for a lock before it fails with HF_STORE_BUSY, in milliseconds.
   * @defaultValue `30_000`
   */
  readonly patience?: number;
  /** Whether the item may wait for as long as the lock is held. It fails once another item with its key is added: its caller has timed out. */
  readonly waits?: (item: I) => boolean;
  /** Called once for such an item when `patience` is over. */
  readonly heldUp?: (item: I, error: unknown) => void;
}

/** One call of the store. `wait`: all of these items were busy before, so the store may wait a moment for their locks. */
export type Write<I, R> = (items: readonly I[], wait: boolean) => Promise<readonly Answer<R>[]>;

/** How many turns of the event loop a batch waits for items that are about to be added. */
const EXPECTING_TURNS = 4;
/** Of this many items it is not worth finding out which one has to wait. */
const FEW = 2;
/** Milliseconds between two attempts to write items that wait for locks. The store also waits a little in each attempt. */
const ASIDE_MS = 50;
const PATIENCE_MS = 30_000;

/** An item that waits for a lock. */
interface Aside<I, R> {
  readonly one: Waiting<I, R>;
  readonly since: number;
  isLong: boolean;
}

/** Collects items that many callers add, and writes many of them in one call. */
export class Batcher<I, R> {
  readonly #environment: Environment;
  readonly #write: Write<I, R>;
  readonly #options: BatcherOptions<I, R>;
  readonly #calls: number;
  #waiting: Waiting<I, R>[] = [];
  #underWay = 0;
  /** The keys of items that are being written, if there may be several calls at once. */
  readonly #keys = new Set<string>();
  /** Items that wait for locks: by key, in order. */
  readonly #aside = new Map<string, Aside<I, R>[]>();
  #isRetryingAside = false;
  #isScheduled = false;

  constructor(environment: Environment, write: Write<I, R>, options: BatcherOptions<I, R>) {
    this.#environment = environment;
    this.#write = write;
    this.#options = options;
    this.#calls = options.calls ?? 1;
  }
  /** Adds an item, and resolves with its result. */
  add(item: I): Promise<R> {
    return new Promise((resolve, reject) => this.put({ item, resolve, reject }));
  }
  /** Like `add`, without a promise. That costs less, and there are many turns. */
  put(one: Waiting<I, R>): void {
    this.#waiting.push(one);
    this.#schedule();
  }
  /** Whether nothing waits and nothing is being written. */
  get idle(): boolean {
    return this.#underWay === 0 && this.#aside.size === 0 && this.#waiting.length === 0;
  }

  // ── batches ──

  #schedule(): void {
    if (this.#underWay === this.#calls || this.#isScheduled) return;
    this.#isScheduled = true;
    if (this.#options.alone?.() === true) {
      queueMicrotask(() => {
        this.#isScheduled = false;
        this.#flush();
      });
      return;
    }
    // Once per turn of the event loop: items that become ready in the same turn, and turns that are being computed, share the write.
    let turns = EXPECTING_TURNS;
    const flush = (): void => {
      const isFull = this.#waiting.length >= this.#most;
      if (!isFull && turns-- > 0 && this.#options.expecting?.() === true) return this.#environment.soon(flush);
      this.#isScheduled = false;
      while (this.#underWay < this.#calls && this.#flush());
    };
    this.#environment.soon(flush);
  }
  /** False if there was nothing to write. */
  #flush(): boolean {
    const batch = this.#take();
    if (batch.length === 0) return false;
    this.#writeBatch(batch);
    return true;
  }
  get #most(): number {
    const { limits, most } = this.#options;
    return most === undefined ? limits.items : Math.min(limits.items, most());
  }
  #take(): Waiting<I, R>[] {
    if (this.#calls === 1 && this.#aside.size === 0) return this.#waiting.splice(0, this.#fitting(this.#waiting));
    const { keyOf } = this.#options;
    const room = this.#room();
    const batch: Waiting<I, R>[] = [];
    const rest: Waiting<I, R>[] = [];
    // Once an item has to wait, the later ones with its key do too: the key stays in progress or aside, or the batch is full.
    for (const one of this.#waiting) {
      const key = keyOf(one.item);
      const isFree = !this.#keys.has(key) && !this.#aside.has(key);
      (isFree && room(one.item) ? batch : rest).push(one);
    }
    this.#waiting = rest;
    if (this.#calls > 1) for (const { item } of batch) this.#keys.add(keyOf(item));
    return batch;
  }
  /** How many of these items, from the first one, fit into one call. */
  #fitting(some: readonly Waiting<I, R>[]): number {
    const most = Math.min(this.#most, some.length);
    if (!this.#hasSizes) return most;
    const room = this.#room();
    let count = 0;
    while (count < most && room((some[count] as Waiting<I, R>).item)) count++;
    return count;
  }
  /** A function that says for one item after the other whether it still fits into a call. After the first false it returns only false. */
  #room(): (item: I) => boolean {
    const { limits, sizeOf } = this.#options;
    let items = this.#most;
    let bytes = this.#hasSizes ? limits.bytes : Number.POSITIVE_INFINITY;
    let isFirst = true; // an item that is too large for a batch is written alone
    return (item) => {
      if (bytes !== Number.POSITIVE_INFINITY) bytes -= sizeOf?.(item) ?? 0;
      if (!isFirst && bytes < 0) items = 0;
      isFirst = false;
      return items-- > 0;
    };
  }
  get #hasSizes(): boolean {
    const { limits, sizeOf } = this.#options;
    return sizeOf !== undefined && limits.bytes !== Number.POSITIVE_INFINITY;
  }
  #writeBatch(batch: readonly Waiting<I, R>[]): void {
    this.#underWay++;
    try {
      this.#write(batch.map(itemOf), false).then(
        (answers) => this.#arrived(batch, answers),
        (error: unknown) => this.#failed(batch, error),
      );
    } catch (error) {
      this.#failed(batch, error);
    }
  }
  #arrived(batch: readonly Waiting<I, R>[], answers: readonly Answer<R>[]): void {
    if (answers.includes("busy")) {
      const busy = batch.filter((_, i) => answers[i] === "busy");
      const done = batch.filter((_, i) => answers[i] !== "busy");
      this.#putAside(busy);
      this.#settleAll(batch, done, answers.filter(isDone));
    } else this.#settleAll(batch, batch, answers as readonly R[]);
  }
  /** The call of `batch` has ended; its items `done` were written. */
  #settleAll(batch: readonly Waiting<I, R>[], done: readonly Waiting<I, R>[], results: readonly R[]): void {
    this.#reportWritten(done, results);
    this.#finished(batch);
    for (let i = 0; i < done.length; i++) resolve(done[i] as Waiting<I, R>, results[i] as R);
  }
  #reportWritten(done: readonly Waiting<I, R>[], results: readonly R[]): void {
    const { written } = this.#options;
    for (let i = 0; written !== undefined && i < done.length; i++) {
      try {
        written((done[i] as Waiting<I, R>).item, results[i] as R);
      } catch (error) {
        void Promise.reject(error);
      }
    }
  }
  #failed(batch: readonly Waiting<I, R>[], error: unknown): void {
    if (faultOf(error) === "unavailable") {
      this.#finished(batch);
      for (const one of batch) reject(one, error);
    } else void this.#splitAndWrite(batch, error);
  }
  async #splitAndWrite(batch: readonly Waiting<I, R>[], failure: unknown): Promise<void> {
    const busy = await this.#writeInHalves(batch, failure, false);
    this.#putAside(busy);
    this.#finished(batch);
  }
  #finished(batch: readonly Waiting<I, R>[]): void {
    this.#underWay--;
    if (this.#calls > 1) for (const { item } of batch) this.#keys.delete(this.#options.keyOf(item));
    if (this.#waiting.length > 0) this.#schedule();
  }

  // ── one bad item must not hurt its batch ──

  /**
   * Writes a batch that was refused or busy in halves, recursively, one after the other so that each key keeps its order. An item that is
   * refused alone, for the second time, gets the error. Returns the items that wait for a lock, with those behind them, in order.
   */
  async #writeInHalves(batch: readonly Waiting<I, R>[], failure: unknown, wait: boolean): Promise<Waiting<I, R>[]> {
    const { keyOf } = this.#options;
    const busy: Waiting<I, R>[] = [];
    const busyKeys = new Set<string>();
    const parts: (readonly Waiting<I, R>[])[] = [];
    const isBusy = (one: Waiting<I, R>): void => {
      busyKeys.add(keyOf(one.item));
      busy.push(one);
    };
    const split = (part: readonly Waiting<I, R>[], error: unknown): void => {
      const fault = faultOf(error);
      const [one] = part;
      if (fault === "unavailable") for (const each of [part, ...parts.splice(0)].flat()) reject(each, error);
      else if (fault === "busy" && part.length <= (wait ? 1 : FEW)) part.forEach(isBusy);
      else if (part.length === 1 && one !== undefined) reject(one, error);
      // Each of them was busy before, so most of them probably still are.
      else parts.unshift(...(fault === "busy" && wait ? part.map((each) => [each]) : halvesOf(part)));
    };
    // An item that was refused because of what another transaction did a moment ago may be accepted now.
    if (batch.length === 1 && faultOf(failure) === "refused") parts.push(batch);
    else split(batch, failure);
    for (let next = parts.shift(); next !== undefined; next = parts.shift()) {
      const part = next.filter((one) => !busyKeys.has(keyOf(one.item)));
      for (const one of next) if (busyKeys.has(keyOf(one.item))) busy.push(one);
      if (part.length === 0) continue;
      try {
        const answers = await this.#write(part.map(itemOf), wait);
        for (const [i, one] of part.entries()) {
          const answer = answers[i] as Answer<R>;
          if (answer === "busy") isBusy(one);
          else this.#settle(one, answer);
        }
      } catch (error) {
        split(part, error);
      }
    }
    return busy;
  }
  #settle(one: Waiting<I, R>, result: R): void {
    this.#reportWritten([one], [result]);
    resolve(one, result);
  }

  // ── items that wait for locks ──

  #putAside(some: readonly Waiting<I, R>[]): void {
    if (some.length === 0) return;
    const since = this.#environment.elapsed();
    for (const one of some) {
      const key = this.#options.keyOf(one.item);
      const before = this.#aside.get(key);
      const aside = { one, since, isLong: false };
      if (before === undefined) this.#aside.set(key, [aside]);
      else before.push(aside);
      call(() => one.setAside?.());
    }
    if (!this.#isRetryingAside) void this.#retryAside();
  }
  /** Tries all waiting items in one call, until none is left: however many there are, they use at most one connection. */
  async #retryAside(): Promise<void> {
    this.#isRetryingAside = true;
    const alive = this.#environment.stayAlive();
    while (this.#aside.size > 0) {
      const all = [...this.#aside.values()].flatMap((some) => some.map(({ one }) => one));
      for (let from = 0; from < all.length; ) {
        const to = from + this.#fitting(all.slice(from));
        await this.#tryAside(all.slice(from, to));
        from = to;
      }
      if (this.#waiting.length > 0) this.#schedule();
      if (this.#aside.size > 0) await new Promise<void>((done) => void this.#environment.after(ASIDE_MS, done));
    }
    alive.cancel();
    this.#isRetryingAside = false;
  }
  async #tryAside(all: readonly Waiting<I, R>[]): Promise<void> {
    // Items behind one that an earlier call found busy stay behind it.
    const some = all.filter((one) => this.#isNext(one, all));
    if (some.length === 0) return;
    let busy: readonly Waiting<I, R>[];
    let failure: unknown;
    try {
      const answers = await this.#write(some.map(itemOf), true);
      busy = some.filter((_, i) => answers[i] === "busy");
      for (const [i, one] of some.entries()) {
        const answer = answers[i] as Answer<R>;
        if (answer === "busy") continue;
        this.#leave(one);
        this.#settle(one, answer);
      }
    } catch (error) {
      failure = faultOf(error) === "busy" ? error : undefined;
      busy = await this.#writeInHalves(some, error, true);
      const stay = new Set(busy);
      for (const one of some) if (!stay.has(one)) this.#leave(one);
    }
    this.#rejectOverdue(busy, failure);
  }
  /** Whether no item with its key is before it, except those in the same call. */
  #isNext(one: Waiting<I, R>, along: readonly Waiting<I, R>[]): boolean {
    const first = this.#aside.get(this.#options.keyOf(one.item))?.[0];
    return first !== undefined && along.includes(first.one);
  }
  /** Rejects the items that have waited for too long, unless they may wait longer. `cause`: the error of the store, if it threw one. */
  #rejectOverdue(busy: readonly Waiting<I, R>[], cause: unknown): void {
    const { patience = PATIENCE_MS, keyOf, waits, heldUp } = this.#options;
    const now = this.#environment.elapsed();
    for (const one of busy) {
      const aside = this.#aside.get(keyOf(one.item))?.find((each) => each.one === one);
      if (aside === undefined) continue;
      const isLong = now - aside.since >= patience;
      const mayWait = waits?.(one.item) === true;
      const error = (): unknown => cause ?? new StoreLockedError({ seconds: Math.round((now - aside.since) / 1_000) });
      if (mayWait ? this.#isFollowed(one) : isLong) {
        this.#leave(one);
        reject(one, error());
      } else if (isLong && !aside.isLong) {
        aside.isLong = true;
        call(() => heldUp?.(one.item, error()));
      }
    }
  }
  /** Whether another item with its key waits. */
  #isFollowed({ item }: Waiting<I, R>): boolean {
    const { keyOf } = this.#options;
    return this.#waiting.some((other) => keyOf(other.item) === keyOf(item));
  }
  #leave(one: Waiting<I, R>): void {
    const key = this.#options.keyOf(one.item);
    const others = (this.#aside.get(key) ?? []).filter((aside) => aside.one !== one);
    if (others.length === 0) this.#aside.delete(key);
    else this.#aside.set(key, others);
  }
}

function itemOf<I>({ item }: { readonly item: I }): I {
  return item;
}
function isDone<R>(answer: Answer<R>): answer is R {
  return answer !== "busy";
}
function halvesOf<T>(items: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)];
}

/** Calls it. If it throws, the other callers still get their results. */
function call(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    void Promise.reject(error);
  }
}
function resolve<I, R>(one: Waiting<I, R>, result: R): void {
  try {
    one.resolve(result);
  } catch (error) {
    void Promise.reject(error);
  }
}
function reject<I, R>(one: Waiting<I, R>, error: unknown): void {
  call(() => one.reject(error));
}
