// Where everything of a timeline is: rectangles with statuses, in lanes.
// Owns: their geometry, before zoom and scrolling. Pure: painting is in paint.ts.
// Invariants: rectangles of a lane are sorted by x; the middle of the rectangle in `bars` has the colour of its status and nothing over it.

import { type Axis, type AxisName, axisOf } from "./axis.ts";
import { type LaneGroup, lanesOf } from "./lanes.ts";
import { endOf, isScope, type Operation, type Timeline, titleOf } from "./model.ts";
import { loopName, type Row, type Tree } from "./tree.ts";

export type Shape = "bar" | "wait" | "mark" | "queued" | "backoff" | "scope" | "density" | "worker" | "message";
export interface Rect {
  readonly x: number;
  readonly width: number;
  /** From the top of the first lane. */
  readonly y: number;
  readonly height: number;
  readonly shape: Shape;
  readonly status: string;
  /** Of the rectangles that belong to one. */
  readonly operation: Operation | undefined;
  /** Drawn above the rectangle, or in it (workers). */
  readonly label: string;
  /** The top of the line that its label is in. Labels of one line must not cover one another. */
  readonly line: number;
}
export interface Lane {
  readonly key: string;
  readonly label: string;
  readonly depth: number;
  readonly y: number;
  readonly height: number;
  readonly rects: readonly Rect[];
  /** For each rectangle: how far it and those before it reach. To find the first one that is to be seen. */
  readonly reach: Float64Array;
}
export interface Layout {
  readonly axis: Axis;
  readonly lanes: readonly Lane[];
  readonly height: number;
  /** The rectangle of each operation, by number: of one with attempts, that of the last. */
  readonly bars: ReadonlyMap<number, Rect>;
}
export interface LayoutOptions {
  readonly axis: AxisName;
  readonly width: number;
  readonly now: number;
  readonly tree: Tree;
  /** Keys of rows whose operations are drawn small, in the bar of the scope. */
  readonly folded: ReadonlySet<string>;
}

/** The height of a line of labels. */
export const LABEL = 13;
const BAR = 12;
const SUBLANE = LABEL + BAR + 4;
const WAIT = 6;
const SCOPE_LANE = 20;
const SMALL_LANE = 24;
const MOST_SUBLANES = 12;
const LEAST_ROOM = 6;

export function layout(timeline: Timeline, options: LayoutOptions): Layout {
  return new Layouter(timeline, options).layout();
}

class Layouter {
  readonly #timeline: Timeline;
  readonly #options: LayoutOptions;
  readonly #axis: Axis;
  readonly #lanes: Lane[] = [];
  readonly #bars = new Map<number, Rect>();
  /** By number of a folded scope: the operations that are drawn in its bar. */
  readonly #inside = new Map<number, Operation[]>();
  #y = 0;

  constructor(timeline: Timeline, options: LayoutOptions) {
    this.#timeline = timeline;
    this.#options = options;
    this.#axis = axisOf(timeline, options.axis, options.width, options.now);
  }

