// Conformance: runs that begin once another run has closed.
// Owns: tests of `after`: when such a run becomes available, and what happens to it until then.
// Invariants tested: Q10, K1, K6, K7, K9, P10, D2.

import assert from "node:assert/strict";
import type { NewRun } from "holdfast/store";
import { type Bench, CANCEL, COMPLETED, failure, type Held, idsOf, LEASE, payload, range, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

/** Status, the run that it waits for, and when it can be claimed. */
async function standing(bench: Bench, id: string): Promise<unknown> {
  const { status, after, availableAt } = await bench.row(id);
  return [status, after, availableAt];
}
const waitsFor = (after: string): unknown => ["pending", after, undefined];
const begins = (at: number): unknown => ["pending", undefined, at];

const parent = (runId: string, parentClose: "cancel" | "terminate"): NonNullable<NewRun["parent"]> => ({
  runId,
  execution: 1,
  seq: 1,
  parentClose,
  announce: false,
});

/** Each way in which a run may close: it is held at first. */
const ends: Readonly<Record<string, (bench: Bench, held: Held) => Promise<unknown>>> = {
  "a plain turn": (bench, held) => bench.close(held, COMPLETED, { turn: bench.turn(held) }),
  "a failure": (bench, held) => bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) }),
  "a turn that consumed a message": async (bench, held) => {
    const inboxId = await bench.sent(held.runId, signal("s"));
    await bench.close(held, COMPLETED, { turn: bench.turn(held), consumed: [inboxId], seen: inboxId });
  },
  "a turn with activities": async (bench, held) => {
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(1)] });
    await bench.close(held, COMPLETED, { turn: bench.turn(held), attributes: { over: true } });
  },
  "a turn that looks at its messages": (bench, held) =>
    bench.close(held, COMPLETED, { turn: bench.turn(held), lateIf: { cancel: true, signals: ["poke"] } }),
  "a batch of ends": async (bench, held) => {
    const others = await Promise.all(range(3).map((i) => bench.running(`other ${i}`)));
    const drafts = [...others, held].map((one) => bench.draft(one, { turn: bench.turn(one), close: COMPLETED, status: "completed" }));
    await bench.store.commit(drafts);
  },
  terminate: (bench, { runId }) => bench.store.terminate([{ runId, reason: "enough" }]),
};

