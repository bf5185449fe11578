// Payload codecs of Temporal's SDKs: they encode every payload on its way to the server and decode it on the way back.
// Owns: which parts of a message hold payloads of the user.
// Invariants: search attributes and headers are left as they are, as in Temporal's own SDKs: the server and other tools read them. Only the
// header of this package is encoded, because it carries signals of a start and answers of updates.

import { InvalidInputError } from "@holdfast/core";
import { HEADER } from "./headers.ts";
import type { TemporalPayload } from "./payloads.ts";
import { api } from "./proto.ts";

/** The interface that Temporal's TypeScript SDK has for them. */
export interface PayloadCodec {
  encode(payloads: TemporalPayload[]): Promise<TemporalPayload[]>;
  decode(payloads: TemporalPayload[]): Promise<TemporalPayload[]>;
}

const HEADERS: ReadonlySet<string> = new Set(["header", "headers", "headerFields"]);
const LEFT_ALONE: ReadonlySet<string> = new Set(["searchAttributes", "indexedFields"]);

export class PayloadCodecs {
  readonly #codecs: readonly PayloadCodec[];

  constructor(codecs: readonly unknown[] = []) {
    if (!Array.isArray(codecs))
      throw new InvalidInputError({ what: "temporal.payloadCodecs", issues: [{ message: "Expected a list of payload codecs." }] });
    for (const [index, codec] of codecs.entries()) {
      const { encode, decode } = (codec ?? {}) as Partial<PayloadCodec>;
      if (typeof encode === "function" && typeof decode === "function") continue;
      const message = "A payload codec has the methods encode and decode, as in Temporal's SDK.";
      throw new InvalidInputError({ what: "temporal.payloadCodecs", issues: [{ message, path: [index] }] });
    }
    this.#codecs = codecs as readonly PayloadCodec[];
  }
  get isEmpty(): boolean {
    return this.#codecs.length === 0;
  }
  /** A copy of the message with other payloads: its sender may still compare it with history. */
  async encode<T extends object>(message: T): Promise<T> {
    const copy = copyOf(message) as T;
    for (const codec of this.#codecs) await this.#replace(copy, (payloads) => codec.encode(payloads));
    return copy;
  }
  /** Replaces the payloads inside the message. */
  async decode<T extends object>(message: T): Promise<T> {
    for (const codec of [...this.#codecs].reverse()) await this.#replace(message, (payloads) => codec.decode(payloads));
    return message;
  }
  async #replace(message: object, convert: (payloads: TemporalPayload[]) => Promise<TemporalPayload[]>): Promise<void> {
    const places: Place[] = [];
    find(message, places);
    if (places.length === 0) return;
    const converted = await convert(places.map(({ holder, key }) => holder[key] as TemporalPayload));
    for (const [index, { holder, key }] of places.entries()) holder[key] = converted[index];
  }
}

/** Of plain objects and lists. The rest is bytes, numbers, and messages that were received. */
function copyOf(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(copyOf);
  if (typeof node !== "object" || node === null || Object.getPrototypeOf(node) !== Object.prototype) return node;
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, copyOf(value)]));
}

interface Place {
  readonly holder: Record<string, unknown>;
  readonly key: string;
}
function find(node: object, places: Place[]): void {
  const holder = node as Record<string, unknown>;
  for (const key of Object.keys(holder)) {
    const value = holder[key];
    if (typeof value !== "object" || value === null || value instanceof Uint8Array || LEFT_ALONE.has(key)) continue;
    if (HEADERS.has(key)) findHeader(value, places);
    else if (isPayload(value)) places.push({ holder, key });
    else find(value, places);
  }
}
function findHeader(header: object, places: Place[]): void {
  const { fields = header } = header as { readonly fields?: unknown };
  const holder = fields as Record<string, unknown>;
  const own = holder[HEADER];
  if (typeof own === "object" && own !== null && isPayload(own)) places.push({ holder, key: HEADER });
}
/** Messages that are received know their type; those that are sent are plain objects. */
function isPayload(value: object): boolean {
  return Reflect.get(value, "$type") === api.api.common.v1.Payload || (Object.hasOwn(value, "metadata") && Object.hasOwn(value, "data"));
}
