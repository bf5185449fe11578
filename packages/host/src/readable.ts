// Decodes payloads for display. They may have been written with another codec.
// Owns: nothing.
// Invariants: P8; a value that can't be decoded does not hide the others.

import { type Codec, type Payload, type SerializedError, serializeError } from "@holdfast/core";

/** The decoded `value`, or the `error` that decoding it threw. */
export function readable(codec: Codec, payload: Payload | undefined): { readonly value?: unknown; readonly error?: SerializedError } {
  if (payload === undefined) return {};
  try {
    return { value: codec.decode(payload) };
  } catch (error) {
    return { error: serializeError(error) };
  }
}
