// Conformance, for stores that several processes share: two instances on one storage.
// Owns: what one writes and the other must see, and what both try at once.
// Invariants tested: W3, D4, D9, M3, K5, W1, M10.

import assert from "node:assert/strict";
import type { Store, Wakeup } from "holdfast/store";
import { type Bench, COMPLETED, idsOf, only, payload, range, runIds, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function sharing({ test, shares }: Suite): void {
  if (!shares) return;

  /** Runs a test with a second bench on the storage of the first, and the same clock. */
  const together = (title: string, run: (here: Bench, there: Bench) => Promise<void>): void =>
    test(title, async (here) => {
      const there = await here.beside();
      try {
        await run(here, there);
      } finally {
        await there.store.close();
      }
    });

  together("D2 what one instance writes the other sees: new queues, versions, workers, keys and all", async (here, there) => {
    await here.created("a", { queue: "new queue", version: "new version", attributes: { x: 1 } });
    const { run } = await there.claimRun("a", { workerId: "new worker" });
    same(await here.row("a"), run);
    await here.sent("a", signal("s1"), "k");
    assert.equal((await there.send("a", signal("s1"), "k")).status, "duplicate");
    const held = { runId: "a", execution: 1, epoch: run.epoch, workerId: "new worker", turns: 0 };
    const turn = there.turn(held);
    same(
      idsOf(
        await there.commit(held, {
          turn,
          tasks: [there.newTask(1)],
          updates: [{ id: "u1", outcome: { status: "completed", value: payload(1) } }],
        }),
      ),
      ["s1"],
    );
    same(await here.store.history("a"), [turn]);
    same(await here.outcome("a", "u1"), { status: "completed", value: payload(1) });
    assert.equal((await here.claimTasks()).length, 1);
    same(await there.claimTasks(), []);
  });
  together("W3 claimers in two processes: every run is claimed exactly once", async (here, there) => {
    const ids = range(60).map((i) => `r${i}`);
    await here.store.create(ids.map((id) => here.newRun(id, { queue: "q" })));
    const claims = await Promise.all(range(20).map((i) => (i % 2 === 0 ? here : there).claim({ queue: "q", workerId: `w${i}`, limit: 4 })));
    const rest = await here.claim({ queue: "q" });
    same([...claims, rest].flatMap(runIds).toSorted(), ids.toSorted());
  });
  together("M3 keys and ids are used once, whichever process uses them", async (here, there) => {
    const held = await here.running("a");
    const both = <T>(run: (bench: Bench, i: number) => Promise<T>) => Promise.all(range(12).map((i) => run(i % 2 === 0 ? here : there, i)));
    const sent = await both((bench) => bench.send("a", signal("s1"), "k"));
    assert.equal(sent.filter(({ status }) => status === "sent").length, 1);
    const created = await both((bench) => bench.create("b"));
    assert.equal(created.filter(({ status }) => status === "created").length, 1);
    const started = await both((bench, i) => bench.create(`c${i}`, { idempotencyKey: "k" }));
    assert.equal(started.filter(({ status }) => status === "created").length, 1);
    same(idsOf(await there.inbox(held)), ["s1"]);
  });
  together("D9 parking in one process and messages from another can't miss each other", async (here, there) => {
    const ids = range(30).map((i) => `r${i}`);
    const held = await Promise.all(ids.map((id) => here.running(id)));
    await Promise.all(held.flatMap((one) => [here.park(one, { seen: 0 }), there.sent(one.runId, signal(one.runId))]));
    for (const id of ids) same(idsOf((await there.claimRun(id)).inbox), [id]);
  });
  together("K5 a run ends in one way, no matter who ends it", async (here, there) => {
    for (const i of range(10)) {
      const held = await here.running(`r${i}`);
      const [committed, terminated] = await Promise.all([
        here.tryCommit(held, { close: COMPLETED, status: "completed" }),
        there.store.terminate([{ runId: held.runId, reason: undefined }]),
      ]);
      const won = committed.status === "committed";
      same([(await here.row(held.runId)).status, only(terminated).status], won ? ["completed", "closed"] : ["terminated", "sent"]);
    }
  });
  together("W1 a watcher in one process is woken by what happens in another", async (here, there) => {
    let wake = woken(there.store, "work");
    const held = await here.running("a");
    await wake;
    wake = woken(there.store, "work");
    await here.sent("a", update("u1"));
    await wake;
    wake = woken(there.store, "tasks");
    await here.commit(held, { tasks: [here.newTask(1)] });
    await wake;
    wake = woken(there.store, "results");
    await here.close(held);
    await wake;
  });
  together("W3 closing one instance leaves the other as it was", async (here, there) => {
    const held = await here.running("a");
    const third = await here.beside();
    await third.store.close();
    await there.sent("a", signal("s1"));
    same(idsOf(await here.inbox(held)), ["s1"]);
  });
}

function woken(store: Store, of: keyof Wakeup): Promise<void> {
  return new Promise((resolve) => {
    const stop = store.watch((wakeup) => {
      if (wakeup[of] !== true) return;
      stop();
      resolve();
    });
  });
}
