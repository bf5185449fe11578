// Recognizes turns that broke a rule of workflow code.
// Owns: the list of errors that mean so.
// Invariants: V4 (a turn that broke a rule of N or X would repeat what it did outside of steps: a retry does not help, only changed code
// does).

import { ForeignAwaitError, HoldfastError, IllegalCallError, IllegalReturnError, OutOfTurnError } from "@holdfast/core";

/** Rules whose errors have a code but no class: D7, and the findings of the determinism guard. */
const RULE_CODES: ReadonlySet<string> = new Set(["HF_TOO_MANY_RECOVERIES", "HF_NONDETERMINISTIC_CALL"]);

/** Whether workflow code broke a rule, so that only changed code helps. True also for a run that keeps killing its workers. */
export function isBrokenRule(error: unknown): boolean {
  if (error instanceof ForeignAwaitError || error instanceof OutOfTurnError) return true;
  if (error instanceof IllegalCallError || error instanceof IllegalReturnError) return true;
  return error instanceof HoldfastError && RULE_CODES.has(error.code);
}
