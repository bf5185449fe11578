// Activities in memory: their queue, their attempts, their timeouts.
// Owns: the tasks that are not over, and the rows of attempts that are.
// Invariants: D11 (leases, timeouts, heartbeats, late answers dropped), D8 (retries by policy), D12 (attempts are kept).

import {
  type ActivityLimit,
  HoldfastError,
  type Outcome,
  retryDelay,
  type SerializedError,
  StepTimeoutError,
  serializeError,
} from "@holdfast/core";
import { KEY_SLOT, QUEUE_SLOT, TASK_NEEDS } from "../filing/rules.ts";
import type { AttemptRow, ClaimedTask, NewTask, Store, TaskAnswer, TaskClaimRequest } from "../port.ts";
import type { QueueTable } from "./queueTable.ts";
import { claimedTask, type KeptTask } from "./state.ts";
import { WorkQueue } from "./workQueue.ts";

type Heartbeat = Parameters<Store["heartbeat"]>[0][number];
export interface TasksHost {
  /** Tells a run how its activity has ended. */
  resolve(task: { readonly runId: string; readonly execution: number; readonly seq: number }, outcome: Outcome, now: number): void;
  deadlineOf(runId: string): number | undefined;
  /** K7: the run can't meet its deadline any more. */
  expire(runId: string, now: number): void;
}

export class Tasks {
  readonly #tasks = new Map<number, KeptTask>();
  readonly #byRun = new Map<string, Set<KeptTask>>();
  readonly work: WorkQueue<KeptTask>;
  readonly #attempts = new Map<string, AttemptRow[]>();
  readonly #host: TasksHost;
  /** No limit of any task passes before this moment. */
  #nextLimit = Number.POSITIVE_INFINITY;
  #lastId = 0;
  #lastToken = 0;

