// Draws a layout on a canvas.
// Owns: levels of detail, labels, and everything else in the lanes that depends on zoom. It measures nothing and keeps nothing.
// Invariants: work follows the size of the screen: only lanes and rectangles in view are visited, and rectangles that are narrower than a
// pixel are merged, the most severe status on top; no label covers another.

import { colourOf, severityOf, type Theme } from "../base/statuses.ts";
import type { Axis } from "./axis.ts";
import { LABEL, type Lane, type Layout, LEAST_WIDTH, type Rect } from "./layout.ts";
import { paintRuler } from "./ruler.ts";
import { fitted, gutterOf, PALETTES, type Palette, placeOf, RULER, type Viewport } from "./screen.ts";

export interface Look {
  readonly theme: Theme;
  readonly selected: number | undefined;
  readonly turnTime: number | undefined;
}
const FONT = '11px ui-sans-serif, system-ui, -apple-system, "Segoe UI", sans-serif';

export function paint(context: CanvasRenderingContext2D, layout: Layout, view: Viewport, look: Look): void {
  const palette = PALETTES[look.theme];
  const gutter = gutterOf(view.width);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = palette.background;
  context.fillRect(0, 0, view.width, view.height);

  context.save();
  context.beginPath();
  context.rect(0, RULER, view.width, view.height - RULER);
  context.clip();
  const seen = layout.lanes.filter((lane) => isSeen(lane, view));
  for (const [i, lane] of seen.entries()) paintStripe(context, lane, view, palette, i);
  context.save();
  context.beginPath();
  context.rect(gutter, RULER, view.width - gutter, view.height - RULER);
  context.clip();
  paintFolds(context, layout.axis, view, palette);
  for (const lane of seen) new LanePainter(context, view, look, palette).paint(lane);
  paintMarks(context, layout, view, look, palette);
  context.restore();
  for (const lane of seen) paintName(context, lane, view, palette, gutter);
  context.restore();
  paintRuler(context, layout.axis, view, palette, gutter);
}

const topOf = ({ y }: { readonly y: number }, { scrollY }: Viewport): number => RULER + y - scrollY;
function isSeen(lane: Lane, view: Viewport): boolean {
  const top = topOf(lane, view);
  return top < view.height && top + lane.height > RULER;
}

function paintStripe(context: CanvasRenderingContext2D, lane: Lane, view: Viewport, palette: Palette, i: number): void {
  const top = topOf(lane, view);
  if (i % 2 === 1) {
    context.fillStyle = palette.stripe;
    context.fillRect(0, top, view.width, lane.height);
  }
  context.fillStyle = palette.line;
  context.fillRect(0, Math.round(top + lane.height) - 1, view.width, 1);
}

function paintName(context: CanvasRenderingContext2D, lane: Lane, view: Viewport, palette: Palette, gutter: number): void {
  const top = topOf(lane, view);
  const left = 8 + Math.min(lane.depth, 4) * 8;
  context.fillStyle = lane.depth === 0 ? palette.text : palette.muted;
  context.fillText(fitted(context, lane.label, gutter - left - 6), left, top + Math.min(lane.height / 2, 18));
}

// ── rectangles ──

/** A run of rectangles too narrow to be drawn one by one. */
interface Merged {
  from: number;
  to: number;
  y: number;
  height: number;
  status: string;
}

class LanePainter {
  readonly #context: CanvasRenderingContext2D;
  readonly #view: Viewport;
  readonly #look: Look;
  readonly #palette: Palette;
  /** Where the last label of each line of labels ends. */
  readonly #labelEnds = new Map<number, number>();
  #merged: Merged | undefined;

  constructor(context: CanvasRenderingContext2D, view: Viewport, look: Look, palette: Palette) {
    this.#context = context;
    this.#view = view;
    this.#look = look;
    this.#palette = palette;
  }

  paint({ rects, reach }: Lane): void {
    const { scale, scrollX, width } = this.#view;
    const left = (scrollX - 8) / scale;
    const right = (scrollX + width) / scale;
    for (let i = firstReaching(reach, left); i < rects.length; i++) {
      const rect = rects[i];
      if (rect === undefined || rect.x > right) break;
      if (rect.x + rect.width >= left) this.#rect(rect);
    }
    this.#flush();
  }

