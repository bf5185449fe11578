// Structured concurrency: parallel, join, race, and the bodies of try and shield.
// Owns: the branches of each open scope until all of them have ended.
// Invariants: P3 (a scope returns after its units have ended), C1–C4, K2 (shield), N (bodies have the role of the unit around them).

import { CanceledError, InvalidInputError, JoinError, RaceError, toError } from "../../errors/index.ts";
import { segment } from "../../protocol/location.ts";
import type { Behaviour, Operation, Settlement } from "../operation.ts";
import type { Role, Unit, UnitOutcome } from "../unit.ts";

export type BranchRun = (unit: Unit) => unknown;

interface Branch {
  readonly key: string;
  /** The last segment of the unit's path; undefined for a body, whose path is that of the scope. */
  readonly part: string | undefined;
  readonly run: BranchRun;
}

/** The branches of one scope, which are started and joined together. */
class Scope implements Behaviour {
  readonly #operation: Operation;
  readonly #units: Unit[] = [];
  readonly #outcomes: (UnitOutcome | undefined)[];
  readonly #keys: readonly string[];
  #left: number;
  readonly #conclude: (outcomes: readonly UnitOutcome[]) => { failed: boolean; settlement: Settlement };
  readonly #onBranchEnd: ((scope: Scope, index: number, outcome: UnitOutcome) => void) | undefined;
  /** A shield ignores cancellation. */
  readonly #shielded: boolean;

