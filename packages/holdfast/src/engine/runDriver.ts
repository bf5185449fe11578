// The driver of one run: the way from jobs to commits and back.
// Owns: the pipeline of one run: inbox → jobs → activation → commit → effects → jobs, and the end of a claim. What of the run is in memory
// is in loadedRun.ts.
// Invariants: D1 (effects after the commit), D2 (one commit a turn), D4 (a stale epoch ends it), D5 (parks only when no step is in
// flight), D9 (parks with what it has seen; takes back an end that messages came before), V4 (blocked), W4 (stopping).

import { type Activation, type AnyWorkflow, type Completion, DeadlineExceededError, HoldfastError, type Job } from "@holdfast/core";
import { startJobOf } from "@holdfast/host";
import { type OpenOperations, type Prepared, resumedView, retryRunAtOf } from "@holdfast/host/attempts";
import { block } from "../host/blocking.ts";
import { isMixed, type JobQueue, type TurnJobs } from "../host/jobs.ts";
import { type Draft, lengthAfterTrims, openedSteps, STEPS } from "../host/journal.ts";
import { isRefusal } from "../store/errors.ts";
import type { ClaimedRun, CommitResult, InboxMessage, RunRow, TurnCommit } from "../store/port.ts";
import type { ClaimEnd, DriverHost } from "./driverHost.ts";
import { addNotBegun, type EndingClaim, returnLease } from "./leaseReturn.ts";
import { LoadedRun } from "./loadedRun.ts";
import type { RunInbox } from "./runInbox.ts";
import { NOTHING_STARTING, noteSetback, unsureAttemptsOf } from "./setbacks.ts";

/** Jobs that a run takes at once, also while it waits to be tried again. */
const OVERRULING: ReadonlySet<string> = new Set(["cancel", "expire", "resume"]);
/** The reason of steps that are still running when their run has ended; one for all, an error is expensive to make. */
const RUN_OVER = new HoldfastError("The run is over.", { code: "HF_RUN_OVER" });
/** M8: the reason of steps whose run is replayed without an update. */
const REJECTED_MEANWHILE = new HoldfastError("An update was rejected as the run accepted it: the turn is undone.", {
  code: "HF_CLAIM_LOST",
});
/** Until a run whose deadline seems to have passed may be claimed again: by then the store has looked. */
const DEADLINE_PAUSE = 100;
const NO_JOBS: TurnJobs = { jobs: [], messages: [] };

/**
 * What a driver does with its run. From every phase the claim may be lost or given back, which ends in `released`; besides that:
 *   unborn      computes the first turn of a run that the store does not know yet → committing
 *   recovering  takes up a claim, or a turn was taken back: replays history and reads the inbox → idle, committing
 *   idle        the next job, commit of attempts or parking can begin → computing, committing
 *   computing   a turn waits for the executor or is in it → committing, recovering (D9)
 *   committing  a commit is under way → idle, recovering (D9)
 *   released    has no claim: it is over, or waits in the cache for the next one → recovering
 */
type Phase = "unborn" | "recovering" | "idle" | "computing" | "committing" | "released";

