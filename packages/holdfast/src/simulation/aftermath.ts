// What the store must look like once something was written: the oracles of one commit.
// Owns: who is whose child, as it was created.
// Invariants: D2 (state, status, wake-up and the fate of children come with the commit, not after it), K6, K7, K9.

import type { NewMessage, NewRun, RunRow, Store, TurnCommit } from "../store/port.ts";
import type { World } from "./world.ts";

const CLOSED: ReadonlySet<string> = new Set(["completed", "failed", "canceled", "terminated"]);

export class Aftermath {
  readonly #world: World;
  readonly #inner: Store;
  /** By their parent: those that are to be terminated with it. */
  readonly #doomed = new Map<string, Set<string>>();
  /** Runs with rollbacks, which a deadline does not end at once. */
  readonly #withRollbacks = new Set<string>();
  /** Some run has one: most worlds have none, and look for them all the time. */
  hasDeadlines = false;

  constructor(world: World, inner: Store) {
    this.#world = world;
    this.#inner = inner;
  }

  born({ id, parent, deadline, deadlineAt }: NewRun): void {
    this.hasDeadlines ||= deadline !== undefined || deadlineAt !== undefined;
    if (parent?.parentClose !== "terminate") return;
    const children = this.#doomed.get(parent.runId) ?? new Set();
    this.#doomed.set(parent.runId, children.add(id));
  }

  /** `after`: the run as it is now, if no later commit has written it. */
  committed(commit: TurnCommit, after: RunRow | undefined): void {
    const { runId, close, lease, wakeAt, state } = commit;
    if ((commit.rollbacks ?? 0) > 0) this.#withRollbacks.add(runId);
    for (const child of commit.children ?? []) this.born(child);
    if (after === undefined) return;
    const broken = (message: string): void => this.#world.violate("one commit", "D2", `${runId} ${message}`);
    if (state !== undefined && JSON.stringify(after.state) !== JSON.stringify(state)) broken("published a state that is not there");
    if (close !== undefined && close.status !== "continued" && after.status !== close.status)
      broken(`was ${close.status} by its commit, and is ${after.status}`);
    if (lease !== "park" || wakeAt === undefined || CLOSED.has(after.status)) return; // by its parent, in the same transaction
    if ((after.availableAt ?? Number.POSITIVE_INFINITY) > Math.max(wakeAt, this.#world.now))
      broken(`is to be available at ${wakeAt}, and is at ${after.availableAt}`);
  }
  /** K6: whoever is to be terminated with a run is, in the same commit. */
  async closed(runId: string): Promise<void> {
    const children = [...(this.#doomed.get(runId) ?? [])];
    for (const row of await this.#inner.get(children)) {
      if (row !== undefined && row.parent?.runId === runId && !CLOSED.has(row.status))
        this.#world.violate(
          "one commit",
          "K6",
          `${runId} closed, and its child ${row.id}, which is to be terminated with it, is ${row.status}`,
        );
    }
  }
  /** K7: once deadlines were looked at, nobody is past its own. */
  expired(rows: readonly (RunRow | undefined)[]): void {
    for (const row of rows) {
      if (row?.deadlineAt === undefined || row.deadlineAt > this.#world.now || CLOSED.has(row.status)) continue;
      if (!this.#withRollbacks.has(row.id))
        this.#world.violate(
          "deadlines",
          "K7",
          `${row.id} is ${row.status} ${this.#world.now - row.deadlineAt} ms after its deadline, which was looked at`,
        );
    }
  }
  /** K9: a run without a first turn is canceled at once, without a worker. */
  canceled({ job }: NewMessage, before: RunRow | undefined, after: RunRow | undefined): void {
    if (job.type !== "cancel" || before === undefined || after === undefined) return;
    if (before.status === "pending" && before.turns === 0 && before.workerId === undefined && !CLOSED.has(after.status))
      this.#world.violate("cancellation", "K9", `${after.id} had no first turn, was canceled, and is ${after.status}`);
  }
}
