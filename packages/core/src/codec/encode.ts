// The slow path of encoding: turns any value that P8 lists into a JSON tree with tags.
// Owns one walk over one value: the objects visited, the current path, and the references created.
// Invariants: P8 (the error for a value that can't be stored names its path; such a field of an error is dropped instead); terminates on
// every value.
import { type ErrorParts, isError, NON_ERROR, type SerializedError, takeApart, toError } from "../base/errorParts.ts";
import { UnserializableValueError } from "../base/inputs.ts";
import { isInstance, shorten, tagOf } from "../base/text.ts";
import { toBase64 } from "./base64.ts";
import { escapeKey, type Json, type JsonObject, setOwn, tagged } from "./json.ts";
import { hasPlainPrototype, isPlainNumber } from "./plain.ts";

/** Deeper values are rejected: walking them would overflow the stack, here or in JSON.stringify. */
const MAX_DEPTH = 1_000;
/** The length of `{"$undefined":true}`. */
const UNDEFINED_BYTES = 19;
/** The largest stored error: fields and causes that would exceed it are dropped. */
const MAX_ERROR_BYTES = 1_048_576;
/** The longest chain of causes that is stored: further causes are dropped. */
export const MAX_CAUSES = 16;
/** The longest message of an error, in characters. The same limit applies to its stack, which begins with the message. */
const MAX_ERROR_TEXT = MAX_ERROR_BYTES / 8;

/** Returned instead of a tree whose text would exceed the limit. */
export const TOO_LARGE = Symbol("too large");

/** Stops as soon as the text is certain to have more than `maxBytes` (P9). */
export function encodeTree(value: unknown, maxBytes = Number.POSITIVE_INFINITY): Json | typeof TOO_LARGE {
  const encoder = new Encoder(maxBytes);
  try {
    return encoder.finish(encoder.encode(value));
  } catch (error) {
    if (error === TOO_LARGE) return TOO_LARGE;
    throw encoder.explain(error);
  }
}

/** Encodes any thrown value with its causes. Never throws. */
export function encodeError(thrown: unknown): SerializedError {
  try {
    const encoder = new Encoder(MAX_ERROR_BYTES, "dropped");
    // Safe cast: the encoder writes errors in this shape.
    return encoder.finish(encoder.encodeRootError(toError(thrown))) as unknown as SerializedError;
  } catch {
    return { name: NON_ERROR, message: "an error that can't be read" };
  }
}

/** A property name, an index, or literal text for a path segment that is neither. */
type Segment = string | number | { readonly text: string };
const CAUSE: Segment = { text: ".cause" };
const ENTRIES: Segment = { text: ".entries()" };
const VALUES: Segment = { text: ".values()" };
const TO_JSON: Segment = { text: ".toJSON()" };

class Encoder {
  /** The node that each object was encoded as. */
  readonly #written = new Map<object, Json[] | JsonObject>();
  /** The keys of `#written` in order, to undo the entries of a dropped field. */
  readonly #trail: object[] = [];
  /** The references created so far; `finish` numbers them. */
  readonly #refs: { readonly ref: JsonObject; readonly target: Json[] | JsonObject }[] = [];
  /** Objects that are being encoded and can't be the target of a reference: causes of errors, objects with toJSON. */
  readonly #open = new Set<object>();
  readonly #path: Segment[] = [];
  readonly #max: number;
  /** A lower bound of the length of the text so far. */
  #bytes = 0;

  /** If a part of an error is too large: drop that part, or reject the whole value. */
  readonly #large: "dropped" | "refused";

