// Converts encoded values of Holdfast to Temporal's payloads and back.
// Owns: the encodings: `json/plain`, `binary/plain` and `binary/null` where other SDKs can read the value, `json/holdfast` for JSON with
// tags, `binary/holdfast` for what a user's codec has encoded.
// Invariants: P8 (fromTemporal(toTemporal(p)) decodes to the same value); a value of another SDK reads as that SDK wrote it, even if it
// looks like a tag.

import { type Codec, jsonCodec, type Payload } from "@holdfast/core";
import type { temporal } from "./proto.ts";

export type TemporalPayload = temporal.api.common.v1.IPayload;

const utf8 = new TextEncoder();
const text = new TextDecoder();
const JSON_PLAIN = utf8.encode("json/plain");
const JSON_HOLDFAST = utf8.encode("json/holdfast");
const BINARY_PLAIN = utf8.encode("binary/plain");
const BINARY_NULL = utf8.encode("binary/null");
const BINARY_HOLDFAST = utf8.encode("binary/holdfast");
/** Marks a payload of a user's codec that is text. */
const TEXT_KEY = "holdfast-text";
/** With the result of a local step: when it ended, in the time of its run. */
const AT_KEY = "holdfast-at";
const YES = utf8.encode("1");
const NOTHING = new Uint8Array(0);
const UNDEFINED = jsonCodec.encode(undefined);

export class Payloads {
  readonly codec: Codec;
  readonly #isDefault: boolean;

  constructor(codec: Codec) {
    this.codec = codec;
    this.#isDefault = codec === jsonCodec;
  }

  toTemporal(payload: Payload): TemporalPayload {
    if (this.#isDefault) return plainPayload(typeof payload === "string" ? payload : text.decode(payload));
    return typeof payload === "string"
      ? { metadata: { encoding: BINARY_HOLDFAST, [TEXT_KEY]: YES }, data: utf8.encode(payload) }
      : { metadata: { encoding: BINARY_HOLDFAST }, data: payload };
  }
  /** An absent payload is `undefined`. */
  fromTemporal(payload: TemporalPayload | null | undefined): Payload {
    if (payload === null || payload === undefined) return this.codec.encode(undefined);
    const data = payload.data ?? NOTHING;
    switch (encodingOf(payload)) {
      case "json/holdfast":
        return this.#isDefault ? text.decode(data) : this.codec.encode(jsonCodec.decode(text.decode(data)));
      case "binary/holdfast":
        return payload.metadata?.[TEXT_KEY] === undefined ? data : text.decode(data);
      case "binary/null":
        return this.codec.encode(undefined);
      case "binary/plain":
        return this.codec.encode(new Uint8Array(data));
      default:
        return this.#fromJson(text.decode(data));
    }
  }
  #fromJson(json: string): Payload {
    // Only strings that begin with `$` can be mistaken for tags.
    return this.#isDefault && !json.includes('"$') ? json : this.codec.encode(JSON.parse(json));
  }
  /** The first of the arguments of another SDK's call; the others have no meaning here. */
  first(payloads: readonly TemporalPayload[] | null | undefined): Payload {
    return this.fromTemporal(payloads?.[0]);
  }
}

function plainPayload(json: string): TemporalPayload {
  if (json === UNDEFINED) return { metadata: { encoding: BINARY_NULL }, data: NOTHING };
  if (!json.includes('"$')) return { metadata: { encoding: JSON_PLAIN }, data: utf8.encode(json) };
  const value = jsonCodec.decode(json);
  if (value instanceof Uint8Array) return { metadata: { encoding: BINARY_PLAIN }, data: value };
  const isPlain = jsonCodec.encode(JSON.parse(json)) === json; // then there are no tags in it
  return { metadata: { encoding: isPlain ? JSON_PLAIN : JSON_HOLDFAST }, data: utf8.encode(json) };
}

export function encodingOf({ metadata }: TemporalPayload): string {
  const encoding = metadata?.["encoding"];
  return encoding === undefined || encoding === null ? "" : text.decode(encoding);
}

// ── data of the host itself, which is not encoded by the user's codec ──

/** Plain JSON, readable in Temporal's own tools. */
export function jsonPayload(value: unknown): TemporalPayload {
  return { metadata: { encoding: JSON_PLAIN }, data: utf8.encode(JSON.stringify(value)) };
}
/** Undefined if there is none, or if it is not JSON. */
export function readJson(payload: TemporalPayload | null | undefined): unknown {
  if (payload?.data === null || payload?.data === undefined || payload.data.length === 0) return undefined;
  try {
    return JSON.parse(text.decode(payload.data));
  } catch {
    return undefined;
  }
}

/** The result of a local step that ended at this time of its run. */
export function datedPayload(payload: TemporalPayload, at: number | undefined): TemporalPayload {
  return at === undefined ? payload : { ...payload, metadata: { ...payload.metadata, [AT_KEY]: utf8.encode(String(at)) } };
}
export function dateOf(payload: TemporalPayload | null | undefined): number | undefined {
  const at = payload?.metadata?.[AT_KEY];
  return at === undefined || at === null ? undefined : Number(text.decode(at));
}

/**
 * The result of a task that a worker gives back without an outcome: "declined", because it does not have the code, or "released", because it
 * stops. `before`: the number of attempts until then; one that was released counts (D7).
 */
export interface Returned {
  readonly why: "declined" | "released";
  readonly before: number;
}
const RETURNED = utf8.encode("json/holdfast-returned");
export function returnedPayload(returned: Returned): TemporalPayload {
  return { metadata: { encoding: RETURNED }, data: utf8.encode(JSON.stringify(returned)) };
}
export function readReturned(payload: TemporalPayload | null | undefined): Returned | undefined {
  if (payload === null || payload === undefined || encodingOf(payload) !== "json/holdfast-returned") return undefined;
  return readJson(payload) as Returned | undefined;
}
