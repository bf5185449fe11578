import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { dueTicks, firstTick, startOf, type Ticks, ticksOf } from "../../src/schedules/ticks.ts";
import { type DayField, type Field, type Pattern, shownAt, textOf, walk } from "./oracle.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Zones with every kind of change: an hour, half an hour, at midnight, a whole day, at odd times, none at all, and both hemispheres. */
const ZONES = [
  "UTC",
  "Europe/Berlin",
  "Europe/London",
  "Europe/Dublin",
  "America/New_York",
  "America/Los_Angeles",
  "America/St_Johns",
  "America/Havana",
  "America/Santiago",
  "America/Asuncion",
  "America/Sao_Paulo",
  "America/Scoresbysund",
  "Africa/Casablanca",
  "Africa/Cairo",
  "Asia/Gaza",
  "Asia/Tehran",
  "Asia/Beirut",
  "Asia/Kathmandu",
  "Asia/Kolkata",
  "Asia/Pyongyang",
  "Australia/Lord_Howe",
  "Australia/Adelaide",
  "Pacific/Apia",
  "Pacific/Chatham",
  "Pacific/Kiritimati",
  "Antarctica/Troll",
];

function listed(ticks: Ticks, from: number, to: number): number[] {
  const all: number[] = [];
  for (let tick = ticks.after(from); tick !== undefined && tick <= to; tick = ticks.after(tick)) all.push(tick);
  return all;
}
function at(zone: string, cron: string, from: string, count: number): string[] {
  const ticks = ticksOf({ cron, timezone: zone });
  const found: string[] = [];
  let instant = Date.parse(from);
  for (let i = 0; i < count; i++) {
    instant = ticks.after(instant) as number;
    found.push(new Date(instant).toISOString().replace(":00.000Z", "Z"));
  }
  return found;
}
const cron = (pattern: string, timezone = "UTC") => ticksOf({ cron: pattern, timezone });

describe("T3 patterns", () => {
  test.each([
    ["5 fields", "30 2 * * *", ["2026-01-01T02:30Z", "2026-01-02T02:30Z"]],
    ["6 fields, seconds first", "15 30 2 * * *", ["2026-01-01T02:30:15.000Z", "2026-01-02T02:30:15.000Z"]],
    ["names", "0 0 * feb MON-wed", ["2026-02-02T00:00Z", "2026-02-03T00:00Z", "2026-02-04T00:00Z", "2026-02-09T00:00Z"]],
    ["both Sundays", "0 0 * * 0,7", ["2026-01-04T00:00Z", "2026-01-11T00:00Z"]],
    ["L of the month", "0 0 L * *", ["2026-01-31T00:00Z", "2026-02-28T00:00Z", "2026-03-31T00:00Z"]],
    ["L of a weekday", "0 0 * * FRIL", ["2026-01-30T00:00Z", "2026-02-27T00:00Z"]],
    ["W", "0 0 15W * *", ["2026-01-15T00:00Z", "2026-02-16T00:00Z", "2026-03-16T00:00Z"]],
    ["LW", "0 0 LW * *", ["2026-01-30T00:00Z", "2026-02-27T00:00Z"]],
    ["#", "0 0 * * MON#2", ["2026-01-12T00:00Z", "2026-02-09T00:00Z"]],
    ["day or weekday", "0 0 13 * FRI", ["2026-01-02T00:00Z", "2026-01-09T00:00Z", "2026-01-13T00:00Z", "2026-01-16T00:00Z"]],
    ["@daily", "@daily", ["2026-01-01T00:00Z", "2026-01-02T00:00Z"]],
    ["@Hourly", "@Hourly", ["2026-01-01T00:00Z", "2026-01-01T01:00Z"]],
    ["@yearly", "@yearly", ["2026-01-01T00:00Z", "2027-01-01T00:00Z"]],
    ["leap days", "0 0 29 2 *", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]],
    ["a range with a step", "10-50/20 6 1 1 *", ["2026-01-01T06:10Z", "2026-01-01T06:30Z", "2026-01-01T06:50Z", "2027-01-01T06:10Z"]],
  ])("T3 %s", (_, pattern, expected) => {
    expect(at("UTC", pattern, "2025-12-31T23:59:00Z", expected.length)).toEqual(expected);
  });
  test("T3 every: multiples since 1970, strictly after", () => {
    const ticks = ticksOf({ every: 7_000, timezone: "UTC" });
    expect([ticks.after(-1), ticks.after(0), ticks.after(6_999), ticks.after(7_000)]).toEqual([0, 7_000, 7_000, 14_000]);
    expect(ticks.count(0, 70_000)).toBe(10);
  });
  test("T3 the next tick is strictly after, also within a second", () => {
    const ticks = cron("* * * * * *");
    expect([ticks.after(1_000), ticks.after(1_001), ticks.after(1_999)]).toEqual([2_000, 2_000, 2_000]);
  });
});