  constructor(max: number, large: "dropped" | "refused" = "refused") {
    this.#max = max;
    this.#large = large;
  }
  #spend(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#max) throw TOO_LARGE;
  }

  encode(value: unknown): Json {
    this.#spend(typeof value === "string" ? value.length + 2 : value === undefined ? UNDEFINED_BYTES : 1);
    switch (typeof value) {
      case "string":
      case "boolean":
        return value;
      case "number":
        return isPlainNumber(value) ? value : tagged("$number", Object.is(value, -0) ? "-0" : String(value));
      case "undefined":
        return tagged("$undefined", true);
      case "bigint":
        return tagged("$bigint", String(value));
      case "object":
        return value === null ? null : this.#object(value);
      case "function":
      case "symbol":
        throw this.#refuse(typeof value);
    }
  }

  #object(value: object): Json {
    const written = this.#written.get(value);
    if (written !== undefined) return this.#refer(written);
    if (this.#open.has(value)) throw this.#refuse("cycle that leads through toJSON() or the cause of an error");
    if (this.#path.length > MAX_DEPTH) throw this.#refuse(`value nested more than ${MAX_DEPTH} levels deep`);
    if (Array.isArray(value)) return this.#array(value);
    if (hasPlainPrototype(value)) return hasToJson(value) ? this.#viaToJson(value) : this.#record(value);
    if (isError(value)) return this.#error(value);
    if (ArrayBuffer.isView(value)) return this.#view(value);
    return this.#byTag(value, tagOf(value));
  }

  /** Uses the built-in tag instead of instanceof, so that objects of other realms are recognized too. */
  #byTag(value: object, tag: string): Json {
    switch (tag) {
      case "Date": {
        const time = (value as Date).getTime();
        return tagged("$date", Number.isNaN(time) ? null : (value as Date).toISOString());
      }
      case "Map":
        return this.#map(value as Map<unknown, unknown>);
      case "Set":
        return this.#set(value as Set<unknown>);
      case "ArrayBuffer":
        this.#spend((value as ArrayBuffer).byteLength);
        return this.#remember(value, tagged("$buffer", toBase64(new Uint8Array(value as ArrayBuffer))));
      case "URL":
        return tagged("$url", (value as URL).href);
      case "RegExp":
        return tagged("$regexp", [(value as RegExp).source, (value as RegExp).flags]);
      case "Number":
      case "String":
      case "Boolean":
        return this.encode(value.valueOf());
    }
    if (hasToJson(value)) return this.#viaToJson(value);
    if (tag === "Object") return this.#record(value);
    throw this.#refuse(tag);
  }

  #array(array: readonly unknown[]): Json {
    const node: Json[] = [];
    this.#remember(array, node);
    this.#spend(array.length); // commas; spent before the first item is visited
    for (let i = 0; i < array.length; i++) node.push(this.#at(i, array[i]));
    return node;
  }

  #record(object: object): Json {
    const node: JsonObject = {};
    this.#remember(object, node);
    for (const key of Object.keys(object)) {
      this.#path.push(key);
      this.#spend(key.length + 3);
      setOwn(node, escapeKey(key), this.encode((object as Record<string, unknown>)[key]));
      this.#path.pop();
    }
    return node;
  }

  #map(map: Map<unknown, unknown>): Json {
    const entries: [Json, Json][] = [];
    const node = this.#remember(map, tagged("$map", entries));
    this.#spend(map.size * 4); // brackets and commas; spent before the first entry is visited
    this.#path.push(ENTRIES);
    for (const [key, value] of map) {
      this.#path.push(entries.length);
      entries.push([this.#at(0, key), this.#at(1, value)]);
      this.#path.pop();
    }
    this.#path.pop();
    return node;
  }

  #set(set: Set<unknown>): Json {
    const items: Json[] = [];
    const node = this.#remember(set, tagged("$set", items));
    this.#spend(set.size);
    this.#path.push(VALUES);
    for (const item of set) items.push(this.#at(items.length, item));
    this.#path.pop();
    return node;
  }

  #view(view: ArrayBufferView): Json {
    this.#spend(view.byteLength);
    const base64 = toBase64(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    const type = tagOf(view);
    return this.#remember(view, type === "Uint8Array" ? tagged("$bytes", base64) : tagged("$view", [type, base64]));
  }

  #viaToJson(value: { toJSON(key: string): unknown }): Json {
    this.#open.add(value);
    this.#path.push(TO_JSON);
    try {
      const replacement = value.toJSON("");
      // A toJSON that returns the object itself: encode its properties.
      const node = replacement === value ? this.#record(value) : this.encode(replacement);
      if (node !== null && typeof node === "object") this.#remember(value, node);
      this.#path.pop();
      return node;
    } finally {
      this.#open.delete(value);
    }
  }

  #error(error: Error): Json {
    const content: JsonObject = {};
    const node = this.#remember(error, tagged("$error", content));
    this.#errorParts(error, content, 0);
    return node;
  }

  encodeRootError(error: Error): Json {
    return this.#errorParts(error, {}, 0);
  }

  #errorParts(error: Error, node: JsonObject, causes: number): JsonObject {
    this.#open.add(error);
    try {
      const parts = takeApart(error);
      const { name, message, stack, cause } = parts;
      node["name"] = name;
      node["message"] = this.#text(message);
      if (stack !== undefined) node["stack"] = this.#text(stack);
      const causeNode = this.#cause(cause, causes + 1);
      if (causeNode !== undefined) node["cause"] = causeNode;
      const data = this.#errorData(parts);
      if (data !== undefined) node["data"] = data;
      return node;
    } finally {
      this.#open.delete(error);
    }
  }

  #text(text: string): string {
    return this.#large === "dropped" ? shorten(text, MAX_ERROR_TEXT) : text;
  }

  /** A cyclic or very long chain of causes is cut. */
  #cause(thrown: unknown, causes: number): Json | undefined {
    if (thrown === undefined || causes > MAX_CAUSES) return undefined;
    const cause = toError(thrown);
    if (this.#open.has(cause)) return undefined;
    return this.#orDropped(CAUSE, () => this.#errorParts(cause, {}, causes));
  }

  /**
   * The fields of an error; for a FatalError its `data` alone, as its author wrote it. If decoding could not tell the two forms apart (the
   * error has other fields too, or only shares its name with a Holdfast class), the fields go under a key that user data can't have.
   */
  #errorData({ name, fields, foreign }: ErrorParts): Json | undefined {
    const node = this.#fields(fields);
    const keys = Object.keys(node);
    if (foreign) return { $foreign: node };
    if (keys.length === 0) return undefined;
    if (name !== "FatalError") return node;
    return keys.length === 1 && keys[0] === "data" ? node["data"] : { $fields: node };
  }

  #fields(fields: ReadonlyMap<string, unknown>): JsonObject {
    const node: JsonObject = {};
    for (const [key, value] of fields) {
      const field = this.#orDropped(key, () => this.encode(value));
      if (field !== undefined) setOwn(node, escapeKey(key), field);
    }
    return node;
  }

  /** Drops a part of an error that can't be stored, without a trace: storing the rest of the error is better than failing. */
  #orDropped(segment: Segment, encode: () => Json): Json | undefined {
    const path = this.#path.length;
    const trail = this.#trail.length;
    const refs = this.#refs.length;
    const bytes = this.#bytes;
    this.#path.push(segment);
    try {
      const node = encode();
      this.#path.pop();
      return node;
    } catch (error) {
      if (error === TOO_LARGE && this.#large === "refused") throw error;
      this.#bytes = bytes;
      this.#path.length = path;
      this.#refs.length = refs;
      for (const object of this.#trail.splice(trail)) this.#written.delete(object);
      return undefined;
    }
  }

  #at(index: number, value: unknown): Json {
    this.#path.push(index);
    const node = this.encode(value);
    this.#path.pop();
    return node;
  }

  #remember<N extends Json[] | JsonObject>(object: object, node: N): N {
    this.#written.set(object, node);
    this.#trail.push(object);
    return node;
  }

  #refer(target: Json[] | JsonObject): Json {
    const ref = tagged("$ref", 0);
    this.#refs.push({ ref, target });
    return ref;
  }

  /** Numbers the targets of references, in order of their first reference, and marks them with `$def`. */
  finish(root: Json): Json {
    if (this.#refs.length === 0) return root;
    const ids = new Map<Json, number>();
    for (const { ref, target } of this.#refs) {
      const id = ids.get(target) ?? ids.size + 1;
      ids.set(target, id);
      ref["$ref"] = id;
    }
    return markDefinitions(root, ids);
  }

  #refuse(type: string): UnserializableValueError {
    return new UnserializableValueError({ path: formatPath(this.#path), type });
  }

  /** Converts an error that the value itself threw while it was read into an UnserializableValueError. */
  explain(error: unknown): unknown {
    if (isInstance(error, UnserializableValueError)) return error;
    const overflow = isInstance(error, RangeError) && this.#path.length > MAX_DEPTH / 2;
    const type = overflow ? "value nested too deeply" : "property that throws when it is read";
    return new UnserializableValueError({ path: formatPath(this.#path), type, cause: error });
  }
}

function markDefinitions(node: Json, ids: ReadonlyMap<Json, number>): Json {
  if (node === null || typeof node !== "object") return node;
  if (Array.isArray(node)) {
    for (const [index, item] of node.entries()) node[index] = markDefinitions(item, ids);
  } else {
    for (const key of Object.keys(node)) setOwn(node, key, markDefinitions(node[key] as Json, ids));
  }
  const id = ids.get(node);
  return id === undefined ? node : tagged("$def", [id, node]);
}

function hasToJson(value: object): value is { toJSON(key: string): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

const LONGEST_PATH = 24;

/** The path as text: `value.items[3].socket`. The middle of a very long path is omitted. */
function formatPath(path: readonly Segment[]): string {
  const text = (segments: readonly Segment[]): string => segments.map(formatSegment).join("");
  if (path.length <= LONGEST_PATH) return `value${text(path)}`;
  return `value${text(path.slice(0, LONGEST_PATH / 2))}…${text(path.slice(-LONGEST_PATH / 2))}`;
}

function formatSegment(segment: Segment): string {
  if (typeof segment === "number") return `[${segment}]`;
  if (typeof segment === "object") return segment.text;
  return /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`;
}
