// Rows that a store picks itself: one that can't be written must not stop the others.
// Owns: the search for the rows at fault.
// Invariants: D3; every call of `work` is one transaction, carried out or not at all (D2), so that a refused call can be repeated in parts.
//
// Whole calls are halved: n rows with one that is refused take about 2 log2(n) calls more. A savepoint per row would be paid for by every
// call, also by those without a bad row.

import { isRefusal, type StoreError } from "./errors.ts";

/** An item that the store refused, and why. */
export interface Refused<I> {
  /** The item that is at fault. */
  readonly item: I;
  /** Why it was refused. */
  readonly error: StoreError;
}

/**
 * Carries out `work` for all items, in order. A call that is refused is repeated for each half of its items, down to the items that are
 * refused alone. Returns those. Any other error ends it.
 */
export async function isolate<I>(items: readonly I[], work: (items: readonly I[]) => Promise<unknown>): Promise<Refused<I>[]> {
  const refused: Refused<I>[] = [];
  const waiting: (readonly I[])[] = [items];
  for (let some = waiting.pop(); some !== undefined; some = waiting.pop()) {
    if (some.length === 0) continue;
    try {
      await work(some);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const middle = Math.ceil(some.length / 2);
      if (some.length > 1) waiting.push(some.slice(middle), some.slice(0, middle));
      else refused.push(...some.map((item) => ({ item, error })));
    }
  }
  return refused;
}
