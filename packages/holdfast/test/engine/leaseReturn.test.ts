// Whether a commit whose answer was lost has been written, judged by the row of its run.
// Owns: nothing but these tests.
// Invariants: D4, Q2 (a run that was created without its first turn belongs to the worker that claims it, at the same epoch).

import { describe, expect, test } from "vitest";
import { addNotBegun, type EndingClaim } from "../../src/engine/leaseReturn.ts";
import type { RunRow, TurnCommit } from "../../src/store/port.ts";

const START = { id: "run", seed: "seed", execution: 1, epoch: 1 };
const FIRST_TURN = { runId: "run", execution: 1, epoch: 1, workerId: "mine", turn: { index: 0, commands: [] } } as unknown as TurnCommit;

/** What is found out if the row says this, and how many lists of steps were taken back. */
async function judged(
  row: Partial<RunRow> | undefined,
  isDriven: boolean,
): Promise<{ readonly outcome: string; readonly takenBack: number }> {
  let takenBack = 0;
  const claim = {
    host: { rowOf: async () => (row === undefined ? undefined : { ...START, ...row }), drives: () => isDriven },
    run: START,
    operations: { notBegun: () => takenBack++, prepare: () => ({ rows: [] }) },
  } as unknown as EndingClaim;
  return { outcome: await addNotBegun(claim, {} as Parameters<typeof addNotBegun>[1], FIRST_TURN), takenBack };
}

describe("D4 Q2 a first turn whose answer was lost", () => {
  test.each([
    ["is written if the run has it, under this worker", { turns: 1, workerId: "mine" }, "written"],
    ["is written if the run has it, and no worker has the run", { turns: 1, workerId: undefined }, "written"],
    ["is not written if another worker has the run at the same epoch", { turns: 1, workerId: "other" }, "not written"],
    ["is not written if the run has no turn", { turns: 0, workerId: "mine" }, "not written"],
    ["is not written if the run is another start's", { turns: 1, workerId: "mine", seed: "another" }, "not written"],
    ["is not written if there is no run", undefined, "not written"],
  ])("%s", async (_, row, outcome) => {
    expect(await judged(row, false)).toEqual({ outcome, takenBack: outcome === "written" ? 1 : 0 });
  });
  test("D7 is not written if this worker has claimed the run since, at the same epoch: its attempts count", async () => {
    expect(await judged({ turns: 1, workerId: "mine" }, true)).toEqual({ outcome: "not written", takenBack: 0 });
  });
});
