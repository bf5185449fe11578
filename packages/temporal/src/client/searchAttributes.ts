// The attributes of runs that are search attributes of the namespace.
// Owns: the list of the registered ones, read once per connection.
// Invariants: an attribute is sent only if it is registered with a type that fits: the server would never finish a task with another.

import type { Connection, OperatorService } from "../bridge.ts";
import type { Attributes } from "../memo.ts";
import { jsonPayload, type TemporalPayload } from "../payloads.ts";
import { api } from "../proto.ts";
import { called } from "./serviceErrors.ts";

const { IndexedValueType: Type } = api.api.enums.v1;
type Registered = ReadonlyMap<string, number>;

const NAMES: Readonly<Record<number, string>> = {
  [Type.INDEXED_VALUE_TYPE_TEXT]: "Text",
  [Type.INDEXED_VALUE_TYPE_KEYWORD]: "Keyword",
  [Type.INDEXED_VALUE_TYPE_INT]: "Int",
  [Type.INDEXED_VALUE_TYPE_DOUBLE]: "Double",
  [Type.INDEXED_VALUE_TYPE_BOOL]: "Bool",
};

export class SearchAttributes {
  readonly #operator: OperatorService;
  readonly #namespace: string;
  readonly #names: ReadonlyMap<string, string>;
  #registered: Promise<Registered> | undefined;

  constructor({ operator, namespace }: Pick<Connection, "operator" | "namespace">, names: ReadonlyMap<string, string>) {
    this.#operator = operator;
    this.#namespace = namespace;
    this.#names = names;
  }
  /** For filters. Undefined if it is not registered, with a type that does not fit the value, or as text, which is searched word by word. */
  async exactNameFor(attribute: string, value: string | number | boolean): Promise<string | undefined> {
    const registered = await this.registered();
    const name = this.#names.get(attribute) ?? attribute;
    const type = registered.get(name);
    return type !== undefined && type !== Type.INDEXED_VALUE_TYPE_TEXT && fits(type, value) ? name : undefined;
  }
  /** The fields of a start or an upsert, with those attributes that can be searched for. */
  async fields(attributes: Attributes): Promise<Record<string, TemporalPayload>> {
    const entries = Object.entries(attributes);
    if (entries.length === 0) return {};
    const registered = await this.registered();
    return this.fieldsFor(attributes, registered);
  }
  /** The same, without waiting: for workflow tasks. `registered` is the answer of `registered()`. */
  fieldsFor(attributes: Readonly<Record<string, Value>>, registered: Registered): Record<string, TemporalPayload> {
    const fields: Record<string, TemporalPayload> = {};
    for (const [attribute, value] of Object.entries(attributes)) {
      const name = this.#names.get(attribute) ?? attribute;
      const type = registered.get(name);
      if (type !== undefined && fits(type, value)) fields[name] = typed(jsonPayload(value), type);
    }
    return fields;
  }
  registered(): Promise<Registered> {
    this.#registered ??= this.#read().catch((error: unknown) => {
      this.#registered = undefined; // the next call asks again
      throw error;
    });
    return this.#registered;
  }
  async #read(): Promise<Registered> {
    const { customAttributes } = await called("search attributes", this.#operator.listSearchAttributes({ namespace: this.#namespace }));
    return new Map(Object.entries(customAttributes ?? {}));
  }
}

/** `null` removes a value. */
type Value = string | number | boolean | null;

function fits(type: number, value: Value): boolean {
  if (value === null) return NAMES[type] !== undefined;
  switch (type) {
    case Type.INDEXED_VALUE_TYPE_KEYWORD:
    case Type.INDEXED_VALUE_TYPE_TEXT:
      return typeof value === "string";
    case Type.INDEXED_VALUE_TYPE_INT:
      return typeof value === "number" && Number.isSafeInteger(value);
    case Type.INDEXED_VALUE_TYPE_DOUBLE:
      return typeof value === "number";
    case Type.INDEXED_VALUE_TYPE_BOOL:
      return typeof value === "boolean";
    default:
      return false;
  }
}
function typed(payload: TemporalPayload, type: number): TemporalPayload {
  return { ...payload, metadata: { ...payload.metadata, type: new TextEncoder().encode(NAMES[type]) } };
}
