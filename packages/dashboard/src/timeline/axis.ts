// Time as a place on the screen.
// Owns: the three axes: compact (idle time folded), wall (true to time), turns (each turn equally wide). Pure.
// Invariants: positions go from 0 to `width` and never decrease with time; a time has one position, and a position one time.

import type { Timeline } from "./model.ts";

export type AxisName = "compact" | "wall" | "turns";
export const AXES: readonly AxisName[] = ["compact", "wall", "turns"];

export interface Fold {
  readonly x: number;
  readonly width: number;
  readonly ms: number;
}
export interface Axis {
  readonly name: AxisName;
  readonly width: number;
  readonly start: number;
  readonly end: number;
  /** The place of a time. */
  toX(time: number): number;
  /** The place of a turn; on other axes than `turns` that of its time. */
  turnX(turn: number, time: number): number;
  toTime(x: number): number;
  /** Idle time that takes less room than it lasted. */
  readonly folds: readonly Fold[];
}

/** The widest that idle time gets on the compact axis. */
const FOLD_WIDTH = 46;
/** The least width of time in which something happened, if there is room. */
const LEAST_WIDTH = 14;
/** Less than 1: what takes long is drawn longer, but does not push what is short out of sight. */
const POWER = 0.5;
/** Shorter pauses are not marked as folded. */
const FOLD_MS = 1_000;

export function axisOf(timeline: Timeline, name: AxisName, width: number, now: number): Axis {
  const [start, end] = spanOf(timeline, now);
  switch (name) {
    case "wall":
      return piecewise(name, [start, end], [0, width], []);
    case "turns":
      return turnsAxis(timeline, start, end, width);
    case "compact":
      return compactAxis(timeline, start, end, width, now);
  }
}

/** From the first to the last thing that is known; at least a millisecond. */
function spanOf({ turns, operations }: Timeline, now: number): [start: number, end: number] {
  let start = Number.POSITIVE_INFINITY;
  let end = Number.NEGATIVE_INFINITY;
  const take = (time: number): void => {
    if (time < start) start = time;
    if (time > end) end = time;
  };
  for (const { time } of turns) take(time);
  for (const { scheduledAt, endedAt, attempts } of operations) {
    take(scheduledAt);
    take(endedAt ?? now);
    for (const attempt of attempts) take(attempt.startedAt);
  }
  if (!Number.isFinite(start)) return [now, now + 1];
  return [start, Math.max(end, start + 1)];
}

function turnsAxis({ turns }: Timeline, start: number, end: number, width: number): Axis {
  const times = [start];
  const indexes: number[] = [];
  for (const { index, time } of turns) {
    indexes.push(index);
    times.push(Math.max(time, times.at(-1) ?? start));
  }
  times.push(Math.max(end, times.at(-1) ?? end));
  // A slot of equal width after each turn; before the first one there is only as much as its time differs from the start.
  const step = width / Math.max(1, turns.length);
  const places = [0, ...turns.map((_, i) => i * step), width];
  const axis = piecewise("turns", times, places, []);
  return {
    ...axis,
    turnX: (turn, time) => {
      const at = indexOf(indexes, turn);
      return indexes[at] === turn ? at * step : axis.toX(time);
    },
  };
}

