// Workflows and activities as users pass them: a list, or the exports of a module.
// Owns: nothing; checks and look-ups.
// Invariants: what is not a workflow or an activity is refused with an error that says what to do, before anything is written.

import { type Activity, type AnyWorkflow, InvalidInputError } from "@holdfast/core";

/**
 * A list, or the exports of a module: values of other kinds are skipped, unless there is nothing else. An empty list asks for a host with
 * nothing to do; one that results from a bare definition or from the wrong module would leave its runs waiting forever.
 */
export function listed<T>(what: string, given: readonly T[] | Record<string, unknown>, is: (value: unknown) => value is T): T[] {
  const noun = nounOf(is);
  if (typeof given !== "object" || given === null) throw invalid(what, `Give a list, or the exports of a module, not ${shown(given)}.`);
  if (is(given)) throw invalid(what, `Give a list, not ${shown(given)} by itself: put it in brackets.`);
  const found: T[] = [];
  for (const value of Array.isArray(given) ? given : Object.values(given)) {
    if (is(value)) found.push(value);
    else if (Array.isArray(given)) throw invalid(what, `${shown(value)} is no ${noun}: make one with ${noun}(name, fn).`);
  }
  if (found.length === 0 && !Array.isArray(given))
    throw invalid(
      what,
      `No ${noun} is in the object: give a list, or a module that exports what ${noun}(name, fn) made. For none, give [].`,
    );
  return found;
}
/** The same by name. Each name occurs once. */
export function byName<T extends { readonly name: string }>(
  what: string,
  given: readonly T[] | Record<string, unknown>,
  is: (value: unknown) => value is T,
): Map<string, T> {
  const found = new Map<string, T>();
  for (const value of listed(what, given, is)) {
    if (found.has(value.name) && found.get(value.name) !== value) throw invalid(what, `There are two of the name "${value.name}".`);
    found.set(value.name, value);
  }
  return found;
}
/** A definition is called by the name of the function that makes it. */
function nounOf(is: unknown): "workflow" | "activity" {
  return is === isWorkflow ? "workflow" : "activity";
}
/** Total, whatever the value: not everything can be printed. */
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
export function isActivity(value: unknown): value is Activity<unknown, unknown> {
  return typeof value === "object" && value !== null && "run" in value && "options" in value && !("version" in value);
}
