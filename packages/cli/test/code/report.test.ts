// What a replay of many histories found: counts, groups, JUnit, GitHub annotations.

import { expect, test } from "vitest";
import { annotationsOf, junitOf } from "../../src/code/formats.ts";
import type { Divergence, ReplayOutcome } from "../../src/code/protocol.ts";
import { reportOf } from "../../src/code/report.ts";

const source = { file: "src/a,b.ts", line: 14, column: 9 };
const diverged = (runId: string, divergence: Partial<Divergence> = {}, workflow = "order"): ReplayOutcome => ({
  runId,
  workflow,
  status: "diverged",
  divergence: {
    location: "charge",
    field: "name",
    expected: 'step "charge"',
    actual: 'step "check"',
    source,
    advice: "Patch it.",
    ...divergence,
  },
});

test("counts add up, and runs that are gone are not counted", () => {
  const outcomes: ReplayOutcome[] = [
    { runId: "a", workflow: "order", status: "passed" },
    diverged("b"),
    { runId: "c", workflow: "x", status: "skipped", reason: "no code" },
    { runId: "d", workflow: "order", status: "failed", reason: "boom" },
    { runId: "e", workflow: "order", status: "gone" },
  ];
  expect(reportOf(outcomes)).toMatchObject({ checked: 4, passed: 1, diverged: 1, skipped: 1, failed: 1 });
  expect(reportOf(outcomes).results).toEqual([
    { runId: "a", status: "passed" },
    { runId: "b", status: "diverged" },
    { runId: "c", status: "skipped" },
    { runId: "d", status: "failed" },
  ]);
});

test("runs that diverge at the same place in the same way are one group, the largest first", () => {
  const { groups } = reportOf([
    diverged("a", { source: null }),
    diverged("b"),
    diverged("c"),
    diverged("d", {}, "refund"),
    diverged("e", { actual: 'step "other"' }),
    // Values of users differ from run to run, and so do the numbers of iterations.
    diverged("f", { location: "poll/~1/fetch#1", field: "input", expected: 1, actual: 2 }),
    diverged("g", { location: "poll/~7/fetch#3", field: "input", expected: 3, actual: 4 }),
    diverged("h", { location: "poll/~7/fetch#3", field: "input", expected: 3, actual: 4 }),
  ]);
  expect(groups.map(({ example, count }) => ({ example, count }))).toEqual([
    { example: "f", count: 3 },
    { example: "b", count: 2 },
    { example: "a", count: 1 },
    { example: "d", count: 1 },
    { example: "e", count: 1 },
  ]);
  expect(groups[1]).toEqual({
    workflow: "order",
    location: "charge",
    field: "name",
    expected: 'step "charge"',
    actual: 'step "check"',
    source,
    count: 2,
    example: "b",
    advice: "Patch it.",
  });
});

test("JUnit has one case per run, and no text can break it", () => {
  const hostile = `<&>"'\u0000\u001b[31m\ud800]]>`;
  const xml = junitOf([
    { runId: hostile, workflow: "order", status: "passed" },
    diverged("b", { expected: hostile, source: { file: hostile, line: 1, column: 1 } }),
    { runId: "c", workflow: hostile, status: "skipped", reason: hostile },
    { runId: "d", workflow: "order", status: "failed", reason: hostile },
  ]);
  expect(xml).toContain('<testsuites name="holdfast replay" tests="4" failures="1" errors="1" skipped="1">');
  expect(xml).toContain('<testsuite name="order" tests="3" failures="1" errors="1" skipped="0">');
  expect(xml).toContain('<failure type="HF_NONDETERMINISM" message="code and history diverge at charge, in name">');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be there
  expect(xml).not.toMatch(/[\u0000\u001b]|\]\]>/);
  const tags = xml.replace(/<\?xml.*\?>/, "").match(/<[^<>]*>/g) ?? [];
  const open: string[] = [];
  for (const tag of tags) {
    if (tag.startsWith("</")) expect(open.pop()).toBe(tag.slice(2, -1));
    else if (!tag.endsWith("/>")) open.push((/^<(\w+)/.exec(tag) ?? [])[1] ?? "");
  }
  expect(open).toEqual([]);
});

test("GitHub annotations name file and line, and are one line each", () => {
  const { groups } = reportOf([diverged("a\nb"), diverged("c")]);
  const lines = annotationsOf(groups, [{ runId: "d", workflow: "order", status: "failed", reason: "100% broken\r\nhere" }]);
  expect(lines).toEqual([
    expect.stringMatching(
      /^::error file=src\/a%2Cb\.ts,line=14,col=9,title=holdfast replay::2 open runs of order would block at charge .* a%0Ab\.%0A/,
    ),
    "::error title=holdfast replay::Run d of order can't be replayed: 100%25 broken%0D%0Ahere",
  ]);
  for (const line of lines) expect(line).not.toMatch(/[\r\n]/);
});
