// Conformance: claims that cover queues besides the worker's own, which have limits, pauses or keys.
// Owns: tests of what such a claim gets from the other queues.
// Invariants tested: B3, Q2, Q8, W2.

import type { ClaimRequest, NewRun } from "holdfast/store";
import { type Bench, failure, heldOf, range, runIds, START, same } from "./bench.ts";
import { add, limit, queuesOf } from "./queueBench.ts";
import type { Suite } from "./suite.ts";

const BULK = { queue: "holdfast", workflow: "holdfast.bulk" } as const;
const SERVES: ClaimRequest["serves"] = [
  { workflow: "order", versions: "*" },
  { workflow: "holdfast.bulk", versions: "*", queue: "holdfast" },
];
const claim = (bench: Bench, more: Partial<ClaimRequest> = {}) => bench.claim({ queue: "q", serves: SERVES, ...more });
async function claimed(bench: Bench, more: Partial<ClaimRequest> = {}): Promise<string[]> {
  return runIds(await claim(bench, more)).sort();
}
const addBulk = (bench: Bench, ids: readonly string[], more: Partial<NewRun> = {}) => add(bench, ids, { ...BULK, ...more });

export function otherQueues({ test }: Suite): void {
  test("B3 Q2 limits of another queue hold for claims that cover it, whether the worker's own has some or not", async (bench) => {
    await queuesOf(bench).setQueue("holdfast", { concurrency: 1 });
    await addBulk(bench, ["b1", "b2", "b3"]);
    await add(bench, ["a1", "a2"]);
    const { runs } = await claim(bench);
    same(runs.map(({ run }) => run.id).sort(), ["a1", "a2", "b1"]);
    same(await claimed(bench), []);
    await limit(bench, { concurrency: 3 });
    await add(bench, ["a3", "a4"]);
    for (const one of runs) if (one.run.id === "b1") await bench.close(heldOf(one));
    same(await claimed(bench), ["a3", "b2"]);
    same((await queuesOf(bench).getQueue("holdfast")).runs, { waiting: 1, held: 1, oldest: START });
  });
  test("B3 Q8 a pause of another queue holds for claims that cover it, and ends by itself", async (bench) => {
    await addBulk(bench, ["b1"]);
    await queuesOf(bench).pauseQueue("holdfast", { for: 100 });
    await add(bench, ["a1"]);
    const { runs, nextAt } = await claim(bench);
    same([runs.map(({ run }) => run.id), nextAt], [["a1"], START + 100]);
    bench.time += 100;
    same(await claimed(bench), ["b1"]);
  });
  test("B3 Q1 keys of another queue: their runs are claimed, with the plain ones", async (bench) => {
    await addBulk(bench, ["b1", "b2"], { key: "k" });
    await addBulk(bench, ["b3"]);
    same(await claimed(bench), ["b1", "b2", "b3"]);
  });
  test("B3 W2 no backlog of the worker's queue keeps another queue waiting", async (bench) => {
    await limit(bench, { concurrency: 10 });
    await add(bench, range(5).map((i) => `a${i}`)); // biome-ignore format: one line
    await addBulk(bench, ["plain"]);
    same(await claimed(bench, { limit: 1 }), ["plain"]);
    await queuesOf(bench).setQueue("holdfast", { concurrency: 1 });
    await addBulk(bench, ["limited"]);
    same(await claimed(bench, { limit: 1 }), ["a0"]); // its queue is full
    await bench.store.terminate([{ runId: "plain", reason: undefined }]);
    same(await claimed(bench, { limit: 1 }), ["limited"]);
    same((await claimed(bench)).length, 4);
  });
  test("B3 V4 a blocked run of another queue is tried within the limits of that queue", async (bench) => {
    await queuesOf(bench).setQueue("holdfast", { concurrency: 1 });
    await addBulk(bench, ["b1", "b2"]);
    const { runs } = await claim(bench);
    for (const held of runs.map(heldOf))
      await bench.park(held, { turn: bench.turn(held), status: "blocked", blocked: { error: failure("no code"), code: "" } });
    same(await claimed(bench), ["b2"]);
    same(await claimed(bench, { blockedAfter: 0 }), []);
    await bench.store.terminate([{ runId: "b2", reason: undefined }]);
    same(await claimed(bench, { blockedAfter: 0 }), ["b1"]);
  });
}
