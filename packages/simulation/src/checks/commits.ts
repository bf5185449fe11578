// What the store must look like once something was written: the oracles of one commit.
// Owns: who is whose child, as it was created, and who has to hear of a cancellation.
// Invariants: D2 (state, status, wake-up and the fate of children come with the commit, not after it), C7, K6, K7, K9, P10.

import type { ClaimedRun, NewMessage, NewRun, ParentLink, RunRow, Store, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";
import { CLOSED } from "./seenRuns.ts";

export class CommitChecks {
  readonly #world: World;
  readonly #inner: Store;
  /** By their parent, with how they belong to it. */
  readonly #children = new Map<string, Map<string, ParentLink>>();
  /** Children that are asked to cancel, with the rule and the reason: their next claim has it in its inbox. */
  readonly #owed = new Map<string, { readonly parent: string; readonly rule: "C7" | "K6"; readonly why: string }>();
  /** Runs with rollbacks, which a deadline does not end at once. */
  readonly #withRollbacks = new Set<string>();
  /** Runs whose deadline was looked at when it had passed. */
  readonly #struck = new Set<string>();
  /** Some run has one: most worlds have none, and look for them all the time. */
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

  /** `after`: the run as it is now, if no later commit has written it. */
  committed(commit: TurnCommit, after: RunRow | undefined): void {
    const { runId, close, lease, wakeAt, state } = commit;
    if ((commit.rollbacks ?? 0) > 0) this.#withRollbacks.add(runId);
    for (const child of commit.children ?? []) this.born(child);
    for (const command of commit.turn?.commands ?? []) if (command.type === "cancel") this.#gaveUp(commit, command.seq);
    if (after === undefined) return;
    const broken = (message: string): void => this.#world.violate("one commit", "D2", `${runId} ${message}`);
    if (state !== undefined && JSON.stringify(after.state) !== JSON.stringify(state)) broken("published a state that is not there");
    if (close !== undefined && close.status !== "continued" && after.status !== close.status)
      broken(`was ${close.status} by its commit, and is ${after.status}`);
    if (lease !== "park" || wakeAt === undefined || CLOSED.has(after.status)) return; // by its parent, in the same transaction
    if ((after.availableAt ?? Number.POSITIVE_INFINITY) > Math.max(wakeAt, this.#world.now))
      broken(`is to be available at ${wakeAt}, and is at ${after.availableAt}`);
  }
  #gaveUp({ runId, execution }: TurnCommit, seq: number): void {
    for (const [id, link] of this.#children.get(runId) ?? [])
      if (link.execution === execution && link.seq === seq) this.#owed.set(id, { parent: runId, rule: "C7", why: "has given it up" });
  }
  /** K6: whoever is to be terminated with a run is, in the same commit; whoever is to be canceled has to hear of it. */
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
          `${runId} closed, and its child ${row.id}, which is to be terminated with it, is ${row.status}`,
        );
    }
  }
  /** `isCanceled`: it has taken a cancellation before. */
  claimed({ run, inbox }: ClaimedRun, isCanceled: boolean): void {
    this.#heard(run, isCanceled || inbox.some(({ job }) => job.type === "cancel"), "is given to a worker");
  }
  /** Only a message wakes it: then none may be missing. */
  parked(after: RunRow, isCanceled: boolean): void {
    if (after.availableAt === undefined) this.#heard(after, isCanceled, "sleeps");
  }
  #heard({ id, parent }: RunRow, hasHeard: boolean, what: string): void {
    const owed = this.#owed.get(id);
    if (owed === undefined) return;
    if (!hasHeard && parent?.runId === owed.parent)
      this.#world.violate("children", owed.rule, `${id} ${what}, and has not heard that its parent ${owed.parent} ${owed.why}`);
    this.#owed.delete(id);
  }
  /** P10: the next execution has the deadline of the run. */
  continued(before: RunRow | undefined, after: RunRow | undefined): void {
    if (before === undefined || after === undefined || after.execution === before.execution) return;
    if (before.deadlineAt !== after.deadlineAt)
      this.#world.violate(
        "deadlines",
        "P10",
        `${after.id} has to end by ${before.deadlineAt}, and as its next execution by ${after.deadlineAt}`,
      );
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
  /** K7: whoever works on a run that is to be rolled back loses it when its deadline strikes, which is once. */
  struck(before: RunRow | undefined, after: RunRow | undefined): void {
    if (before?.deadlineAt === undefined || after === undefined || before.deadlineAt > this.#world.now || this.#struck.has(before.id))
      return;
    this.#struck.add(before.id);
    if (!CLOSED.has(after.status) && before.status !== "rolling_back" && after.epoch === before.epoch)
      this.#world.violate("deadlines", "K7", `${after.id} is at epoch ${after.epoch} as before, and its deadline has struck`);
  }
  /** It has struck beside a look at deadlines: a claim found it late, or an attempt would have come too late. */
  struckAlready(runId: string): void {
    this.#struck.add(runId);
  }
  /** K9: a run without a first turn is canceled at once, without a worker. */
  canceled({ job }: NewMessage, before: RunRow | undefined, after: RunRow | undefined): void {
    if (job.type !== "cancel" || before === undefined || after === undefined) return;
    if (before.status === "pending" && before.turns === 0 && before.workerId === undefined && !CLOSED.has(after.status))
      this.#world.violate("cancellation", "K9", `${after.id} had no first turn, was canceled, and is ${after.status}`);
  }
}
