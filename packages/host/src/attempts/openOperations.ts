// The open operations of one run that its host runs itself: their attempts, their timers, and the rows to write about them.
// Owns: which operations are open, their attempt numbers and due times, and the rows that are not written yet. The host stores rows and
// jobs.
// Invariants: D1 (an attempt begins after the write that announces it), D6 D12 (an attempt is completed once its outcome is recorded), D7
// (lost attempts count), D8 (retries are durable timers), D10 (a resume forgives earlier attempts), K7 (after the deadline only rollbacks
// are retried), K8 (no timer fires early, each fires once), W4 (an attempt that a stopping host does not begin is begun by another host, as
// attempt 1).

import {
  DeadlineExceededError,
  dueOf,
  formatDuration,
  HoldfastError,
  type Job,
  type Logger,
  type OpeningCommand,
  type Outcome,
  type Payload,
  type SerializedError,
  serializeError,
  type Turn,
} from "@holdfast/core";
import { type Attempt, type AttemptRow, type Body, type StoredAttempt, workerLost } from "../attempt.ts";
import type { Environment } from "../environment.ts";
import { type AttemptEnd, Attempts, retryAfter } from "./attempts.ts";
import { Timers } from "./timers.ts";

/** What `OpenOperations` need from their host. */
export interface OpenOperationsOptions {
  /** The kinds of commands that this host runs itself. */
  readonly carries: ReadonlySet<string>;
  /** Timers and randomness. */
  readonly environment: Pick<Environment, "after" | "random">;
  /** Where messages go. */
  readonly logger: Logger;
  /** The run: its `runId`, and the `name` of its `workflow`. */
  readonly run: {
    /** The id of the run. */
    readonly runId: string;
    /** The workflow of the run. */
    readonly workflow: {
      /** The name of the workflow. */
      readonly name: string;
    };
  };
  /** The worker that makes the attempts: stored in every row. */
  readonly workerId: string;
  /** The time, in milliseconds since 1970. */
  readonly now: () => number;
  /** What to run for the operation, which was opened at that time. Undefined if it is no longer open. */
  bodyOf(command: OpeningCommand, openedAt: number): Body | undefined;
  /** The idempotency key of an operation. */
  keyOf(command: OpeningCommand): string;
  /** Encodes a result. */
  encode(value: unknown, what: string): Payload;
  /** When the run fails if it is still open, in milliseconds since 1970. */
  deadlineAt(): number | undefined;
  /** K7: whether this host ends the run at its deadline by its own clock. Otherwise the store decides, and the host asks the store. */
  readonly expires: boolean;
  /** Called when an attempt has ended or a timer is due. */
  onChange(): void;
}

interface Open {
  readonly command: OpeningCommand;
  /** Time of the turn that opened the operation. */
  readonly openedAt: number;
  /** Number of the last attempt; 0 before the first. */
  tried: number;
  /** Number of attempts up to the failure that a resume has voided (D10). */
  forgiven: number;
  /** The attempt in flight has a row, to which its end must be written (D12). */
  listed: boolean;
}

/** An attempt that begins once its row is written. */
export interface Starting {
  /** The number of the operation. */
  readonly seq: number;
  /** The number of the attempt, from 1. */
  readonly number: number;
}
/** The rows that a write stores about attempts, and the attempts that begin after it. */
export interface Prepared {
  /** The attempts to record. */
  readonly rows: readonly AttemptRow[];
  /** The attempts to start once they are recorded. */
  readonly starting: readonly Starting[];
}
/** The stored data of a run that is loaded again. */
export interface StoredOperations {
  readonly turns: readonly Turn[];
  /** Ordered by number within each operation. */
  readonly attempts: readonly StoredAttempt[];
  /** D10: operations whose failures the next turn's resume voids. */
  readonly voids?: readonly number[] | undefined;
}
/** What this host knows about stored attempts besides their rows. */
export interface KnownAttempts {
  /** D6: the outcome is recorded and waits for delivery. */
  isAnswered(seq: number): boolean;
  /** D7: this host announced the attempt but did not begin it. */
  isNotBegun(seq: number, number: number): boolean;
}

const NOTHING: Prepared = { rows: [], starting: [] };
const NO_JOBS: readonly Job[] = [];
const NOTHING_KNOWN: KnownAttempts = { isAnswered: () => false, isNotBegun: () => false };

