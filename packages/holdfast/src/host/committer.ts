// Group commit: everything that is ready while a commit is under way goes into the next one, across runs.
// Owns: the queue of turns and creations that wait for the store.
// Invariants: D3 (shared transactions; no run waits for another's effects, nor fails by its fault), D2 (each item all or nothing, and once).

import type { Environment } from "@holdfast/host";
import { isRefusal, StoreError } from "../store/errors.ts";
import type { CommitResult, CreateResult, NewRun, Store, TurnCommit } from "../store/port.ts";

/** Who waits for an item to be written. */
export interface Waiting<I, R> {
  readonly item: I;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** How many turns of the event loop a batch waits for what is about to come. */
const PATIENCE = 4;
/** A batch is no smaller for the sake of others: less is not worth a write of its own. */
const WORTH_A_WRITE = 12;
/** Of so few it is not worth finding out which one has to wait. */
const FEW = 2;
/** Milliseconds: between two tries of an item that waits for a lock, and for how long it is tried without a word. */
const FIRST_ASIDE_MS = 5;
const LONGEST_WAIT_ASIDE_MS = 200;
const LONGEST_ASIDE_MS = 30_000;
/** Runs that are created together, where the store works elsewhere. */
const RUNS_AT_ONCE = 100;

interface BatcherOptions<I, R> {
  /** How many batches may be on their way at once. */
  readonly atOnce?: number | undefined;
  /** No batch is larger. */
  readonly most?: () => number;
  /** Items of one key keep their order: none leaves while another of its key is on its way. */
  readonly keyOf?: (item: I) => string;
  /** More is about to come: a batch waits for it, but not for long. */
  readonly expecting?: () => boolean;
  /** May it wait for a lock for as long as the lock is held? It fails once another of its key comes: what asked for it has given up then. */
  readonly waits?: (item: I) => boolean;
  /** Hears once of an item that has waited for long. */
  readonly heldUp?: (item: I, error: unknown) => void;
  /** Nobody could share the write: waiting would only take time. */
  readonly alone?: () => boolean;
  /** Hears of each item that was written, before anybody who waits does. */
  readonly written?: (what: readonly [item: I, result: R]) => void;
}

/** Gathers items and hands them over in batches, one after the other, or several at once. */
export class Batcher<I, R> {
  readonly #environment: Environment;
  readonly #write: (items: readonly I[]) => Promise<readonly R[]>;
  readonly #options: BatcherOptions<I, R>;
  readonly #atOnce: number;
  #waiting: Waiting<I, R>[] = [];
  #underWay = 0;
  /** Those that wait for somebody's lock, by themselves. */
  #aside = 0;
  readonly #keys = new Set<string>();
  #scheduled = false;