describe("T4 daylight saving", () => {
  test("T4 a fixed time in the gap runs once, at the first instant after it", () => {
    expect(at("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00Z", 2)).toEqual(["2026-03-29T01:00Z", "2026-03-30T00:30Z"]);
  });
  test("T4 times of a list are fixed times: 30 2,14 keeps 02:30 on the day of the gap", () => {
    const expected = ["2026-03-29T01:00Z", "2026-03-29T12:30Z", "2026-03-30T00:30Z"];
    expect(at("Europe/Berlin", "30 2,14 * * *", "2026-03-28T14:00Z", 3)).toEqual(expected);
  });
  test("T4 what runs at the end of the gap is merged with what it skipped", () => {
    expect(at("Europe/Berlin", "0,30 2,3 * * *", "2026-03-28T12:00Z", 3)).toEqual([
      "2026-03-29T01:00Z",
      "2026-03-29T01:30Z",
      "2026-03-30T00:00Z",
    ]);
  });
  test("T4 a fixed time that comes twice runs the first time", () => {
    expect(at("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00Z", 2)).toEqual(["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    // … also if the walk begins within the repeated hour
    expect(at("Europe/Berlin", "30 2 * * *", "2026-10-25T01:15Z", 1)).toEqual(["2026-10-26T01:30Z"]);
  });
  test("T4 intervals go by elapsed time: nothing is made up, and the repeated hour runs again", () => {
    expect(at("Europe/Berlin", "*/30 2 * * *", "2026-03-28T12:00Z", 2)).toEqual(["2026-03-30T00:00Z", "2026-03-30T00:30Z"]);
    expect(at("Europe/Berlin", "*/30 2 * * *", "2026-10-24T12:00Z", 5)).toEqual([
      "2026-10-25T00:00Z",
      "2026-10-25T00:30Z",
      "2026-10-25T01:00Z",
      "2026-10-25T01:30Z",
      "2026-10-26T01:00Z",
    ]);
  });
  test("T4 a range is an interval, a list with a range too", () => {
    expect(at("Europe/Berlin", "0 2-3 * * *", "2026-03-28T12:00Z", 2)).toEqual(["2026-03-29T01:00Z", "2026-03-30T00:00Z"]);
    expect(at("Europe/Berlin", "0 0,2-3 * * *", "2026-10-24T12:00Z", 4)).toEqual([
      "2026-10-24T22:00Z",
      "2026-10-25T00:00Z",
      "2026-10-25T01:00Z",
      "2026-10-25T02:00Z",
    ]);
  });
  test("T4 midnight is skipped in Santiago: the day begins at one", () => {
    expect(at("America/Santiago", "0 0 * * *", "2026-09-05T12:00Z", 2)).toEqual(["2026-09-06T04:00Z", "2026-09-07T03:00Z"]);
  });
  test("T4 half an hour in Lord Howe", () => {
    expect(at("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00Z", 2)).toEqual(["2026-10-03T15:30Z", "2026-10-04T15:15Z"]);
    expect(at("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00Z", 2)).toEqual(["2026-04-04T14:45Z", "2026-04-05T15:15Z"]);
  });
  test("T4 a day that a zone left out runs once, after it", () => {
    expect(at("Pacific/Apia", "0 12 * * *", "2011-12-28T23:00Z", 3)).toEqual([
      "2011-12-29T22:00Z",
      "2011-12-30T10:00Z",
      "2011-12-30T22:00Z",
    ]);
  });
});

// ── the same as a walk over the zone ──

/** Instants around which the offset of a zone changes between 2009 and 2040. */
const changes = new Map(ZONES.map((zone) => [zone, changesOf(zone)]));
function changesOf(zone: string): number[] {
  const found: number[] = [];
  for (let day = Date.UTC(2009); day < Date.UTC(2040); day += DAY)
    if (shownAt(zone, day + DAY) - shownAt(zone, day) !== DAY) found.push(day);
  return found;
}

const number = (least: number, most: number) => fc.integer({ min: least, max: most });
function field(least: number, most: number, fixed: boolean | undefined): fc.Arbitrary<Field> {
  const list = fc
    .uniqueArray(number(least, most), { minLength: 1, maxLength: 4 })
    .map((values): Field => ({ text: values.join(","), isFixed: true, has: (value) => values.includes(value) }));
  const range = fc.tuple(number(least, most), number(least, most), number(1, 7)).map(([a, b, step]): Field => {
    const [from, to] = a < b ? [a, b] : [b, a];
    return {
      text: step === 1 ? `${from}-${to}` : `${from}-${to}/${step}`,
      isFixed: false,
      has: (value) => value >= from && value <= to && (value - from) % step === 0,
    };
  });
  const steps = number(2, 12).map((step): Field => ({ text: `*/${step}`, isFixed: false, has: (value) => (value - least) % step === 0 }));
  const star = fc.constant<Field>({ text: "*", isFixed: false, has: () => true });
  const mixed = fc
    .tuple(number(least, most), range)
    .map(([one, some]): Field => ({ text: `${one},${some.text}`, isFixed: false, has: (value) => value === one || some.has(value) }));
  return fixed === true ? list : fc.oneof(list, range, steps, star, mixed);
}
const lastOf = (day: Date) => new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1, 0)).getUTCDate();
const days: fc.Arbitrary<DayField> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<DayField>({ text: "*", has: () => true }) },
  fc.uniqueArray(number(1, 31), { minLength: 1, maxLength: 12 }).map((values) => ({
    text: values.join(","),
    has: (day: Date) => values.includes(day.getUTCDate()),
  })),
  fc.constant<DayField>({ text: "L", has: (day) => day.getUTCDate() === lastOf(day) }),
  number(1, 28).map((one) => ({
    text: `${one}W`,
    has: (day: Date) => {
      const named = new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), one));
      const shift = named.getUTCDay() === 6 ? (one === 1 ? 2 : -1) : named.getUTCDay() === 0 ? (one === lastOf(day) ? -2 : 1) : 0;
      return day.getUTCDate() === one + shift;
    },
  })),
);
const NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const weekdays: fc.Arbitrary<DayField> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<DayField>({ text: "*", has: () => true }) },
  fc.uniqueArray(number(0, 6), { minLength: 1, maxLength: 3 }).map((values) => ({
    text: values.map((value) => NAMES[value]).join(","),
    has: (day: Date) => values.includes(day.getUTCDay()),
  })),
  fc.tuple(number(0, 6), number(1, 5)).map(([weekday, nth]) => ({
    text: `${weekday}#${nth}`,
    has: (day: Date) => day.getUTCDay() === weekday && Math.ceil(day.getUTCDate() / 7) === nth,
  })),
  number(0, 6).map((weekday) => ({
    text: `${weekday}L`,
    has: (day: Date) => day.getUTCDay() === weekday && day.getUTCDate() > lastOf(day) - 7,
  })),
);
const month = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Field>({ text: "*", isFixed: false, has: () => true }) },
  field(1, 12, undefined),
);
const patternOf = (second: fc.Arbitrary<Field | undefined>, fixed: boolean | undefined): fc.Arbitrary<Pattern> =>
  fc.record({ second, minute: field(0, 59, fixed), hour: field(0, 23, fixed), day: days, month, weekday: weekdays });