  layout(): Layout {
    this.#addLane("worker", "worker", 0, SMALL_LANE, this.#workers(this.#y));
    if (this.#timeline.messages.length > 0) this.#addLane("inbox", "inbox", 0, SUBLANE, this.#messages(this.#y));
    const { root, others } = lanesOf(this.#timeline);
    const hidden = this.#hidden();
    for (const group of [root, ...others]) this.#addGroup(group, hidden);
    return { axis: this.#axis, lanes: this.#lanes, height: this.#y, bars: this.#bars };
  }

  #addLane(key: string, label: string, depth: number, height: number, rects: Rect[]): void {
    rects.sort((a, b) => a.x - b.x);
    const reach = new Float64Array(rects.length);
    let far = Number.NEGATIVE_INFINITY;
    for (const [i, { x, width }] of rects.entries()) {
      far = Math.max(far, x + width);
      reach[i] = far;
    }
    this.#lanes.push({ key, label, depth, y: this.#y, height, rects, reach });
    this.#y += height;
  }

  // ── what is not an operation ──

  /** Who had the run: from turn to turn while one worker commits them, and while it runs attempts. */
  #workers(y: number): Rect[] {
    const spans: { worker: string; from: number; to: number }[] = [];
    const { turns, operations } = this.#timeline;
    for (const [i, { workerId, time }] of turns.entries()) {
      if (workerId === undefined) continue;
      const next = turns[i + 1];
      const isShort = next !== undefined && next.workerId === workerId && next.time - time < 10_000;
      spans.push({ worker: workerId, from: time, to: isShort ? next.time : time });
    }
    for (const { attempts } of operations) {
      for (const { workerId, startedAt, endedAt } of attempts) {
        if (workerId) spans.push({ worker: workerId, from: startedAt, to: endedAt ?? this.#options.now });
      }
    }
    spans.sort((a, b) => a.from - b.from);
    const merged: typeof spans = [];
    for (const span of spans) {
      const last = merged.at(-1);
      if (last !== undefined && last.worker === span.worker && span.from <= last.to + 1_000) last.to = Math.max(last.to, span.to);
      else merged.push({ ...span });
    }
    return merged.map(({ worker, from, to }) =>
      this.#rect(this.#axis.toX(from), this.#axis.toX(to), y + 5, SMALL_LANE - 8, {
        shape: "worker",
        status: "running",
        label: worker,
        line: y,
      }),
    );
  }

  #messages(y: number): Rect[] {
    const times = new Map(this.#timeline.turns.map(({ index, time }) => [index, time]));
    return this.#timeline.messages.map(({ kind, name, arrivedTurn, takenTurn }) => {
      const x = this.#axis.turnX(arrivedTurn, times.get(arrivedTurn) ?? this.#axis.start);
      const status = takenTurn === null ? "waiting" : "completed";
      return this.#rect(x, x, y + LABEL, BAR, { shape: "message", status, label: name ?? kind, line: y });
    });
  }

  // ── operations ──

  /** Operations under a folded row, which are drawn in the bar of its scope. */
  #hidden(): ReadonlySet<Operation> {
    const { tree, folded } = this.#options;
    const hidden = new Set<Operation>();
    if (folded.size === 0) return hidden;
    const visit = (row: Row, scope: Row | undefined): void => {
      const { operation } = row;
      if (operation !== undefined && scope?.operation !== undefined) {
        hidden.add(operation);
        const list = this.#inside.get(scope.operation.seq);
        if (list === undefined) this.#inside.set(scope.operation.seq, [operation]);
        else list.push(operation);
      }
      const inner = scope ?? (folded.has(row.key) && operation !== undefined ? row : undefined);
      for (const child of row.children) visit(child, inner);
    };
    for (const root of tree.roots) visit(root, undefined);
    return hidden;
  }

  #addGroup(group: LaneGroup, hidden: ReadonlySet<Operation>): void {
    const shown = group.operations.filter((operation) => !hidden.has(operation));
    if (shown.length > 0) {
      const rects: Rect[] = [];
      const isThin = (operation: Operation): boolean => isScope(operation) && !this.#inside.has(operation.seq);
      const scopes = this.#pack(shown.filter(isThin));
      const others = this.#pack(shown.filter((operation) => !isThin(operation)));
      const top = this.#y + 2;
      for (const { operation, sublane } of scopes.placed) this.#addScope(operation, top + sublane * SCOPE_LANE, rects);
      const below = top + scopes.count * SCOPE_LANE;
      for (const { operation, sublane } of others.placed) this.#addOperation(operation, below + sublane * SUBLANE, rects);
      this.#addLane(`unit:${group.key}`, group.label, group.depth, scopes.count * SCOPE_LANE + others.count * SUBLANE + 4, rects);
    }
    for (const child of group.children) this.#addGroup(child, hidden);
  }

  /** Operations at the same time get places below one another. */
  #pack(operations: readonly Operation[]): { placed: { operation: Operation; sublane: number }[]; count: number } {
    const ends: number[] = [];
    // Bars that are too short to be told apart are below one another too, as long as there is room for all of them.
    const least = operations.length * LEAST_ROOM * 2 <= this.#axis.width ? LEAST_ROOM : 0;
    const placed = operations.map((operation) => {
      const [from, exact] = this.#extent(operation);
      const to = Math.max(exact, from + least);
      let sublane = ends.findIndex((end) => end <= from + 0.01);
      if (sublane < 0) sublane = ends.length < MOST_SUBLANES ? ends.length : ends.indexOf(Math.min(...ends));
      ends[sublane] = Math.max(to, ends[sublane] ?? 0);
      return { operation, sublane };
    });
    return { placed, count: ends.length };
  }

  #extent(operation: Operation): [from: number, to: number] {
    const from = this.#axis.turnX(operation.turn, operation.scheduledAt);
    return [from, Math.max(from, this.#axis.toX(endOf(operation, this.#options.now)))];
  }

  #addScope(operation: Operation, y: number, rects: Rect[]): void {
    const [from, to] = this.#extent(operation);
    this.#keep(
      this.#rect(from, to, y + LABEL, 4, { shape: "scope", status: operation.status, operation, label: titleOf(operation), line: y }),
      rects,
    );
  }

  #addOperation(operation: Operation, y: number, rects: Rect[]): void {
    const inside = this.#inside.get(operation.seq);
    if (inside !== undefined) this.#addFolded(operation, inside, y, rects);
    else if (operation.attempts.length > 0) this.#addAttempts(operation, y, rects);
    else this.#addWait(operation, y, rects);
  }

  #addFolded(operation: Operation, inside: readonly Operation[], y: number, rects: Rect[]): void {
    const [from, to] = this.#extent(operation);
    const row = this.#options.tree.byKey.get(`o:${operation.seq}`);
    const text = row?.loop === undefined ? titleOf(operation) : `${operation.name}: ${loopName(row.loop, operation)}`;
    this.#keep(this.#rect(from, to, y + LABEL, 3, { shape: "scope", status: operation.status, operation, label: text, line: y }), rects);
    for (const one of inside) {
      const [start, end] = this.#extent(one);
      this.#keep(
        this.#rect(start, end, y + LABEL + 3, BAR - 3, { shape: "density", status: one.status, operation: one, label: "", line: y }),
        rects,
      );
    }
  }

  #addAttempts(operation: Operation, y: number, rects: Rect[]): void {
    const { attempts, retryAt } = operation;
    const { now } = this.#options;
    const [opened, closed] = this.#extent(operation);
    const within = (time: number): number => Math.min(Math.max(this.#axis.toX(time), opened), Math.max(closed, opened));
    const top = y + LABEL;
    const part = (from: number, to: number, shape: Shape): Rect =>
      this.#rect(from, to, top, BAR, { shape, status: operation.status, operation, label: "", line: y });
    let before = opened;
    for (const [i, { startedAt, endedAt, status }] of attempts.entries()) {
      const from = within(startedAt);
      const to = within(endedAt ?? now);
      if (from > before) rects.push(part(before, from, i === 0 ? "queued" : "backoff"));
      const label = i === 0 ? operation.name : "";
      const rect = this.#rect(from, to, top, BAR, { shape: "bar", status, operation, label, line: y });
      if (i === attempts.length - 1) this.#keep(rect, rects);
      else rects.push(rect);
      before = to;
    }
    if (operation.endedAt === undefined && attempts.at(-1)?.endedAt !== undefined && retryAt !== undefined) {
      const to = this.#axis.toX(Math.min(retryAt, now));
      if (to > before) rects.push(part(before, to, "backoff"));
    }
  }

  #addWait(operation: Operation, y: number, rects: Rect[]): void {
    const [from, to] = this.#extent(operation);
    const isInstant = operation.endedAt === operation.scheduledAt;
    const shape = isInstant ? "mark" : "wait";
    const height = isInstant ? BAR : WAIT;
    const rect = this.#rect(from, to, y + LABEL + (BAR - height) / 2, height, {
      shape,
      status: operation.status,
      operation,
      label: titleOf(operation),
      line: y,
    });
    this.#keep(rect, rects);
  }

  #keep(rect: Rect, rects: Rect[]): void {
    if (rect.operation !== undefined) this.#bars.set(rect.operation.seq, rect);
    rects.push(rect);
  }
  #rect(
    from: number,
    to: number,
    y: number,
    height: number,
    { shape, status, operation, label, line }: { shape: Shape; status: string; operation?: Operation; label: string; line: number },
  ): Rect {
    return { x: from, width: Math.max(0, to - from), y, height, shape, status, operation, label, line };
  }
}

