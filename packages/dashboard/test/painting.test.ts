// What is written on the canvas, seen by a context that only takes notes.

import { describe, expect, test } from "vitest";
import type { AxisName } from "../src/timeline/axis.ts";
import { layout } from "../src/timeline/layout.ts";
import { readTimeline } from "../src/timeline/model.ts";
import { paint } from "../src/timeline/paint.ts";
import { treeOf } from "../src/timeline/tree.ts";
import { at, attempt, BEGIN, operation, timelineJson } from "./fixtures.ts";

interface Written {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly line: number;
}
const WIDTH = 800;
const NOW = BEGIN + 260_500_000;

function written(json: Parameters<typeof timelineJson>[0], axis: AxisName = "compact"): Written[] {
  const timeline = readTimeline(timelineJson(json));
  const texts: Written[] = [];
  const notes = {
    measureText: (text: string) => ({ width: text.length * 6 }),
    fillText: (text: string, x: number, y: number) => void texts.push({ text, left: x, right: x + text.length * 6, line: y }),
  };
  const context = new Proxy(notes, {
    get: (target, name) => (name in target ? target[name as keyof typeof notes] : () => {}),
    set: () => true,
  }) as unknown as CanvasRenderingContext2D;
  const laid = layout(timeline, { axis, width: WIDTH - 130, now: NOW, tree: treeOf(timeline), folded: new Set() });
  const view = { width: WIDTH, height: 600, scale: 1, scrollX: 0, scrollY: 0 };
  paint(context, laid, view, { theme: "light", selected: undefined, turnTime: undefined });
  return texts;
}
/** Pairs of texts that cover one another, and texts that the edge cuts. */
function clashes(texts: readonly Written[]): string[] {
  const found = texts.filter(({ right }) => right > WIDTH).map(({ text }) => `${text} | edge`);
  for (const [i, a] of texts.entries())
    for (const b of texts.slice(i + 1))
      if (Math.abs(a.line - b.line) < 9 && a.left < b.right && b.left < a.right) found.push(`${a.text} | ${b.text}`);
  return found;
}

/** A short step, a pause of days, two steps, and a wait that goes on. */
const PAUSES = {
  turns: [0, 1, 2, 260_000, 260_002].map((time, index) => ({ index, time: at(time), workerId: "w-1" })),
  operations: [
    operation("a-step-with-a-long-name", 0, 1, { attempts: [attempt(1, 0, 0.4, "failed"), attempt(2, 0.7, 1)] }),
    operation("the-next", 1, 2, { attempts: [attempt(1, 1, 2)] }),
    operation("cooling-off", 2, 260_000, { kind: "sleep" }),
    operation("short", 260_000, 260_000.2, { attempts: [attempt(1, 260_000, 260_000.2)] }),
    operation("long", 260_000.2, 260_002, { attempts: [attempt(1, 260_000.2, 260_002)] }),
    operation("approve", 260_002, undefined, { kind: "signal", status: "waiting" }),
  ],
};

describe.each(["compact", "wall", "turns"] as const)("on the axis %s", (axis) => {
  test("no text covers another, and none is cut at the edge", () => {
    const texts = written(PAUSES, axis);
    expect(texts.length).toBeGreaterThan(8);
    expect(clashes(texts)).toEqual([]);
  });
});

test("a long bar has its name, also if the name of a short bar before it reaches over it", () => {
  const texts = written({
    operations: [
      operation("before-the-crash", 0, 0.1, { attempts: [attempt(1, 0, 0.1)] }),
      operation("dies", 0.1, 30, { attempts: [attempt(1, 0.1, 30)] }),
    ],
  });
  expect(texts.map(({ text }) => text)).toEqual(expect.arrayContaining(["before-the-crash", "dies"]));
  expect(clashes(texts)).toEqual([]);
});

test("times that are close together are told apart", () => {
  const texts = written({
    turns: [{ index: 0, time: at(0), workerId: "w-1" }],
    operations: [
      operation("first", 0, 0.001, { attempts: [attempt(1, 0, 0.001)] }),
      ...Array.from({ length: 30 }, (_, i) => {
        const from = 33 + i * 0.004;
        return operation(`look-${i}`, from, from + 0.004, { attempts: [attempt(1, from, from + 0.004)] });
      }),
    ],
  });
  const times = texts.map(({ text }) => text).filter((text) => text.startsWith("+"));
  expect(times.length).toBeGreaterThan(3);
  expect(new Set(times).size).toBe(times.length);
});

test("names with characters that change the text around them are shown by their codes", () => {
  const texts = written({ operations: [operation("pay\u202etxt", 0, 10, { attempts: [attempt(1, 0, 10)] })] });
  expect(texts.map(({ text }) => text)).toContain("pay\\u202etxt");
});
