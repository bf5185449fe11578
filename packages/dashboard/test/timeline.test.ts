import { OPERATION_KINDS, operationsWhere } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { type AxisName, axisOf } from "../src/timeline/axis.ts";
import { layout, operationAt } from "../src/timeline/layout.ts";
import { isScope, merge, type Timeline } from "../src/timeline/model.ts";
import { initiallyFolded, isFailure, isOperationRow, nextRow, rowName, treeOf, visibleRows } from "../src/timeline/tree.ts";
import { at, attempt, BEGIN, operation, timeline, unit } from "./fixtures.ts";

test("the operations that consist of units are those of the table of operations", () => {
  const scopes = operationsWhere(({ kind, units }) => kind !== undefined && units !== undefined);
  expect(OPERATION_KINDS.filter((kind) => isScope({ kind })).sort()).toEqual([...scopes].sort());
});

const NOW = BEGIN + 3_600_000;
const AXES: readonly AxisName[] = ["compact", "wall", "turns"];
const laid = (one: Timeline, axis: AxisName = "compact", folded: ReadonlySet<string> = new Set(), width = 1_000) =>
  layout(one, { axis, width, now: NOW, tree: treeOf(one), folded });

/** charge fails twice and completes; a sleep of 30 days; a join of two branches. */
const order = timeline({
  lastTurn: 3,
  turns: [0, 6, 2_592_006, 2_592_010].map((time, index) => ({ index, time: at(time), workerId: index < 2 ? "w-1" : "w-2" })),
  units: [unit("", "root", null), unit("both/a", "branch"), unit("both/b", "branch")],
  operations: [
    operation("charge", 0, 6, {
      attempts: [attempt(1, 0.1, 1, "failed"), attempt(2, 2, 3, "failed"), attempt(3, 5, 6)],
    }),
    operation("nap", 6, 2_592_006, { kind: "sleep", turn: 1 }),
    operation("both", 2_592_006, 2_592_010, { kind: "join", turn: 2 }),
    operation("both/a/ship", 2_592_006, 2_592_008, { turn: 2, attempts: [attempt(1, 2_592_006, 2_592_008)] }),
    operation("both/b/ship", 2_592_006, 2_592_010, { turn: 2, status: "failed", attempts: [attempt(1, 2_592_006, 2_592_010, "failed")] }),
  ],
  messages: [{ id: "m", kind: "signal", name: "approve", arrivedTurn: 2, takenTurn: 3, takenBy: "both" }],
});
const charge = order.operations[0];

describe("axes", () => {
  test.each(AXES)("on %s positions never decrease, and a place leads back to its time", (name) => {
    const axis = axisOf(order, name, 1_000, NOW);
    let before = -1;
    for (let time = axis.start; time <= axis.end; time += (axis.end - axis.start) / 500) {
      const x = axis.toX(time);
      expect(x).toBeGreaterThanOrEqual(before);
      before = x;
      if (name !== "turns") expect(axis.toX(axis.toTime(x))).toBeCloseTo(x, 6);
    }
    expect(axis.toX(axis.start)).toBe(0);
    expect(axis.toX(axis.end)).toBeCloseTo(1_000, 6);
  });

  test("compact folds 30 days of sleep, so that seconds of work stay readable; wall does not", () => {
    const width = (name: AxisName): number => {
      const axis = axisOf(order, name, 1_000, NOW);
      return axis.toX(BEGIN + 6_000) - axis.toX(BEGIN);
    };
    expect(width("compact")).toBeGreaterThan(200);
    expect(width("wall")).toBeLessThan(1);
    const { folds } = axisOf(order, "compact", 1_000, NOW);
    expect(folds.map(({ ms }) => ms)).toContain(2_592_000_000);
    expect(Math.max(...folds.map(({ width: wide }) => wide))).toBeLessThan(120);
  });

  test("turns are equally wide", () => {
    const axis = axisOf(order, "turns", 1_000, NOW);
    expect(order.turns.map(({ index, time }) => axis.turnX(index, time))).toEqual([0, 250, 500, 750]);
  });

  test("a run without anything has an axis", () => {
    for (const name of AXES) {
      const axis = axisOf(timeline({}), name, 1_000, NOW);
      expect(Number.isFinite(axis.toX(NOW))).toBe(true);
    }
  });
});

