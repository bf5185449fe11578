// What a start learns about the run that has its id.
// Owns: nothing.
// Invariants: M3 (a run of another workflow is named by its workflow; of the same one there is nothing to add).

import type { CreateResult, NewRun } from "./port.ts";

/** The workflow of the run that has the id, if it is not the workflow of the start. */
export function otherWorkflow(
  conflict: Extract<CreateResult, { status: "conflict" }>,
  { workflow }: Pick<NewRun, "workflow">,
): string | undefined {
  return conflict.workflow === workflow ? undefined : conflict.workflow;
}
