// The course of a run as text: a line for each operation, time from left to right.
// Owns: the scale, on which idle time is folded, and the signs.
// Invariants: ASCII signs only; no line is wider than asked for; operations are in order of emission, indented below their unit.

import { printable } from "./escape.ts";
import { roughly } from "./times.ts";
import { cut, pad, widthOf } from "./width.ts";

/** As the API gives it. */
export interface DrawnTimeline {
  readonly execution: number;
  readonly complete: boolean;
  readonly turns: readonly { readonly index: number; readonly time: string; readonly workerId: string | null }[];
  readonly operations: readonly DrawnOperation[];
  readonly loops: readonly { readonly location: string; readonly iterations: number; readonly failed: number }[];
  readonly messages: readonly { readonly kind: string; readonly name: string | null; readonly arrivedTurn: number }[];
}
interface DrawnOperation {
  readonly location: string;
  readonly unit: string;
  readonly kind: string;
  readonly name: string;
  readonly status: string;
  readonly scheduledAt: string;
  readonly endedAt: string | null;
  readonly attempts: readonly DrawnAttempt[];
}
interface DrawnAttempt {
  readonly status: string;
  readonly startedAt: string;
  readonly endedAt: string | null;
}

/** `#` an attempt, `.` waiting for the next, `-` waiting for something else, `x` a failure, `~` folded time. */
export const LEGEND = "# attempt   . backoff   - waiting   x failed   ! canceled   > still open   ~ idle time, folded   | message";

const LEAST_CHART = 20;
const MOST_LABEL = 34;
const FOLD = 3;

export function drawTimeline(timeline: DrawnTimeline, { width, now }: { readonly width: number; readonly now: number }): string[] {
  const { operations, turns, messages, loops } = timeline;
  const times = operations.flatMap((operation) => pointsOf(operation, now)).concat(turns.map(({ time }) => Date.parse(time)));
  if (times.length === 0) return ["Nothing has happened yet."];
  const labels = operations.map(labelOf);
  const room = Math.min(MOST_LABEL, Math.max(...labels.map(widthOf), "messages".length), Math.max(1, width - LEAST_CHART - 2));
  const scale = new Scale(times, width - room - 2);
  const line = (label: string, chart: string): string => cut(`${pad(cut(label, room), room)}  ${chart}`, width).trimEnd();
  const loopAt = new Map(loops.map((loop) => [loop.location, loop]));
  return [
    line("", scale.axis()),
    line("workers", workersChart(turns, scale)),
    ...(messages.length > 0 ? [line("messages", messagesChart(timeline, scale))] : []),
    ...operations.map((operation, i) => {
      const loop = loopAt.get(operation.location);
      const failed = loop !== undefined && loop.failed > 0 ? `, ${loop.failed} failed` : "";
      const folded = loop === undefined ? "" : ` ${loop.iterations} iterations${failed}`;
      return line(labels[i] ?? "", operationChart(operation, scale, now) + folded);
    }),
    ...(timeline.complete ? [] : ["Only the newest operations are shown."]),
  ];
}

/** Indented by how deep its unit is. */
function labelOf({ unit, kind, name }: DrawnOperation): string {
  const depth = unit === "" ? 0 : unit.split("/").length;
  return `${"  ".repeat(Math.min(depth, 6))}${printable(name === "" ? kind : name)}`;
}

function pointsOf({ scheduledAt, endedAt, attempts }: DrawnOperation, now: number): number[] {
  const end = endedAt === null ? now : Date.parse(endedAt);
  return [
    Date.parse(scheduledAt),
    end,
    ...attempts.flatMap((one) => [Date.parse(one.startedAt), one.endedAt === null ? now : Date.parse(one.endedAt)]),
  ];
}

const SIGNS: Readonly<Record<string, string>> = { failed: "x", canceled: "!", abandoned: "!", lost: "x" };

function operationChart({ status, scheduledAt, endedAt, attempts }: DrawnOperation, scale: Scale, now: number): string {
  const cells = scale.cells();
  const end = endedAt === null ? now : Date.parse(endedAt);
  fill(cells, scale.at(Date.parse(scheduledAt)), scale.at(end), attempts.length > 0 ? "." : "-");
  for (const attempt of attempts) {
    const from = scale.at(Date.parse(attempt.startedAt));
    const to = scale.at(attempt.endedAt === null ? now : Date.parse(attempt.endedAt));
    fill(cells, from, to, "#");
    const sign = SIGNS[attempt.status];
    if (sign !== undefined) cells[to] = sign;
  }
  const sign = endedAt === null ? ">" : SIGNS[status];
  if (sign !== undefined) cells[scale.at(end)] = sign;
  return scale.folded(cells).trimEnd();
}