  constructor(environment: Environment, write: (items: readonly I[]) => Promise<readonly R[]>, options: BatcherOptions<I, R> = {}) {
    this.#environment = environment;
    this.#write = write;
    this.#options = options;
    this.#atOnce = options.atOnce ?? 1;
  }
  add(item: I): Promise<R> {
    return new Promise((resolve, reject) => this.put({ item, resolve, reject }));
  }
  /** Without a promise: turns are many. */
  put(one: Waiting<I, R>): void {
    this.#waiting.push(one);
    this.#schedule();
  }
  /** Nothing waits and nothing is being written. */
  get idle(): boolean {
    return this.#underWay === 0 && this.#aside === 0 && this.#waiting.length === 0;
  }
  #schedule(): void {
    if (this.#underWay === this.#atOnce || this.#scheduled) return;
    this.#scheduled = true;
    if (this.#options.alone?.() === true) {
      queueMicrotask(() => {
        this.#scheduled = false;
        void this.#flush();
      });
      return;
    }
    // Once a turn of the event loop: what becomes ready in this one shares the write, and turns that are being computed do too.
    let patience = PATIENCE;
    const flush = (): void => {
      const isFull = this.#waiting.length >= this.#most;
      if (!isFull && patience-- > 0 && this.#options.expecting?.() === true) return this.#environment.soon(flush);
      this.#scheduled = false;
      while (this.#underWay < this.#atOnce && this.#flush());
    };
    this.#environment.soon(flush);
  }
  /** False: there was nothing to write. */
  #flush(): boolean {
    const batch = this.#take();
    if (batch.length === 0) return false;
    this.#carry(batch);
    return true;
  }
  get #most(): number {
    return this.#options.most?.() ?? Number.POSITIVE_INFINITY;
  }
  #take(): Waiting<I, R>[] {
    const { keyOf } = this.#options;
    const most = this.#most;
    if ((this.#atOnce === 1 && this.#aside === 0) || keyOf === undefined)
      return this.#waiting.splice(0, Math.min(most, this.#waiting.length));
    const batch: Waiting<I, R>[] = [];
    const rest: Waiting<I, R>[] = [];
    // Once one of a key has to wait, those after it do: the batch stays full, or the key on its way.
    for (const one of this.#waiting) (batch.length < most && !this.#keys.has(keyOf(one.item)) ? batch : rest).push(one);
    this.#waiting = rest;
    for (const { item } of batch) this.#keys.add(keyOf(item));
    return batch;
  }
  #carry(batch: readonly Waiting<I, R>[]): void {
    this.#underWay++;
    const failed = (error: unknown): void => {
      if (!isRefusal(error) && !isOfOne(error) && writtenOf(error).length === 0) this.#failed(batch, error);
      else void this.#carryApart(batch, error);
    };
    try {
      this.#write(batch.map(({ item }) => item)).then((results) => this.#arrived(batch, results), failed);
    } catch (error) {
      failed(error);
    }
  }
  #arrived(batch: readonly Waiting<I, R>[], results: readonly R[]): void {
    this.#tellWritten(batch, results);
    this.#carried(batch);
    for (let i = 0; i < batch.length; i++) tell((batch[i] as Waiting<I, R>).resolve, results[i] as R);
  }
  #tellWritten(batch: readonly Waiting<I, R>[], results: readonly R[]): void {
    const { written } = this.#options;
    for (let i = 0; written !== undefined && i < batch.length; i++) tell(written, [(batch[i] as Waiting<I, R>).item, results[i] as R]);
  }
  #failed(batch: readonly Waiting<I, R>[], error: unknown): void {
    this.#carried(batch);
    for (const { reject } of batch) tell(reject, error);
  }
  /**
   * One item is at fault, or several: halves of halves are written, one after the other so that each key keeps its order, down to each of
   * those by itself. By then it was refused twice: what was in somebody's way for a moment only is written. Those that have to wait for a
   * lock are put aside, with what is behind them, and wait by themselves.
   */
  async #carryApart(batch: readonly Waiting<I, R>[], failure: unknown): Promise<void> {
    const parts: (readonly Waiting<I, R>[])[] = [];
    const aside = new Map<unknown, Waiting<I, R>[]>();
    const keyOf = (one: Waiting<I, R>): unknown => this.#options.keyOf?.(one.item) ?? one;
    const putAside = (one: Waiting<I, R>): void => void aside.set(keyOf(one), [...(aside.get(keyOf(one)) ?? []), one]);
    const takeApart = (part: readonly Waiting<I, R>[], error: unknown): void => {
      const left = this.#leftOf(part, error);
      if (isOfOne(error) && left.length <= FEW) left.forEach(putAside);
      else if (isRefusal(error) || isOfOne(error)) parts.unshift(...halvesOf(left));
      // No fault of theirs: nor do those that were not tried yet wait for a store that can't be used now.
      else for (const { reject } of [left, ...parts.splice(0)].flat()) tell(reject, error);
    };
    takeApart(batch, failure);
    for (let next = parts.shift(); next !== undefined; next = parts.shift()) {
      const part = next.filter((one) => !aside.has(keyOf(one)));
      for (const one of next) if (aside.has(keyOf(one))) putAside(one);
      if (part.length === 0) continue;
      try {
        const results = await this.#write(part.map(({ item }) => item));
        this.#tellWritten(part, results);
        for (const [i, { resolve }] of part.entries()) tell(resolve, results[i] as R);
      } catch (error) {
        const [one] = part;
        if (part.length === 1 && one !== undefined && isRefusal(error)) tell(one.reject, error);
        else takeApart(part, error);
      }
    }
    this.#aside += aside.size;
    this.#carried(batch.filter((one) => !aside.has(keyOf(one))));
    for (const [key, some] of aside) {
      if (typeof key === "string") this.#keys.add(key);
      void this.#carryAside(some);
    }
  }
  /** All of one key. Once one of them fails, those behind it do. */
  async #carryAside(some: readonly Waiting<I, R>[]): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    for (const one of some) {
      if (failure === undefined) {
        try {
          const results = await this.#writeOnceFree(one.item);
          this.#tellWritten([one], results);
          tell(one.resolve, results[0] as R);
          continue;
        } catch (error) {
          failure = { error };
        }
      }
      tell(one.reject, failure.error);
    }
    this.#aside--;
    const { keyOf } = this.#options;
    if (keyOf !== undefined) for (const { item } of some) this.#keys.delete(keyOf(item));
    if (this.#waiting.length > 0) this.#schedule();
  }
  /** A store that does not wait for a lock itself says so at once: it is asked again, with growing waits. */
  async #writeOnceFree(item: I): Promise<readonly R[]> {
    const mayWait = this.#options.waits?.(item) === true;
    let until = this.#environment.elapsed() + LONGEST_ASIDE_MS;
    for (let wait = FIRST_ASIDE_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_ASIDE_MS)) {
      try {
        return await this.#write([item]);
      } catch (error) {
        const isLong = this.#environment.elapsed() > until;
        if (!isOfOne(error) || (mayWait ? this.#isFollowed(item) : isLong)) throw error;
        if (isLong) {
          until = Number.POSITIVE_INFINITY;
          this.#options.heldUp?.(item, error);
        }
      }
      await new Promise<void>((resolve) => this.#environment.after(wait, resolve));
    }
  }
  /** Does another of its key wait? */
  #isFollowed(item: I): boolean {
    const { keyOf } = this.#options;
    return keyOf !== undefined && this.#waiting.some((other) => keyOf(other.item) === keyOf(item));
  }
  /** D2: without those that were written all the same, who hear of it. */
  #leftOf(batch: readonly Waiting<I, R>[], error: unknown): readonly Waiting<I, R>[] {
    const written = writtenOf(error) as readonly (R | undefined)[];
    return batch.filter((one, i) => {
      const result = written[i];
      if (result === undefined) return true;
      this.#tellWritten([one], [result]);
      tell(one.resolve, result);
      return false;
    });
  }
  #carried(batch: readonly Waiting<I, R>[]): void {
    this.#underWay--;
    const { keyOf } = this.#options;
    if (keyOf !== undefined) for (const { item } of batch) this.#keys.delete(keyOf(item));
    if (this.#waiting.length > 0) this.#schedule();
  }
}

