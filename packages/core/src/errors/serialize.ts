// serializeError and reviveError: what is stored of an error, and the error that comes back.
// Owns nothing; the anatomy of errors, the encoding of values and the sealing by a user's codec live elsewhere.
// Invariants: P8, Y4; neither ever throws; a SerializedError is plain JSON; serializeError(reviveError(x)) equals x.

import { makeError, type SerializedError, setStack } from "../base/errorParts.ts";
import { type Codec, jsonCodec } from "../codec/codec.ts";
import { decodeError } from "../codec/decode.ts";
import { encodeError, MAX_CAUSES } from "../codec/encode.ts";
import { openError, refuseSealed, sealError } from "./seal.ts";

export type { SerializedError } from "../base/errorParts.ts";

/**
 * Takes whatever was thrown. `data` holds the fields of the error beyond the standard ones (of a FatalError: its `data`), tagged JSON
 * as the default codec writes it. With a codec of the user's all but name and code is sealed (E1).
 */
export function serializeError(thrown: unknown, codec?: Codec): SerializedError {
  const serialized = encodeError(thrown);
  return isCustom(codec) ? sealError(serialized, codec) : serialized;
}

/** The error that was serialized. Data that can't be decoded is left out: an error that can't be read would hide what happened. */
export function reviveError(serialized: SerializedError, codec?: Codec): Error {
  const open = isCustom(codec) ? openError(serialized, codec) : serialized;
  for (const read of [() => open, () => withoutData(open, 0)]) {
    try {
      return decodeError(read());
    } catch {
      // Tried again without data; what then is left has no part that could fail, unless it is no SerializedError at all.
    }
  }
  const error = makeError(String(serialized?.name ?? "Error"), String(serialized?.message ?? "an error that can't be read"));
  if (typeof serialized?.stack === "string") setStack(error, serialized.stack);
  return error;
}

/** For the executor: an error that the codec could not open is not one that a workflow may go on with (V4). */
export function reviveRecorded(serialized: SerializedError): Error {
  refuseSealed(serialized);
  return reviveError(serialized);
}

function isCustom(codec: Codec | undefined): codec is Codec {
  return codec !== undefined && codec !== jsonCodec;
}

/** A copy without `data` along the chain of causes, as far as one is ever written. */
function withoutData(error: SerializedError, causes: number): SerializedError {
  if (error === null || typeof error !== "object") return error;
  const { data: _data, cause, ...rest } = error;
  const copy: SerializedError = rest;
  if (cause !== undefined && causes < MAX_CAUSES) copy.cause = withoutData(cause, causes + 1);
  return copy;
}
