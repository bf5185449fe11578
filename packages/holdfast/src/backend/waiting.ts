// The errors with which every backend ends a wait.
// Owns: their texts.
// Invariants: M10 (a caller that timed out may ask again; what it waited for continues).

import { HoldfastError, RunBlockedError, reviveError } from "@holdfast/core";
import type { RunDescription, RunEnd } from "./port.ts";

/** What a caller waits for: the result of a run, or, if `update` is set, the reply to that update. */
export interface WaitSubject {
  /** The run that is waited for. */
  readonly runId: string;
  /** The update whose outcome is waited for. */
  readonly update?: string | undefined;
}

/** The caller's `timeout` has passed. With a description, the message includes what the run waits for. */
export function waitTimeout(
  { runId, update }: WaitSubject,
  timeout: number,
  run?: Pick<RunDescription, "status" | "waitingFor">,
): HoldfastError {
  const what = update === undefined ? `The result of run ${runId}` : `The reply to update ${update} of run ${runId}`;
  const standing = run === undefined ? "" : standingOf(run);
  return new HoldfastError(`${what} did not arrive within ${timeout} ms.${standing} It may still arrive: ask again.`, {
    code: "HF_WAIT_TIMEOUT",
    retryable: true,
  });
}
function standingOf({ status, waitingFor }: Pick<RunDescription, "status" | "waitingFor">): string {
  return waitingFor.length === 0 ? ` The run is ${status}.` : ` The run is ${status} and waits for: ${waitingFor.join(", ")}.`;
}

/** V4: the error for callers that wait for the result of, or a reply from, a run that its code can't advance. */
export function blockedError({ id, error }: Pick<RunEnd, "id" | "error">): RunBlockedError {
  const cause = error === undefined ? undefined : reviveError(error);
  return new RunBlockedError({ runId: id, reason: cause?.message ?? "its code can't advance it", ...(cause !== undefined && { cause }) });
}

/** For calls after `close`, and for callers that are waiting when it is called. */
export function engineClosed(message = "This engine is closed. Open another: Holdfast.open(url)."): HoldfastError {
  return new HoldfastError(message, { code: "HF_ENGINE_CLOSED" });
}
