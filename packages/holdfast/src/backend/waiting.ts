// The errors that every backend ends a wait with, in the same words.
// Owns: their wording.
// Invariants: M10 (a caller whose time is up may ask again; what it waited for goes on).

import { HoldfastError, RunBlockedError, reviveError } from "@holdfast/core";
import type { RunDescription, RunEnd } from "./port.ts";

/** What a caller waits for: the result of a run, or with `update` the reply to it. */
export interface WaitSubject {
  readonly runId: string;
  readonly update?: string | undefined;
}

/** The caller's `timeout` is over. With a description the message says what the run waits for. */
export function waitTimeout(
  { runId, update }: WaitSubject,
  timeout: number,
  run?: Pick<RunDescription, "status" | "waitingFor">,
): HoldfastError {
  const what = update === undefined ? `The result of run ${runId}` : `The reply to update ${update} of run ${runId}`;
  const standing = run === undefined ? "" : standingOf(run);
  return new HoldfastError(`${what} did not come within ${timeout} ms.${standing} It may still come: ask again.`, {
    code: "HF_WAIT_TIMEOUT",
    retryable: true,
  });
}
function standingOf({ status, waitingFor }: Pick<RunDescription, "status" | "waitingFor">): string {
  return waitingFor.length === 0 ? ` The run is ${status}.` : ` The run is ${status} and waits for: ${waitingFor.join(", ")}.`;
}

/** V4: what a caller gets that waits for the result, or for a reply, of a run whose code can't advance it. */
export function blockedError({ id, error }: Pick<RunEnd, "id" | "error">): RunBlockedError {
  const cause = error === undefined ? undefined : reviveError(error);
  return new RunBlockedError({ runId: id, reason: cause?.message ?? "its code can't advance it", ...(cause !== undefined && { cause }) });
}

/** For calls that come after `close`, and for callers that wait when it is called. */
export function engineClosed(message = "This engine is closed. Open another: Holdfast.open(url)."): HoldfastError {
  return new HoldfastError(message, { code: "HF_ENGINE_CLOSED" });
}
