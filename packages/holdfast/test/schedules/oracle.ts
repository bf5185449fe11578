// A second opinion on ticks: walks the clock of a zone step by step, with nothing but Intl, and asks at each instant what it shows.

const formats = new Map<string, Intl.DateTimeFormat>();

/** What a clock in this zone shows, as the milliseconds of a clock in UTC that shows the same. */
export function shownAt(zone: string, instant: number): number {
  let format = formats.get(zone);
  if (format === undefined) {
    const parts = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" } as const;
    format = new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", ...parts });
    formats.set(zone, format);
  }
  const [month = 0, day, year = 0, hour, minute, second] = (format.format(instant).match(/\d+/g) ?? []).map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** One field of a pattern: its text, and what it matches. */
export interface Field {
  readonly text: string;
  readonly isFixed: boolean;
  readonly has: (value: number) => boolean;
}
export interface DayField {
  readonly text: string;
  readonly has: (day: Date) => boolean;
}
export interface Pattern {
  readonly second: Field | undefined;
  readonly minute: Field;
  readonly hour: Field;
  readonly day: DayField;
  readonly month: Field;
  readonly weekday: DayField;
}
export function textOf({ second, minute, hour, day, month, weekday }: Pattern): string {
  return [...(second === undefined ? [] : [second]), minute, hour, day, month, weekday].map(({ text }) => text).join(" ");
}
export function matches(pattern: Pattern, wall: number): boolean {
  const date = new Date(wall);
  if (!(pattern.second?.has(date.getUTCSeconds()) ?? date.getUTCSeconds() === 0)) return false;
  if (!pattern.minute.has(date.getUTCMinutes()) || !pattern.hour.has(date.getUTCHours()) || !pattern.month.has(date.getUTCMonth() + 1))
    return false;
  const { day, weekday } = pattern;
  if (day.text !== "*" && weekday.text !== "*") return day.has(date) || weekday.has(date);
  return day.has(date) && weekday.has(date);
}

/** Every tick after `from` and up to `to`, both on a whole step. */
export function walk(pattern: Pattern, zone: string, from: number, to: number): number[] {
  const step = pattern.second === undefined ? 60_000 : 1_000;
  const isFixed = [pattern.second, pattern.minute, pattern.hour].every((field) => field?.isFixed !== false);
  const ticks: number[] = [];
  // Far enough back to know what the clock has shown before.
  const start = from - 26 * 3_600_000;
  let before = shownAt(zone, start);
  let latest = before;
  for (let instant = start + step; instant <= to; instant += step) {
    const wall = shownAt(zone, instant);
    let isTick = matches(pattern, wall) && (!isFixed || wall > latest);
    if (isFixed) for (let gone = before + step; gone < wall; gone += step) isTick ||= gone > latest && matches(pattern, gone);
    if (isTick && instant > from) ticks.push(instant);
    before = wall;
    latest = Math.max(latest, wall);
  }
  return ticks;
}
