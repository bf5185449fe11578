// Activities in memory: their queue, their attempts, their timeouts.
// Owns: the tasks that are not over, and the rows of attempts that are.
// Invariants: D11 (leases, timeouts, heartbeats, late answers dropped), D8 (retries by policy).

import { HoldfastError, type Outcome, retryDelay, type SerializedError, StepTimeoutError, serializeError } from "@holdfast/core";
import type { AttemptRow, ClaimedTask, NewTask, TaskAnswer, TaskClaimRequest } from "../port.ts";
import { claimedTask, type KeptTask } from "./state.ts";

export class Tasks {
  readonly #tasks = new Map<number, KeptTask>();
  readonly #attempts = new Map<string, AttemptRow[]>();
  readonly #resolve: (runId: string, execution: number, seq: number, outcome: Outcome) => void;
  #lastId = 0;
  #lastToken = 0;

  constructor(resolve: (runId: string, execution: number, seq: number, outcome: Outcome) => void) {
    this.#resolve = resolve;
  }
  add(runId: string, execution: number, task: NewTask, now: number): void {
    const id = ++this.#lastId;
    this.#tasks.set(id, {
      ...task, id, runId, execution, scheduledAt: now, availableAt: now, attempt: 0, token: 0, workerId: undefined,
      startedAt: 0, lastHeartbeat: undefined, heartbeatAt: 0, leaseEndsAt: 0,
    });
  }
  removeOf(runId: string, seqs?: readonly number[]): void {
    for (const task of [...this.#tasks.values()]) {
      if (task.runId === runId && (seqs === undefined || seqs.includes(task.seq))) this.#tasks.delete(task.id);
    }
  }
  attemptsOf(runId: string): AttemptRow[] {
    const running = [...this.#tasks.values()].filter((task) => task.runId === runId && task.workerId !== undefined);
    return [
      ...(this.#attempts.get(runId) ?? []),
      ...running.map((task): AttemptRow => ({ seq: task.seq, number: task.attempt, status: "running", startedAt: task.startedAt, workerId: task.workerId ?? "" })),
    ];
  }

  claim(request: TaskClaimRequest, now: number): { tasks: ClaimedTask[]; nextAt: number | undefined } {
    const mine = [...this.#tasks.values()].filter(
      (task) => task.workerId === undefined && task.queue === request.queue && request.activities.includes(task.activity),
    );
    const ready = mine.filter((task) => task.availableAt <= now).sort((a, b) => a.availableAt - b.availableAt || a.id - b.id);
    const taken = ready.slice(0, request.limit);
    for (const task of taken) {
      task.attempt++;
      task.token = ++this.#lastToken;
      task.workerId = request.workerId;
      task.startedAt = now;
      task.heartbeatAt = now;
      task.leaseEndsAt = now + request.lease;
    }
    const later = mine.filter((task) => task.workerId === undefined).map((task) => task.availableAt);
    return { tasks: taken.map(claimedTask), nextAt: later.length === 0 ? undefined : Math.min(...later) };
  }
  #held(id: number, token: number): KeptTask | undefined {
    const task = this.#tasks.get(id);
    return task !== undefined && task.token === token && task.workerId !== undefined ? task : undefined;
  }
  heartbeat(beat: { id: number; token: number; lease: number; details?: KeptTask["lastHeartbeat"] | undefined }, now: number): boolean {
    const task = this.#held(beat.id, beat.token);
    if (task === undefined) return false;
    task.leaseEndsAt = now + beat.lease;
    if (beat.details !== undefined) {
      task.lastHeartbeat = beat.details;
      task.heartbeatAt = now;
    }
    return true;
  }
  answer(answer: TaskAnswer, now: number): boolean {
    const task = this.#held(answer.id, answer.token);
    if (task === undefined) return false;
    const { outcome } = answer;
    if (outcome.status === "completed") {
      this.#keep(task, "completed", undefined, now);
      this.#over(task, outcome);
    } else this.#failed(task, outcome.error, outcome.retryable, outcome.random, "failed", now);
    return true;
  }
  #keep(task: KeptTask, status: AttemptRow["status"], error: SerializedError | undefined, now: number): void {
    const rows = this.#attempts.get(task.runId) ?? [];
    rows.push({ seq: task.seq, number: task.attempt, status, error, startedAt: task.startedAt, endedAt: now, workerId: task.workerId ?? "" });
    this.#attempts.set(task.runId, rows);
  }
  #over(task: KeptTask, outcome: Outcome): void {
    this.#tasks.delete(task.id);
    this.#resolve(task.runId, task.execution, task.seq, outcome);
  }
  #failed(task: KeptTask, error: SerializedError, retryable: boolean, random: number, status: "failed" | "lost", now: number): void {
    this.#keep(task, status, error, now);
    const next = now + (status === "lost" ? 0 : retryDelay(task.retry, task.attempt, random));
    const tooLate = task.scheduleToClose !== undefined && next >= task.scheduledAt + task.scheduleToClose;
    if (!retryable || task.attempt >= task.retry.maxAttempts || tooLate) {
      this.#over(task, { status: "failed", error, attempts: task.attempt });
      return;
    }
    task.workerId = undefined;
    task.token = ++this.#lastToken;
    task.availableAt = next;
  }

  /** Ends attempts whose time is up. */
  sweep(now: number): void {
    for (const task of [...this.#tasks.values()]) {
      const timeout = (length: number) => serializeError(new StepTimeoutError({ step: task.activity, timeout: length, attempt: Math.max(1, task.attempt) }));
      if (task.scheduleToClose !== undefined && now >= task.scheduledAt + task.scheduleToClose) {
        if (task.workerId !== undefined) this.#keep(task, "failed", timeout(task.scheduleToClose), now);
        this.#over(task, { status: "failed", error: timeout(task.scheduleToClose), attempts: task.attempt });
      } else if (task.workerId === undefined) {
        if (task.attempt === 0 && task.scheduleToStart !== undefined && now >= task.scheduledAt + task.scheduleToStart) {
          this.#over(task, { status: "failed", error: timeout(task.scheduleToStart), attempts: 0 });
        }
      } else if (task.startToClose !== undefined && now >= task.startedAt + task.startToClose) this.#failed(task, timeout(task.startToClose), true, 0.5, "failed", now);
      else if (task.heartbeat !== undefined && now >= task.heartbeatAt + task.heartbeat) this.#failed(task, timeout(task.heartbeat), true, 0.5, "failed", now);
      else if (now >= task.leaseEndsAt) {
        const lost = new HoldfastError(`The worker that ran attempt ${task.attempt} did not come back.`, { code: "HF_WORKER_LOST" });
        this.#failed(task, serializeError(lost), true, 0.5, "lost", now);
      }
    }
  }
}