/** A place in time: mostly around a change of the offset. */
const place = fc.constantFrom(...ZONES).chain((zone) => {
  const all = changes.get(zone) ?? [];
  const anywhere = number(0, 31 * 365).map((day) => Date.UTC(2009) + day * DAY);
  const instant = all.length === 0 ? anywhere : fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...all) }, anywhere);
  return fc.record({ zone: fc.constant(zone), instant });
});

function compare(pattern: Pattern, zone: string, from: number, to: number): void {
  const text = textOf(pattern);
  const expected = walk(pattern, zone, from, to);
  const ticks = cron(text, zone);
  expect({ text, zone, ticks: listed(ticks, from, to) }).toEqual({ text, zone, ticks: expected });
  expect(ticks.count(from, to)).toBe(expected.length);
}

describe("T4 ticks equal a walk over the zone", () => {
  const runs = Number(process.env["HOLDFAST_TICK_CASES"] ?? 60);
  test("T4 minute by minute", () => {
    fc.assert(
      fc.property(
        fc.boolean().chain((fixed) => patternOf(fc.constant(undefined), fixed)),
        place,
        (pattern, { zone, instant }) => compare(pattern, zone, instant - DAY, instant + 3 * DAY),
      ),
      { numRuns: runs },
    );
  }, 60_000);
  test("T4 second by second", () => {
    fc.assert(
      fc.property(
        fc.boolean().chain((fixed) => patternOf(field(0, 59, fixed), fixed)),
        place,
        (pattern, { zone, instant }) => compare(pattern, zone, instant + 6 * HOUR, instant + 12 * HOUR),
      ),
      { numRuns: Math.ceil(runs / 10) },
    );
  }, 60_000);
  test("T4 a whole year", () => {
    const some = fc.record({
      pattern: patternOf(fc.constant(undefined), undefined),
      zone: fc.constantFrom(...ZONES),
      year: number(2009, 2039),
    });
    fc.assert(
      fc.property(some, ({ pattern, zone, year }) => compare(pattern, zone, Date.UTC(year), Date.UTC(year + 1))),
      { numRuns: Math.ceil(runs / 30) },
    );
  }, 60_000);
  test("T5 counting and walking agree over years", () => {
    fc.assert(
      fc.property(patternOf(fc.constant(undefined), undefined), place, number(1, 3_000), (pattern, { zone, instant }, length) => {
        const ticks = cron(textOf({ ...pattern, minute: { text: "7,45", isFixed: true, has: () => true } }), zone);
        expect(ticks.count(instant, instant + length * DAY)).toBe(listed(ticks, instant, instant + length * DAY).length);
      }),
      { numRuns: runs },
    );
  }, 60_000);
});

