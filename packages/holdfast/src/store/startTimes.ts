// When a start takes effect, by the store's clock: for stores that compute it in this process.
// Owns: nothing.
// Invariants: Q9 (a delay restarts with every start that a run takes over, with "debounce" until `maxDelay` after the first start at most).

import type { NewRun } from "./port.ts";

/** When the run begins at the earliest. `firstAt`: when the first of the starts was made that it takes over. */
export function startTime({ startAt, delay = 0, onConflict, maxDelay }: NewRun, now: number, firstAt = now): number {
  const at = startAt ?? now + delay;
  return onConflict === "debounce" && maxDelay !== undefined ? Math.min(at, firstAt + maxDelay) : at;
}
/** Of a run that takes over another start: one that is due keeps its place in the queue. */
export function keepingPlace(at: number, before: number | undefined, now: number): number {
  return at <= now && before !== undefined ? Math.min(at, before) : at;
}
export function deadlineTime({ deadlineAt, deadline }: NewRun, now: number): number | undefined {
  return deadlineAt ?? (deadline === undefined ? undefined : now + deadline);
}

/** A start that waits for its run to close, with moments instead of lengths of time. Its messages and its key are kept elsewhere. */
export function waitingStart(run: NewRun, now: number, firstAt: number): NewRun {
  const { messages, idempotencyKey, first, delay, maxDelay, deadline, ...start } = run;
  return { ...start, startAt: startTime(run, now, firstAt), deadlineAt: deadlineTime(run, now) };
}

/** Why "replace" cancels a run. */
export const REPLACED = "a newer start replaced it";
