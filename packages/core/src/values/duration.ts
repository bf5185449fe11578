// Durations: parses the lengths of time that users write into milliseconds.
// Owns the Duration type and its grammar.
// Invariants: a parsed duration is a whole number of milliseconds from 0 to 10,000 years; other values are an InvalidInputError.

import { units } from "../base/formatDuration.ts";
import { InvalidInputError } from "../base/inputs.ts";
import { preview } from "../base/text.ts";

type Unit = "ms" | "s" | "m" | "h" | "d" | "w";
/**
 * A length of time: milliseconds as a number, or text such as "250ms", "30s", "5m", "1h", "1h30m", "7d", "2w".
 * @example
 * ```ts
 * const reminder = workflow("reminder", async (ctx, wait: Duration) => {
 *   await ctx.sleep(wait);
 *   return ctx.now().toISOString();
 * });
 * const engine = await testEngine({ workflows: [reminder] }); // its clock starts at 2026-01-01
 * console.log(await (await engine.start(reminder, "1h30m")).result()); // "2026-01-01T01:30:00.000Z"
 * await engine.close();
 * ```
 */
export type Duration = number | `${number}${Unit}` | `${number}${Unit}${number}${Unit}`;

/** Longer than any real use, and short enough that now plus this duration is still a valid Date. */
const LONGEST = 10_000 * 365.25 * 86_400_000;

/** One group per unit: each unit at most once, from the longest to the shortest, with nothing between them. */
const grammar = new RegExp(`^${units.map(([unit]) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`).join("")}$`);

/**
 * A duration in milliseconds. Accepts any value, because it also checks options of callers without types.
 * @throws `InvalidInputError`, which names the option if it is given.
 */
export function parseDuration(duration: unknown, option?: string): number {
  const ms = exactDuration(duration, option);
  // Rounds up, because a timer never fires early (K8), but ignores floating-point noise: 1.1s is 1100, not 1101.
  return Number.isInteger(ms) ? ms + 0 : Math.ceil(Number(ms.toFixed(6)));
}
/** As `parseDuration`, but not rounded: half a millisecond is less than one. For options that have a least length. */
export function exactDuration(duration: unknown, option?: string): number {
  const ms = typeof duration === "number" ? duration : sumOfUnits(duration);
  if (ms >= 0 && ms <= LONGEST) return ms;
  const message = `${preview(duration)} is not a duration; write milliseconds (from 0 to 10,000 years), or text such as "250ms", "30s", "1h30m", "7d"`;
  throw new InvalidInputError({ what: "duration", issues: [option === undefined ? { message } : { message, path: [option] }] });
}
function sumOfUnits(text: unknown): number {
  const groups = typeof text === "string" && text !== "" ? grammar.exec(text) : null;
  if (groups === null) return Number.NaN;
  return units.reduce((sum, [, length], index) => sum + Number(groups[index + 1] ?? 0) * length, 0);
}
