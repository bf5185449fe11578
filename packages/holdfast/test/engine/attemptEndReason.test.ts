// D11: why an attempt is over, as its signal says it.

import { Bench } from "@holdfast/conformance/bench";
import { expect, test } from "vitest";
import { endReasonOf } from "../../src/engine/attemptEndReason.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";

const openBench = () => Bench.on({ makeStore: ({ clock }) => new MemoryStore({ clock }) });

test("D11 an attempt whose time is up was not abandoned by its workflow, though the store has not looked at limits yet", async () => {
  const bench = await openBench();
  await bench.waitingFor("a", bench.newTask(2, { startToClose: 500 }));
  const task = await bench.claimTask();
  bench.time += 500;
  expect(await endReasonOf(bench.store, task)).toMatchObject({ name: "StepTimeoutError" });
});

test("K6 D11 one whose run was terminated learns that, though its time is up as well", async () => {
  const bench = await openBench();
  await bench.waitingFor("a", bench.newTask(2, { startToClose: 500 }));
  const task = await bench.claimTask();
  await bench.store.terminate([{ runId: "a", reason: "enough" }]);
  bench.time += 500;
  expect(await endReasonOf(bench.store, task)).toMatchObject({
    code: "HF_ATTEMPT_OVER",
    message: expect.stringContaining("its run has ended"),
  });
});
