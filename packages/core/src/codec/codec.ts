// The codec: encodes every value on its way to a store and decodes it on the way back. jsonCodec is the default.
// Owns the fast paths for plain JSON; encode.ts and decode.ts handle all other values.
// Invariants: P8 (plain JSON is stored as JSON.stringify writes it; decode(encode(x)) is x; encode(decode(encode(x))) is encode(x)).
import { decodeTree, malformed } from "./decode.ts";
import { encodeTree, TOO_LARGE } from "./encode.ts";
import type { Json } from "./json.ts";
import { isPlainJson, isPlainNumber } from "./plain.ts";

/**
 * Encodes values for storage. Both methods are synchronous, and `decode(encode(x))` must equal `x`.
 * @example
 * ```ts
 * const reversed = (text: string) => [...text].reverse().join(""); // stands for encryption
 * const codec: Codec = {
 *   encode: (value) => reversed(jsonCodec.encode(value)),
 *   decode: (data) => jsonCodec.decode(reversed(String(data))),
 * };
 * const engine = await Holdfast.open("memory:", { codec });
 * const echo = workflow("echo", async (_, text: string) => text);
 * await engine.worker({ workflows: [echo] });
 * console.log(await (await engine.start(echo, "secret")).result()); // "secret"
 * await engine.close();
 * ```
 */
export interface Codec {
  /** Encodes a value: everything that users pass, return, send and publish. */
  encode(value: unknown): Uint8Array | string;
  /** The inverse of `encode`. */
  decode(data: Uint8Array | string): unknown;
}

const UNDEFINED = '{"$undefined":true}';

/**
 * The default codec: JSON text, with tags for values that JSON lacks, such as Date, Map and undefined.
 * @example
 * ```ts
 * const text = jsonCodec.encode({ at: new Date(0), none: undefined });
 * console.log(jsonCodec.decode(text)); // { at: new Date(0), none: undefined }
 * ```
 */
export const jsonCodec = {
  /**
   * Encodes a value as text.
   * @throws `UnserializableValueError` if it contains something that can't be stored, with its path.
   */
  encode(value: unknown): string {
    return encodeJson(value, Number.POSITIVE_INFINITY) ?? "";
  },

  /**
   * The inverse of `encode`.
   * @throws `InvalidInputError` if the text is malformed.
   */
  decode(data: Uint8Array | string): unknown {
    const text = typeof data === "string" ? data : fromUtf8(data);
    if (text === UNDEFINED) return undefined;
    const tree = parse(text);
    // If no string starts with `$`, the tree has neither tags nor escaped keys.
    return text.includes("$") && text.includes('"$') ? decodeTree(tree, text) : tree;
  },
} as const satisfies Codec;

/**
 * Encodes a value; undefined if the text would have more than `maxBytes` (P9). The default codec measures without writing the text, since a
 * value may be too large to be written at all. With a user's codec the caller must measure the payload.
 */
export function encodeWithin(codec: Codec, value: unknown, maxBytes: number): Uint8Array | string | undefined {
  return codec === jsonCodec ? encodeJson(value, maxBytes) : codec.encode(value);
}

function encodeJson(value: unknown, maxBytes: number): string | undefined {
  switch (typeof value) {
    case "undefined":
      return UNDEFINED;
    case "boolean":
      return value ? "true" : "false";
    case "string":
      return value.length > maxBytes ? undefined : JSON.stringify(value);
    case "number":
      if (isPlainNumber(value)) return String(value);
      break;
    case "object":
      if (value === null) return "null";
      if (isPlain(value, maxBytes)) return JSON.stringify(value);
      break;
    case "bigint":
    case "function":
    case "symbol":
      break;
  }
  const tree = encodeTree(value, maxBytes);
  return tree === TOO_LARGE ? undefined : canonical(JSON.stringify(tree));
}

/**
 * Class instances that share an object are encoded with references, and decode to plain objects that share it. Those would be encoded as
 * plain JSON, so plain JSON is written right away: otherwise the same value would have two encodings.
 */
function canonical(text: string): string {
  if (!text.includes("$ref")) return text;
  const decoded = jsonCodec.decode(text);
  return isPlainJson(decoded) ? JSON.stringify(decoded) : text;
}

/** False if a getter throws: the slow path meets it again and reports its path. */
function isPlain(value: object, maxBytes: number): boolean {
  try {
    return isPlainJson(value, maxBytes);
  } catch {
    return false;
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw malformed("it is not JSON", error);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function fromUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw malformed("it is not UTF-8 text", error);
  }
}
