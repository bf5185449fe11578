// Conformance: updates, whose callers wait for an outcome.
// Owns: tests of update ids as keys, and of outcomes for as long as the run's row exists.
// Invariants tested: M10, M12, K6.

import assert from "node:assert/strict";
import { COMPLETED, failure, failureOf, idsOf, payload, range, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function updates({ test }: Suite): void {
  test("M10 the id of an update is its key: sent again it is a duplicate, whatever key comes with it", async (bench) => {
    const held = await bench.running("a");
    const id = await bench.sent("a", update("u1"));
    for (const key of [undefined, "u1", "other"]) same(await bench.send("a", update("u1"), key), { status: "duplicate", inboxId: id });
    same(idsOf(await bench.inbox(held)), ["u1"]);
    await bench.commit(held, { turn: bench.turn(held), consumed: [id] });
    same(await bench.send("a", update("u1")), { status: "duplicate", inboxId: id });
  });
  test("M3 M10 ids of updates and keys of other messages have nothing to do with each other", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", signal("s1"), "k");
    await bench.sent("a", update("k"));
    await bench.sent("a", update("l"));
    await bench.sent("a", signal("s2"), "l");
    same(idsOf(await bench.inbox(held)), ["s1", "k", "l", "s2"]);
    await bench.close(held);
    for (const id of ["k", "l"]) same((await bench.outcome("a", id))?.status, "rejected");
  });
  test("M10 an update id under concurrency is one delivery", async (bench) => {
    const held = await bench.running("a");
    const results = await Promise.all(range(20).map(() => bench.send("a", update("u1"))));
    assert.equal(results.filter(({ status }) => status === "sent").length, 1);
    same(idsOf(await bench.inbox(held)), ["u1"]);
  });
  test("M10 an outcome is there with the commit that ended the update, for callers that come back", async (bench) => {
    const held = await bench.running("a");
    const consumed = [await bench.sent("a", update("u1")), await bench.sent("a", update("u2")), await bench.sent("a", update("u3"))];
    same(await bench.outcome("a", "u1"), undefined);
    const outcomes = {
      u1: { status: "completed", value: payload({ x: 1 }) },
      u2: { status: "failed", error: failure("handler") },
      u3: { status: "rejected", error: failure("validator") },
    } as const;
    await bench.commit(held, {
      turn: bench.turn(held),
      consumed,
      updates: Object.entries(outcomes).map(([id, outcome]) => ({ id, outcome })),
    });
    const read = () => bench.store.updates(["u1", "u2", "u3", "u4"].map((id) => ({ runId: "a", id })));
    same(await read(), [...Object.values(outcomes), undefined]);
    await bench.close(held);
    same(await read(), [...Object.values(outcomes), undefined]);
    same(await bench.store.updates([{ runId: "b", id: "u1" }]), [undefined]);
  });
  test("M10 an outcome outlives the execution", async (bench) => {
    const held = await bench.running("a");
    const consumed = [await bench.sent("a", update("u1"))];
    await bench.commit(held, { consumed, updates: [{ id: "u1", outcome: { status: "completed", value: payload(1) } }] });
    await bench.close(held, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } });
    same(await bench.outcome("a", "u1"), { status: "completed", value: payload(1) });
    assert.equal((await bench.send("a", update("u1"))).status, "duplicate");
  });
  for (const [how, end] of [
    ["completes", "commit"],
    ["is terminated", "terminate"],
    ["passes its deadline", "expire"],
  ] as const) {
    test(`M12 updates that nobody took are rejected when their run ${how}`, async (bench) => {
      const held = await bench.running("a", { deadline: 100 });
      await bench.sent("a", update("u1"));
      const u2 = await bench.sent("a", update("u2"));
      await bench.commit(held, { consumed: [u2], updates: [{ id: "u2", outcome: { status: "completed", value: payload(2) } }] });
      if (end === "commit") await bench.close(held);
      else if (end === "terminate") await bench.store.terminate([{ runId: "a", reason: undefined }]);
      else {
        bench.time += 100;
        assert.equal(await bench.store.expire(), 1);
      }
      const outcome = await bench.outcome("a", "u1");
      same([outcome?.status, failureOf(outcome)], ["rejected", "RunClosedError"]);
      same(await bench.outcome("a", "u2"), { status: "completed", value: payload(2) });
    });
  }
  test("M10 an update that was taken and has no outcome yet fails when its run is terminated: its caller does not wait for ever", async (bench) => {
    const held = await bench.running("a");
    const u1 = await bench.sent("a", update("u1"));
    await bench.commit(held, { turn: bench.turn(held), consumed: [u1] });
    same(await bench.outcome("a", "u1"), undefined);
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    assert.equal(failureOf(await bench.outcome("a", "u1")), "RunClosedError");
  });
  test("M10 an outcome in the commit that ends the run is the outcome", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", update("u1"));
    await bench.close(held, COMPLETED, { updates: [{ id: "u1", outcome: { status: "completed", value: payload(1) } }] });
    same(await bench.outcome("a", "u1"), { status: "completed", value: payload(1) });
  });
  test("M12 an update to a run that is closed is refused, and has no outcome", async (bench) => {
    await bench.close(await bench.running("a"));
    same(await bench.send("a", update("u1")), { status: "closed", runStatus: "completed" });
    same(await bench.outcome("a", "u1"), undefined);
  });
}
