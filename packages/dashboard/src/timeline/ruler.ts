// The ruler above the lanes: times, and how long the folded pauses are.
// Owns: where its marks are, and their texts.
// Invariants: no text covers another or is cut at the edge, and no two neighbours are the same.

import { clock, duration } from "../base/times.ts";
import type { Axis } from "./axis.ts";
import { fitted, type Palette, placeOf, RULER, type Viewport } from "./screen.ts";

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat(
  [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000].map(
    (s) => s * 1_000,
  ),
);
const HOUR = 3_600_000;
const GAP = 4;
/** Nearer to the edge than this no text has room. */
const LEAST_ROOM = 20;

export function paintRuler(context: CanvasRenderingContext2D, axis: Axis, view: Viewport, palette: Palette, gutter: number): void {
  context.fillStyle = palette.background;
  context.fillRect(0, 0, view.width, RULER);
  context.fillStyle = palette.line;
  context.fillRect(0, RULER - 1, view.width, 1);
  context.fillRect(gutter - 1, 0, 1, view.height);
  context.save();
  context.beginPath();
  context.rect(gutter, 0, view.width - gutter, RULER);
  context.clip();
  context.fillStyle = palette.muted;
  const widthOf = (text: string): number => context.measureText(text).width;
  const folds = foldTexts(axis, view, gutter, widthOf);
  for (const { x, text } of folds) context.fillText(text, x, RULER / 2 - 1);
  let end = gutter;
  let before = "";
  const ticks = ticksOf(axis, view, gutter);
  for (const [i, { x, ms }] of ticks.entries()) {
    context.fillRect(Math.round(x), RULER - 6, 1, 5);
    const next = ticks[i + 1];
    const after = next === undefined || next.x > view.width - LEAST_ROOM ? Number.POSITIVE_INFINITY : next.ms - ms;
    const gap = Math.min(ms - (ticks[i - 1]?.ms ?? Number.NEGATIVE_INFINITY), after);
    const text = tickText(ms, gap);
    const left = x + 3;
    const right = left + widthOf(text);
    const isFree = left >= end && right <= view.width && folds.every((fold) => right + GAP < fold.x || left > fold.x + fold.width + GAP);
    if (text === before || !isFree) continue;
    context.fillText(text, left, RULER / 2 - 1);
    end = right + GAP;
    before = text;
  }
  context.restore();
  context.fillStyle = palette.muted;
  context.fillText(fitted(context, clock(axis.start).slice(11, 19), gutter - 12), 8, RULER / 2 - 1);
}

/** The durations of folded pauses, in the middle of those that have room for it. */
function foldTexts(
  axis: Axis,
  view: Viewport,
  gutter: number,
  widthOf: (text: string) => number,
): { readonly x: number; readonly width: number; readonly text: string }[] {
  return axis.folds.flatMap(({ x, width, ms }) => {
    const text = duration(ms);
    const needed = widthOf(text);
    const left = placeOf(x + width / 2, view) - needed / 2;
    return width * view.scale < needed + GAP || left < gutter || left + needed > view.width ? [] : [{ x: left, width: needed, text }];
  });
}

/** Since the start; with as many digits as it takes to tell it from its neighbours, which are `gap` milliseconds away. */
function tickText(ms: number, gap: number): string {
  if (ms === 0) return "0";
  const shown = ms < 1_000 ? 1 : ms < 10_000 ? 100 : 1_000;
  if (gap >= shown || ms >= HOUR) return `+${duration(ms)}`;
  return `+${(ms / 1_000).toFixed(gap >= 100 ? 1 : gap >= 10 ? 2 : 3)}s`;
}

function ticksOf(axis: Axis, view: Viewport, gutter: number): { readonly x: number; readonly ms: number }[] {
  const ticks: { x: number; ms: number }[] = [];
  if (axis.name === "wall") {
    const perPixel = (axis.end - axis.start) / (axis.width * view.scale);
    const step = STEPS.find((one) => one / perPixel > 80) ?? 2_592_000_000;
    const first = Math.max(0, Math.floor((view.scrollX * perPixel) / step));
    for (let i = first; ; i++) {
      const x = placeOf(axis.toX(axis.start + i * step), view);
      if (x > view.width || axis.start + i * step > axis.end || ticks.length > 200) break;
      ticks.push({ x, ms: i * step });
    }
    return ticks;
  }
  const step = 96;
  const phase = step - (view.scrollX % step);
  for (let x = gutter + (view.scrollX === 0 ? 0 : phase); x < view.width; x += step) {
    const place = (x - gutter + view.scrollX) / view.scale;
    if (place > axis.width) break;
    ticks.push({ x, ms: place === 0 ? 0 : axis.toTime(place) - axis.start });
  }
  return ticks;
}
