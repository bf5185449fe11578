// Conformance: parents and children, and how the end of one reaches the other.
// Owns: tests of a commit's `children`, `cancelChildren` and `close`, as far as other runs are concerned.
// Invariants tested: D2, K3, K6, K9, P10, M3.

import assert from "node:assert/strict";
import { RunAlreadyExistsError, reviveError } from "@holdfast/core";
import type { InboxJob, InboxMessage, NewRun, ParentLink, RunClose } from "holdfast/store";
import { type Bench, COMPLETED, failure, failureOf, type Held, jobsOf, LEASE, payload, resolution, START, same, signal } from "./bench.ts";
import type { Suite } from "./suite.ts";

type ParentClose = ParentLink["parentClose"];

const linkTo = (parent: Held, seq: number, parentClose: ParentClose = "cancel", announce = false): ParentLink => ({
  runId: parent.runId,
  execution: parent.execution,
  seq,
  parentClose,
  announce,
});

/** A child of a held parent, created with its next turn. */
async function child(
  bench: Bench,
  parent: Held,
  id: string,
  seq: number,
  parentClose?: ParentClose,
  more: Partial<NewRun> = {},
): Promise<void> {
  const link = linkTo(parent, seq, parentClose);
  await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun(id, { parent: link, ...more })] });
}
/** … that has had a turn and waits. */
async function begun(bench: Bench, parent: Held, id: string, seq: number, parentClose?: ParentClose): Promise<Held> {
  await child(bench, parent, id, seq, parentClose);
  const held = await bench.hold(id);
  await bench.park(held, { turn: bench.turn(held) });
  return held;
}

/** All messages, which must be answers to operations. */
function answersOf(inbox: readonly InboxMessage[]): Extract<InboxJob, { type: "resolve" }>[] {
  return inbox.map((message) => resolution([message]));
}

