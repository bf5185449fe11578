// When a loop or a receive may commit, and what its commit says.
// Owns: nothing between calls; who is entangled is known to the operation.
// Invariants: L3 R11 (only where nothing else lives, and nobody outside has seen what happened inside), L5 (no rollback is passed).

import { COMMITTING_KINDS, type CommitCommand, type Payload } from "../protocol/index.ts";
import { isWithin } from "../protocol/location.ts";
import type { Execution } from "./execution.ts";
import type { Operation } from "./operation.ts";
import type { Unit } from "./unit.ts";

/**
 * Why a loop or receive can't commit, in words for the log; undefined if it can. Nothing may live but the unit that waits in
 * `operation` and its ancestors, each of them only for what leads there, and no rollback beneath it may still run (L5).
 */
export function obstacle(execution: Execution, operation: Operation): string | undefined {
  if (execution.saga.holdsBeneath(operation.location))
    return "steps in it have rollbacks that may still run. Call ctx.rollbackCheckpoint(name) at the end of its body, after the last of them";
  if (operation.entangled !== undefined)
    return `code outside of it has seen, through ${operation.entangled}, what its iterations or handlers did. Pass it on through the state`;
  let depth = 0;
  for (let unit: Unit | undefined = operation.unit; unit !== undefined; unit = unit.parent) {
    // A yield leaves no record, so replay could not tell what the unit does after it from what it did before the commit.
    if (unit.yielding && unit.returned === undefined) return `the unit ${unit.title} around it calls ctx.yield() beside it`;
    const other = [...unit.open].find((one) => !isWithin(operation.location, one.location));
    if (unit.open.size !== 1 || unit.gates > 0)
      return `the unit ${unit.title} has ${other?.description ?? "another operation"} under way beside it`;
    depth++;
  }
  return depth === execution.liveUnits ? undefined : "other units are alive beside it";
}

/**
 * L3: what happens beneath an open loop or receive and is seen outside of it, in memory alone, can't be left behind by its commits:
 * `inside` is where it happened, `outside` who sees it. A condition that came true may be the doing of any of them.
 */
export function entangle(execution: Execution, means: "an ivar" | "a condition", outside: Unit, inside?: Unit): void {
  for (const operation of execution.operations.values()) {
    if (!COMMITTING_KINDS.has(operation.kind)) continue;
    const scope = operation.location;
    if (!isWithin(outside.path, scope) && (inside === undefined || isWithin(inside.path, scope))) operation.entangled = means;
  }
}

/** Where the scope is, and what of the run's state belongs to that point. */
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
    lastSeq: execution.lastSeq,
    ...(!execution.saga.empty && { rollbacks: execution.saga.steps }),
  };
}
