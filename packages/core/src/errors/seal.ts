// Sealing: encodes the content of errors, and the reasons of cancel and terminate, with a user's codec before they are stored.
// Owns the sealed form of an error and of a text, and how to open both. `history/sealing.ts` knows where they occur in records.
// Invariants: E1 (message, stack, cause and data are encoded by the codec; name and code stay readable); sealing never throws and never
// falls back to plain text; opening never throws: an error that can't be opened stays sealed, and `reviveRecorded` rejects it, so that
// no run continues with it.

import type { SerializedError } from "../base/errorParts.ts";
import { because } from "../base/text.ts";
import { fromBase64, toBase64 } from "../codec/base64.ts";
import type { Codec } from "../codec/codec.ts";
import { malformed } from "../codec/decode.ts";
import { payloadFromJson, payloadToJson } from "../codec/payload.ts";

/** A stored error: name and code are readable for everyone, the content only with the codec. */
interface SealedError extends SerializedError {
  readonly sealed: unknown;
}
/** The parts of an error that are sealed. */
type Secret = Pick<SerializedError, "message" | "stack" | "cause" | "data">;

const MESSAGE = "The content of this error is encoded with the codec of its run.";
const UNSEALABLE = "The content of this error was discarded, because the codec could not encode it.";

/** The codec's error for each stored error that could not be opened; `refuseSealed` throws it. */
const failures = new WeakMap<object, unknown>();

export function isSealed(error: SerializedError): error is SealedError {
  return typeof error === "object" && error !== null && "sealed" in error;
}

/** Seals an error. An error that is already sealed is returned unchanged. */
export function sealError(error: SerializedError, codec: Codec): SerializedError {
  if (isSealed(error)) return error;
  const { name, message, stack, cause, data } = error;
  const code = codeOf(data);
  const shown = { name, ...(code !== undefined && { data: { code } }) };
  const secret: Secret = { message };
  if (stack !== undefined) secret.stack = stack;
  if (cause !== undefined) secret.cause = cause;
  if (data !== undefined) secret.data = data;
  try {
    const sealed: SealedError = { ...shown, message: MESSAGE, sealed: payloadToJson(codec.encode(secret)) };
    return sealed;
  } catch {
    return { ...shown, message: UNSEALABLE };
  }
}

/** The original error, or the sealed one if the codec can't open it. Sealed texts inside errors that a store composed are opened too. */
export function openError(error: SerializedError, codec: Codec): SerializedError {
  if (!isSealed(error)) return hasToken(error) ? (openTexts(error, codec) as SerializedError) : error;
  try {
    const { message, stack, cause, data } = codec.decode(payloadFromJson(error.sealed)) as Secret;
    if (typeof message !== "string") throw malformed("a sealed error has no message");
    const open: SerializedError = { name: error.name, message };
    if (stack !== undefined) open.stack = stack;
    // The cause may be sealed too, if a store wrapped a sealed error.
    if (cause !== undefined) open.cause = openError(cause, codec);
    if (data !== undefined) open.data = data;
    return open;
  } catch (failure) {
    const closed: SealedError = { ...error, message: `The content of this error can't be decoded${because(failure)}.` };
    failures.set(closed, failure);
    return closed;
  }
}

/** Throws the codec's error if the error is still sealed. */
export function refuseSealed(error: SerializedError): void {
  if (isSealed(error)) throw failures.get(error) ?? malformed("an error was sealed by another codec");
}

function codeOf(data: unknown): string | undefined {
  const code = typeof data === "object" && data !== null ? (data as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : undefined;
}

// ── texts ──

/** Uses only characters that no text format escapes, because stores embed the token in messages that they compose. */
const TOKEN = /\$sealed:([tb]):([A-Za-z0-9+/]*={0,2});/g;

export function sealText(text: string, codec: Codec): string {
  try {
    const payload = codec.encode(text);
    return typeof payload === "string" ? `$sealed:t:${toBase64(new TextEncoder().encode(payload))};` : `$sealed:b:${toBase64(payload)};`;
  } catch {
    return "(a text that the codec could not encode)";
  }
}

/** Opens every sealed text inside the text. A token that can't be opened is kept. */
export function openText(text: string, codec: Codec): string {
  if (!text.includes("$sealed:")) return text;
  return text.replace(TOKEN, (token, kind: string, base64: string) => {
    try {
      const bytes = fromBase64(base64);
      const opened = codec.decode(kind === "t" ? new TextDecoder().decode(bytes) : bytes);
      return typeof opened === "string" ? opened : token;
    } catch {
      return token;
    }
  });
}

function hasToken(error: SerializedError): boolean {
  return typeof error?.message === "string" && (error.message.includes("$sealed:") || error.cause !== undefined);
}
function openTexts(node: unknown, codec: Codec): unknown {
  if (typeof node === "string") return openText(node, codec);
  if (Array.isArray(node)) return node.map((item) => openTexts(item, codec));
  if (typeof node !== "object" || node === null) return node;
  // Checks the shape as well, because a user's data may have a field named `sealed`.
  if ("sealed" in node && "name" in node && "message" in node) return openError(node as SealedError, codec);
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, openTexts(value, codec)]));
}
