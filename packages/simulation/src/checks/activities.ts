// Checks activities as the store hands them out and accepts their answers: the oracles of tasks.
// Owns: the last attempt of each activity, when the next may begin, and which activities their runs have cancelled.
// Invariants: D8 (attempts and waits follow the policy), D11 (an attempt that is over can't answer), C7 (no worker is given a cancelled
// activity).

import { retryDelay } from "@holdfast/core";
import type { ClaimedTask, TaskAnswer, TurnCommit } from "holdfast/store";
import type { World } from "../world.ts";

interface Known {
  readonly task: ClaimedTask;
  isAnswered: boolean;
  /** When the next attempt may begin at the earliest, as far as the answers so far say. */
  notBefore: number;
}
type Operation = Pick<ClaimedTask, "runId" | "execution" | "seq">;

export class ActivityChecks {
  readonly #world: World;
  /** The last attempt of each activity, by the id of its task. */
  readonly #known = new Map<number, Known>();
  readonly #givenUp = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  committed({ runId, execution, turn, tasks = [] }: TurnCommit): void {
    for (const { seq } of tasks) this.#givenUp.delete(keyOf({ runId, execution, seq })); // D10: the resumed run schedules it again
    for (const command of turn?.commands ?? [])
      if (command.type === "cancel") this.#givenUp.add(keyOf({ runId, execution, seq: command.seq }));
  }
  claimed(task: ClaimedTask): void {
    const { id, attempt, retry } = task;
    const notBefore = this.#known.get(id)?.notBefore ?? 0;
    if (attempt > retry.maxAttempts)
      this.#broken("retries", "D8", task, `began attempt ${attempt}; its policy allows ${retry.maxAttempts}`);
    if (notBefore > this.#world.now)
      this.#broken("retries", "D8", task, `began attempt ${attempt} ${notBefore - this.#world.now} ms before its policy allows it`);
    this.#wanted(task, "was given to a worker");
    this.#known.set(id, { task, isAnswered: false, notBefore: 0 });
  }
  /** Its lease was renewed. */
  heldOn(id: number): void {
    const known = this.#known.get(id);
    if (known !== undefined) this.#wanted(known.task, "had its lease renewed");
  }
  /** The store accepted the answer. */
  answered({ id, token, outcome }: TaskAnswer): void {
    const known = this.#known.get(id);
    if (known === undefined || known.task.token !== token || known.isAnswered)
      this.#world.violate("late answers", "D11", `the store accepted an answer to activity ${id} from an attempt that was over`);
    if (known === undefined) return;
    known.isAnswered = true;
    const { task } = known;
    this.#wanted(task, "was answered");
    if (outcome.status === "completed") return;
    if (outcome.retryable && outcome.error.name === "FatalError")
      this.#broken("retries", "D8", task, "failed with a fatal error and is retried");
    known.notBefore = this.#world.now + (outcome.after ?? retryDelay(task.retry, task.attempt, 0));
  }
  #wanted(task: ClaimedTask, what: string): void {
    if (this.#givenUp.has(keyOf(task))) this.#broken("given up", "C7", task, `${what} after its run had cancelled it`);
  }
  #broken(oracle: string, rule: string, { activity, runId, seq }: ClaimedTask, message: string): void {
    this.#world.violate(oracle, rule, `activity ${activity} (#${seq} of ${runId}) ${message}`);
  }
}

function keyOf({ runId, execution, seq }: Operation): string {
  return `${runId} ~${execution} #${seq}`;
}
