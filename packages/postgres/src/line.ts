// Calls that stand in line: one at a time, and those that wait go together.
// Owns: their order; those that have to step aside, since somebody has locked what they are about.
// Invariants: items of one key are handed over in the order in which they came, and written once; a call that is refused takes no other
// with it; an item that has to wait for somebody's lock holds up no other but those of its own key.

import { isRefusal, partlyWritten, StoreError } from "holdfast/store";

/** What came of each. Undefined: somebody has locked what it is about, nothing was done. `wait`: that may be over in a moment. */
type Work<I, R> = (items: readonly I[], wait: boolean) => Promise<readonly (R | undefined)[]>;

interface LineOptions<I> {
  readonly keyOf: (item: I) => string;
  /** How long an item waits for somebody's lock, in milliseconds; after that it fails with this. */
  readonly patience: number;
  readonly tooLong: () => Error;
}

interface Waiting<I, R> {
  readonly items: readonly I[];
  readonly resolve: (results: R[] | Promise<R[]>) => void;
  readonly reject: (error: unknown) => void;
}
interface Aside<I, R> {
  readonly item: I;
  readonly until: number;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** Between two looks at those that stand aside; each look waits a little by itself. */
const ASIDE_MS = 50;

export class Line<I, R> {
  readonly #work: Work<I, R>;
  readonly #options: LineOptions<I>;
  #waiting: Waiting<I, R>[] = [];
  #isBusy = false;
  /** By key, in order. */
  readonly #aside = new Map<string, Aside<I, R>[]>();

  constructor(work: Work<I, R>, options: LineOptions<I>) {
    this.#work = work;
    this.#options = options;
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
    await undefined; // who comes in the same moment shares the first call
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      await this.#carryOut(together);
    }
    this.#isBusy = false;
  }
  async #carryOut(together: readonly Waiting<I, R>[]): Promise<void> {
    const items = together.flatMap((one) => one.items);
    try {
      const results = await this.#carryOutFree(items);
      let at = 0;
      for (const one of together) {
        const from = at;
        at += one.items.length;
        this.#resolve(one, results.slice(from, at));
      }
    } catch (error) {
      const left = together.length > 1 ? this.#leftOf(together, error) : together;
      // One of them may be at fault: halves of halves, so that only that one fails.
      if (together.length > 1 && isRefusal(error)) for (const half of halvesOf(left)) await this.#carryOut(half);
      else for (const { reject } of left) reject(together.length > 1 ? partlyWritten(error, []) : error);
    }
  }
  #resolve({ items, resolve }: Waiting<I, R>, own: readonly (R | undefined)[]): void {
    resolve(own.includes(undefined) ? Promise.all(own.map((result, i) => result ?? this.#putAside(items[i] as I))) : (own as R[]));
  }
  /** Without those that were written all the same, who hear of it; who was written in part hears of that part. */
  #leftOf(together: readonly Waiting<I, R>[], error: unknown): readonly Waiting<I, R>[] {
    const written = writtenOf<R>(error);
    let at = 0;
    return together.filter((one) => {
      const own = written.slice(at, at + one.items.length);
      at += one.items.length;
      const isWhole = own.length === one.items.length;
      const isPart = !isWhole && own.some((result) => result !== undefined);
      if (isWhole) this.#resolve(one, own);
      if (isPart) one.reject(partlyWritten(error, own));
      return !isWhole && !isPart;
    });
  }
  /** All but those whose key has others standing aside: they go behind them. */
  async #carryOutFree(items: readonly I[]): Promise<readonly (R | undefined)[]> {
    if (this.#aside.size === 0) return this.#work(items, false);
    const isFree = items.map((item) => !this.#aside.has(this.#options.keyOf(item)));
    const free = items.filter((_, i) => isFree[i]);
    if (free.length === 0) return items.map(() => undefined);
    try {
      return inPlace(isFree, await this.#work(free, false));
    } catch (error) {
      throw partlyWritten(error, inPlace(isFree, writtenOf<R>(error)));
    }
  }

  // ── aside ──

  #putAside(item: I): Promise<R> {
    const { keyOf, patience } = this.#options;
    return new Promise((resolve, reject) => {
      const isFirst = this.#aside.size === 0;
      const key = keyOf(item);
      const before = this.#aside.get(key) ?? [];
      this.#aside.set(key, [...before, { item, until: performance.now() + patience, resolve, reject }]);
      if (isFirst) void this.#lookAside();
    });
  }
  /** In one call for all of them, until none is left: however many there are, they take no more than one connection. */
  async #lookAside(): Promise<void> {
    while (this.#aside.size > 0) {
      await this.#lookAt([...this.#aside].flatMap(([key, some]) => some.map((one) => ({ key, one }))));
      if (this.#aside.size > 0) await new Promise((resolve) => setTimeout(resolve, ASIDE_MS));
    }
  }
  /** Where one of them may be at fault, each by itself. */
  async #lookAt(some: readonly { readonly key: string; readonly one: Aside<I, R> }[]): Promise<void> {
    const items = some.map(({ one }) => one.item);
    try {
      const results = await this.#work(items, true);
      for (const [i, { key, one }] of some.entries()) this.#settle(key, one, results[i]);
    } catch (error) {
      const written = writtenOf<R>(error);
      const left = some.slice(written.length);
      for (const [i, { key, one }] of some.slice(0, written.length).entries()) this.#settle(key, one, written[i]);
      if (some.length > 1 && isRefusal(error)) await this.#lookAtEach(left);
      else for (const { key, one } of left) this.#leave(key, one).reject(partlyWritten(error, [])); // what was written is others'
    }
  }
  /** Who stands behind one that still has to wait does not overtake it. */
  async #lookAtEach(some: readonly { readonly key: string; readonly one: Aside<I, R> }[]): Promise<void> {
    const waiting = new Set<string>();
    for (const each of some) {
      if (waiting.has(each.key)) continue;
      await this.#lookAt([each]);
      if (this.#aside.get(each.key)?.includes(each.one) === true) waiting.add(each.key);
    }
  }
  #settle(key: string, one: Aside<I, R>, result: R | undefined): void {
    if (result !== undefined) this.#leave(key, one).resolve(result);
    else if (performance.now() > one.until) this.#leave(key, one).reject(this.#options.tooLong());
  }
  #leave(key: string, one: Aside<I, R>): Aside<I, R> {
    const others = (this.#aside.get(key) ?? []).filter((other) => other !== one);
    if (others.length === 0) this.#aside.delete(key);
    else this.#aside.set(key, others);
    return one;
  }
}

function writtenOf<R>(error: unknown): readonly (R | undefined)[] {
  return error instanceof StoreError ? (error.written as (R | undefined)[]) : [];
}
/** Of the free ones these, in order; of the others nothing. As far as there are any. */
function inPlace<R>(isFree: readonly boolean[], results: readonly (R | undefined)[]): (R | undefined)[] {
  let used = 0;
  const end = isFree.findIndex((free) => free && used++ === results.length);
  used = 0;
  return isFree.slice(0, end === -1 ? isFree.length : end).map((free) => (free ? results[used++] : undefined));
}
function halvesOf<T>(items: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}
