import { expect, test } from "vitest";
import { clock, duration, relative, since } from "../src/base/times.ts";
import { diffValues, noteOf, preview, visible } from "../src/base/values.ts";
import { BEGIN } from "./fixtures.ts";

test("hidden, large and unreadable values are notes, tagged ones are shown as what they are", () => {
  expect(noteOf({ $redacted: 2_048 })).toEqual({ text: "hidden (2.0 KB)", isNote: true });
  expect(noteOf({ $large: 5_000 })?.text).toContain("not loaded");
  expect(noteOf({ $unreadable: "another codec" })?.text).toBe("unreadable: another codec");
  expect(noteOf({ $date: "2026-01-01T00:00:00.000Z" })).toEqual({ text: "Date 2026-01-01T00:00:00.000Z", isNote: false });
  expect(noteOf({ $bigint: "12" })?.text).toBe("12n");
  expect(noteOf({ $$redacted: 1 })).toBeUndefined();
  expect(noteOf({ $redacted: 1, other: 2 })).toBeUndefined();
});

test("control and bidirectional characters are shown by their codes", () => {
  expect(visible("a\u001b[31mb\u202ec")).toBe("a\\u001b[31mb\\u202ec");
  expect(visible("line\nnext\ttab")).toBe("line\nnext\ttab");
  expect(preview({ text: "x".repeat(500) }, 50)).toHaveLength(50);
});

test("the difference of two values is the shortest list of changed lines", () => {
  const lines = diffValues({ a: 1, b: 2, c: 3 }, { a: 1, b: 5, c: 3 });
  expect(lines.filter(({ change }) => change !== "same")).toEqual([
    { change: "removed", text: '  "b": 2,' },
    { change: "added", text: '  "b": 5,' },
  ]);
  expect(diffValues(undefined, 1)).toEqual([{ change: "added", text: "1" }]);
  expect(diffValues({ a: 1 }, { a: 1 }).every(({ change }) => change === "same")).toBe(true);
});

test("the difference leaves both sides whole", () => {
  const [before, after] = [{ list: [1, 2, 3, 4, 5] }, { list: [2, 3, 9, 5, 6], more: true }];
  const lines = diffValues(before, after);
  const side = (not: string) =>
    lines
      .filter(({ change }) => change !== not)
      .map(({ text }) => text)
      .join("\n");
  const withoutCommas = (text: string) => text.replace(/,$/gm, "");
  expect(withoutCommas(side("added"))).toBe(withoutCommas(JSON.stringify(before, null, 2)));
  expect(side("removed")).toBe(JSON.stringify(after, null, 2));
});

test("a line that only got a comma has not changed", () => {
  const lines = diffValues({ a: [1] }, { a: [1], b: 2 });
  expect(lines.filter(({ change }) => change !== "same")).toEqual([{ change: "added", text: '  "b": 2' }]);
});

test("durations and times", () => {
  expect([5, 1_200, 12_000, 250_000, 3_900_000, 100_000_000].map(duration)).toEqual(["5ms", "1.2s", "12s", "4m 10s", "1h 5m", "1d 4h"]);
  expect(duration(59 * 60_000 + 59_999)).toBe("60m");
  expect(relative(BEGIN, BEGIN + 125_000)).toBe("2m ago");
  expect(relative(BEGIN + 3_700_000, BEGIN)).toBe("in 1h");
  expect(clock(BEGIN)).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:00\.000$/);
  expect(since("1h30m", BEGIN)).toBe(new Date(BEGIN - 5_400_000).toISOString());
  expect(since("soon", BEGIN)).toBeUndefined();
});
