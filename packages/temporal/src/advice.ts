// Advice for errors that all hosts share, where Temporal has other ways than a database.
// Owns: the advice that differs. The core owns the rest of these messages.
// Invariants: D10 (a failed run can't be continued here), V4 (the server retries a blocked run by itself).

import { adviseAs, type HostAdvice } from "@holdfast/core";

const INSTEAD =
  "A failed run can't be resumed on Temporal: when the cause is fixed, start a new run, or reset this one with `temporal workflow reset`.";
const FAILED = `See \`cause\`. Catch it in the workflow to handle the failure. ${INSTEAD}`;

export const ADVICE: HostAdvice = {
  StepFailedError: FAILED,
  ActivityFailedError: FAILED,
  RunFailedError: `See \`cause\` and run.operations(). ${INSTEAD}`,
  RunBlockedError: "Fix the cause and deploy. Temporal retries the run by itself, after ten minutes at the latest.",
};

/** The same error or stored error, with the advice of this host. */
export function adviseHere<E>(error: E): E {
  return adviseAs(error, ADVICE);
}
