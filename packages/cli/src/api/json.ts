// User values as JSON: tagged, or replaced by a marker.
// Owns: the markers `$unreadable`, `$redacted` and `$large`, and what of an error a caller without values sees.
// Invariants: without `values` no input, output, payload or state leaves, nor message, stack, cause or data of an error; a value over 4 KB
// leaves only where it was asked for; showing never throws.

import { errorCatalog, type History, jsonCodec, PAYLOAD_FIELDS, type SerializedError } from "@holdfast/core";
import type { EncodedValue } from "holdfast/inspect";
import type * as z from "zod";
import { refusal } from "./problem.ts";
import type { history, serializedError } from "./schemas.ts";

/** Larger values are shown only by routes that are for one value. */
const LARGE = 4_096;

export interface Redacted {
  readonly $redacted: number;
}
export type ErrorJson = z.output<typeof serializedError>;

/** The value as the default codec writes it: plain JSON as it is, everything else tagged. Null for undefined. */
export function toJson(value: unknown): unknown {
  if (value === undefined) return null;
  try {
    return JSON.parse(jsonCodec.encode(value)) as unknown;
  } catch (error) {
    return { $unreadable: error instanceof Error ? error.message.split("\n", 1)[0] : String(error) };
  }
}
/** A value of a request. With `tagged`, tags are decoded as by the default codec; otherwise plain JSON is meant as it is written. */
export function fromJson(json: unknown, tagged: boolean | undefined): unknown {
  if (tagged !== true || json === undefined) return json;
  return shallow(() => jsonCodec.decode(JSON.stringify(json)));
}
/** The text of a request. Undefined has none. */
export function jsonText(json: unknown): string | undefined {
  return shallow(() => JSON.stringify(json) as string | undefined);
}
/** JSON can be read at any depth, but not written. */
function shallow<T>(write: () => T): T {
  try {
    return write();
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw refusal("HF_INVALID_INPUT", "The value is nested too deeply.", [{ message: "It is nested too deeply.", path: [] }], cause);
  }
}

const bytesOf = (text: string): number => Buffer.byteLength(text, "utf8");
const sizeOf = (json: unknown): number => bytesOf(JSON.stringify(json) ?? "");

/** Turns whose payloads were shown already, and the input of the run. */
export interface HistoryView {
  readonly input: unknown;
  readonly turns: readonly unknown[];
}

/** How one reply shows values. */
export class Show {
  readonly values: boolean;
  /** Values over 4 KB too. */
  readonly full: boolean;

  constructor(options: { readonly values: boolean; readonly full?: boolean | undefined }) {
    this.values = options.values;
    this.full = options.full ?? false;
  }

  /** A value as the store has it; null if there is none. */
  value(encoded: EncodedValue | undefined): unknown {
    if (encoded === undefined) return null;
    if (!this.values) return { $redacted: encoded.bytes };
    if (!this.full && encoded.bytes > LARGE) return { $large: encoded.bytes };
    const read = encoded.read();
    return "value" in read ? toJson(read.value) : { $unreadable: read.unreadable };
  }
  /** A value that was decoded before; undefined is null, and hides nothing. */
  decoded(value: unknown): unknown {
    return value === undefined ? null : this.#tree(toJson(value));
  }
  /** A value that is JSON already. */
  #tree(json: unknown): unknown {
    if (this.values && this.full) return json;
    const bytes = sizeOf(json);
    if (!this.values) return { $redacted: bytes };
    return bytes > LARGE ? { $large: bytes } : json;
  }
  /** A text that may quote values. */
  text(text: string): string | Redacted {
    if (!this.values) return { $redacted: bytesOf(text) };
    return this.full || text.length <= LARGE ? text : `${text.slice(0, LARGE)}…`;
  }
  error(error: SerializedError | undefined): ErrorJson | null {
    if (error === undefined || error === null) return null;
    const { name, message, stack, cause, data } = error;
    return {
      name: String(name),
      code: errorCode(String(name), data),
      message: this.text(String(message)),
      stack: stack === undefined ? null : this.text(stack),
      cause: cause === undefined ? null : this.values ? this.error(cause) : { $redacted: sizeOf(cause) },
      data: data === undefined ? null : this.#tree(data),
    };
  }

  /**
   * A portable history: its payloads are JSON trees. `decoded`: the same turns as they are to be looked at, if the codec is not the default
   * one; a history that is to be replayed keeps its payloads as they are.
   */
  history({ format, run, turns }: History, decoded?: HistoryView): z.output<typeof history> {
    const { id, workflow, version, status } = run;
    const input = decoded === undefined ? this.#tree(run.input) : decoded.input;
    const shown = { id, workflow, version: version ?? null, input, status };
    if (this.values && this.full) return { format, run: shown, turns: [...turns] };
    const payload = decoded === undefined ? (json: unknown) => this.#tree(json) : (json: unknown) => json;
    return { format, run: shown, turns: (decoded?.turns ?? turns).map((turn) => this.#record(turn, payload)) };
  }
  /** A copy of a record and of all that it contains. */
  #record(record: unknown, payload: (json: unknown) => unknown): unknown {
    if (Array.isArray(record)) return record.map((item) => this.#record(item, payload));
    if (typeof record !== "object" || record === null) return record;
    const copy: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(record)) {
      if (PAYLOAD_FIELDS.has(key)) copy[key] = payload(value);
      else if (ERRORS.has(key) && typeof value === "object") copy[key] = this.#storedError(value as SerializedError);
      else if (TEXTS.has(key) && typeof value === "string") copy[key] = this.text(value);
      else copy[key] = key === "attributes" ? value : this.#record(value, payload);
    }
    return copy;
  }
  #storedError(error: SerializedError): unknown {
    if (this.values) return this.#tree(error);
    const { code, ...shown } = this.error(error) ?? { code: null };
    return { ...shown, ...(code !== null && { code }) };
  }
}
/** Of records in a history. */
const ERRORS = new Set(["error", "rollbackError"]);
/** Texts that callers wrote, or that quote values. */
const TEXTS = new Set(["reason", "refused", "unreadable"]);

const CODES = new Map<string, string>(errorCatalog.map(({ name, code }) => [name, code]));
/** The code of a stored error: that of its class, unless it has another. */
function errorCode(name: string, data: unknown): string | null {
  const code = typeof data === "object" && data !== null ? (data as { readonly code?: unknown }).code : undefined;
  return typeof code === "string" ? code : (CODES.get(name) ?? null);
}

export function iso(date: Date): string;
export function iso(date: Date | undefined): string | null;
export function iso(date: Date | undefined): string | null {
  return date === undefined ? null : isoTime(date.getTime());
}
/** Some moments are outside the range of Date: the nearest one. */
export function isoTime(ms: number): string {
  return new Date(Math.min(Math.max(ms, -8.64e15), 8.64e15) || 0).toISOString();
}
export function isoOrNull(ms: number | null | undefined): string | null {
  return ms === null || ms === undefined ? null : isoTime(ms);
}
