// Time zones: the offset of a zone from UTC at any instant, and when it changes.
// Owns: the offsets, read from Intl once a zone and year; the advice for an unknown zone.
// Invariants: T3 (IANA names), T4 (a change of the offset is found to the second), T9 (an unknown zone is refused, and the nearest is named).
//
// Wall times are milliseconds too: those that a clock in UTC would have when it shows the same date and time.

import { editDistance, InvalidInputError } from "@holdfast/core";

const DAY = 86_400_000;

/** A stretch of time with one offset. It ends where the offset changes, or with the year. */
export interface Stretch {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  /** Local time minus UTC. */
  readonly offset: number;
}

const zones = new Map<string, Zone>();

export class Zone {
  readonly #format: Intl.DateTimeFormat;
  readonly #years = new Map<number, readonly Stretch[]>();

  private constructor(name: string) {
    this.#format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  }
  /** Throws InvalidInputError for a zone that this runtime does not know. */
  static of(name: string): Zone {
    const known = zones.get(name);
    if (known !== undefined) return known;
    const zone = open(name, () => new Zone(name));
    zones.set(name, zone);
    return zone;
  }

  /** The stretch that contains this instant. */
  at(instant: number): Stretch {
    const year = new Date(instant).getUTCFullYear();
    const stretches = this.#stretchesOf(year);
    return stretches.find(({ to }) => instant < to) ?? (stretches.at(-1) as Stretch);
  }
  /** T4: the instant at which a clock of this zone first shows this time; for a time that it skips, the first instant after the gap. */
  firstAt(wall: number): number {
    // No offset is larger than a day: this stretch begins before the clock shows the time.
    for (let stretch = this.at(wall - DAY); ; stretch = this.at(stretch.to)) {
      const instant = wall - stretch.offset;
      if (instant < stretch.from) return stretch.from;
      if (instant < stretch.to) return instant;
    }
  }

  #stretchesOf(year: number): readonly Stretch[] {
    let stretches = this.#years.get(year);
    if (stretches === undefined) {
      stretches = this.#readYear(Date.UTC(year), Date.UTC(year + 1));
      this.#years.set(year, stretches);
    }
    return stretches;
  }
  /** Looks at each day: no zone has changed its offset and back within one. */
  #readYear(start: number, end: number): Stretch[] {
    const stretches: Stretch[] = [];
    let from = start;
    let offset = this.#offsetAt(start);
    for (let day = start; day < end; day += DAY) {
      const next = Math.min(day + DAY, end - 1_000);
      const changed = this.#offsetAt(next);
      if (changed === offset) continue;
      const change = this.#changeBetween(day, next, offset);
      stretches.push({ from, to: change, offset });
      from = change;
      offset = changed;
    }
    return [...stretches, { from, to: end, offset }];
  }
  /** The first whole second after `before` with another offset than this. */
  #changeBetween(before: number, after: number, offset: number): number {
    let low = before;
    let high = after;
    while (high - low > 1_000) {
      const middle = low + Math.floor((high - low) / 2_000) * 1_000;
      if (this.#offsetAt(middle) === offset) low = middle;
      else high = middle;
    }
    return high;
  }
  #offsetAt(instant: number): number {
    const [month, day, year, hour, minute, second] = (this.#format.format(instant).match(/\d+/g) ?? []).map(Number) as number[];
    if (year === undefined || month === undefined) throw new RangeError(`${instant} has no local time.`);
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instant / 1_000) * 1_000;
  }
}

function open(name: unknown, make: () => Zone): Zone {
  try {
    // Some runtimes take "+01:00" and undefined (the zone of the machine), too.
    if (typeof name === "string" && /^[A-Za-z]/.test(name)) return make();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  const near = typeof name === "string" ? nearest(name) : undefined;
  const message = `must be an IANA time zone such as "Europe/Berlin"${near === undefined ? "" : `; did you mean "${near}"?`}`;
  throw new InvalidInputError({ what: "schedule", issues: [{ path: ["timezone"], message }] });
}

/** The known zone with the most similar name; a city alone is enough ("Berlin"). */
function nearest(name: string): string {
  const asked = name.slice(0, 64).toLowerCase().replaceAll(" ", "_");
  let best = { zone: "UTC", distance: editDistance(asked, "utc") };
  for (const zone of Intl.supportedValuesOf("timeZone")) {
    const known = zone.toLowerCase();
    // A similar city is a better hint than a similar name as a whole.
    const city = known.slice(known.lastIndexOf("/") + 1);
    const distance = Math.min(editDistance(asked, known), editDistance(asked.slice(asked.lastIndexOf("/") + 1), city) + 0.5);
    if (distance < best.distance) best = { zone, distance };
  }
  return best.zone;
}
