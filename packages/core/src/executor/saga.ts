// Runs the rollbacks of completed steps.
// Owns: the stack of rollbacks since the last checkpoint, and the unit that runs them.
// Invariants: S1 (reverse order of completion, each a durable step), S2 (after a crash the rollbacks continue where they stopped, because
// they are recorded like steps), L5 (no commit passes a step whose rollback may still run), F4 (a fork may have to leave rollbacks to its
// source).

import { CanceledError, reviveRecorded, StepFailedError, serializeError } from "../errors/index.ts";
import type { StepInfo } from "../model/index.ts";
import type { Payload } from "../protocol/index.ts";
import { isWithin } from "../protocol/location.ts";
import type { RetryPolicy } from "../values/index.ts";
import type { Execution } from "./execution.ts";
import type { Behaviour, Operation } from "./operation.ts";
import type { Unit, UnitOutcome } from "./unit.ts";

interface Entry {
  readonly seq: number;
  readonly location: string;
  readonly rollback: (output: unknown, info: StepInfo) => unknown;
  readonly output: Payload;
  readonly retry: RetryPolicy | undefined;
}

const ROLLBACK: Behaviour = {
  outcome(operation, outcome) {
    const execution = operation.unit.execution;
    if (outcome.status === "completed") execution.settle(operation, { ok: true, value: undefined });
    else {
      const cause = outcome.status === "failed" ? reviveRecorded(outcome.error) : new CanceledError(outcome.reason);
      const attempts = outcome.status === "failed" ? (outcome.attempts ?? 1) : 1;
      execution.settle(operation, { ok: false, error: new StepFailedError({ step: `rollback of ${operation.name}`, attempts, cause }) });
    }
  },
};

export class Saga {
  readonly #execution: Execution;
  #stack: Entry[] = [];
  /** The rollbacks in progress that have not begun, last first. */
  #due: Entry[] = [];
  #undoing = 0;
  /** The numbers of steps whose rollbacks belong to the source of this fork. */
  #disowned: ReadonlySet<number> | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
  }
  /** The number of rollbacks that may still run, including the one in progress. */
  get size(): number {
    return this.#stack.length + this.#undoing;
  }
  get empty(): boolean {
    return this.#stack.length === 0;
  }
  add(operation: Operation, rollback: Entry["rollback"], output: Payload): void {
    if (this.#disowned?.has(operation.seq) === true) return;
    this.#stack.push({ seq: operation.seq, location: operation.location, rollback, output, retry: operation.body?.retry });
  }
  clear(): void {
    this.#stack = [];
  }
  /** Leaves all rollbacks to the source of this fork, also those of `steps`, which the source completed but whose results come later (F4). */
  disown(steps: Iterable<number>): void {
    this.#disowned = new Set([...(this.#disowned ?? []), ...steps]);
    this.#undoing -= this.#due.length;
    this.#due = [];
    this.#stack = [];
  }
  /** The numbers of the steps that would be rolled back. */
  get steps(): number[] {
    return this.#stack.map((entry) => entry.seq);
  }
  /** Discards all rollbacks except those of these steps (L5). */
  keep(steps: readonly number[]): void {
    this.#stack = this.#stack.filter((entry) => steps.includes(entry.seq));
  }
  holdsBeneath(location: string): boolean {
    return this.#stack.some((entry) => isWithin(entry.location, location));
  }

  /** Runs all rollbacks, last first, in a separate unit; stops at the first one that fails for good (S2). */
  run(error: unknown, onEnd: (outcome: UnitOutcome) => void): void {
    const execution = this.#execution;
    this.#due = this.#stack;
    this.#stack = [];
    this.#undoing = this.#due.length;
    execution.emit({ type: "rollBack", error: serializeError(error) });
    execution.spawn({
      role: "internal",
      path: "~rollback",
      parent: undefined,
      order: [0],
      run: async (unit) => {
        for (let entry = this.#due.pop(); entry !== undefined; entry = this.#due.pop()) {
          await this.#undo(unit, entry);
          this.#undoing--;
        }
      },
      onEnd,
    });
  }
  #undo(unit: Unit, entry: Entry): Promise<unknown> {
    const execution = this.#execution;
    const operation = execution.open(unit, "rollback", entry.location, { of: entry.seq });
    if (!operation.closed) {
      operation.behaviour = ROLLBACK;
      const run = (info: StepInfo) => entry.rollback(execution.codec.decode(entry.output), info);
      operation.body = { kind: "rollback", name: entry.location, run: run as never, retry: entry.retry, timeout: undefined };
    }
    return operation.promise;
  }
}
