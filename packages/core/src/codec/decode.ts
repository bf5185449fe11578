// The slow path of decoding: turns a JSON tree with tags back into the value.
// Owns one walk over one tree, which it changes in place where it can.
// Invariants: P8 (shared and cyclic references survive, whatever the order of keys); no tree can change a prototype; every error is typed.
import { entryFor, makeError, type SerializedError, setCause, setField, setStack, unwrapNonError } from "../base/errorParts.ts";
import { InvalidInputError } from "../base/inputs.ts";
import { preview } from "../base/text.ts";
import { fromBase64 } from "./base64.ts";
import { isEscaped, type Json, type JsonObject, setOwn, startsWithDollar, unescapeKey } from "./json.ts";

/** Modifies the tree: the caller must not use it afterwards. `text` is the JSON that it was parsed from. */
export function decodeTree(tree: Json, text: string): unknown {
  try {
    const decoder = new Decoder();
    if (text.includes("$def")) decoder.findDefinitions(tree);
    return decoder.decode(tree);
  } catch (error) {
    if (error instanceof InvalidInputError) throw error;
    throw malformed(error instanceof RangeError ? "it is nested too deeply" : preview(error), error);
  }
}

/** Rebuilds an error from its stored form, which is not modified. */
export function decodeError(serialized: SerializedError): Error {
  const text = JSON.stringify(serialized);
  return decodeTree({ $error: JSON.parse(text) as Json }, text) as Error;
}

export function malformed(message: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError({ what: "encoded value", issues: [{ message }], cause });
}

type View = new (buffer: ArrayBuffer) => ArrayBufferView;
const views: Readonly<Record<string, View>> = {
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
};

class Decoder {
  /** The nodes that `$def` marks, by number. Collected first, because a store that reorders keys may put a reference before its target. */
  readonly #definitions = new Map<number, Json>();
  readonly #defined = new Map<number, unknown>();

  findDefinitions(node: Json): void {
    if (node === null || typeof node !== "object") return;
    for (const child of Array.isArray(node) ? node : Object.values(node)) this.findDefinitions(child);
    if (Array.isArray(node)) return;
    const definition = node["$def"];
    if (definition === undefined) return;
    if (!Array.isArray(definition) || typeof definition[0] !== "number" || definition.length !== 2)
      throw malformed("a $def must hold a number and a value");
    if (this.#definitions.has(definition[0])) throw malformed(`$def ${definition[0]} occurs twice`);
    this.#definitions.set(definition[0], definition[1] as Json);
  }

  /** `id`: the number under which the value is registered before its parts are decoded, because they may refer to it. */
  decode(node: Json, id?: number): unknown {
    if (node === null || typeof node !== "object") return node;
    if (Array.isArray(node)) return this.#array(node, id);
    let escaped = false;
    for (const key in node) {
      if (!startsWithDollar(key)) continue;
      if (!isEscaped(key)) return this.#tag(key, node, id);
      escaped = true;
    }
    return this.#record(node, escaped ? {} : node, id);
  }

  #array(node: Json[], id: number | undefined): unknown {
    const array = this.#define(id, node as unknown[]);
    for (const [index, item] of node.entries()) {
      if (item !== null && typeof item === "object") array[index] = this.decode(item);
    }
    return array;
  }

