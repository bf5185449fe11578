// The usual turn: a worker continues its run, and nothing of the run's row changes except its counts.
// Owns: what makes a turn a usual one, and what it adds to the counts.
// Invariants: the lease stays, the status is the commit's.

import type { TurnCommit } from "../port.ts";
import type { Value } from "./library.ts";

export function isPlain({ lease, close, blocked, attempt, attributes, retention, waitingFor = [] }: TurnCommit): boolean {
  if (lease !== "keep" || close !== undefined || waitingFor.length > 0) return false;
  return blocked === undefined && attempt === undefined && attributes === undefined && retention === undefined;
}

export function turnsOf({ turn }: TurnCommit): number {
  return turn === undefined ? 0 : 1;
}
export function recordsOf({ turn }: TurnCommit): number {
  return turn === undefined ? 0 : turn.jobs.length + turn.commands.length;
}
export function waitingForOf({ waitingFor = [] }: TurnCommit): Value {
  return waitingFor.length === 0 ? null : JSON.stringify(waitingFor);
}
