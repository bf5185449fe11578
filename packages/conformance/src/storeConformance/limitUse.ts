// Conformance: what the store says of the limits that hold one piece of work back.
// Owns: tests of `limitsFor`.
// Invariants tested: B6, Q1, Q2, Q3, Q4, Q8.

import assert from "node:assert/strict";
import type { LimitedWork, LimitsFor, LimitUse } from "holdfast/store";
import { type Bench, heldOf, LEASE, START, same, signal } from "./bench.ts";
import { add, claimIds, limit, Q, queuesOf } from "./queueBench.ts";
import type { Suite } from "./suite.ts";

const FREE: LimitUse = { paused: false, pausedUntil: undefined, slots: undefined, starts: undefined };
const NEW: LimitsFor["needs"] = { queueSlot: true, keySlot: true, start: true };

async function limits(bench: Bench, work: string | LimitedWork): Promise<LimitsFor> {
  const found = await queuesOf(bench).limitsFor(typeof work === "string" ? { of: "runs", runId: work } : work);
  assert.ok(found !== undefined, "the store knows it");
  return found;
}
const activityOf = (queue: string, key?: string): LimitedWork => ({ of: "activities", queue, key });

export function limitUse({ test }: Suite): void {
  test("B6 Q1 work in a queue without limits is held back by nothing; of an unknown run nothing is known", async (bench) => {
    await add(bench, ["a"]);
    same(await limits(bench, "a"), { queue: FREE, key: FREE, needs: NEW });
    same(await limits(bench, activityOf("anywhere", "k")), { queue: FREE, key: FREE, needs: NEW });
    same(await queuesOf(bench).limitsFor({ of: "runs", runId: "unknown" }), undefined);
  });
  test("B6 Q2 slots in use, of the queue and of the key of a run", async (bench) => {
    await limit(bench, { concurrency: 3, perKey: { concurrency: 1 }, keys: { big: { concurrency: 2 } } });
    await add(bench, ["k1", "k2"], { key: "k" });
    await add(bench, ["b1", "b2"], { key: "big" });
    await add(bench, ["plain"]);
    same((await claimIds(bench)).length, 3);
    const slots = async (id: string) => {
      const { queue, key } = await limits(bench, id);
      return [queue.slots, key.slots];
    };
    const waiting = { held: 3, limit: 3 };
    same(await slots("k2"), [waiting, { held: 1, limit: 1 }]);
    same((await slots("b2"))[1]?.limit, 2);
    same(await slots("plain"), [waiting, undefined]);
  });
  test("B6 Q4 when a rate has room again, of the queue and of the key of a run", async (bench) => {
    const [queueRate, keyRate] = [{ limit: 2, per: 1_000 }, { limit: 1, per: 5_000 }]; // biome-ignore format: one line
    await limit(bench, { rate: queueRate, perKey: { rate: keyRate } });
    await add(bench, ["a1", "a2"], { key: "a" });
    await add(bench, ["b1"], { key: "b" });
    await add(bench, ["p"]);
    same((await limits(bench, "a2")).queue.starts, queueRate);
    same(await claimIds(bench, { limit: 1 }), ["a1"]);
    bench.time += 100;
    const { queue, key } = await limits(bench, "a2");
    same([queue.starts, key.starts], [queueRate, { ...keyRate, roomAt: START + 5_000 }]);
    await claimIds(bench, { limit: 1 });
    same((await limits(bench, "p")).queue.starts, { ...queueRate, roomAt: START + 1_000 });
    same((await limits(bench, "p")).key, FREE);
    bench.time = START + 1_000;
    same((await limits(bench, "p")).queue.starts, queueRate);
  });
  test("B6 Q8 pauses of the queue and of the key, with their ends", async (bench) => {
    await add(bench, ["a"], { key: "k" });
    await queuesOf(bench).pauseQueue("q", { for: 100 });
    await queuesOf(bench).pauseQueue("q", { key: "k" });
    const paused = async () => {
      const { queue, key } = await limits(bench, "a");
      return [queue.paused, queue.pausedUntil, key.paused, key.pausedUntil];
    };
    same(await paused(), [true, START + 100, true, undefined]);
    bench.time += 100;
    same(await paused(), [false, undefined, true, undefined]);
  });
  test("B6 Q3 Q4 what has begun is not a start, and what a worker has lost needs nothing", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a"]);
    const held = await bench.hold("a");
    await bench.park(held, { turn: bench.turn(held) });
    await bench.sent("a", signal("s1"));
    same((await limits(bench, "a")).needs, { ...NEW, start: false });
    await bench.hold("a");
    bench.time += LEASE + 1;
    same((await limits(bench, "a")).needs, { queueSlot: false, keySlot: false, start: false });
  });
  test("B6 Q2 counts open: what a run holds, and what its ancestors hold for it, it does not need", async (bench) => {
    await limit(bench, { concurrency: 1, perKey: { concurrency: 1 }, counts: "open" });
    await add(bench, ["p", "other"], { key: "k" });
    const [claimed] = (await bench.claim({ ...Q })).runs;
    assert.ok(claimed !== undefined);
    const parent = heldOf(claimed);
    const link = (seq: number) => ({ runId: "p", execution: 1, seq, parentClose: "cancel", announce: false }) as const;
    const children = [1, 2].map((seq) => bench.newRun(`c${seq}`, { ...Q, key: seq === 1 ? "k" : "another", parent: link(seq) }));
    await bench.park(parent, { turn: bench.turn(parent), children });
    same((await limits(bench, "p")).needs, { queueSlot: false, keySlot: false, start: false });
    same((await limits(bench, "c1")).needs, { queueSlot: false, keySlot: false, start: true });
    same((await limits(bench, "c2")).needs, { queueSlot: false, keySlot: true, start: true });
    same((await limits(bench, "other")).needs, NEW);
    same((await limits(bench, "other")).key.slots, { held: 1, limit: 1 });
  });
  test("B6 activities are counted apart from runs", async (bench) => {
    await queuesOf(bench).setQueue("tasks", { concurrency: 2, perKey: { concurrency: 1, rate: { limit: 1, per: 1_000 } } });
    await bench.waitingFor("a", bench.newTask(1, { key: "k" }), bench.newTask(2, { key: "k" }));
    await add(bench, ["r"], { queue: "tasks" });
    same((await bench.claimTasks()).length, 1);
    const { queue, key, needs } = await limits(bench, activityOf("tasks", "k"));
    same([queue.slots, key.slots], [{ held: 1, limit: 2 }, { held: 1, limit: 1 }]); // biome-ignore format: one line
    same([key.starts?.roomAt, needs], [START + 1_000, NEW]);
    same((await limits(bench, "r")).queue.slots, { held: 0, limit: 2 });
  });
}
