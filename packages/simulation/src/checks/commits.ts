// Checks the state of the store after each write: the oracles of one commit.
// Owns: the children of each run, and which runs still have to receive a cancellation.
// Invariants: D2 (state, status, wake-up and the end of children are written by the commit itself, not after it), C7, K6, K7, K9, P10.

import type { ClaimedRun, NewMessage, NewRun, ParentLink, RunRow, Store, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";
import { CLOSED } from "./seenRuns.ts";

export class CommitChecks {
  readonly #world: World;
  readonly #inner: Store;
  /** Children and their links, by parent. */
  readonly #children = new Map<string, Map<string, ParentLink>>();
  /** Children that must be cancelled, with the rule and the reason: the cancellation has to be in the inbox of their next claim. */
  readonly #owed = new Map<string, { readonly parent: string; readonly rule: "C7" | "K6"; readonly why: string }>();
  /** Runs with rollbacks: their deadline does not end them at once. */
  readonly #withRollbacks = new Set<string>();
  /** Runs whose expired deadline has been handled. */
  readonly #struck = new Set<string>();
  /** Whether any run has a deadline. Most worlds have none; they can skip the checks, which run often. */
  hasDeadlines = false;

  constructor(world: World, inner: Store) {
    this.#world = world;
    this.#inner = inner;
  }

  born({ id, parent, deadline, deadlineAt }: NewRun): void {
    this.hasDeadlines ||= deadline !== undefined || deadlineAt !== undefined;
    if (parent === undefined) return;
    const children = this.#children.get(parent.runId) ?? new Map<string, ParentLink>();
    this.#children.set(parent.runId, children.set(id, parent));
  }

  /** `after`: the run as it is now; undefined if a later commit of the same batch has written it. `goesOn`: with its next start (Q9). */
  committed(commit: TurnCommit, after: RunRow | undefined, goesOn = false): void {
    const { runId, close, lease, wakeAt, state } = commit;
    if ((commit.rollbacks ?? 0) > 0) this.#withRollbacks.add(runId);
    for (const child of commit.children ?? []) this.born(child);
    for (const command of commit.turn?.commands ?? []) if (command.type === "cancel") this.#gaveUp(commit, command.seq);
    if (after === undefined) return;
    const broken = (message: string): void => this.#world.violate("one commit", "D2", `${runId} ${message}`);
    if (state !== undefined && JSON.stringify(after.state) !== JSON.stringify(state)) broken("published a state that is not in the store");
    if (close !== undefined && close.status !== "continued" && !goesOn && after.status !== close.status)
      broken(`was ${close.status} in its commit, but is ${after.status} in the store`);
    if (goesOn && after.execution === commit.execution) broken("should have begun with its next start");
    if (lease !== "park" || wakeAt === undefined || CLOSED.has(after.status)) return; // its parent may have closed it in the same transaction
    if ((after.availableAt ?? Number.POSITIVE_INFINITY) > Math.max(wakeAt, this.#world.now))
      broken(`should be available at ${wakeAt}, but is available at ${after.availableAt}`);
  }
  #gaveUp({ runId, execution }: TurnCommit, seq: number): void {
    for (const [id, link] of this.#children.get(runId) ?? [])
      if (link.execution === execution && link.seq === seq) this.#owed.set(id, { parent: runId, rule: "C7", why: "has cancelled it" });
  }
  /** K6: the commit that ends a run also terminates its children, or sends them a cancellation, as `parentClose` says. */
  async closed(runId: string): Promise<void> {
    this.#owed.delete(runId);
    const children = this.#children.get(runId);
    if (children === undefined) return;
    for (const row of await this.#inner.get([...children.keys()])) {
      if (row === undefined || row.parent?.runId !== runId || CLOSED.has(row.status)) continue;
      if (row.parent.parentClose === "cancel") this.#owed.set(row.id, { parent: runId, rule: "K6", why: "has ended" });
      else if (row.parent.parentClose === "terminate")
        this.#world.violate(
          "one commit",
          "K6",
          `${runId} closed, but its child ${row.id}, which should be terminated with it, is ${row.status}`,
        );
    }
  }
  /** `isCanceled`: an earlier turn has consumed a cancellation. */
  claimed({ run, inbox }: ClaimedRun, isCanceled: boolean): void {
    this.#heard(run, isCanceled || inbox.some(({ job }) => job.type === "cancel"), "was claimed");
  }
  /** A run that only a message can wake must not miss one. */
  parked(after: RunRow, isCanceled: boolean): void {
    if (after.availableAt === undefined) this.#heard(after, isCanceled, "sleeps");
  }
  #heard({ id, parent }: RunRow, hasHeard: boolean, what: string): void {
    const owed = this.#owed.get(id);
    if (owed === undefined) return;
    if (!hasHeard && parent?.runId === owed.parent)
      this.#world.violate("children", owed.rule, `${id} ${what} without a cancellation, although its parent ${owed.parent} ${owed.why}`);
    this.#owed.delete(id);
  }
  /** P10: the next execution keeps the deadline of the run. */
  continued(before: RunRow | undefined, after: RunRow | undefined): void {
    if (before === undefined || after === undefined || after.execution === before.execution) return;
    if (before.deadlineAt !== after.deadlineAt)
      this.#world.violate(
        "deadlines",
        "P10",
        `${after.id} has deadline ${before.deadlineAt}, but its next execution has ${after.deadlineAt}`,
      );
  }
  /** K7: after the store has expired deadlines, no open run is past its own. */
  expired(rows: readonly (RunRow | undefined)[]): void {
    for (const row of rows) {
      if (row?.deadlineAt === undefined || row.deadlineAt > this.#world.now || CLOSED.has(row.status)) continue;
      if (!this.#withRollbacks.has(row.id))
        this.#world.violate(
          "deadlines",
          "K7",
          `${row.id} is still ${row.status} ${this.#world.now - row.deadlineAt} ms after its deadline, although the store has expired deadlines`,
        );
    }
  }
  /** K7: when the deadline of a run with rollbacks expires, which happens once, its worker loses the run. */
  struck(before: RunRow | undefined, after: RunRow | undefined): void {
    if (before?.deadlineAt === undefined || after === undefined || before.deadlineAt > this.#world.now || this.#struck.has(before.id))
      return;
    this.#struck.add(before.id);
    if (!CLOSED.has(after.status) && before.status !== "rolling_back" && after.epoch === before.epoch)
      this.#world.violate("deadlines", "K7", `${after.id} is still at epoch ${after.epoch} although its deadline has expired`);
  }
  /** The deadline expired outside of `expire`: a claim found the run late, or its next attempt would have been too late. */
  struckAlready(runId: string): void {
    this.#struck.add(runId);
  }
  /** K9: a run without a first turn is cancelled at once, without a worker. */
  canceled({ job }: NewMessage, before: RunRow | undefined, after: RunRow | undefined): void {
    if (job.type !== "cancel" || before === undefined || after === undefined) return;
    if (before.status === "pending" && before.turns === 0 && before.workerId === undefined && !CLOSED.has(after.status))
      this.#world.violate("cancellation", "K9", `${after.id} was cancelled before its first turn, but is ${after.status}`);
  }
}
