// Durations: what users write for a length of time, turned into milliseconds.
// Owns the Duration type and its grammar.
// Invariants: a parsed duration is a whole number of milliseconds from 0 to 10,000 years; all else is an InvalidInputError that names it.

import { units } from "../base/formatDuration.ts";
import { InvalidInputError } from "../base/inputs.ts";
import { preview } from "../base/text.ts";

type Unit = "ms" | "s" | "m" | "h" | "d" | "w";
/** Milliseconds, or "250ms", "30s", "5m", "1h", "1h30m", "7d", "2w". */
export type Duration = number | `${number}${Unit}` | `${number}${Unit}${number}${Unit}`;

/** Beyond any use, and well within what a Date can say: a time that many years from now still has one. */
const LONGEST = 10_000 * 365.25 * 86_400_000;

/** One group a unit: each unit at most once, from the longest to the shortest, and nothing between them. */
const grammar = new RegExp(`^${units.map(([unit]) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join("")}$`);

/** Takes anything, since it is what checks the options of users who have no types. */
export function parseDuration(duration: unknown): number {
  if (typeof duration === "number") return wholeMs(duration, duration);
  const groups = typeof duration === "string" && duration !== "" ? grammar.exec(duration) : null;
  if (groups === null) throw invalid(duration);
  let ms = 0;
  for (const [index, [, length]] of units.entries()) ms += Number(groups[index + 1] ?? 0) * length;
  return wholeMs(ms, duration);
}

/** Rounded up, since a timer never fires early (K8), but not for the noise of binary fractions: 1.1s is 1100, not 1101. */
function wholeMs(ms: number, duration: unknown): number {
  if (!(ms >= 0 && ms <= LONGEST)) throw invalid(duration);
  return Number.isInteger(ms) ? ms + 0 : Math.ceil(Number(ms.toFixed(6)));
}

function invalid(duration: unknown): InvalidInputError {
  const message = `${preview(duration)} is no duration; write milliseconds (from 0 to 10,000 years of them), or text such as "250ms", "30s", "1h30m", "7d"`;
  return new InvalidInputError({ what: "duration", issues: [{ message }] });
}
