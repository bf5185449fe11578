// The driver of one run: from jobs to commits and back.
// Owns: the pipeline of one run (inbox → jobs → activation → commit → effects → jobs), and the end of a claim. The run in memory is in
// loadedRun.ts.
// Invariants: D1 (effects after the commit), D2 (one commit per turn), D4 (a stale epoch ends it), D5 (parks only when no step is in
// flight), D9 (parks with what it has seen; undoes an end if messages came before it), V4 (blocked), W4 (stopping).

import { type Activation, type AnyWorkflow, type Completion, DeadlineExceededError, HoldfastError, type Job } from "@holdfast/core";
import { startJobOf } from "@holdfast/host";
import { type OpenOperations, type Prepared, resumedView, retryRunAtOf } from "@holdfast/host/attempts";
import { isRefusal } from "../store/errors.ts";
import type { ClaimedRun, CommitResult, InboxMessage, RunRow, TurnCommit } from "../store/port.ts";
import { block } from "./blocking.ts";
import type { ClaimEnd, DriverHost } from "./driverHost.ts";
import { isMixed, type JobQueue, type TurnJobs } from "./jobQueue.ts";
import { type Draft, lengthAfterTrims, openedSteps, STEPS } from "./journal.ts";
import { addNotBegun, type EndingClaim, returnLease } from "./leaseReturn.ts";
import { LoadedRun } from "./loadedRun.ts";
import type { RunInbox } from "./runInbox.ts";
import { NOTHING_STARTING, noteSetback, uncertainAttemptsOf } from "./setbacks.ts";

/** Jobs that wake a run even while it waits to be retried as a whole. */
const WAKES_RETRY: ReadonlySet<string> = new Set(["cancel", "expire", "resume", "fork"]);
/** The abort reason of steps that are still running when their run has ended. Shared, because errors are expensive to create. */
const RUN_OVER = new HoldfastError("The run has ended.", { code: "HF_RUN_OVER" });
/** M8: the abort reason of steps whose run is replayed without an update. */
const REJECTED_MEANWHILE = new HoldfastError("An update was rejected while the run was accepting it: the turn is undone.", {
  code: "HF_CLAIM_LOST",
});
/** How long a run whose deadline seems to have passed is not claimed again: the store checks it meanwhile. Milliseconds. */
const DEADLINE_PAUSE = 100;
const NO_JOBS: TurnJobs = { jobs: [], messages: [] };

/**
 * What a driver does with its run. In every phase the claim may be lost or given back, which ends in `released`; other changes:
 *   unborn      computes the first turn of a run that the store does not know yet → committing
 *   recovering  after a claim, or after a turn was undone: replays history and reads the inbox → idle, committing
 *   idle        the next job, commit of attempts or parking can begin → computing, committing
 *   computing   a turn waits for the executor or runs in it → committing, recovering (D9)
 *   committing  a commit is under way → idle, recovering (D9)
 *   released    has no claim: the driver is discarded, or waits in the cache for the next claim → recovering
 */
type Phase = "unborn" | "recovering" | "idle" | "computing" | "committing" | "released";

export class RunDriver {
  /** When the call was made that leased the run or renewed its lease last: the lease began no earlier. */
  leasedAt = 0;
  readonly #host: DriverHost;
  readonly #loaded: LoadedRun;
  readonly #operations: OpenOperations;
  readonly #queue: JobQueue;
  readonly #inbox: RunInbox;
  #phase: Phase = "recovering";
  /** W4: whether its worker stops. "leaves work": it has left work that other workers can do at once. */
  #stopping: "no" | "yes" | "leaves work" = "no";

  constructor(workflow: AnyWorkflow, run: RunRow, host: DriverHost) {
    this.#host = host;
    this.#loaded = new LoadedRun(workflow, run, host, () => this.#changed());
    this.#operations = this.#loaded.operations;
    this.#queue = this.#loaded.queue;
    this.#inbox = this.#loaded.inbox;
  }

