// Steps and transactions, and what the host needs to run them.
// Owns: `StepBody`, and how outcomes become the results that user code sees.
// Invariants: C7 (a cancelled step is abandoned, one with a rollback is joined), D1 (nothing runs before its record is durable: the host
// gets a body only by its number), P8 (results pass through the codec), S1 (completed steps register their rollback).

import { CanceledError, reviveRecorded, StepFailedError } from "../../errors/index.ts";
import type { StepInfo, StepOptions } from "../../model/index.ts";
import type { Outcome, RecordedRetry, StepCommand } from "../../protocol/index.ts";
import { countable, parseDuration, type RetryPolicy, validateRetry } from "../../values/index.ts";
import type { Behaviour, Operation, Settlement } from "../operation.ts";
import type { Unit } from "../unit.ts";

/** What a host runs for an operation whose function is part of the workflow. */
export interface StepBody {
  /** What the body belongs to. */
  readonly kind: "step" | "transaction" | "rollback" | "sideEffect";
  /** The name of the step. */
  readonly name: string;
  /** Called with `(tx, info)` for a transaction, otherwise with `(info)`. */
  readonly run: (...args: never[]) => unknown;
  /** Its retry policy. */
  readonly retry: RetryPolicy | undefined;
  /** Timeout of one attempt, in milliseconds. */
  readonly timeout: number | undefined;
  /** Undoes the step. */
  readonly rollback?: ((output: unknown, info: StepInfo) => unknown) | undefined;
  /** `local: true`: a host that knows local steps runs it where the turn was computed. */
  readonly isLocal?: boolean | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A retry policy as it is recorded with an operation. */
export function recordedRetry(policy: RetryPolicy): RecordedRetry {
  validateRetry(policy);
  const record: Mutable<RecordedRetry> = {};
  if (policy.maxAttempts !== undefined) record.maxAttempts = countable(policy.maxAttempts);
  if (policy.initialInterval !== undefined) record.initialInterval = parseDuration(policy.initialInterval);
  if (policy.backoff !== undefined) record.backoff = policy.backoff;
  if (policy.maxInterval !== undefined) record.maxInterval = parseDuration(policy.maxInterval);
  if (policy.jitter !== undefined) record.jitter = policy.jitter;
  if (policy.nonRetryable !== undefined) {
    record.nonRetryable = typeof policy.nonRetryable === "function" ? "function" : [...policy.nonRetryable];
  }
  return record;
}

/** The recorded policy (Y2). A predicate can't be recorded: it comes from the code, if the code still has one. */
function retryInForce(recorded: RecordedRetry | undefined, code: RetryPolicy | undefined): RetryPolicy | undefined {
  if (recorded?.nonRetryable !== "function") return recorded as RetryPolicy | undefined;
  const { nonRetryable: _, ...policy } = recorded;
  return typeof code?.nonRetryable === "function" ? { ...policy, nonRetryable: code.nonRetryable } : policy;
}

/** What user code gets of an attempt that failed for good, or was cancelled. */
export function failure(outcome: Exclude<Outcome, { status: "completed" }>, wrap: (attempts: number, cause: Error) => Error): Settlement {
  if (outcome.status === "canceled") return { ok: false, error: new CanceledError(outcome.reason) };
  return { ok: false, error: wrap(outcome.attempts ?? 1, reviveRecorded(outcome.error)) };
}

const STEP: Behaviour = {
  cancel(operation, error) {
    const execution = operation.unit.execution;
    if (operation.joining) return;
    if (operation.body?.rollback === undefined) {
      execution.emit({ type: "cancel", seq: operation.seq });
      execution.settle(operation, { ok: false, error });
    } else {
      operation.joining = true;
      execution.emit({ type: "cancel", seq: operation.seq, join: true });
    }
  },
  outcome(operation, outcome) {
    const execution = operation.unit.execution;
    const rollback = operation.body?.rollback;
    if (outcome.status === "completed" && rollback !== undefined) execution.saga.add(operation, rollback, outcome.value);
    if (operation.joining && operation.unit.canceled !== undefined) {
      execution.settle(operation, { ok: false, error: operation.unit.canceled });
    } else if (outcome.status === "completed") execution.settle(operation, { ok: true, payload: outcome.value });
    else {
      const settlement = failure(outcome, (attempts, cause) => new StepFailedError({ step: operation.name, attempts, cause }));
      if (!settlement.ok) execution.failureCauses.put(settlement.error, operation.seq);
      execution.settle(operation, settlement);
    }
  },
};

export function step<T>(
  unit: Unit,
  kind: "step" | "transaction",
  name: string,
  run: (...args: never[]) => unknown,
  options: StepOptions<T> | undefined,
): Promise<T> {
  const timeout = options?.timeout === undefined ? undefined : parseDuration(options.timeout);
  let fields: Mutable<Partial<StepCommand>> | undefined;
  if (options !== undefined) {
    fields = {};
    if (timeout !== undefined) fields.timeout = timeout;
    if (options.retry !== undefined) fields.retry = recordedRetry(options.retry);
    if (options.rollback !== undefined) fields.rollback = true;
  }
  const operation = unit.execution.open(unit, kind, name, fields);
  if (!operation.closed) {
    operation.behaviour = STEP;
    const recorded = operation.recorded as StepCommand | undefined;
    operation.body = {
      kind,
      name,
      run,
      retry: recorded === undefined ? options?.retry : retryInForce(recorded.retry, options?.retry),
      timeout: recorded === undefined ? timeout : recorded.timeout,
      rollback: options?.rollback as StepBody["rollback"],
      isLocal: options?.local,
    };
  }
  return operation.promise as Promise<T>;
}

/** Cancels an operation that the host carries out: it fails at once, and a late result is dropped. */
export function abandon(operation: Operation, error: Error): void {
  operation.unit.execution.emit({ type: "cancel", seq: operation.seq });
  operation.unit.execution.settle(operation, { ok: false, error });
}
