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

/** Gathers items and hands them over in batches, one batch at a time. */
export class Batcher<I, R> {
  readonly #environment: Environment;
  readonly #write: (items: readonly I[]) => Promise<readonly R[]>;
  #waiting: Waiting<I, R>[] = [];
  #busy = false;
  #scheduled = false;

  /** More is about to come: a batch waits for it, but not for long. */
  readonly #expecting: () => boolean;

  readonly #alone: () => boolean;

  constructor(
    environment: Environment,
    write: (items: readonly I[]) => Promise<readonly R[]>,
    expecting: () => boolean = () => false,
    alone: () => boolean = () => false,
  ) {
    this.#environment = environment;
    this.#write = write;
    this.#expecting = expecting;
    this.#alone = alone;
  }
  add(item: I): Promise<R> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }
  /** Nothing waits and nothing is being written. */
  get idle(): boolean {
    return !this.#busy && this.#waiting.length === 0;
  }
  #schedule(): void {
    if (this.#busy || this.#scheduled) return;
    this.#scheduled = true;
    if (this.#alone()) {
      // Nobody could share the write: waiting would only take time.
      queueMicrotask(() => {
        this.#scheduled = false;
        void this.#flush();
      });
      return;
    }
    // Once a turn of the event loop: what becomes ready in this one shares the write, and turns that are being computed do too.
    let patience = PATIENCE;
    const flush = (): void => {
      if (patience-- > 0 && this.#expecting()) return this.#environment.soon(flush);
      this.#scheduled = false;
      void this.#flush();
    };
    this.#environment.soon(flush);
  }
  async #flush(): Promise<void> {
    const batch = this.#waiting;
    if (batch.length === 0) return;
    this.#waiting = [];
    this.#busy = true;
    try {
      const results = await this.#write(batch.map(({ item }) => item));
      for (let i = 0; i < batch.length; i++) batch[i]?.resolve(results[i] as R);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      this.#busy = false;
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
    this.#turns = new Batcher(environment, commit, computing, alone);
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
