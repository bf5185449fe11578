// What a run has its host do: operations that are open, their attempts, their timers.
// Owns: open operations of the host's, due times, the counts of attempts, and the rows of attempts that are to be written.
// Invariants: D1 (begun after the batch that records it), D5 (in flight until it has ended or is given up), D7 (an attempt that never came
// back counts), D8 (retries are durable timers), K7 (nothing is begun or tried again after the deadline, but rollbacks), K8 (no timer early).

import {
  DeadlineExceededError,
  dueOf,
  type Executor,
  formatLocation,
  HoldfastError,
  type Job,
  kindOf,
  type Logger,
  type OpeningCommand,
  type Outcome,
  type Payload,
  serializeError,
  type Turn,
} from "@holdfast/core";
import type { Environment } from "../environment.ts";
import type { Attempt } from "../storage/contents.ts";
import type { Storage } from "../storage/storage.ts";
import { type AttemptEnd, Attempts, retryAfter } from "./attempts.ts";
import { type BodyContext, bodyOf, isEffect } from "./bodies.ts";

export interface EffectsOptions {
  readonly environment: Environment;
  readonly storage: Storage;
  readonly bodies: BodyContext;
  readonly deadlineAt: number | undefined;
  readonly logger: Logger;
  /** Something has ended, or become due. */
  readonly onChange: () => void;
}

interface Open {
  readonly command: OpeningCommand;
  /** Time of the turn that opened it. */
  readonly time: number;
}

/** Among due times, by number of the operation; negative for its next attempt. No operation has the number 0. */
const DEADLINE = 0;

const CANCELED = new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" });

export class Effects {
  readonly #options: EffectsOptions;
  readonly #attempts: Attempts;
  readonly #open = new Map<number, Open>();
  readonly #due = new Map<number, number>();
  /** The last attempt of each open operation. */
  readonly #tried = new Map<number, number>();
  /** Operations whose attempt in flight has a row, which its end is written to. */
  readonly #listed = new Set<number>();
  /** Attempts before the failure that a resume has voided (D10). */
  readonly #forgiven = new Map<number, number>();
  readonly #retriesDue = new Set<number>();
  #rows: Attempt[] = [];
  /** Of completed attempts, to be written with the turn that takes their outcome. */
  readonly #completed = new Map<number, Attempt>();
  #jobs: Job[] = [];
  /** Jobs that wait for the turn after the next, by the number of their operation. */
  readonly #kept = new Map<number, Job>();
  #expired = false;

