// Operations on other runs: children and their handles, signals and cancellations by run id.
// Owns: nothing between calls; the execution keeps the outcomes of started children.
// Invariants: P3 (a started child is not outstanding; separate operations wait for its outcome), K3 (a canceled child gives its parent
// ChildFailedError), K6 (the host applies parentClose).

import { CanceledError, ChildFailedError, reviveRecorded } from "../../errors/index.ts";
import type { AnyWorkflow, ChildHandle, ChildOptions } from "../../model/index.ts";
import type { ChildCommand, Outcome } from "../../protocol/index.ts";
import { childRunId, formatLocation } from "../../protocol/location.ts";
import { parseDuration } from "../../values/index.ts";
import { named } from "../arguments.ts";
import type { Execution } from "../execution.ts";
import { checkedInput } from "../inputs.ts";
import type { Behaviour, Operation, Settlement } from "../operation.ts";
import type { Unit } from "../unit.ts";
import { abandon, recordedRetry } from "./steps.ts";
import { checkedTime } from "./timers.ts";

/** Admits a call of a handle in the unit that has the turn (see context.ts). */
export type Admit = (unit: Unit, call: string, run: () => Promise<unknown>) => Promise<unknown>;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function settlementOf(outcome: Outcome, childId: string, workflow: string): Settlement {
  if (outcome.status === "completed") return { ok: true, payload: outcome.value };
  const cause = outcome.status === "failed" ? reviveRecorded(outcome.error) : new CanceledError(outcome.reason);
  return { ok: false, error: new ChildFailedError({ childId, workflow, cause }) };
}

function childId(unit: Unit, name: string, n: number): string {
  const { start } = unit.execution;
  return childRunId(start?.runId ?? "", start?.execution ?? 1, formatLocation(unit.path, name, n));
}

function open(
  unit: Unit,
  workflow: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
  detached: boolean,
): { operation: Operation; id: string } {
  const execution = unit.execution;
  const fields: Mutable<Partial<ChildCommand>> = {};
  const id = options.id ?? childId(unit, workflow.name, unit.occurrence(workflow.name));
  if (options.id === undefined) unit.unuse(workflow.name);
  try {
    fields.input = execution.encode(checkedInput(workflow, input), `the input of child ${workflow.name}`);
  } catch (error) {
    return { operation: execution.refuse(unit, "child", workflow.name, error as Error), id };
  }
  fields.id = id;
  const version = options.version ?? workflow.version;
  if (options.queue !== undefined) fields.queue = options.queue;
  if (version !== undefined) fields.version = version;
  if (options.deadline instanceof Date) fields.deadlineAt = checkedTime("ctx.child", options.deadline);
  else if (options.deadline !== undefined) fields.deadline = parseDuration(options.deadline);
  if (options.retry !== undefined) fields.retry = recordedRetry(options.retry);
  if (options.parentClose !== undefined) fields.parentClose = options.parentClose;
  if (options.key !== undefined) fields.key = options.key;
  if (options.priority !== undefined) fields.priority = options.priority;
  if (options.attributes !== undefined) fields.attributes = { ...options.attributes };
  if (options.onConflict === "restart-if-closed") fields.onConflict = options.onConflict;
  if (detached) fields.detached = true;
  const operation = execution.open(unit, "child", workflow.name, fields);
  operation.child = workflow;
  return { operation, id };
}

export function child(unit: Unit, workflow: AnyWorkflow, input: unknown, options: ChildOptions = {}): Promise<unknown> {
  const { operation, id } = open(unit, workflow, input, options, false);
  if (!operation.closed) {
    operation.behaviour = {
      cancel: abandon,
      outcome(own, outcome) {
        const settlement = settlementOf(outcome, own.childId ?? id, workflow.name);
        if (!settlement.ok) own.unit.execution.failureCauses.put(settlement.error, own.seq);
        own.unit.execution.settle(own, settlement);
      },
    };
  }
  return operation.promise;
}

