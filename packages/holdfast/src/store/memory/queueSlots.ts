// Slots of queues in memory: what each run holds, and what it needs.
// Owns: the limits and pauses, and the work that waits for slots.
// Invariants: Q1 (limits file open runs again), Q2 (a run needs no slot that an ancestor holds for it now), Q3 (an expired lease is held), Q7
// (what may be claimed from now on wakes workers).

import { type Ancestor, coveredBy, needsOf, QUEUE_SLOT, SLOTS } from "../filing/rules.ts";
import type { NewRun, WakeupKind } from "../port.ts";
import type { LimitsFor, StoredQueueSpec } from "../queuePort.ts";
import { QueueTable } from "./queueTable.ts";
import { isOpen, type KeptRun } from "./state.ts";
import { WorkQueue } from "./workQueue.ts";

export interface SlotsHost {
  find(runId: string): KeptRun | undefined;
  all(): Iterable<KeptRun>;
  childrenOf(runId: string): readonly KeptRun[];
  /** Q3: ends the lease of a run that its worker has lost. */
  endLease(run: KeptRun): void;
  /** Q1: files the activities of a queue again. */
  fileTasks(queue: string): void;
  wake(what: WakeupKind): void;
}

export class QueueSlots {
  readonly table = new QueueTable();
  readonly work = new WorkQueue<KeptRun>(this.table, {
    needs: (run, spec) => this.#needs(run, spec),
    holds: (run) => this.#holds(run),
    endLease: (run) => this.#host.endLease(run),
  });
  readonly #host: SlotsHost;

  constructor(host: SlotsHost) {
    this.#host = host;
  }

  /** Open runs that wait for it, or for one that waits for it. */
  *#ancestorsOf(link: NewRun["parent"]): Iterable<KeptRun> {
    for (let above = link; above !== undefined && above.parentClose !== "abandon"; ) {
      const run = this.#host.find(above.runId);
      if (run === undefined || !isOpen(run)) return;
      yield run;
      above = run.parent;
    }
  }

  /** Q2: a run has closed, is open again or has got slots: those below it may need other slots than before. */
  refileBelow(run: KeptRun): void {
    for (const child of this.#host.childrenOf(run.id)) {
      if (!isOpen(child) || child.parent?.parentClose === "abandon") continue;
      if (this.#countsOpen(child)) {
        this.work.put(child.queue, child.workflow, child.version, child);
        this.#host.wake("work");
      }
      this.refileBelow(child);
    }
  }

  #holds(run: KeptRun): number {
    if (!isOpen(run) || !this.work.isFiled(run)) return 0;
    if (this.#countsOpen(run)) return run.held;
    return run.workerId === undefined ? 0 : SLOTS;
  }
  #countsOpen({ queue }: KeptRun): boolean {
    return this.table.specOf(queue)?.counts === "open";
  }
  #needs(run: KeptRun, spec: StoredQueueSpec | undefined): number {
    const { workerId, startedAt, held } = run;
    const covered = spec?.counts === "open" ? coveredBy(this.#ancestorsOf(run.parent), run) : 0;
    return needsOf({ isLeased: workerId !== undefined, isBegun: startedAt !== undefined, held, covered }, spec);
  }
  limitsFor(run: KeptRun, now: number): LimitsFor {
    return this.work.limitsFor(run.queue, run.key, this.#needs(run, this.table.specOf(run.queue)), now);
  }
  /** It takes one of the queue's slots. In a plain queue: a worker has it. */
  isHeld(run: KeptRun): boolean {
    return this.work.isFiled(run) ? (this.#holds(run) & QUEUE_SLOT) !== 0 : run.workerId !== undefined;
  }
  /** A claim of it takes what it needs. */
  take(run: KeptRun): void {
    if (!this.#countsOpen(run)) return;
    const needed = SLOTS & ~run.held & ~coveredBy(this.#ancestorsOf(run.parent), run);
    if (needed === 0) return;
    run.held |= needed;
    this.refileBelow(run);
  }
  setSpec(queue: string, spec: StoredQueueSpec | undefined): void {
    const before = this.table.specOf(queue);
    this.table.set(queue, spec);
    const isSame = before !== undefined && spec !== undefined && (before.counts ?? "running") === (spec.counts ?? "running");
    if (!isSame) this.#fileAnew(queue);
    else if ((before.rate === undefined) !== (spec.rate === undefined)) this.#putAnew(queue); // Q5: starts are shared in another way
    this.#host.wake("work");
    this.#host.wake("tasks");
  }
  /** Q7: workers that wait for a slot claim again. */
  freed(run: KeptRun): void {
    if (this.work.isFiled(run)) this.#host.wake("work");
  }
  /** Q1: the queue has got its limits, or lost them, or counts otherwise. */
  #fileAnew(queue: string): void {
    const spec = this.table.specOf(queue);
    this.work.fileAnew(queue);
    for (const run of this.#openIn(queue)) {
      run.held = spec?.counts === "open" && run.startedAt !== undefined ? SLOTS & ~coveredBy(this.#begunAbove(run), run) : 0;
      this.work.put(queue, run.workflow, run.version, run);
      if (this.#holds(run) !== 0) this.work.hold(queue, run);
    }
    this.#host.fileTasks(queue);
  }
  #putAnew(queue: string): void {
    this.work.fileAnew(queue);
    for (const run of this.#openIn(queue)) this.work.put(queue, run.workflow, run.version, run);
  }
  *#openIn(queue: string): Iterable<KeptRun> {
    for (const run of this.#host.all()) if (run.queue === queue && isOpen(run)) yield run;
  }

  /** Where the highest run that has begun holds a slot, those below it need none. */
  *#begunAbove({ parent }: KeptRun): Iterable<Ancestor> {
    for (const { queue, key, startedAt } of this.#ancestorsOf(parent)) if (startedAt !== undefined) yield { queue, key, held: SLOTS };
  }
}
