// Group commit: all turns that become ready while a commit is under way share the next one, across runs.
// Owns: the batches of turns and of new runs.
// Invariants: D3 (shared transactions; no run waits for another's effects), D2 (each item all or nothing, and once), Q10 (a run is not created
// before the one that it comes after, if this process creates both: it would find none, and not wait).

import type { Environment } from "@holdfast/host";
import { Batcher } from "../store/batcher.ts";
import { sizeOfRun, sizeOfTurn } from "../store/batchSizes.ts";
import type { CommitResult, CreateResult, NewRun, Store, TurnCommit } from "../store/port.ts";

/** The smallest limit on a batch: fewer turns are not worth a separate write. */
const WORTH_A_WRITE = 12;
/** The most runs created in one call, if the store works outside this process. */
const RUNS_AT_ONCE = 100;

export class Committer {
  readonly #turns: Batcher<TurnCommit, CommitResult>;
  readonly #runs: Batcher<NewRun, CreateResult>;
  /** New runs with their first turns: they continue as soon as they are created. */
  readonly #begun: Batcher<NewRun, CreateResult>;
  /** Of each run that is being created: the key of the first one of its line. By its id, and by itself. */
  readonly #lines = new Map<string, string>();
  readonly #keys = new WeakMap<NewRun, string>();

  /**
   * `computing`: whether a turn is being computed that will commit soon. `inProgress`: how many runs may commit. `committed` is called for
   * each turn once it is durable, before its driver gets the answer; `heldUp` for each end of a run that waits for a lock for long.
   */
  constructor(
    store: Store,
    environment: Environment,
    computing: () => boolean,
    inProgress: () => number,
    committed: (turn: TurnCommit, result: Extract<CommitResult, { status: "committed" }>) => void,
    heldUp: (turn: TurnCommit, error: unknown) => void = () => {},
  ) {
    const commit = (turns: readonly TurnCommit[]) => store.commit(turns);
    const written = (turn: TurnCommit, result: CommitResult): void => {
      if (result.status === "committed") committed(turn, result);
    };
    const create = (runs: readonly NewRun[]) => store.create(runs);
    const alone = (): boolean => inProgress() === 1;
    const { limits } = store;
    // The commit of an end waits as long as the lock is held: otherwise the outcomes of steps in it would be lost, and the steps run again (D6).
    const waits = ({ close }: TurnCommit): boolean => close !== undefined;
    const gathered = { sizeOf: sizeOfTurn, expecting: computing, alone, written };
    const turns = { limits, keyOf: ({ runId }: TurnCommit) => runId, ...gathered, waits, heldUp };
    const runs = { limits, keyOf: (run: NewRun) => this.#keys.get(run) ?? startKey(run), sizeOf: sizeOfRun };
    if (limits.calls === 1) {
      this.#turns = new Batcher(environment, commit, turns);
      this.#runs = this.#begun = new Batcher(environment, create, { ...runs, alone });
      return;
    }
    // The store works outside this process: while it writes one half of the runs, this process computes the other half. With all of them in
    // one batch the two would wait for each other. The first of many new runs begin while the store writes the rest.
    const most = (): number => Math.max(WORTH_A_WRITE, Math.ceil(inProgress() / 2));
    this.#turns = new Batcher(environment, commit, { ...turns, calls: limits.calls, most });
    this.#runs = new Batcher(environment, create, { ...runs, most: () => RUNS_AT_ONCE });
    this.#begun = new Batcher(environment, create, { ...runs, alone });
  }
  get idle(): boolean {
    return this.#turns.idle && this.#runs.idle && this.#begun.idle;
  }
  commit(turn: TurnCommit, done: (result: CommitResult) => void, failed: (error: unknown) => void): void {
    this.#turns.put({ item: turn, resolve: done, reject: failed });
  }
  async create(run: NewRun): Promise<CreateResult> {
    const key = (run.after === undefined ? undefined : this.#lines.get(run.after)) ?? startKey(run);
    this.#keys.set(run, key);
    this.#lines.set(run.id, key);
    try {
      return await (run.first === undefined ? this.#runs : this.#begun).add(run);
    } finally {
      if (this.#lines.get(run.id) === key) this.#lines.delete(run.id);
    }
  }
}

/** A start with an idempotency key may have to wait for an open transaction that uses the same key. */
function startKey({ id, workflow, idempotencyKey }: NewRun): string {
  return idempotencyKey === undefined ? id : JSON.stringify([workflow, idempotencyKey]);
}
