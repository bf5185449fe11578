// Calls that stand in line: one at a time, and those that wait go together.
// Owns: their order.
// Invariants: items are handed over in the order in which they came, and written once; a call that is refused takes no other with it.

import { isRefusal, partlyWritten, StoreError } from "holdfast";

interface Waiting<I, R> {
  readonly items: readonly I[];
  readonly resolve: (results: R[]) => void;
  readonly reject: (error: unknown) => void;
}

export class Line<I, R> {
  readonly #work: (items: readonly I[]) => Promise<R[]>;
  #waiting: Waiting<I, R>[] = [];
  #isBusy = false;

  constructor(work: (items: readonly I[]) => Promise<R[]>) {
    this.#work = work;
  }

  add(items: readonly I[]): Promise<R[]> {
    if (items.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject });
      if (!this.#isBusy) void this.#go();
    });
  }
  async #go(): Promise<void> {
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      await this.#carryOut(together);
    }
    this.#isBusy = false;
  }
  async #carryOut(together: readonly Waiting<I, R>[]): Promise<void> {
    try {
      const results = await this.#work(together.flatMap(({ items }) => items));
      let at = 0;
      for (const { items, resolve } of together) {
        resolve(results.slice(at, at + items.length));
        at += items.length;
      }
    } catch (error) {
      const left = together.length > 1 ? leftOf(together, error) : together;
      // One of them may be at fault: halves of halves, so that only that one fails.
      if (together.length > 1 && isRefusal(error)) for (const half of halvesOf(left)) await this.#carryOut(half);
      else for (const { reject } of left) reject(together.length > 1 ? partlyWritten(error, []) : error);
    }
  }
}

/** Without those that were written all the same, who hear of it; who was written in part hears of that part. */
function leftOf<I, R>(together: readonly Waiting<I, R>[], error: unknown): readonly Waiting<I, R>[] {
  const written = error instanceof StoreError ? (error.written as R[]) : [];
  let at = 0;
  return together.filter(({ items, resolve, reject }) => {
    const results = written.slice(at, at + items.length);
    at += items.length;
    if (results.length === items.length) resolve(results);
    else if (results.length > 0) reject(partlyWritten(error, results));
    return results.length === 0;
  });
}
function halvesOf<T>(items: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}
