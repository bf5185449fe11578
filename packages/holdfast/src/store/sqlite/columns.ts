// Between values of the port and columns of SQLite.
// Owns: how texts, payloads, errors and times are written, and read back as exactly what they were.
// Invariants: P8 (payloads of the default codec are stored as the JSON that they are); whatever text a user chooses for an id or a name,
// no two of them meet in one column value.

import { jsonCodec, type Payload, payloadFromJson, type SerializedError } from "@holdfast/core";
import { plainBytes, type Value } from "./library.ts";

/** What SQLite or its libraries may cut short (NUL) or change (half a surrogate pair; whole ones are looked at more closely). */
const SUSPECT = /[\0\uD800-\uDFFF]/;
const UNSAFE = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

function isSafe(text: string): boolean {
  return !SUSPECT.test(text) || !UNSAFE.test(text);
}

/** A text for a column; one that SQLite would not keep as it is becomes a blob of UTF-16. */
export function text(value: string): Value {
  return isSafe(value) ? value : Buffer.from(value, "utf16le");
}
export function textOrNull(value: string | undefined): Value {
  return value === undefined ? null : text(value);
}
export function readText(value: Value | undefined): string {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? Buffer.from(value).toString("utf16le") : String(value ?? "");
}
export function readOptionalText(value: Value | undefined): string | undefined {
  return value === null || value === undefined ? undefined : readText(value);
}

/** Of JavaScript's clock, in the year 275760. */
export const LAST_MOMENT = 8_640_000_000_000_000;

const ENVELOPE = '{"$payload":';

/** Text as it is, bytes as a blob; text that SQLite would not keep, or that looks like the envelope for it, in the core's envelope. */
export function payload(value: Payload): Value {
  if (typeof value !== "string") return value;
  return isSafe(value) && !value.startsWith(ENVELOPE) ? value : JSON.stringify({ $payload: "text", data: value });
}
export function payloadOrNull(value: Payload | undefined): Value {
  return value === undefined ? null : payload(value);
}
export function readPayload(value: Value | undefined): Payload {
  if (value instanceof Uint8Array) return plainBytes(value) as Uint8Array;
  const found = String(value);
  return found.startsWith(ENVELOPE) ? payloadFromJson(JSON.parse(found)) : found;
}
export function readOptionalPayload(value: Value | undefined): Payload | undefined {
  return value === null || value === undefined ? undefined : readPayload(value);
}

/** Everything that is neither a text nor a payload: JSON, with the codec's tags for Infinity and the like. */
export function json(value: unknown): string {
  return jsonCodec.encode(value);
}
export function jsonOrNull(value: unknown): Value {
  return value === undefined ? null : json(value);
}
export function readJson<T>(value: Value | undefined): T {
  return jsonCodec.decode(String(value)) as T;
}
export function readOptionalJson<T>(value: Value | undefined): T | undefined {
  return value === null || value === undefined ? undefined : readJson<T>(value);
}

export function numberOrNull(value: number | undefined): Value {
  return value ?? null;
}
export function readNumber(value: Value | undefined): number {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  throw new TypeError(`A number was expected, and there is ${value === null ? "null" : `a ${typeof value}`}.`);
}
export function readOptionalNumber(value: Value | undefined): number | undefined {
  return value === null || value === undefined ? undefined : readNumber(value);
}

export function readError(value: Value | undefined): SerializedError | undefined {
  return readOptionalJson<SerializedError>(value);
}
