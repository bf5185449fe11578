// Encodes values: plain data in few bytes, with a version at the beginning.
// Owns: the encoding of numbers, text, bytes, lists and objects, and the list of field names that cost one byte.
// Invariants: decoding returns what was encoded (fields that were undefined are absent); version 1 stays readable forever; the list of
// field names only grows at its end, because stored data refers to positions in it.

import { KvFormatError } from "../errors.ts";

/** The first byte of every value. */
export const VERSION = 1;

const NULL = 0;
const TRUE = 1;
const FALSE = 2;
const NATURAL = 3;
const NEGATIVE = 4;
const DOUBLE = 5;
const TEXT = 6;
const BYTES = 7;
const LIST = 8;
const OBJECT = 9;
/** Text with unpaired surrogates has no UTF-8 form: it is stored as UTF-16 code units. */
const UTF16 = 10;

/** Append only. */
const FIELDS = [
  "type", "seq", "outcome", "status", "value", "error", "attempts", "input", "payload", "id", "name", "names", "count", "timeout", "retry",
  "rollback", "keys", "branches", "messages", "key", "unit", "message", "state", "trim", "lastSeq", "rollbacks", "causes", "retryAfter",
  "rollbackError", "rolledBack", "reason", "version", "signals", "duration", "until", "of", "child", "join", "runId", "signal", "queue",
  "deadline", "deadlineAt", "parentClose", "detached", "startToClose", "scheduleToClose", "scheduleToStart", "heartbeat", "kind",
  "deprecated", "attributes", "checkpointEvery", "refused", "workflow", "seed", "startedAt", "execution", "attempt", "parentId", "voids",
"maxAttempts", "initialInterval", "backoff", "maxInterval", "jitter", "nonRetryable", "stack", "cause", "code", "data",
  "createdAt", "parent", "wakeAt", "waitingFor", "number", "endedAt", "retryAt", "job", "resumable", "times", "validate", "children",
  "n", "output", "lastTime",
] as const; // biome-ignore format: a table

const indexOfField = new Map<string, number>(FIELDS.map((name, index) => [name, index]));
/** Marks a field that is not in the list: its name follows. */
const NAMED = 255;

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// ── writing ──

let scratch = new Uint8Array(1024);
let view = new DataView(scratch.buffer);
let length = 0;

/** Encodes one value at a time: `begin`, the parts, `finish`. */
export function begin(): void {
  length = 0;
  scratch[length++] = VERSION;
}
export function finish(): Uint8Array {
  const bytes = scratch.slice(0, length);
  if (scratch.length > 1_048_576) grow(1024); // don't keep the memory of one large value
  return bytes;
}

function grow(size: number): void {
  const larger = new Uint8Array(size);
  larger.set(scratch.subarray(0, Math.min(length, size)));
  scratch = larger;
  view = new DataView(scratch.buffer);
}
function room(bytes: number): void {
  if (length + bytes > scratch.length) grow(Math.max(scratch.length * 2, length + bytes));
}

export function putByte(byte: number): void {
  room(1);
  scratch[length++] = byte;
}
/** A whole number from 0 to 2^53, seven bits per byte. */
export function putNatural(value: number): void {
  room(8);
  let rest = value;
  while (rest >= 128) {
    scratch[length++] = (rest % 128) | 128;
    rest = Math.floor(rest / 128);
  }
  scratch[length++] = rest;
}
export function putText(text: string): void {
  const most = text.length * 3;
  room(most + 8);
  // The length comes first: most texts are short, and their length takes one byte.
  const sizeBytes = most < 128 ? 1 : most < 16_384 ? 2 : most < 2_097_152 ? 3 : 5;
  const { written } = utf8.encodeInto(text, scratch.subarray(length + sizeBytes));
  let rest = written;
  for (let i = 0; i < sizeBytes - 1; i++) {
    scratch[length++] = (rest % 128) | 128;
    rest = Math.floor(rest / 128);
  }
  scratch[length++] = rest;
  length += written;
}
function putBytes(bytes: Uint8Array): void {
  putNatural(bytes.length);
  room(bytes.length);
  scratch.set(bytes, length);
  length += bytes.length;
}

const UNPAIRED = /\p{Cs}/u;
const isWellFormed = (String.prototype as { isWellFormed?: () => boolean }).isWellFormed;
function hasUtf8(text: string): boolean {
  return isWellFormed === undefined ? !UNPAIRED.test(text) : isWellFormed.call(text);
}

