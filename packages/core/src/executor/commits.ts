// Decides when a loop or a receive may commit, and builds its commit command.
// Owns: nothing between calls; each operation stores whether it is entangled.
// Invariants: L3 R11 (commits only if no other unit is alive and no code outside depends on what happened inside), L5 (a commit never
// passes a step whose rollback may still run).

import { COMMITTING_KINDS, type CommitCommand, type Payload } from "../protocol/index.ts";
import { isWithin } from "../protocol/location.ts";
import type { Execution } from "./execution.ts";
import type { Operation } from "./operation.ts";
import type { Unit } from "./unit.ts";

/**
 * The reason why a loop or receive can't commit, for the log; undefined if it can. Only the unit that waits for `operation` and its
 * ancestors may be alive, each waiting only for the next one, and no rollback of a step inside may still run (L5).
 */
export function obstacle(execution: Execution, operation: Operation): string | undefined {
  if (execution.saga.holdsBeneath(operation.location))
    return "steps in it have rollbacks that may still run. Call ctx.rollbackCheckpoint(name) at the end of its body";
  if (operation.entangled !== undefined)
    return `code outside it depends, through ${operation.entangled}, on what its iterations or handlers did. Pass that through the state`;
  let depth = 0;
  for (let unit: Unit | undefined = operation.unit; unit !== undefined; unit = unit.parent) {
    // A yield leaves no record, so replay could not separate what the unit does after it from what it did before the commit.
    if (unit.yielding && unit.returned === undefined) return `the enclosing unit ${unit.title} calls ctx.yield() at the same time`;
    const other = [...unit.open].find((one) => !isWithin(operation.location, one.location));
    if (unit.open.size !== 1 || unit.gates > 0)
      return `the unit ${unit.title} has ${other?.description ?? "another operation"} open at the same time`;
    depth++;
  }
  return depth === execution.liveUnits ? undefined : "other units are running at the same time";
}

/**
 * Marks open loops and receives that can't commit any more, because code outside depends on an in-memory effect from inside, which replay
 * from the commit would skip (L3). `inside` is the unit that caused it, `outside` the unit that sees it. Without `inside` (a condition
 * became true), any of them may be the cause.
 */
export function entangle(execution: Execution, means: "an ivar" | "a condition", outside: Unit, inside?: Unit): void {
  for (const operation of execution.operations.values()) {
    if (!COMMITTING_KINDS.has(operation.kind)) continue;
    const scope = operation.location;
    if (!isWithin(outside.path, scope) && (inside === undefined || isWithin(inside.path, scope))) operation.entangled = means;
  }
}

/** The commit of a scope: its position, and the parts of the run's state that belong to it. */
export function commitCommand(execution: Execution, operation: Operation, count: number, value: Payload, trim?: number): CommitCommand {
  const messages = execution.mailbox.snapshot();
  return {
    type: "commit",
    seq: operation.seq,
    unit: operation.location,
    count,
    value,
    ...(execution.state !== undefined && { state: execution.state }),
    ...(messages.length > 0 && { messages }),
    ...(trim !== undefined && { trim }),
    lastSeq: execution.numbers.last,
    ...(!execution.saga.empty && { rollbacks: execution.saga.steps }),
  };
}
