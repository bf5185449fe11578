// The JSON trees that the codec writes and reads: tags for values that JSON lacks, and escaped keys.
// Owns the list of tags and the escape: this file is enough to read payloads in a store.
// Invariants: P8. No user value can be mistaken for a tag, and no tag depends on the order of keys (jsonb changes it).

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/**
 * The content of each tag. An object whose only key starts with one `$` is a tag; a user's key that starts with `$` is written with two.
 */
export interface Tags {
  $undefined: true;
  /** NaN, Infinity, -Infinity, -0. */
  $number: string;
  $bigint: string;
  /** ISO 8601; null for an invalid date. */
  $date: string | null;
  $map: [key: Json, value: Json][];
  $set: Json[];
  /** A Uint8Array, in base64. */
  $bytes: string;
  /** Another view (typed array, DataView) by its class, in base64. */
  $view: [type: string, base64: string];
  $buffer: string;
  $url: string;
  $regexp: [source: string, flags: string];
  /** A SerializedError. */
  $error: JsonObject;
  /** A value that a `$ref` refers to, with its number. */
  $def: [id: number, value: Json];
  /** A reference to the value with this number. */
  $ref: number;
}

export function tagged<K extends keyof Tags>(tag: K, content: Tags[K]): JsonObject {
  return { [tag]: content as Json };
}

const DOLLAR = 36;

export function startsWithDollar(key: string): boolean {
  return key.charCodeAt(0) === DOLLAR;
}

export function escapeKey(key: string): string {
  return startsWithDollar(key) ? `$${key}` : key;
}

export function isEscaped(key: string): boolean {
  return startsWithDollar(key) && key.charCodeAt(1) === DOLLAR;
}

export function unescapeKey(key: string): string {
  return isEscaped(key) ? key.slice(1) : key;
}

/** Sets an own property, also for the key `__proto__`, where a plain assignment would change the prototype. */
export function setOwn(object: object, key: string, value: unknown): void {
  if (key === "__proto__") Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
  else (object as Record<string, unknown>)[key] = value;
}
