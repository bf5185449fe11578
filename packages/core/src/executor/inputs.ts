// Validates the input of workflows and children with the schema of the workflow.
// Owns: nothing.
// Invariants: X8 (an asynchronous schema is rejected for children, because workflow code can't wait for it).

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { InvalidInputError, isInstance } from "../errors/index.ts";
import type { AnyWorkflow } from "../model/index.ts";

/** The input of a child, validated synchronously. */
export function checkedInput(workflow: AnyWorkflow, input: unknown): unknown {
  const schema = workflow.options.input as StandardSchemaV1 | undefined;
  if (schema === undefined) return input;
  const what = `the input of workflow ${workflow.name}`;
  const result = schema["~standard"].validate(input);
  if (isInstance(result, Promise)) {
    result.catch(() => {});
    const message =
      "Its schema is asynchronous, and workflow code can't wait for it. Validate the input in a step, or use a synchronous schema.";
    throw new InvalidInputError({ what, issues: [{ message }] });
  }
  return settled(what, result);
}

/**
 * Marks the seed of an execution whose input was not validated, because its starter did not have the workflow definition. The mark is in
 * the seed because every store keeps it unchanged, no other code reads it, and the next execution has a different one.
 */
const UNCHECKED = "unchecked:";
/** Marks the seed of an execution whose input was not validated, because its starter did not have the workflow definition. */
export function uncheckedSeed(seed: string): string {
  return UNCHECKED + seed;
}
/** Whether the starter of an execution with this seed had no definition of its workflow. */
export function isUncheckedSeed(seed: string): boolean {
  return seed.startsWith(UNCHECKED);
}
/** The validated input of an execution. A schema that awaits a foreign promise is caught like workflow code (X8). */
export async function validatedInput(workflow: AnyWorkflow, input: unknown): Promise<unknown> {
  const schema = workflow.options.input as StandardSchemaV1 | undefined;
  return schema === undefined ? input : settled(`the input of workflow ${workflow.name}`, await schema["~standard"].validate(input));
}

/**
 * The value that a schema returned.
 * @throws `InvalidInputError` with all issues, if the schema found some.
 */
export function settled(what: string, result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path }) =>
    path === undefined ? { message } : { message, path: path.map((part) => (typeof part === "object" ? part.key : part)) },
  );
  throw new InvalidInputError({ what, issues });
}
