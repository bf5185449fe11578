// Which runs a definition may drive.
// Owns: nothing.
// Invariants: V2 (runs of its own version and of the versions that it serves; "no version" counts as a version).

import type { AnyWorkflow } from "@holdfast/core";

/** Whether a workflow can run runs of that version. */
export function serves({ version, options }: AnyWorkflow, wanted: string | undefined): boolean {
  return wanted === version || options.serves === "*" || (wanted !== undefined && options.serves?.includes(wanted) === true);
}
