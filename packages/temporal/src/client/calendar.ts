// When a schedule ticks, as Temporal has it.
// Owns: what of cron and `every` Temporal's calendars and intervals can express.
// Invariants: T3 (day or weekday, where both are given; multiples since 1970); what can't be expressed is an UnsupportedError.

import { UnsupportedError } from "@holdfast/core";
import { type CronFields, cronFields, lengthOf, type ScheduleSettings } from "holdfast/backend";
import { durationOf, type temporal } from "../proto.ts";
import { HOST } from "./settings.ts";

type Spec = temporal.api.schedule.v1.IScheduleSpec;
type Calendar = temporal.api.schedule.v1.IStructuredCalendarSpec;
type Range = temporal.api.schedule.v1.IRange;

const ANY_DAY: Range[] = [{ start: 1, end: 31 }];
const ANY_WEEKDAY: Range[] = [{ start: 0, end: 6 }];

export function specOf({ cron, every, timezone, jitter }: Pick<ScheduleSettings, "cron" | "every" | "timezone" | "jitter">): Spec {
  return {
    ...(cron === undefined
      ? { interval: [{ interval: durationOf(wholeSeconds(lengthOf(every))) }] }
      : { structuredCalendar: calendarsOf(cron) }),
    timezoneName: timezone,
    ...(jitter !== undefined && { jitter: durationOf(lengthOf(jitter)) }),
  };
}
function wholeSeconds(every: number): number {
  if (every % 1_000 === 0) return every;
  const instead = "Temporal's schedules know whole seconds only: pass a multiple of 1 s.";
  throw new UnsupportedError({ feature: `every: ${every} ms`, host: HOST, instead });
}
function calendarsOf(cron: string): Calendar[] {
  const fields = cronFields(cron);
  if (fields === undefined) {
    const instead = "Name the days by numbers, and look in the workflow whether the day is the one that you mean.";
    throw new UnsupportedError({ feature: `L, W and # in the cron pattern ${JSON.stringify(cron)}`, host: HOST, instead });
  }
  const { days, weekdays } = fields;
  if (days !== undefined && weekdays !== undefined)
    return [calendarOf({ ...fields, weekdays: undefined }), calendarOf({ ...fields, days: undefined })];
  return [calendarOf(fields)];
}
function calendarOf({ seconds, minutes, hours, days, months, weekdays }: CronFields): Calendar {
  return {
    second: ranges(seconds),
    minute: ranges(minutes),
    hour: ranges(hours),
    dayOfMonth: days === undefined ? ANY_DAY : ranges(days),
    month: ranges(months),
    dayOfWeek: weekdays === undefined ? ANY_WEEKDAY : ranges(weekdays),
  };
}
/** Values in order, neighbours together. */
function ranges(values: readonly number[]): Range[] {
  const found: { start: number; end: number }[] = [];
  for (const value of values) {
    const last = found.at(-1);
    if (last !== undefined && last.end + 1 === value) last.end = value;
    else found.push({ start: value, end: value });
  }
  return found;
}
