// serializeError and reviveError: turn an error into its stored form and back.
// Owns nothing: base/errorParts.ts splits errors, the codec encodes values, seal.ts applies a user's codec.
// Invariants: P8, Y4; neither function throws; a SerializedError is plain JSON; serializeError(reviveError(x)) equals x.

import { makeError, type SerializedError, setStack } from "../base/errorParts.ts";
import { type Codec, jsonCodec } from "../codec/codec.ts";
import { decodeError } from "../codec/decode.ts";
import { encodeError, MAX_CAUSES } from "../codec/encode.ts";
import { openError, refuseSealed, sealError } from "./seal.ts";

export type { SerializedError } from "../base/errorParts.ts";

/**
 * Accepts any thrown value. `data` holds the non-standard fields of the error (for a FatalError: its `data`), as tagged JSON of the
 * default codec. With a user's codec everything except name and code is sealed (E1).
 */
export function serializeError(thrown: unknown, codec?: Codec): SerializedError {
  const serialized = encodeError(thrown);
  return isCustom(codec) ? sealError(serialized, codec) : serialized;
}

/** Rebuilds the serialized error. Data that can't be decoded is left out: a second error would hide the original one. */
export function reviveError(serialized: SerializedError, codec?: Codec): Error {
  const open = isCustom(codec) ? openError(serialized, codec) : serialized;
  for (const read of [() => open, () => withoutData(open, 0)]) {
    try {
      return decodeError(read());
    } catch {
      // Retry without data. The rest can be decoded unless the value is not a SerializedError at all.
    }
  }
  const error = makeError(String(serialized?.name ?? "Error"), String(serialized?.message ?? "an error that can't be read"));
  if (typeof serialized?.stack === "string") setStack(error, serialized.stack);
  return error;
}

/** For the executor: throws if the codec could not open the error, because a workflow must not continue with it (V4). */
export function reviveRecorded(serialized: SerializedError): Error {
  refuseSealed(serialized);
  return reviveError(serialized);
}

function isCustom(codec: Codec | undefined): codec is Codec {
  return codec !== undefined && codec !== jsonCodec;
}

/** A copy without `data`, in the error and in its causes, up to the number of causes that are ever written. */
function withoutData(error: SerializedError, causes: number): SerializedError {
  if (error === null || typeof error !== "object") return error;
  const { data: _data, cause, ...rest } = error;
  const copy: SerializedError = rest;
  if (cause !== undefined && causes < MAX_CAUSES) copy.cause = withoutData(cause, causes + 1);
  return copy;
}
