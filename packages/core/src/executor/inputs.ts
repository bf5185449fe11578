// Values that workflow code hands to another execution, or returns: as the schema of their receiver has them.
// Owns: nothing.
// Invariants: X8 (a schema that can't say so at once is refused: workflow code can't wait for it).

import type { StandardSchemaV1 } from "@standard-schema/spec";
import { InvalidInputError, isInstance } from "../errors/index.ts";
import type { AnyWorkflow } from "../model/index.ts";
import type { StartJob } from "../protocol/index.ts";

/** The input of a child. */
export function checkedInput(workflow: AnyWorkflow, input: unknown): unknown {
  const schema = workflow.options.input as StandardSchemaV1 | undefined;
  if (schema === undefined) return input;
  const what = `the input of workflow ${workflow.name}`;
  const result = schema["~standard"].validate(input);
  if (isInstance(result, Promise)) {
    result.catch(() => {});
    const message =
      "Its schema is asynchronous, and workflow code can't wait for one. Check the input in a step, or use a schema that is not.";
    throw new InvalidInputError({ what, issues: [{ message }] });
  }
  return settled(what, result);
}

/**
 * Marks the seed of an execution whose input no schema has seen: its starter did not know the workflow. Of a start, the seed is what every
 * store keeps as it is and nobody else reads; the next execution has another.
 */
const UNCHECKED = "unchecked:";
export function uncheckedSeed(seed: string): string {
  return UNCHECKED + seed;
}
export function isUnchecked({ seed }: StartJob): boolean {
  return seed.startsWith(UNCHECKED);
}
/** The input of an execution of this workflow. A schema that awaits anything foreign is caught like other code (X8). */
export async function validatedInput(workflow: AnyWorkflow, input: unknown): Promise<unknown> {
  const schema = workflow.options.input as StandardSchemaV1 | undefined;
  return schema === undefined ? input : settled(`the input of workflow ${workflow.name}`, await schema["~standard"].validate(input));
}

/** What a schema makes of a value; throws InvalidInputError with every issue. */
export function settled(what: string, result: StandardSchemaV1.Result<unknown>): unknown {
  if (result.issues === undefined) return result.value;
  const issues = result.issues.map(({ message, path }) =>
    path === undefined ? { message } : { message, path: path.map((part) => (typeof part === "object" ? part.key : part)) },
  );
  throw new InvalidInputError({ what, issues });
}
