// Times for people.
// Owns: "2m ago", "in 30s", and lengths of time.
// Invariants: relative to the clock of this machine, and only for people: JSON has ISO times.

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;
const FAR = 30 * 86_400_000;

/** With one unit: "45s", "2m", "3d". */
export function roughly(ms: number): string {
  for (const [unit, length] of UNITS) {
    if (ms >= length) return `${Math.floor(ms / length)}${unit}`;
  }
  return `${Math.max(0, Math.round(ms))}ms`;
}

/** Of a time as ISO text: "2m ago", "in 30s"; further away than 30 days the day. */
export function relative(time: string | null | undefined, now: number): string {
  if (time === null || time === undefined) return "";
  const at = Date.parse(time);
  if (Number.isNaN(at)) return time;
  const distance = at - now;
  if (Math.abs(distance) >= FAR) return new Date(at).toISOString().slice(0, 10);
  if (Math.abs(distance) < 1_000) return "now";
  return distance < 0 ? `${roughly(-distance)} ago` : `in ${roughly(distance)}`;
}

/** Between two times as ISO text; to now, if there is no second. */
export function span(from: string | null | undefined, to: string | null | undefined, now: number): string {
  if (from === null || from === undefined) return "";
  const end = to === null || to === undefined ? now : Date.parse(to);
  return roughly(Math.max(0, end - Date.parse(from)));
}
