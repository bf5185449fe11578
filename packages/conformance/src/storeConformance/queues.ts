// Conformance: queues with limits, keys and pauses.
// Owns: tests of `setQueue`, `pauseQueue` and similar methods. What is held: `queueSlots.ts`; fairness and rates: `queueShares.ts`.
// Invariants tested: Q1, Q6, Q7, Q8.

import assert from "node:assert/strict";
import type { StoredQueueSpec } from "holdfast/store";
import { CANCEL, failure, LEASE, range, START, same, signal } from "./bench.ts";
import { add, claimHeld, claimIds, first, limit, Q, queuesOf } from "./queueBench.ts";
import type { Suite } from "./suite.ts";

export function queues({ test, crashes, shares }: Suite): void {
  // ── Q1 ──

  test("Q1 a queue that the store has never heard of has no limits, no pause and no work", async (bench) => {
    const load = { waiting: 0, held: 0, oldest: undefined };
    const empty = { name: "q", spec: {}, paused: false, pausedUntil: undefined, pausedKeys: [], runs: load, activities: load };
    same(await queuesOf(bench).getQueue("q"), empty);
    same(await queuesOf(bench).listQueues(), []);
  });
  test("Q1 limits are kept as they were set, and replaced as a whole", async (bench) => {
    const spec: StoredQueueSpec = {
      concurrency: 3,
      rate: { limit: 5, per: 60_000 },
      counts: "open",
      perKey: { concurrency: 1, rate: { limit: 1, per: 1 } },
      keys: { vip: { concurrency: 2, weight: 10 }, "": { weight: 0.5 }, "a b": {} },
    };
    await limit(bench, spec);
    same((await queuesOf(bench).getQueue("q")).spec, spec);
    await limit(bench, { concurrency: 1 });
    same((await queuesOf(bench).getQueue("q")).spec, { concurrency: 1 });
    const huge = { concurrency: Number.MAX_SAFE_INTEGER, rate: { limit: Number.MAX_SAFE_INTEGER, per: 1 } };
    await limit(bench, { ...huge, perKey: huge, keys: { k: huge } });
    same((await queuesOf(bench).getQueue("q")).spec, { ...huge, perKey: huge, keys: { k: huge } });
    await add(bench, ["a"]);
    await add(bench, ["b"], { key: "k" });
    same((await claimIds(bench)).sort(), ["a", "b"]);
  });
  test("Q1 queues are listed by name if they have limits, a pause or work", async (bench) => {
    await bench.created("a", { queue: "work" });
    await bench.close(await bench.running("b", { queue: "past" }));
    await bench.created("c", { queue: "keyed", key: "k" });
    await queuesOf(bench).setQueue("limited", { concurrency: 1 });
    await queuesOf(bench).pauseQueue("paused", {});
    await queuesOf(bench).pauseQueue("partly", { key: "k" });
    await bench.waitingFor("d", bench.newTask(1, { queue: "activities" }));
    const names = (await queuesOf(bench).listQueues()).map(({ name }) => name);
    same(names, ["activities", "keyed", "limited", "partly", "paused", "queue of d", "work"]);
    await queuesOf(bench).deleteQueue("limited");
    await queuesOf(bench).resumeQueue("paused");
    await queuesOf(bench).resumeQueue("partly", "k");
    same((await queuesOf(bench).listQueues()).map(({ name }) => name), ["activities", "keyed", "queue of d", "work"]); // biome-ignore format: one line
  });
  test("Q1 the load of a queue: what waits, since when, and what is held", async (bench) => {
    await limit(bench, { concurrency: 2 });
    await add(bench, ["a", "b", "c"]);
    bench.time += 10;
    await add(bench, ["d"], { key: "k" });
    await add(bench, ["later"], { delay: 1_000 });
    await claimIds(bench);
    same((await queuesOf(bench).getQueue("q")).runs, { waiting: 2, held: 2, oldest: START });
    bench.time += 1_000;
    same((await queuesOf(bench).getQueue("q")).runs.waiting, 3);
  });
  test("Q1 keys without limits: all of their runs are claimed, with the plain ones of the queue", async (bench) => {
    await add(bench, ["a1", "a2"], { key: "a" });
    await add(bench, ["b1"], { key: "b" });
    await add(bench, ["p1", "p2"]);
    same((await claimIds(bench)).sort(), ["a1", "a2", "b1", "p1", "p2"]);
  });
  test("Q1 the key of a run is kept and given to its worker", async (bench) => {
    await bench.created("a", { ...Q, key: "k" });
    assert.equal((await bench.claimRun("a")).run.key, "k");
    assert.equal((await bench.row("a")).key, "k");
  });
  test("Q1 runs without key are together one key, which `perKey` does not limit", async (bench) => {
    await limit(bench, { perKey: { concurrency: 1 } });
    await add(bench, ["p1", "p2", "p3"]);
    await add(bench, ["a1", "a2"], { key: "a" });
    same((await claimIds(bench)).sort(), ["a1", "p1", "p2", "p3"]);
  });
  test("Q1 what an entry of `keys` leaves out is as in `perKey`", async (bench) => {
    await limit(bench, { perKey: { concurrency: 1 }, keys: { big: { concurrency: 3 }, heavy: { weight: 5 } } });
    for (const key of ["big", "heavy", "other"]) await add(bench, range(4).map((i) => `${key}${i}`), { key }); // biome-ignore format: one line
    same((await claimIds(bench)).sort(), ["big0", "big1", "big2", "heavy0", "other0"]);
  });
  test("Q1 the first limits count what workers have already, and file what waits", async (bench) => {
    await add(bench, ["a", "b", "c"]);
    const [held] = await claimHeld(bench, { limit: 1 });
    await limit(bench, { concurrency: 2 });
    same(await claimIds(bench), ["b"]);
    assert.ok(held !== undefined);
    await bench.close(held);
    same(await claimIds(bench), ["c"]);
  });
  test("Q1 without its limits a queue is as before: what waits is claimed, with a key or without", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    await add(bench, ["k1", "k2"], { key: "k" });
    same((await claimIds(bench)).length, 1);
    await queuesOf(bench).deleteQueue("q");
    same((await claimIds(bench)).length, 3);
    same((await queuesOf(bench).getQueue("q")).spec, {});
  });
  test("Q1 activities have the same limits, apart from those of runs", async (bench) => {
    await queuesOf(bench).setQueue("tasks", { concurrency: 2, perKey: { concurrency: 1 } });
    await bench.waitingFor("a", ...range(3).map((i) => bench.newTask(i, { key: "k" })), bench.newTask(3), bench.newTask(4));
    await add(bench, ["r1", "r2"], { queue: "tasks" });
    const claimed = await bench.claimTasks();
    same([claimed.length, claimed.filter(({ seq }) => seq < 3).length], [2, 1]);
    same((await bench.claim({ queue: "tasks" })).runs.length, 2);
    same(await bench.claimTasks(), []);
    same((await queuesOf(bench).getQueue("tasks")).activities, { waiting: 3, held: 2, oldest: START });
    for (const task of claimed) await bench.complete(task);
    same((await bench.claimTasks()).length, 2);
  });
  test("Q1 Q8 limits and pauses reach activities that wait already", async (bench) => {
    await bench.waitingFor("a", ...range(3).map((i) => bench.newTask(i)));
    await queuesOf(bench).setQueue("tasks", { concurrency: 1 });
    const task = await bench.claimTask();
    same(await bench.claimTasks(), []);
    await queuesOf(bench).pauseQueue("tasks", {});
    await bench.complete(task);
    same(await bench.claimTasks(), []);
    await queuesOf(bench).resumeQueue("tasks");
    same((await bench.claimTasks()).length, 1);
    await queuesOf(bench).deleteQueue("tasks");
    same((await bench.claimTasks()).length, 1);
  });

  // ── Q6, Q7, Q8 ──

  test("Q6 a key that is full or paused is passed over, whatever waits in it", async (bench) => {
    await limit(bench, { perKey: { concurrency: 1 } });
    await add(bench, range(50).map((i) => `a${i}`), { key: "a", priority: 5 }); // biome-ignore format: one line
    await add(bench, range(50).map((i) => `b${i}`), { key: "b", priority: 5 }); // biome-ignore format: one line
    bench.time += 1;
    await add(bench, ["c0"], { key: "c" });
    await queuesOf(bench).pauseQueue("q", { key: "b" });
    same((await claimIds(bench)).sort(), ["a0", "c0"]);
    same(await claimIds(bench), []);
  });
  test("Q7 W1 a slot that becomes free is announced, by parking and by every end", async (bench) => {
    await limit(bench, { concurrency: 1, perKey: { concurrency: 1 } });
    let works = 0;
    const stop = bench.raw.watch(({ work }) => {
      if (work === true) works++;
    });
    const isAnnounced = async (free: () => Promise<unknown>): Promise<void> => {
      await new Promise((resolve) => setImmediate(resolve));
      const before = works;
      await free();
      for (let tries = 0; works === before && tries < 200; tries++) await new Promise((resolve) => setTimeout(resolve, 10));
      assert.ok(works > before, "the slot is announced");
    };
    try {
      const parked = await bench.running("a", { ...Q, key: "k" });
      await isAnnounced(() => bench.park(parked, { turn: bench.turn(parked) }));
      const closed = await bench.running("b", { ...Q });
      await isAnnounced(() => bench.close(closed));
      await bench.running("c", { ...Q });
      await isAnnounced(() => bench.store.terminate([{ runId: "c", reason: undefined }]));
    } finally {
      stop();
    }
  });
  test("Q7 a claim that finds a queue full names no moment that has passed", async (bench) => {
    await limit(bench, { concurrency: 1 });
    await add(bench, ["a", "b"]);
    await add(bench, ["later"], { delay: 500 });
    await claimIds(bench, { limit: 1 });
    const { runs, nextAt } = await bench.claim({ ...Q });
    same([runs, nextAt === undefined || nextAt > bench.time], [[], true]);
  });
  test("Q7 W1 the next moment of a claim is that of the next run with a key", async (bench) => {
    await add(bench, ["later"], { key: "k", delay: 500 });
    same((await bench.claim({ ...Q })).nextAt, START + 500);
    bench.time += 500;
    same(await claimIds(bench), ["later"]);
  });
  test("Q8 new limits count from the next claim and interrupt nothing", async (bench) => {
    await limit(bench, { concurrency: 3 });
    await add(bench, ["a", "b", "c", "d"]);
    const [a, b, c] = await claimHeld(bench);
    assert.ok(a !== undefined && b !== undefined && c !== undefined);
    await limit(bench, { concurrency: 1 });
    await bench.commit(a, { turn: bench.turn(a) });
    for (const held of [a, b]) {
      await bench.close(held);
      same(await claimIds(bench), []);
    }
    await bench.close(c);
    same(await claimIds(bench), ["d"]);
  });
  test("Q8 a paused queue gives out nothing: no new, resumed, canceled or expired run, and no blocked one", async (bench) => {
    await bench.parked("canceled", { ...Q });
    await bench.parked("told", { ...Q });
    await bench.running("expired", { ...Q });
    const blocked = await bench.running("blocked", { ...Q });
    await bench.park(blocked, { status: "blocked", blocked: { error: failure("no"), code: "" } });
    await bench.sent("canceled", CANCEL);
    await bench.sent("told", signal("s1"));
    await add(bench, ["new"]);
    await add(bench, ["keyed"], { key: "k" });
    bench.time += LEASE + 1;
    await queuesOf(bench).pauseQueue("q", {});
    const { runs, nextAt } = await bench.claim({ ...Q });
    same([runs, nextAt], [[], undefined]);
    same(await claimIds(bench, { blockedAfter: 0 }), []);
    same([(await queuesOf(bench).getQueue("q")).paused, (await queuesOf(bench).getQueue("q")).pausedUntil], [true, undefined]);
    await queuesOf(bench).resumeQueue("q");
    same((await claimIds(bench)).sort(), ["canceled", "expired", "keyed", "new", "told"]);
    same(await claimIds(bench, { blockedAfter: 0 }), ["blocked"]);
  });
  test("Q8 deadlines count in a paused queue", async (bench) => {
    await queuesOf(bench).pauseQueue("q", {});
    await add(bench, ["a"], { deadline: 100 });
    bench.time += 100;
    await bench.store.expire();
    same((await bench.row("a")).status, "failed");
  });
  test("Q7 Q8 a pause with a time ends by itself, and a claim says when", async (bench) => {
    await add(bench, ["a"]);
    await queuesOf(bench).pauseQueue("q", { for: 500 });
    same((await bench.claim({ ...Q })).nextAt, START + 500);
    same((await queuesOf(bench).getQueue("q")).pausedUntil, START + 500);
    bench.time += 499;
    same(await claimIds(bench), []);
    bench.time += 1;
    same([(await queuesOf(bench).getQueue("q")).paused, (await queuesOf(bench).getQueue("q")).pausedUntil], [false, undefined]);
    same(await claimIds(bench), ["a"]);
  });
  test("Q7 Q8 the pause of a key, with its time; the newest pause counts", async (bench) => {
    await add(bench, ["a"], { key: "a" });
    await add(bench, ["b"], { key: "b" });
    await queuesOf(bench).pauseQueue("q", { key: "a" });
    await queuesOf(bench).pauseQueue("q", { key: "z" });
    same((await queuesOf(bench).getQueue("q")).pausedKeys, ["a", "z"]);
    same(await claimIds(bench), ["b"]);
    await queuesOf(bench).pauseQueue("q", { key: "a", for: 100 });
    same((await bench.claim({ ...Q })).nextAt, START + 100);
    bench.time += 100;
    same((await queuesOf(bench).getQueue("q")).pausedKeys, ["z"]);
    same(await claimIds(bench), ["a"]);
  });
  test("B3 a claim covers other queues that its entries name", async (bench) => {
    await add(bench, ["a"]);
    await add(bench, ["bulk"], { queue: "holdfast", workflow: "holdfast.bulk" });
    await add(bench, ["not"], { queue: "holdfast" });
    const serves = [{ workflow: "order", versions: "*" }, { workflow: "holdfast.bulk", versions: "*", queue: "holdfast" }] as const; // biome-ignore format: one line
    same((await claimIds(bench, { serves })).sort(), ["a", "bulk"]);
    await add(bench, ["next"], { queue: "holdfast", workflow: "holdfast.bulk", delay: 50 });
    same((await bench.claim({ ...Q, serves })).nextAt, START + 50);
  });
  if (crashes)
    test("Q8 limits, pauses and what is held outlive the process", async (bench) => {
      await limit(bench, { concurrency: 2, counts: "open" });
      await add(bench, ["a", "b", "c"], { key: "k" });
      const a = await first(claimHeld(bench, { limit: 1 }));
      await bench.park(a, { turn: bench.turn(a) });
      await queuesOf(bench).pauseQueue("q", { key: "z", for: 1_000 });
      await bench.crash();
      same(await claimIds(bench), ["b"]);
      same((await queuesOf(bench).getQueue("q")).pausedKeys, ["z"]);
      same((await queuesOf(bench).getQueue("q")).spec, { concurrency: 2, counts: "open" });
    });
  if (shares)
    test("Q2 Q8 limits and pauses hold for all processes", async (bench) => {
      const other = await bench.beside();
      await add(bench, ["warm"]);
      same(await claimIds(bench), ["warm"]);
      await limit(other, { concurrency: 3 });
      await add(bench, range(10).map((i) => `r${i}`)); // biome-ignore format: one line
      const claims = await Promise.all([bench, other, bench, other].map((one) => claimIds(one, { limit: 2 })));
      assert.ok(claims.flat().length <= 2);
      await queuesOf(other).pauseQueue("q", {});
      await other.store.terminate([{ runId: "warm", reason: undefined }]);
      same(await claimIds(bench), []);
      await other.store.close();
    });
}