  constructor(table: QueueTable, host: TasksHost) {
    this.#host = host;
    this.work = new WorkQueue<KeptTask>(table, {
      needs: () => TASK_NEEDS,
      holds: (task) => (this.#tasks.has(task.id) && task.workerId !== undefined && this.work.isFiled(task) ? QUEUE_SLOT | KEY_SLOT : 0),
      endLease: () => {}, // D11: attempts whose lease has ended are over before any claim
    });
  }

  // ── the queue ──

  get queues(): Iterable<string> {
    return this.work.queues;
  }
  all(): Iterable<KeptTask> {
    return this.#tasks.values();
  }
  /** Q1: the queue has got its limits, or lost them. */
  fileAnew(queue: string): void {
    this.work.fileAnew(queue);
    for (const task of this.#tasks.values()) {
      if (task.queue !== queue) continue;
      this.work.put(queue, task.activity, undefined, task);
      if (task.workerId !== undefined && this.work.isFiled(task)) this.work.hold(queue, task);
    }
  }

  add(runId: string, execution: number, task: NewTask, now: number): void {
    const id = ++this.#lastId;
    const kept: KeptTask = {
      ...task,
      id,
      order: id,
      priority: task.priority ?? 0,
      runId,
      execution,
      scheduledAt: now,
      availableAt: now,
      attempt: task.attempt ?? 0,
      token: 0,
      workerId: undefined,
      startedAt: 0,
      lastHeartbeat: undefined,
      heartbeatAt: 0,
      leaseEndsAt: 0,
      lease: 0,
    };
    this.#tasks.set(id, kept);
    const siblings = this.#byRun.get(runId);
    if (siblings === undefined) this.#byRun.set(runId, new Set([kept]));
    else siblings.add(kept);
    this.#changed(kept);
  }
  /** Abandons tasks of a run: these, or all (C7, and at its end). False: no worker had any of them. */
  removeOf(runId: string, now: number, seqs?: readonly number[]): boolean {
    let wasHeld = false;
    for (const task of this.#byRun.get(runId) ?? []) {
      if (seqs !== undefined && !seqs.includes(task.seq)) continue;
      if (task.workerId !== undefined) {
        this.#keepAttempt(task, "lost", undefined, now);
        wasHeld = true;
      }
      this.#remove(task);
    }
    return wasHeld;
  }
  /** Attempts of these operations (L4), or all: the next execution uses their numbers again (P10). */
  forgetAttemptsOf(runId: string, seqs?: ReadonlySet<number>): void {
    const rows = this.#attempts.get(runId);
    if (rows === undefined || seqs === undefined) this.#attempts.delete(runId);
    else this.#attempts.set(runId, rows.filter(({ seq }) => !seqs.has(seq))); // biome-ignore format: one line
  }
  #remove(task: KeptTask): void {
    task.availableAt = undefined;
    this.#tasks.delete(task.id);
    const siblings = this.#byRun.get(task.runId);
    siblings?.delete(task);
    if (siblings?.size === 0) this.#byRun.delete(task.runId);
  }
  #changed(task: KeptTask): void {
    this.work.put(task.queue, task.activity, undefined, task);
    this.#nextLimit = Math.min(this.#nextLimit, limitOf(task)?.at ?? Number.POSITIVE_INFINITY);
  }
  claim(request: TaskClaimRequest, now: number): { tasks: ClaimedTask[]; nextAt: number | undefined } {
    const { queue, activities, limit, lease, workerId } = request;
    const accepts = (activity: string): boolean => activities.includes(activity);
    const { known } = request;
    const isLost = (task: KeptTask): boolean =>
      task.workerId === workerId && task.queue === queue && accepts(task.activity) && known?.includes(task.id) === false;
    const lost = known === undefined ? [] : [...this.#tasks.values()].filter(isLost).slice(0, limit);
    for (const task of lost) task.attempt--; // D7: it has not begun
    const taken = lost;
    const isPast = (task: KeptTask): boolean => {
      if (this.#isPast(task.runId, now)) task.availableAt = undefined;
      return task.availableAt === undefined;
    };
    const take = (task: KeptTask): void => {
      task.availableAt = undefined;
      task.workerId = workerId;
      taken.push(task);
    };
    const nextAt = this.work.claim({ queue, accepts, limit: limit - taken.length, isPast, take }, now);
    for (const task of taken) {
      task.attempt++;
      task.token = ++this.#lastToken;
      task.startedAt = now;
      task.heartbeatAt = now;
      task.lease = lease;
      task.leaseEndsAt = now + lease;
      this.#changed(task);
    }
    return { tasks: taken.map(claimedTask), nextAt };
  }

  /** K7: no task of a run past its deadline begins; they are deleted when the run has ended. */
  #isPast(runId: string, moment: number): boolean {
    const deadline = this.#host.deadlineOf(runId);
    return deadline !== undefined && deadline <= moment;
  }
  cutLeases(now: number): void {
    for (const task of this.#tasks.values()) {
      const { availableAt = 0 } = task;
      if (task.workerId === undefined && availableAt > now && availableAt <= task.scheduledAt) task.availableAt = now;
      else if (task.workerId !== undefined && task.leaseEndsAt > now + task.lease * 1.1) task.leaseEndsAt = now + task.lease;
      else continue;
      this.#changed(task);
    }
    this.work.cutStarts(now);
  }

  // ── attempts ──

  #held({ id, token }: { readonly id: number; readonly token: number }): KeptTask | undefined {
    const task = this.#tasks.get(id);
    return task !== undefined && task.token === token && task.workerId !== undefined ? task : undefined;
  }
  heartbeat(beat: Heartbeat, now: number): boolean {
    const task = this.#held(beat);
    if (task === undefined) return false;
    task.lease = beat.lease;
    task.leaseEndsAt = now + beat.lease;
    if (beat.details !== undefined) {
      task.lastHeartbeat = beat.details;
      task.heartbeatAt = now;
    }
    this.#changed(task);
    return true;
  }
  answer(answer: TaskAnswer, now: number): boolean {
    const task = this.#held(answer);
    if (task === undefined) return false;
    const { outcome } = answer;
    if (outcome.status === "completed") {
      this.#keepAttempt(task, "completed", undefined, now);
      this.#over(task, outcome, now);
    } else {
      this.#keepAttempt(task, "failed", outcome.error, now);
      if (outcome.retryable) this.#retry(task, outcome.error, outcome.after ?? retryDelay(task.retry, task.attempt, outcome.random), now);
      else this.#over(task, { status: "failed", error: outcome.error, attempts: task.attempt }, now);
    }
    return true;
  }
  attemptsOf(runId: string): AttemptRow[] {
    const running = [...(this.#byRun.get(runId) ?? [])].filter(({ workerId }) => workerId !== undefined);
    return [...(this.#attempts.get(runId) ?? []), ...running.map((task) => attemptRow(task, "running", undefined, undefined))];
  }
  #keepAttempt(task: KeptTask, status: AttemptRow["status"], error: SerializedError | undefined, now: number): void {
    this.keepAttempt(task.runId, attemptRow(task, status, error, now));
  }
  keepAttempt(runId: string, row: AttemptRow): void {
    const rows = this.#attempts.get(runId);
    if (rows === undefined) this.#attempts.set(runId, [row]);
    else rows.push(row);
  }
  #over(task: KeptTask, outcome: Outcome, now: number): void {
    this.#remove(task);
    this.#host.resolve(task, outcome, now);
  }
  #retry(task: KeptTask, error: SerializedError, delay: number, now: number): void {
    const next = now + delay;
    const tooLate = task.scheduleToClose !== undefined && next >= task.scheduledAt + task.scheduleToClose;
    if (task.attempt >= task.retry.maxAttempts || tooLate) {
      this.#over(task, { status: "failed", error, attempts: task.attempt }, now);
      return;
    }
    const rows = this.#attempts.get(task.runId);
    const last = rows?.at(-1);
    if (last?.seq === task.seq && last.number === task.attempt) rows?.splice(-1, 1, { ...last, retryAt: next });
    task.workerId = undefined;
    task.token = ++this.#lastToken;
    if (this.#isPast(task.runId, next)) return this.#host.expire(task.runId, now); // K7: it would come too late
    task.availableAt = next;
    this.#changed(task);
  }

  // ── limits of time ──

  /** Ends the tasks and attempts that have timed out. False: there were none. */
  sweep(now: number): boolean {
    if (now < this.#nextLimit) return false;
    this.#nextLimit = Number.POSITIVE_INFINITY;
    let isLate = false;
    for (const task of [...this.#tasks.values()]) {
      const limit = limitOf(task);
      if (limit === undefined) continue;
      if (limit.at > now) this.#nextLimit = Math.min(this.#nextLimit, limit.at);
      else {
        this.#late(task, limit, now);
        isLate = true;
      }
    }
    return isLate;
  }
  /** When the next one times out. */
  get nextLimit(): number | undefined {
    const limits = [...this.#tasks.values()].flatMap((task) => limitOf(task)?.at ?? []);
    return limits.length === 0 ? undefined : Math.min(...limits);
  }
  #late(task: KeptTask, limit: Limit, now: number): void {
    const running = task.workerId !== undefined;
    const error = serializeError(
      limit.name === undefined
        ? new HoldfastError(`The worker that ran attempt ${task.attempt} was lost: its lease expired.`, { code: "HF_WORKER_LOST" })
        : new StepTimeoutError({ step: task.activity, timeout: limit.length, attempt: Math.max(1, task.attempt), limit: limit.name }),
    );
    if (running) this.#keepAttempt(task, limit.kind === "lease" ? "lost" : "failed", error, now);
    if (limit.kind === "task") this.#over(task, { status: "failed", error, attempts: task.attempt }, now);
    // A worker that died says nothing about the activity: the next attempt need not wait.
    else this.#retry(task, error, limit.kind === "lease" ? 0 : retryDelay(task.retry, task.attempt, 0.5), now);
  }
}

interface Limit {
  readonly at: number;
  readonly length: number;
  /** None for a lease: it is the worker's, not the activity's. */
  readonly name: ActivityLimit | undefined;
  /** What ends then: the task, an attempt, or only its lease. */
  readonly kind: "task" | "attempt" | "lease";
}

/** The first limit that a task reaches in its current state. */
function limitOf(task: KeptTask): Limit | undefined {
  const { scheduledAt, startedAt, heartbeatAt, leaseEndsAt, scheduleToClose, scheduleToStart, startToClose, heartbeat } = task;
  const limits: Limit[] = [];
  if (scheduleToClose !== undefined)
    limits.push({ at: scheduledAt + scheduleToClose, length: scheduleToClose, name: "scheduleToClose", kind: "task" });
  if (task.workerId === undefined) {
    const isStarted = task.token > 0; // attempts of before a resume say nothing of this (D10)
    if (scheduleToStart !== undefined && !isStarted)
      limits.push({ at: scheduledAt + scheduleToStart, length: scheduleToStart, name: "scheduleToStart", kind: "task" });
  } else {
    if (startToClose !== undefined)
      limits.push({ at: startedAt + startToClose, length: startToClose, name: "startToClose", kind: "attempt" });
    if (heartbeat !== undefined) limits.push({ at: heartbeatAt + heartbeat, length: heartbeat, name: "heartbeat", kind: "attempt" });
    limits.push({ at: leaseEndsAt, length: 0, name: undefined, kind: "lease" });
  }
  return limits.reduce<Limit | undefined>((first, limit) => (first === undefined || limit.at < first.at ? limit : first), undefined);
}

function attemptRow(
  task: KeptTask,
  status: AttemptRow["status"],
  error: SerializedError | undefined,
  endedAt: number | undefined,
): AttemptRow {
  return { seq: task.seq, number: task.attempt, status, error, startedAt: task.startedAt, endedAt, workerId: task.workerId ?? "" };
}