export function putValue(value: unknown): void {
  switch (typeof value) {
    case "string":
      return putString(value);
    case "number":
      return putNumber(value);
    case "boolean":
      return putByte(value ? TRUE : FALSE);
    case "object":
      if (value === null) return putByte(NULL);
      if (value instanceof Uint8Array) {
        putByte(BYTES);
        return putBytes(value);
      }
      if (Array.isArray(value)) {
        putByte(LIST);
        putNatural(value.length);
        for (const item of value) putValue(item ?? null);
        return;
      }
      putByte(OBJECT);
      return putFields(value);
    default:
      throw new TypeError(`A record can't hold a ${typeof value}.`);
  }
}
function putString(text: string): void {
  if (hasUtf8(text)) {
    putByte(TEXT);
    return putText(text);
  }
  putByte(UTF16);
  putNatural(text.length);
  room(text.length * 2);
  for (let i = 0; i < text.length; i++, length += 2) view.setUint16(length, text.charCodeAt(i));
}
function putNumber(value: number): void {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    putByte(value < 0 ? NEGATIVE : NATURAL);
    return putNatural(Math.abs(value));
  }
  putByte(DOUBLE);
  room(8);
  view.setFloat64(length, value);
  length += 8;
}

/** The fields of an object, except those in `without`. */
export function putFields(object: object, without?: ReadonlySet<string>): void {
  const countAt = length;
  putByte(0);
  let count = 0;
  for (const name in object) {
    const value = object[name as keyof object] as unknown;
    if (value === undefined || without?.has(name) === true) continue;
    count++;
    const index = indexOfField.get(name);
    if (index === undefined) {
      putByte(NAMED);
      putString(name);
    } else putByte(index);
    putValue(value);
  }
  if (count < 255) {
    scratch[countAt] = count;
    return;
  }
  // So many fields (of attributes, of an error's data) that their number does not fit into one byte: encode again from the start.
  length = countAt;
  putByte(255);
  putNatural(count);
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined || without?.has(name) === true) continue;
    putByte(NAMED);
    putString(name);
    putValue(value);
  }
}

export function encode(value: unknown): Uint8Array {
  begin();
  putValue(value);
  return finish();
}

// ── reading ──

let source: Uint8Array = scratch;
let at = 0;

/** Checks the version. The functions below read the rest. */
export function open(bytes: Uint8Array): void {
  source = bytes;
  at = 1;
  if (bytes[0] === VERSION) return;
  const found = bytes[0];
  throw new KvFormatError(
    found === undefined
      ? "A stored value is empty."
      : `A stored value has format ${found}; this version of @holdfast/kv reads format ${VERSION}. Update it, or check whether something else writes to this namespace.`,
  );
}

export function takeByte(): number {
  const byte = source[at++];
  if (byte === undefined) throw cutShort();
  return byte;
}
export function takeNatural(): number {
  let value = 0;
  for (let factor = 1; ; factor *= 128) {
    const byte = takeByte();
    value += (byte % 128) * factor;
    if (byte < 128) return value;
  }
}
function takeRaw(): Uint8Array {
  const size = takeNatural();
  if (at + size > source.length) throw cutShort();
  at += size;
  return source.subarray(at - size, at);
}
export function takeText(): string {
  const size = takeNatural();
  if (at + size > source.length) throw cutShort();
  const end = at + size;
  // Short ASCII texts, such as names and most payloads, are read faster this way.
  if (size < 24) {
    let text = "";
    for (let i = at; i < end; i++) {
      const byte = source[i] as number;
      if (byte >= 128) return decoded(end);
      text += String.fromCharCode(byte);
    }
    at = end;
    return text;
  }
  return decoded(end);
}
function decoded(end: number): string {
  const text = fromUtf8.decode(source.subarray(at, end));
  at = end;
  return text;
}

export function takeValue(): unknown {
  const tag = takeByte();
  switch (tag) {
    case NULL:
      return null;
    case TRUE:
      return true;
    case FALSE:
      return false;
    case NATURAL:
      return takeNatural();
    case NEGATIVE:
      return -takeNatural();
    case DOUBLE:
      at += 8;
      if (at > source.length) throw cutShort();
      return new DataView(source.buffer, source.byteOffset + at - 8, 8).getFloat64(0);
    case TEXT:
      return takeText();
    case BYTES:
      return takeRaw().slice();
    case LIST:
      return Array.from({ length: takeNatural() }, takeValue);
    case OBJECT:
      return takeFields({});
    case UTF16: {
      const units = takeNatural();
      let text = "";
      for (let i = 0; i < units; i++) text += String.fromCharCode(takeByte() * 256 + takeByte());
      return text;
    }
    default:
      throw new KvFormatError(`A stored value holds a kind of data (${tag}) that this version of @holdfast/kv does not know.`);
  }
}

export function takeFields<T extends object>(into: T): T {
  const first = takeByte();
  const count = first === 255 ? takeNatural() : first;
  for (let i = 0; i < count; i++) {
    const index = takeByte();
    const name = index === NAMED ? (takeValue() as string) : FIELDS[index];
    if (name === undefined)
      throw new KvFormatError(`A stored value has a field (${index}) that this version of @holdfast/kv does not know.`);
    const value = takeValue();
    if (name === "__proto__") Object.defineProperty(into, name, { value, enumerable: true, writable: true, configurable: true });
    else (into as Record<string, unknown>)[name] = value;
  }
  return into;
}

export function decode(bytes: Uint8Array): unknown {
  open(bytes);
  return takeValue();
}

function cutShort(): KvFormatError {
  return new KvFormatError("A stored value is truncated. The namespace is damaged, or something else writes to it.");
}