/** The open operations of a run: timers, attempts and retries. */
export class OpenOperations {
  readonly #options: OpenOperationsOptions;
  readonly #attempts: Attempts;
  readonly #timers: Timers;
  readonly #open = new Map<number, Open>();
  #retriesDue: number[] = [];
  #rows: AttemptRow[] = [];
  /** Rows of completed attempts whose outcome waits for its turn. */
  #completed: AttemptRow[] = [];
  #jobs: Job[] = [];
  #expired = false;

  constructor(options: OpenOperationsOptions) {
    const { environment, logger } = options;
    this.#options = options;
    this.#timers = new Timers(
      environment,
      () => options.now(),
      () => {
        this.#lookAtTimers();
        options.onChange();
      },
    );
    this.#attempts = new Attempts({
      environment,
      logger,
      now: () => options.now(),
      encode: (value, what) => options.encode(value, what),
      forgiven: (seq) => this.#open.get(seq)?.forgiven ?? 0,
      onEnd: (end) => this.#ended(end),
    });
  }

  // ── after a replay ──

  /** Restores what was open when the run was last in memory. `executor`: its state after the replay, with its `openOperations`. */
  restore(executor: { readonly openOperations: readonly number[] }, stored: StoredOperations, known = NOTHING_KNOWN): void {
    this.#attempts.abandonAll(undefined);
    this.#open.clear();
    this.#timers.clear();
    this.#jobs = [];
    const open = new Set(executor.openOperations);
    for (const { commands, jobs, time } of stored.turns) {
      for (const command of commands) if ("n" in command && open.has(command.seq)) this.opened(command, time);
      for (const job of jobs) if (job.type === "fire") this.#timers.settled(job.seq); // K8: it fires once, even if its job still waits in line (R8)
    }
    this.#forgive(stored);
    this.recount(stored.attempts, known);
  }
  /** D10: operations whose failure a resume has voided are counted from there. */
  #forgive({ turns, attempts, voids = [] }: StoredOperations): void {
    for (const { time, jobs } of turns) {
      for (const job of jobs) if (job.type === "resume") for (const seq of job.voids) this.#forgiveOne(seq, attempts, time);
    }
    for (const seq of voids) this.#forgiveOne(seq, attempts, Number.MAX_SAFE_INTEGER);
  }
  #forgiveOne(seq: number, attempts: readonly StoredAttempt[], time: number): void {
    const open = this.#open.get(seq);
    if (open === undefined) return;
    // An attempt that has not ended may be the first after the resume, announced in the same write.
    const isBefore = ({ startedAt, endedAt }: StoredAttempt): boolean => (endedAt === undefined ? startedAt < time : endedAt <= time);
    // The first attempt has no row, unless the one that recorded the step left it to others (W4), or the step is that of a fork (F1).
    let last = attempts.some((row) => row.seq === seq && row.number === 0) ? 0 : 1;
    for (const row of attempts) if (row.seq === seq && isBefore(row)) last = Math.max(last, row.number);
    open.forgiven = last;
  }
  /** Derives the counts from the rows: other hosts may have made attempts without a turn (D7, D8). */
  recount(attempts: readonly StoredAttempt[], known = NOTHING_KNOWN): void {
    this.#retriesDue = [];
    if (this.#open.size === 0) return;
    const last = new Map<number, StoredAttempt>();
    for (const row of attempts) last.set(row.seq, row);
    for (const open of this.#open.values()) this.#recountOne(open, last.get(open.command.seq), known);
  }
  #recountOne(open: Open, last: StoredAttempt | undefined, known: KnownAttempts): void {
    const { seq } = open.command;
    const hasEnded = last?.status === "failed" || last?.status === "completed";
    if (!hasEnded && known.isNotBegun(seq, last?.number ?? 1)) {
      open.tried = (last?.number ?? 1) - 1;
      return this.#timers.setRetry(seq, 0);
    }
    open.tried = last?.number ?? 1;
    this.#timers.clearRetry(seq);
    // D6: the outcome was recorded, but its host stopped before it could update the row.
    if (known.isAnswered(seq)) {
      if (last !== undefined) this.#rows.push({ ...last, workerId: last.workerId ?? "", status: "completed" });
      return;
    }
    if (last?.status === "completed") return this.#announce(this.#bodyOf(open)); // the body has run; its operation is still open
    const endedAt = this.#options.now();
    // D7: the first attempt was begun by the host that wrote the command, and is lost.
    if (last === undefined) this.#rows.push({ seq, number: 1, status: "lost", startedAt: open.openedAt, endedAt, workerId: "" });
    // W4: the host that began it left the run without waiting for it.
    else if (last.status === "running") this.#rows.push({ ...last, workerId: last.workerId ?? "", status: "lost", endedAt });
    this.#timers.setRetry(seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);
  }

  // ── during a turn ──

  /** A turn of this `time` has opened the operation: sets its timer, and keeps it if this host runs it. */
  opened(command: OpeningCommand, time: number): void {
    const due = dueOf(command, time);
    if (due !== undefined) this.#timers.set(command.seq, due);
    if (this.#options.carries.has(command.type))
      this.#open.set(command.seq, { command, openedAt: time, tried: 0, forgiven: 0, listed: false });
  }
  /** A turn that is written has settled the operation: its timer, its retry and a job for it that no turn has taken are dropped. */
  settled(seq: number): void {
    this.#timers.settled(seq);
    this.#open.delete(seq);
    if (this.#jobs.length > 0) this.#jobs = this.#jobs.filter((job) => !("seq" in job) || job.seq !== seq); // K8
  }
  /** D6 D12: the outcome came from elsewhere than the attempt, which may still be in flight. */
  answered(seq: number): void {
    const attempt = this.#attempts.forget(seq);
    if (attempt !== undefined) this.#noteCompleted(attempt, this.#rows);
  }
  /** Whether the operation is open. */
  isOpen(seq: number): boolean {
    return this.#open.has(seq);
  }
  /** Whether this host runs the command itself. */
  carries(command: OpeningCommand): boolean {
    return this.#options.carries.has(command.type);
  }

  // ── events ──

  /** Jobs for the next turn: what has ended or become due since the last call. */
  takeJobs(): readonly Job[] {
    this.#lookAtTimers();
    return this.takeReady();
  }
  /** The same, without checking the timers. */
  takeReady(): readonly Job[] {
    if (this.#jobs.length === 0) return NO_JOBS;
    const jobs = this.#jobs;
    this.#jobs = [];
    return jobs;
  }
  /** D9: keeps the jobs of a turn that was taken back. They come with the next jobs, unless their operation is settled before. */
  keep(jobs: readonly Job[]): void {
    this.#jobs.unshift(...jobs);
  }
  /** K7: the deadline has passed, and no turn has received the job yet. */
  get isExpiring(): boolean {
    this.#lookAtTimers();
    return this.#jobs.some(({ type }) => type === "expire");
  }
  #lookAtTimers(): void {
    for (const seq of this.#timers.takeFired()) this.#jobs.push({ type: "fire", seq });
    for (const seq of this.#timers.takeRetries()) this.#retriesDue.push(seq);
    if (this.#options.expires && !this.#expired && this.#isAfterDeadline(this.#options.now())) this.#expire();
  }
  /** When the next timer, retry or deadline is due; undefined if there is none. */
  get nextDue(): number | undefined {
    const { next } = this.#timers;
    const deadlineAt = this.#options.expires && !this.#expired ? this.#options.deadlineAt() : undefined;
    if (next === undefined || deadlineAt === undefined) return next ?? deadlineAt;
    return Math.min(next, deadlineAt);
  }
  /** K8: a turn's time is never before the due time of a timer that it fires, even if the clock was set back in between. */
  get latestFired(): number {
    return this.#timers.latest;
  }
  /** Calls `onChange` when the first timer is due, from now until `disarm`. */
  arm(): void {
    this.#timers.arm();
  }
  /** Ends the calls of `onChange` for timers. What is due is kept: `takeJobs` still finds it, and `arm` starts again. */
  disarm(): void {
    this.#timers.disarm();
  }
  /** Forgets the due times of all sleeps, timeouts and retries: the run has failed, and is tried again as a whole. */
  clearTimers(): void {
    this.#timers.clear();
  }
  /** Makes every pending retry due now. */
  hurry(): void {
    this.#timers.hurryRetries();
  }

  // ── attempts ──

  /** How many attempts are running. */
  get inFlight(): number {
    return this.#attempts.size;
  }
  /** The attempts that are running. */
  get running(): Iterable<Attempt> {
    return this.#attempts.running;
  }
  /** Whether an attempt is due that `prepare` would begin. */
  get hasRetriesDue(): boolean {
    return this.#retriesDue.length > 0;
  }
  /** Whether there are rows to write or attempts to begin that need no turn. */
  get hasNews(): boolean {
    return this.#retriesDue.length > 0 || this.#rows.length > 0;
  }
  /** Whether there is a job for the next turn. */
  get hasJobs(): boolean {
    return this.#jobs.length > 0;
  }

  /**
   * What the write of a turn with these jobs, or a write without a turn, stores about attempts, and which attempts begin after it. With
   * "leave", due attempts are left to another host (W4). An operation that has no attempt left is settled by a job in a later turn.
   */
  prepare(jobs: readonly Job[], due: "begin" | "leave" = "begin"): Prepared {
    const starting = this.#retriesDue.length > 0 && due === "begin" ? this.#startRetries() : NOTHING.starting;
    if (this.#completed.length > 0) this.#releaseCompleted(jobs);
    if (this.#rows.length === 0) return starting.length === 0 ? NOTHING : { rows: NOTHING.rows, starting };
    const rows = this.#rows;
    this.#rows = [];
    return { rows, starting };
  }
  #startRetries(): Starting[] {
    const { now, workerId } = this.#options;
    const starting: Starting[] = [];
    for (const seq of this.#retriesDue) {
      const open = this.#open.get(seq);
      const body = open === undefined ? undefined : this.#bodyOf(open);
      if (open === undefined || body === undefined || this.#isExhausted(open, body)) continue;
      if (this.#isOverdue(open)) {
        this.#expire();
        continue;
      }
      open.tried++;
      open.listed = true;
      starting.push({ seq, number: open.tried });
      this.#rows.push({ seq, number: open.tried, status: "running", startedAt: now(), workerId });
    }
    this.#retriesDue = [];
    return starting;
  }
  /** D7: lost attempts count too. */
  #isExhausted({ command: { seq }, tried, forgiven }: Open, body: Body): boolean {
    const last = tried - forgiven;
    if (last <= 0) return false;
    const lost = workerLost(last);
    if (retryAfter(body, last, lost, 0) !== undefined) return false;
    const outcome: Outcome = { status: "failed", error: serializeError(lost), attempts: last };
    this.#jobs.push({ type: "resolve", seq, outcome });
    return true;
  }
  /** D6 D12: an attempt is marked as completed in the write that records its outcome. */
  #releaseCompleted(jobs: readonly Job[]): void {
    const waiting: AttemptRow[] = [];
    for (const row of this.#completed) (isAnsweredBy(jobs, row) ? this.#rows : waiting).push(row);
    this.#completed = waiting;
  }
  /** D9: the write of a turn with these jobs did not happen: a later write stores these rows. */
  takeBack(rows: readonly AttemptRow[], jobs: readonly Job[]): void {
    const isOutcome = (row: AttemptRow): boolean => row.status === "completed" && isAnsweredBy(jobs, row);
    this.#rows.unshift(...rows.filter((row) => !isOutcome(row)));
    this.#completed.unshift(...rows.filter(isOutcome));
  }
  /** W4: these commands are recorded, but this host stops before it begins them: the next host begins with attempt 1. */
  notBegun(seqs: readonly number[]): void {
    const now = this.#options.now();
    const { workerId } = this.#options;
    for (const seq of seqs) this.#rows.push({ seq, number: 0, status: "failed", startedAt: now, endedAt: now, workerId, retryAt: 0 });
  }

  /** Begins an attempt, after the write that announces it. */
  begin(seq: number, number: number): void {
    const open = this.#open.get(seq);
    const body = open === undefined ? undefined : this.#bodyOf(open);
    if (open === undefined || body === undefined) return;
    open.tried = number;
    if (this.#isOverdue(open)) return this.#expire();
    this.#attempts.start(seq, body, number, () => this.#options.keyOf(open.command));
  }
  /** Aborts the attempt. With `join` its outcome is still awaited; without, the workflow has abandoned it (C7). */
  cancel(seq: number, join: boolean): void {
    this.#attempts.cancel(seq, new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" }), join);
  }
  /** Aborts and drops all attempts: the run has ended, or leaves this process. */
  abandonAll(reason: unknown): void {
    this.#attempts.abandonAll(reason);
  }
  /** The same, and writes rows that mark the attempts as lost. */
  loseAll(reason: unknown): void {
    const { workerId } = this.#options;
    const endedAt = this.#options.now();
    for (const { seq, number, startedAt } of this.#attempts.abandonAll(reason))
      this.#rows.push({ seq, number, status: "lost", startedAt, endedAt, workerId });
  }

  #ended(end: AttemptEnd): void {
    const { attempt } = end;
    if (end.type === "retry") this.#failed(attempt, end.error, end.delay);
    else if (end.type === "recorded") {
      this.#noteCompleted(attempt, this.#rows);
      end.deliver();
    } else this.#settledBy(attempt, end.outcome);
    this.#options.onChange();
  }
  #failed(attempt: Attempt, error: SerializedError, delay: number): void {
    const { seq, number, body } = attempt;
    const retryAt = this.#options.now() + delay;
    // K7: no attempt begins after the deadline.
    if (this.#isAfterDeadline(retryAt) && this.#open.get(seq)?.command.type !== "rollback") {
      this.#rows.push(this.#endRow(attempt, "failed", error));
      return this.#expire();
    }
    this.#rows.push({ ...this.#endRow(attempt, "failed", error), retryAt });
    this.#timers.setRetry(seq, retryAt);
    if (this.#timers.isArmed) this.#timers.arm();
    // Without this warning, a step that keeps failing looks like a slow one.
    const { run, logger } = this.#options;
    const what = body.title ?? `step "${body.name}"`;
    const message = `Attempt ${number} of ${what} failed; next attempt in ${formatDuration(delay)}.`;
    logger.warn(message, { runId: run.runId, workflow: run.workflow.name, error });
  }
  #settledBy(attempt: Attempt, outcome: Outcome): void {
    const { seq, body } = attempt;
    if (outcome.status === "failed") this.#rows.push(this.#endRow(attempt, "failed", outcome.error));
    else if (body.announces !== undefined) {
      this.#rows.push(this.#endRow(attempt, "completed")); // stored, so that no host runs it again
      return this.#announce(body);
    } else this.#noteCompleted(attempt, this.#completed);
    this.#jobs.push({ type: "resolve", seq, outcome });
  }
  #announce(body: Body | undefined): void {
    if (body?.announces?.job !== undefined) this.#jobs.push(body.announces.job);
  }
  /** Only an attempt that has a row needs its end written. */
  #noteCompleted(attempt: Attempt, rows: AttemptRow[]): void {
    if (this.#open.get(attempt.seq)?.listed === true) rows.push(this.#endRow(attempt, "completed"));
  }
  #endRow({ seq, number, startedAt, details }: Attempt, status: "failed" | "completed", error?: SerializedError): AttemptRow {
    const row = { seq, number, status, startedAt, endedAt: this.#options.now(), workerId: this.#options.workerId };
    if (error === undefined && details === undefined) return row;
    return { ...row, ...(error !== undefined && { error }), ...(details !== undefined && { details }) };
  }
  #bodyOf({ command, openedAt }: Open): Body | undefined {
    return this.#options.bodyOf(command, openedAt);
  }

  // ── the deadline ──

  #isAfterDeadline(moment: number): boolean {
    const deadlineAt = this.#options.deadlineAt();
    return deadlineAt !== undefined && moment >= deadlineAt;
  }
  /** K7: after the deadline only rollbacks begin. */
  #isOverdue({ command }: Open): boolean {
    return this.#options.expires && command.type !== "rollback" && this.#isAfterDeadline(this.#options.now());
  }
  /** K7: the deadline can't be met: the run fails now. Rollbacks in progress are exempt. */
  #expire(): void {
    if (this.#expired) return;
    this.#expired = this.#options.expires;
    const { run, deadlineAt } = this.#options;
    const error = new DeadlineExceededError({ runId: run.runId, deadline: deadlineAt() ?? 0 });
    this.#jobs.push({ type: "expire", error: serializeError(error) });
  }

  // ── descriptions ──

  /** Operations that wait for their next attempt: the `command`, the number of the `attempt`, and when it is due (`at`). */
  get retries(): { readonly command: OpeningCommand; readonly attempt: number; readonly at: number }[] {
    return [...this.#timers.retries].flatMap(([seq, at]) => {
      const open = this.#open.get(seq);
      return open === undefined ? [] : { command: open.command, attempt: open.tried + 1, at };
    });
  }
  /** When a sleep or a timeout ends. */
  dueOf(seq: number): number | undefined {
    return this.#timers.dueOf(seq);
  }
}

function isAnsweredBy(jobs: readonly Job[], { seq }: AttemptRow): boolean {
  return jobs.some((job) => job.type === "resolve" && job.seq === seq);
}