function messagesChart({ messages, turns }: DrawnTimeline, scale: Scale): string {
  const cells = scale.cells();
  const timeOf = new Map(turns.map(({ index, time }) => [index, time]));
  for (const { arrivedTurn } of messages) {
    const time = timeOf.get(arrivedTurn);
    if (time !== undefined) cells[scale.at(Date.parse(time))] = "|";
  }
  return scale.folded(cells).trimEnd();
}

/** Each worker by a letter, from its first turn to that of the next. */
function workersChart(turns: DrawnTimeline["turns"], scale: Scale): string {
  const cells = scale.cells();
  const letters = new Map<string, string>();
  for (const { time, workerId } of turns) {
    if (workerId === null) continue;
    const letter = letters.get(workerId) ?? String.fromCharCode(97 + (letters.size % 26));
    letters.set(workerId, letter);
    cells[scale.at(Date.parse(time))] = letter;
  }
  const names = [...letters].map(([id, letter]) => `${letter}=${printable(id)}`).join(" ");
  return `${scale.folded(cells).trimEnd()}  ${names}`;
}

function fill(cells: string[], from: number, to: number, sign: string): void {
  for (let i = from; i <= to; i += 1) cells[i] = sign;
}

/** Time → column. Gaps in which nothing happens are folded: a run may sleep for a month between two steps of a second. */
class Scale {
  readonly #points: readonly number[];
  readonly #places: readonly number[];
  readonly #folds: readonly number[];
  readonly #width: number;

  constructor(times: readonly number[], width: number) {
    this.#width = Math.max(1, width);
    const points = [...new Set(times)].toSorted((a, b) => a - b);
    const gaps = points.slice(1).map((point, i) => point - (points[i] ?? point));
    const isFolded = foldedGaps(gaps, this.#width);
    const folds = isFolded.filter(Boolean).length;
    const active = gaps.reduce((sum, gap, i) => sum + (isFolded[i] === true ? 0 : gap), 0);
    const room = Math.max(1, this.#width - 1 - folds * FOLD);
    const places = [0];
    for (const [i, gap] of gaps.entries())
      places.push((places[i] ?? 0) + (isFolded[i] === true ? FOLD : active === 0 ? 0 : (gap / active) * room));
    this.#points = points;
    this.#places = places;
    this.#folds = isFolded.flatMap((is, i) => (is ? [places[i] ?? 0] : []));
  }

  cells(): string[] {
    return new Array<string>(this.#width).fill(" ");
  }

  /** `time` is one of those that it was made from, or between two of them. */
  at(time: number): number {
    const after = this.#points.findIndex((point) => point >= time);
    const i = after < 0 ? this.#points.length - 1 : after;
    return Math.max(0, Math.min(this.#width - 1, Math.round(this.#places[i] ?? 0)));
  }

  /** With the sign of folded time where it was idle. */
  folded(cells: readonly string[]): string {
    const marked = [...cells];
    for (const place of this.#folds) {
      const middle = Math.round(place) + 1;
      if (middle < this.#width - 1 && marked[middle] !== " ") marked[middle] = "~";
    }
    return marked.join("").slice(0, this.#width);
  }

  axis(): string {
    const first = this.#points[0] ?? 0;
    const last = this.#points.at(-1) ?? first;
    const from = new Date(first).toISOString().replace("T", " ").slice(0, 19);
    const length = `+${roughly(last - first)}`;
    const space = this.#width - from.length - length.length;
    return space < 1 ? cut(length, this.#width) : `${from}${" ".repeat(space)}${length}`;
  }
}

/** A gap is idle if it would take more than a quarter of the width, and the rest would suffer. */
function foldedGaps(gaps: readonly number[], width: number): boolean[] {
  const folded = gaps.map(() => false);
  for (let i = 0; i < 50; i += 1) {
    const active = gaps.reduce((sum, gap, j) => sum + (folded[j] === true ? 0 : gap), 0);
    const open = gaps.filter((_, j) => folded[j] !== true).length;
    const longest = gaps.reduce((best, gap, j) => (folded[j] !== true && gap > (gaps[best] ?? -1) ? j : best), folded.indexOf(false));
    if (longest < 0 || open < 3 || (gaps[longest] ?? 0) < active * 0.5 || (folded.filter(Boolean).length + 1) * FOLD > width / 3)
      return folded;
    folded[longest] = true;
  }
  return folded;
}