export function startChild(
  unit: Unit,
  workflow: AnyWorkflow,
  input: unknown,
  options: ChildOptions = {},
  admit: Admit,
): Promise<ChildHandle<unknown>> {
  const { operation, id } = open(unit, workflow, input, options, true);
  if (!operation.closed) {
    const execution = unit.execution;
    operation.behaviour = {
      cancel: abandon,
      // The start failed; or the child was started before a failure that was voided, and has ended since (D10).
      outcome(own, outcome) {
        if (own.settlement !== undefined) return childEnded(execution, own.seq, outcome);
        const settlement = settlementOf(outcome, own.childId ?? id, workflow.name);
        if (!settlement.ok) execution.failureCauses.put(settlement.error, own.seq);
        execution.settle(own, settlement);
      },
      childStarted(own, runId) {
        execution.children.set(own.seq, { id: runId, workflow, settlement: undefined, waiters: [] });
        execution.settle(own, { ok: true, value: new Handle(execution, own.seq, runId, workflow.name, admit) });
      },
    };
  }
  return operation.promise as Promise<ChildHandle<unknown>>;
}

/** Applies the outcome of a child that was started before. */
export function childEnded(execution: Execution, seq: number, outcome: Outcome): void {
  const watched = execution.children.get(seq);
  if (watched === undefined || watched.settlement !== undefined) return;
  watched.settlement = settlementOf(outcome, watched.id, watched.workflow.name);
  if (!watched.settlement.ok) execution.failureCauses.put(watched.settlement.error, seq);
  for (const operation of watched.waiters)
    execution.conclude(operation, watched.settlement.ok ? "completed" : "failed", watched.settlement);
  watched.waiters = [];
}

const RESULT: Behaviour = {
  cancel: (operation, error) => operation.unit.execution.conclude(operation, "canceled", { ok: false, error }),
};

class Handle implements ChildHandle<unknown> {
  readonly id: string;
  readonly #execution: Execution;
  readonly #seq: number;
  readonly #workflow: string;
  readonly #admit: Admit;

  constructor(execution: Execution, seq: number, id: string, workflow: string, admit: Admit) {
    this.#execution = execution;
    this.#seq = seq;
    this.id = id;
    this.#workflow = workflow;
    this.#admit = admit;
  }
  #call(call: string, run: (unit: Unit) => Promise<unknown>): Promise<unknown> {
    const unit = this.#execution.caller(call);
    return unit === undefined ? new Promise(() => {}) : this.#admit(unit, call, () => run(unit));
  }
  result(): Promise<unknown> {
    return this.#call("child.result", (unit) => {
      const execution = this.#execution;
      const watched = execution.children.get(this.#seq);
      const operation = execution.open(unit, "childResult", this.#workflow, { child: this.#seq });
      if (operation.closed) return operation.promise;
      operation.floating = true;
      operation.behaviour = RESULT;
      if (watched?.settlement === undefined) watched?.waiters.push(operation);
      else execution.concludeNow(operation, watched.settlement.ok ? "completed" : "failed", watched.settlement);
      return operation.promise;
    });
  }
  signal(name: string, payload?: unknown): Promise<void> {
    return this.#call("child.signal", (unit) => signalRun(unit, this.id, named("child.signal", name), payload)) as Promise<void>;
  }
  cancel(): Promise<void> {
    return this.#call("child.cancel", (unit) => cancelRun(unit, this.id)) as Promise<void>;
  }
}

const SENT: Behaviour = {
  cancel: abandon,
  outcome(operation, outcome) {
    const execution = operation.unit.execution;
    if (outcome.status === "completed") execution.settle(operation, { ok: true, value: undefined });
    else if (outcome.status === "canceled") execution.settle(operation, { ok: false, error: new CanceledError(outcome.reason) });
    else {
      const error = reviveRecorded(outcome.error);
      execution.failureCauses.put(error, operation.seq);
      execution.settle(operation, { ok: false, error });
    }
  },
};

export function signalRun(unit: Unit, runId: string, signal: string, payload: unknown): Promise<void> {
  const execution = unit.execution;
  let operation: Operation;
  try {
    const fields = { runId, signal, payload: execution.encode(payload, `the payload of signal ${signal}`) };
    operation = execution.open(unit, "signalRun", signal, fields);
  } catch (error) {
    operation = execution.refuse(unit, "signalRun", signal, error as Error);
  }
  if (!operation.closed) operation.behaviour = SENT;
  return operation.promise as Promise<void>;
}

export function cancelRun(unit: Unit, runId: string): Promise<void> {
  const operation = unit.execution.open(unit, "cancelRun", "cancelRun", { runId });
  if (!operation.closed) operation.behaviour = SENT;
  return operation.promise as Promise<void>;
}