export class RunDriver {
  /** When the call was made that gave it its lease, or renewed it last: the lease runs no shorter than from there. */
  leasedAt = 0;
  readonly #host: DriverHost;
  readonly #loaded: LoadedRun;
  readonly #operations: OpenOperations;
  readonly #queue: JobQueue;
  readonly #inbox: RunInbox;
  #phase: Phase = "recovering";
  /** W4: its worker stops. `leaves work`: it has left something to others that they can do at once. */
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
  /** Does anything go on without a message or a timer? */
  get busy(): boolean {
    return isWorking(this.#phase) || this.#inbox.isDelivering || !this.#queue.isEmpty;
  }
  /** Asked anew after each wait: the claim may have ended meanwhile. */
  get #isReleased(): boolean {
    return this.#phase === "released";
  }
  /** Steps that run. */
  get running(): string[] {
    return [...this.#operations.running].map(({ seq, number }) => `${this.runId}/${seq}/${number}`);
  }
  /** Does the store know of this claim? */
  get isBorn(): boolean {
    return this.#phase !== "unborn";
  }
  /** Turns that are in memory, for a claim that needs no history. */
  get turns(): number {
    return this.#loaded.turns;
  }

  // ── beginning ──

  /** The first turn of a run that does not exist yet. V4: one that breaks a rule creates the run blocked, it is not computed again. */
  async firstTurn(jobs: readonly Job[]): Promise<TurnCommit> {
    this.#phase = "unborn";
    const activation: Activation = { time: this.#host.now(), jobs: [startJobOf(this.#loaded.run), ...jobs], historyLength: 0 };
    const completion = await this.#host.turnQueue.run(() => this.#loaded.executor.activate(activation));
    if (completion.status !== "ok") return this.#blocked(completion.error);
    const draft = this.#loaded.turnDraft(activation, completion);
    draft.lateIf = undefined; // D9: a run that does not exist has no message but its own
    return draft;
  }
  /** It exists, and has a lease that can be renewed; it goes on when it is told that it has begun. */
  born(): void {
    if (this.#phase === "unborn") this.#phase = "committing";
  }
  /** The run was created with its first turn. */
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

  /** A claim: replays if there is history to replay, then works off what is there. */
  async claimed(claim: ClaimedRun): Promise<void> {
    this.#phase = "recovering"; // what arrives meanwhile waits
    this.#loaded.claimed(claim);
    if (claim.recovered && claim.run.recoveries > this.#host.maxRecoveries) {
      const message = `Run ${this.runId} was recovered ${claim.run.recoveries} times without a commit: it seems to kill its workers. Mend it, then resume it.`;
      return this.#block(new HoldfastError(message, { code: "HF_TOO_MANY_RECOVERIES" }));
    }
    const retryRunAt = retryRunAtOf(claim.turns ?? [], claim.run.deadlineAt);
    if (retryRunAt !== undefined && retryRunAt > this.#host.now() && !claim.inbox.some(({ job }) => OVERRULING.has(job.type))) {
      this.#loaded.waitToRetry(retryRunAt, claim);
      return this.#write(this.#loaded.bareDraft("sleeping"));
    }
    const resume = claim.inbox.find(({ job }) => job.type === "resume");
    // Before anything that arrives while it recovers: a cancellation that overtook the start would be lost.
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

  /** Does the next thing, if there is one: a turn, a commit of attempts, or parking. */
  #pump(): void {
    if (this.#phase !== "idle" || this.#inbox.isDelivering) return;
    if (this.#stopping !== "no" && this.#operations.inFlight > 0) return; // W4: they may finish first
    if (this.#loaded.isOverdue) this.#standAside(undefined);
    else if (!this.#queue.isEmpty) this.#activate();
    else if (this.#operations.hasNews) this.#write(this.#loaded.bareDraft("running"));
    else if (this.#operations.inFlight === 0) this.#write(this.#loaded.bareDraft("sleeping"));
  }
  #activate(): void {
    this.#phase = "computing";
    this.#host.computing++;
    this.#host.turnQueue.enter(this.#turn);
  }
  /** Of the turns of many runs each costs little: no async function with all its variables, but callbacks. */
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
    // D9: a timer or an outcome of its own has overtaken a signal that a wait had asked for.
    if (draft.close !== undefined && completion.overtaken !== undefined && isMixed(turn)) void this.#takeBack(draft, turn, []);
    else this.#write(draft, turn);
  }

  /** `turn`: what it was computed from, if it is a turn's. */
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
      this.#operations.hasRetriesDue || // W4: halting, it leaves them to others, at once
      this.#operations.inFlight > 0 ||
      !this.#queue.isEmpty ||
      this.#inbox.isDelivering;
    if (leaves && working) this.#stopping = "leaves work";
    // D6: outcomes that are in memory alone are recorded first.
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
      (result) => this.#written(draft, turn, starting, result),
      (error) => this.#unwritten(error, draft, starting),
    );
  }
  #written(draft: Draft, turn: TurnJobs | undefined, starting: Prepared["starting"], result: CommitResult): void {
    if (this.#isReleased) return; // given back or lost meanwhile: no step of it is begun here
    if (result.status === "late") return void this.#takeBack(draft, turn ?? NO_JOBS, result.inbox);
    this.#phase = "idle";
    if (result.status === "committed" && !this.#loaded.isOverdue)
      for (const { seq, number } of starting) this.#operations.begin(seq, number);
    this.#committed(draft, result);
  }
  /**
   * D9: the run has not ended: messages were acknowledged before that the end should have waited for. Nothing of the turn was written. The
   * run goes on from the turn before it, with those messages first. Steps in flight run on, and no step runs again.
   */
  async #takeBack(draft: Draft, turn: TurnJobs, late: readonly InboxMessage[]): Promise<void> {
    this.#phase = "recovering"; // what arrives meanwhile waits
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
      return this.#isReleased ? undefined : this.#unwritten(error);
    }
    this.#queue.takeBack(turn);
    this.#phase = "idle";
    this.#loaded.collect();
    this.#arm();
    this.#pump();
  }
  /** `unsure`: it may have been written all the same; `starting`: attempts that it announces. */
  #unwritten(error: unknown, unsure?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): void {
    // V4: whoever computes this turn again has the same refused. The run is unharmed, and somebody has to mend what stands against it.
    if (isRefusal(error)) return void this.#block(error, "the store to take what it writes");
    void this.#setBack(error, unsure, starting); // whatever becomes of the message
    this.#host.logger.error("A commit failed; the run is given back.", { runId: this.runId, error });
  }

  /** After the commit: effects (D1). */
  #committed(commit: TurnCommit, result: Exclude<CommitResult, { status: "late" }>): void {
    // M8: or an update that this turn accepts was rejected meanwhile. Then the claim holds, and the run is to be replayed without it.
    if (result.status === "stale" && commit.accepts !== undefined) return void this.#handOver(REJECTED_MEANWHILE, 0, 0);
    if (result.status === "stale") return this.lose(new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" }));
    const { turn } = commit;
    if (turn !== undefined) this.#loaded.turnWritten(turn, result.historyLength);
    if (commit.close !== undefined) {
      this.#release("closed", RUN_OVER);
      const { status, error } = commit.close;
      if (status === "failed") this.#host.logger.warn("A run failed.", { runId: this.runId, workflow: this.#loaded.workflow.name, error });
      return;
    }
    if (commit.blocked !== undefined) return this.#release("blocked", undefined);
    // D10: a run that is to be tried again begins with a replay that leaves out what failed: this executor is of no more use.
    if (commit.lease === "park") return this.#release(this.#loaded.retryRunAt === undefined ? "parked" : "closed", undefined);
    if (this.#loaded.retryRunAt !== undefined) return this.#write(this.#loaded.bareDraft("sleeping"));
    if (this.#loaded.isOverdue) return this.#standAside(commit);
    for (const command of turn?.commands ?? []) {
      if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
      else if ("n" in command && STEPS.has(command.type) && this.#stopping !== "leaves work") this.#operations.begin(command.seq, 1);
    }
    if (result.inbox.length > 0) void this.receive(result.inbox);
    this.#loaded.collect();
    this.#arm();
    this.#pump();
  }

  /** C7: steps in flight that the turn has given up are told once it is committed, though its own have to wait. */
  giveUp({ turn }: TurnCommit): void {
    for (const command of turn?.commands ?? []) if (command.type === "cancel") this.#operations.cancel(command.seq, command.join === true);
  }

  #notBegun(commit: TurnCommit | undefined): void {
    this.#operations.notBegun(openedSteps(commit).map(({ seq }) => seq));
  }
  /** K7: the store decides, by its own clock: it ends the run, or hands it out once more. None of the steps of `turn` has begun. */
  #standAside(turn: TurnCommit | undefined): void {
    this.#notBegun(turn);
    const reason = new DeadlineExceededError({ runId: this.runId, deadline: this.#loaded.run.deadlineAt ?? 0 });
    const given = this.#handOver(reason, this.#host.now() + DEADLINE_PAUSE, this.#inbox.seen);
    this.#host.givesBack(given.then(() => this.#host.lookAtDeadlines()));
  }

  // ── the end of a claim ──

  /** V4: the run is unharmed; it is tried again later, or when other code comes. */
  async #block(error: Error, remedy?: string): Promise<void> {
    if (this.#isReleased) return;
    this.#phase = "committing"; // it is not parked meanwhile: its timers are not set
    await returnLease(this.#endingClaim, this.#blocked(error, remedy));
    this.#release("blocked", error);
  }
  #blocked(error: Error, remedy?: string): Draft {
    return block(this.#loaded.bareDraft("blocked"), this.#loaded.workflow, error, this.#host, remedy);
  }
  /** D4: somebody else has it. Its steps are told, nothing more is written. */
  lose(reason: unknown): void {
    this.#release("lost", reason);
  }
  /** D6: a transaction of this claim may have been carried out, and may not. From the give-back on it can't be, and the next claim finds out. */
  doubt(epoch: number, reason: unknown): void {
    if (epoch === this.epoch) void this.#setBack(reason);
  }
  /** W4: no more turns are begun once its steps have ended. */
  stop(): void {
    if (this.#stopping === "no") this.#stopping = "yes";
    this.#pump();
  }
  /** W4: the grace period is over: its steps are told, and its lease ends so that others resume at once. `turn`: none of its steps has begun. */
  async giveBack(turn?: TurnCommit): Promise<void> {
    this.#notBegun(turn);
    await this.#handOver(new HoldfastError("The worker is shutting down.", { code: "HF_SHUTDOWN" }), 0, 0);
  }
  /** A commit failed. The run is free for others after a while: what this worker could not write, they may not be able to either. */
  async #setBack(reason: unknown, unsure?: TurnCommit, starting: Prepared["starting"] = NOTHING_STARTING): Promise<void> {
    const attempts = unsureAttemptsOf(this.#loaded.run, unsure, starting);
    const pause = noteSetback(this.#host.blocked, this.runId, attempts, this.#host.environment);
    await this.#handOver(reason, this.#host.now() + pause, this.#inbox.seen, unsure);
  }
  /** Its run may have been created, with this first turn: the answer was lost. If so, it is given back, else it was none. */
  async notBorn(reason: unknown, first: TurnCommit): Promise<void> {
    const { blocked } = this.#host;
    blocked.set(this.runId, { times: 0, unsure: unsureAttemptsOf(this.#loaded.run, first, NOTHING_STARTING) });
    this.#release("lost", reason);
    const draft = this.#parking(0, 0);
    const found = await addNotBegun(this.#endingClaim, draft, first).catch(() => "not known");
    if (found === "not written") blocked.delete(this.runId);
    if (found === "written") await returnLease(this.#endingClaim, draft); // D4: otherwise there may be a run of others under its id
  }
  async #handOver(reason: unknown, wakeAt: number, seen: number, unsure?: TurnCommit): Promise<void> {
    if (this.#isReleased) return;
    this.#operations.loseAll(reason);
    const given = this.#phase === "unborn" ? undefined : this.#returnLease(wakeAt, seen, unsure);
    this.#release("lost", reason);
    await given;
  }
  get #endingClaim(): EndingClaim {
    return { host: this.#host, run: this.#loaded.run, operations: this.#operations };
  }
  #returnLease(wakeAt = 0, seen = 0, unsure?: TurnCommit): Promise<void> {
    return returnLease(this.#endingClaim, this.#parking(wakeAt, seen), unsure);
  }
  #parking(wakeAt: number, seen: number): Draft {
    const draft = this.#loaded.bareDraft("sleeping");
    draft.attempts = this.#operations.prepare(NO_JOBS.jobs, "leave").rows;
    draft.lease = "park";
    draft.wakeAt = wakeAt;
    draft.seen = seen;
    return draft;
  }
  #release(how: ClaimEnd, reason: unknown): void {
    if (this.#isReleased) return;
    this.#phase = "released";
    this.#operations.disarm();
    this.#operations.abandonAll(reason);
    if (how !== "parked") this.#loaded.evict();
    this.#host.released(this, how);
  }
  /** Out of the cache (W5). */
  evict(): void {
    this.#loaded.evict();
  }
}

/** Does a driver in this phase do something that ends without a message or a timer? */
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
