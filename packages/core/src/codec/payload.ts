// Payloads (values as a codec encoded them): their size, and their form inside a JSON document.
// Owns the envelope `$payload`, which wraps payloads that are not JSON text.
// Invariants: P9 (size is counted in bytes of UTF-8); payloadFromJson(payloadToJson(p)) is p, also through JSON text.

import { fromBase64, toBase64 } from "./base64.ts";
import { malformed } from "./decode.ts";

type Payload = Uint8Array | string;

/** The size of an encoded value, in bytes. */
export function payloadSize(payload: Payload): number {
  return typeof payload === "string" ? utf8Length(payload) : payload.byteLength;
}

/** Cheaper than `payloadSize`: text whose length alone proves that it fits is not measured. */
export function payloadExceeds(payload: Payload, maxBytes: number): boolean {
  if (payload.length > maxBytes) return true;
  return typeof payload === "string" && payload.length * 3 > maxBytes && utf8Length(payload) > maxBytes;
}

const encoder = new TextEncoder();
const scratch = new Uint8Array(16_384);

/** Uses the runtime's encoder, which is ten times as fast as counting in JavaScript. */
function utf8Length(text: string): number {
  let length = 0;
  for (let at = 0; at < text.length; ) {
    const { read, written } = encoder.encodeInto(at === 0 ? text : text.slice(at), scratch);
    length += written;
    at += read;
  }
  return length;
}

/** The payload as a JSON tree: JSON text becomes the tree it describes, readable and queryable; anything else is wrapped in an envelope. */
export function payloadToJson(payload: Payload): unknown {
  if (typeof payload !== "string") return { $payload: "base64", data: toBase64(payload) };
  try {
    const tree: unknown = JSON.parse(payload);
    // Text that would not be restored exactly (spaces, duplicate keys) is kept as text.
    if (!isEnvelope(tree) && JSON.stringify(tree) === payload) return tree;
  } catch {
    // Not JSON.
  }
  return { $payload: "text", data: payload };
}

/** The inverse of `payloadToJson`. */
export function payloadFromJson(json: unknown): Payload {
  if (!isEnvelope(json)) return jsonText(json);
  const { $payload, data } = json;
  if (typeof data === "string" && $payload === "text") return data;
  if (typeof data === "string" && $payload === "base64") return bytes(data);
  throw malformed('a $payload must be "text" or "base64", with its data');
}

function jsonText(json: unknown): string {
  try {
    return JSON.stringify(json);
  } catch (error) {
    throw malformed(error instanceof RangeError ? "it is nested too deeply" : "it is not JSON", error);
  }
}

function bytes(base64: string): Uint8Array {
  try {
    return fromBase64(base64);
  } catch (error) {
    throw malformed("a $payload is not base64", error);
  }
}

function isEnvelope(json: unknown): json is { $payload: unknown; data?: unknown } {
  return json !== null && typeof json === "object" && Object.hasOwn(json, "$payload");
}
