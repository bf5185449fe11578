// Group commit: calls that are ready together share one transaction.
// Owns: the queue of writes, and the one transaction that is under way.
// Invariants: D3 (shared transactions), D2 (a write is in or out as a whole; one that fails takes no other with it); a lock of another
// process is waited for without blocking; no caller is answered before the commit.
//
// The host gathers what is ready in a turn of the event loop before it calls; what is called in the same drain of microtasks shares a
// transaction here. Waiting for another setImmediate here was measured and lost: W2 1.5 ms against 1.0, W1 2,400 to 3,200 runs/s
// against 3,550. A hundred callers that do not gather reach 31,000 turns/s with it, 2,700 one by one: pass `gather` for such.

import type { Wakeup } from "../port.ts";
import { isStorageFault, storeError } from "./failures.ts";
import type { Session } from "./session.ts";

interface Write {
  /** How many items it has: what keeps transactions short. */
  readonly weight: number;
  /** A turn of a worker, not a call of a client. */
  readonly isTurn: boolean;
  apply(): void;
  settle(): void;
  fail(error: unknown): void;
}

/** A transaction takes no more items than this, so that the event loop is not held up for long. */
const HEAVIEST = 300;
const NONE: readonly Write[] = [];

interface WriterOptions {
  /** Called with what has changed, after the commit. */
  readonly notify: (changes: Wakeup) => void;
  /** The error that the caller gets. */
  readonly understood?: (error: unknown) => unknown;
  readonly gather?: ((flush: () => void) => void) | undefined;
}

export class Writer {
  readonly #session: Session;
  readonly #gather: (flush: () => void) => void;
  readonly #notify: (changes: Wakeup) => void;
  readonly #understood: (error: unknown) => unknown;
  readonly #waiting: Write[] = [];
  #isScheduled = false;
  #flushing: Promise<void> | undefined;
  /** Since when the lock could not be taken. */
  #lockedSince: number | undefined;
  #isLeaving = false;

  constructor(session: Session, options: WriterOptions) {
    this.#session = session;
    this.#notify = options.notify;
    this.#understood = options.understood ?? ((error) => error);
    this.#gather = options.gather ?? queueMicrotask;
  }

  /** Applies the work in a transaction, with others'; resolves when it is committed. */
  write<T>(weight: number, work: () => T, isTurn = false): Promise<T> {
    return new Promise((resolve, reject) => {
      let result: T;
      this.#waiting.push({
        weight,
        isTurn,
        apply: () => {
          result = work();
        },
        settle: () => resolve(result),
        fail: (error) => reject(this.#understood(error)),
      });
      this.#schedule();
    });
  }
  /** The store closes: resolves when everything that was asked for so far has been answered. Writes that still wait for the lock share one patience. */
  async drain(): Promise<void> {
    this.#isLeaving = true;
    while (this.#waiting.length > 0 || this.#flushing !== undefined) {
      await (this.#flushing ?? nextTurn());
    }
  }

  #schedule(gather = this.#gather): void {
    if (this.#isScheduled || this.#flushing !== undefined) return;
    this.#isScheduled = true;
    gather(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }
  /** With the writes that did not fit or came too late, after a turn of the event loop. */
  #goOn(): void {
    if (this.#waiting.length > 0) this.#schedule(setImmediate);
  }

  /** As a rule the lock is free and nothing fails: then it is over when this returns, without a promise. */
  #flush(): void {
    try {
      this.#session.begin(this.#waiting.every(({ isTurn }) => isTurn));
    } catch {
      return this.#later(this.#flushPatiently()); // where it is tried again, or fails again
    }
    this.#lockedSince = undefined;
    const failed = this.#writeWaiting();
    if (failed.length === 0) this.#goOn();
    else this.#later(this.#writeEach(failed));
  }
  #later(work: Promise<void>): void {
    this.#flushing = work.finally(() => {
      this.#flushing = undefined;
      this.#goOn();
    });
  }
  #lock(): Promise<void> {
    const begin = (): void => {
      this.#lockedSince ??= performance.now();
      this.#session.begin();
      this.#lockedSince = undefined;
    };
    return this.#session.db.patiently(begin, () => (this.#isLeaving ? this.#lockedSince : undefined));
  }
  async #flushPatiently(): Promise<void> {
    const { length } = this.#waiting;
    try {
      // Writes that come during the wait for the lock go along.
      await this.#lock();
    } catch (error) {
      // Not those that came later: they have not waited as long.
      for (const write of this.#waiting.splice(0, length)) write.fail(error);
      return;
    }
    await this.#writeEach(this.#writeWaiting());
  }
  /** Within a transaction that has begun. One of several failed: they have to be written again, one by one. */
  #writeWaiting(): readonly Write[] {
    const writes = this.#takeWaiting();
    const failure = this.#finish(writes);
    if (failure === undefined) return NONE;
    if (writes.length > 1 && !isStorageFault(failure)) return writes;
    for (const write of writes) write.fail(storeError(failure, this.#session.db.path));
    return NONE;
  }
  #takeWaiting(): Write[] {
    let weight = 0;
    let count = 0;
    for (const write of this.#waiting) {
      weight += write.weight;
      if (count > 0 && weight > HEAVIEST) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }
  /** One by one, so that only the one at fault fails. A thousand take seconds: the event loop runs between them. */
  async #writeEach(writes: readonly Write[]): Promise<void> {
    for (const write of writes) {
      await nextTurn();
      await this.#writeAlone(write);
    }
  }
  async #writeAlone(write: Write): Promise<void> {
    const { db } = this.#session;
    try {
      await this.#lock();
    } catch (error) {
      write.fail(error);
      return;
    }
    const failure = this.#finish([write]);
    if (failure !== undefined) write.fail(storeError(failure, db.path));
  }

  /** Within a transaction that has begun: applies, commits, answers. Returns what went wrong, with everything taken back. */
  #finish(writes: readonly Write[]): unknown {
    const { db } = this.#session;
    try {
      for (const write of writes) write.apply();
      db.commit();
    } catch (error) {
      db.rollback();
      this.#session.forget();
      return error ?? new Error("nothing was thrown");
    }
    const changes = this.#session.takeChanges();
    for (const write of writes) write.settle();
    if (changes.work === true || changes.tasks === true || changes.results === true) this.#notify({ ...changes, isOwn: true });
    return undefined;
  }
}

/** Of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((done) => setImmediate(done));
}
