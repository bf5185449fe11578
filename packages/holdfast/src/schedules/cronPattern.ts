// Cron patterns: which days and which times of the day a pattern names, on the wall.
// Owns: the grammar that is accepted, and the parsed patterns.
// Invariants: T3 (5 or 6 fields, names, L W #, nicknames; day or weekday), T4 (what is a fixed time), T9 (a pattern that never comes).
//
// croner reads the fields and finds the days. Its own walk over a zone takes lists of hours or minutes for intervals, so that a fixed time
// of a list would get lost in a gap: ticks.ts walks the zone instead.

import { InvalidInputError } from "@holdfast/core";
import { Cron, CronPattern as Fields } from "croner";

const DAY = 86_400_000;
const NICKNAMES = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;
const NUMBERS = /^\d+(?:,\d+)*$/;
const STEPS = String.raw`\*(?:\/\d+)?|\d+(?:-\d+(?:\/\d+)?)?`;
const MONTH = String.raw`(?:\d+|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`;
const WEEKDAY = String.raw`(?:\d|sun|mon|tue|wed|thu|fri|sat)`;
const FIELDS: readonly (readonly [name: string, grammar: RegExp])[] = [
  ["second", listOf(STEPS)],
  ["minute", listOf(STEPS)],
  ["hour", listOf(STEPS)],
  ["day of the month", listOf(String.raw`\?|lw?|\d+w|${STEPS}`)],
  ["month", listOf(String.raw`\*(?:\/\d+)?|${MONTH}(?:-${MONTH}(?:\/\d+)?)?`)],
  ["day of the week", listOf(String.raw`\?|\*(?:\/\d+)?|${WEEKDAY}(?:#[1-5]|l|-${WEEKDAY}(?:\/\d+)?)?`)],
];
/** Parsed patterns that are kept: each takes about 80 kB, most of it for years. */
const MOST_KEPT = 200;
/** Days that are kept of a pattern. */
const MOST_DAYS = 500;
const kept = new Map<string, CronPattern>();

function listOf(item: string): RegExp {
  return new RegExp(`^(?:${item})(?:,(?:${item}))*$`, "i");
}

export class CronPattern {
  /** T4: second, minute and hour are numbers or lists of numbers. Everything else goes by elapsed time. */
  readonly isFixed: boolean;
  /** The seconds of the day, from 0 on, in order. */
  readonly times: readonly number[];
  readonly #days: Cron;
  /** Answers of before: many schedules with one pattern ask for the same days. */
  readonly #known = new Map<number, number | undefined>();

  private constructor(cron: string) {
    const [second = "", minute = "", hour = "", ...days] = fieldsOf(cron);
    this.isFixed = [second, minute, hour].every((field) => NUMBERS.test(field));
    try {
      const fields = new Fields([second, minute, hour, ...days].join(" "), undefined, { mode: "6-part" });
      this.#days = new Cron(["0", "0", "0", ...days].join(" "), { mode: "6-part", utcOffset: 0 });
      this.times = timesOf(fields);
    } catch (error) {
      throw invalid(cron, reasonOf(error));
    }
  }
  /** Throws InvalidInputError for a pattern that is not valid. */
  static of(cron: string): CronPattern {
    const known = kept.get(cron);
    if (known !== undefined) return known;
    const pattern = new CronPattern(cron);
    for (const oldest of kept.keys()) {
      if (kept.size < MOST_KEPT) break;
      kept.delete(oldest);
    }
    kept.set(cron, pattern);
    return pattern;
  }

