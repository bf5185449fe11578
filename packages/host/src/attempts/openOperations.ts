// The open operations of one run that its host carries out itself: their attempts, their timers, and what is to be written of them.
// Owns: which are open, which attempt each is at, due times, and rows that are not written yet. Storing rows and jobs is the host's.
// Invariants: D1 (an attempt begins after the write that announces it), D6 D12 (an attempt has completed when its outcome is recorded), D7
// (attempts that never came back count), D8 (retries are durable timers), D10 (a resume forgives), K7 (nothing is tried again after the
// deadline, but rollbacks), K8 (no timer early, each fires once), W4 (what a stopping host does not begin, another begins as attempt 1).

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
import type { Attempt, AttemptRow, Body, StoredAttempt } from "../attempt.ts";
import type { Environment } from "../environment.ts";
import { type AttemptEnd, Attempts, retryAfter } from "./attempts.ts";
import { Timers } from "./timers.ts";

export interface OpenOperationsOptions {
  /** Kinds that this host carries out. */
  readonly carries: ReadonlySet<string>;
  readonly environment: Pick<Environment, "after" | "random">;
  readonly logger: Logger;
  /** The run, for errors and the log. */
  readonly run: { readonly runId: string; readonly workflow: { readonly name: string } };
  /** Of rows. */
  readonly workerId: string;
  readonly now: () => number;
  /** Undefined: the operation is no longer open. */
  bodyOf(command: OpeningCommand, openedAt: number): Body | undefined;
  keyOf(command: OpeningCommand): string;
  encode(value: unknown, what: string): Payload;
  deadlineAt(): number | undefined;
  /** K7: this host's clock ends the run at its deadline. Otherwise the store's does, and the host asks it. */
  readonly expires: boolean;
  /** An attempt has ended, or a timer is due. */
  onChange(): void;
}

interface Open {
  readonly command: OpeningCommand;
  /** Time of the turn that opened it. */
  readonly openedAt: number;
  /** Its last attempt; 0 before the first. */
  tried: number;
  /** Attempts before the failure that a resume has voided (D10). */
  forgiven: number;
  /** The attempt in flight has a row, which its end has to be written to (D12). */
  listed: boolean;
}

/** An attempt that begins once its row is written. */
export interface Starting {
  readonly seq: number;
  readonly number: number;
}
/** What a write says of attempts, and which begin after it. */
export interface Prepared {
  readonly rows: readonly AttemptRow[];
  readonly starting: readonly Starting[];
}
/** What is stored of a run that is taken up again. */
export interface StoredOperations {
  readonly turns: readonly Turn[];
  /** By number for each operation, oldest first. */
  readonly attempts: readonly StoredAttempt[];
  /** D10: operations that the next turn's resume voids. */
  readonly voids?: readonly number[] | undefined;
}
/** What this host knows of stored attempts, besides their rows. */
export interface KnownAttempts {
  /** D6: the outcome was recorded, and waits to be delivered. */
  isAnswered(seq: number): boolean;
  /** D7: it was announced here and not begun. */
  isNotBegun(seq: number, number: number): boolean;
}

const NOTHING: Prepared = { rows: [], starting: [] };
const NO_JOBS: readonly Job[] = [];
const NOTHING_KNOWN: KnownAttempts = { isAnswered: () => false, isNotBegun: () => false };

export class OpenOperations {
  readonly #options: OpenOperationsOptions;
  readonly #attempts: Attempts;
  readonly #timers: Timers;
  readonly #open = new Map<number, Open>();
  #retriesDue: number[] = [];
  #rows: AttemptRow[] = [];
  /** Of completed attempts whose outcome waits for its turn. */
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