describe("layout", () => {
  test("attempts, the time before the first and between two are rectangles with statuses", () => {
    const { lanes } = laid(order);
    const root = lanes.find(({ key }) => key === "unit:");
    const rects = root?.rects.filter((rect) => rect.operation === charge) ?? [];
    expect(rects.map(({ shape, status }) => [shape, shape === "bar" ? status : ""])).toEqual([
      ["queued", ""],
      ["bar", "failed"],
      ["backoff", ""],
      ["bar", "failed"],
      ["backoff", ""],
      ["bar", "completed"],
    ]);
    for (const [i, rect] of rects.entries()) if (i > 0) expect(rect.x).toBeCloseTo((rects[i - 1]?.x ?? 0) + (rects[i - 1]?.width ?? 0), 6);
  });

  test("the bar of an operation is that of its last attempt, with its status", () => {
    const { bars } = laid(order);
    expect(order.operations.map(({ seq }) => [bars.get(seq)?.shape, bars.get(seq)?.status])).toEqual([
      ["bar", "completed"],
      ["wait", "completed"],
      ["scope", "completed"],
      ["bar", "completed"],
      ["bar", "failed"],
    ]);
  });

  test.each(AXES)("on %s everything is inside, and no two bars of a lane overlap", (axis) => {
    const { lanes, height } = laid(order, axis);
    for (const { rects, y, height: tall } of lanes) {
      const bars = rects.filter(({ shape }) => shape === "bar" || shape === "wait");
      for (const rect of rects) {
        expect(rect.x).toBeGreaterThanOrEqual(0);
        expect(rect.x + rect.width).toBeLessThanOrEqual(1_000.001);
        expect(rect.y).toBeGreaterThanOrEqual(y);
        expect(rect.y + rect.height).toBeLessThanOrEqual(y + tall);
      }
      for (const [i, a] of bars.entries()) {
        for (const b of bars.slice(i + 1)) expect(a.y !== b.y || a.x + a.width <= b.x + 0.02).toBe(true);
      }
    }
    expect(lanes.at(-1)?.y).toBeLessThan(height);
  });

  test("lanes: worker, inbox, one per unit; both workers are there", () => {
    const { lanes } = laid(order);
    expect(lanes.map(({ label }) => label)).toEqual(["worker", "inbox", "root", "both/a", "both/b"]);
    expect(new Set(lanes[0]?.rects.map(({ label }) => label))).toEqual(new Set(["w-1", "w-2"]));
    expect(lanes[1]?.rects.map(({ label, status }) => [label, status])).toEqual([["approve", "completed"]]);
  });

  test("rollbacks have a lane of their own", () => {
    const one = timeline({
      units: [unit("", "root", null), unit("~rollback", "body", "")],
      operations: [operation("charge", 0, 1), { ...operation("~rollback/charge", 2, 3), name: "charge" }],
    });
    expect(laid(one).lanes.map(({ label }) => label)).toEqual(["worker", "root", "rollback"]);
  });

  test("operations of one unit at the same time are below one another", () => {
    const two = timeline({
      operations: [
        operation("a", 0, 10, { attempts: [attempt(1, 0, 10)] }),
        operation("b", 0, 5, { attempts: [attempt(1, 0, 5)] }),
        operation("c", 10, 12, { attempts: [attempt(1, 10, 12)] }),
      ],
    });
    const { bars } = laid(two);
    const [a, b, c] = two.operations.map(({ seq }) => bars.get(seq)?.y);
    expect(b).toBeGreaterThan(a ?? 0);
    expect(c).toBe(a);
  });

  test("steps that took less than a millisecond don't hide one another", () => {
    const quick = timeline({
      operations: [
        operation("a", 1, 1, { attempts: [attempt(1, 1, 1)] }),
        operation("b", 1, 1, { status: "failed", attempts: [attempt(1, 1, 1, "failed")] }),
        operation("c", 9, 10, { attempts: [attempt(1, 9, 10)] }),
      ],
    });
    for (const axis of ["compact", "wall"] as const) {
      const { bars } = laid(quick, axis);
      const [a, b, c] = quick.operations.map(({ seq }) => bars.get(seq)?.y);
      expect(b).toBeGreaterThan(a ?? 0);
      expect(c).toBe(a);
    }
  });

  test("what is at a place is found, also if it is thinner than a pixel", () => {
    const one = laid(order, "wall");
    const bar = charge === undefined ? undefined : one.bars.get(charge.seq);
    expect(operationAt(one, (bar?.x ?? 0) + 1, (bar?.y ?? 0) + 2, 1)).toBe(charge);
    const nap = one.bars.get(order.operations[1]?.seq ?? -1);
    expect(operationAt(one, 500, (nap?.y ?? 0) + 2, 1)?.location).toBe("nap");
    expect(operationAt(one, 500, 100_000, 1)).toBeUndefined();
  });
});

/** A loop of 200 iterations, of which the tenth failed. */
const loop = timeline({
  units: [unit("", "root", null), ...Array.from({ length: 200 }, (_, i) => unit(`poll/~${i}`, "iteration"))],
  operations: [
    operation("poll", 0, 200, { kind: "loop" }),
    ...Array.from({ length: 200 }, (_, i) => {
      const status = i === 10 ? "failed" : "completed";
      return operation(`poll/~${i}/look`, i, i + 1, { status, attempts: [attempt(1, i, i + 1, status)] });
    }),
  ],
  loops: [{ location: "poll", iterations: 9_412, failed: 3, kept: 200, committedAt: null }],
});

