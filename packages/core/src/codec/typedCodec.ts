// typedCodec: wraps a user's codec so that its failures become Holdfast errors.
// Owns the error texts, which name the codec and what it failed at.
// Invariants: P8 (a failed encode is an UnserializableValueError, which is never retried); a failed decode is an InvalidInputError.
import { InvalidInputError, UnserializableValueError } from "../base/inputs.ts";
import { because, preview, tagOf } from "../base/text.ts";
import { type Codec, jsonCodec } from "./codec.ts";

/** Wraps a user's codec so that its failures are `UnserializableValueError` and `InvalidInputError`. */
export function typedCodec(codec: Codec): Codec {
  if (codec === jsonCodec) return codec;
  return { encode: (value) => encode(codec, value), decode: (data) => decode(codec, data) };
}

function encode(codec: Codec, value: unknown): string | Uint8Array {
  let payload: unknown;
  try {
    payload = codec.encode(value);
  } catch (cause) {
    if (cause instanceof UnserializableValueError) throw cause;
    const reason = `${nameOf(codec)} can't encode it${because(cause)}`;
    // biome-ignore lint/style/useErrorCause: it is among the details
    throw new UnserializableValueError({ path: "value", type: tagOf(value), reason, cause });
  }
  // Checked here: an error from the store would not name the codec as the cause.
  if (typeof payload === "string" || payload instanceof Uint8Array) return payload;
  const reason = `${nameOf(codec)}: encode must return a string or a Uint8Array synchronously, not ${kindOf(payload)}`;
  throw new UnserializableValueError({ path: "value", type: tagOf(value), reason });
}

function decode(codec: Codec, data: string | Uint8Array): unknown {
  let value: unknown;
  try {
    value = codec.decode(data);
  } catch (cause) {
    if (cause instanceof InvalidInputError) throw cause;
    throw unreadable(`${nameOf(codec)} can't decode it${because(cause)}`, cause);
  }
  if (!(value instanceof Promise)) return value;
  value.catch(() => {});
  throw unreadable(`${nameOf(codec)}: decode must return the value synchronously, not a promise`);
}

function unreadable(message: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "encoded value", issues: [{ message }], cause });
}
function kindOf(payload: unknown): string {
  if (payload instanceof Promise) {
    payload.catch(() => {});
    return "a promise";
  }
  return Array.isArray(payload) ? "a list" : typeof payload === "object" && payload !== null ? "an object" : preview(payload);
}
function nameOf(codec: Codec): string {
  const { name } = codec.constructor ?? {};
  return name === undefined || name === "" || name === "Object" ? "the codec" : `codec ${name}`;
}