  constructor(
    operation: Operation,
    branches: readonly Branch[],
    options: {
      role: Role;
      shielded?: boolean;
      conclude: (outcomes: readonly UnitOutcome[]) => { failed: boolean; settlement: Settlement };
      onBranchEnd?: (scope: Scope, index: number, outcome: UnitOutcome) => void;
    },
  ) {
    this.#operation = operation;
    this.#keys = branches.map((branch) => branch.key);
    this.#outcomes = new Array(branches.length).fill(undefined);
    this.#left = branches.length;
    this.#conclude = options.conclude;
    this.#onBranchEnd = options.onBranchEnd;
    this.#shielded = options.shielded ?? false;
    operation.behaviour = this;
    const parent = operation.unit;
    const scope = parent.nextScope();
    const path = operation.location;
    branches.forEach((branch, index) => {
      this.#units.push(
        parent.execution.spawn({
          role: options.role,
          path: branch.part === undefined ? path : `${path}/${branch.part}`,
          parent,
          order: parent.branchOrder(scope, index),
          receive: parent.receive,
          shielded: this.#shielded,
          run: branch.run,
          onEnd: (outcome) => this.#ended(index, outcome),
        }),
      );
    });
  }

  cancel(_operation: Operation, error: Error): void {
    if (this.#shielded) return;
    for (const unit of this.#units) unit.cancel(error as CanceledError);
  }
  cancelOthers(winner: number, error: CanceledError): void {
    this.#units.forEach((unit, index) => {
      if (index !== winner) unit.cancel(error);
    });
  }
  key(index: number): string {
    return this.#keys[index] ?? "";
  }

  #ended(index: number, outcome: UnitOutcome): void {
    this.#outcomes[index] = outcome;
    this.#left--;
    this.#onBranchEnd?.(this, index, outcome);
    if (this.#left > 0) return;
    const execution = this.#operation.unit.execution;
    const canceled = this.#operation.unit.canceled;
    if (canceled !== undefined && !this.#shielded) {
      // C4: cancellation never lands in a branch's slot.
      execution.conclude(this.#operation, "canceled", { ok: false, error: canceled });
      return;
    }
    const { failed, settlement } = this.#conclude(this.#outcomes as UnitOutcome[]);
    execution.conclude(this.#operation, failed ? "failed" : "completed", settlement);
  }
}

export function parallel(unit: Unit, branches: readonly BranchRun[]): Promise<PromiseSettledResult<unknown>[]> {
  const execution = unit.execution;
  const operation = execution.open(unit, "parallel", "parallel", { branches: branches.length });
  if (operation.closed) return operation.promise as Promise<never>;
  if (branches.length === 0) execution.concludeNow(operation, "completed", { ok: true, value: [] });
  else {
    new Scope(
      operation,
      branches.map((run, index) => ({ key: String(index), part: `~${index}`, run })),
      {
        role: "branch",
        conclude: (outcomes) => ({
          failed: false,
          settlement: {
            ok: true,
            value: outcomes.map((outcome) =>
              outcome.ok ? { status: "fulfilled", value: outcome.value } : { status: "rejected", reason: outcome.error },
            ),
          },
        }),
      },
    );
  }
  return operation.promise as Promise<PromiseSettledResult<unknown>[]>;
}

function checkedKeys(call: string, branches: Readonly<Record<string, BranchRun>>): string[] {
  const keys = Object.keys(branches);
  const integer = keys.find((key) => /^(0|[1-9]\d*)$/.test(key));
  if (integer !== undefined) {
    throw new InvalidInputError({
      what: call,
      issues: [
        { message: `The branch key "${integer}" looks like an integer, and JavaScript reorders such keys. Use a name.`, path: [integer] },
      ],
    });
  }
  return keys;
}

function named(keys: readonly string[], branches: Readonly<Record<string, BranchRun>>): Branch[] {
  return keys.map((key) => ({ key, part: segment(key), run: branches[key] as BranchRun }));
}

function errorsByKey(keys: readonly string[], outcomes: readonly UnitOutcome[]): Record<string, Error> {
  return Object.fromEntries(outcomes.flatMap((outcome, index) => (outcome.ok ? [] : [[keys[index] as string, toError(outcome.error)]])));
}

export function join(unit: Unit, name: string, branches: Readonly<Record<string, BranchRun>>): Promise<Record<string, unknown>> {
  const execution = unit.execution;
  const keys = checkedKeys("ctx.join", branches);
  const operation = execution.open(unit, "join", name, { keys });
  if (operation.closed) return operation.promise as Promise<never>;
  if (keys.length === 0) execution.concludeNow(operation, "completed", { ok: true, value: {} });
  else {
    new Scope(operation, named(keys, branches), {
      role: "branch",
      conclude: (outcomes) => {
        if (outcomes.every((outcome) => outcome.ok)) {
          const value = Object.fromEntries(outcomes.map((outcome, index) => [keys[index], outcome.ok ? outcome.value : undefined]));
          return { failed: false, settlement: { ok: true, value } };
        }
        const error = new JoinError({ name, errors: errorsByKey(keys, outcomes) });
        return { failed: true, settlement: { ok: false, error } };
      },
    });
  }
  return operation.promise as Promise<Record<string, unknown>>;
}

export function race(unit: Unit, name: string, branches: Readonly<Record<string, BranchRun>>): Promise<{ winner: string; value: unknown }> {
  const execution = unit.execution;
  const keys = checkedKeys("ctx.race", branches);
  if (keys.length === 0) {
    throw new InvalidInputError({ what: "ctx.race", issues: [{ message: `The race "${name}" has no branches: nothing could win it.` }] });
  }
  const operation = execution.open(unit, "race", name, { keys });
  if (operation.closed) return operation.promise as Promise<never>;
  let winner: { winner: string; value: unknown } | undefined;
  new Scope(operation, named(keys, branches), {
    role: "branch",
    onBranchEnd: (scope, index, outcome) => {
      if (!outcome.ok || winner !== undefined || operation.unit.canceled !== undefined) return;
      winner = { winner: scope.key(index), value: outcome.value };
      execution.emit({ type: "winner", seq: operation.seq, key: winner.winner });
      scope.cancelOthers(index, new CanceledError(`"${winner.winner}" won the race "${name}"`));
    },
    conclude: (outcomes) => {
      if (winner !== undefined) return { failed: false, settlement: { ok: true, value: winner } };
      const error = new RaceError({ name, errors: errorsByKey(keys, outcomes) });
      return { failed: true, settlement: { ok: false, error } };
    },
  });
  return operation.promise as Promise<{ winner: string; value: unknown }>;
}

export function attempt(unit: Unit, name: string, run: BranchRun): Promise<{ ok: true; value: unknown } | { ok: false; error: Error }> {
  const operation = unit.execution.open(unit, "try", name);
  if (operation.closed) return operation.promise as Promise<never>;
  new Scope(operation, [{ key: name, part: undefined, run }], {
    role: unit.role,
    conclude: ([outcome]) => ({
      failed: false,
      settlement: {
        ok: true,
        value: outcome?.ok === true ? { ok: true, value: outcome.value } : { ok: false, error: toError(outcome?.error) },
      },
    }),
  });
  return operation.promise as Promise<never>;
}

export function shield(unit: Unit, run: BranchRun): Promise<unknown> {
  const operation = unit.execution.open(unit, "shield", "shield");
  if (operation.closed) return operation.promise;
  new Scope(operation, [{ key: "shield", part: undefined, run }], {
    role: unit.role,
    shielded: true,
    conclude: ([outcome]) =>
      outcome?.ok === true
        ? { failed: false, settlement: { ok: true, value: outcome.value } }
        : { failed: true, settlement: { ok: false, error: outcome?.error as Error } },
  });
  return operation.promise;
}
