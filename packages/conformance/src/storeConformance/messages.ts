// Conformance: messages from outside and between runs.
// Owns: tests of `send` and of a commit's `sends`: durable, in order, once for each key; and of parking against messages.
// Invariants tested: M1, M2, M3, M7, M12, D9, K1, K9.

import assert from "node:assert/strict";
import { CanceledError, reviveError } from "@holdfast/core";
import {
  CANCEL,
  COMPLETED,
  failureOf,
  heldOf,
  idsOf,
  jobsOf,
  LEASE,
  payload,
  range,
  resolution,
  runIds,
  START,
  same,
  signal,
  update,
} from "./bench.ts";
import type { Suite } from "./suite.ts";

export function messages({ test }: Suite): void {
  test("M1 a message for a run that waits makes it available now", async (bench) => {
    await bench.parked("a");
    bench.time += 50;
    await bench.sent("a", signal("s1"));
    const { status, availableAt } = await bench.row("a");
    same([status, availableAt], ["sleeping", START + 50]);
    same(jobsOf((await bench.claimRun("a")).inbox), [signal("s1")]);
  });
  test("M1 a message for a run that sleeps on a timer makes it available now, and its place in the queue is that time", async (bench) => {
    await bench.park(await bench.running("a"), { wakeAt: START + 1_000 });
    bench.time += 50;
    await bench.sent("a", signal("s1"));
    assert.equal((await bench.row("a")).availableAt, START + 50);
  });
  test("W2 a message does not set back a run that has long been available", async (bench) => {
    await bench.park(await bench.running("a"), { wakeAt: START + 10 });
    bench.time += 50;
    await bench.sent("a", signal("s1"));
    assert.equal((await bench.row("a")).availableAt, START + 10);
  });
  test("M1 a message for a run that is held does not touch its lease", async (bench) => {
    const held = await bench.running("a");
    bench.time += 50;
    await bench.sent("a", signal("s1"));
    assert.equal((await bench.row("a")).availableAt, START + LEASE);
    same(idsOf(await bench.inbox(held)), ["s1"]);
  });
  test("M1 a turn of a run that goes on brings what has arrived since, alone and among others", async (bench) => {
    const all = [await bench.running("a"), await bench.running("b"), await bench.running("c")] as const;
    const [a] = all;
    for (const held of all) await bench.commit(held, { turn: bench.turn(held) });
    const s1 = await bench.sent("a", signal("s1"));
    same(idsOf(await bench.commit(a, { turn: bench.turn(a) })), ["s1"]);
    same(await bench.commit(a, { turn: bench.turn(a), seen: s1 }), []);
    await bench.sent("a", signal("s2"));
    await bench.sent("b", signal("s3"));
    const news = await bench.store.commit(all.map((held) => bench.draft(held, { turn: bench.turn(held), seen: s1 })));
    same(
      news.map((result) => (result.status === "committed" ? idsOf(result.inbox) : result.status)),
      [["s2"], ["s3"], []],
    );
  });
  test("M2 messages keep their order, and ids grow with arrival", async (bench) => {
    const held = await bench.running("a");
    const first = await bench.store.send(range(10).map((i) => ({ runId: "a", message: { job: signal(`s${i}`) } })));
    const last = await bench.sent("a", signal("s10"));
    const numbers = [...first.map((result) => ("inboxId" in result ? result.inboxId : -1)), last];
    same(
      numbers,
      [...new Set(numbers)].toSorted((a, b) => a - b),
    );
    const inbox = await bench.inbox(held);
    same(inbox.map(({ id }) => id), numbers); // biome-ignore format: one line
    same(idsOf(inbox), range(11).map((i) => `s${i}`)); // biome-ignore format: one line
  });
  test("M3 signals of one name without a key are so many deliveries", async (bench) => {
    const held = await bench.running("a");
    await Promise.all(range(10).map(() => bench.sent("a", signal("same"))));
    assert.equal((await bench.inbox(held)).length, 10);
  });
  test("M12 messages to closed and unknown runs are refused; others of their batch arrive", async (bench) => {
    const held = await bench.running("a");
    await bench.close(await bench.running("b"));
    const results = await bench.store.send(
      ["missing", "b", "a"].map((runId) => ({ runId, message: { job: signal("s1"), idempotencyKey: "k" } })),
    );
    same(results.slice(0, 2), [{ status: "not-found" }, { status: "closed", runStatus: "completed" }]);
    assert.equal(results[2]?.status, "sent");
    same(idsOf(await bench.inbox(held)), ["s1"]);
  });

  // ── keys ──

  test("M3 an idempotency key makes a repeated send one delivery, also after it was consumed", async (bench) => {
    const held = await bench.running("a");
    const id = await bench.sent("a", signal("s1"), "k");
    same(await bench.send("a", signal("s1"), "k"), { status: "duplicate", inboxId: id });
    same(idsOf(await bench.inbox(held)), ["s1"]);
    await bench.commit(held, { turn: bench.turn(held), consumed: [id] });
    same(await bench.send("a", signal("s1"), "k"), { status: "duplicate", inboxId: id });
    same(await bench.inbox(held), []);
  });
  test("M3 a message that names a workflow reaches only a run of it; otherwise the answer names the run's workflow, and nothing is written", async (bench) => {
    await bench.parked("a");
    for (const [i, job] of [signal("s1"), update("u1"), CANCEL].entries()) {
      const [other] = await bench.store.send([{ runId: "a", message: { job }, workflow: "refund" }]);
      same(other, { status: "other-workflow", workflow: "order" }, `message ${i}`);
      const [keyed] = await bench.store.send([{ runId: "a", message: { job, idempotencyKey: "k" }, workflow: "refund" }]);
      same(keyed, { status: "other-workflow", workflow: "order" }, `message ${i} with a key`);
    }
    assert.equal(await bench.isClaimable("a"), false);
    same(await bench.outcome("a", "u1"), undefined);
    const jobs = [signal("s1"), update("u1")];
    const sent = await bench.store.send(jobs.map((job) => ({ runId: "a", message: { job }, workflow: "order" })));
    same(sent.map(({ status }) => status), ["sent", "sent"]); // biome-ignore format: one line
    const [unknown] = await bench.store.send([{ runId: "missing", message: { job: signal("s2") }, workflow: "order" }]);
    same(unknown, { status: "not-found" });
    same(idsOf((await bench.claimRun("a")).inbox), ["s1", "u1"]);
  });
  test("K1 a cancel of a run that is canceled is acknowledged again, and other messages are refused", async (bench) => {
    await bench.created("a");
    await bench.sent("a", CANCEL);
    const before = await bench.row("a");
    assert.equal(before.status, "canceled");
    same(await bench.send("a", CANCEL), { status: "duplicate", inboxId: 0 });
    same(await bench.row("a"), before);
    same(await bench.send("a", signal("s1")), { status: "closed", runStatus: "canceled" });
    await bench.close(await bench.running("b"));
    same(await bench.send("b", CANCEL), { status: "closed", runStatus: "completed" });
    const sender = await bench.running("c");
    const sends = [{ seq: 7, runId: "a", message: { job: CANCEL } }];
    const { seq, outcome } = resolution(await bench.commit(sender, { turn: bench.turn(sender), sends }));
    same([seq, outcome.status], [7, "completed"]);
  });
  test("M3 a key is remembered after the run has closed: the send that it acknowledged is acknowledged again", async (bench) => {
    const held = await bench.running("a");
    const id = await bench.sent("a", signal("s1"), "k");
    await bench.close(held);
    same(await bench.send("a", signal("s1"), "k"), { status: "duplicate", inboxId: id });
    same(await bench.send("a", signal("s2"), "other"), { status: "closed", runStatus: "completed" });
  });
  test("M3 an idempotency key under concurrency is one delivery", async (bench) => {
    const held = await bench.running("a");
    const results = await Promise.all(range(20).map((i) => bench.send("a", signal(`s${i}`), "k")));
    assert.equal(results.filter(({ status }) => status === "sent").length, 1);
    assert.equal(results.filter(({ status }) => status === "duplicate").length, 19);
    assert.equal(new Set(results.map((result) => ("inboxId" in result ? result.inboxId : -1))).size, 1);
    assert.equal((await bench.inbox(held)).length, 1);
  });
  test("M3 a key twice in one batch is one delivery", async (bench) => {
    const held = await bench.running("a");
    const results = await bench.store.send(["s1", "s2"].map((id) => ({ runId: "a", message: { job: signal(id), idempotencyKey: "k" } })));
    same(results.map(({ status }) => status), ["sent", "duplicate"]); // biome-ignore format: one line
    same(idsOf(await bench.inbox(held)), ["s1"]);
  });
  test("M3 a cancel that is sent again under its key is one delivery, as any message", async (bench) => {
    const held = await bench.running("a");
    const inboxId = await bench.sent("a", { type: "cancel", reason: "enough" }, "k");
    same(await bench.send("a", { type: "cancel", reason: "enough" }, "k"), { status: "duplicate", inboxId });
    same(jobsOf(await bench.inbox(held)), [{ type: "cancel", reason: "enough" }]);
  });
  test("M3 keys are the run's own", async (bench) => {
    const [a, b] = [await bench.running("a"), await bench.running("b")];
    await bench.sent("a", signal("s1"), "k");
    await bench.sent("b", signal("s1"), "k");
    same([idsOf(await bench.inbox(a)), idsOf(await bench.inbox(b))], [["s1"], ["s1"]]);
  });
  test("M3 a key that came with the start counts for later sends, and the other way round", async (bench) => {
    const start = { onConflict: "use-existing", messages: [{ job: signal("s1"), idempotencyKey: "k" }] } as const;
    await bench.created("a", start);
    assert.equal((await bench.send("a", signal("s1"), "k")).status, "duplicate");
    await bench.sent("a", signal("s2"), "l");
    await bench.create("a", { ...start, messages: [...start.messages, { job: signal("s2"), idempotencyKey: "l" }] });
    same(idsOf((await bench.claimRun("a")).inbox), ["s1", "s2"]);
  });

  // ── consumption ──

  test("M7 a message leaves the inbox with the commit that consumed it, and not before", async (bench) => {
    const held = await bench.running("a");
    const [s1, s2] = [await bench.sent("a", signal("s1")), await bench.sent("a", signal("s2"))];
    await bench.commit(held, { turn: bench.turn(held), consumed: [s1], seen: s2 });
    same(idsOf(await bench.inbox(held)), ["s2"]);
    bench.time += LEASE;
    const { inbox } = await bench.claimRun("a", { workerId: "w2" });
    same(idsOf(inbox), ["s2"]);
  });
  test("M7 a run consumes its own messages, not those of others", async (bench) => {
    const [a, b] = [await bench.running("a"), await bench.running("b")];
    const ids = [await bench.sent("a", signal("s1")), await bench.sent("b", signal("s2"))];
    await bench.commit(a, { turn: bench.turn(a), consumed: ids });
    same([idsOf(await bench.inbox(a)), idsOf(await bench.inbox(b))], [[], ["s2"]]);
  });
  test("D9 a commit brings what has arrived since the worker last looked", async (bench) => {
    const held = await bench.running("a");
    const s1 = await bench.sent("a", signal("s1"));
    await bench.sent("a", signal("s2"));
    same(idsOf(await bench.commit(held, { seen: s1 })), ["s2"]);
    same(idsOf(await bench.commit(held, {})), ["s1", "s2"]);
  });

  // ── parking ──

  test("D9 a run parks until its wake-up", async (bench) => {
    const held = await bench.running("a");
    await bench.park(held, { turn: bench.turn(held), wakeAt: START + 100, waitingFor: ["timer"] });
    const { status, workerId, availableAt, waitingFor } = await bench.row("a");
    same({ status, workerId, availableAt, waitingFor }, { status: "sleeping", availableAt: START + 100, waitingFor: ["timer"] });
    bench.time += 99;
    assert.equal(await bench.isClaimable("a"), false);
    bench.time += 1;
    assert.equal((await bench.claimRun("a")).recovered, false);
  });
  test("D9 a commit that parks leaves the run available if its inbox has what the worker was not given", async (bench) => {
    const held = await bench.running("a");
    const s1 = await bench.sent("a", signal("s1"));
    await bench.sent("a", signal("s2"));
    await bench.park(held, { consumed: [s1], seen: s1, wakeAt: START + 5_000 });
    assert.equal((await bench.row("a")).availableAt, START);
    same(idsOf((await bench.claimRun("a")).inbox), ["s2"]);
  });
  test("D9 what the worker was given and left in the inbox does not wake the run that it parks", async (bench) => {
    const held = await bench.running("a");
    const s1 = await bench.sent("a", signal("s1"));
    await bench.park(held, { seen: s1, wakeAt: START + 5_000 });
    assert.equal((await bench.row("a")).availableAt, START + 5_000);
    await bench.sent("a", signal("s2"));
    same(idsOf((await bench.claimRun("a")).inbox), ["s1", "s2"]);
  });
  test("D9 a wake-up that is past is at once", async (bench) => {
    await bench.park(await bench.running("a"), { wakeAt: 0 });
    assert.equal(await bench.isClaimable("a"), true);
  });
  test("D9 parking and messages can't miss each other", async (bench) => {
    const ids = range(50).map((i) => `r${i}`);
    const held = await Promise.all(ids.map((id) => bench.running(id)));
    const orders = held.map((one, i) => {
      const park = () => bench.park(one, { seen: 0 });
      const send = () => bench.sent(one.runId, signal(`s${i}`));
      return i % 2 === 0 ? [park(), send()] : [send(), park()];
    });
    await Promise.all(orders.flat());
    for (const [i, id] of ids.entries()) same(idsOf((await bench.claimRun(id)).inbox), [`s${i}`]);
  });

  // ── from run to run ──

  test("M1 a run's message arrives with its commit, and the answer is in its own inbox", async (bench) => {
    const held = await bench.running("a");
    await bench.parked("b");
    const sends = [{ seq: 4, runId: "b", message: { job: signal("s1"), idempotencyKey: "a/1/4" } }];
    const inbox = await bench.commit(held, { turn: bench.turn(held), sends, seen: 0 });
    same(resolution(inbox), { type: "resolve", seq: 4, outcome: { status: "completed", value: payload(undefined) } });
    same(idsOf((await bench.claimRun("b")).inbox), ["s1"]);
  });
  test("M12 a run's message to a closed or unknown run comes back as a failure", async (bench) => {
    const held = await bench.running("a");
    await bench.close(await bench.running("b"));
    const sends = ["b", "missing"].map((runId, i) => ({ seq: i, runId, message: { job: signal("s1") } }));
    const jobs = jobsOf(await bench.commit(held, { sends }));
    same(jobs.map((job) => (job.type === "resolve" ? [job.seq, failureOf(job.outcome)] : job)), [[0, "RunClosedError"], [1, "RunNotFoundError"]]); // biome-ignore format: pairs
  });
  test("M3 a run's message under a key that was used is acknowledged and delivered once", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b");
    const sends = [1, 2].map((seq) => ({ seq, runId: "b", message: { job: signal("s1"), idempotencyKey: "k" } }));
    const jobs = jobsOf(await bench.commit(held, { sends }));
    same(jobs.map((job) => job.type === "resolve" && job.outcome.status), ["completed", "completed"]); // biome-ignore format: one line
    same(idsOf((await bench.claimRun("b")).inbox), ["s1"]);
  });
  test("D9 a run that parks with its own message is available at once for the answer", async (bench) => {
    const held = await bench.running("a");
    await bench.park(held, { sends: [{ seq: 1, runId: "missing", message: { job: signal("s1") } }], seen: 0, wakeAt: START + 5_000 });
    assert.equal(resolution((await bench.claimRun("a")).inbox).seq, 1);
  });
  test("M1 a commit that ends its run still sends", async (bench) => {
    const held = await bench.running("a");
    await bench.created("b");
    await bench.close(held, COMPLETED, { sends: [{ seq: 1, runId: "b", message: { job: signal("s1") } }] });
    same(idsOf((await bench.claimRun("b")).inbox), ["s1"]);
  });
  test("M1 a run may send to itself", async (bench) => {
    const held = await bench.running("a");
    const inbox = await bench.commit(held, { sends: [{ seq: 1, runId: "a", message: { job: signal("s1") } }] });
    same(idsOf(inbox).toSorted(), ["resolve", "s1"]);
  });

  // ── cancel ──

  test("K9 a run without a first turn is canceled at once, without a worker", async (bench) => {
    await bench.created("a", { delay: 1_000 });
    assert.equal((await bench.send("a", CANCEL)).status, "sent");
    const { status, finishedAt, availableAt, workerId } = await bench.row("a");
    same({ status, finishedAt, availableAt, workerId }, { status: "canceled", finishedAt: START });
    bench.time += 1_000;
    same(runIds(await bench.claim({ queue: "queue of a" })), []);
  });
  test("K9 the reason of a cancel is kept of a run without a first turn, as of any other", async (bench) => {
    for (const [id, reason] of [
      ["a", undefined],
      ["b", "no"],
      ["c", 'the "new"\n\\plan\u0000\ud800'],
    ] as const) {
      // biome-ignore format: pairs
      await bench.created(id, { delay: 1_000 });
      await bench.sent(id, { type: "cancel", ...(reason !== undefined && { reason }) });
      const { status, error } = await bench.row(id);
      const found = error === undefined ? undefined : reviveError(error);
      assert.equal(found === undefined || found instanceof CanceledError, true);
      same([status, (found as CanceledError | undefined)?.reason], ["canceled", reason]);
    }
  });
  test("K1 a run that a worker holds or that has had a turn is canceled by its code", async (bench) => {
    const held = await bench.running("a");
    await bench.parked("b");
    for (const runId of ["a", "b"]) await bench.sent(runId, { type: "cancel", reason: "enough" });
    same(jobsOf(await bench.inbox(held)), [{ type: "cancel", reason: "enough" }]);
    const claimed = await bench.claimRun("b");
    same(jobsOf(claimed.inbox), [{ type: "cancel", reason: "enough" }]);
    await bench.close(heldOf(claimed), { status: "canceled", output: payload("kept") });
    const { status, output } = await bench.row("b");
    same([status, output], ["canceled", payload("kept")]);
  });
  test("K1 a second cancel is harmless", async (bench) => {
    await bench.running("a");
    same([(await bench.send("a", CANCEL)).status, (await bench.send("a", CANCEL)).status], ["sent", "sent"]);
    assert.equal((await bench.row("a")).status, "running");
  });
}
