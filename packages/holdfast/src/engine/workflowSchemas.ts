// What the messages of a worker's workflows look like, for consoles: forms and checks need no code then (B6).
// Owns: the text that is registered with the store.
// Invariants: a schema that can't be written as JSON Schema is left out; nothing here stops a worker.

import type { AnyWorkflow } from "@holdfast/core";
import type { WorkflowRow } from "../store/workerPort.ts";

type JsonSchema = Readonly<Record<string, unknown>>;
export interface RegisteredSchemas {
  readonly versions: "*" | readonly (string | undefined)[];
  readonly schemas: {
    readonly input?: JsonSchema | undefined;
    readonly signals: Readonly<Record<string, JsonSchema>>;
    readonly updates: Readonly<Record<string, JsonSchema>>;
    readonly queries: readonly string[];
  };
}

const TARGETS = ["draft-2020-12", "draft-07"] as const;
/** Schemas of one workflow that take more are left out: they are read whenever a console is opened. */
const MOST_BYTES = 256 * 1024;

export function workflowRows(workflows: readonly AnyWorkflow[]): WorkflowRow[] {
  return workflows.map((workflow) => ({ workflow: workflow.name, version: workflow.version, info: textOf(workflow) }));
}

/** The schemas of one workflow, as a worker would register them. */
export function workflowSchemas(workflow: AnyWorkflow): RegisteredSchemas["schemas"] {
  return (JSON.parse(textOf(workflow)) as RegisteredSchemas).schemas;
}

function textOf({ version, options }: AnyWorkflow): string {
  const { serves, input, signals = {}, updates = {}, queries = {} } = options;
  const versions = serves === "*" ? "*" : [version ?? null, ...(serves ?? [])];
  const names = { queries: Object.keys(queries) };
  const full = JSON.stringify({
    versions,
    schemas: { input: jsonSchemaOf(input), signals: schemasOf(signals), updates: schemasOf(updates), ...names },
  });
  if (Buffer.byteLength(full) <= MOST_BYTES) return full;
  const empty = (specs: object): object => Object.fromEntries(Object.keys(specs).map((name) => [name, {}]));
  return JSON.stringify({ versions, schemas: { signals: empty(signals), updates: empty(updates), ...names } });
}

function schemasOf(specs: Readonly<Record<string, { readonly schema?: unknown }>>): Record<string, JsonSchema> {
  return Object.fromEntries(Object.entries(specs).map(([name, { schema }]) => [name, jsonSchemaOf(schema) ?? {}]));
}

/** JSON Schema has no word for a value that may be left out as a whole. */
const OPTIONAL = "x-optional";

/** Whether a value that a worker has registered this schema for may be left out. */
export function isOptional(schema: JsonSchema): boolean {
  return schema[OPTIONAL] === true;
}

/** What a caller has to pass: before the schema transforms it. */
function jsonSchemaOf(schema: unknown): JsonSchema | undefined {
  const { jsonSchema, validate } = (schema as { readonly "~standard"?: StandardProps } | undefined)?.["~standard"] ?? {};
  if (jsonSchema === undefined) return undefined;
  for (const target of TARGETS) {
    try {
      const found = jsonSchema.input({ target });
      if (typeof found !== "object" || found === null) continue;
      // Plain JSON, or it can't be kept.
      return JSON.parse(JSON.stringify({ ...found, ...(acceptsNothing(validate) && { [OPTIONAL]: true }) })) as JsonSchema;
    } catch {
      // The library can't write this schema for that target.
    }
  }
  return undefined;
}
/** As far as that can be told at once. */
function acceptsNothing(validate: StandardProps["validate"]): boolean {
  try {
    const result = validate?.(undefined);
    if (result instanceof Promise) result.catch(() => undefined);
    return typeof result === "object" && result !== null && "value" in result && !("issues" in result && result.issues !== undefined);
  } catch {
    return false;
  }
}
/** Standard JSON Schema, which libraries add to Standard Schema. */
interface StandardProps {
  readonly validate?: ((value: unknown) => unknown) | undefined;
  readonly jsonSchema?: { readonly input: (options: { readonly target: string }) => unknown } | undefined;
}

/** Undefined: the text was not made by this version, or by another program. */
export function schemasFromText(text: string): RegisteredSchemas | undefined {
  try {
    const { versions, schemas } = JSON.parse(text) as RegisteredSchemas;
    const { input, signals = {}, updates = {}, queries = [] } = schemas;
    return {
      versions: versions === "*" ? versions : versions.map((version) => version ?? undefined),
      schemas: { ...(input !== undefined && { input }), signals, updates, queries },
    };
  } catch {
    return undefined;
  }
}
