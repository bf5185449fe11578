// Calls that stand in line: one at a time, and those that wait go together.
// Owns: their order.
// Invariants: items are handed over in the order in which they came; a call that fails takes no other with it than those that shared it.

import { HoldfastError } from "@holdfast/core";

interface Waiting<I, R> {
  readonly items: readonly I[];
  readonly resolve: (results: R[]) => void;
  readonly reject: (error: unknown) => void;
}

function isRetryable(error: unknown): boolean {
  return error instanceof HoldfastError && error.retryable === true;
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
      // One of them may be at fault: each by itself, so that only that one fails. None is if a retry of all of them may help.
      if (together.length > 1 && !isRetryable(error)) for (const one of together) await this.#carryOut([one]);
      else for (const { reject } of together) reject(error);
    }
  }
}