export function families({ test }: Suite): void {
  test("D2 a child exists with the commit that asks for it, linked to its parent", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4, "terminate", { attributes: { x: 1 }, priority: 2 });
    const row = await bench.row("c");
    same([row.status, row.parent, row.attributes, row.priority], ["pending", linkTo(parent, 4, "terminate"), { x: 1 }, 2]);
    same(await bench.inbox(parent), []);
  });
  test("D2 a child that is announced tells its parent that it exists", async (bench) => {
    const parent = await bench.running("p");
    const children = [bench.newRun("c", { parent: linkTo(parent, 4, "abandon", true) })];
    same(jobsOf(await bench.commit(parent, { turn: bench.turn(parent), children })), [{ type: "childStarted", seq: 4, runId: "c" }]);
  });
  test("D2 P10 of many children of one turn each that can be exists, in their order, and each that can't is a failure by itself", async (bench) => {
    const taken = await bench.created("c3");
    const parent = await bench.running("p");
    const ids = ["c9", "c1", "c3", "c5", "c1", "c7"]; // one that exists, one that is asked for twice
    const children = ids.map((id, i) =>
      bench.newRun(id, { queue: "shared", parent: linkTo(parent, i + 1), input: payload(`${id} as ${i}`) }),
    );
    const answers = answersOf(await bench.commit(parent, { turn: bench.turn(parent), children }));
    same(answers.map(({ seq, outcome }) => [seq, failureOf(outcome)]), [[3, "RunAlreadyExistsError"], [5, "RunAlreadyExistsError"]]); // biome-ignore format: a table
    assert.deepEqual(await bench.row("c3"), taken);
    const { runs } = await bench.claim({ queue: "shared" });
    same(runs.map(({ run }) => [run.id, run.input, run.parent?.seq]), [["c9", payload("c9 as 0"), 1], ["c1", payload("c1 as 1"), 2], ["c5", payload("c5 as 3"), 4], ["c7", payload("c7 as 5"), 6]]); // biome-ignore format: a table
  });
  test("D2 many children that end in one batch tell their parents, each its own, in order, however they end", async (bench) => {
    const [one, other] = [await bench.running("p1"), await bench.running("p2")];
    const held: Held[] = [];
    for (let i = 0; i < 8; i++) {
      await child(bench, i % 2 === 0 ? one : other, `c${i}`, i + 1);
      held.push(await bench.hold(`c${i}`));
    }
    await bench.park(other, { seen: 0 });
    const ends = [
      { status: "completed", output: payload("out") },
      { status: "failed", error: failure("no") },
      { status: "canceled" },
    ] as const;
    await bench.store.commit(held.map((run, i) => bench.draft(run, { turn: bench.turn(run), close: ends[i % 3] as RunClose })));
    const told = (inbox: readonly InboxMessage[]) => answersOf(inbox).map(({ seq, outcome }) => [seq, outcome.status]);
    same(told(await bench.inbox(one)), [[1, "completed"], [3, "canceled"], [5, "failed"], [7, "completed"]]); // biome-ignore format: a table
    assert.equal(await bench.isClaimable("p2"), true);
    same(told((await bench.claimRun("p2")).inbox), [[2, "failed"], [4, "completed"], [6, "canceled"], [8, "failed"]]); // biome-ignore format: a table
  });
  test("D9 a parent that parks with a child that is announced is available at once", async (bench) => {
    const parent = await bench.running("p");
    await bench.park(parent, {
      children: [bench.newRun("c", { parent: linkTo(parent, 4, "abandon", true) })],
      seen: 0,
      wakeAt: START + 500,
    });
    assert.equal(await bench.isClaimable("p"), true);
  });
  test("P10 a child whose id is taken is a failure for its parent, and the run that has the id is not touched", async (bench) => {
    const before = await bench.created("c");
    const parent = await bench.running("p");
    const children = [
      bench.newRun("c", { parent: linkTo(parent, 4, "cancel", true), messages: [{ job: signal("s1") }] }),
      bench.newRun("d", { parent: linkTo(parent, 5) }),
    ];
    const { seq, outcome } = resolution(await bench.commit(parent, { turn: bench.turn(parent), children }));
    same([seq, failureOf(outcome)], [4, "RunAlreadyExistsError"]);
    same(await bench.row("c"), before);
    assert.equal(await bench.exists("d"), true);
    await bench.close(parent);
    same((await bench.row("c")).status, "pending");
  });

  test("P10 a child with restart-if-closed is the next execution of a closed run, and answers to its new parent", async (bench) => {
    for (const announce of [false, true]) {
      const id = `c ${announce}`;
      await bench.close(await bench.running(id, { attributes: { old: 1 } }));
      const parent = await bench.running(`p ${announce}`);
      const link = linkTo(parent, 4, "cancel", announce);
      const children = [
        bench.newRun(id, { parent: link, onConflict: "restart-if-closed", input: payload("again"), attributes: { fresh: 2 } }),
      ];
      const told = await bench.commit(parent, { turn: bench.turn(parent), children });
      same(jobsOf(told), announce ? [{ type: "childStarted", seq: 4, runId: id }] : []);
      const { execution, parent: now, input, attributes, status } = await bench.row(id);
      same(
        { execution, parent: now, input, attributes, status },
        { execution: 2, parent: link, input: payload("again"), attributes: { fresh: 2 }, status: "pending" },
      );
      await bench.commit(parent, { consumed: told.map((message) => message.id) });
      await bench.close(await bench.hold(id));
      same(resolution(await bench.inbox(parent)).outcome, { status: "completed", value: payload("done") });
    }
  });
  test("P10 a child with restart-if-closed whose id an open run has is a failure for its parent; that run is not touched", async (bench) => {
    const before = await bench.created("c");
    const parent = await bench.running("p");
    for (const announce of [false, true]) {
      const children = [bench.newRun("c", { parent: linkTo(parent, 4, "cancel", announce), onConflict: "restart-if-closed" })];
      const inbox = await bench.commit(parent, { turn: bench.turn(parent), children });
      const { seq, outcome } = resolution(inbox);
      same([seq, failureOf(outcome)], [4, "RunAlreadyExistsError"]);
      await bench.commit(parent, { consumed: inbox.map(({ id }) => id) });
    }
    same(await bench.row("c"), before);
  });
  test("M3 a child whose id is taken by a run of another workflow learns which", async (bench) => {
    await bench.created("c", { workflow: 'refund "x"' });
    const parent = await bench.running("p");
    const children = [bench.newRun("c", { parent: linkTo(parent, 4) })];
    const { outcome } = resolution(await bench.commit(parent, { turn: bench.turn(parent), children }));
    assert.ok(outcome.status === "failed");
    const error = reviveError(outcome.error);
    assert.ok(error instanceof RunAlreadyExistsError);
    same([error.runId, error.runIds, error.workflow], ["c", ["c"], 'refund "x"']);
    assert.ok(error.message.includes('a run of workflow "refund "x""'), error.message);
  });

  // ── the child ends ──

  const ends: readonly [string, RunClose, unknown][] = [
    ["completed", COMPLETED, { status: "completed", value: payload("done") }],
    ["completed with nothing", { status: "completed" }, { status: "completed", value: payload(undefined) }],
    ["failed", { status: "failed", error: failure("no") }, { status: "failed", error: failure("no") }],
    ["canceled", { status: "canceled" }, { status: "canceled" }],
  ];
  for (const [how, close, outcome] of ends) {
    test(`D2 a child that ${how} tells its parent in the same commit, and wakes it if it waits`, async (bench) => {
      const parent = await bench.running("p");
      await child(bench, parent, "c", 4);
      await bench.park(parent, {});
      bench.time += 10;
      await bench.close(await bench.hold("c"), close);
      assert.equal((await bench.row("p")).availableAt, START + 10);
      same(resolution((await bench.claimRun("p")).inbox), { type: "resolve", seq: 4, outcome });
    });
  }
  test("D2 a parent that is held is notified of its child's end, and keeps its lease", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4);
    await bench.close(await bench.hold("c"));
    assert.equal((await bench.row("p")).availableAt, START + LEASE);
    assert.equal(resolution(await bench.inbox(parent)).seq, 4);
  });
  test("K6 a child that is terminated is a failure for its parent", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4);
    await bench.store.terminate([{ runId: "c", reason: "enough" }]);
    assert.equal(failureOf(resolution(await bench.inbox(parent)).outcome), "RunTerminatedError");
  });
  test("K9 a child that is canceled before its first turn tells its parent", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4);
    await bench.send("c", { type: "cancel" });
    assert.equal(resolution(await bench.inbox(parent)).outcome.status, "canceled");
  });
  test("K6 a child that ends after its parent notifies no run", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4, "abandon");
    await bench.close(parent);
    const before = await bench.row("p");
    await bench.close(await bench.hold("c"));
    same(await bench.row("p"), before);
    assert.equal((await bench.row("c")).status, "completed");
  });
  test("P10 a child that continues tells its parent nothing until its last execution ends", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4);
    await bench.close(await bench.hold("c"), {
      status: "continued",
      next: { input: payload(2), version: undefined, seed: "2", carried: [] },
    });
    same(await bench.inbox(parent), []);
    await bench.close(await bench.hold("c"));
    same(resolution(await bench.inbox(parent)).outcome, { status: "completed", value: payload("done") });
  });
  test("P10 a parent that has continued is not notified of children of the execution before: their numbers are used again", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 4);
    await bench.close(parent, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } });
    const next = await bench.hold("p");
    await bench.close(await bench.hold("c"));
    same(await bench.inbox(next), []);
  });

  test("D9 a child that ends and a parent that parks in one batch can't miss each other", async (bench) => {
    for (const order of ["parent first", "child first"]) {
      const [p, c] = [`p, ${order}`, `c, ${order}`];
      const parent = await bench.running(p);
      await child(bench, parent, c, 4);
      const end = bench.draft(await bench.hold(c), { close: COMPLETED, status: "completed" });
      const park = bench.draft(parent, { lease: "park", status: "sleeping", seen: 0 });
      await bench.store.commit(order === "parent first" ? [park, end] : [end, park]);
      assert.equal(await bench.isClaimable(p), true);
      assert.equal(resolution((await bench.claimRun(p)).inbox).seq, 4);
    }
  });

  // ── the parent ends ──

  test("K6 children follow their parentClose in the commit that closes their parent", async (bench) => {
    const parent = await bench.running("p");
    await begun(bench, parent, "canceled", 1, "cancel");
    await begun(bench, parent, "terminated", 2, "terminate");
    await begun(bench, parent, "abandoned", 3, "abandon");
    bench.time += 10;
    await bench.close(parent);
    const { status, finishedAt, error } = await bench.row("terminated");
    same([status, finishedAt, error?.name], ["terminated", START + 10, "RunTerminatedError"]);
    assert.equal(await bench.isClaimable("abandoned"), false);
    assert.equal((await bench.row("abandoned")).parent?.runId, "p");
    same((await bench.claimRun("canceled")).inbox.map(({ job }) => job.type), ["cancel"]); // biome-ignore format: one line
  });
  test("K5 children that have ended stay as they ended when their parent closes", async (bench) => {
    const parent = await bench.running("p");
    for (const [seq, parentClose] of (["cancel", "terminate"] as const).entries()) {
      await child(bench, parent, parentClose, seq, parentClose);
      await bench.close(await bench.hold(parentClose));
    }
    const before = await bench.store.get(["cancel", "terminate"]);
    bench.time += 10;
    await bench.close(parent);
    same(await bench.store.get(["cancel", "terminate"]), before);
    assert.equal(before[1]?.status, "completed");
  });
  test("K6 a child that a worker holds is notified, or loses its claim", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "canceled", 1, "cancel");
    await child(bench, parent, "terminated", 2, "terminate");
    const [canceled, terminated] = [await bench.hold("canceled"), await bench.hold("terminated")];
    await bench.close(parent);
    same((await bench.inbox(canceled)).map(({ job }) => job.type), ["cancel"]); // biome-ignore format: one line
    assert.equal((await bench.tryCommit(terminated, { close: COMPLETED })).status, "stale");
  });
  test("K9 a child without a first turn is canceled with its parent's end, at once", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 1);
    await bench.close(parent, { status: "failed", error: failure("no") });
    assert.equal((await bench.row("c")).status, "canceled");
  });
  test("K6 a child that the closing commit creates follows too", async (bench) => {
    const parent = await bench.running("p");
    const children = (["cancel", "terminate", "abandon"] as const).map((parentClose, i) =>
      bench.newRun(parentClose, { parent: linkTo(parent, i, parentClose) }),
    );
    await bench.close(parent, COMPLETED, { turn: bench.turn(parent), children });
    same((await bench.store.get(["cancel", "terminate", "abandon"])).map((row) => row?.status), ["canceled", "terminated", "pending"]); // biome-ignore format: one line
  });
  for (const [how, end] of [
    ["terminated", (bench: Bench) => bench.store.terminate([{ runId: "p", reason: undefined }])],
    ["past its deadline", (bench: Bench) => bench.store.expire()],
  ] as const) {
    test(`K6 children of a run that is ${how} follow as well, down the family`, async (bench) => {
      const parent = await bench.running("p", { deadline: 10 });
      await child(bench, parent, "c", 1, "terminate");
      const held = await bench.hold("c");
      await child(bench, held, "grandchild", 1, "terminate");
      await child(bench, held, "waiting", 2, "cancel");
      await child(bench, held, "free", 3, "abandon");
      bench.time += 10;
      await end(bench);
      same((await bench.store.get(["c", "grandchild", "waiting", "free"])).map((row) => row?.status), ["terminated", "terminated", "canceled", "pending"]); // biome-ignore format: one line
    });
  }
  test("K9 a run canceled without a turn takes its children along", async (bench) => {
    await bench.created("p");
    await bench.created("c", { parent: { runId: "p", execution: 1, seq: 1, parentClose: "terminate", announce: false } });
    await bench.send("p", { type: "cancel" });
    assert.equal((await bench.row("c")).status, "terminated");
  });
  test("P10 a run that continues keeps its children, and they follow when the chain ends", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 1, "terminate");
    await bench.close(parent, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } });
    assert.equal((await bench.row("c")).status, "pending");
    await bench.close(await bench.hold("p"));
    assert.equal((await bench.row("c")).status, "terminated");
  });

  // ── the parent cancels a child ──

  test("K6 a child that its parent cancels gets a cancellation, by the number that started it", async (bench) => {
    const parent = await bench.running("p");
    await begun(bench, parent, "c", 1);
    await begun(bench, parent, "d", 2);
    await bench.commit(parent, { turn: bench.turn(parent), cancelChildren: [1, 77] });
    same((await bench.claimRun("c")).inbox.map(({ job }) => job), [{ type: "cancel", reason: "its parent p canceled it" }]); // biome-ignore format: one line
    assert.equal(await bench.isClaimable("d"), false);
  });
  test("K9 a child that its parent cancels before its first turn is canceled at once", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 1);
    await bench.commit(parent, { cancelChildren: [1] });
    assert.equal((await bench.row("c")).status, "canceled");
  });
  test("P10 numbers of the execution before name no children of this one", async (bench) => {
    const parent = await bench.running("p");
    await child(bench, parent, "c", 1);
    await bench.close(parent, { status: "continued", next: { input: payload(2), version: undefined, seed: "2", carried: [] } });
    const next = await bench.hold("p");
    await bench.commit(next, { cancelChildren: [1] });
    assert.equal((await bench.row("c")).status, "pending");
  });
}
