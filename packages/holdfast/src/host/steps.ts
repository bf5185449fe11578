// The open steps of one run: which attempt each is at, which are in flight, and what is still to be written of them.
// Owns: attempts as the contract counts them, their rows, the bodies in flight.
// Invariants: D1 (started only after the commit that says so), D6 D12 (an attempt has completed when its outcome is recorded), D7 (attempts
// that never came back count), D8 (retries), D10 (a resume forgives), W4 (what a stopping worker does not begin, others begin as attempt 1).

import {
  type Codec,
  carriedOutBy,
  type Executor,
  formatLocation,
  HoldfastError,
  type Job,
  type Logger,
  type OpeningCommand,
  type Outcome,
  type StepBody,
  type StepInfo,
  serializeError,
  type Turn,
} from "@holdfast/core";
import type { Environment } from "@holdfast/host";
import type { AttemptRow, ClaimedRun, InboxMessage, TurnCommit } from "../store/port.ts";
import { type Attempt, type AttemptEnd, Attempts, Recorded, retryAfter } from "./attempts.ts";
import type { Timers } from "./timers.ts";

export interface StepsHost {
  readonly workerId: string;
  readonly environment: Environment;
  readonly codec: Codec;
  readonly logger: Logger;
  now(): number;
  replaceStep(name: string): ((info: unknown) => unknown) | undefined;
  /** D6: a step in a transaction of the store. */
  transact(claim: { runId: string; epoch: number; seq: number }, body: StepBody, info: StepInfo): Promise<InboxMessage | "stale">;
}
/** The run that they belong to, as it stands now. */
export interface StepsRun {
  readonly runId: string;
  readonly execution: number;
  readonly epoch: number;
  readonly executor: Executor;
}

interface OpenStep {
  readonly command: OpeningCommand;
  /** Time of the turn that opened it. */
  readonly time: number;
  /** Its last attempt; 0 before the first. */
  tried: number;
  /** The attempt in flight has a row, which its end has to be written to (D12). */
  listed: boolean;
}

/** Attempts that begin with the next commit, and answers to steps that have none left. */
export interface Due {
  readonly starting: readonly { readonly seq: number; readonly number: number }[];
  readonly exhausted: readonly Job[];
}
/** Attempts that a commit has announced of which this worker does not know whether it was written: it has not begun them. */
export interface Unsure {
  /** Of its execution, and its claim. */
  readonly seed: string;
  readonly epoch: number;
  readonly attempts: Due["starting"];
}
export const NOTHING_DUE: Due = { starting: [], exhausted: [] };
const NO_ROWS: readonly AttemptRow[] = [];

const STEPS = carriedOutBy("worker");
export function isStep(command: OpeningCommand): boolean {
  return STEPS.has(command.type);
}

export class Steps {
  readonly #host: StepsHost;
  readonly #run: StepsRun;
  readonly #timers: Timers;
  readonly #attempts: Attempts;
  readonly #open = new Map<number, OpenStep>();
  /** Attempts before the failure that a resume has voided (D10). */
  readonly #forgiven = new Map<number, number>();
  #rows: AttemptRow[] = [];
  /** Of completed attempts whose outcome waits for its turn. */
  #settledRows: AttemptRow[] = [];
  #due: number[] = [];

