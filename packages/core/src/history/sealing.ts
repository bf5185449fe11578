// Sealing of records: encodes every error and every user text in the records that a host stores, with the user's codec.
// Owns: the names of the fields that hold errors and texts. No other field may use these names.
// Invariants: E1 (records are sealed before they are stored and opened after they are read); with the default codec nothing is copied or
// changed; payloads (already encoded) and attributes (they must stay searchable) are skipped.

import type { SerializedError } from "../base/errorParts.ts";
import { type Codec, jsonCodec } from "../codec/codec.ts";
import { openError, openText, sealError, sealText } from "../errors/seal.ts";

const ERROR_FIELDS: ReadonlySet<string> = new Set(["error", "rollbackError"]);
/** Reasons of cancel and terminate, and the error texts of schemas, which may quote the message. */
const TEXT_FIELDS: ReadonlySet<string> = new Set(["reason", "refused", "unreadable"]);
const PLAIN_FIELDS: ReadonlySet<string> = new Set(["attributes"]);

interface Conversion {
  readonly error: (error: SerializedError) => SerializedError;
  readonly text: (text: string) => string;
}

/** The record, or list of records, in the form in which it may be stored. */
export function sealed<T>(record: T, codec: Codec): T {
  if (codec === jsonCodec) return record;
  return convert(record, { error: (error) => sealError(error, codec), text: (text) => sealText(text, codec) }) as T;
}

/** The inverse of `sealed`. What this codec can't open stays sealed. */
export function opened<T>(record: T, codec: Codec): T {
  if (codec === jsonCodec) return record;
  return convert(record, { error: (error) => openError(error, codec), text: (text) => openText(text, codec) }) as T;
}

/** Copies only the objects that change. Only plain objects and arrays are visited. */
function convert(node: unknown, conversion: Conversion): unknown {
  if (Array.isArray(node)) return convertList(node, conversion);
  if (typeof node !== "object" || node === null || Object.getPrototypeOf(node) !== Object.prototype) return node;
  let copy: Record<string, unknown> | undefined;
  for (const [key, value] of Object.entries(node)) {
    const converted = convertField(key, value, conversion);
    if (converted === value) continue;
    copy ??= { ...node };
    copy[key] = converted;
  }
  return copy ?? node;
}
function convertList(list: readonly unknown[], conversion: Conversion): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (const [index, item] of list.entries()) {
    const converted = convert(item, conversion);
    if (converted === item) continue;
    copy ??= [...list];
    copy[index] = converted;
  }
  return copy ?? list;
}
function convertField(key: string, value: unknown, conversion: Conversion): unknown {
  if (typeof value === "string") return TEXT_FIELDS.has(key) ? conversion.text(value) : value;
  if (typeof value !== "object" || value === null || PLAIN_FIELDS.has(key)) return value;
  return ERROR_FIELDS.has(key) && isSerialized(value) ? conversion.error(value) : convert(value, conversion);
}
function isSerialized(value: object): value is SerializedError {
  return "name" in value && "message" in value && Object.getPrototypeOf(value) === Object.prototype;
}
