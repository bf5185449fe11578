// The identity of a workflow's code.
// Owns: the identities that were computed.
// Invariants: V4 (code that differs in its text or version has another identity).

import { createHash } from "node:crypto";
import type { AnyWorkflow } from "@holdfast/core";

const codes = new WeakMap<AnyWorkflow, string>();
/** Tells code from other code. Not secure, not complete (helpers it calls are not in it): enough to try a blocked run again. */
export function codeOf(workflow: AnyWorkflow): string {
  let code = codes.get(workflow);
  if (code === undefined) {
    code = createHash("sha256")
      .update(workflow.version ?? "")
      .update(workflow.run.toString())
      .digest("hex")
      .slice(0, 16);
    codes.set(workflow, code);
  }
  return code;
}
