// Conformance: batches.
// Owns: tests of large, empty and mixed ones.
// Invariants tested: D3 (items share transactions and stand alone).

import assert from "node:assert/strict";
import { idsOf, LEASE, payload, range, runIds, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function batches({ test }: Suite): void {
  test("D3 a batch as large as the store takes is answered item by item, in order", async (bench) => {
    const count = Math.min(bench.store.limits.items, 1_000);
    const [taken, unknown, stale] = [7, count - 10, count - 20];
    await bench.created(`r${taken}`, { queue: "q" });
    const ids = range(count).map((i) => `r${i}`);
    const created = await bench.store.create(ids.map((id) => bench.newRun(id, { queue: "q" })));
    same(created.map(({ id }) => id), ids); // biome-ignore format: one line
    same(created.flatMap(({ status, id }) => (status === "created" ? [] : [id])), [`r${taken}`]); // biome-ignore format: one line
    const { runs } = await bench.claim({ queue: "q", limit: 2 * count });
    assert.equal(runs.length, count);
    const sent = await bench.store.send(
      ids.map((runId, i) => ({ runId: i === unknown ? "nobody" : runId, message: { job: signal("s") } })),
    );
    same(sent.flatMap(({ status }, i) => (status === "sent" ? [] : [i])), [unknown]); // biome-ignore format: one line
    const drafts = runs.map(({ run }, i) =>
      bench.draft({ ...run, runId: run.id, workerId: "w1", epoch: i === stale ? 99 : run.epoch }, { state: payload(i) }),
    );
    const committed = await bench.store.commit(drafts);
    same(committed.flatMap(({ status }, i) => (status === "committed" ? [] : [i])), [stale]); // biome-ignore format: one line
  });
  test("D3 empty batches are fine", async (bench) => {
    const { store } = bench;
    same(await Promise.all([store.create([]), store.commit([]), store.send([]), store.terminate([]), store.resume([])]), [
      [],
      [],
      [],
      [],
      [],
    ]);
    same(await Promise.all([store.renew("w1", LEASE, []), store.heartbeat([]), store.answerTasks([])]), [[], [], []]);
    same(await Promise.all([store.get([]), store.updates([])]), [[], []]);
  });
  test("D3 a transaction that throws takes nothing else with it", async (bench) => {
    const { store } = bench;
    const { runId, epoch, ...held } = await bench.running("a");
    if (store.transact === undefined) return;
    const throwing = () => {
      throw new Error("rolled back");
    };
    const work = range(6).flatMap((i): Promise<unknown>[] => [
      bench.create(`r${i}`, { queue: `fresh ${i}`, version: `v${i}` }),
      assert.rejects(async () => store.transact?.({ runId, epoch, seq: i }, throwing), /rolled back/),
      bench.send("a", signal(`s${i}`)),
    ]);
    await Promise.all(work);
    for (const i of range(6)) same(runIds(await bench.claim({ queue: `fresh ${i}` })), [`r${i}`]);
    // Each is a call of its own, so that any of them may come first.
    same(idsOf(await bench.inbox({ runId, epoch, ...held })).toSorted(), range(6).map((i) => `s${i}`)); // biome-ignore format: one line
  });
}