describe("T5 what is due", () => {
  const now = Date.parse("2026-06-01T12:00:30Z");
  const pending = { id: "s", tick: now, catchUp: DAY, jitter: 0 };
  test("T5 ticks within catchUp are due in order, older ones are missed", () => {
    const due = dueTicks(cron("0 * * * *"), { ...pending, tick: Date.parse("2026-05-29T00:00Z") }, now);
    expect(due.ticks).toHaveLength(24);
    expect(new Date(due.ticks[0] as number).toISOString()).toBe("2026-05-31T13:00:00.000Z");
    expect(due.missed).toBe(61);
    expect(due.next).toBe(Date.parse("2026-06-01T13:00Z"));
  });
  test("T5 of more than 1,000 the newest are due", () => {
    for (const ticks of [cron("* * * * * *"), ticksOf({ every: 1_000, timezone: "UTC" })]) {
      const due = dueTicks(ticks, { ...pending, tick: now - 90 * DAY }, now);
      expect(due.ticks).toHaveLength(1_000);
      expect(due.ticks.at(-1)).toBe(now);
      expect(due.missed).toBe((90 * DAY) / 1_000 + 1 - 1_000);
      expect(due.next).toBe(now + 1_000);
    }
  });
  test("T5 nothing is due before its time", () => {
    expect(dueTicks(cron("* * * * *"), { ...pending, tick: now + 30_000 }, now)).toEqual({ ticks: [], missed: 0, next: now + 30_000 });
  });
  test("T5 a short catchUp keeps what is a second late", () => {
    const tick = Date.parse("2026-06-01T12:00:00Z");
    expect(dueTicks(cron("* * * * *"), { ...pending, tick, catchUp: 0 }, tick + 900).ticks).toEqual([tick]);
    expect(dueTicks(cron("* * * * *"), { ...pending, tick, catchUp: 0 }, tick + 1_001)).toEqual({
      ticks: [],
      missed: 1,
      next: tick + 60_000,
    });
  });
  test("T5 T8 every tick is started or missed once, whenever the schedule is looked at", () => {
    const looks = fc.array(number(1, 4 * 3_600), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(
        looks,
        number(0, 7_200),
        number(0, 10_000),
        fc.constantFrom("* * * * *", "*/7 */2 * * *"),
        (gaps, jitter, catchUp, text) => {
          const ticks = cron(text);
          const start = Date.parse("2026-06-01T00:00Z");
          let tick = ticks.after(start) as number;
          const first = tick;
          let time = start;
          let settled = 0;
          for (const gap of gaps) {
            time += gap * 1_000;
            const due = dueTicks(ticks, { id: "s", tick, catchUp: catchUp * 1_000, jitter: jitter * 1_000 }, time);
            for (const one of due.ticks) expect(startOf("s", one, jitter * 1_000)).toBeLessThanOrEqual(time);
            settled += due.ticks.length + due.missed;
            tick = due.next as number;
          }
          expect(settled).toBe(ticks.count(first - 1, tick - 1));
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe("T8 jitter", () => {
  test("T8 is under the given length, spread evenly, and depends on schedule and tick only", () => {
    const delays = Array.from({ length: 2_000 }, (_, i) => startOf("report", i * 60_000, 10_000) - i * 60_000);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...delays)).toBeLessThan(10_000);
    const tenths = Array.from({ length: 10 }, (_, i) => delays.filter((delay) => Math.floor(delay / 1_000) === i).length);
    for (const count of tenths) expect(count).toBeGreaterThan(140);
    expect(startOf("report", 60_000, 10_000)).toBe(startOf("report", 60_000, 10_000));
    const spread = new Set(Array.from({ length: 200 }, (_, i) => startOf(`tenant-${i}`, 60_000, 10_000)));
    expect(spread.size).toBeGreaterThan(180);
  });
});

describe("T9 refused", () => {
  test.each([
    ["", "needs 5 fields"],
    ["* * * *", "needs 5 fields"],
    ["* * * * * * 2027", "needs 5 fields"],
    ["60 * * * *", "minute"],
    ["* 24 * * *", "hour"],
    ["5* * * * *", "minute"],
    ["* * 0 * *", "0 is not valid for the day of the month"],
    ["* * * 13 *", "13 is not valid for the month"],
    ["* * * foo *", "month"],
    ["* * * * 8", "8 is not valid for the day of the week"],
    ["*/0 * * * *", "0"],
    ["30-10 * * * *", "30-10"],
    ["2026-01-01T00:00:00", "needs 5 fields"],
    ["* * * * +1", "day of the week"],
    ["@reboot", "needs 5 fields"],
    ["0 0 31 2 *", "never comes"],
    ["0 0 30 2 *", "never comes"],
    ["0 0 31 4,6,9,11 *", "never comes"],
  ])("T9 the pattern %j", (pattern, message) => {
    expect(() => firstTick({ cron: pattern, timezone: "UTC" }, 0)).toThrow(
      expect.objectContaining({ name: "InvalidInputError", message: expect.stringContaining(message) }),
    );
  });
  test("T9 an interval that only the gap of its zone has never comes", () => {
    expect(() => firstTick({ cron: "0-30 2 * 3 SUNL", timezone: "Europe/Berlin" }, Date.UTC(2026))).toThrow("never comes");
    expect(firstTick({ cron: "0,30 2 * 3 SUNL", timezone: "Europe/Berlin" }, Date.UTC(2026))).toBe(Date.parse("2026-03-29T01:00Z"));
  });
  test.each([
    ["Europe/Berlim", "Europe/Berlin"],
    ["Berlin", "Europe/Berlin"],
    ["America/New York", "America/New_York"],
    ["US/Tokyo", "Asia/Tokyo"],
    ["UCT+1", "UTC"],
    ["+01:00", "UTC"],
  ])("T9 the zone %s: %s is named", (timezone, near) => {
    expect(() => firstTick({ cron: "* * * * *", timezone }, 0)).toThrow(
      expect.objectContaining({ name: "InvalidInputError", message: expect.stringContaining(near) }),
    );
  });
});
