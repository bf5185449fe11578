// Which runs a definition may drive.
// Owns: nothing.
// Invariants: V2 (its own version, those that it serves; runs without a version are a version like others).

import type { AnyWorkflow } from "@holdfast/core";

export function serves({ version, options }: AnyWorkflow, wanted: string | undefined): boolean {
  return wanted === version || options.serves === "*" || (wanted !== undefined && options.serves?.includes(wanted) === true);
}