describe("loops", () => {
  test("a long loop begins folded, and says how often it went round", () => {
    const tree = treeOf(loop);
    const folded = initiallyFolded(tree);
    const rows = visibleRows(tree, folded);
    expect(rows.map(({ row }) => rowName(row))).toEqual(["loop poll, completed, 9,412 iterations, 3 failed"]);
    expect(rows[0]?.isExpanded).toBe(false);
    expect(visibleRows(tree, new Set())).toHaveLength(401);
  });

  test("folded, its operations are drawn in its bar; unfolded, all iterations share one lane", () => {
    const folded = laid(loop, "compact", initiallyFolded(treeOf(loop)));
    expect(folded.lanes.map(({ label }) => label)).toEqual(["worker", "root"]);
    expect(folded.lanes[1]?.rects.filter(({ shape }) => shape === "density")).toHaveLength(200);
    expect(folded.bars.size).toBe(201);
    const open = laid(loop);
    expect(open.lanes.map(({ label }) => label)).toEqual(["worker", "root", "poll"]);
    expect(open.lanes[2]?.height).toBeLessThan(60);
  });
});

describe("the tree", () => {
  test("scopes hold units, units hold operations, with names that say kind, name, status and attempts", () => {
    const rows = visibleRows(treeOf(order), new Set());
    expect(rows.map(({ row, level }) => `${"  ".repeat(level - 1)}${rowName(row)}`)).toEqual([
      "step charge, completed, 3 attempts",
      "sleep nap, completed",
      "join both, completed",
      "  branch a, running",
      "    step ship, completed, 1 attempt",
      "  branch b, running",
      "    step ship, failed, 1 attempt",
    ]);
  });

  test("the body of a try is directly under it", () => {
    const one = timeline({
      units: [unit("", "root", null), unit("safe/~body", "body")],
      operations: [operation("safe", 0, 1, { kind: "try" }), operation("safe/~body/charge", 0, 1)],
    });
    expect(visibleRows(treeOf(one), new Set()).map(({ row, level }) => [row.label, level])).toEqual([
      ["try safe", 1],
      ["step charge", 2],
    ]);
    expect(laid(one).lanes.map(({ label }) => label)).toEqual(["worker", "root"]);
  });

  test("the next operation and the next failure, through folded rows too", () => {
    const tree = treeOf(loop);
    const first = nextRow(tree, undefined, 1, isOperationRow);
    expect(first?.label).toBe("loop poll");
    const failure = nextRow(tree, first, 1, isFailure);
    expect(failure?.operation?.location).toBe("poll/~10/look");
    expect(nextRow(tree, failure, 1, isFailure)).toBeUndefined();
    expect(nextRow(tree, failure, -1, isOperationRow)?.operation?.location).toBe("poll/~9/look");
  });
});

test("what has changed is added to what is known", () => {
  const before = timeline({
    lastTurn: 0,
    turns: [{ index: 0, time: at(0), workerId: "w-1" }],
    operations: [{ ...operation("a", 0, undefined), seq: 1 }],
  });
  const next = timeline({
    lastTurn: 1,
    turns: [{ index: 1, time: at(2), workerId: "w-2" }],
    operations: [
      { ...operation("a", 0, 2), seq: 1 },
      { ...operation("b", 2, undefined, { turn: 1 }), seq: 2 },
    ],
  });
  const merged = merge(before, next);
  expect(merged.turns.map(({ index }) => index)).toEqual([0, 1]);
  expect(merged.operations.map(({ location, status }) => [location, status])).toEqual([
    ["a", "completed"],
    ["b", "running"],
  ]);
  expect(merge(before, { ...next, execution: 2 })).toEqual({ ...next, execution: 2 });
});

test("10,000 operations are laid out quickly", () => {
  const many = timeline({
    turns: Array.from({ length: 10_000 }, (_, index) => ({ index, time: at(index), workerId: "w-1" })),
    operations: Array.from({ length: 10_000 }, (_, i) => operation(`op${i}`, i, i + 1, { turn: i, attempts: [attempt(1, i, i + 1)] })),
  });
  const tree = treeOf(many);
  const before = process.cpuUsage();
  const { bars } = layout(many, { axis: "compact", width: 1_000, now: NOW, tree, folded: new Set() });
  const { user, system } = process.cpuUsage(before);
  // Three times the figure for layout and painting together, in time of this process: others may be busy.
  expect((user + system) / 1_000).toBeLessThan(450);
  expect(bars.size).toBe(10_000);
});
