// Group commit: everything that is ready while a commit is under way goes into the next one, across runs.
// Owns: the batches of turns and of new runs.
// Invariants: D3 (shared transactions; no run waits for another's effects), D2 (each item all or nothing, and once).

import type { Environment } from "@holdfast/host";
import { Batcher } from "../store/batcher.ts";
import { sizeOfRun, sizeOfTurn } from "../store/batchSizes.ts";
import type { CommitResult, CreateResult, NewRun, Store, TurnCommit } from "../store/port.ts";

/** A batch is no smaller for the sake of others: less is not worth a write of its own. */
const WORTH_A_WRITE = 12;
/** Runs that are created together, where the store works elsewhere. */
const RUNS_AT_ONCE = 100;

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
    const commit = (turns: readonly TurnCommit[]) => store.commit(turns);
    const written = (turn: TurnCommit, { status }: CommitResult): void => {
      if (status === "committed") committed(turn);
    };
    const create = (runs: readonly NewRun[]) => store.create(runs);
    const alone = (): boolean => inProgress() === 1;
    const { limits } = store;
    // An end is not given up: the outcomes of steps that are recorded with it would be lost, and the steps run again (D6).
    const waits = ({ close }: TurnCommit): boolean => close !== undefined;
    const gathered = { sizeOf: sizeOfTurn, expecting: computing, alone, written };
    const turns = { limits, keyOf: ({ runId }: TurnCommit) => runId, ...gathered, waits, heldUp };
    const runs = { limits, keyOf: startKey, sizeOf: sizeOfRun };
    if (limits.calls === 1) {
      this.#turns = new Batcher(environment, commit, turns);
      this.#runs = this.#begun = new Batcher(environment, create, { ...runs, alone });
      return;
    }
    // The store works elsewhere: while one half of the runs is there, this process works on the other. All in one batch would make the two
    // wait for each other in turn. Of many new runs the first are worked on while the store writes the others.
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
  create(run: NewRun): Promise<CreateResult> {
    return (run.first === undefined ? this.#runs : this.#begun).add(run);
  }
}

/** A start under an idempotency key may have to wait for an open transaction that uses the same. */
function startKey({ id, workflow, idempotencyKey }: NewRun): string {
  return idempotencyKey === undefined ? id : JSON.stringify([workflow, idempotencyKey]);
}