function compactAxis(timeline: Timeline, start: number, end: number, width: number, now: number): Axis {
  const times = timesOf(timeline, start, end, now);
  const isActive = activeSegments(timeline, times, now);
  const segments = times.length - 1;
  let active = 0;
  let weight = 0;
  for (let i = 0; i < segments; i++) {
    if (isActive[i] === 0) continue;
    const ms = at(times, i + 1) - at(times, i);
    active += ms;
    weight += ms ** POWER;
  }
  const least = Math.min(LEAST_WIDTH, (width * 0.5) / Math.max(1, segments));
  const widest = Math.min(FOLD_WIDTH, (width * 0.5) / Math.max(1, segments) + least * 2);
  const scale = weight === 0 ? 0 : (width * 0.6) / weight;
  const foldMs = Math.max(FOLD_MS, active * 0.05);
  const widths = new Float64Array(segments);
  let total = 0;
  for (let i = 0; i < segments; i++) {
    const ms = at(times, i + 1) - at(times, i);
    // Idle time grows with its order of magnitude only: a minute and a month both leave room for the rest.
    const idle = Math.min(1, Math.max(0, Math.log10(Math.max(1, ms) / 50) / 4));
    widths[i] = isActive[i] === 1 ? Math.max(least, ms ** POWER * scale) : least * 0.5 + (widest - least * 0.5) * idle;
    total += at(widths, i);
  }
  const places = new Float64Array(times.length);
  const folds: Fold[] = [];
  let x = 0;
  for (let i = 0; i < segments; i++) {
    const w = (at(widths, i) * width) / total;
    const ms = at(times, i + 1) - at(times, i);
    if (isActive[i] === 0 && ms >= foldMs) folds.push({ x, width: w, ms });
    x += w;
    places[i + 1] = x;
  }
  return piecewise("compact", times, places, folds);
}

/** All times at which something happened, in order, each once. */
function timesOf({ turns, operations, units }: Timeline, start: number, end: number, now: number): Float64Array {
  const all: number[] = [start, end];
  for (const { time } of turns) all.push(time);
  for (const { endedAt } of units) if (endedAt !== undefined) all.push(endedAt);
  for (const { scheduledAt, endedAt, attempts } of operations) {
    all.push(scheduledAt, endedAt ?? now);
    for (const attempt of attempts) all.push(attempt.startedAt, attempt.endedAt ?? now);
  }
  const sorted = Float64Array.from(all).sort();
  let kept = 0;
  for (const time of sorted) {
    if (time < start || time > end) continue;
    if (kept === 0 || sorted[kept - 1] !== time) sorted[kept++] = time;
  }
  return sorted.subarray(0, kept);
}

/** 1 for each segment between two times in which an attempt was running. */
function activeSegments({ operations }: Timeline, times: Float64Array, now: number): Uint8Array {
  const changes = new Int32Array(times.length + 1);
  for (const { attempts } of operations) {
    for (const { startedAt, endedAt } of attempts) {
      const [from, to] = [indexOf(times, startedAt), indexOf(times, endedAt ?? now)];
      changes[from] = (changes[from] ?? 0) + 1;
      changes[to] = (changes[to] ?? 0) - 1;
    }
  }
  const active = new Uint8Array(times.length);
  let open = 0;
  for (let i = 0; i < times.length; i++) {
    open += changes[i] ?? 0;
    active[i] = open > 0 ? 1 : 0;
  }
  return active;
}

/** Straight lines between places of known times. */
function piecewise(name: AxisName, times: ArrayLike<number>, places: ArrayLike<number>, folds: readonly Fold[]): Axis {
  const last = times.length - 1;
  const between = (from: ArrayLike<number>, to: ArrayLike<number>, value: number): number => {
    if (value <= at(from, 0)) return at(to, 0);
    if (value >= at(from, last)) return at(to, last);
    const i = indexOf(from, value);
    const [a, b] = [at(from, i), at(from, i + 1)];
    return b === a ? at(to, i) : at(to, i) + ((value - a) / (b - a)) * (at(to, i + 1) - at(to, i));
  };
  const toX = (time: number): number => between(times, places, time);
  return {
    name,
    width: at(places, last),
    start: at(times, 0),
    end: at(times, last),
    folds,
    toX,
    turnX: (_turn, time) => toX(time),
    toTime: (x) => between(places, times, x),
  };
}

function at(list: ArrayLike<number>, i: number): number {
  return list[i] ?? 0;
}
/** The last index whose value is not greater; 0 if there is none. */
export function indexOf(list: ArrayLike<number>, value: number): number {
  let low = 0;
  let high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (at(list, middle) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
