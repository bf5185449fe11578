// What a run that a worker has waits for, in words. A parked run has its own words: its driver knew more, but not what became of activities
// since.
// Owns: the wording.
// Invariants: P11 (what an open run waits for can be seen from outside).

import { describeOperation, type Turn } from "@holdfast/core";
import { type AwaitedOperation, awaitedBy, isoTime } from "@holdfast/host";
import type { AttemptRow } from "../store/port.ts";

export function waitingForOf(turns: readonly Turn[], attempts: readonly AttemptRow[]): string[] {
  const { operations, retryRunAt } = awaitedBy(turns, attempts);
  const again = retryRunAt === undefined ? [] : [`another attempt at ${isoTime(retryRunAt)}`];
  return [...again, ...operations.map(describe)];
}

/** Do history and attempts say more than these words of a parked run: of activities, and of what is tried again? */
export function needsMore(waitingFor: readonly string[]): boolean {
  return waitingFor.some((text) => isActivity(text) || text.includes("attempt "));
}
export function isActivity(text: string): boolean {
  return text.startsWith("activity ");
}

export interface OpenActivity {
  /** As its driver names it among what a parked run waits for. */
  readonly operation: string;
  /** With the attempt that runs, or comes. */
  readonly description: string;
  readonly name: string;
  /** Undefined: the run's. */
  readonly queue: string | undefined;
  /** Has any worker ever had it? */
  readonly isAttempted: boolean;
}
export function openActivities(turns: readonly Turn[], attempts: readonly AttemptRow[]): OpenActivity[] {
  return awaitedBy(turns, attempts).operations.flatMap((one) => {
    const { command, isAttempted } = one;
    if (command.type !== "activity") return [];
    const { unit, name, n, queue } = command;
    return { operation: describeOperation("activity", unit, name, n), description: describe(one), name, queue, isAttempted };
  });
}

/** A first attempt goes without saying. */
function describe({ command, dueAt, attempt, retryAt }: AwaitedOperation): string {
  const at = retryAt === undefined ? "" : ` at ${isoTime(retryAt)}`;
  const which = attempt === undefined ? "" : ` (attempt ${attempt}${at})`;
  const until = dueAt === undefined ? "" : ` until ${isoTime(dueAt)}`;
  return `${describeOperation(command.type, command.unit, command.name, command.n)}${which}${until}`;
}
