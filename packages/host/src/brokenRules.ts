// Turns that broke a rule.
// Owns: which errors say so.
// Invariants: V4 (a turn that broke a rule of N or X would do again what it did outside of steps: time does not help it, only other code).

import { ForeignAwaitError, HoldfastError, IllegalCallError, IllegalReturnError, OutOfTurnError } from "@holdfast/core";

/** D7, and what the determinism guard finds: rules without a class. */
const RULE_CODES: ReadonlySet<string> = new Set(["HF_TOO_MANY_RECOVERIES", "HF_NONDETERMINISTIC_CALL"]);

/** Also of a run that kills its workers. */
export function isBrokenRule(error: unknown): boolean {
  if (error instanceof ForeignAwaitError || error instanceof OutOfTurnError) return true;
  if (error instanceof IllegalCallError || error instanceof IllegalReturnError) return true;
  return error instanceof HoldfastError && RULE_CODES.has(error.code);
}
