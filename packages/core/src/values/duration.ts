// Durations: parses the lengths of time that users write into milliseconds.
// Owns the Duration type and its grammar.
// Invariants: a parsed duration is a whole number of milliseconds from 0 to 10,000 years; other values are an InvalidInputError.

import { units } from "../base/formatDuration.ts";
import { InvalidInputError } from "../base/inputs.ts";
import { preview } from "../base/text.ts";

type Unit = "ms" | "s" | "m" | "h" | "d" | "w";
/** A length of time: milliseconds as a number, or text such as "250ms", "30s", "5m", "1h", "1h30m", "7d", "2w". */
export type Duration = number | `${number}${Unit}` | `${number}${Unit}${number}${Unit}`;

/** Longer than any real use, and short enough that now plus this duration is still a valid Date. */
const LONGEST = 10_000 * 365.25 * 86_400_000;

/** One group per unit: each unit at most once, from the longest to the shortest, with nothing between them. */
const grammar = new RegExp(`^${units.map(([unit]) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join("")}$`);

/** Returns milliseconds. Accepts any value, because it also checks options of callers without types; throws an InvalidInputError. */
export function parseDuration(duration: unknown): number {
  if (typeof duration === "number") return wholeMs(duration, duration);
  const groups = typeof duration === "string" && duration !== "" ? grammar.exec(duration) : null;
  if (groups === null) throw invalid(duration);
  let ms = 0;
  for (const [index, [, length]] of units.entries()) ms += Number(groups[index + 1] ?? 0) * length;
  return wholeMs(ms, duration);
}

/** Rounds up, because a timer never fires early (K8), but ignores floating-point noise: 1.1s is 1100, not 1101. */
function wholeMs(ms: number, duration: unknown): number {
  if (!(ms >= 0 && ms <= LONGEST)) throw invalid(duration);
  return Number.isInteger(ms) ? ms + 0 : Math.ceil(Number(ms.toFixed(6)));
}

function invalid(duration: unknown): InvalidInputError {
  const message = `${preview(duration)} is not a duration; write milliseconds (from 0 to 10,000 years), or text such as "250ms", "30s", "1h30m", "7d"`;
  return new InvalidInputError({ what: "duration", issues: [{ message }] });
}
