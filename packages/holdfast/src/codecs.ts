// What is shown of payloads that may have been written with another codec.
// Owns: nothing.
// Invariants: P8; who looks at many things is not kept from all of them by one that can't be read.

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
