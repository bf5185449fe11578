// Messages and failures that no code hears.
// Owns: nothing; which places were warned of is kept by the execution, which waits have got a message by the unit.
// Invariants: C5 (a wait that lost a Promise.race stays a waiter; a message that goes to it is warned of once a location and run), P3 (the
// outcome of an operation whose unit has returned is recorded and not delivered; a failure is in the log).

import { causesOf } from "../base/errorParts.ts";
import { CanceledError, messageOf } from "../errors/index.ts";
import { CLOCK_KINDS } from "../protocol/index.ts";
import type { Operation } from "./operation.ts";
import type { Unit } from "./unit.ts";
import { WaitPromise } from "./waitPromise.ts";

/** A message is about to be delivered to this wait. */
export function lookForLost(wait: Operation, value: unknown): void {
  const { unit, promise } = wait;
  if (!(promise instanceof WaitPromise) || unit.execution.lostAt.has(placeOf(wait))) return;
  promise.offer(value);
  unit.consumed ??= new Set();
  unit.consumed.add(wait);
}

/**
 * At the end of a step: what listened to the wait are calls of Promise.race that are over. The code may still hold its promise and await
 * that, so it is warned of when that is past (the function has returned), or when the same unit waits for such messages elsewhere.
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
    const message = `A message went to ${wait.description}, a wait that lost a Promise.race or Promise.any before: the code that called it did not get the message. Use ctx.race(name, branches), which gives up the waits that lose.`;
    unit.execution.log("warn", message, unit, { location: wait.location });
  }
  if (consumed.size === 0) unit.consumed = undefined;
}
const placeOf = ({ unit, name }: Operation): string => `${unit.path}/${name}`;

/** The code that began it goes on without it. What was cancelled is no failure. */
export function reportUnheard({ unit, kind, location, description }: Operation, error: Error): void {
  if (error instanceof CanceledError || CLOCK_KINDS.has(kind)) return;
  const message = `The failure of ${description} is in a promise that no code awaits. Await it, or catch its error. ${messageOf(error)}`;
  unit.execution.log("warn", message, unit, { location });
}

// Where a host withholds the rejections of workflow code from the process, it is told by the runtime which of them no code has handled.

/** By their promises, and by those that were derived of them: `then`, an async function that awaits one. */
const failures = new WeakMap<Promise<unknown>, Operation>();
const failuresByError = new WeakMap<object, Operation>();

/** Its promise is about to be rejected with the error. */
export function watchFailure(operation: Operation, error: Error): void {
  failures.set(operation.promise, operation);
  failuresByError.set(error, operation);
}
/** X11: no code handles this promise, so far. */
export function noteUnhandled(promise: Promise<unknown>, reason: unknown): void {
  const operation = failures.get(promise) ?? failureOf(reason);
  if (operation === undefined) return;
  failures.set(promise, operation);
  operation.unit.execution.unheard.add(operation);
}
/** Whose failure the error is, or was caused by. */
function failureOf(reason: unknown): Operation | undefined {
  const error = causesOf(reason).find((one) => failuresByError.has(one));
  return error === undefined ? undefined : failuresByError.get(error);
}
export function noteHandled(promise: Promise<unknown>): void {
  const operation = failures.get(promise);
  operation?.unit.execution.unheard.delete(operation);
}
/** Of units that are over: their code can't handle it any more. */
export function reportAllUnheard(unheard: Set<Operation>): void {
  for (const operation of unheard) {
    if (!operation.unit.over) continue;
    unheard.delete(operation);
    if (operation.settlement?.ok === false) reportUnheard(operation, operation.settlement.error);
  }
}
