// What is kept of a cancellation as the error of the run that it ended.
// Owns: nothing.
// Invariants: K1 K9 (the reason is what `result()` throws, whether the run had begun or not).

import { CanceledError, type SerializedError, serializeError } from "@holdfast/core";

/** Undefined if no reason was given: that it was canceled says its status. */
export function canceledBy(reason: string | undefined): SerializedError | undefined {
  return reason === undefined ? undefined : serializeError(new CanceledError(reason));
}
