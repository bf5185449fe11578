// The error of a canceled run.
// Owns: nothing.
// Invariants: K1 K9 (the reason is what `result()` throws, whether the run had begun or not).

import { CanceledError, type SerializedError, serializeError } from "@holdfast/core";

/**
 * The error of a canceled run. `thrown`: the error that ended the workflow. Undefined if there is neither that nor a reason: the status
 * says that it was canceled.
 */
export function canceledBy(reason: string | undefined, thrown?: SerializedError): SerializedError | undefined {
  if (reason === undefined && (thrown === undefined || thrown.name === "CanceledError")) return thrown;
  const error = serializeError(new CanceledError(reason));
  return thrown === undefined ? error : { ...error, cause: thrown };
}
