// Retention in its stored form: milliseconds, or forever (B4).
// Owns: nothing.
// Invariants: a retention that is left out is not stored.

import { type Duration, parseDuration } from "@holdfast/core";

/** A retention as it is stored: in milliseconds, or forever. Undefined: none was given. */
export function keptFor(retention: Duration | "forever" | undefined): number | "forever" | undefined {
  return retention === undefined || retention === "forever" ? retention : parseDuration(retention);
}