  #rect(rect: Rect): void {
    // Whole pixels: an edge between two would mix their colours.
    const x = Math.round(placeOf(rect.x, this.#view));
    const exact = rect.width * this.#view.scale;
    const y = topOf(rect, this.#view);
    // The time between attempts is not to be seen where attempts are merged.
    if ((rect.shape === "queued" || rect.shape === "backoff") && exact < 2) return;
    if (
      (rect.shape === "bar" || rect.shape === "density" || rect.shape === "wait" || rect.shape === "mark") &&
      exact < 1.5 &&
      this.#isCrowded(x, y)
    ) {
      this.#merge(x, y, rect);
      return;
    }
    const isNarrow = exact < 1.5 && (rect.shape === "bar" || rect.shape === "density");
    this.#flush();
    const width = Math.max(Math.round(exact), LEAST_WIDTH[rect.shape]);
    if (isNarrow) {
      this.#merged = { from: x, to: x + width, y, height: rect.height, status: rect.status };
      this.#label(rect, x, width);
      return;
    }
    this.#shape(rect, x, y, width);
    this.#label(rect, x, width);
  }

  /** Whether the rectangle would touch the one before it. */
  #isCrowded(x: number, y: number): boolean {
    return this.#merged !== undefined && this.#merged.y === y && x <= this.#merged.to;
  }
  #merge(x: number, y: number, rect: Rect): void {
    const merged = this.#merged;
    if (merged === undefined) return;
    merged.to = Math.max(merged.to, x + 1);
    if (severityOf(rect.status) > severityOf(merged.status)) {
      // What is more severe begins a run of its own, which is drawn over the one before.
      this.#flush();
      this.#merged = { from: x, to: x + LEAST_WIDTH.bar, y, height: rect.height, status: rect.status };
    } else if (severityOf(rect.status) < severityOf(merged.status) && x >= merged.from + LEAST_WIDTH.bar) {
      this.#flush();
      this.#merged = { from: x, to: x + 1, y, height: rect.height, status: rect.status };
    }
  }
  #flush(): void {
    const merged = this.#merged;
    if (merged === undefined) return;
    this.#merged = undefined;
    this.#context.fillStyle = colourOf(merged.status, this.#look.theme);
    this.#context.fillRect(merged.from, merged.y, Math.max(1, merged.to - merged.from), merged.height);
  }

  #shape(rect: Rect, x: number, y: number, width: number): void {
    const context = this.#context;
    const colour = colourOf(rect.status, this.#look.theme);
    switch (rect.shape) {
      case "bar":
      case "wait":
      case "density":
      case "mark":
        context.fillStyle = colour;
        // A gap, so that two that follow one another are two.
        context.fillRect(x, y, width > 4 ? width - 1 : width, rect.height);
        return;
      case "scope":
        context.fillStyle = colour;
        context.fillRect(x, y, width, rect.height);
        context.fillRect(x, y, 1, rect.height + 3);
        context.fillRect(x + width - 1, y, 1, rect.height + 3);
        return;
      case "queued":
        context.globalAlpha = 0.25;
        context.fillStyle = this.#palette.muted;
        context.fillRect(x, y + 3, width, rect.height - 6);
        context.globalAlpha = 1;
        return;
      case "backoff": {
        context.fillStyle = this.#palette.muted;
        const step = 5;
        const from = Math.max(x + 2, 0);
        const to = Math.min(x + width - 1, this.#view.width);
        for (let dot = from; dot < to; dot += step) context.fillRect(dot, y + rect.height / 2 - 1, 2, 2);
        return;
      }
      case "worker":
        context.fillStyle = workerColour(rect.label, this.#palette);
        context.fillRect(x, y, width, rect.height);
        if (width > 30) {
          context.fillStyle = this.#palette.text;
          const left = Math.max(x, gutterOf(this.#view.width));
          context.fillText(fitted(context, rect.label, x + width - left - 8), left + 4, y + rect.height / 2);
        }
        return;
      case "message": {
        // At the beginning its left half would be under the names of the lanes.
        const middle = this.#view.scrollX === 0 ? Math.max(x, gutterOf(this.#view.width) + 4) : x;
        context.fillStyle = colour;
        context.beginPath();
        context.moveTo(middle - 4, y);
        context.lineTo(middle + 4, y);
        context.lineTo(middle, y + rect.height);
        context.fill();
      }
    }
  }

  #label({ label, line, shape }: Rect, x: number, width: number): void {
    if (label === "" || shape === "worker" || x > this.#view.width) return;
    const gutter = gutterOf(this.#view.width) + 2;
    const text = label.length > 60 ? `${label.slice(0, 59)}…` : label;
    const end = this.#labelEnds.get(line) ?? Number.NEGATIVE_INFINITY;
    if (end > Math.max(x + width, gutter)) return; // Before the text is measured: this is the case of most bars of a long run.
    const room = this.#context.measureText(text).width;
    // A long bar that begins outside of the view keeps its name in view, and so does one at the right edge. Behind the name of another bar
    // there is room for the name only as long as it is over its own.
    const begin = Math.max(Math.min(Math.max(x, Math.min(gutter, x + width - 40)), this.#view.width - room - 4), gutter);
    const left = Math.max(begin, end);
    if (left > begin && (left + Math.min(room, 24) > x + width || left + room > this.#view.width)) return;
    this.#context.fillStyle = this.#palette.text;
    this.#context.fillText(text, left, topOf({ y: line }, this.#view) + LABEL / 2);
    this.#labelEnds.set(line, left + room + 6);
  }
}

function firstReaching(reach: Float64Array, left: number): number {
  let low = 0;
  let high = reach.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((reach[middle] ?? 0) < left) low = middle + 1;
    else high = middle;
  }
  return low;
}

function workerColour(id: string, { workers }: Palette): string {
  let hash = 0;
  for (let i = 0; i < id.length; i++) hash = (hash * 31 + id.charCodeAt(i)) >>> 0;
  return workers[hash % workers.length] ?? "#888888";
}

// ── marks over all lanes ──

function paintFolds(context: CanvasRenderingContext2D, axis: Axis, view: Viewport, palette: Palette): void {
  for (const { x, width } of axis.folds) {
    const middle = placeOf(x + width / 2, view);
    if (middle < 0 || middle > view.width || width * view.scale < 6) continue;
    context.fillStyle = palette.line;
    context.fillRect(Math.round(middle) - 3, RULER, 2, view.height);
    context.fillRect(Math.round(middle) + 2, RULER, 2, view.height);
  }
}

function paintMarks(context: CanvasRenderingContext2D, layout: Layout, view: Viewport, look: Look, palette: Palette): void {
  const frame = look.selected === undefined ? undefined : frameOf(layout, look.selected);
  if (frame !== undefined) {
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    const x = placeOf(frame.x, view);
    context.strokeRect(x - 2.5, topOf(frame, view) - 2.5, Math.max(3, frame.width * view.scale) + 5, frame.height + 5);
  }
  if (look.turnTime !== undefined) {
    context.fillStyle = palette.accent;
    context.fillRect(Math.round(placeOf(layout.axis.toX(look.turnTime), view)), RULER, 1, view.height);
  }
}

/** Around everything of one operation: its attempts and the time between them. */
function frameOf({ lanes, bars }: Layout, seq: number): Pick<Rect, "x" | "y" | "width" | "height"> | undefined {
  const bar = bars.get(seq);
  const lane = bar === undefined ? undefined : lanes.find(({ y, height }) => bar.y >= y && bar.y < y + height);
  if (bar === undefined || lane === undefined) return undefined;
  let [from, to] = [bar.x, bar.x + bar.width];
  for (const { operation, x, width } of lane.rects) {
    if (operation !== bar.operation) continue;
    from = Math.min(from, x);
    to = Math.max(to, x + width);
  }
  return { x: from, width: to - from, y: bar.y, height: bar.height };
}
