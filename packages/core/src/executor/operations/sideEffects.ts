// `sideEffect` and `publishState`: calls that need no answer from the host.
// Owns: nothing between calls.
// Invariants: P5 (published state is replaced as a whole), P6 (the function of a side effect runs once, its error is recorded), X5 (neither
// pauses).

import { CanceledError, reviveRecorded, serializeError } from "../../errors/index.ts";
import type { Payload, SideEffectCommand } from "../../protocol/index.ts";
import { type Behaviour, never, rejected } from "../operation.ts";
import type { Unit } from "../unit.ts";
import { abandon } from "./steps.ts";

const SCHEDULED: Behaviour = {
  cancel: abandon,
  outcome(operation, outcome) {
    const execution = operation.unit.execution;
    if (outcome.status === "completed") execution.settle(operation, { ok: true, payload: outcome.value });
    else if (outcome.status === "failed") execution.settle(operation, { ok: false, error: reviveRecorded(outcome.error) });
    else execution.settle(operation, { ok: false, error: new CanceledError(outcome.reason) });
  },
};

export function sideEffect<T>(unit: Unit, run: () => T): Promise<T> {
  const execution = unit.execution;
  if (execution.options.sideEffects === "scheduled") {
    const operation = execution.open(unit, "sideEffect", "sideEffect");
    if (!operation.closed) {
      operation.behaviour = SCHEDULED;
      operation.body = { kind: "sideEffect", name: "sideEffect", run, retry: { maxAttempts: 1 }, timeout: undefined };
    }
    return operation.promise as Promise<T>;
  }
  const refusal = execution.refusal(unit, "sideEffect");
  if (refusal !== undefined) return execution.refuse(unit, "sideEffect", "sideEffect", refusal).promise as Promise<T>;
  const fields: { value?: Payload; error?: SideEffectCommand["error"] } = {};
  const n = unit.occurrence("sideEffect");
  unit.unuse("sideEffect");
  const call = { type: "sideEffect", seq: 0, unit: unit.path, name: "sideEffect", n } as const;
  const before = execution.matcher?.isInVoid(call) === true ? undefined : execution.reusableOutcomes?.takeEffect(call);
  if (before !== undefined) Object.assign(fields, before);
  else if (execution.matcher === undefined || execution.matcher.isNew(call)) {
    try {
      const value = execution.unwatched(() => execution.inClosure("a side effect", run));
      fields.value = execution.encode(value, "the value of a side effect");
    } catch (error) {
      if (execution.poison !== undefined) throw error;
      fields.error = serializeError(error);
    }
  }
  const record = execution.note(unit, "sideEffect", "sideEffect", fields) as SideEffectCommand;
  if (execution.poison !== undefined) return never();
  // Returns the decoded record, live as in replay (P8).
  if (record.error !== undefined) return rejected(reviveRecorded(record.error));
  return Promise.resolve(execution.decode(record.value ?? execution.encode(undefined, "nothing")) as T);
}

export function publishState(unit: Unit, state: unknown): void {
  const execution = unit.execution;
  const payload = execution.encodeOrRefuse(unit, "publishState", state, "the published state", execution.options.stateBytes);
  execution.turnState = payload;
  execution.state = payload;
}
