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

/** What the signs mean. */
const LEGEND = ["# attempt", ". backoff", "- waiting", "x failed", "! canceled", "> still open", "~ idle time, folded", "| message"];
const LEGEND_GAP = "   ";

/** The legend, in lines that are not wider than asked for. */
export function drawLegend(width: number): string[] {
  const lines: string[] = [];
  for (const entry of LEGEND) {
    const longer = `${lines.at(-1) ?? ""}${LEGEND_GAP}${entry}`;
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer;
    else lines.push(cut(entry, width));
  }
  return lines;
}

const LEAST_CHART = 20;
const MOST_LABEL = 34;
const FOLD = 3;

export function drawTimeline(timeline: DrawnTimeline, { width, now }: { readonly width: number; readonly now: number }): string[] {
  const { operations, turns, messages, loops } = timeline;
  const times = operations.flatMap((operation) => pointsOf(operation, now)).concat(turns.map(({ time }) => Date.parse(time)));
  if (times.length === 0) return ["Nothing has happened yet."];
  const labels = operations.map(labelOf);
  const room = Math.min(MOST_LABEL, Math.max(...labels.map(widthOf), "messages".length), Math.max(1, width - LEAST_CHART - 2));
  const loopAt = new Map(loops.map((loop) => [loop.location, loop]));
  const notes = operations.map(({ location }) => iterationsOf(loopAt.get(location)));
  const names = workerNames(turns);
  // Notes stand behind the chart, which leaves them room.
  const noted = Math.max(...notes.map(widthOf), widthOf(names.text));
  const scale = new Scale(times, width - room - 2 - Math.min(noted === 0 ? 0 : noted + 2, Math.floor(width / 3)));
  const line = (label: string, chart: string): string => cut(`${pad(cut(label, room), room)}  ${chart}`, width).trimEnd();
  return [
    line("", scale.axis()),
    line("workers", workersChart(turns, scale, names)),
    ...(messages.length > 0 ? [line("messages", messagesChart(timeline, scale))] : []),
    ...operations.map((operation, i) => line(labels[i] ?? "", `${operationChart(operation, scale, now)} ${notes[i] ?? ""}`)),
    ...(timeline.complete ? [] : ["Only the newest operations are shown."]),
  ];
}

function iterationsOf(loop: DrawnTimeline["loops"][number] | undefined): string {
  if (loop === undefined) return "";
  return `${loop.iterations} iterations${loop.failed > 0 ? `, ${loop.failed} failed` : ""}`;
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

interface WorkerNames {
  readonly letters: ReadonlyMap<string, string>;
  readonly text: string;
}
/** Each worker by a letter. */
function workerNames(turns: DrawnTimeline["turns"]): WorkerNames {
  const ids = [...new Set(turns.flatMap(({ workerId }) => (workerId === null ? [] : [workerId])))];
  const letters = new Map(ids.map((id, i) => [id, String.fromCharCode(97 + (i % 26))]));
  return { letters, text: [...letters].map(([id, letter]) => `${letter}=${printable(id)}`).join(" ") };
}

/** The worker of each turn. */
function workersChart(turns: DrawnTimeline["turns"], scale: Scale, { letters, text }: WorkerNames): string {
  const cells = scale.cells();
  for (const { time, workerId } of turns) {
    const letter = letters.get(workerId ?? "");
    if (letter !== undefined) cells[scale.at(Date.parse(time))] = letter;
  }
  return `${scale.folded(cells).trimEnd()}  ${text}`;
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