export function afterRuns({ test, crashes, shares }: Suite): void {
  for (const [how, end] of Object.entries(ends))
    test(`Q10 a run begins in the commit that closes the run that it is after: ${how}`, async (bench) => {
      const held = await bench.running("a");
      await bench.created("b", { after: "a" });
      same(await standing(bench, "b"), waitsFor("a"));
      bench.time += 5;
      await end(bench, held);
      same(await standing(bench, "b"), begins(START + 5));
      await bench.hold("b");
    });
  test("Q10 K7 a run begins when the run that it is after is past its deadline", async (bench) => {
    await bench.created("a", { deadline: 10 });
    await bench.created("b", { after: "a" });
    bench.time += 10;
    await bench.store.expire();
    same(await standing(bench, "b"), begins(START + 10));
  });
  for (const close of ["cancel", "terminate"] as const)
    test(`Q10 K6 a run begins when the run that it is after follows its parent (${close})`, async (bench) => {
      const p = await bench.running("p");
      await bench.commit(p, { turn: bench.turn(p), children: [bench.newRun("a", { parent: parent("p", close) })] });
      await bench.created("b", { after: "a" });
      await bench.close(p, COMPLETED, { turn: bench.turn(p) });
      same((await bench.row("a")).status, close === "cancel" ? "canceled" : "terminated");
      same(await standing(bench, "b"), begins(START));
    });
  test("Q10 K9 a run begins when the run that it is after is canceled before it has begun", async (bench) => {
    await bench.created("a");
    await bench.created("b", { after: "a" });
    await bench.sent("a", CANCEL);
    same(await standing(bench, "b"), begins(START));
  });
  test("Q10 a run begins at once if the run that it is after is closed, unknown, or itself", async (bench) => {
    const held = await bench.running("a");
    await bench.close(held);
    await bench.created("b", { after: "a" });
    await bench.created("c", { after: "nothing" });
    await bench.created("d", { after: "d", delay: 7 });
    same(await Promise.all(["b", "c", "d"].map((id) => standing(bench, id))), [begins(START), begins(START), begins(START + 7)]);
  });
  test("Q10 W2 a run that is after another does not begin before its own time", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b", { after: "a", delay: 100 });
    await bench.created("c", { after: "a", startAt: START + 3 });
    bench.time += 10;
    await bench.close(held);
    same([await standing(bench, "b"), await standing(bench, "c")], [begins(START + 100), begins(START + 10)]);
  });
  test("Q10 P10 a run waits for the end of the chain: a next execution is not its end", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b", { after: "a" });
    const next = { input: payload("next"), version: undefined, seed: "seed 2", carried: [] };
    await bench.close(held, { status: "continued", next }, { turn: bench.turn(held) });
    same(await standing(bench, "b"), waitsFor("a"));
    await bench.close(await bench.hold("a"));
    same(await standing(bench, "b"), begins(START));
  });
  test("Q10 many runs may wait for one, and each may be waited for", async (bench) => {
    const held = await bench.running("a");
    for (const id of ["b", "c", "d"]) await bench.created(id, { after: "a", queue: "q" });
    await bench.created("e", { after: "c", queue: "q" });
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
    const { runs } = await bench.claim({ queue: "q" });
    same(runs.map(({ run }) => run.id).toSorted(), ["b", "c", "d"]);
    const c = runs.find(({ run }) => run.id === "c")?.run;
    assert.ok(c !== undefined);
    await bench.close({ runId: "c", execution: 1, epoch: c.epoch, workerId: "w1", turns: 0 });
    same(await standing(bench, "e"), begins(START));
  });
  test("Q10 K9 a run that is closed while it waits leaves its place to those behind it", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b", { after: "a" });
    await bench.created("c", { after: "b", delay: 50 });
    await bench.created("d", { after: "c" });
    await bench.sent("b", CANCEL);
    same([(await bench.row("b")).status, (await bench.row("b")).after], ["canceled", undefined]);
    same([await standing(bench, "c"), await standing(bench, "d")], [waitsFor("a"), waitsFor("c")]);
    await bench.store.terminate([{ runId: "c", reason: undefined }]);
    same(await standing(bench, "d"), waitsFor("a"));
    await bench.close(held, COMPLETED, { turn: bench.turn(held) });
    same(await standing(bench, "d"), begins(START));
  });
  test("Q10 K7 a run that waits for another fails by its own deadline", async (bench) => {
    await bench.running("a");
    await bench.created("b", { after: "a", deadline: 10 });
    bench.time += 10;
    await bench.store.expire();
    same((await bench.row("b")).status, "failed");
  });
  test("Q10 M1 messages wait with a run that waits for another, and don't start it", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b", { after: "a", messages: [{ job: signal("s1") }] });
    await bench.sent("b", signal("s2"));
    same(await standing(bench, "b"), waitsFor("a"));
    same((await bench.store.resume(["b"]))[0], "not-resumable");
    await bench.close(held);
    same(idsOf((await bench.claimRun("b")).inbox), ["s1", "s2"]);
  });
  test("Q10 P10 a run that is restarted waits as its new start says", async (bench) => {
    await bench.running("a");
    await bench.close(await bench.running("b"));
    await bench.create("b", { onConflict: "restart-if-closed", after: "a", delay: 5 });
    same(await standing(bench, "b"), waitsFor("a"));
    await bench.store.terminate([{ runId: "b", reason: undefined }]);
    await bench.create("b", { onConflict: "restart-if-closed" });
    same(await standing(bench, "b"), begins(START));
  });
  test("Q10 a run that was resumed after its end is waited for again, and the runs that began at its end continue", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b", { after: "a" });
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    await bench.store.resume(["a"]);
    await bench.created("c", { after: "a" });
    same([await standing(bench, "b"), await standing(bench, "c")], [begins(START), waitsFor("a")]);
    await bench.close(await bench.hold("a"));
    same(await standing(bench, "c"), begins(START));
  });
  test("Q10 D2 both ends of a wait in one batch: a run and the run that it is after", async (bench) => {
    const runs = [bench.newRun("a"), bench.newRun("b", { after: "a" }), bench.newRun("c", { after: "b" })];
    same((await bench.store.create(runs)).map(({ status }) => status), ["created", "created", "created"]); // biome-ignore format: one line
    same([await standing(bench, "b"), await standing(bench, "c")], [waitsFor("a"), waitsFor("b")]);
    const held = await bench.hold("a");
    const other = await bench.running("d");
    await bench.store.commit(
      [held, other].map((one) => bench.draft(one, { turn: bench.turn(one), close: COMPLETED, status: "completed" })),
    );
    same([await standing(bench, "b"), await standing(bench, "c")], [begins(START), waitsFor("b")]);
  });
  if (crashes)
    test("Q10 D2 a run waits on when its process dies, and begins in the next", async (bench) => {
      const held = await bench.running("a");
      await bench.created("b", { after: "a", delay: 3 });
      await bench.crash();
      same(await standing(bench, "b"), waitsFor("a"));
      bench.time += 2 * LEASE;
      const again = await bench.hold("a");
      await bench.close(again, COMPLETED, { turn: bench.turn(again) });
      await bench.crash();
      same(await standing(bench, "b"), begins(bench.time));
      same(held.epoch + 1, again.epoch);
    });
  if (shares)
    test("Q10 a run that another process makes wait begins in the commit of the worker that had the other", async (bench) => {
      const held = await bench.running("a");
      await bench.commit(held, { turn: bench.turn(held) });
      const beside = await bench.beside();
      try {
        await beside.created("b", { after: "a" });
        await bench.close(held, COMPLETED, { turn: bench.turn(held) });
        same(await standing(beside, "b"), begins(START));
      } finally {
        await beside.store.close();
      }
    });
  if (shares)
    test("Q10 D3 runs that begin to wait while the other ends, in two processes, all begin", async (bench) => {
      const beside = await bench.beside();
      try {
        for (const round of range(10)) {
          const held = await bench.running(`a${round}`);
          const ids = range(5).map((i) => `b${round}.${i}`);
          const waiting = ids.map((id) => beside.store.create([beside.newRun(id, { after: held.runId })]));
          await bench.close(held, COMPLETED, { turn: bench.turn(held) });
          await Promise.all(waiting);
          for (const id of ids) same(await standing(bench, id), begins(START));
        }
      } finally {
        await beside.store.close();
      }
    });
}
