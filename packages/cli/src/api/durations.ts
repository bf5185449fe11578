// Durations in query parameters.
// Owns: nothing; the syntax is that of `holdfast`.
// Invariants: a text that is not a duration is undefined.

import { parseDuration } from "@holdfast/core";

/** Milliseconds: "30s", "1h30m", "250". */
export function durationMs(text: string): number | undefined {
  try {
    return parseDuration(/^\d{1,15}$/.test(text) ? Number(text) : (text as "1s"));
  } catch {
    return undefined;
  }
}
