// Sealing: a user's codec takes what an error says, and the reasons of cancel and terminate, before they are stored.
// Owns the sealed form of an error and of a text, and the way back. Where errors and texts occur in records, `history/sealing.ts` knows.
// Invariants: E1 (message, stack, cause and data are the codec's; name and code stay readable); sealing never throws and never falls back
// to plain text; opening never throws: what can't be opened stays sealed, and `reviveRecorded` refuses it, so that no run goes on with it.

import type { SerializedError } from "../base/errorParts.ts";
import { because } from "../base/text.ts";
import { fromBase64, toBase64 } from "../codec/base64.ts";
import type { Codec } from "../codec/codec.ts";
import { malformed } from "../codec/decode.ts";
import { payloadFromJson, payloadToJson } from "../codec/payload.ts";

/** What a store keeps of an error: an error for everybody, and all that it says for those who have the codec. */
interface SealedError extends SerializedError {
  readonly sealed: unknown;
}
/** What is sealed of an error. */
type Secret = Pick<SerializedError, "message" | "stack" | "cause" | "data">;

const MESSAGE = "The codec of this run has sealed what the error says.";
const UNSEALABLE = "What the error says is not kept: the codec could not encode it.";

/** Why an error could not be opened, for whoever has to go on with it. */
const failures = new WeakMap<object, unknown>();

export function isSealed(error: SerializedError): error is SealedError {
  return typeof error === "object" && error !== null && "sealed" in error;
}

/** An error that is sealed already is left as it is. */
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

/** The error as it was, or sealed as it is if the codec can't open it. Texts that a store put into an error of its own are opened too. */
export function openError(error: SerializedError, codec: Codec): SerializedError {
  if (!isSealed(error)) return hasToken(error) ? (openTexts(error, codec) as SerializedError) : error;
  try {
    const { message, stack, cause, data } = codec.decode(payloadFromJson(error.sealed)) as Secret;
    if (typeof message !== "string") throw malformed("a sealed error has no message");
    const open: SerializedError = { name: error.name, message };
    if (stack !== undefined) open.stack = stack;
    // A store may have put an error around one that was sealed before.
    if (cause !== undefined) open.cause = openError(cause, codec);
    if (data !== undefined) open.data = data;
    return open;
  } catch (failure) {
    const closed: SealedError = { ...error, message: `What the error says can't be read${because(failure)}.` };
    failures.set(closed, failure);
    return closed;
  }
}

/** Throws what the codec said, if it could not open the error. */
export function refuseSealed(error: SerializedError): void {
  if (isSealed(error)) throw failures.get(error) ?? malformed("an error was sealed by another codec");
}

function codeOf(data: unknown): string | undefined {
  const code = typeof data === "object" && data !== null ? (data as { code?: unknown }).code : undefined;
  return typeof code === "string" ? code : undefined;
}

// ── texts ──

/** Letters that no text format escapes: a store builds messages of its own around it. */
const TOKEN = /\$sealed:([tb]):([A-Za-z0-9+/]*={0,2});/g;

export function sealText(text: string, codec: Codec): string {
  try {
    const payload = codec.encode(text);
    return typeof payload === "string" ? `$sealed:t:${toBase64(new TextEncoder().encode(payload))};` : `$sealed:b:${toBase64(payload)};`;
  } catch {
    return "(a text that the codec could not encode)";
  }
}

/** With every sealed text in it opened. One that can't be opened stays as it is. */
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
  // A field of a user's may have the name too.
  if ("sealed" in node && "name" in node && "message" in node) return openError(node as SealedError, codec);
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, openTexts(value, codec)]));
}
