// Checks claims of activities in queues with limits or a pause.
// Owns: the attempts that workers have.
// Invariants: Q1 Q2 (activities have the limits of their queue, apart from its runs), Q4 (each attempt is a start), Q7, Q8.

import type { ClaimedTask, Heartbeat, TaskAnswer, TaskClaimRequest, TurnCommit } from "holdfast/store";
import type { FreeStore } from "../stores.ts";
import type { World } from "../world.ts";
import { PARTS, type QueueState } from "./queueState.ts";

interface Held {
  readonly task: ClaimedTask;
  leasedUntil: number;
}

export class TaskSlots {
  readonly #world: World;
  readonly #inner: FreeStore;
  readonly #queueOf: (name: string) => QueueState | undefined;
  readonly #held = new Map<number, Held>();

  constructor(world: World, inner: FreeStore, queueOf: (name: string) => QueueState | undefined) {
    this.#world = world;
    this.#inner = inner;
    this.#queueOf = queueOf;
  }
  #broken(oracle: string, rule: string, { id, activity, runId, queue }: ClaimedTask, why: string): void {
    this.#world.violate(oracle, rule, `activity ${id} (${activity} of ${runId}) was claimed in ${queue}, which ${why}`);
  }
  async claimed(request: TaskClaimRequest, tasks: readonly ClaimedTask[]): Promise<void> {
    const { now } = this.#world;
    const queue = this.#queueOf(request.queue);
    await this.#forgetEnded();
    for (const task of tasks) {
      const before = this.#held.get(task.id);
      const isAgain = before?.task.attempt === task.attempt; // D7: its claim was not answered
      if (queue !== undefined && !isAgain) this.#check(queue, task, now);
      this.#held.set(task.id, { task, leasedUntil: now + request.lease });
    }
    if (queue !== undefined && tasks.length < request.limit) await this.#checkLeft(queue);
  }
  #check(queue: QueueState, task: ClaimedTask, now: number): void {
    const { key } = task;
    if (queue.pausedUntil(key, now) !== undefined) this.#broken("pauses", "Q8", task, "is paused");
    for (const part of PARTS) {
      const { concurrency, rate } = queue.limitOf(part, key);
      const isCounted = ({ task: { id, queue: its, key: own } }: Held): boolean =>
        id !== task.id && its === queue.name && (part === "queue" || own === key);
      const held = [...this.#held.values()].filter(isCounted).length;
      if (concurrency !== undefined && held >= concurrency)
        this.#broken("slots", "Q2", task, `has ${held} activities held at a limit of ${concurrency}`);
      const of = part === "key" ? { key } : undefined;
      const started = rate === undefined ? [] : queue.taskStarts.within(rate, now, of, "sure");
      if (rate !== undefined && started.length >= rate.limit)
        this.#broken("rates", "Q4", task, `has started ${started.length} activities within ${rate.per} ms at a limit of ${rate.limit}`);
    }
    queue.taskStarts.add(now, key);
  }
  /** Attempts that are over, or may be: of runs that have ended, and those whose time is up (D11). */
  async #forgetEnded(): Promise<void> {
    const held = [...this.#held.values()];
    const rows = await this.#inner.get(held.map(({ task }) => task.runId));
    for (const [i, { task, leasedUntil }] of held.entries()) {
      const row = rows[i];
      const isTimed = task.startToClose !== undefined || task.scheduleToClose !== undefined || task.heartbeat !== undefined;
      const isOpen = row?.finishedAt === undefined && row?.execution === task.execution;
      if (!isOpen || isTimed || leasedUntil <= this.#world.now) this.#held.delete(task.id);
    }
  }
  /** Q7: only where nothing except the number of slots can prevent a claim. */
  async #checkLeft({ name, spec }: QueueState): Promise<void> {
    if (spec?.rate !== undefined || spec?.perKey !== undefined || spec?.keys !== undefined) return;
    const { paused, pausedKeys, activities } = await this.#inner.getQueue(name);
    if (paused || pausedKeys.length > 0 || activities.waiting === 0) return;
    if (activities.held < (spec?.concurrency ?? Number.POSITIVE_INFINITY))
      this.#world.violate("idle", "Q7", `${activities.waiting} activities were not claimed in ${name}, which has room for them`);
  }
  /** A run has abandoned some. */
  committed({ runId, cancelTasks = [] }: TurnCommit): void {
    for (const { task } of this.#held.values()) if (task.runId === runId && cancelTasks.includes(task.seq)) this.#held.delete(task.id);
  }
  renewed({ id, lease }: Heartbeat): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.leasedUntil = this.#world.now + lease;
  }
  answered({ id }: TaskAnswer): void {
    this.#held.delete(id);
  }
}