  constructor(options: EffectsOptions) {
    const { environment, deadlineAt, bodies, logger } = options;
    this.#options = options;
    this.#attempts = new Attempts({
      environment,
      logger,
      encode: (value: unknown, what: string): Payload => bodies.executor().encode(value, what),
      onEnd: (end) => this.#ended(end),
    });
    if (deadlineAt !== undefined) this.#due.set(DEADLINE, deadlineAt);
  }

  // ── after a replay ──

  /** What was open when the run was last in somebody's memory. */
  restore(executor: Executor, turns: readonly Turn[]): void {
    const open = new Set(executor.openOperations);
    for (const turn of turns) {
      for (const job of turn.jobs) if (job.type === "resume") this.forgive(job.voids, turn.time);
      for (const command of turn.commands) {
        if (!("n" in command) || !open.has(command.seq)) continue;
        this.opened(command, turn.time);
        if (isEffect(command)) this.#recount(command.seq, turn.time);
      }
    }
  }
  /** D10: the policy counts anew from here. */
  forgive(seqs: readonly number[], time: number): void {
    for (const seq of seqs) {
      const before = this.#options.storage.attemptsOf(seq).filter(({ endedAt = 0 }) => endedAt <= time);
      this.#forgiven.set(seq, Math.max(1, ...before.map(({ number }) => number)));
    }
  }
  /** D7, D8: where an open operation stands. */
  #recount(seq: number, openedAt: number): void {
    const { storage, environment } = this.#options;
    const last = storage.attemptsOf(seq).at(-1);
    this.#tried.set(seq, last?.number ?? 1);
    if (last?.status === "completed") return; // a child that was started
    const endedAt = environment.now();
    // Its first attempt was begun by whoever wrote the command, and never came back.
    if (last === undefined) this.#rows.push({ seq, number: 1, status: "lost", startedAt: openedAt, endedAt });
    else if (last.status === "running") this.#rows.push({ ...last, status: "lost", endedAt });
    this.#due.set(-seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);
  }

  // ── with a turn ──

  opened(command: OpeningCommand, time: number): void {
    const due = dueOf(command, time);
    if (due !== undefined) this.#due.set(command.seq, due);
    if (isEffect(command)) this.#open.set(command.seq, { command, time });
  }
  settled(seq: number): void {
    this.#due.delete(seq);
    if (this.#kept.size > 0) this.#kept.delete(seq);
    if (!this.#open.delete(seq)) return;
    this.#due.delete(-seq);
    this.#tried.delete(seq);
    this.#listed.delete(seq);
    this.#forgiven.delete(seq);
    this.#retriesDue.delete(seq);
  }
  isOpen(seq: number): boolean {
    return this.#open.has(seq);
  }
  /** What has ended and become due since this was last asked, for the next turn. */
  takeJobs(): Job[] {
    this.#fireDue();
    const jobs = this.#kept.size === 0 ? this.#jobs : [...this.#kept.values(), ...this.#jobs];
    if (jobs.length === 0) return jobs;
    this.#kept.clear();
    this.#jobs = [];
    return jobs;
  }
  /** K7: the deadline has passed, and no turn has been told. */
  get isExpiring(): boolean {
    this.#fireDue();
    return this.#jobs.some(({ type }) => type === "expire");
  }
  /** D9: of a turn that was taken back. What has ended is not run again; it is forgotten if its operation is settled before its turn. */
  keep(jobs: readonly Job[]): void {
    for (const job of jobs) if ("seq" in job) this.#kept.set(job.seq, job);
  }
  #fireDue(): void {
    if (this.#due.size === 0) return;
    const now = this.#options.environment.now();
    for (const [key, due] of this.#due) {
      if (due > now) continue;
      this.#due.delete(key);
      if (key === DEADLINE) this.#expire();
      else if (key < 0) this.#retriesDue.add(-key);
      else this.#jobs.push({ type: "fire", seq: key });
    }
  }
  /** Milliseconds since 1970; undefined if nothing is ever due. */
  get nextDue(): number | undefined {
    let next: number | undefined;
    for (const due of this.#due.values()) if (next === undefined || due < next) next = due;
    return next;
  }
  /** Everything that waits for its next attempt is tried now. */
  hurry(): void {
    for (const key of this.#due.keys()) if (key < 0) this.#due.set(key, 0);
  }

  // ── attempts ──

  /** Attempts that somebody waits for. */
  get inFlight(): number {
    return this.#attempts.size;
  }
  /** There is something to write or to begin, with or without a turn. */
  get pending(): boolean {
    return this.#jobs.length > 0 || this.#kept.size > 0 || this.#rows.length > 0 || this.#retriesDue.size > 0;
  }
  /** Puts what is to be written into the batch; returns the attempts that begin once it is. */
  prepare(jobs: readonly Job[]): { seq: number; number: number }[] {
    const { storage } = this.#options;
    const starting: { seq: number; number: number }[] = [];
    if (this.#retriesDue.size > 0) this.#startRetries(starting);
    if (this.#rows.length > 0) {
      for (const row of this.#rows) storage.putAttempt(row);
      this.#rows = [];
    }
    // An attempt has completed when its outcome is recorded, not before (D6, D12).
    if (this.#completed.size > 0) for (const job of jobs) if (job.type === "resolve") this.#writeCompleted(job.seq);
    return starting;
  }
  #startRetries(starting: { seq: number; number: number }[]): void {
    for (const seq of this.#retriesDue) {
      const number = (this.#tried.get(seq) ?? 0) + 1;
      const command = this.#open.get(seq)?.command;
      if (command === undefined || this.#isExhausted(seq, number)) continue;
      if (this.#isOverdue(command)) {
        this.#expire();
        continue;
      }
      this.#tried.set(seq, number);
      this.#listed.add(seq);
      starting.push({ seq, number });
      this.#rows.push({ seq, number, status: "running", startedAt: this.#options.environment.now() });
    }
    this.#retriesDue.clear();
  }
  #writeCompleted(seq: number): void {
    const row = this.#completed.get(seq);
    if (row === undefined) return;
    this.#completed.delete(seq);
    this.#options.storage.putAttempt(row);
  }
  /** D7: attempts that never came back count too. */
  #isExhausted(seq: number, number: number): boolean {
    const body = this.#bodyOf(seq);
    if (body === undefined) return true;
    const last = number - 1 - (this.#forgiven.get(seq) ?? 0);
    const lost = new HoldfastError(`The process that ran attempt ${last} did not come back.`, { code: "HF_WORKER_LOST" });
    if (last <= 0 || retryAfter(body.retry, last, lost, 0) !== undefined) return false;
    const outcome: Outcome = { status: "failed", error: serializeError(lost), attempts: last };
    this.#jobs.push({ type: "resolve", seq, outcome });
    return true;
  }
  #bodyOf(seq: number) {
    const open = this.#open.get(seq);
    return open === undefined ? undefined : bodyOf(open.command, open.time, this.#options.bodies);
  }
  begin(seq: number, number: number): void {
    const open = this.#open.get(seq);
    const body = this.#bodyOf(seq);
    if (open === undefined || body === undefined) return;
    const { bodies } = this.#options;
    this.#tried.set(seq, number);
    if (this.#isOverdue(open.command)) return this.#expire();
    const { unit, name, n } = open.command;
    const execution = bodies.execution === 1 ? "" : `~${bodies.execution}/`;
    const key = `${bodies.runId}/${execution}${formatLocation(unit, name, n)}`;
    this.#attempts.start(seq, body, number, this.#forgiven.get(seq) ?? 0, key);
  }
  cancel(seq: number, join: boolean): void {
    this.#attempts.cancel(seq, CANCELED, join);
  }
  abandonAll(reason: unknown): void {
    this.#attempts.abandonAll(reason);
  }

  #ended(end: AttemptEnd): void {
    const { seq } = end.attempt;
    const command = this.#open.get(seq)?.command;
    if (end.type === "retry") {
      const row = this.#rowOf(end);
      const retryAt = row.endedAt + end.delay;
      const { deadlineAt = Number.POSITIVE_INFINITY } = this.#options;
      if (retryAt >= deadlineAt && command?.type !== "rollback") {
        this.#rows.push({ ...row, status: "failed", error: end.error });
        this.#expire(); // K7: it can't be in time any more
      } else {
        this.#rows.push({ ...row, status: "failed", error: end.error, retryAt });
        this.#due.set(-seq, retryAt);
      }
    } else this.#settledBy(end, command);
    this.#options.onChange();
  }
  #rowOf({ attempt: { seq, number, startedAt, details } }: AttemptEnd) {
    const endedAt = this.#options.environment.now();
    return { seq, number, startedAt, endedAt, ...(details !== undefined && { details }) };
  }
  #settledBy(end: AttemptEnd & { type: "settled" }, command: OpeningCommand | undefined): void {
    const { outcome, attempt } = end;
    const { seq } = attempt;
    if (outcome.status === "failed") this.#rows.push({ ...this.#rowOf(end), status: "failed", error: outcome.error });
    else if (command?.type === "child") {
      // It exists now; its outcome is a message of its own. That it was started is kept, so that no wake starts it again.
      this.#rows.push({ ...this.#rowOf(end), status: "completed" });
      if (command.detached === true) this.#jobs.push({ type: "childStarted", seq, runId: command.id });
      return;
    } else if (this.#listed.has(seq)) this.#completed.set(seq, { ...this.#rowOf(end), status: "completed" });
    this.#jobs.push({ type: "resolve", seq, outcome });
  }

  /** K7: nothing begins after the deadline but what undoes the rest. */
  #isOverdue({ type }: OpeningCommand): boolean {
    const { environment, deadlineAt } = this.#options;
    return deadlineAt !== undefined && environment.now() >= deadlineAt && type !== "rollback";
  }
  /** K7: the run fails now. Rollbacks that are under way are exempt. */
  #expire(): void {
    if (this.#expired) return;
    this.#expired = true;
    const { deadlineAt = 0, bodies } = this.#options;
    const error = new DeadlineExceededError({ runId: bodies.runId, deadline: deadlineAt });
    this.#jobs.push({ type: "expire", error: serializeError(error) });
  }

  // ── for people ──

  /** In words, with times. */
  waitingFor(executor: Executor): string[] {
    const retries: string[] = [];
    for (const [key, due] of this.#due) {
      const command = key < 0 ? this.#open.get(-key)?.command : undefined;
      if (command === undefined) continue;
      const kind = kindOf(command) ?? command.type;
      retries.push(`${kind} ${command.name} (attempt ${(this.#tried.get(-key) ?? 0) + 1} at ${isoTime(due)})`);
    }
    const others = executor.waiting.filter(({ seq }) => !this.#due.has(-seq));
    return [...retries, ...others.map(({ seq, description }) => description + this.#until(seq))];
  }
  #until(seq: number): string {
    const due = this.#due.get(seq);
    return due === undefined ? "" : ` until ${isoTime(due)}`;
  }
}

export function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}