  /** What was open when the run was last in memory. `executor`: as the replay has left it. */
  restore(executor: { readonly openOperations: readonly number[] }, stored: StoredOperations, known = NOTHING_KNOWN): void {
    this.#attempts.abandonAll(undefined);
    this.#open.clear();
    this.#timers.clear();
    this.#jobs = [];
    const open = new Set(executor.openOperations);
    for (const { commands, jobs, time } of stored.turns) {
      for (const command of commands) if ("n" in command && open.has(command.seq)) this.opened(command, time);
      for (const job of jobs) if (job.type === "fire") this.#timers.settled(job.seq); // K8: once, though it waits in line (R8)
    }
    this.#forgive(stored);
    this.recount(stored.attempts, known);
  }
  /** D10: what a resume has voided is counted anew. */
  #forgive({ turns, attempts, voids = [] }: StoredOperations): void {
    for (const { time, jobs } of turns) {
      for (const job of jobs) if (job.type === "resume") for (const seq of job.voids) this.#forgiveOne(seq, attempts, time);
    }
    for (const seq of voids) this.#forgiveOne(seq, attempts, Number.MAX_SAFE_INTEGER);
  }
  #forgiveOne(seq: number, attempts: readonly StoredAttempt[], time: number): void {
    const open = this.#open.get(seq);
    if (open === undefined) return;
    // One that has not ended may be the first after the resume, announced in the same write.
    const isBefore = ({ startedAt, endedAt }: StoredAttempt): boolean => (endedAt === undefined ? startedAt < time : endedAt <= time);
    let last = 1;
    for (const row of attempts) if (row.seq === seq && isBefore(row)) last = Math.max(last, row.number);
    open.forgiven = last;
  }
  /** Where they stand by the rows: other hosts may have made attempts without a turn (D7, D8). */
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
    // D6: an outcome that was recorded, by a host that could not say so any more, is not lost.
    if (known.isAnswered(seq)) {
      if (last !== undefined) this.#rows.push({ ...last, workerId: last.workerId ?? "", status: "completed" });
      return;
    }
    if (last?.status === "completed") return this.#announce(this.#bodyOf(open)); // it was carried out; its operation goes on
    const endedAt = this.#options.now();
    // Its first attempt was begun by the host that wrote the command, and never came back (D7).
    if (last === undefined) this.#rows.push({ seq, number: 1, status: "lost", startedAt: open.openedAt, endedAt, workerId: "" });
    // W4: the host that made it left the run without waiting for it.
    else if (last.status === "running") this.#rows.push({ ...last, workerId: last.workerId ?? "", status: "lost", endedAt });
    this.#timers.setRetry(seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);
  }

  // ── with a turn ──

  opened(command: OpeningCommand, time: number): void {
    const due = dueOf(command, time);
    if (due !== undefined) this.#timers.set(command.seq, due);
    if (this.#options.carries.has(command.type))
      this.#open.set(command.seq, { command, openedAt: time, tried: 0, forgiven: 0, listed: false });
  }
  settled(seq: number): void {
    this.#timers.settled(seq);
    this.#open.delete(seq);
    if (this.#jobs.length > 0) this.#jobs = this.#jobs.filter((job) => !("seq" in job) || job.seq !== seq); // K8
  }
  /** D6 D12: its outcome has come another way than by its attempt, which may be in flight. */
  answered(seq: number): void {
    const attempt = this.#attempts.forget(seq);
    if (attempt !== undefined) this.#noteCompleted(attempt, this.#rows);
  }
  isOpen(seq: number): boolean {
    return this.#open.has(seq);
  }
  /** Commands that this host carries out. */
  carries(command: OpeningCommand): boolean {
    return this.#options.carries.has(command.type);
  }

  // ── what has happened ──

  /** What has ended and become due since this was last asked, for the next turn. */
  takeJobs(): readonly Job[] {
    this.#lookAtTimers();
    return this.takeReady();
  }
  /** The same, without a look at the clock. */
  takeReady(): readonly Job[] {
    if (this.#jobs.length === 0) return NO_JOBS;
    const jobs = this.#jobs;
    this.#jobs = [];
    return jobs;
  }
  /** D9: of a turn that was taken back: it comes with the next jobs, unless its operation is settled before. */
  keep(jobs: readonly Job[]): void {
    this.#jobs.unshift(...jobs);
  }
  /** K7: the deadline has passed, and no turn has been told. */
  get isExpiring(): boolean {
    this.#lookAtTimers();
    return this.#jobs.some(({ type }) => type === "expire");
  }
  #lookAtTimers(): void {
    for (const seq of this.#timers.takeFired()) this.#jobs.push({ type: "fire", seq });
    for (const seq of this.#timers.takeRetries()) this.#retriesDue.push(seq);
    if (this.#options.expires && !this.#expired && this.#isAfterDeadline(this.#options.now())) this.#expire();
  }
  /** When something is due next; undefined if nothing is. */
  get nextDue(): number | undefined {
    const { next } = this.#timers;
    const deadlineAt = this.#options.expires && !this.#expired ? this.#options.deadlineAt() : undefined;
    if (next === undefined || deadlineAt === undefined) return next ?? deadlineAt;
    return Math.min(next, deadlineAt);
  }
  /** K8: no turn is before a timer that it fires was due, though the clock may have been set back since. */
  get latestFired(): number {
    return this.#timers.latest;
  }
  /** Calls `onChange` when the first timer is due, from now until `disarm`. */
  arm(): void {
    this.#timers.arm();
  }
  disarm(): void {
    this.#timers.disarm();
  }
  clearTimers(): void {
    this.#timers.clear();
  }
  /** Everything that waits for its next attempt is tried now. */
  hurry(): void {
    this.#timers.hurryRetries();
  }

  // ── attempts ──

  get inFlight(): number {
    return this.#attempts.size;
  }
  get running(): Iterable<Attempt> {
    return this.#attempts.running;
  }
  get hasRetriesDue(): boolean {
    return this.#retriesDue.length > 0;
  }
  /** Is there anything to write or begin, that no turn carries? */
  get hasNews(): boolean {
    return this.#retriesDue.length > 0 || this.#rows.length > 0;
  }
  get hasJobs(): boolean {
    return this.#jobs.length > 0;
  }

  /**
   * What the write of a turn with these jobs, or of none, says of attempts; those that are due begin once it is written. "leave": they are
   * left to another host (W4). An operation that has no attempt left is settled by a job, for a later turn.
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
  /** D7: attempts that never came back count too. */
  #isExhausted({ command: { seq }, tried, forgiven }: Open, body: Body): boolean {
    const last = tried - forgiven;
    if (last <= 0) return false;
    const lost = new HoldfastError(`The process that ran attempt ${last} did not come back, or could not store its outcome.`, {
      code: "HF_WORKER_LOST",
    });
    if (retryAfter(body, last, lost, 0) !== undefined) return false;
    const outcome: Outcome = { status: "failed", error: serializeError(lost), attempts: last };
    this.#jobs.push({ type: "resolve", seq, outcome });
    return true;
  }
  /** D6 D12: an attempt has completed in the write that records its outcome. */
  #releaseCompleted(jobs: readonly Job[]): void {
    const waiting: AttemptRow[] = [];
    for (const row of this.#completed) (isAnsweredBy(jobs, row) ? this.#rows : waiting).push(row);
    this.#completed = waiting;
  }
  /** D9: a write of a turn with these jobs was not made: a later one says this of attempts. */
  takeBack(rows: readonly AttemptRow[], jobs: readonly Job[]): void {
    const isOutcome = (row: AttemptRow): boolean => row.status === "completed" && isAnsweredBy(jobs, row);
    this.#rows.unshift(...rows.filter((row) => !isOutcome(row)));
    this.#completed.unshift(...rows.filter(isOutcome));
  }
  /** W4: their commands are recorded, but this host stops: the next one begins with attempt 1. */
  notBegun(seqs: readonly number[]): void {
    const now = this.#options.now();
    const { workerId } = this.#options;
    for (const seq of seqs) this.#rows.push({ seq, number: 0, status: "failed", startedAt: now, endedAt: now, workerId, retryAt: 0 });
  }

  /** After the write that announces it. */
  begin(seq: number, number: number): void {
    const open = this.#open.get(seq);
    const body = open === undefined ? undefined : this.#bodyOf(open);
    if (open === undefined || body === undefined) return;
    open.tried = number;
    if (this.#isOverdue(open)) return this.#expire();
    this.#attempts.start(seq, body, number, () => this.#options.keyOf(open.command));
  }
  /** The workflow gave it up (C7), or with `join` only tells it. */
  cancel(seq: number, join: boolean): void {
    this.#attempts.cancel(seq, new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" }), join);
  }
  /** The run is over, or leaves this process. */
  abandonAll(reason: unknown): void {
    this.#attempts.abandonAll(reason);
  }
  /** The same, with rows that say so. */
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
    // K7: a retry after the deadline is none.
    if (this.#isAfterDeadline(retryAt) && this.#open.get(seq)?.command.type !== "rollback") {
      this.#rows.push(this.#endRow(attempt, "failed", error));
      return this.#expire();
    }
    this.#rows.push({ ...this.#endRow(attempt, "failed", error), retryAt });
    this.#timers.setRetry(seq, retryAt);
    if (this.#timers.isArmed) this.#timers.arm();
    // A step that fails again and again looks like one that takes its time.
    const { run, logger } = this.#options;
    const what = body.title ?? `step "${body.name}"`;
    const message = `Attempt ${number} of ${what} failed; the next one is in ${formatDuration(delay)}.`;
    logger.warn(message, { runId: run.runId, workflow: run.workflow.name, error });
  }
  #settledBy(attempt: Attempt, outcome: Outcome): void {
    const { seq, body } = attempt;
    if (outcome.status === "failed") this.#rows.push(this.#endRow(attempt, "failed", outcome.error));
    else if (body.announces !== undefined) {
      this.#rows.push(this.#endRow(attempt, "completed")); // kept, so that no host carries it out again
      return this.#announce(body);
    } else this.#noteCompleted(attempt, this.#completed);
    this.#jobs.push({ type: "resolve", seq, outcome });
  }
  #announce(body: Body | undefined): void {
    if (body?.announces?.job !== undefined) this.#jobs.push(body.announces.job);
  }
  /** An attempt without a row leaves none. */
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
  /** K7: nothing begins after the deadline but what undoes the rest. */
  #isOverdue({ command }: Open): boolean {
    return this.#options.expires && command.type !== "rollback" && this.#isAfterDeadline(this.#options.now());
  }
  /** K7: the deadline can't be met any more: the run fails now. Rollbacks that are under way are exempt. */
  #expire(): void {
    if (this.#expired) return;
    this.#expired = this.#options.expires;
    const { run, deadlineAt } = this.#options;
    const error = new DeadlineExceededError({ runId: run.runId, deadline: deadlineAt() ?? 0 });
    this.#jobs.push({ type: "expire", error: serializeError(error) });
  }

  // ── for people ──

  /** Operations that wait for their next attempt. */
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
