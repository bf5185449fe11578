// The embedded host keeps the model in real time too, on an SQLite file. The tests named here run, at least one of each group;
// `npm run nightly` runs all of the suite, in two minutes.

import { hostConformance } from "@holdfast/conformance";
import { describe, expect, test } from "vitest";
import { newPath } from "../sqlite/support.ts";
import { LACKS } from "./lacks.ts";
import { RealTimeHost } from "./realTime.ts";

const CHOSEN = [
  "D6 steps run once",
  "D8 an attempt that takes longer than its timeout",
  "M4 a wait times out",
  "M8 once its time is over",
  "A1 M10 the reply of an async handler",
  "C3 C7 race gives the first to succeed",
  "K7 a deadline fails the run",
  "D10 a run with its own retry",
  "K1 K2 K3 cancellation reaches every unit",
  "K8 P11 a run that is started later",
  "D11 they run here",
  "V1 patched runs",
  "K6 a child's result comes back",
  "C7 a child that its parent no longer waits for",
  "D5 a step is not run again because a sibling slept",
  "K1 a cancel that was acknowledged outlives",
];
const isWhole = (process.env["HOLDFAST_NIGHTLY"] ?? "") !== "";

describe("the embedded host on SQLite, in real time", () => {
  const listed: string[] = [];
  const ran: string[] = [];
  hostConformance({
    name: "SQLite, real time",
    clock: "real",
    lacks: LACKS.SQLite,
    test: (title, run) => {
      if (!isWhole && !CHOSEN.some((one) => title.startsWith(one))) return;
      ran.push(title);
      test.concurrent(title, { timeout: 300_000 }, run);
    },
    skip: (title) => void listed.push(title),
    makeHost: (options) => RealTimeHost.open(newPath(), options),
  });
  test("the tests that are named here are there, and those that need an exact clock are listed", () => {
    if (!isWhole) expect(ran).toHaveLength(CHOSEN.length);
    expect(listed.length).toBeGreaterThan(5);
    process.stdout.write(`${listed.length} tests run by a virtual clock only:\n${listed.map((title) => `  ${title}\n`).join("")}`);
    for (const title of listed) expect(title).toMatch(/not applicable: it needs an exact clock\)$/);
  });
});
