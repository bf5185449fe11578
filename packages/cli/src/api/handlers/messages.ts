// Checks values of messages and inputs before they are sent, without the code of the workflow in this process.
// Owns: nothing; the code host has the schemas, otherwise the workers have registered them.
// Invariants: a value that the schema refuses is an InvalidInputError with its issues, and nothing is written. What is not known is not
// checked here: the worker checks it.

import { InvalidInputError, UnsupportedError } from "@holdfast/core";
import { type InspectedWorkflow, type Inspection, isOptional, type JsonSchema } from "holdfast/inspect";
import * as z from "zod";
import type { ConsoleContext } from "../context.ts";
import type { Issue } from "../problem.ts";

export type Part = { readonly kind: "input" } | { readonly kind: "signal" | "update"; readonly name: string };

/** `value` is plain JSON: tagged values have no JSON Schema. */
export async function checkValue(
  context: ConsoleContext,
  workflow: string,
  version: string | undefined,
  part: Part,
  value: unknown,
): Promise<void> {
  const issues =
    (await ifCode(context.code?.validate(workflow, version, part, value))) ?? (await registered(context, workflow, version, part, value));
  if (issues.length === 0) return;
  const what = part.kind === "input" ? `the input of workflow ${workflow}` : `${part.kind} ${part.name}`;
  throw new InvalidInputError({ what, issues });
}

/** Undefined where there is no code, where it can't be loaded, and where it has no such workflow: workers may have it. */
export async function ifCode<T>(answer: Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if ((error as { code?: unknown }).code === "HF_NO_CODE") return undefined;
    throw error;
  }
}

async function registered(
  context: ConsoleContext,
  workflow: string,
  version: string | undefined,
  part: Part,
  value: unknown,
): Promise<readonly Issue[]> {
  const definition = pick(await workflowsOf(await context.inspection()), workflow, version);
  const schema = definition === undefined ? undefined : schemaOf(definition, part);
  return schema === undefined ? [] : issuesOf(schema, value);
}
/** The workflow of the worker that the command line starts for bulk actions: it has no runs, and is not one to choose. */
export const HELPER_WORKFLOW = "holdfast-cli";

/** None where the host does not know its workers. */
export async function workflowsOf(inspection: Inspection): Promise<InspectedWorkflow[]> {
  try {
    return (await inspection.workflows()).filter(({ name }) => name !== HELPER_WORKFLOW);
  } catch (error) {
    if (error instanceof UnsupportedError) return [];
    throw error;
  }
}
/**
 * The version of a start that names none. The engine knows it only where the code is: elsewhere the run would have none, and workers of a
 * workflow that has a version would not take it. Undefined if workers serve runs without a version, or several versions.
 */
export async function startVersion(context: ConsoleContext, workflow: string): Promise<string | undefined> {
  const named = (await workflowsOf(await context.inspection())).filter(({ name }) => name === workflow);
  if (named.some(({ versions }) => versions === "*" || versions.includes(undefined))) return undefined;
  const versions = [...new Set(named.map(({ version }) => version))];
  return versions.length === 1 ? versions[0] : undefined;
}
/** V2: the definition of that version, or one that serves it. Without a version: the one that a start without a version gets. */
function pick(all: readonly InspectedWorkflow[], workflow: string, version: string | undefined): InspectedWorkflow | undefined {
  const named = all.filter(({ name }) => name === workflow);
  return (
    named.find((one) => one.version === version) ??
    named.find(({ versions }) => versions === "*" || versions.includes(version)) ??
    (version === undefined ? named.at(-1) : undefined)
  );
}
function schemaOf({ schemas }: InspectedWorkflow, part: Part): JsonSchema | undefined {
  if (part.kind === "input") return schemas.input;
  const messages = part.kind === "signal" ? schemas.signals : schemas.updates;
  return Object.hasOwn(messages, part.name) ? messages[part.name] : undefined;
}
function issuesOf(schema: JsonSchema, value: unknown): readonly Issue[] {
  if (value === undefined && isOptional(schema)) return [];
  let parsed: z.ZodSafeParseResult<unknown>;
  try {
    parsed = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value);
  } catch {
    return []; // A schema with something that zod does not know: the worker checks the value.
  }
  if (parsed.success) return [];
  return parsed.error.issues.map(({ message, path }) => ({
    message,
    path: path.map((key) => (typeof key === "symbol" ? String(key) : key)),
  }));
}
