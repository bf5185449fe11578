// User values as an inspection gives them: encoded until they are read.
// Owns: nothing.
// Invariants: P8; a value that can't be decoded does not hide the others, and none is decoded that is not shown.

import { type Codec, messageOf, PAYLOAD_FIELDS, type Payload, type Turn, toError } from "@holdfast/core";
import type { EncodedValue, Inspection } from "./types.ts";

export function encodedValue(payload: Payload, codec: Codec): EncodedValue {
  return {
    bytes: typeof payload === "string" ? Buffer.byteLength(payload) : payload.byteLength,
    read() {
      try {
        return { value: codec.decode(payload) };
      } catch (error) {
        return { unreadable: messageOf(toError(error)).split("\n", 1)[0] ?? "" }; // the rest is advice for callers
      }
    },
  };
}

/** "Decodes" to values that are not decoded yet, for functions that decode all that they read. */
export function lazily(codec: Codec): Codec {
  return { encode: (value) => codec.encode(value), decode: (payload) => encodedValue(payload, codec) };
}

/** Decodes; a value that can't be decoded is shown as the reason. */
export function forgiving(codec: Codec): Codec {
  return {
    encode: (value) => codec.encode(value),
    decode: (payload) => {
      const read = encodedValue(payload, codec).read();
      return "value" in read ? read.value : { $unreadable: read.unreadable };
    },
  };
}

/** Their fields have names of users. */
const AS_THEY_ARE: ReadonlySet<string> = new Set(["error", "rollbackError", "attributes"]);

/**
 * A copy of a turn in which `show` has replaced each payload: inputs, outputs, payloads of messages, published states. Errors and
 * attributes stay as they are.
 */
export function showTurn(turn: Turn, inspection: Pick<Inspection, "value">, show: (value: EncodedValue) => unknown): unknown {
  const shown = (value: unknown, field?: string): unknown => {
    if (field !== undefined && PAYLOAD_FIELDS.has(field) && (typeof value === "string" || value instanceof Uint8Array))
      return show(inspection.value(value));
    if (Array.isArray(value)) return value.map((item) => shown(item));
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, AS_THEY_ARE.has(key) ? item : shown(item, key)]));
  };
  return shown(turn);
}
