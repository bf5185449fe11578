// Conformance: updates, whose callers wait for an outcome.
// Owns: tests of update ids as keys, and of outcomes for as long as the run's row exists.
// Invariants tested: M8, M10, M12, P10, K6.

import assert from "node:assert/strict";
import { type Bench, COMPLETED, failure, failureOf, heldOf, idsOf, jobsOf, payload, range, START, same, signal, update } from "./bench.ts";
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
    test(`M12 updates that no code consumed are rejected when their run ${how}`, async (bench) => {
      const held = await bench.running("a", { deadline: 100 });
      await bench.sent("a", update("u1"));
      const u2 = await bench.sent("a", update("u2"));
      await bench.commit(held, { consumed: [u2], updates: [{ id: "u2", outcome: { status: "completed", value: payload(2) } }] });
      if (end === "commit") await bench.close(held);
      else if (end === "terminate") await bench.store.terminate([{ runId: "a", reason: undefined }]);
      else {
        bench.time += 100;
        assert.equal((await bench.store.expire()).expired, 1);
      }
      const outcome = await bench.outcome("a", "u1");
      same([outcome?.status, failureOf(outcome)], ["rejected", "RunClosedError"]);
      same(await bench.outcome("a", "u2"), { status: "completed", value: payload(2) });
    });
  }
  test("M10 an update that was taken and has no outcome yet fails when its run is terminated: its caller does not wait forever", async (bench) => {
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
  // ── updates that wait to be accepted ──

  const rejection = (id: string) => ({ runId: "a", id, error: failure("too late") });
  const patient = (bench: Bench, id: string, acceptWithin = 100, idempotencyKey?: string) =>
    bench.store.send([{ runId: "a", message: { job: update(id), acceptWithin, idempotencyKey } }]);

  test("M8 an update that may wait says until when, by the store's clock, also one that comes with the start", async (bench) => {
    await bench.created("a", { messages: [{ job: update("u0"), acceptWithin: 70 }] });
    bench.time += 5;
    await patient(bench, "u1", 100);
    await bench.sent("a", update("u2"));
    const { inbox } = await bench.claimRun("a");
    same(jobsOf(inbox), [{ ...update("u0"), acceptUntil: START + 70 }, { ...update("u1"), acceptUntil: START + 105 }, update("u2")]);
  });
  test("M8 one that a turn leaves in the inbox does not wake its run, and comes with the next claim", async (bench) => {
    const held = await bench.running("a");
    const [sent] = await patient(bench, "u1");
    assert.ok(sent?.status === "sent");
    await bench.park(held, { turn: bench.turn(held), seen: sent.inboxId });
    assert.equal(await bench.isClaimable("a"), false);
    await bench.sent("a", signal("s1"));
    same(idsOf((await bench.claimRun("a")).inbox), ["u1", "s1"]);
  });
  test("M8 its sender rejects it once its time is over, not before, and it leaves the inbox", async (bench) => {
    const held = await bench.running("a");
    await patient(bench, "u1", 100);
    await bench.sent("a", update("plain"));
    bench.time += 99;
    same(await bench.store.rejectUpdates([rejection("u1"), rejection("plain"), rejection("none")]), ["waiting", undefined, undefined]);
    same(await bench.store.rejectUpdates([{ ...rejection("u1"), runId: "missing" }]), [undefined]);
    bench.time += 1;
    const rejected = { status: "rejected", error: failure("too late") };
    same(await bench.store.rejectUpdates([rejection("u1"), rejection("plain")]), [rejected, undefined]);
    same(await bench.outcome("a", "u1"), rejected);
    same(await bench.outcome("a", "plain"), undefined);
    same(idsOf(await bench.inbox(held)), ["plain"]);
    same(await bench.store.rejectUpdates([{ ...rejection("u1"), error: failure("another") }]), [rejected]);
    assert.equal((await patient(bench, "u1"))[0]?.status, "duplicate");
  });
  test("M8 one that a turn has consumed is not rejected; if it has an outcome, its sender gets that", async (bench) => {
    const held = await bench.running("a");
    const [sent] = await patient(bench, "u1", 100);
    assert.ok(sent?.status === "sent");
    await bench.commit(held, { turn: bench.turn(held), consumed: [sent.inboxId], accepts: ["u1"] });
    bench.time += 1_000;
    same(await bench.store.rejectUpdates([rejection("u1")]), [undefined]);
    const outcome = { status: "completed", value: payload(1) } as const;
    await bench.commit(held, { updates: [{ id: "u1", outcome }] });
    same(await bench.store.rejectUpdates([rejection("u1")]), [outcome]);
  });
  test("M8 a turn that accepts an update which was rejected writes nothing, and its claim holds", async (bench) => {
    const held = await bench.running("a");
    const [one, two] = [await patient(bench, "u1", 100), await patient(bench, "u2", 1_000)].map(([sent]) => sent);
    assert.ok(one?.status === "sent" && two?.status === "sent");
    bench.time += 100;
    await bench.store.rejectUpdates([rejection("u1")]);
    const before = await bench.row("a");
    for (const accepts of [["u1"], ["u2", "u1"]]) {
      const turn = bench.turn({ ...held });
      const result = await bench.tryCommit(held, { turn, consumed: [one.inboxId, two.inboxId], accepts, state: payload("x") });
      same(result, { status: "stale" });
    }
    same(await bench.row("a"), before);
    same(idsOf(await bench.inbox(held)), ["u2"]);
    await bench.commit(held, { turn: bench.turn(held), consumed: [two.inboxId], accepts: ["u2"] });
  });
  test("M8 of a turn that rejects it and its sender the first counts", async (bench) => {
    const held = await bench.running("a");
    await patient(bench, "u1", 100);
    await patient(bench, "u2", 100);
    bench.time += 100;
    const first = { status: "rejected", error: failure("too late") } as const;
    await bench.store.rejectUpdates([rejection("u1")]);
    const outcome = { status: "rejected", error: failure("by the turn") } as const;
    await bench.commit(held, { updates: ["u1", "u2"].map((id) => ({ id, outcome })) });
    same(await bench.store.rejectUpdates([rejection("u1"), rejection("u2")]), [first, outcome]);
  });
  test("M8 P10 it moves with continue-as-new, and keeps its time", async (bench) => {
    const held = await bench.running("a");
    await patient(bench, "u1", 100);
    const carried = [{ job: signal("s1") }];
    await bench.close(held, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried } });
    const claimed = await bench.claimRun("a");
    const next = heldOf(claimed);
    same(jobsOf(claimed.inbox), [signal("s1"), { ...update("u1"), acceptUntil: START + 100 }]);
    same(await bench.store.rejectUpdates([rejection("u1")]), ["waiting"]);
    bench.time += 100;
    same((await bench.store.rejectUpdates([rejection("u1")]))[0], { status: "rejected", error: failure("too late") });
    same(idsOf(await bench.inbox(next)), ["s1"]);
  });
  test("M8 one that waits when its run closes is rejected with RunClosedError", async (bench) => {
    const held = await bench.running("a");
    await patient(bench, "u1", 100);
    await bench.close(held);
    const outcome = await bench.outcome("a", "u1");
    same([outcome?.status, failureOf(outcome)], ["rejected", "RunClosedError"]);
    bench.time += 100;
    same(await bench.store.rejectUpdates([rejection("u1")]), [outcome]);
  });

  // ── how long outcomes are kept ──

  const HOUR = 3_600_000;
  const ended = (id: string) => ({ id, outcome: { status: "completed", value: payload(id) } as const });

  test("M10 an outcome whose sender gave no key goes an hour later, with a commit that records another; keyed ones stay", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", update("keyless"));
    await bench.sent("a", update("keyed"), "keyed");
    await bench.commit(held, { turn: bench.turn(held), updates: [ended("keyless"), ended("keyed")] });
    bench.time += HOUR - 1;
    await bench.sent("a", update("second"));
    await bench.commit(held, { turn: bench.turn(held), updates: [ended("second")] });
    same(await bench.outcome("a", "keyless"), ended("keyless").outcome);
    bench.time += 1;
    await bench.commit(held, { turn: bench.turn(held) }); // no outcome: nothing goes
    same(await bench.outcome("a", "keyless"), ended("keyless").outcome);
    await bench.sent("a", update("third"), "third");
    await bench.commit(held, { turn: bench.turn(held), updates: [ended("third")] });
    const read = () => bench.store.updates(["keyless", "keyed", "second", "third"].map((id) => ({ runId: "a", id })));
    same(await read(), [undefined, ended("keyed").outcome, ended("second").outcome, ended("third").outcome]);
    bench.time += HOUR;
    await bench.commit(held, { updates: [ended("third")] });
    same(await read(), [undefined, ended("keyed").outcome, undefined, ended("third").outcome]);
  });
  test("M10 an update sent again under an id whose outcome is gone is a new update", async (bench) => {
    const held = await bench.running("a");
    const first = await bench.sent("a", update("u1"));
    await bench.commit(held, { turn: bench.turn(held), consumed: [first], updates: [ended("u1")] });
    bench.time += HOUR;
    await bench.sent("a", update("u2"));
    await bench.commit(held, { turn: bench.turn(held), updates: [ended("u2")] });
    const again = await bench.sent("a", update("u1"));
    assert.ok(again > first);
    same(await bench.outcome("a", "u1"), undefined);
    await bench.commit(held, { turn: bench.turn(held), consumed: [again], updates: [ended("u1")] });
    same(await bench.outcome("a", "u1"), ended("u1").outcome);
  });
  test("M10 outcomes of one run go; those of others stay, also in the same batch", async (bench) => {
    const [a, b] = [await bench.running("a"), await bench.running("b")];
    for (const runId of ["a", "b"]) await bench.sent(runId, update("u1"));
    await bench.store.commit([a, b].map((held) => bench.draft(held, { turn: bench.turn(held), updates: [ended("u1")] })));
    bench.time += HOUR;
    await bench.sent("a", update("u2"));
    await bench.store.commit([bench.draft(a, { turn: bench.turn(a), updates: [ended("u2")] }), bench.draft(b, { turn: bench.turn(b) })]);
    same([await bench.outcome("a", "u1"), await bench.outcome("b", "u1")], [undefined, ended("u1").outcome]);
  });

  test("M12 an update to a run that is closed is refused, and has no outcome", async (bench) => {
    await bench.close(await bench.running("a"));
    same(await bench.send("a", update("u1")), { status: "closed", runStatus: "completed" });
    same(await bench.outcome("a", "u1"), undefined);
  });
}
