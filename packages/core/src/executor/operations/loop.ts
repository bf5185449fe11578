// `ctx.loop`: iterations with durable state and a bounded history.
// Owns: the state and number of the current iteration, and when to commit and trim.
// Invariants: L1–L5 (each iteration is a unit that ends before the next starts; commits only if no other unit is alive), P8 (continues
// with the decoded state after a commit).

import { preview } from "../../base/text.ts";
import { IllegalReturnError, InvalidInputError } from "../../errors/index.ts";
import { isLoopResult, type LoopOptions } from "../../model/index.ts";
import type { CommitCommand, Payload } from "../../protocol/index.ts";
import { commitCommand, obstacle } from "../commits.ts";
import type { Execution } from "../execution.ts";
import type { Behaviour, Operation } from "../operation.ts";
import { guardedState, initialState } from "../states.ts";
import type { Unit, UnitOutcome } from "../unit.ts";

/** The default of `commitInterval`, `historyEvery` and `historyKeep`. */
const DEFAULT_INTERVAL = 20;

export type IterationRun = (unit: Unit, state: unknown) => unknown;

class LoopScope implements Behaviour {
  readonly #operation: Operation;
  readonly #execution: Execution;
  readonly #run: IterationRun;
  readonly #commitInterval: number;
  readonly #historyEvery: number;
  readonly #historyKeep: number;
  readonly #ordinal: number;
  #state: unknown;
  #iteration = 0;
  #trimmedAt = 0;
  #unit: Unit | undefined;
  /** Iterations have changed the state of a receive: a replay that skips them would lose the changes. */
  #wroteState = false;
  #warned = false;

  constructor(operation: Operation, options: LoopOptions<unknown>, state: unknown, run: IterationRun) {
    this.#operation = operation;
    this.#execution = operation.unit.execution;
    this.#run = run;
    this.#state = guardedState(this.#execution, state);
    this.#commitInterval = options.commitInterval ?? DEFAULT_INTERVAL;
    this.#historyEvery = options.historyEvery ?? DEFAULT_INTERVAL;
    this.#historyKeep = options.historyKeep ?? DEFAULT_INTERVAL;
    this.#ordinal = operation.unit.nextScope();
    operation.behaviour = this;
    if (!operation.committed) this.#start();
  }

  #start(): void {
    const parent = this.#operation.unit;
    const state = this.#state;
    this.#unit = this.#execution.spawn({
      role: parent.role,
      path: `${this.#operation.location}/~${this.#iteration}`,
      parent,
      order: parent.branchOrder(this.#ordinal, this.#iteration),
      receive: parent.receive,
      run: (unit) => this.#run(unit, state),
      onEnd: (outcome) => this.#ended(outcome),
    });
  }

  #ended(outcome: UnitOutcome): void {
    this.#wroteState ||= this.#unit?.wroteState === true;
    this.#unit = undefined;
    const execution = this.#execution;
    const canceled = this.#operation.unit.canceled;
    if (canceled !== undefined) return execution.conclude(this.#operation, "canceled", { ok: false, error: canceled });
    if (!outcome.ok) return execution.conclude(this.#operation, "failed", { ok: false, error: outcome.error as Error });
    const result = outcome.value;
    if (result !== undefined && !isLoopResult(result)) {
      execution.violate(
        new IllegalReturnError(`An iteration of ${this.#operation.location} must return Loop.continue(state) or Loop.break(value).`),
      );
      return;
    }
    if (result?.loop === "break") return execution.conclude(this.#operation, "completed", { ok: true, value: result.value });
    this.#state = guardedState(execution, result?.state);
    this.#iteration++;
    if (this.#iteration % this.#commitInterval === 0 && !this.#commit()) return;
    this.#start();
  }

  /** Commits the state if it can. False if the state can't be encoded: then the loop has failed. */
  #commit(): boolean {
    const execution = this.#execution;
    const why = this.#wroteState
      ? "its iterations call updateState, which a replay that skips them would lose"
      : obstacle(execution, this.#operation);
    if (why !== undefined) {
      if (!this.#warned) {
        const message = `The loop ${this.#operation.location} can't commit: ${why}. Until then it continues without commits, and its history grows.`;
        execution.log("warn", message, this.#operation.unit);
      }
      this.#warned = true;
      return true;
    }
    let value: Payload;
    try {
      value = execution.encodeOrRefuse(this.#operation.unit, "commit", this.#state, `the state of loop ${this.#operation.location}`);
    } catch (error) {
      execution.conclude(this.#operation, "failed", { ok: false, error: error as Error });
      return false;
    }
    let trim: number | undefined;
    if (this.#iteration - this.#trimmedAt >= this.#historyEvery) {
      this.#trimmedAt = this.#iteration - (this.#iteration % this.#historyEvery);
      trim = Math.max(0, this.#iteration - this.#historyKeep);
    }
    execution.emit(commitCommand(execution, this.#operation, this.#iteration, value, trim));
    this.#state = guardedState(execution, execution.decode(value));
    return true;
  }
  restore(_operation: Operation, commit: CommitCommand): void {
    this.#iteration = commit.count;
    this.#trimmedAt = commit.count - (commit.count % this.#historyEvery);
    this.#state = guardedState(this.#execution, this.#execution.decode(commit.value));
    this.#start();
  }

  cancel(operation: Operation, error: Error): void {
    if (operation.committed) return; // replay: the commit came first, and the iteration that it starts is cancelled from the start
    if (this.#unit !== undefined) this.#unit.cancel(error as NonNullable<Unit["canceled"]>);
    else this.#execution.conclude(this.#operation, "canceled", { ok: false, error });
  }
}

export function loop(unit: Unit, options: LoopOptions<unknown>, run: IterationRun): Promise<unknown> {
  for (const key of ["commitInterval", "historyEvery", "historyKeep"] as const) {
    const value = options[key];
    if (value !== undefined && (!Number.isInteger(value) || value < (key === "historyKeep" ? 0 : 1))) {
      throw new InvalidInputError({
        what: `ctx.loop "${options.name}"`,
        issues: [{ message: `${key} must be a positive whole number, not ${preview(value)}.`, path: [key] }],
      });
    }
  }
  const { execution } = unit;
  let operation: Operation;
  let state: unknown;
  try {
    state = initialState(execution, options.state, `the initial state of loop ${options.name}`);
    operation = execution.open(unit, "loop", options.name);
  } catch (error) {
    operation = execution.refuse(unit, "loop", options.name, error as Error);
  }
  if (!operation.closed) new LoopScope(operation, options, state, run);
  return operation.promise;
}
