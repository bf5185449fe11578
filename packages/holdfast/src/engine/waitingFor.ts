// What a claimed run waits for, in words. The row of a parked run has the words of its driver, which knew more, but not how its activities
// have progressed since.
// Owns: the texts.
// Invariants: P11 (what an open run waits for is visible from outside).

import { describeOperation, type Turn } from "@holdfast/core";
import { type AwaitedOperation, awaitedBy, isoTime } from "@holdfast/host";
import type { AttemptRow } from "../store/port.ts";

export function waitingForOf(turns: readonly Turn[], attempts: readonly AttemptRow[]): string[] {
  const { operations, retryRunAt } = awaitedBy(turns, attempts);
  const again = retryRunAt === undefined ? [] : [retryOfRun(retryRunAt)];
  return [...again, ...operations.map(describeAwaited)];
}

/** D10: of a run that failed and is tried again as a whole. */
export function retryOfRun(at: number): string {
  return `another attempt at ${isoTime(at)}`;
}

/** Whether history and attempts say more than these words of a parked run: about activities and retries. */
export function needsHistory(waitingFor: readonly string[]): boolean {
  return waitingFor.some((text) => isActivity(text) || text.includes("attempt "));
}
export function isActivity(text: string): boolean {
  return text.startsWith("activity ");
}

export interface OpenActivity {
  /** Its text in the `waitingFor` of a parked run. */
  readonly operation: string;
  /** Its text with the current or next attempt. */
  readonly description: string;
  readonly name: string;
  /** Undefined: the run's queue. */
  readonly queue: string | undefined;
  /** Whether any worker has attempted it. */
  readonly isAttempted: boolean;
}
export function openActivities(turns: readonly Turn[], attempts: readonly AttemptRow[]): OpenActivity[] {
  return awaitedBy(turns, attempts).operations.flatMap((one) => {
    const { command, isAttempted } = one;
    if (command.type !== "activity") return [];
    const { unit, name, n, queue } = command;
    return { operation: describeOperation("activity", unit, name, n), description: describeAwaited(one), name, queue, isAttempted };
  });
}

/** The first attempt is not mentioned. */
export function describeAwaited({ command, dueAt, attempt, retryAt }: AwaitedOperation): string {
  const at = retryAt === undefined ? "" : ` at ${isoTime(retryAt)}`;
  const which = attempt === undefined ? "" : ` (attempt ${attempt}${at})`;
  const until = dueAt === undefined ? "" : ` until ${isoTime(dueAt)}`;
  return `${describeOperation(command.type, command.unit, command.name, command.n)}${which}${until}`;
}
