// Group commit: everything that is ready while a commit is under way goes into the next one, across runs.
// Owns: the queue of turns and creations that wait for the store.
// Invariants: D3 (shared transactions; no run waits for another's effects), D2 (each item all or nothing).

import type { CommitResult, CreateResult, NewRun, Store, TurnCommit } from "../store/port.ts";
import type { Environment } from "./environment.ts";

interface Waiting<I, R> {
  readonly item: I;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/** How many turns of the event loop a batch waits for what is about to come. */
const PATIENCE = 4;
/** A batch is split only if each part gets this much: less is not worth a write of its own. */
const WORTH_A_WRITE = 12;

interface BatcherOptions<I> {
  /** How many batches may be on their way at once. */
  readonly atOnce?: number;
  /** Items of one key keep their order: none leaves while another of its key is on its way. */
  readonly keyOf?: (item: I) => string;
  /** More is about to come: a batch waits for it, but not for long. */
  readonly expecting?: () => boolean;
  /** Nobody could share the write: waiting would only take time. */
  readonly alone?: () => boolean;
}

/** Gathers items and hands them over in batches: one at a time, or several, each with its share of what is there. */
export class Batcher<I, R> {
  readonly #environment: Environment;
  readonly #write: (items: readonly I[]) => Promise<readonly R[]>;
  readonly #options: BatcherOptions<I>;
  readonly #atOnce: number;
  #waiting: Waiting<I, R>[] = [];
  #underWay = 0;
  #onTheirWay = 0;
  readonly #keys = new Set<string>();
  #scheduled = false;

  constructor(environment: Environment, write: (items: readonly I[]) => Promise<readonly R[]>, options: BatcherOptions<I> = {}) {
    this.#environment = environment;
    this.#write = write;
    this.#options = options;
    this.#atOnce = options.atOnce ?? 1;
  }
  add(item: I): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }
  /** Nothing waits and nothing is being written. */
  get idle(): boolean {
    return this.#underWay === 0 && this.#waiting.length === 0;
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
      if (patience-- > 0 && this.#options.expecting?.() === true) return this.#environment.soon(flush);
      this.#scheduled = false;
      while (this.#underWay < this.#atOnce && this.#flush());
    };
    this.#environment.soon(flush);
  }
  /** False: there was nothing to write. */
  #flush(): boolean {
    const batch = this.#take();
    if (batch.length === 0) return false;
    void this.#carry(batch);
    return true;
  }
  #take(): Waiting<I, R>[] {
    const { keyOf } = this.#options;
    if (this.#atOnce === 1 || keyOf === undefined) return this.#waiting.splice(0);
    const share = Math.max(WORTH_A_WRITE, Math.ceil((this.#waiting.length + this.#onTheirWay) / this.#atOnce));
    const batch: Waiting<I, R>[] = [];
    const rest: Waiting<I, R>[] = [];
    const held = new Set<string>();
    for (const one of this.#waiting) {
      const key = keyOf(one.item);
      if (batch.length < share && !this.#keys.has(key) && !held.has(key)) batch.push(one);
      else {
        rest.push(one);
        held.add(key);
      }
    }
    this.#waiting = rest;
    for (const { item } of batch) this.#keys.add(keyOf(item));
    return batch;
  }
  async #carry(batch: readonly Waiting<I, R>[]): Promise<void> {
    this.#underWay++;
    this.#onTheirWay += batch.length;
    try {
      const results = await this.#write(batch.map(({ item }) => item));
      for (let i = 0; i < batch.length; i++) batch[i]?.resolve(results[i] as R);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#underWay--;
      this.#onTheirWay -= batch.length;
      const { keyOf } = this.#options;
      if (keyOf !== undefined) for (const { item } of batch) this.#keys.delete(keyOf(item));
      if (this.#waiting.length > 0) this.#schedule();
    }
  }
}

export class Committer {
  readonly #turns: Batcher<TurnCommit, CommitResult>;
  readonly #runs: Batcher<NewRun, CreateResult>;

  /**
   * `computing`: is a turn being computed that will want to commit? `alone`: is there just one run in progress? `committed` hears of
   * each turn once it is durable, before whoever asked for it does.
   */
  constructor(
    store: Store,
    environment: Environment,
    computing: () => boolean,
    alone: () => boolean,
    committed: (turn: TurnCommit) => void,
  ) {
    const commit = async (turns: readonly TurnCommit[]): Promise<readonly CommitResult[]> => {
      const results = await store.commit(turns);
      for (let i = 0; i < turns.length; i++) if (results[i]?.status === "committed") committed(turns[i] as TurnCommit);
      return results;
    };
    this.#turns = new Batcher(environment, commit, {
      atOnce: store.commitsAtOnce ?? 1,
      keyOf: ({ runId }) => runId,
      expecting: computing,
      alone,
    });
    this.#runs = new Batcher(environment, (runs) => store.create(runs));
  }
  get idle(): boolean {
    return this.#turns.idle && this.#runs.idle;
  }
  commit(turn: TurnCommit): Promise<CommitResult> {
    return this.#turns.add(turn);
  }
  create(run: NewRun): Promise<CreateResult> {
    return this.#runs.add(run);
  }
}
