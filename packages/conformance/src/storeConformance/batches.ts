// Conformance: batches.
// Owns: tests of large, empty and mixed ones.
// Invariants tested: D3 (items share transactions and stand alone).

import assert from "node:assert/strict";
import { idsOf, LEASE, payload, range, runIds, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function batches({ test }: Suite): void {
  test("D3 a large batch is answered item by item, in order", async (bench) => {
    await bench.created("r7", { queue: "q" });
    const ids = range(1_200).map((i) => `r${i}`);
    const created = await bench.store.create(ids.map((id) => bench.newRun(id, { queue: "q" })));
    same(created.map(({ id }) => id), ids); // biome-ignore format: one line
    same(created.flatMap(({ status, id }) => (status === "created" ? [] : [id])), ["r7"]); // biome-ignore format: one line
    const { runs } = await bench.claim({ queue: "q", limit: 2_000 });
    assert.equal(runs.length, 1_200);
    const sent = await bench.store.send(ids.map((runId, i) => ({ runId: i === 900 ? "nobody" : runId, message: { job: signal("s") } })));
    same(sent.flatMap(({ status }, i) => (status === "sent" ? [] : [i])), [900]); // biome-ignore format: one line
    const drafts = runs.map(({ run }, i) =>
      bench.draft({ ...run, runId: run.id, workerId: "w1", epoch: i === 600 ? 99 : run.epoch }, { state: payload(i) }),
    );
    const committed = await bench.store.commit(drafts);
    same(committed.flatMap(({ status }, i) => (status === "committed" ? [] : [i])), [600]); // biome-ignore format: one line
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
    same(idsOf(await bench.inbox({ runId, epoch, ...held })), range(6).map((i) => `s${i}`)); // biome-ignore format: one line
  });
}
