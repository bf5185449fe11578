// What is kept of a cancellation as the error of the run that it ended.
// Owns: nothing.
// Invariants: K1 K9 (the reason is what `result()` throws, whether the run had begun or not).

import { CanceledError, type SerializedError, serializeError } from "@holdfast/core";

/** `thrown`: what the workflow made of it. Undefined if there is neither that nor a reason: that it was canceled says its status. */
export function canceledBy(reason: string | undefined, thrown?: SerializedError): SerializedError | undefined {
  if (reason === undefined && (thrown === undefined || thrown.name === "CanceledError")) return thrown;
  const error = serializeError(new CanceledError(reason));
  return thrown === undefined ? error : { ...error, cause: thrown };
}
