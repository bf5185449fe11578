// The identity of a workflow's code.
// Owns: the identities computed so far.
// Invariants: V4 (code with another text or version has another identity).

import { createHash } from "node:crypto";
import type { AnyWorkflow } from "@holdfast/core";

const codes = new WeakMap<AnyWorkflow, string>();
/**
 * Distinguishes versions of code. Not secure, and not complete (it ignores the helpers that the code calls), but enough to decide whether
 * to try a blocked run again.
 */
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