/** The least width of a rectangle on the screen, so that nothing that happened is invisible. */
export const LEAST_WIDTH: Readonly<Record<Shape, number>> = {
  bar: 3,
  wait: 3,
  mark: 5,
  queued: 0,
  backoff: 0,
  scope: 3,
  density: 1,
  worker: 3,
  message: 5,
};

/** The operation at a place, as far as a finger is wide; of several the nearest, then the narrowest. */
export function operationAt({ lanes }: Layout, x: number, y: number, scale: number): Operation | undefined {
  const lane = lanes.find((one) => y >= one.y && y < one.y + one.height);
  if (lane === undefined) return undefined;
  const slack = 4 / scale;
  let found: { operation: Operation; distance: number; width: number } | undefined;
  for (const rect of lane.rects) {
    if (rect.x > x + slack) break;
    const { operation } = rect;
    if (operation === undefined || y < rect.y - LABEL || y > rect.y + rect.height + 3) continue;
    const width = Math.max(rect.width, LEAST_WIDTH[rect.shape] / scale);
    const distance = Math.max(rect.x - x, x - rect.x - width, 0);
    if (distance > slack) continue;
    if (found === undefined || distance < found.distance || (distance === found.distance && width < found.width)) {
      found = { operation, distance, width };
    }
  }
  return found?.operation;
}
