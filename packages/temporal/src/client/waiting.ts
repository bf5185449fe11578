// Waits on behalf of callers: with a timeout, an abort signal, and until the backend is closed.
// Owns: the waits in progress.
// Invariants: M10 (a caller that timed out may ask again).

import { onAbort } from "@holdfast/host";
import { engineClosed, type RunDescription, type WaitOptions, type WaitSubject, waitTimeout } from "holdfast/backend";

/** How long a caller whose time is over waits for the words that describe the run, in milliseconds. */
const WORDS_WITHIN = 1_000;
/** The longest delay of setTimeout. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** A wait, for the code that does the waiting. */
export interface Waiting {
  /** Throws if the caller no longer waits: the work has no purpose. */
  throwIfOver(): void;
  /** Resolves after the time, or earlier if the wait is over. */
  sleep(ms: number): Promise<void>;
}

export class Waits {
  readonly #describe: (runId: string) => Promise<RunDescription | undefined>;
  readonly #rejections = new Set<(error: unknown) => void>();
  #isClosed = false;

  constructor(describe: (runId: string) => Promise<RunDescription | undefined>) {
    this.#describe = describe;
  }
  /** The result of `work`, unless the caller's time is over first, its signal aborts, or the backend is closed. */
  async until<T>(subject: WaitSubject, { timeout, signal }: WaitOptions, work: (waiting: Waiting) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw engineClosed();
    signal?.throwIfAborted();
    const wait = new Wait();
    let timer: NodeJS.Timeout | undefined;
    let forget: (() => void) | undefined;
    let reject: (error: unknown) => void = () => {};
    const interrupted = new Promise<never>((_, fail) => {
      reject = fail;
      if (signal !== undefined) forget = onAbort(signal, () => fail(signal.reason));
      if (timeout !== undefined && timeout <= LONGEST_TIMER)
        timer = setTimeout(() => void this.#tooLate(subject, timeout).then(fail), timeout);
    });
    this.#rejections.add(reject);
    try {
      return await Promise.race([work(wait), interrupted]);
    } finally {
      wait.end();
      clearTimeout(timer);
      forget?.();
      this.#rejections.delete(reject);
    }
  }
  async #tooLate(subject: WaitSubject, timeout: number): Promise<Error> {
    const words = this.#describe(subject.runId).catch(() => undefined);
    const run = (await settledWithin(words, WORDS_WITHIN)) ? await words : undefined;
    return waitTimeout(subject, timeout, run);
  }
  close(): void {
    this.#isClosed = true;
    const error = engineClosed("The engine was closed while something waited for it.");
    for (const reject of this.#rejections) reject(error);
  }
}

class Wait implements Waiting {
  readonly #sleepers = new Set<() => void>();
  #isOver = false;

  throwIfOver(): void {
    if (this.#isOver) throw new Error("The caller no longer waits.");
  }
  sleep(ms: number): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#sleepers.add(wake);
    });
  }
  end(): void {
    this.#isOver = true;
    for (const wake of [...this.#sleepers]) wake();
  }
}

/** Pauses between repetitions: 50 ms, then twice as long each time, up to a second. */
export class Backoff {
  readonly #waiting: Waiting;
  #next = 50;

  constructor(waiting: Waiting) {
    this.#waiting = waiting;
  }
  async pause(most: number = Number.POSITIVE_INFINITY): Promise<void> {
    await this.#waiting.sleep(Math.min(this.#next, most));
    this.#next = Math.min(2 * this.#next, 1_000);
  }
}

/** Whether the promise is settled before the time is over. */
export async function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const settled = promise.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}