  /** The start of the first matching day at or after the start of this one. Undefined: none comes. */
  dayFrom(wall: number): number | undefined {
    const from = Math.floor(wall / DAY) * DAY;
    const known = this.#known.get(from);
    if (known !== undefined || this.#known.has(from)) return known;
    const day = this.#days.nextRun(new Date(from - 1_000))?.getTime();
    if (this.#known.size >= MOST_DAYS) this.#known.clear();
    this.#known.set(from, day);
    return day;
  }
  /** The first matching wall time after this one. Undefined: none comes. */
  after(wall: number): number | undefined {
    const today = Math.floor(wall / DAY) * DAY;
    const day = this.dayFrom(today);
    if (day === today) {
      const time = this.times[this.#countUntil((wall - today) / 1_000)];
      if (time !== undefined) return today + time * 1_000;
    }
    const next = day === today ? this.dayFrom(today + DAY) : day;
    return next === undefined ? undefined : next + (this.times[0] ?? 0) * 1_000;
  }
  /** How many matching wall times there are after the first and up to the second. */
  countBetween(after: number, to: number): number {
    let count = 0;
    for (let day = this.dayFrom(after); day !== undefined && day <= to; day = this.dayFrom(day + DAY)) {
      const last = to - day < DAY ? this.#countUntil((to - day) / 1_000) : this.times.length;
      count += last - (day <= after ? this.#countUntil((after - day) / 1_000) : 0);
    }
    return Math.max(count, 0);
  }
  /** How many of the times of a day are not after this second of it. */
  #countUntil(second: number): number {
    let low = 0;
    let high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.times[middle] ?? 0) <= second) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** What croner says, with values as the user wrote them: it counts days and months from 0. */
function reasonOf(error: unknown): string {
  const said = error instanceof Error ? error.message.replace(/^CronPattern: (?:Syntax error, )?/, "") : String(error);
  const [, field = "", value = ""] = /^Invalid value for (\w+): (-?\d+)$/.exec(said) ?? [];
  const isFromZero = field === "day" || field === "month";
  const name = { day: "day of the month", dayOfWeek: "day of the week" }[field] ?? field;
  return field === "" ? said : `${Number(value) + (isFromZero ? 1 : 0)} is not valid for the ${name}`;
}
/** Six fields, each of which has the form that it should have. */
function fieldsOf(cron: unknown): readonly string[] {
  if (typeof cron !== "string") throw invalid(cron, "must be text");
  const text = cron.trim();
  if (NICKNAMES.test(text)) return ["0", ...new Fields(text).pattern.split(" ")];
  const fields = text.split(/\s+/);
  if (fields.length !== 5 && fields.length !== 6)
    throw invalid(cron, "needs 5 fields (minute hour day month weekday), or 6 with seconds first, or a name such as @daily");
  const six = fields.length === 5 ? ["0", ...fields] : fields;
  for (const [i, [name, grammar]] of FIELDS.entries())
    if (!grammar.test(six[i] ?? "")) throw invalid(cron, `${JSON.stringify(six[i])} is not valid for the ${name}`);
  return six;
}
/** The values of each field, for hosts that find the times by themselves. */
export interface CronFields {
  /** The seconds, from 0. */
  readonly seconds: readonly number[];
  /** The minutes, from 0. */
  readonly minutes: readonly number[];
  /** The hours, from 0. */
  readonly hours: readonly number[];
  /** From 1. Undefined: any day. If days and weekdays are both given, one of them has to match. */
  readonly days: readonly number[] | undefined;
  /** From 1. */
  readonly months: readonly number[];
  /** From 0, which is Sunday. Undefined: any. */
  readonly weekdays: readonly number[] | undefined;
}
/**
 * The fields of a cron pattern. Undefined if days depend on the month (`L`, `W`, `#`).
 * @throws `InvalidInputError` for a pattern that is not valid.
 */
export function cronFields(cron: string): CronFields | undefined {
  const six = fieldsOf(cron);
  // No name of a weekday has an "l".
  if (/[lw]/i.test(six[3] ?? "") || /[l#]/i.test(six[5] ?? "")) return undefined;
  const { second, minute, hour, day, month, dayOfWeek, starDOM, starDOW } = new Fields(six.join(" "), undefined, { mode: "6-part" });
  return {
    seconds: valuesOf(second),
    minutes: valuesOf(minute),
    hours: valuesOf(hour),
    days: starDOM ? undefined : valuesOf(day).map((value) => value + 1),
    months: valuesOf(month).map((value) => value + 1),
    weekdays: starDOW ? undefined : valuesOf(dayOfWeek),
  };
}
function valuesOf(field: readonly number[]): number[] {
  return [...field.keys()].filter((i) => field[i] !== 0);
}
function timesOf({ second, minute, hour }: Fields): number[] {
  const [seconds, minutes, hours] = [valuesOf(second), valuesOf(minute), valuesOf(hour)];
  return hours.flatMap((h) => minutes.flatMap((m) => seconds.map((s) => h * 3_600 + m * 60 + s)));
}

export function invalid(cron: unknown, why: string): InvalidInputError {
  const shown = typeof cron === "string" ? `${JSON.stringify(cron.slice(0, 200))}: ` : "";
  return new InvalidInputError({ what: "schedule", issues: [{ path: ["cron"], message: `${shown}${why}` }] });
}