  constructor(host: StepsHost, run: StepsRun, timers: Timers, onEnd: (end: AttemptEnd) => void) {
    this.#host = host;
    this.#run = run;
    this.#timers = timers;
    this.#attempts = new Attempts({
      environment: host.environment,
      codec: host.codec,
      encode: (value, what) => run.executor.encode(value, what),
      now: () => host.now(),
      onEnd,
      logger: host.logger,
      replace: (name) => host.replaceStep(name),
    });
  }

  /** Attempts in flight. */
  get inFlight(): number {
    return this.#attempts.size;
  }
  /** The same, by name. */
  get running(): string[] {
    return [...this.#attempts.running].map(({ seq, number }) => `${this.#run.runId}/${seq}/${number}`);
  }
  /** Is there anything to write of them that no turn carries? */
  get hasNews(): boolean {
    return this.#due.length > 0 || this.#rows.length > 0;
  }
  get hasDue(): boolean {
    return this.#due.length > 0;
  }
  command(seq: number): OpeningCommand | undefined {
    return this.#open.get(seq)?.command;
  }
  /** The number of its next attempt. */
  nextAttempt(seq: number): number {
    return (this.#open.get(seq)?.tried ?? 0) + 1;
  }

  // ── what turns open and settle ──

  opened(command: OpeningCommand, time: number): void {
    if (isStep(command)) this.#open.set(command.seq, { command, time, tried: 0, listed: false });
  }
  /** D6 D12: a transaction whose outcome was read in the inbox before its own answer came has completed: nobody waits for that any more. */
  answered(seq: number): void {
    const attempt = this.#attempts.forget(seq);
    if (attempt !== undefined) this.completed(attempt, true);
  }
  settled(seq: number): void {
    this.#open.delete(seq);
    this.#forgiven.delete(seq);
  }
  /** A replay begins anew: so does all that is known of steps. */
  clear(): void {
    this.#attempts.abandonAll(undefined);
    this.#open.clear();
    this.#forgiven.clear();
  }
  /** D10: what a resume has voided is counted anew. */
  forgive(turns: readonly { readonly time: number; readonly jobs: readonly Job[] }[], attempts: readonly AttemptRow[]): void {
    for (const { time, jobs } of turns) {
      for (const job of jobs) {
        if (job.type !== "resume") continue;
        for (const seq of job.voids) {
          // One that has not ended may be the first after the resume, announced in the same commit.
          const isBefore = ({ startedAt, endedAt }: AttemptRow): boolean => (endedAt === undefined ? startedAt < time : endedAt <= time);
          const before = attempts.filter((row) => row.seq === seq && isBefore(row));
          this.#forgiven.set(seq, Math.max(1, ...before.map((row) => row.number)));
        }
      }
    }
  }
  /** Where they stand: since this worker parked the run, others may have made attempts without a turn (D7, D8). */
  recount({ attempts, inbox }: ClaimedRun, unsure: Unsure | undefined): void {
    this.#due = [];
    for (const step of this.#open.values()) {
      const last = attempts.filter((row) => row.seq === step.command.seq).at(-1);
      if (unsure !== undefined && isNotBegun(step, last, unsure)) {
        step.tried = (last?.number ?? 1) - 1;
        this.#timers.setRetry(step.command.seq, 0);
      } else this.#recountOne(step, last, inbox);
    }
  }
  #recountOne(step: OpenStep, last: AttemptRow | undefined, inbox: readonly InboxMessage[]): void {
    const { seq } = step.command;
    step.tried = last?.number ?? 1;
    this.#timers.clearRetry(seq);
    // D6: a transaction that was recorded, by a worker that could not say so any more, has not been lost.
    if (inbox.some(({ job }) => job.type === "resolve" && job.seq === seq)) {
      if (last !== undefined) this.#rows.push({ ...last, status: "completed" });
      return;
    }
    const endedAt = this.#host.now();
    // Its first attempt was begun by whoever committed the command, and never came back (D7).
    if (last === undefined) this.#rows.push({ seq, number: 1, status: "lost", startedAt: step.time, endedAt, workerId: "" });
    // W4: whoever made it gave the run back without waiting for it.
    else if (last.status === "running") this.#rows.push({ ...last, status: "lost", endedAt });
    this.#timers.setRetry(seq, last?.status === "failed" ? (last.retryAt ?? 0) : 0);
  }

  // ── attempts ──

  /** Their time has come: the next commit says so, then they begin. */
  due(seqs: readonly number[]): void {
    this.#due.push(...seqs);
  }
  /** Announces the attempts that are due; to be started once that is committed. What has none left is settled by a job. */
  announceDue(): Due {
    if (this.#due.length === 0) return NOTHING_DUE;
    const starting: { seq: number; number: number }[] = [];
    const exhausted: Job[] = [];
    for (const seq of this.#due.splice(0)) {
      const step = this.#open.get(seq);
      const body = this.#run.executor.body(seq);
      if (step === undefined || body === undefined) continue;
      const failure = this.#exhausted(seq, body, step.tried);
      if (failure !== undefined) {
        exhausted.push({ type: "resolve", seq, outcome: failure });
        continue;
      }
      const number = ++step.tried;
      step.listed = true;
      starting.push({ seq, number });
      this.#rows.push({ seq, number, status: "running", startedAt: this.#host.now(), workerId: this.#host.workerId });
    }
    return { starting, exhausted };
  }
  /** D7: attempts that never came back count too. */
  #exhausted(seq: number, body: StepBody, tried: number): Outcome | undefined {
    const last = tried - (this.#forgiven.get(seq) ?? 0);
    const lost = new HoldfastError(`The worker that ran attempt ${last} did not come back, or could not store its outcome.`, {
      code: "HF_WORKER_LOST",
    });
    if (last <= 0 || retryAfter(body, last, lost, 0) !== undefined) return undefined;
    return { status: "failed", error: serializeError(lost), attempts: last };
  }
  /** W4: their commands are recorded, but the worker that recorded them stops: whoever comes next begins with attempt 1. */
  notBegun(seqs: readonly number[]): void {
    const now = this.#host.now();
    for (const seq of seqs)
      this.#rows.push({ seq, number: 0, status: "failed", startedAt: now, endedAt: now, workerId: this.#host.workerId, retryAt: 0 });
  }
  /** What the commit of this turn, or of none, says of attempts: one has completed in the commit that records its outcome (D6, D12). */
  takeRows(turn: Turn | undefined): readonly AttemptRow[] {
    if (this.#rows.length === 0 && this.#settledRows.length === 0) return NO_ROWS;
    const waiting: AttemptRow[] = [];
    for (const row of this.#settledRows) {
      const recorded = turn?.jobs.some((job) => job.type === "resolve" && job.seq === row.seq) === true;
      (recorded ? this.#rows : waiting).push(row);
    }
    this.#settledRows = waiting;
    const rows = this.#rows;
    if (rows.length > 0) this.#rows = [];
    return rows;
  }

  /** D9: a commit was not written, and its turn counts for nothing: a later one says this of attempts. */
  takeBack({ attempts = NO_ROWS, turn }: Pick<TurnCommit, "attempts" | "turn">): void {
    const isOutcome = ({ seq, status }: AttemptRow): boolean =>
      status === "completed" && turn?.jobs.some((job) => job.type === "resolve" && job.seq === seq) === true;
    this.#rows.unshift(...attempts.filter((row) => !isOutcome(row)));
    this.#settledRows.unshift(...attempts.filter(isOutcome));
  }

  start(seq: number, number: number): void {
    const { executor, execution, runId } = this.#run;
    const body = executor.body(seq);
    const step = this.#open.get(seq);
    if (body === undefined || step === undefined) return;
    step.tried = number;
    const { unit, name, n } = step.command;
    const key = () => `${runId}/${execution === 1 ? "" : `~${execution}/`}${formatLocation(unit, name, n)}`;
    const given = body.kind === "transaction" ? this.#inTransaction(seq, body, key(), number) : body;
    this.#attempts.start(seq, given, number, this.#forgiven.get(seq) ?? 0, key);
  }
  /** D6: the outcome is in the inbox by the time the body has ended; it is not reported a second time. */
  #inTransaction(seq: number, body: StepBody, idempotencyKey: string, attempt: number): StepBody {
    const run = async (info: { signal: AbortSignal }) => {
      const { runId, epoch } = this.#run;
      const message = await this.#host.transact({ runId, epoch, seq }, body, { attempt, idempotencyKey, signal: info.signal });
      if (message === "stale") throw new HoldfastError("Another worker has this run.", { code: "HF_CLAIM_LOST" });
      return new Recorded(message);
    };
    return { ...body, run: run as never };
  }
  /** An attempt failed and `retryAt` is when the next is due; undefined: there is none. */
  failed({ seq, number, startedAt }: Attempt, error: AttemptRow["error"], retryAt: number | undefined): void {
    const row = { seq, number, startedAt, endedAt: this.#host.now(), workerId: this.#host.workerId, status: "failed", error } as const;
    this.#rows.push(retryAt === undefined ? row : { ...row, retryAt });
    if (retryAt !== undefined) this.#timers.setRetry(seq, retryAt);
  }
  /** `isRecorded`: its outcome is durable already. An attempt without a row leaves none. */
  completed({ seq, number, startedAt }: Attempt, isRecorded: boolean): void {
    if (this.#open.get(seq)?.listed !== true) return;
    const row = { seq, number, startedAt, endedAt: this.#host.now(), workerId: this.#host.workerId, status: "completed" } as const;
    (isRecorded ? this.#rows : this.#settledRows).push(row);
  }

  /** The workflow gave it up (C7), or with `join` only tells it. */
  cancel(seq: number, join: boolean): void {
    this.#attempts.cancel(seq, new HoldfastError("The step was cancelled.", { code: "HF_STEP_CANCELED" }), join);
  }
  /** Nobody waits for them any more. */
  abandonAll(reason: unknown): void {
    this.#attempts.abandonAll(reason);
  }
  /** The same, with rows that say so. */
  loseAll(reason: unknown): void {
    const endedAt = this.#host.now();
    for (const { seq, number, startedAt } of this.#attempts.abandonAll(reason))
      this.#rows.push({ seq, number, status: "lost", startedAt, endedAt, workerId: this.#host.workerId });
  }
}

/** D7: the last attempt that the store knows of is one that was announced, and no more. */
function isNotBegun({ command: { seq } }: OpenStep, last: AttemptRow | undefined, { attempts }: Unsure): boolean {
  if (last?.status === "failed" || last?.status === "completed") return false;
  return attempts.some((one) => one.seq === seq && one.number === (last?.number ?? 1));
}
