// Advice for errors that all hosts share, with this host's names for the calls.
// Owns: the advice that differs. The core owns the rest of these messages.
// Invariants: the advice names only calls that exist in this package.

import { errorCatalog, HoldfastError } from "@holdfast/core";

const AS_ELSEWHERE = new Map<string, string>(errorCatalog.map(({ code, whatToDo }) => [code, whatToDo]));
const HERE: ReadonlyMap<string, string> = new Map([
  [
    "HF_STEP_FAILED",
    "See `cause`. Catch it in the workflow to handle the failure, or fix the cause, call recover() on its handle and wake it.",
  ],
  [
    "HF_ACTIVITY_FAILED",
    "See `cause`. Catch it in the workflow to handle the failure, or fix the cause, call recover() on its handle and wake it.",
  ],
  ["HF_DEADLINE_EXCEEDED", "Start it again with a later `deadline`. Its history() shows what took the time."],
  ["HF_RUN_ALREADY_EXISTS", "Choose another id, or open the existing run with openWorkflow(..)."],
  ["HF_RUN_CLOSED", "Start a run with another id."],
  [
    "HF_RUN_BLOCKED",
    "Run it with code that matches its history: its alarm retries it if the cause may pass; recover() and wake() retry it at once.",
  ],
]);

/** The same error, with the advice of this host. */
export function adviseHere<E>(error: E): E {
  if (!(error instanceof HoldfastError)) return error;
  const [here, there] = [HERE.get(error.code), AS_ELSEWHERE.get(error.code)];
  if (here === undefined || there === undefined || !error.message.endsWith(`\n${there}`)) return error;
  const message = error.message.slice(0, -there.length) + here;
  const stack = error.stack?.replace(error.message, () => message);
  Object.defineProperty(error, "message", { value: message, writable: true, configurable: true });
  if (stack !== undefined) Object.defineProperty(error, "stack", { value: stack, writable: true, configurable: true });
  return error;
}
