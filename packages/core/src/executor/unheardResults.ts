// Logs messages and failures that no code receives.
// Owns: nothing. The execution stores the locations already logged, the unit stores the waits that got a message.
// Invariants: C5 (a wait that lost a Promise.race stays a waiter; a message that it consumes is logged once per location and run), P3 (the
// outcome of an operation whose unit has returned is recorded but not delivered; a failure is logged).

import { causesOf } from "../base/errorParts.ts";
import { CanceledError, messageOf } from "../errors/index.ts";
import { CLOCK_KINDS } from "../protocol/index.ts";
import type { Operation } from "./operation.ts";
import type { Unit } from "./unit.ts";
import { WaitPromise } from "./waitPromise.ts";

/** Called before a message is delivered to this wait. */
export function lookForLost(wait: Operation, value: unknown): void {
  const { unit, promise } = wait;
  if (!(promise instanceof WaitPromise) || unit.execution.lostAt.has(placeOf(wait))) return;
  promise.offer(value);
  unit.consumed ??= new Set();
  unit.consumed.add(wait);
}

/**
 * At the end of a step: finds waits whose only listeners are calls of Promise.race that have ended. The code may still await the promise of
 * such a wait, so it is logged only once the function has returned, or the same unit waits for such messages elsewhere.
 */
export function reportLost(unit: Unit, consumed: Set<Operation>): void {
  const { lostAt, mailbox } = unit.execution;
  for (const wait of consumed) {
    const isHeard = (wait.promise as WaitPromise).hears;
    const isPast = unit.returned !== undefined || mailbox.hasLaterWait(wait);
    if (!isHeard && !isPast) continue;
    consumed.delete(wait);
    if (isHeard || lostAt.has(placeOf(wait))) continue;
    lostAt.add(placeOf(wait));
    const message = `A message went to ${wait.description}, a wait that had lost a Promise.race or Promise.any: the code that called it did not get the message. Use ctx.race(name, branches), which cancels the waits that lose.`;
    unit.execution.log("warn", message, unit, { location: wait.location });
  }
  if (consumed.size === 0) unit.consumed = undefined;
}
const placeOf = ({ unit, name }: Operation): string => `${unit.path}/${name}`;

/** Logs the failure of an operation that no code awaits. A cancellation is not a failure. */
export function reportUnheard({ unit, kind, location, description }: Operation, error: Error): void {
  if (error instanceof CanceledError || CLOCK_KINDS.has(kind)) return;
  const message = `The failure of ${description} is in a promise that no code awaits. Await it, or catch its error. ${messageOf(error)}`;
  unit.execution.log("warn", message, unit, { location });
}

// A host that withholds the rejections of workflow code from the process learns from the runtime which of them no code has handled.

/** Failed operations by their promise, or by a promise derived from it (by `then`, or an async function that awaits it). */
const failures = new WeakMap<Promise<unknown>, Operation>();
const failuresByError = new WeakMap<object, Operation>();

/** Called before the promise of a failed operation is rejected with the error. */
export function watchFailure(operation: Operation, error: Error): void {
  failures.set(operation.promise, operation);
  failuresByError.set(error, operation);
}
/** Notes that no code has handled this promise so far (X11). */
export function noteUnhandled(promise: Promise<unknown>, reason: unknown): void {
  const operation = failures.get(promise) ?? failureOf(reason);
  if (operation === undefined) return;
  failures.set(promise, operation);
  operation.unit.execution.unheard.add(operation);
}
/** The operation whose failure is this error, or one of its causes. */
function failureOf(reason: unknown): Operation | undefined {
  const error = causesOf(reason).find((one) => failuresByError.has(one));
  return error === undefined ? undefined : failuresByError.get(error);
}
/** Code handles this promise after all. */
export function noteHandled(promise: Promise<unknown>): void {
  const operation = failures.get(promise);
  operation?.unit.execution.unheard.delete(operation);
}
/** Logs the failures of units that are over, whose code can't handle them any more. */
export function reportAllUnheard(unheard: Set<Operation>): void {
  for (const operation of unheard) {
    if (!operation.unit.over) continue;
    unheard.delete(operation);
    if (operation.settlement?.ok === false) reportUnheard(operation, operation.settlement.error);
  }
}
