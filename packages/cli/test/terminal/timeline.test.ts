// The course of a run, drawn with letters.

import { expect, test } from "vitest";
import { type DrawnTimeline, drawLegend, drawTimeline } from "../../src/terminal/timeline.ts";
import { widthOf } from "../../src/terminal/width.ts";

const start = Date.parse("2026-05-01T12:00:00Z");
const at = (seconds: number): string => new Date(start + seconds * 1_000).toISOString();
const attempt = (from: number, to: number | null, status = "completed") => ({
  status,
  startedAt: at(from),
  endedAt: to === null ? null : at(to),
});
type Operation = DrawnTimeline["operations"][number];
const operation = (name: string, from: number, to: number | null, more: Partial<Operation> = {}): Operation => ({
  location: `${name}#1`,
  unit: "",
  kind: "step",
  name,
  status: to === null ? "running" : "completed",
  scheduledAt: at(from),
  endedAt: to === null ? null : at(to),
  attempts: [attempt(from, to)],
  ...more,
});
const timeline: DrawnTimeline = {
  execution: 1,
  complete: true,
  turns: [
    { index: 0, time: at(0), workerId: "w-1" },
    { index: 1, time: at(10), workerId: "w-1" },
    { index: 2, time: at(2_592_020), workerId: "w-2" },
  ],
  operations: [
    operation("charge", 0, 10, { attempts: [attempt(0, 2, "failed"), attempt(6, 10)] }),
    operation("a month", 10, 2_592_020, { kind: "sleep", attempts: [] }),
    operation("ship", 2_592_020, 2_592_030, { unit: "both/a", status: "failed", attempts: [attempt(2_592_020, 2_592_030, "failed")] }),
    operation("wait\u001b[2J", 2_592_030, null, { kind: "signal", status: "waiting", attempts: [] }),
  ],
  loops: [{ location: "charge#1", iterations: 9_412, failed: 3 }],
  messages: [{ kind: "signal", name: "approve", arrivedTurn: 1 }],
};
const now = start + 2_592_040_000;

test("each sign is where its time is", () => {
  const [axis = "", workers = "", messages = "", charge = "", month = "", ship = "", wait = ""] = drawTimeline(timeline, {
    width: 80,
    now,
  });
  expect(axis).toMatch(/2026-05-01 12:00:00 +\+30d$/);
  expect(workers).toMatch(/a +a +b.* a=w-1 b=w-2$/);
  // Also if the last turn is at the right end.
  const [, ended = ""] = drawTimeline({ ...timeline, operations: timeline.operations.slice(0, 3) }, { width: 80, now });
  expect(ended).toMatch(/b +a=w-1 b=w-2$/);
  expect(charge).toMatch(/charge +#+x\.+#+ 9412 iterations, 3 failed$/);
  expect(month).toContain("~");
  expect(ship).toMatch(/^ {4}ship +#+x$/);
  expect(wait).toMatch(/^wait\\x1b\[2J +-+>$/);
  expect(messages.indexOf("|")).toBe(month.indexOf("-"));
  for (const sign of ["#", ".", "-", "x", ">", "~", "|"]) expect(drawLegend(120).join()).toContain(`${sign} `);
  // A month of sleep takes less room than ten seconds of work.
  expect(month.trimEnd().length - month.indexOf("-")).toBeLessThan((/#+x\.+#+/.exec(charge)?.[0] ?? "").length);
});

test("no line is wider than asked for", () => {
  for (let width = 24; width <= 120; width += 1) {
    for (const line of [...drawTimeline(timeline, { width, now }), ...drawLegend(width)]) expect(widthOf(line)).toBeLessThanOrEqual(width);
  }
});

test("a run without a turn, one with a single moment, and one that is cut", () => {
  const empty = { ...timeline, turns: [], operations: [], loops: [], messages: [] };
  expect(drawTimeline(empty, { width: 80, now })).toEqual(["Nothing has happened yet."]);
  const moment = { ...empty, turns: timeline.turns.slice(0, 1), operations: [operation("one", 0, 0)] };
  expect(drawTimeline(moment, { width: 60, now }).at(-1)).toMatch(/^one +#$/);
  expect(drawTimeline({ ...moment, complete: false }, { width: 60, now }).at(-1)).toBe("Only the newest operations are shown.");
});
