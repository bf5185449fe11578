// Conformance: how keys share a queue, and rates.
// Owns: tests of the order of claims among keys, and of how many starts a window has.
// Invariants tested: Q4, Q5.

import assert from "node:assert/strict";
import { type Bench, LEASE, range, runIds, START, same, signal } from "./bench.ts";
import { add, CONTINUED, claimHeld, claimIds, first, limit, Q, queuesOf } from "./queueBench.ts";
import type { Suite } from "./suite.ts";

/** By the first letter of their ids, which is their key. */
function counts(ids: readonly string[]): Record<string, number> {
  const counted: Record<string, number> = {};
  for (const [key = ""] of ids) counted[key] = (counted[key] ?? 0) + 1;
  return counted;
}
/** Keys of weight 1 that all have something to give. */
function assertShared(ids: readonly string[], keys: readonly string[]): void {
  const counted = counts(ids);
  const each = keys.map((key) => counted[key] ?? 0);
  assert.ok(Math.max(...each) - Math.min(...each) <= 2, ids.join(" "));
}
async function backlog(bench: Bench, key: string, count: number, priority = 0): Promise<void> {
  await add(bench, range(count).map((i) => `${key}${i}`), { key, priority }); // biome-ignore format: one line
}

export function queueShares({ test }: Suite): void {
  // ── Q4 ──

  test("Q4 no window has more starts than the rate allows, wherever it begins", async (bench) => {
    await limit(bench, { rate: { limit: 3, per: 1_000 } });
    await add(bench, range(20).map((i) => `r${i}`)); // biome-ignore format: one line
    const starts: number[] = [];
    for (const step of [0, 999, 1, 1, 500, 498, 1, 1, 1_000, 300, 700, 999, 1]) {
      bench.time += step;
      for (const _ of await claimIds(bench, { limit: 2 })) starts.push(bench.time);
    }
    for (const from of starts) assert.ok(starts.filter((at) => at >= from && at < from + 1_000).length <= 3, `from ${from}`);
    assert.ok(starts.length >= 12, `work conserving: ${starts.length}`);
  });
  test("Q4 Q7 a claim says when the rate has room again", async (bench) => {
    await limit(bench, { rate: { limit: 2, per: 1_000 } });
    await add(bench, ["a", "b", "c"]);
    await claimIds(bench, { limit: 1 });
    bench.time += 400;
    await claimIds(bench, { limit: 1 });
    bench.time += 100;
    const { runs, nextAt } = await bench.claim({ ...Q });
    same([runs, nextAt], [[], START + 1_000]);
    bench.time = START + 1_000;
    same(await claimIds(bench), ["c"]);
  });
  test("Q4 Q7 a claim that uses up a rate says when it has room again", async (bench) => {
    await limit(bench, { rate: { limit: 2, per: 1_000 } });
    await add(bench, ["a", "b", "c", "d"]);
    await claimIds(bench, { limit: 1 });
    bench.time += 400;
    const first = await bench.claim({ ...Q });
    same([runIds(first), first.nextAt], [["b"], START + 1_000]);
    bench.time = START + 1_400;
    await limit(bench, { perKey: { rate: { limit: 1, per: 300 } } });
    await add(bench, ["k1", "k2"], { key: "k" });
    const second = await bench.claim({ ...Q });
    same([runIds(second).sort(), second.nextAt], [["c", "d", "k1"], START + 1_700]);
  });
  test("Q4 a rate for each key, and another for one of them", async (bench) => {
    await limit(bench, { perKey: { rate: { limit: 1, per: 1_000 } }, keys: { b: { rate: { limit: 2, per: 100 } } } });
    await backlog(bench, "a", 5);
    await backlog(bench, "b", 5);
    await add(bench, ["p1", "p2"]);
    same(counts(await claimIds(bench)), { a: 1, b: 2, p: 2 });
    same((await bench.claim({ ...Q })).nextAt, START + 100);
    bench.time += 100;
    same(counts(await claimIds(bench)), { b: 2 });
  });
  test("Q4 continue-as-new, resumed and recovered runs do not count as starts", async (bench) => {
    await limit(bench, { rate: { limit: 1, per: 1_000_000 } });
    await bench.created("a", { ...Q });
    let held = await bench.hold("a");
    await bench.park(held, { turn: bench.turn(held) });
    await bench.sent("a", signal("s1"));
    held = await bench.hold("a");
    await bench.close(held, CONTINUED);
    held = await bench.hold("a");
    bench.time += LEASE + 1;
    held = await bench.hold("a", { workerId: "w2" });
    await bench.close(held, { status: "failed" }, { turn: bench.turn(held) });
    await bench.store.resume(["a"]);
    held = await bench.hold("a");
    await bench.close(held);
    await add(bench, ["a"], { onConflict: "restart-if-closed" });
    same(await claimIds(bench), []);
  });
  test("Q4 for activities every attempt counts", async (bench) => {
    await queuesOf(bench).setQueue("tasks", { rate: { limit: 2, per: 10_000 } });
    await bench.waitingFor("a", bench.newTask(1), bench.newTask(2));
    await bench.fail(await bench.claimTask());
    bench.time += 1_000; // the retry is due
    same((await bench.claimTasks()).length, 1);
    same(await bench.claimTasks(), []);
    bench.time = START + 10_000;
    same((await bench.claimTasks()).length, 1);
  });
  test("Q4 the start of a run is the time of its first claim", async (bench) => {
    await limit(bench, { rate: { limit: 1, per: 100 } });
    await add(bench, ["a", "b"]);
    await claimIds(bench);
    bench.time += 100;
    await claimIds(bench);
    same([(await bench.row("a")).startedAt, (await bench.row("b")).startedAt], [START, START + 100]);
  });

  // ── Q5 ──

  test("Q5 keys share evenly, however much waits in one of them", async (bench) => {
    await backlog(bench, "a", 200);
    bench.time += 1;
    await backlog(bench, "b", 20);
    await backlog(bench, "c", 20);
    const seen: string[] = [];
    for (const size of [1, 2, 3, 5, 7, 12]) {
      seen.push(...(await claimIds(bench, { limit: size })));
      const { a = 0, b = 0, c = 0 } = counts(seen);
      assert.ok(Math.max(a, b, c) - Math.min(a, b, c) <= 2, JSON.stringify([a, b, c]));
    }
  });
  test("Q5 by weight", async (bench) => {
    await limit(bench, { keys: { a: { weight: 3 }, c: { weight: 0.5 } } });
    for (const key of ["a", "b", "c"]) await backlog(bench, key, 100);
    const seen: string[] = [];
    for (const _ of range(45)) seen.push(...(await claimIds(bench, { limit: 2 })));
    const { a = 0, b = 0, c = 0 } = counts(seen);
    assert.ok(Math.abs(a / 3 - b) <= 1 / 3 + 1, `${a} ${b}`);
    assert.ok(Math.abs(c / 0.5 - b) <= 1 + 2, `${c} ${b}`);
  });
  test("Q5 a key that was idle has saved up nothing", async (bench) => {
    await backlog(bench, "a", 2);
    await backlog(bench, "b", 100);
    await claimIds(bench, { limit: 40 });
    await add(bench, range(50).map((i) => `a again ${i}`), { key: "a" }); // biome-ignore format: one line
    const { a = 0, b = 0 } = counts(await claimIds(bench, { limit: 20 }));
    assert.ok(Math.abs(a - b) <= 2, `${a} ${b}`);
  });
  test("Q5 a new key begins with the others", async (bench) => {
    await backlog(bench, "a", 100);
    await claimIds(bench, { limit: 50 });
    await backlog(bench, "n", 50);
    const { a = 0, n = 0 } = counts(await claimIds(bench, { limit: 20 }));
    assert.ok(Math.abs(a - n) <= 2, `${a} ${n}`);
  });
  test("Q5 a key that was served is behind, also if it was idle for a moment", async (bench) => {
    await backlog(bench, "b", 10);
    const seen: string[] = [];
    for (const i of range(8)) {
      await add(bench, [`a${i}`], { key: "a" }); // one at a time: it is idle after each claim of it
      seen.push(...(await claimIds(bench, { limit: 2 })));
    }
    const { a = 0, b = 0 } = counts(seen);
    assert.ok(Math.abs(a - b) <= 2, `${a} ${b}`);
  });
  test("Q5 priority goes before shares, over all keys", async (bench) => {
    await backlog(bench, "a", 5);
    await backlog(bench, "b", 5, 1);
    await add(bench, range(5).map((i) => `urgent ${i}`), { key: "a", priority: 2 }); // biome-ignore format: one line
    const seen = await claimIds(bench, { limit: 12 });
    same([counts(seen.slice(0, 5)), counts(seen.slice(5, 10)), counts(seen.slice(10))], [{ u: 5 }, { b: 5 }, { a: 2 }]);
  });
  test("Q5 W2 within a key resumed before new, then by availability", async (bench) => {
    await limit(bench, { perKey: { concurrency: 10 } });
    const told = { ...Q, key: "k" };
    await bench.parked("old1", told);
    await bench.parked("old2", told);
    await add(bench, ["new1"], { key: "k" });
    bench.time += 10;
    await bench.sent("old2", signal("s1"));
    bench.time += 10;
    await bench.sent("old1", signal("s2"));
    await add(bench, ["new2"], { key: "k" });
    const seen: string[] = [];
    for (const _ of range(4)) seen.push(...(await claimIds(bench, { limit: 1 })));
    same(seen, ["old2", "old1", "new1", "new2"]);
  });
  test("Q5 Q1 the runs without key share as one key", async (bench) => {
    await add(bench, range(50).map((i) => `p${i}`)); // biome-ignore format: one line
    await backlog(bench, "a", 50);
    await backlog(bench, "b", 50);
    const { a = 0, b = 0, p = 0 } = counts(await claimIds(bench, { limit: 30 }));
    assert.ok(Math.max(a, b, p) - Math.min(a, b, p) <= 2, `${a} ${b} ${p}`);
  });
  test("Q5 claims that need no slot move no key", async (bench) => {
    await limit(bench, { concurrency: 100, counts: "open" });
    await add(bench, ["told"], { key: "a", workflow: "told" });
    for (const i of range(10)) {
      const held = await bench.hold("told");
      await bench.park(held, { turn: bench.turn(held) });
      await bench.sent("told", signal(`s${i}`));
    }
    await backlog(bench, "a", 20);
    await backlog(bench, "b", 20);
    const { a = 0, b = 0 } = counts(await claimIds(bench, { limit: 20 }));
    assert.ok(Math.abs(a - b) <= 2, `${a} ${b}`);
  });
  test("Q5 a rate is shared by starts, however often runs of one key are resumed while it has no room", async (bench) => {
    await limit(bench, { rate: { limit: 1, per: 1_000 } });
    await add(bench, ["told"], { key: "a" });
    let held = await bench.hold("told");
    await backlog(bench, "a", 20);
    await backlog(bench, "b", 20);
    const seen: string[] = [];
    for (const i of range(12)) {
      for (const time of range(3)) {
        await bench.park(held, { turn: bench.turn(held) });
        await bench.sent("told", signal(`while none may start ${i}.${time}`));
        held = await bench.hold("told");
      }
      bench.time += 1_000;
      await bench.store.renew(held.workerId, LEASE, [{ runId: "told", epoch: held.epoch, seen: 0 }]);
      const started = await first(claimHeld(bench));
      seen.push(started.runId);
      await bench.close(started);
      assertShared(seen, ["a", "b"]);
    }
    same(seen.length, 12);
  });
  test("Q5 with a rate, keys share what has begun, too", async (bench) => {
    await limit(bench, { concurrency: 1, rate: { limit: 1_000, per: 1_000_000 } });
    for (const id of ["a1", "a2", "a3"]) await bench.parked(id, { ...Q, key: "a" });
    await bench.parked("b1", { ...Q, key: "b" });
    await backlog(bench, "c", 10);
    const seen: string[] = [];
    for (const id of ["a1", "a2", "a3", "b1"]) await bench.sent(id, signal("first"));
    for (const i of range(15)) {
      bench.time += 1;
      const held = await first(claimHeld(bench));
      seen.push(held.runId);
      if (held.runId.startsWith("c")) await bench.close(held);
      else {
        await bench.park(held, { turn: bench.turn(held) });
        await bench.sent(held.runId, signal(`again ${i}`));
      }
    }
    const { a = 0, b = 0, c = 0 } = counts(seen);
    assert.ok(Math.max(a, b, c) - Math.min(a, b, c) <= 2, `${a} ${b} ${c}`);
  });
  test("Q5 a start that waits for a rate has saved up nothing against what has begun", async (bench) => {
    await limit(bench, { concurrency: 1, rate: { limit: 10, per: 1_000 } });
    await bench.parked("told", { ...Q, key: "a" });
    await backlog(bench, "c", 40);
    for (const _ of range(9)) await bench.close(await first(claimHeld(bench)));
    for (const i of range(20)) {
      await bench.sent("told", signal(`s${i}`));
      const held = await first(claimHeld(bench));
      same(held.runId, "told");
      await bench.park(held, { turn: bench.turn(held) });
    }
    bench.time += 1_000;
    await bench.sent("told", signal("first"));
    const seen: string[] = [];
    for (const i of range(8)) {
      const held = await first(claimHeld(bench));
      seen.push(held.runId);
      if (held.runId !== "told") await bench.close(held);
      else {
        await bench.park(held, { turn: bench.turn(held) });
        await bench.sent("told", signal(`again ${i}`));
      }
    }
    const { t = 0, c = 0 } = counts(seen);
    assert.ok(Math.abs(t - c) <= 2, `${t} ${c}`);
  });
  test("Q5 W2 with a rate, too, what was resumed goes before what is new", async (bench) => {
    await limit(bench, { concurrency: 1, rate: { limit: 1_000, per: 1_000_000 } });
    const resumed = ["t1", "t2", "t3"];
    for (const id of resumed) await bench.parked(id, { ...Q });
    await add(bench, ["n1", "n2", "n3"]);
    for (const id of resumed) {
      bench.time += 1;
      await bench.sent(id, signal("go on"));
    }
    const seen: string[] = [];
    for (const _ of range(6)) {
      const held = await first(claimHeld(bench));
      seen.push(held.runId);
      await bench.close(held);
    }
    same(seen, ["t1", "t2", "t3", "n1", "n2", "n3"]);
  });
  test("Q5 with a rate, a key that has begun and new runs gets no more than one that has new ones only", async (bench) => {
    await limit(bench, { concurrency: 1, rate: { limit: 1_000, per: 1_000_000 } });
    for (const id of ["a-told", "b-told"]) await bench.parked(id, { ...Q, key: id.slice(0, 1) });
    for (const key of ["a", "b", "c", "d"]) await backlog(bench, key, 20);
    for (const id of ["a-told", "b-told"]) await bench.sent(id, signal("first"));
    const seen: string[] = [];
    for (const i of range(24)) {
      bench.time += 1;
      const held = await first(claimHeld(bench, { limit: 1 }));
      seen.push(held.runId);
      if (!held.runId.endsWith("told")) await bench.close(held);
      else {
        await bench.park(held, { turn: bench.turn(held) });
        await bench.sent(held.runId, signal(`again ${i}`));
      }
      assertShared(seen, ["a", "b", "c", "d"]);
    }
  });
  test("Q5 with a rate, the runs of a key that begin and go on are served together as often as those of another", async (bench) => {
    await limit(bench, { concurrency: 1, rate: { limit: 1_000, per: 1_000_000 } });
    for (const key of ["a", "b"]) await backlog(bench, key, 30);
    const seen: string[] = [];
    const begun = new Set<string>();
    for (const i of range(24)) {
      bench.time += 1;
      const held = await first(claimHeld(bench, { limit: 1 }));
      seen.push(held.runId);
      if (held.runId.startsWith("b") || begun.has(held.runId)) await bench.close(held);
      else {
        begun.add(held.runId);
        await bench.park(held, { turn: bench.turn(held) });
        await bench.sent(held.runId, signal(`go on ${i}`));
      }
      assertShared(seen, ["a", "b"]);
    }
  });
  test("Q5 a claim of many is shared like many claims, also if it uses up a rate", async (bench) => {
    await limit(bench, { concurrency: 100, rate: { limit: 4, per: 1_000 } });
    for (const i of range(6)) {
      await bench.parked(`a-told${i}`, { ...Q, key: "a" });
      bench.time += 1_000;
    }
    for (const key of ["a", "b", "c"]) await backlog(bench, key, 20);
    for (const i of range(6)) await bench.sent(`a-told${i}`, signal("go on"));
    // The starts of b and c take turns with what has begun of a; when the rate has no more room, the rest of a goes on.
    const seen = await claimIds(bench, { limit: 10 });
    same(counts(seen), { a: 6, b: 2, c: 2 });
    assertShared(seen.slice(0, 6), ["a", "b", "c"]);
    bench.time += 1_000;
    // What went on meanwhile takes nothing from the starts of a.
    const more: string[] = [];
    for (const _ of range(3)) {
      more.push(...(await claimIds(bench, { limit: 4 })));
      bench.time += 1_000;
    }
    assertShared(more, ["a", "b", "c"]);
  });
  test("Q5 starts go on when a queue gets a rate, and when it loses it", async (bench) => {
    await limit(bench, { concurrency: 100 });
    await backlog(bench, "a", 12);
    await backlog(bench, "b", 12);
    const seen = await claimIds(bench, { limit: 4 });
    await limit(bench, { concurrency: 100, rate: { limit: 4, per: 1_000 } });
    seen.push(...(await claimIds(bench, { limit: 10 })));
    bench.time += 1_000;
    seen.push(...(await claimIds(bench, { limit: 10 })));
    await limit(bench, { concurrency: 100 });
    seen.push(...(await claimIds(bench, { limit: 4 })));
    await limit(bench, { concurrency: 100, rate: { limit: 20, per: 1_000 } });
    bench.time += 1_000;
    seen.push(...(await claimIds(bench, { limit: 4 })));
    same(counts(seen), { a: 10, b: 10 });
  });
  test("Q5 Q8 a key that was paused, or that its own rate held back, has saved up nothing", async (bench) => {
    await limit(bench, { concurrency: 1, keys: { c: { rate: { limit: 3, per: 10_000 } } } });
    for (const key of ["b", "c", "d"]) await backlog(bench, key, 20);
    await queuesOf(bench).pauseQueue("q", { key: "b" });
    const serve = async (count: number): Promise<string[]> => {
      const seen: string[] = [];
      for (const _ of range(count)) {
        const held = await first(claimHeld(bench, { limit: 1 }));
        seen.push(held.runId);
        await bench.close(held);
      }
      return seen;
    };
    same(counts(await serve(12)), { c: 3, d: 9 });
    await queuesOf(bench).resumeQueue("q", "b");
    bench.time += 10_000;
    assertShared(await serve(6), ["b", "c", "d"]);
  });
  test("Q5 Q8 activities of a key that was paused have saved up nothing", async (bench) => {
    const tasks = ["b", "d"].flatMap((key, k) => range(16).map((i) => bench.newTask(100 * (k + 1) + i, { key })));
    await queuesOf(bench).pauseQueue("tasks", { key: "b" });
    await bench.waitingFor("r", ...tasks);
    same((await bench.claimTasks({ limit: 8 })).filter(({ seq }) => seq < 200).length, 0);
    await queuesOf(bench).resumeQueue("tasks", "b");
    const seqs = (await bench.claimTasks({ limit: 6 })).map(({ seq }) => seq);
    const ofB = seqs.filter((seq) => seq < 200).length;
    assert.ok(ofB >= 2 && ofB <= 4, `${ofB} of 6`);
  });
  test("Q5 activities share by key and priority as runs do", async (bench) => {
    const tasks = [
      ...range(6).map((i) => bench.newTask(i, { key: "a" })),
      ...range(6).map((i) => bench.newTask(10 + i, { key: "b" })),
      bench.newTask(20, { key: "a", priority: 3 }),
    ];
    await bench.waitingFor("r", ...tasks);
    const seqs = (await bench.claimTasks({ limit: 7 })).map(({ seq }) => seq);
    assert.equal(seqs[0], 20);
    const ofA = seqs.slice(1).filter((seq) => seq < 10).length;
    assert.ok(ofA >= 2 && ofA <= 4, `${ofA} of 6`);
  });
}