  #record(node: JsonObject, object: object, id: number | undefined): unknown {
    this.#define(id, object);
    const inPlace = object === node;
    for (const key in node) {
      const item = node[key] as Json;
      if (item !== null && typeof item === "object") setOwn(object, unescapeKey(key), this.decode(item));
      else if (!inPlace) setOwn(object, unescapeKey(key), item);
    }
    return object;
  }

  #tag(tag: string, node: JsonObject, id: number | undefined): unknown {
    const content = node[tag] as Json;
    for (const key in node) if (key !== tag) throw malformed(`an object with the tag ${preview(tag)} has another key, ${preview(key)}`);
    switch (tag) {
      case "$undefined":
        return undefined;
      case "$number":
        return Number(text(content, tag));
      case "$bigint":
        return BigInt(text(content, tag));
      case "$date":
        return new Date(content === null ? Number.NaN : text(content, tag));
      case "$map":
        return this.#map(list(content, tag), id);
      case "$set":
        return this.#set(list(content, tag), id);
      case "$bytes":
        return this.#define(id, fromBase64(text(content, tag)));
      case "$buffer":
        return this.#define(id, fromBase64(text(content, tag)).buffer);
      case "$view":
        return this.#define(id, view(list(content, tag)));
      case "$url":
        return new URL(text(content, tag));
      case "$regexp": {
        const [source, flags] = list(content, tag);
        return new RegExp(text(source, tag), text(flags, tag));
      }
      case "$error":
        return this.#error(record(content, tag), id);
      case "$def":
        return this.#definition(list(content, tag)[0]);
      case "$ref":
        return this.#definition(content);
      default:
        throw malformed(`unknown tag ${preview(tag)}; it may have been written by a newer version`);
    }
  }

  #map(entries: Json[], id: number | undefined): unknown {
    const map = this.#define(id, new Map<unknown, unknown>());
    for (const entry of entries) {
      const [key, value] = list(entry, "$map");
      if (key === undefined || value === undefined) throw malformed("an entry of a $map must hold a key and a value");
      map.set(this.decode(key), this.decode(value));
    }
    return map;
  }

  #set(items: Json[], id: number | undefined): unknown {
    const set = this.#define(id, new Set<unknown>());
    for (const item of items) set.add(this.decode(item));
    return set;
  }

  #error(node: JsonObject, id: number | undefined): Error {
    const name = text(node["name"], "$error");
    const { stack, cause, data } = node;
    const { fields, foreign } = fieldsOf(name, data);
    const entry = foreign ? undefined : entryFor(name, fields["code"]);
    const error = this.#define(id, makeError(name, text(node["message"], "$error"), entry));
    if (typeof stack === "string") setStack(error, stack);
    if (cause !== undefined) setCause(error, unwrapNonError(this.#error(record(cause, "$error"), undefined)));
    for (const [key, field] of Object.entries(fields)) setField(error, unescapeKey(key), this.decode(field));
    return error;
  }

  #definition(id: Json | undefined): unknown {
    if (typeof id !== "number") throw malformed("a reference must be a number");
    if (this.#defined.has(id)) return this.#defined.get(id);
    const definition = this.#definitions.get(id);
    if (definition === undefined) throw malformed(`reference ${id} has no definition`);
    const value = this.decode(definition, id);
    this.#defined.set(id, value);
    return value;
  }

  #define<T>(id: number | undefined, value: T): T {
    if (id !== undefined) this.#defined.set(id, value);
    return value;
  }
}

function view([className, base64]: Json[]): unknown {
  const name = text(className, "$view");
  const type = Object.hasOwn(views, name) ? views[name] : undefined;
  if (type === undefined) throw malformed(`unknown view ${preview(name)}`);
  return new type(fromBase64(text(base64, "$view")).buffer);
}

/** The fields of an error, from the forms in which encode.ts writes its data. */
function fieldsOf(name: string, data: Json | undefined): { fields: JsonObject; foreign: boolean } {
  if (data === undefined) return { fields: {}, foreign: false };
  if (isObject(data) && Object.hasOwn(data, "$foreign")) return { fields: record(data["$foreign"], "$error"), foreign: true };
  if (isObject(data) && Object.hasOwn(data, "$fields")) return { fields: record(data["$fields"], "$error"), foreign: false };
  return { fields: name === "FatalError" ? { data } : record(data, "$error"), foreign: false };
}

function isObject(node: Json | undefined): node is JsonObject {
  return node !== null && typeof node === "object" && !Array.isArray(node);
}

function text(node: Json | undefined, tag: string): string {
  if (typeof node !== "string") throw malformed(`${tag} must hold text, not ${preview(node)}`);
  return node;
}

function list(node: Json | undefined, tag: string): Json[] {
  if (!Array.isArray(node)) throw malformed(`${tag} must hold a list, not ${preview(node)}`);
  return node;
}

function record(node: Json | undefined, tag: string): JsonObject {
  if (!isObject(node)) throw malformed(`${tag} must hold an object, not ${preview(node)}`);
  return node;
}
