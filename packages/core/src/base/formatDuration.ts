// formatDuration: milliseconds as readable text.
// Owns the units and their lengths. It is separate from parseDuration because error messages need it, and parsing needs errors.
// Invariants: never throws; exact to the millisecond: parseDuration(formatDuration(n)) is n for every valid whole n.

/** From the longest to the shortest, with their length in milliseconds. */
export const units = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

/** "1h30m", "250ms", "14d". Weeks are written as days, which read better beside hours. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms)) return `${ms}ms`;
  if (ms < 0) return `-${formatDuration(-ms)}`;
  let rest = Math.round(ms);
  let text = "";
  for (const [unit, length] of units) {
    if (unit === "w" || rest < length) continue;
    text += `${Math.floor(rest / length)}${unit}`;
    rest %= length;
  }
  return text === "" ? "0ms" : text;
}
