// Workflows and activities as users pass them: a list, or the exports of a module.
// Owns: nothing; it only checks and looks up.
// Invariants: a value that is not a workflow or an activity is rejected before anything is written, with an error that says what to do.

import { type Activity, type AnyWorkflow, InvalidInputError } from "@holdfast/core";

/**
 * Accepts a list, or the exports of a module, whose other values are skipped. An empty list asks for a host with nothing to do. A bare
 * definition, or a module without definitions, is an error: as an empty list it would leave its runs waiting forever.
 */
export function listed<T>(what: string, given: readonly T[] | Record<string, unknown>, is: (value: unknown) => value is T): T[] {
  const noun = nounOf(is);
  if (typeof given !== "object" || given === null) throw invalid(what, `Expected a list, or the exports of a module, got ${shown(given)}.`);
  if (is(given)) throw invalid(what, `Expected a list, got ${shown(given)}: put it in brackets.`);
  const found: T[] = [];
  for (const value of Array.isArray(given) ? given : Object.values(given)) {
    if (is(value)) found.push(value);
    else if (Array.isArray(given))
      throw invalid(what, `Expected ${noun === "workflow" ? "a" : "an"} ${noun} made by ${noun}(name, run), got ${shown(value)}.`);
  }
  if (found.length === 0 && !Array.isArray(given))
    throw invalid(
      what,
      `The object contains no ${noun}. Pass a list, or a module that exports what ${noun}(name, run) returns. To serve none, pass [].`,
    );
  return found;
}
/** The same as a map by name. Two definitions of the same name are an error. */
export function byName<T extends { readonly name: string }>(
  what: string,
  given: readonly T[] | Record<string, unknown>,
  is: (value: unknown) => value is T,
): Map<string, T> {
  const found = new Map<string, T>();
  for (const value of listed(what, given, is)) {
    if (found.has(value.name) && found.get(value.name) !== value) throw invalid(what, `Duplicate name "${value.name}".`);
    found.set(value.name, value);
  }
  return found;
}
/** The noun is the name of the function that makes such a definition. */
function nounOf(is: unknown): "workflow" | "activity" {
  return is === isWorkflow ? "workflow" : "activity";
}
/** Never throws: some values can't be printed. */
function shown(value: unknown): string {
  if (isWorkflow(value)) return `workflow "${value.name}"`;
  if (isActivity(value)) return `activity "${value.name}"`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "a list" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}
function invalid(what: string, message: string): InvalidInputError {
  return new InvalidInputError({ what, issues: [{ message }] });
}

/** Whether the value was made by `workflow(name, run)`. */
export function isWorkflow(value: unknown): value is AnyWorkflow {
  return (
    typeof value === "object" &&
    value !== null &&
    "run" in value &&
    "options" in value &&
    typeof (value as AnyWorkflow).options === "object" &&
    "version" in value
  );
}
/** Whether the value was made by `activity(name, run)`. */
export function isActivity(value: unknown): value is Activity<unknown, unknown> {
  return typeof value === "object" && value !== null && "run" in value && "options" in value && !("version" in value);
}
