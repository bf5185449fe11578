// Keys: tuples of numbers, texts and tuples, as bytes that sort like the tuples.
// Owns: the encoding and decoding. It is that of FoundationDB's tuple layer, for the kinds of elements used here.
// Invariants: pack(a) < pack(b) in byte order if and only if a < b element by element; the bytes of a tuple that does not end with text are
// a prefix of exactly those tuples that begin with its elements. (The bytes of "" are a prefix of those of "\0": no prefix here ends with
// text.)

/** Numbers are safe integers. Numbers sort by value, text by code point; text sorts before tuples, tuples before numbers. */
export type Element = number | string | Tuple;
export type Tuple = readonly Element[];

// The type codes of FoundationDB's tuple layer.
const TEXT = 0x02;
const NESTED = 0x05;
/** Zero. A positive number of n bytes is ZERO + n, a negative one ZERO - n. */
const ZERO = 0x14;
const END = 0x00;
/** Follows a zero byte inside a text. */
const ESCAPE = 0xff;

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// ── packing ──

let scratch = new Uint8Array(256);
let length = 0;

export function pack(tuple: Tuple): Uint8Array {
  length = 0;
  for (const element of tuple) put(element);
  return scratch.slice(0, length);
}

/** `prefix` followed by the elements: a common prefix is packed once. */
export function packAfter(prefix: Uint8Array, ...elements: Tuple): Uint8Array {
  length = 0;
  room(prefix.length);
  scratch.set(prefix, 0);
  length = prefix.length;
  for (const element of elements) put(element);
  return scratch.slice(0, length);
}

/** `prefix` followed by two numbers: most keys have this form. */
export function packTwo(prefix: Uint8Array, first: number, second: number): Uint8Array {
  length = 0;
  room(prefix.length + 18);
  scratch.set(prefix, 0);
  length = prefix.length;
  putNumber(first);
  putNumber(second);
  return scratch.slice(0, length);
}

/** `prefix` followed by an element and two numbers. */
export function packThree(prefix: Uint8Array, element: Element, first: number, second: number): Uint8Array {
  length = 0;
  room(prefix.length);
  scratch.set(prefix, 0);
  length = prefix.length;
  put(element);
  putNumber(first);
  putNumber(second);
  return scratch.slice(0, length);
}

function room(bytes: number): void {
  if (length + bytes <= scratch.length) return;
  const larger = new Uint8Array(Math.max(scratch.length * 2, length + bytes));
  larger.set(scratch.subarray(0, length));
  scratch = larger;
}

function put(element: Element): void {
  if (typeof element === "number") putNumber(element);
  else if (typeof element === "string") putText(element);
  else {
    room(1);
    scratch[length++] = NESTED;
    for (const inner of element) put(inner);
    room(1);
    scratch[length++] = END;
  }
}

function putNumber(value: number): void {
  if (!Number.isSafeInteger(value)) throw new RangeError(`A key can hold whole numbers up to 2^53, not ${value}.`);
  room(9);
  if (value === 0) {
    scratch[length++] = ZERO;
    return;
  }
  if (value > 0 && value < 65_536) {
    scratch[length++] = value < 256 ? ZERO + 1 : ZERO + 2;
    if (value >= 256) scratch[length++] = value >>> 8;
    scratch[length++] = value & 255;
    return;
  }
  let rest = Math.abs(value);
  const bytes = byteLength(rest);
  const flip = value > 0 ? 0 : 255; // a negative number is stored as its complement, so that larger numbers sort later
  scratch[length] = value > 0 ? ZERO + bytes : ZERO - bytes;
  for (let at = length + bytes; at > length; at--) {
    scratch[at] = (rest % 256) ^ flip;
    rest = Math.floor(rest / 256);
  }
  length += bytes + 1;
}

function byteLength(positive: number): number {
  let bytes = 1;
  for (let limit = 256; positive >= limit && bytes < 7; limit *= 256) bytes++;
  return bytes;
}

const UNPAIRED = /\p{Cs}/u;

function putText(text: string): void {
  if (UNPAIRED.test(text)) throw new RangeError("A key can't hold text with unpaired surrogates.");
  const bytes = utf8.encode(text);
  room(bytes.length * 2 + 2);
  scratch[length++] = TEXT;
  for (const byte of bytes) {
    scratch[length++] = byte;
    if (byte === 0) scratch[length++] = ESCAPE;
  }
  scratch[length++] = END;
}

// ── unpacking ──

/** Position of the reader. One is enough, because reading is synchronous. */
let at = 0;

export function unpack(bytes: Uint8Array): Element[] {
  at = 0;
  const elements: Element[] = [];
  while (at < bytes.length) elements.push(take(bytes));
  return elements;
}

function take(bytes: Uint8Array): Element {
  const code = bytes[at++];
  if (code === ZERO) return 0;
  if (code === TEXT) return takeText(bytes);
  if (code === NESTED) return takeNested(bytes);
  if (code !== undefined && code >= ZERO - 7 && code <= ZERO + 7) return takeNumber(bytes, code - ZERO);
  throw malformed(bytes);
}

function takeNumber(bytes: Uint8Array, size: number): number {
  const count = Math.abs(size);
  if (at + count > bytes.length) throw malformed(bytes);
  const flip = size > 0 ? 0 : 255;
  let value = 0;
  for (let i = 0; i < count; i++) value = value * 256 + ((bytes[at++] as number) ^ flip);
  return size > 0 ? value : -value;
}

function takeText(bytes: Uint8Array): string {
  const start = at;
  let escaped = false;
  for (; at < bytes.length; at++) {
    if (bytes[at] !== END) continue;
    if (bytes[at + 1] !== ESCAPE) {
      const raw = bytes.subarray(start, at++);
      return fromUtf8.decode(escaped ? raw.filter((byte, i) => byte !== ESCAPE || raw[i - 1] !== 0) : raw);
    }
    escaped = true;
    at++;
  }
  throw malformed(bytes);
}

function takeNested(bytes: Uint8Array): Element[] {
  const elements: Element[] = [];
  while (at < bytes.length && bytes[at] !== END) elements.push(take(bytes));
  if (at++ >= bytes.length) throw malformed(bytes);
  return elements;
}

function malformed(bytes: Uint8Array): RangeError {
  const hex = [...bytes.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
  return new RangeError(`These bytes are not a key of Holdfast: ${hex}${bytes.length > 32 ? " …" : ""}.`);
}

// ── order ──

/** Byte by byte, shorter first: the order in which drivers list keys. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** The first key after all keys that begin with `prefix`; undefined if there is none (an empty prefix, or only 0xff). */
export function afterPrefix(prefix: Uint8Array): Uint8Array | undefined {
  let end = prefix.length;
  while (end > 0 && prefix[end - 1] === 0xff) end--;
  if (end === 0) return undefined;
  const after = prefix.slice(0, end);
  after[end - 1] = (after[end - 1] as number) + 1;
  return after;
}

export function startsWith(bytes: Uint8Array, prefix: Uint8Array): boolean {
  if (bytes.length < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (bytes[i] !== prefix[i]) return false;
  return true;
}