function isOfOne(error: unknown): boolean {
  return error instanceof StoreError && error.isOfOne;
}
function writtenOf(error: unknown): readonly unknown[] {
  return error instanceof StoreError ? error.written : [];
}
function halvesOf<T>(items: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(items.length / 2);
  return [items.slice(0, middle), items.slice(middle)].filter(({ length }) => length > 0);
}

/** Who throws when it is told does not keep others from being told. */
function tell<T>(whom: (what: T) => void, what: T): void {
  try {
    whom(what);
  } catch (error) {
    void Promise.reject(error);
  }
}

export class Committer {
  readonly #turns: Batcher<TurnCommit, CommitResult>;
  readonly #runs: Batcher<NewRun, CreateResult>;
  /** With their first turns: they are worked on as soon as they are there. */
  readonly #begun: Batcher<NewRun, CreateResult>;

  /**
   * `computing`: is a turn being computed that will want to commit? `inProgress`: how many runs are there that may want to? `committed` hears
   * of each turn once it is durable, before whoever asked for it does; `heldUp` of each end of a run that waits for a lock for long.
   */
  constructor(
    store: Store,
    environment: Environment,
    computing: () => boolean,
    inProgress: () => number,
    committed: (turn: TurnCommit) => void,
    heldUp: (turn: TurnCommit, error: unknown) => void = () => {},
  ) {
    const commit = (turns: readonly TurnCommit[]): Promise<readonly CommitResult[]> => store.commit(turns);
    const written = ([turn, { status }]: readonly [TurnCommit, CommitResult]): void => {
      if (status === "committed") committed(turn);
    };
    const create = (runs: readonly NewRun[]): Promise<readonly CreateResult[]> => store.create(runs);
    const alone = (): boolean => inProgress() === 1;
    // An end is not given up: the outcomes of steps that are recorded with it would be lost, and the steps run again (D6).
    const waits = ({ close }: TurnCommit): boolean => close !== undefined;
    const shared = { keyOf: ({ runId }: TurnCommit) => runId, expecting: computing, alone, written, waits, heldUp };
    if (store.commitsAtOnce === undefined) {
      this.#turns = new Batcher(environment, commit, shared);
      this.#runs = this.#begun = new Batcher(environment, create, { alone });
      return;
    }
    // The store works elsewhere: while one half of the runs is there, this process works on the other. All in one batch would make the two
    // wait for each other in turn. Of many new runs the first are worked on while the store writes the others.
    const most = (): number => Math.max(WORTH_A_WRITE, Math.ceil(inProgress() / 2));
    this.#turns = new Batcher(environment, commit, { ...shared, atOnce: store.commitsAtOnce, most });
    this.#runs = new Batcher(environment, create, { most: () => RUNS_AT_ONCE });
    this.#begun = new Batcher(environment, create, { alone });
  }
  get idle(): boolean {
    return this.#turns.idle && this.#runs.idle && this.#begun.idle;
  }
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    this.#turns.put({ item: turn, resolve: done, reject: failed });
  }
  create(run: NewRun): Promise<CreateResult> {
    return (run.first === undefined ? this.#runs : this.#begun).add(run);
  }
}
