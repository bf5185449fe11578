// `condition` and `ivar`: waits that the workflow's own code ends.
// Owns: the open conditions in waiting order.
// Invariants: C6 (a predicate is evaluated after the turn's other work; a cell is written once), X6 (conditions one at a time).

import { IllegalCallError } from "../../errors/index.ts";
import type { IVar } from "../../model/index.ts";
import { type Duration, parseDuration } from "../../values/index.ts";
import { entangle } from "../commits.ts";
import type { Execution } from "../execution.ts";
import { type Behaviour, type Operation, remember, type Settlement } from "../operation.ts";
import type { Unit } from "../unit.ts";
import { whenDue } from "./patches.ts";

export class Conditions implements Behaviour {
  readonly #execution: Execution;
  readonly #waiting = new Map<Operation, () => unknown>();

  constructor(execution: Execution) {
    this.#execution = execution;
  }
  add(operation: Operation, predicate: () => unknown): void {
    operation.behaviour = this;
    operation.floating = true;
    this.#waiting.set(operation, predicate);
  }
  /** Ends the first condition whose predicate is truthy. False if there is none. */
  settleNext(): boolean {
    for (const [operation, predicate] of this.#waiting) {
      const settlement = this.#read(predicate);
      if (this.#execution.poison !== undefined) return false;
      if (settlement === undefined) continue;
      entangle(this.#execution, "a condition", operation.unit);
      this.#conclude(operation, settlement.ok ? "completed" : "failed", settlement);
      return true;
    }
    return false;
  }
  #read(predicate: () => unknown): Settlement | undefined {
    try {
      const value = this.#execution.inClosure("a condition's predicate", predicate);
      return value ? { ok: true, value } : undefined;
    } catch (error) {
      return { ok: false, error: error as Error };
    }
  }
  #conclude(operation: Operation, status: "completed" | "failed" | "canceled" | "timedOut", settlement: Settlement): void {
    this.#waiting.delete(operation);
    this.#execution.conclude(operation, status, settlement);
  }
  cancel(operation: Operation, error: Error): void {
    this.#conclude(operation, "canceled", { ok: false, error });
  }
  /** On timeout the predicate is evaluated once more: if it is truthy, the condition has not timed out. */
  fire(operation: Operation): void {
    const predicate = this.#waiting.get(operation);
    const settlement = predicate === undefined ? undefined : this.#read(predicate);
    if (this.#execution.poison !== undefined) return;
    if (settlement === undefined) return this.#conclude(operation, "timedOut", { ok: true, value: undefined });
    entangle(this.#execution, "a condition", operation.unit);
    this.#conclude(operation, settlement.ok ? "completed" : "failed", settlement);
  }
  clear(): void {
    this.#waiting.clear();
  }
}

export function condition(unit: Unit, predicate: () => unknown, timeout: Duration | undefined): Promise<unknown> {
  const execution = unit.execution;
  const operation = execution.open(unit, "condition", "condition", timeout === undefined ? undefined : { timeout: parseDuration(timeout) });
  operation.timed = timeout !== undefined;
  if (!operation.closed) execution.conditions.add(operation, predicate);
  return operation.promise;
}

/** A write-once cell. Every unit may use it in its turn: it passes values between units. */
export class Cell<T> implements IVar<T>, Behaviour {
  /** The unit that created it. All code inside that unit can see the cell. */
  readonly #owner: Unit;
  readonly #execution: Execution;
  readonly #admit: (unit: Unit, call: string, run: () => Promise<unknown>) => Promise<unknown>;
  #written = false;
  #value: { readonly value: T } | undefined;
  readonly #waiters = new Set<Operation>();

  constructor(owner: Unit, admit: (unit: Unit, call: string, run: () => Promise<unknown>) => Promise<unknown>) {
    this.#owner = owner;
    this.#execution = owner.execution;
    this.#admit = admit;
  }
  get filled(): boolean {
    return this.#value !== undefined;
  }
  tryRead(): T | undefined {
    return this.#value?.value;
  }
  put(value: T): void {
    const unit = this.#execution.caller("ivar.put");
    if (unit === undefined) return;
    if (this.#written) {
      throw remember(
        new IllegalCallError({ call: "ivar.put", unit: unit.title, reason: "the ivar already has a value, and can be written only once" }),
      );
    }
    this.#written = true;
    entangle(this.#execution, "an ivar", this.#owner, unit);
    whenDue(unit, () => this.#fill(value));
  }
  #fill(value: T): void {
    this.#value = { value };
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const operation of waiters) this.#execution.conclude(operation, "completed", { ok: true, value });
  }
  wait(): Promise<T> {
    const unit = this.#execution.caller("ivar.wait");
    if (unit === undefined) return new Promise(() => {});
    return this.#admit(unit, "ivar.wait", () => {
      if (this.#value !== undefined) return Promise.resolve(this.#value.value);
      const operation = this.#execution.open(unit, "ivar", "ivar");
      if (!operation.closed) {
        operation.behaviour = this;
        operation.floating = true;
        this.#waiters.add(operation);
      }
      return operation.promise;
    }) as Promise<T>;
  }
  cancel(operation: Operation, error: Error): void {
    this.#waiters.delete(operation);
    this.#execution.conclude(operation, "canceled", { ok: false, error });
  }
}
