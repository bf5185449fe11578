// Conformance: batches.
// Owns: tests of large, empty and mixed ones.
// Invariants tested: D3 (items share transactions, and each succeeds or fails by itself).

import assert from "node:assert/strict";
import type { NewRun } from "holdfast/store";
import { type Bench, CANCEL, failure, type Held, idsOf, LEASE, payload, range, runIds, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

/** Runs of every kind, under ids that begin with `name`; all of their ids, one of them twice, and one of no run. */
async function crowd(bench: Bench, name: string): Promise<string[]> {
  const id = (kind: string): string => `${name} ${kind}`;
  const parent = (of: Held, seq: number): NewRun["parent"] => ({
    runId: of.runId,
    execution: 1,
    seq,
    parentClose: "cancel",
    announce: false,
  });
  await bench.created(id("pending"));
  await bench.created(id("delayed"), { delay: 1_000 });
  await bench.created(id("with a message"));
  await bench.sent(id("with a message"), signal("s1"), "s1");
  await bench.parked(id("parked"));
  await bench.parked(id("asked"));
  await bench.sent(id("asked"), update("u1"), "u1");
  await bench.sent(id("asked"), signal("s1"), "used");
  const answering = await bench.running(id("answering"));
  await bench.sent(id("answering"), update("u1"), "u1");
  await bench.park(answering, { turn: bench.turn(answering), consumed: (await bench.inbox(answering)).map((one) => one.id) });
  const leased = await bench.running(id("leased"));
  for (const _ of range(2)) await bench.commit(leased, { turn: bench.turn(leased) });
  const blocked = await bench.running(id("blocked"));
  await bench.park(blocked, { turn: bench.turn(blocked), status: "blocked", blocked: { error: failure("no"), code: "c" } });
  const active = await bench.running(id("with activities"));
  await bench.park(active, { turn: bench.turn(active), tasks: [1, 2].map((seq) => bench.newTask(seq, { queue: id("tasks") })) });
  await bench.claimTask({ queue: id("tasks") });
  const family = await bench.running(id("parent"));
  const children = ["first child", "second child"].map((child, i) => bench.newRun(id(child), { parent: parent(family, i + 1) }));
  await bench.park(family, { turn: bench.turn(family), children });
  await bench.parked(id("awaited"));
  await bench.created(id("waiting"), { after: id("awaited") });
  await bench.parked(id("with a next start"));
  await bench.create(id("with a next start"), { onConflict: "debounce", input: payload("next") });
  await bench.close(await bench.running(id("closed")));
  await bench.store.terminate([{ runId: (await bench.created(id("terminated"))).id, reason: "before" }]);
  const kinds = [
    "pending",
    "delayed",
    "with a message",
    "parked",
    "asked",
    "answering",
    "leased",
    "blocked",
    "with activities",
    "first child",
  ];
  const more = ["parent", "second child", "awaited", "waiting", "with a next start", "closed", "terminated", "pending", "unknown"];
  return [...kinds, ...more].map(id);
}
/** Everything that can be seen of a run, except for generated numbers. */
async function seen(bench: Bench, name: string, ids: readonly string[]): Promise<unknown> {
  const rows = await bench.store.get(ids);
  const runs: unknown[] = [];
  // One after the other: of two that send the same key the first is the one that sends.
  for (const [i, id] of ids.entries()) {
    runs.push({
      row: { ...rows[i], error: rows[i]?.error && { name: rows[i]?.error?.name, message: rows[i]?.error?.message } },
      inbox: (await bench.store.inbox(id)).map(({ job }) => job),
      outcome: (await bench.outcome(id, "u1"))?.status,
      attempts: (await bench.attempts(id)).map(({ seq, number, status }) => [seq, number, status]),
      isKeyUsed: (await bench.send(id, signal("again"), "used")).status,
    });
  }
  return JSON.parse(JSON.stringify(runs).replaceAll(`${name} `, ""));
}

/** Numbers of messages are given out in order. */
const answersOf = (answers: unknown): unknown =>
  JSON.parse(JSON.stringify(answers, (key, value: unknown) => (key === "inboxId" ? Math.min(1, Number(value)) : value)));

/** What is asked of many runs at once. */
const ASKED: Readonly<Record<string, (bench: Bench, ids: readonly string[]) => Promise<unknown>>> = {
  terminate: (bench, ids) => bench.store.terminate(ids.map((runId) => ({ runId, reason: "enough" }))),
  cancel: (bench, ids) => bench.store.send(ids.map((runId) => ({ runId, message: { job: CANCEL, idempotencyKey: "used" } }))),
  signal: (bench, ids) => bench.store.send(ids.map((runId) => ({ runId, message: { job: signal("s2"), idempotencyKey: "used" } }))),
  delete: (bench, ids) => bench.store.delete(ids),
};

export function batches({ test }: Suite): void {
  for (const [what, ask] of Object.entries(ASKED)) {
    test(`D3 ${what}: runs of every kind in one batch are answered, and left, as if each came alone`, async (bench) => {
      const ids = { one: await crowd(bench, "one"), all: await crowd(bench, "all") };
      const alone: unknown[] = [];
      for (const id of ids.one) alone.push(...((await ask(bench, [id])) as unknown[]));
      const together = await ask(bench, ids.all);
      same(answersOf(together), answersOf(alone));
      same(await seen(bench, "all", ids.all), await seen(bench, "one", ids.one));
    });
  }
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
      ids.map((runId, i) => ({ runId: i === unknown ? "missing" : runId, message: { job: signal("s") } })),
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
    // Each is a separate call, so that any of them may come first.
    same(idsOf(await bench.inbox({ runId, epoch, ...held })).toSorted(), range(6).map((i) => `s${i}`)); // biome-ignore format: one line
  });
}
