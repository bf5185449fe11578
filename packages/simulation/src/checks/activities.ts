// Activities as the store gives them out and takes their answers: the oracles of tasks.
// Owns: who has which attempt, when the next may begin, and which activities were given up.
// Invariants: D8 (attempts and waits as the policy says), D11 (an attempt that is over has no answer), C7 (what was given up is nobody's).

import { retryDelay } from "@holdfast/core";
import type { ClaimedTask, TaskAnswer, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";

interface Known {
  readonly task: ClaimedTask;
  isAnswered: boolean;
  /** Of the next attempt, as far as is known. */
  notBefore: number;
}
type Operation = Pick<ClaimedTask, "runId" | "execution" | "seq">;

export class ActivityChecks {
  readonly #world: World;
  /** By their id: the last attempt of each. */
  readonly #known = new Map<number, Known>();
  readonly #givenUp = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  committed({ runId, execution, turn, tasks = [] }: TurnCommit): void {
    for (const { seq } of tasks) this.#givenUp.delete(keyOf({ runId, execution, seq })); // D10: asked for again
    for (const command of turn?.commands ?? [])
      if (command.type === "cancel") this.#givenUp.add(keyOf({ runId, execution, seq: command.seq }));
  }
  claimed(task: ClaimedTask): void {
    const { id, attempt, retry } = task;
    const notBefore = this.#known.get(id)?.notBefore ?? 0;
    if (attempt > retry.maxAttempts) this.#broken("retries", "D8", task, `began its attempt ${attempt}; it has ${retry.maxAttempts}`);
    if (notBefore > this.#world.now)
      this.#broken("retries", "D8", task, `began its attempt ${attempt} ${notBefore - this.#world.now} ms before its policy lets it`);
    this.#wanted(task, "was given to a worker");
    this.#known.set(id, { task, isAnswered: false, notBefore: 0 });
  }
  /** Its lease was renewed. */
  heldOn(id: number): void {
    const known = this.#known.get(id);
    if (known !== undefined) this.#wanted(known.task, "goes on");
  }
  /** The answer was taken. */
  answered({ id, token, outcome }: TaskAnswer): void {
    const known = this.#known.get(id);
    if (known === undefined || known.task.token !== token || known.isAnswered)
      this.#world.violate("late answers", "D11", `an answer to activity ${id} was taken from an attempt that was over`);
    if (known === undefined) return;
    known.isAnswered = true;
    const { task } = known;
    this.#wanted(task, "was answered");
    if (outcome.status === "completed") return;
    if (outcome.retryable && outcome.error.name === "FatalError")
      this.#broken("retries", "D8", task, "failed for good, and is to be retried");
    known.notBefore = this.#world.now + (outcome.after ?? retryDelay(task.retry, task.attempt, 0));
  }
  #wanted(task: ClaimedTask, what: string): void {
    if (this.#givenUp.has(keyOf(task))) this.#broken("given up", "C7", task, `${what} after its run had given it up`);
  }
  #broken(oracle: string, rule: string, { activity, runId, seq }: ClaimedTask, message: string): void {
    this.#world.violate(oracle, rule, `activity ${activity} (#${seq} of ${runId}) ${message}`);
  }
}

function keyOf({ runId, execution, seq }: Operation): string {
  return `${runId} ~${execution} #${seq}`;
}
