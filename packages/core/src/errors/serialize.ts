// serializeError and reviveError: what is stored of an error, and the error that comes back.
// Owns the sealing of `data` by a user's codec; the anatomy of errors and the encoding of values live elsewhere.
// Invariants: P8, Y4; neither ever throws; a SerializedError is plain JSON; serializeError(reviveError(x)) equals x.
import type { Codec } from "../codec/codec.ts";
import { decodeError } from "../codec/decode.ts";
import { encodeError, MAX_CAUSES } from "../codec/encode.ts";
import { payloadFromJson, payloadToJson } from "../codec/payload.ts";
import { makeError, type SerializedError, setStack } from "./anatomy.ts";

export type { SerializedError } from "./anatomy.ts";

/**
 * Takes whatever was thrown. `data` holds the fields of the error beyond the standard ones (of a FatalError: its `data`), tagged JSON
 * as the default codec writes it. A codec that encrypts is given that JSON, and its payload takes the place of `data`; name, message
 * and stack stay readable.
 */
export function serializeError(thrown: unknown, codec?: Codec): SerializedError {
  const serialized = encodeError(thrown);
  return codec === undefined ? serialized : mapData(serialized, (data) => payloadToJson(codec.encode(data)));
}

/** The error that was serialized. Data that can't be decoded is left out: an error that can't be read would hide what happened. */
export function reviveError(serialized: SerializedError, codec?: Codec): Error {
  const open = codec === undefined ? serialized : mapData(serialized, (data) => codec.decode(payloadFromJson(data)));
  for (const readable of [open, mapData(open, () => undefined)]) {
    try {
      return decodeError(readable);
    } catch {
      // Tried again without data; what then is left has no part that could fail, unless it is no SerializedError at all.
    }
  }
  const error = makeError(String(serialized?.name ?? "Error"), String(serialized?.message ?? "an error that can't be read"));
  if (typeof serialized?.stack === "string") setStack(error, serialized.stack);
  return error;
}

/** A copy with `data` replaced along the chain of causes, as far as one is ever written; dropped where that fails or gives undefined. */
function mapData(error: SerializedError, map: (data: unknown) => unknown, causes = 0): SerializedError {
  if (error === null || typeof error !== "object") return error;
  const { data, cause, ...rest } = error;
  const copy: SerializedError = rest;
  if (cause !== undefined && causes < MAX_CAUSES) copy.cause = mapData(cause, map, causes + 1);
  try {
    const mapped = data === undefined ? undefined : map(data);
    if (mapped !== undefined) copy.data = mapped;
  } catch {
    // Dropped.
  }
  return copy;
}
