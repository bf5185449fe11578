// Messages and failures that no code hears.
// Owns: nothing; what was said is kept by the execution, what is suspected by the unit.
// Invariants: C5 (a wait that lost a Promise.race stays a waiter; a message that goes to it is warned of once a location and run), P3 (the
// outcome of an operation whose unit has returned is recorded and not delivered; a failure is in the log).

import { CanceledError, messageOf } from "../errors/index.ts";
import type { Operation } from "./operation.ts";
import type { Unit } from "./unit.ts";

/**
 * A wait got a message and its unit made no call because of it, though it waits for messages of that name elsewhere since. That is what
 * a wait looks like whose Promise.race is over. What awaits a promise can't be seen, so this is as much as can be known: a wait that was
 * begun ahead and is awaited later has no other beside it.
 */
export function lookForLost(unit: Unit, { wait, calls }: NonNullable<Unit["contested"]>): void {
  unit.contested = undefined;
  const { execution } = unit;
  const place = `${unit.path}/${wait.name}`;
  if (unit.calls !== calls || unit.returned !== undefined || execution.lostAt.has(place)) return;
  execution.lostAt.add(place);
  execution.log(
    "warn",
    `A message went to ${wait.description}, a wait that lost a Promise.race before; the code that waits for it now did not get it. Use ctx.race(name, branches), which gives up the waits that lose.`,
    unit,
    { location: wait.location },
  );
}

/** The code that began it goes on without it. What was cancelled is no failure. */
export function reportUnheard({ unit, kind, location, description }: Operation, error: Error): void {
  if (error instanceof CanceledError || kind === "sleep") return;
  const message = `The failure of ${description} reaches no code: its promise is not awaited. Await it, or catch its error. ${messageOf(error)}`;
  unit.execution.log("warn", message, unit, { location });
}

// Where a host withholds the rejections of workflow code from the process, it is told by the runtime which of them no code has handled.

const failures = new WeakMap<Promise<unknown>, Operation>();

/** Its promise is about to be rejected. */
export function watchFailure(operation: Operation): void {
  failures.set(operation.promise, operation);
}
/** X11: no code handles this promise, so far. */
export function noteUnhandled(promise: Promise<unknown>): void {
  const operation = failures.get(promise);
  if (operation !== undefined) operation.unit.execution.unheard.add(operation);
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
