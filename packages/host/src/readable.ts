// What is shown of payloads that may have been written with another codec.
// Owns: nothing.
// Invariants: P8; one value that can't be decoded stops no other from being shown.

import { type Codec, type Payload, type SerializedError, serializeError } from "@holdfast/core";

/** The value, or why it can't be read. */
export function readable(codec: Codec, payload: Payload | undefined): { readonly value?: unknown; readonly error?: SerializedError } {
  if (payload === undefined) return {};
  try {
    return { value: codec.decode(payload) };
  } catch (error) {
    return { error: serializeError(error) };
  }
}
