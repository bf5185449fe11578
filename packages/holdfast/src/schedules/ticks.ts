// Ticks: the instants at which a schedule is due.
// Owns: the walk over a zone, and counting what was missed.
// Invariants: T3 (multiples of `every` since 1970; the next tick is strictly after), T4 (gaps and folds of daylight saving), T5 (the newest
// 1,000 ticks within catchUp), T8 (a delay that depends on nothing but schedule and tick), T9.

import { CronPattern, invalid } from "./cronPattern.ts";
import { Zone } from "./zone.ts";

const DAY = 86_400_000;
/** T9: what does not come within this time never does. Leap days on a given weekday may be 40 years apart. */
const NEVER = 50 * 366 * 86_400_000;
/** T5: how many ticks are caught up at most. */
export const MOST_CAUGHT_UP = 1_000;
/** T2: a tick that starts within a second is in time, however short `catchUp` is. */
const LEAST_CATCH_UP = 1_000;

/** When a schedule ticks: a cron pattern in a zone, or a length of time. */
export interface Timing {
  readonly cron?: string | undefined;
  /** Milliseconds. */
  readonly every?: number | undefined;
  readonly timezone: string;
}
export interface Ticks {
  /** The first tick strictly after this instant. Undefined: none comes within 50 years. */
  after(instant: number): number | undefined;
  /** The number of ticks after the first instant and up to the second. */
  count(after: number, to: number): number;
}

/** Throws InvalidInputError for a pattern or a zone that is not valid. */
export function ticksOf({ cron, every, timezone }: Timing): Ticks {
  const zone = Zone.of(timezone);
  if (cron === undefined) return regularTicks(every as number);
  const pattern = CronPattern.of(cron);
  return pattern.isFixed ? fixedTicks(pattern, zone) : elapsedTicks(pattern, zone);
}
/** T9: as `ticksOf`, and the pattern has to come after this instant. Returns its first tick. */
export function firstTick(timing: Timing, after: number): number {
  const first = ticksOf(timing).after(after);
  if (first === undefined) throw invalid(timing.cron, "never comes: no day and time match it");
  return first;
}

function regularTicks(every: number): Ticks {
  return {
    after: (instant) => (Math.floor(instant / every) + 1) * every,
    count: (after, to) => Math.max(0, Math.floor(to / every) - Math.floor(after / every)),
  };
}

/** T4: times on the wall, each of which happens once a day. */
function fixedTicks(pattern: CronPattern, zone: Zone): Ticks {
  const after = (instant: number): number | undefined => {
    // What the clock shows now, and what it has shown before, is not after it.
    let wall: number | undefined = wallAt(zone, instant);
    while (true) {
      wall = pattern.after(wall);
      if (wall === undefined || wall - instant > NEVER) return undefined;
      const tick = zone.firstAt(wall);
      if (tick > instant) return tick;
    }
  };
  return {
    after,
    count: (from, to) => {
      let count = 0;
      for (const stretch of stretches(zone, from, to)) {
        // Around a change of the offset times are merged or left out: these are walked. No change is larger than a day.
        const calmFrom = Math.max(stretch.from + DAY, from);
        const calmTo = Math.min(stretch.to - DAY, to);
        if (calmTo <= calmFrom) count += walk(after, Math.max(stretch.from - 1, from), Math.min(stretch.to - 1, to));
        else {
          count += walk(after, Math.max(stretch.from - 1, from), calmFrom);
          count += pattern.countBetween(calmFrom + stretch.offset, calmTo + stretch.offset);
          count += walk(after, calmTo, Math.min(stretch.to - 1, to));
        }
      }
      return count;
    },
  };
}

/** T4: every instant at which the clock shows a matching time. */
function elapsedTicks(pattern: CronPattern, zone: Zone): Ticks {
  return {
    after: (instant) => {
      let from = instant;
      for (let stretch = zone.at(instant); stretch.from - instant < NEVER; stretch = zone.at(stretch.to)) {
        const wall = pattern.after(from + stretch.offset);
        if (wall === undefined) return undefined;
        const tick = wall - stretch.offset;
        if (tick < stretch.to) return tick;
        from = stretch.to - 1;
      }
      return undefined;
    },
    count: (from, to) => {
      let count = 0;
      for (const stretch of stretches(zone, from, to))
        count += pattern.countBetween(Math.max(stretch.from - 1, from) + stretch.offset, Math.min(stretch.to - 1, to) + stretch.offset);
      return count;
    },
  };
}

function wallAt(zone: Zone, instant: number): number {
  return instant + zone.at(instant).offset;
}
function* stretches(zone: Zone, from: number, to: number): Generator<ReturnType<Zone["at"]>> {
  for (let stretch = zone.at(from); stretch.from <= to; stretch = zone.at(stretch.to)) yield stretch;
}
function walk(after: Ticks["after"], from: number, to: number): number {
  let count = 0;
  for (let tick = after(from); tick !== undefined && tick <= to; tick = after(tick)) count++;
  return count;
}

// ── what is due ──

export interface Pending {
  readonly id: string;
  /** The next tick that is neither started nor missed. */
  readonly tick: number;
  /** Milliseconds, both. */
  readonly catchUp: number;
  readonly jitter: number;
}
export interface Due {
  /** In order, to be started now. */
  readonly ticks: readonly number[];
  /** How many others are over: they are too late. */
  readonly missed: number;
  /** The first one that is not due yet. */
  readonly next: number | undefined;
}

/** T5: what of a schedule is due at this moment of the store. */
export function dueTicks(ticks: Ticks, pending: Pending, now: number): Due {
  const { id, jitter } = pending;
  // A tick that an open engine starts is never too late.
  const tooLate = now - Math.max(pending.catchUp, LEAST_CATCH_UP);
  // Whatever their delays are, these are too late. Counting is quick, walking is not.
  const sure = Math.max(pending.tick, tooLate - jitter) - 1;
  let missed = pending.tick > sure ? 0 : ticks.count(pending.tick - 1, sure);
  const from = jitter === 0 ? newestOf(ticks, sure, now) : sure;
  missed += from === sure ? 0 : ticks.count(sure, from);
  const due: number[] = [];
  let next = ticks.after(from);
  for (; next !== undefined && startOf(id, next, jitter) <= now; next = ticks.after(next)) {
    if (startOf(id, next, jitter) < tooLate) missed++;
    else due.push(next);
  }
  const extra = Math.max(0, due.length - MOST_CAUGHT_UP);
  return { ticks: due.slice(extra), missed: missed + extra, next };
}
/** An instant after `from`, so that at most 1,000 ticks are between it and `to`. */
function newestOf(ticks: Ticks, from: number, to: number): number {
  if (ticks.count(from, to) <= MOST_CAUGHT_UP) return from;
  let low = from;
  let high = to;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (ticks.count(middle, to) > MOST_CAUGHT_UP) low = middle;
    else high = middle;
  }
  return high;
}

/** T8: when the run of a tick is created. */
export function startOf(id: string, tick: number, jitter: number): number {
  return jitter === 0 ? tick : tick + Math.floor((hash(`${id}@${tick}`) / 2 ** 32) * jitter);
}
/** Spreads texts evenly over 32 bits: FNV-1a, and the last mixing of MurmurHash3. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** T1: the id of the run of a tick. */
export function runIdOf(schedule: string, tick: number): string {
  return `${schedule}@${new Date(tick).toISOString().slice(0, 19)}Z`;
}
