// Payloads for people, which may have been written with another codec.
// Owns: nothing.
// Invariants: P8; one value that can't be read does not hide the others.

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
