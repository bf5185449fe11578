// Advice for errors that all hosts share, with this host's names for the calls.
// Owns: the advice that differs. The core owns the rest of these messages.
// Invariants: the advice names only calls that exist in this package.

import { adviseAs, type HostAdvice } from "@holdfast/core";

const FAILED = "See `cause`. Catch it in the workflow to handle the failure, or fix the cause, call recover() on its handle and wake it.";
const HERE: HostAdvice = {
  StepFailedError: FAILED,
  ActivityFailedError: FAILED,
  DeadlineExceededError: "Start it again with a later `deadline`. Its history() shows what took the time.",
  RunAlreadyExistsError: "Choose another id, or open the existing run with openWorkflow(..).",
  RunClosedError: "Start a run with another id.",
  RunBlockedError:
    "Run it with code that matches its history: its alarm retries it if the cause may pass; recover() and wake() retry it at once.",
};

/** The same error, with the advice of this host. */
export function adviseHere<E>(error: E): E {
  return adviseAs(error, HERE);
}
