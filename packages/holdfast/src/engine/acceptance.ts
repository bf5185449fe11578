// The wait for an update that a receive may accept later.
// Owns: the timer of one wait.
// Invariants: M8 (once its time to be accepted is over, the next activation or the caller that waits rejects the update, whichever is first).

import { NOT_ACCEPTED_IN_TIME, serializeError, UpdateRejectedError } from "@holdfast/core";
import type { Environment, Timer } from "@holdfast/host";
import type { UpdateJob, UpdateOutcome, WaitOptions } from "../backend/port.ts";
import type { Store } from "../store/port.ts";
import type { ResultWaiters } from "./resultWaiters.ts";

/** How long after the time that an update may wait its sender rejects it, and the pause between retries. Milliseconds. */
const REJECT_AFTER_MS = 100;
const REJECT_AGAIN_MS = 500;

export interface AcceptanceHost {
  readonly store: Pick<Store, "rejectUpdates">;
  readonly environment: Pick<Environment, "after">;
  readonly results: Pick<ResultWaiters, "update" | "updateEnded">;
  readonly isClosed: () => boolean;
}
export interface OfferedUpdate {
  readonly runId: string;
  readonly update: UpdateJob;
  /** How long it may wait. */
  readonly within: number;
}

/** The rejection comes a little late, because a turn that has just accepted the update is likely to be in the store by then. */
export async function waitForAcceptance(host: AcceptanceHost, offered: OfferedUpdate, wait: WaitOptions): Promise<UpdateOutcome> {
  const { store, environment, results } = host;
  const { runId, within } = offered;
  const { id, name } = offered.update;
  const error = serializeError(new UpdateRejectedError({ update: name, reason: NOT_ACCEPTED_IN_TIME }));
  let timer: Timer | undefined;
  let isOver = false;
  const again = (ms: number): void => {
    if (!isOver) timer = environment.after(ms, () => void reject());
  };
  const reject = async (): Promise<void> => {
    if (isOver || host.isClosed()) return;
    try {
      const [outcome] = await store.rejectUpdates([{ runId, id, error }]);
      if (outcome === "waiting") again(REJECT_AGAIN_MS);
      else if (outcome !== undefined) results.updateEnded(runId, id, outcome);
    } catch {
      again(REJECT_AGAIN_MS); // the store can't be asked now
    }
  };
  again(within + REJECT_AFTER_MS);
  try {
    return await results.update(runId, id, wait);
  } finally {
    isOver = true;
    timer?.cancel();
  }
}
