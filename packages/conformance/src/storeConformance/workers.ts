// Conformance: which workers are alive, and what they serve.
// Owns: tests of `beat`, `leave` and `liveWorkers`. A store may do without them.
// Invariants tested: B6.

import assert from "node:assert/strict";
import type { WorkerBeat } from "holdfast/store";
import { type Bench, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const BEAT: WorkerBeat = {
  id: "w1",
  host: "machine",
  pid: 42,
  queue: "default",
  serves: [
    { workflow: "order", versions: ["1", undefined] },
    { workflow: "refund", versions: "*" },
    { workflow: "holdfast.bulk", versions: [undefined], queue: "holdfast" },
  ],
  activities: ["mail"],
  concurrency: 100,
  activityConcurrency: 10,
  active: 3,
  activeActivities: 1,
  aliveFor: 30_000,
};
const { aliveFor: _, ...INFO } = BEAT;

export function workers({ test, shares }: Suite): void {
  test("B6 a worker is listed with what it said last, from its first beat on", async (bench) => {
    same(await live(bench), []);
    await beat(bench);
    same(await live(bench), [{ ...INFO, startedAt: START, seenAt: START }]);
    bench.time += 10_000;
    await beat(bench, { active: 0, activeActivities: 0 });
    same(await live(bench), [{ ...INFO, active: 0, activeActivities: 0, startedAt: START, seenAt: START + 10_000 }]);
  });

  test("B6 a worker that does not beat is listed for as long as its last beat said, and no longer", async (bench) => {
    await beat(bench);
    await beat(bench, { id: "w2", aliveFor: 2_000 });
    bench.time += 2_000;
    same(await ids(bench), ["w1", "w2"]);
    bench.time += 1;
    same(await ids(bench), ["w1"]);
    bench.time += 30_000;
    same(await ids(bench), []);
    await beat(bench, { id: "w2" }); // its row goes with another's beat, and a new one begins
    same(
      (await live(bench)).map(({ id, startedAt }) => [id, startedAt]),
      [["w2", bench.time]],
    );
  });

  test("B6 a worker that leaves is not listed any more", async (bench) => {
    await beat(bench);
    await beat(bench, { id: "w2" });
    await bench.store.leave?.("w1");
    await bench.store.leave?.("unknown");
    same(await ids(bench), ["w2"]);
  });

  test("B6 a dead worker is not listed for longer because the clock was set back", async (bench) => {
    await beat(bench);
    await beat(bench, { id: "w2" });
    bench.time -= 3_600_000;
    await beat(bench, { id: "w2" });
    same(await ids(bench), ["w2"]);
  });

  if (shares)
    test("B6 workers of other processes are listed", async (bench) => {
      const other = await bench.beside();
      try {
        await beat(other, { id: "there" });
        bench.time += 1;
        await beat(bench, { id: "here" });
        same(await ids(bench), ["there", "here"]);
        same(await ids(other), ["there", "here"]);
      } finally {
        await other.store.close();
      }
    });
}

async function beat(bench: Bench, more: Partial<WorkerBeat> = {}): Promise<void> {
  assert.ok(bench.store.beat !== undefined, "the store has no list of workers");
  await bench.store.beat({ ...BEAT, ...more });
}
async function live(bench: Bench) {
  assert.ok(bench.store.liveWorkers !== undefined);
  return bench.store.liveWorkers();
}
const ids = async (bench: Bench): Promise<string[]> => (await live(bench)).map(({ id }) => id);