  get runId(): string {
    return this.#loaded.runId;
  }
  get execution(): number {
    return this.#loaded.run.execution;
  }
  get epoch(): number {
    return this.#loaded.epoch;
  }
  get seen(): number {
    return this.#inbox.seen;
  }
  /** True while it does something that continues without a message or a timer. */
  get busy(): boolean {
    return isWorking(this.#phase) || this.#inbox.isDelivering || !this.#queue.isEmpty;
  }
  /** Checked after each await: the claim may have ended meanwhile. */
  get #isReleased(): boolean {
    return this.#phase === "released";
  }
  /** The steps that are running. */
  get running(): string[] {
    return [...this.#operations.running].map(({ seq, number }) => `${this.runId}/${seq}/${number}`);
  }
  /** Whether the run exists in the store. */
  get isCreated(): boolean {
    return this.#phase !== "unborn";
  }
  /** Of its execution: another run may have had the same id before (B4). */
  get seed(): string {
    return this.#loaded.run.seed;
  }
  /** The number of turns in memory, for a claim that needs no history. */
  get turns(): number {
    return this.#loaded.turns;
  }

  // ── beginning ──

  /** The first turn of a run that does not exist yet; undefined if the worker stops before it is computed. V4: if it breaks a rule, the run is created blocked, and the turn is not computed again. */
  async firstTurn(jobs: readonly Job[]): Promise<TurnCommit | undefined> {
    this.#phase = "unborn";
    const activation: Activation = { time: this.#host.now(), jobs: [startJobOf(this.#loaded.run), ...jobs], historyLength: 0 };
    const compute = async () => (this.#isReleased ? undefined : this.#loaded.executor.activate(activation));
    const completion = await this.#host.turnQueue.run(compute);
    if (completion === undefined) return undefined;
    if (completion.status !== "ok") return this.#blocked(completion.error);
    const draft = this.#loaded.turnDraft(activation, completion);
    draft.lateIf = undefined; // D9: a run that does not exist yet has no messages in the store
    return draft;
  }
  /** The run exists, and its lease can be renewed. It continues with `begun`. */
  created(): void {
    if (this.#phase === "unborn") this.#phase = "committing";
  }
  /** The run was created with its first turn, and its lease is certain. */
  begun(commit: TurnCommit): void {
    if (this.#isReleased) {
      // W4: its worker has stopped meanwhile.
      this.#notBegun(commit);
      return void this.#returnLease();
    }
    this.#phase = "idle";
    const historyLength = lengthAfterTrims(commit.turn);
    this.#committed(commit, { status: "committed", inbox: [], ...(historyLength !== undefined && { historyLength }) });
  }

  /** A claim begins: replays the history if necessary, then continues with the jobs that are there. */
  async claimed(claim: ClaimedRun): Promise<void> {
    this.#phase = "recovering"; // messages that arrive meanwhile wait
    this.#loaded.claimed(claim);
    if (claim.recovered && claim.run.recoveries > this.#host.maxRecoveries) {
      const message = `Run ${this.runId} was recovered ${claim.run.recoveries} times without a commit: it seems to crash its workers. Fix the cause, then resume the run.`;
      return this.#block(new HoldfastError(message, { code: "HF_TOO_MANY_RECOVERIES" }));
    }
    const retryRunAt = retryRunAtOf(claim.turns ?? [], claim.run.deadlineAt);
    if (retryRunAt !== undefined && retryRunAt > this.#host.now() && !claim.inbox.some(({ job }) => WAKES_RETRY.has(job.type))) {
      this.#loaded.waitToRetry(retryRunAt, claim);
      return this.#write(this.#loaded.bareDraft("sleeping"));
    }
    const resume = claim.inbox.find(({ job }) => job.type === "resume");
    // Before anything that arrives during recovery: a cancellation before the start would be lost.
    if (claim.run.turns === 0) this.#queue.push(startJobOf(this.#loaded.run));
    if (claim.turns === undefined) this.#loaded.recount(claim);
    else if (claim.run.turns > 0) {
      const failure = await this.#loaded.recover(claim, resume !== undefined, () => this.#isReleased);
      if (this.#isReleased) return;
      if (failure !== undefined) return this.#block(failure);
    }
    await this.#inbox.deliver(claim.inbox);
    if (this.#isReleased) return;
    this.#phase = "idle";
    this.#loaded.collect();
    if (this.#queue.isEmpty && this.#loaded.executor.hasWork && !this.#loaded.isOverdue) return this.#activate();
    this.#pump();
  }

  /** Returns the lease of a claim that is not taken up. */
  decline(claim: ClaimedRun): Promise<void> {
    this.#loaded.claimed(claim);
    return this.giveBack();
  }

  // ── jobs ──

  async receive(messages: readonly InboxMessage[]): Promise<void> {
    await this.#inbox.deliver(messages);
    this.#pump();
  }
  #changed(): void {
    this.#loaded.collectReady();
    this.#pump();
  }
  #arm(): void {
    if (!this.#isReleased) this.#operations.arm();
  }

  // ── the pipeline ──

  /** Begins the next turn, commit of attempts or parking, if there is one. */
  #pump(): void {
    if (this.#phase !== "idle" || this.#inbox.isDelivering) return;
    if (this.#stopping !== "no" && this.#operations.inFlight > 0) return; // W4: they may finish first
    if (this.#loaded.isOverdue) this.#leaveToDeadline(undefined);
    else if (!this.#queue.isEmpty) this.#activate();
    else if (this.#operations.hasNews) this.#write(this.#loaded.bareDraft("running"));
    else if (this.#operations.inFlight === 0) this.#write(this.#loaded.bareDraft("sleeping"));
  }
  #activate(): void {
    this.#phase = "computing";
    this.#host.computing++;
    this.#host.turnQueue.enter(this.#turn);
  }
  /** Callbacks instead of an async function, which would keep more in memory for each of many runs. */
  readonly #turn = (): void => {
    if (this.#isReleased) {
      this.#host.computing--;
      return;
    }
    const turn = this.#queue.take();
    const activation = this.#loaded.activationOf(turn.jobs);
    void this.#loaded.executor.activate(activation).then((completion) =>
      this.#host.turnQueue.leave(() => {
        this.#host.computing--;
        this.#computed(activation, completion, turn);
      }),
    );
  };
  #computed(activation: Activation, completion: Completion, turn: TurnJobs): void {
    if (this.#isReleased) return;
    if (completion.status === "failed") return void this.#block(completion.error);
    this.#loaded.executor.reportUnheard();
    const draft = this.#loaded.turnDraft(activation, completion);
    if (turn.messages.length > 0) this.#inbox.consume(draft, turn, completion);
    // D9: a timer or an outcome was delivered before a signal that the run waits for.
    if (draft.close !== undefined && completion.overtaken !== undefined && isMixed(turn)) void this.#undo(draft, turn, []);
    else this.#write(draft, turn);
  }

  /** `turn`: the jobs of the turn, if the commit has one. */
  #write(draft: Draft, turn?: TurnJobs): void {
    this.#phase = "committing";
    const isOver = draft.close !== undefined;
    const halting = this.#stopping !== "no" && this.#operations.inFlight === 0;
    const leaves = halting && !isOver;
    const fresh = openedSteps(draft);
    if (leaves) this.#operations.notBegun(fresh.map(({ seq }) => seq));
    const { rows, starting } = this.#operations.prepare(draft.turn?.jobs ?? NO_JOBS.jobs, halting || isOver ? "leave" : "begin");
    if (rows.length > 0) draft.attempts = rows;
    this.#loaded.collectReady(); // steps that have no attempt left
    const working =
      fresh.length > 0 ||
      starting.length > 0 ||
      this.#operations.hasRetriesDue || // W4: when halting, other workers make them at once
      this.#operations.inFlight > 0 ||
      !this.#queue.isEmpty ||
      this.#inbox.isDelivering;
    if (leaves && working) this.#stopping = "leaves work";
    // D6: outcomes that exist only in memory are recorded first.
    const parks = (halting && !this.#queue.hasOutcomes) || !working || this.#loaded.retryRunAt !== undefined;
    if (!isOver && parks) {
      draft.lease = "park";
      draft.status = draft.status === "rolling_back" ? "rolling_back" : "sleeping";
      draft.waitingFor = this.#loaded.waitingFor();
      draft.wakeAt = this.#loaded.retryRunAt ?? (this.#stopping === "leaves work" ? 0 : this.#operations.nextDue);
    }
    draft.seen = this.#inbox.seen;
    this.#host.commit(
      draft,
      (result) => this.#commitAnswered(draft, turn, starting, result),
      (error) => this.#commitFailed(error, draft, starting),
    );
  }
  #commitAnswered(draft: Draft, turn: TurnJobs | undefined, starting: Prepared["starting"], result: CommitResult): void {
    if (this.#isReleased) return; // given back or lost meanwhile: none of its steps begins here
    if (result.status === "late") return void this.#undo(draft, turn ?? NO_JOBS, result.inbox);
    this.#phase = "idle";
    if (result.status === "committed" && !this.#loaded.isOverdue)
      for (const { seq, number } of starting) this.#operations.begin(seq, number);
    this.#committed(draft, result);
  }
  /**
   * D9: the run has not ended, because messages that it waits for were acknowledged before the end. Nothing of the turn was written. The run
   * continues from the turn before it, with those messages first. Steps in flight keep running, and no step runs again.
   */
  async #undo(draft: Draft, turn: TurnJobs, late: readonly InboxMessage[]): Promise<void> {
    this.#phase = "recovering"; // messages that arrive meanwhile wait
    this.#operations.takeBack(draft.attempts ?? [], turn.jobs);
    this.#loaded.evict();
    const resume = turn.jobs.find((job) => job.type === "resume");
    try {
      await this.#inbox.deliver(late);
      const turns = await this.#host.history(this.runId);
      const failure = this.#isReleased ? undefined : await this.#loaded.replay(resumedView(turns, resume), () => this.#isReleased);
      if (this.#isReleased) return;
      if (failure !== undefined) return void this.#block(failure);
    } catch (error) {
      return this.#isReleased ? undefined : this.#commitFailed(error);
    }
    this.#queue.takeBack(turn);
    this.#phase = "idle";
    this.#loaded.collect();
    this.#arm();
    this.#pump();
  }
  /** `uncertain`: the commit, which may have been written in spite of the error. `starting`: attempts that it announces. */
  #commitFailed(error: unknown, uncertain?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): void {
    // V4: the store would refuse this turn again. The run loses nothing; the cause of the refusal has to be fixed.
    if (isRefusal(error)) return void this.#block(error, "the store to accept its writes");
    void this.#backOff(error, uncertain, starting); // before the logger, which may throw
    this.#host.logger.error("A commit failed; the run is released and retried later.", { runId: this.runId, error });
  }

  /** After the commit: effects (D1). */
  #committed(commit: TurnCommit, result: Exclude<CommitResult, { status: "late" }>): void {
    // M8: an update that this turn accepts may have been rejected meanwhile. Then the claim is still held, and the run is replayed without it.
    if (result.status === "stale" && commit.accepts !== undefined) return void this.#release(REJECTED_MEANWHILE, 0, 0);
    if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));
    const { turn } = commit;
    if (turn !== undefined) this.#loaded.turnWritten(turn, result.historyLength);
    if (commit.close !== undefined) {
      this.#endClaim("closed", RUN_OVER);
      const { status, error } = commit.close;
      if (status === "failed") this.#host.logger.warn("A run failed.", { runId: this.runId, workflow: this.#loaded.workflow.name, error });
      return;
    }
    if (commit.blocked !== undefined) return this.#endClaim("blocked", undefined);
    // D10: a retry of the run begins with a replay without what failed, so this executor is discarded.
    if (commit.lease === "park") return this.#endClaim(this.#loaded.retryRunAt === undefined ? "parked" : "closed", undefined);
    if (this.#loaded.retryRunAt !== undefined) return this.#write(this.#loaded.bareDraft("sleeping"));
    if (this.#loaded.isOverdue) return this.#leaveToDeadline(commit);
    for (const command of turn?.commands ?? []) {
      if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
      else if ("n" in command && STEPS.has(command.type) && this.#stopping !== "leaves work") this.#operations.begin(command.seq, 1);
    }
    if (result.inbox.length > 0) void this.receive(result.inbox);
    this.#loaded.collect();
    this.#arm();
    this.#pump();
  }

  /** C7: aborts the steps in flight that this turn cancels. Not delayed, although the steps that it begins have to wait. */
  cancelSteps({ turn }: TurnCommit): void {
    for (const command of turn?.commands ?? []) if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
  }

  #notBegun(commit: TurnCommit | undefined): void {
    this.#operations.notBegun(openedSteps(commit).map(({ seq }) => seq));
  }
  /** K7: the store decides by its clock: it ends the run, or lets it be claimed again. None of the steps of `turn` has begun. */
  #leaveToDeadline(turn: TurnCommit | undefined): void {
    this.#notBegun(turn);
    const reason = new DeadlineExceededError({ runId: this.runId, deadline: this.#loaded.run.deadlineAt ?? 0 });
    const released = this.#release(reason, this.#host.now() + DEADLINE_PAUSE, this.#inbox.seen);
    this.#host.waitBeforeStop(released.then(() => this.#host.checkDeadlines()));
  }

  // ── the end of a claim ──

  /** V4: the run loses nothing. It is retried later, or by a worker with other code. */
  async #block(error: Error, remedy?: string): Promise<void> {
    if (this.#isReleased) return;
    this.#phase = "committing"; // so that it is not parked meanwhile: its timers are not set
    await returnLease(this.#endingClaim, this.#blocked(error, remedy));
    this.#endClaim("blocked", error);
  }
  #blocked(error: Error, remedy?: string): Draft {
    return block(this.#loaded.bareDraft("blocked"), this.#loaded.workflow, error, this.#host, remedy);
  }
  /** D4: the claim was lost: aborts the steps, and writes nothing more. */
  lose(reason: unknown): void {
    this.#endClaim("lost", reason);
  }
  /** D6: a transaction of this claim may or may not have committed. Once the run is released it no longer can, and the next claim finds out. */
  outcomeUnknown(epoch: number, reason: unknown): void {
    if (epoch === this.epoch) void this.#backOff(reason);
  }
  /** W4: no further turn begins once its steps have ended. */
  stop(): void {
    if (this.#stopping === "no") this.#stopping = "yes";
    this.#pump();
  }
  /** W4: the grace period is over: aborts the steps and ends the lease, so that other workers continue at once. None of the steps of `turn` has begun. */
  async giveBack(turn?: TurnCommit): Promise<void> {
    this.#notBegun(turn);
    await this.#release(new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" }), 0, 0);
  }
  /** A commit failed. Other workers can claim the run after a pause: they may not be able to write it either. */
  async #backOff(reason: unknown, uncertain?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): Promise<void> {
    const attempts = uncertainAttemptsOf(this.#loaded.run, uncertain, starting);
    const pause = noteSetback(this.#host.blocked, this.runId, attempts, this.#host.environment);
    await this.#release(reason, this.#host.now() + pause, this.#inbox.seen, uncertain);
  }
  /** The answer was lost: the run may or may not have been created with this first turn. If it was, it is released. */
  async creationUnknown(reason: unknown, first: TurnCommit): Promise<void> {
    const { blocked } = this.#host;
    blocked.set(this.runId, { times: 0, uncertain: uncertainAttemptsOf(this.#loaded.run, first, NOTHING_STARTING) });
    this.#endClaim("lost", reason);
    const draft = this.#parking(0, 0);
    const found = await addNotBegun(this.#endingClaim, draft, first).catch(() => "not known");
    if (found === "not written") blocked.delete(this.runId);
    if (found === "written") await returnLease(this.#endingClaim, draft); // D4: otherwise the id may belong to the run of another process
  }
  /** Ends the claim and returns the lease. Workers can claim the run from `wakeAt` on. */
  async #release(reason: unknown, wakeAt: number, seen: number, uncertain?: TurnCommit): Promise<void> {
    if (this.#isReleased) return;
    this.#operations.loseAll(reason);
    const returned = this.#phase === "unborn" ? undefined : this.#returnLease(wakeAt, seen, uncertain);
    this.#endClaim("lost", reason);
    await returned;
  }
  get #endingClaim(): EndingClaim {
    return { host: this.#host, run: this.#loaded.run, operations: this.#operations };
  }
  #returnLease(wakeAt = 0, seen = 0, uncertain?: TurnCommit): Promise<void> {
    return returnLease(this.#endingClaim, this.#parking(wakeAt, seen), uncertain);
  }
  #parking(wakeAt: number, seen: number): Draft {
    const draft = this.#loaded.bareDraft("sleeping");
    draft.attempts = this.#operations.prepare(NO_JOBS.jobs, "leave").rows;
    draft.lease = "park";
    draft.wakeAt = wakeAt;
    draft.seen = seen;
    return draft;
  }
  #endClaim(how: ClaimEnd, reason: unknown): void {
    if (this.#isReleased) return;
    this.#phase = "released";
    this.#operations.disarm();
    this.#operations.abandonAll(reason);
    if (how !== "parked") this.#loaded.evict();
    this.#host.released(this, how);
  }
  /** The cache discards it (W5). */
  evict(): void {
    this.#loaded.evict();
  }
}

/** Whether a driver in this phase does something that ends without a message or a timer. */
function isWorking(phase: Phase): boolean {
  switch (phase) {
    case "unborn":
    case "recovering":
    case "computing":
    case "committing":
      return true;
    case "idle":
    case "released":
      return false;
  }
}
