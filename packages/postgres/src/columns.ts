// Between values of the port and columns of PostgreSQL.
// Owns: how texts, payloads, errors and times are written, and read back as exactly what they were.
// Invariants: P8 (payloads of the default codec are stored as the JSON that they are); whatever text a user chooses for a name, no two of
// them share one column value; no NUL and no half of a surrogate pair ever reaches the server, which refuses the one and loses the other.

import { jsonCodec, type Payload, payloadFromJson, payloadToJson, type SerializedError } from "@holdfast/core";
import { StoreRefusedError } from "holdfast/store";

/** What comes out of a column, or of JSON that the server made. */
export type Value = string | number | boolean | null | undefined;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const SUSPECT = /[\0\u001a\uD800-\uDFFF]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /[\0\u001a]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const LOST = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ESCAPED = /\u001a([0-9a-f]{4})/g;

/** A text for a column. What the server would not keep is written as U+001A and four hexadecimal digits, and so is U+001A. */
export function text(value: string): string {
  if (!SUSPECT.test(value)) return value;
  return value.replace(UNSAFE, (char) => `\u001a${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
/** The same for columns whose order counts: that of code points. As `ordered_text_1` has it. */
export function orderedText(value: string): string {
  if (!UNORDERED.test(value)) return value;
  return Array.from(value, (char) => {
    if (char === "\0") return "\u0001\u0001";
    if (char === "\u0001") return "\u0001\u0002";
    if (char === "\uD7FF") return "\uD7FF-";
    return LOST.test(char) ? `\uD7FF${char.charCodeAt(0).toString(16)}` : char;
  }).join("");
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNORDERED = /[\0\u0001\uD7FF-\uDFFF]/;
export function optionalText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : text(value);
}
export function readText(value: Value): string {
  const found = String(value ?? "");
  return found.includes("\u001a") ? found.replace(ESCAPED, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))) : found;
}
export function readOptionalText(value: Value): string | undefined {
  return value === null || value === undefined ? undefined : readText(value);
}

const ENVELOPE = '{"$payload":';

/** Text as it is; bytes, text that the server would not keep, and text that looks like the envelope for them, in the core's envelope. */
export function payload(value: Payload): string {
  if (typeof value !== "string") return JSON.stringify(payloadToJson(value));
  if (!value.startsWith(ENVELOPE) && (!SUSPECT.test(value) || !LOST.test(value))) return value;
  return JSON.stringify({ $payload: "text", data: value });
}
export function optionalPayload(value: Payload | undefined): string | undefined {
  return value === undefined ? undefined : payload(value);
}
export function readPayload(value: Value): Payload {
  const found = String(value);
  return found.startsWith(ENVELOPE) ? payloadFromJson(JSON.parse(found)) : found;
}
export function readOptionalPayload(value: Value): Payload | undefined {
  return value === null || value === undefined ? undefined : readPayload(value);
}

/** Everything that is neither a text nor a payload: JSON, with the codec's tags for Infinity and the like. */
export function json(value: unknown): string {
  return jsonCodec.encode(value);
}
export function optionalJson(value: unknown): string | undefined {
  return value === undefined ? undefined : json(value);
}
export function readJson<T>(value: Value): T {
  return jsonCodec.decode(String(value)) as T;
}
export function readOptionalJson<T>(value: Value): T | undefined {
  return value === null || value === undefined ? undefined : readJson<T>(value);
}
export function readError(value: Value): SerializedError | undefined {
  return readOptionalJson<SerializedError>(value);
}

/** Moments and lengths are whole milliseconds; a timer never fires early (K8). */
export function time(value: number | undefined): number | undefined {
  return value === undefined ? undefined : Math.ceil(value);
}
export function readNumber(value: Value): number {
  return Number(value);
}
export function readOptionalNumber(value: Value): number | undefined {
  return value === null || value === undefined ? undefined : Number(value);
}

type Attributes = Readonly<Record<string, string | number | boolean | null>>;

/** Attributes are JSON that the server looks into: keys and texts are columns like others. */
export function attributesOf(attributes: Attributes): Record<string, string | number | boolean | null> {
  const entries = Object.entries(attributes).map(([key, value]) => [text(key), typeof value === "string" ? text(value) : value] as const);
  return Object.fromEntries(entries);
}
export function readAttributes(value: Value): Record<string, string | number | boolean> {
  const found = JSON.parse(String(value)) as Record<string, string | number | boolean>;
  if (!String(value).includes("\\u001a")) return found;
  return Object.fromEntries(Object.entries(found).map(([key, item]) => [readText(key), typeof item === "string" ? readText(item) : item]));
}

/** An array for a parameter of that type, null if it is empty. It has no nulls: the server searches such an array faster. */
export function numberArray(values: readonly number[]): string | null {
  return values.length === 0 ? null : `{${values.join(",")}}`;
}
/** The same for texts, element by element; null if all of them are null. */
export class TextArray {
  #text = "";
  #nulls = 0;

  add(value: string | undefined): void {
    if (value === undefined) {
      if (this.#text === "") this.#nulls++;
      else this.#text += ",NULL";
      return;
    }
    if (this.#text === "") this.#text = `{${"NULL,".repeat(this.#nulls)}${arrayElement(value)}`;
    else this.#text += `,${arrayElement(value)}`;
  }
  get parameter(): string | null {
    return this.#text === "" ? null : `${this.#text}}`;
  }
}
export function textArray(values: readonly string[]): string {
  return `{${values.map(arrayElement).join(",")}}`;
}
/** As a string of JSON is written, which is quick to make; except for control characters, which are written as they are. */
function arrayElement(value: string): string {
  return CONTROL.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : JSON.stringify(value);
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\0-\u001f]/;

/** The order of the columns, which is that of bytes. JavaScript sorts strings differently, but only from U+D800 on. */
export function compareAsBytes(a: string, b: string): number {
  if (a === b) return 0;
  if (HIGH.test(a) || HIGH.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : 1;
}
const HIGH = /[\uD800-\uFFFF]/;

/** A value that can't be put into a statement is refused before anything is sent. */
export function encoded<T>(where: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    // biome-ignore lint/style/useErrorCause: it is among the details
    throw new StoreRefusedError({ where, reason, cause: error });
  }
}
