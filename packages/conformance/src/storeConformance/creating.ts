// Conformance: how runs are created.
// Owns: tests of `create`: what a new run looks like, conflicts, keys, messages with start, start times, the first turn.
// Invariants tested: P10, P11, M3, M8, D2, W2, K7.

import assert from "node:assert/strict";
import type { NewRun } from "holdfast/store";
import { type Bench, COMPLETED, idsOf, LEASE, payload, range, START, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function creating({ test }: Suite): void {
  test("P11 a new run is pending, in its first execution, and available at once", async (bench) => {
    const attributes = { customer: "c1", amount: 12.5, urgent: true };
    const retry = { maxAttempts: 4, initialInterval: 10, backoff: 2, maxInterval: 100, jitter: 0, nonRetryable: ["Fatal"] };
    const row = await bench.created("a", { version: "v1", priority: 3, attributes, retry, seed: "s" });
    same(row, {
      id: "a", workflow: "order", version: "v1", status: "pending", queue: "queue of a", priority: 3, input: payload("a"), waitingFor: [],
      execution: 1, attempt: 1, attributes, seed: "s", retry, createdAt: START, availableAt: START, epoch: 0, historyLength: 0, turns: 0, recoveries: 0,
    }); // biome-ignore format: a row
    same(await bench.store.history("a"), []);
    same(await bench.store.attempts("a"), []);
  });
  test("Q1 T1 B4 F1 a run keeps whose work it is, what started it and how long it is kept; its next execution has its own", async (bench) => {
    const origin = { key: "tenant \u001a 1", schedule: "daily", tick: START - 5, forkedFrom: "b", retention: 60_000 };
    const row = await bench.created("a", origin);
    same([row.key, row.schedule, row.tick, row.forkedFrom, row.retention], Object.values(origin));
    const { run } = await bench.claimRun("a");
    same([run.key, run.schedule, run.tick, run.forkedFrom, run.retention], Object.values(origin));
    await bench.store.terminate([{ runId: "a", reason: undefined }]);
    await bench.create("a", { onConflict: "restart-if-closed", retention: "forever" });
    const next = await bench.row("a");
    same([next.key, next.schedule, next.tick, next.forkedFrom, next.retention], [undefined, undefined, undefined, undefined, "forever"]);
  });
  test("M12 a run that does not exist has no row, no history, no attempts and no outcomes", async (bench) => {
    same(await bench.store.get(["missing"]), [undefined]);
    same(await bench.store.history("missing"), []);
    same(await bench.store.attempts("missing"), []);
    same(await bench.outcome("missing", "u"), undefined);
  });
  test("P10 an id that is taken is a conflict and changes nothing", async (bench) => {
    const before = await bench.created("a");
    bench.time += 5;
    same(await bench.create("a", { input: payload("other"), messages: [{ job: signal("s1") }] }), {
      status: "conflict",
      id: "a",
      runStatus: "pending",
      workflow: "order",
    });
    same(await bench.row("a"), before);
    same((await bench.claimRun("a")).inbox, []);
  });
  test("P10 an id that is taken by a closed run is a conflict too", async (bench) => {
    await bench.close(await bench.running("a"));
    same(await bench.create("a"), { status: "conflict", id: "a", runStatus: "completed", workflow: "order" });
  });
  test("D3 runs of one batch are created each by itself: a conflict affects no other", async (bench) => {
    await bench.created("b");
    const results = await bench.store.create(["a", "b", "c", "c"].map((id) => bench.newRun(id)));
    same(
      results.map(({ id, status }) => [id, status]),
      [["a", "created"], ["b", "conflict"], ["c", "created"], ["c", "conflict"]],
    ); // biome-ignore format: pairs
  });
  test("P10 of many that create the same id at the same time one does", async (bench) => {
    const results = await Promise.all(range(20).map((i) => bench.create("a", { seed: `${i}`, input: payload(i) })));
    const winners = results.flatMap(({ status }, i) => (status === "created" ? [i] : []));
    assert.equal(winners.length, 1);
    assert.equal((await bench.row("a")).seed, `${winners[0]}`);
  });

  test("P10 names that differ in any character are different names", async (bench) => {
    const names = [
      ...["a", "A", " a", "a ", "", "ä", "a\u0308", "'; DROP TABLE runs; --", '"', "\\", "%", "_", "/#~", "🚀", "日本", "x".repeat(512)],
      ...["__proto__", "constructor"],
    ];
    for (const name of names) {
      const id = `run ${name}`;
      const attributes = { [`key ${name}`]: name };
      await bench.created(id, { workflow: name, queue: name, version: name, seed: name, idempotencyKey: name, attributes });
      const { runs } = await bench.claim({ queue: name, serves: [{ workflow: name, versions: [name] }], workerId: name });
      const { run } = runs[0] ?? {};
      same(
        [run?.id, run?.workflow, run?.queue, run?.version, run?.seed, run?.workerId, run?.attributes],
        [id, name, name, name, name, name, attributes],
      );
      await bench.sent(id, update(name));
      await bench.sent(id, signal(name, name), `signal ${name}`);
      assert.equal((await bench.send(id, signal(name), `signal ${name}`)).status, "duplicate");
    }
    assert.equal((await bench.store.list({ limit: 100 })).runs.length, names.length);
  });

  // ── use-existing, restart-if-closed ──

  test("P10 use-existing creates what is missing and finds what is there, open or closed", async (bench) => {
    const created = await bench.create("a", { onConflict: "use-existing" });
    assert.equal(created.status, "created");
    const found = await bench.create("a", { onConflict: "use-existing", input: payload("other") });
    same(found, { status: "existing", id: "a", execution: 1, inboxIds: [] });
    await bench.close(await bench.hold("a"));
    assert.equal((await bench.create("a", { onConflict: "use-existing" })).status, "existing");
    const row = await bench.row("a");
    same([row.status, row.input], ["completed", payload("a")]);
  });
  test("M8 with use-existing the messages of the start go to the run that is there", async (bench) => {
    const held = await bench.parked("a");
    assert.equal(await bench.isClaimable("a"), false);
    const found = await bench.create("a", { onConflict: "use-existing", messages: [{ job: signal("s1") }, { job: update("u1") }] });
    assert.ok(found.status === "existing");
    assert.equal(found.inboxIds.length, 2);
    const claimed = await bench.claimRun("a");
    same(idsOf(claimed.inbox), ["s1", "u1"]);
    same(
      claimed.inbox.map(({ id }) => id),
      found.inboxIds,
    );
    assert.equal(claimed.run.epoch, held.epoch + 1);
  });
  test("M12 use-existing with messages for a closed run is a conflict", async (bench) => {
    await bench.close(await bench.running("a"));
    const result = await bench.create("a", { onConflict: "use-existing", messages: [{ job: signal("s1") }] });
    same(result, { status: "conflict", id: "a", runStatus: "completed", workflow: "order" });
  });
  test("P10 restart-if-closed finds an open run", async (bench) => {
    const before = await bench.created("a");
    const result = await bench.create("a", { onConflict: "restart-if-closed", input: payload("other") });
    assert.equal(result.status, "existing");
    same(await bench.row("a"), before);
  });
  test("P10 restart-if-closed gives a closed run its next execution, with an empty history and what the new start says", async (bench) => {
    const held = await bench.running("a", { attributes: { old: 1 }, deadline: 5 * LEASE });
    await bench.close(held, { status: "completed", output: payload("first") }, { turn: bench.turn(held) });
    bench.time += 50;
    const result = await bench.create("a", {
      onConflict: "restart-if-closed", input: payload("again"), version: "v2", seed: "new", attributes: { fresh: 2 }, messages: [{ job: signal("s1") }], queue: "elsewhere", priority: 7,
    }); // biome-ignore format: options
    assert.ok(result.status === "created");
    same([result.id, result.execution, result.inboxIds.length], ["a", 2, 1]);
    const {
      status,
      execution,
      turns,
      historyLength,
      input,
      version,
      seed,
      output,
      error,
      finishedAt,
      attributes,
      deadlineAt,
      availableAt,
      queue,
      priority,
    } = await bench.row("a");
    same(
      { status, execution, turns, historyLength, input, version, seed, output, error, finishedAt, attributes, deadlineAt, availableAt, queue, priority },
      {
        status: "pending", execution: 2, turns: 0, historyLength: 0, input: payload("again"), version: "v2", seed: "new", attributes: { fresh: 2 },
        availableAt: START + 50, queue: "elsewhere", priority: 7,
      },
    ); // biome-ignore format: a row
    same(await bench.store.history("a"), []);
    const claimed = await bench.claimRun("a");
    same(idsOf(claimed.inbox), ["s1"]);
    same(claimed.turns, []);
    assert.equal((await bench.tryCommit(held, { state: payload("late") })).status, "stale");
  });
  test("P10 P11 a run that begins again has started when it is claimed again, not before", async (bench) => {
    await bench.close(await bench.running("a"));
    assert.equal((await bench.row("a")).startedAt, START);
    bench.time += 50;
    await bench.create("a", { onConflict: "restart-if-closed" });
    assert.equal((await bench.row("a")).startedAt, undefined);
    bench.time += 50;
    await bench.hold("a");
    const { startedAt, createdAt } = await bench.row("a");
    same({ startedAt, createdAt }, { startedAt: START + 100, createdAt: START });
  });
  test("P10 a restarted run answers to its new parent, not to that of the execution before", async (bench) => {
    const parent = await bench.running("p");
    const link = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
    await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun("c", { parent: link })] });
    await bench.close(await bench.hold("c"));
    const [told] = await bench.inbox(parent);
    assert.ok(told !== undefined);
    await bench.commit(parent, { consumed: [told.id] });
    await bench.create("c", { onConflict: "restart-if-closed" });
    assert.equal((await bench.row("c")).parent, undefined);
    await bench.close(await bench.hold("c"));
    same(await bench.inbox(parent), []);
  });

  // ── keys ──

  test("M3 a start that is repeated under its idempotency key finds the run, whatever id it names, and sends nothing twice", async (bench) => {
    const options = { idempotencyKey: "k", messages: [{ job: signal("s1") }] };
    await bench.created("a", options);
    for (const id of ["a", "b"]) {
      const again = await bench.create(id, options);
      assert.ok(again.status === "existing");
      same([again.id, again.execution], ["a", 1]);
    }
    assert.equal(await bench.exists("b"), false);
    same(idsOf((await bench.claimRun("a")).inbox), ["s1"]);
  });
  test("M3 a start under its idempotency key that comes again after the run has closed starts nothing", async (bench) => {
    const options = { idempotencyKey: "k", onConflict: "restart-if-closed" } as const;
    await bench.created("a", options);
    await bench.close(await bench.hold("a"));
    assert.equal((await bench.create("a", options)).status, "existing");
    assert.equal((await bench.row("a")).status, "completed");
  });
  test("M3 of many starts under one idempotency key at the same time one creates a run", async (bench) => {
    const results = await Promise.all(range(20).map((i) => bench.create(`r${i}`, { idempotencyKey: "k" })));
    assert.equal(results.filter(({ status }) => status === "created").length, 1);
    assert.equal(new Set(results.map(({ id }) => id)).size, 1);
    assert.equal((await bench.store.list({ limit: 100 })).runs.length, 1);
  });

  test("M3 the same idempotency key under another workflow is another run", async (bench) => {
    await bench.created("a", { idempotencyKey: "k" });
    await bench.created("b", { idempotencyKey: "k", workflow: "refund" });
    for (const [workflow, id] of [["order", "a"], ["refund", "b"]] as const) {
      const again = await bench.create("c", { idempotencyKey: "k", workflow });
      same([again.status, again.id], ["existing", id]);
    } // biome-ignore format: a table
    assert.equal(await bench.exists("c"), false);
  });
  test("M3 a name and a key are not confused with another pair that reads the same when joined", async (bench) => {
    const pairs = [["a", "b c"], ["a b", "c"], ["a\nb", "c"], ["a", "b\nc"], ["1 a", "b"], ["1", "a b"]] as const; // biome-ignore format: pairs
    for (const [i, [workflow, idempotencyKey]] of pairs.entries()) await bench.created(`r${i}`, { workflow, idempotencyKey });
    for (const [i, [workflow, idempotencyKey]] of pairs.entries())
      same([(await bench.create("other", { workflow, idempotencyKey })).id], [`r${i}`]);
  });
  test("M3 a run keeps the keys of all its starts: those that began it again, and those that found it", async (bench) => {
    await bench.created("a", { idempotencyKey: "k1" });
    assert.equal((await bench.create("a", { idempotencyKey: "k2", onConflict: "use-existing" })).status, "existing");
    await bench.close(await bench.hold("a"));
    const third = { idempotencyKey: "k3", onConflict: "restart-if-closed" } as const;
    assert.equal((await bench.create("a", third)).status, "created");
    await bench.close(await bench.hold("a"));
    for (const idempotencyKey of ["k1", "k2", "k3"]) {
      const again = await bench.create("b", { idempotencyKey, onConflict: "restart-if-closed" });
      same([again.status, again.id], ["existing", "a"]);
    }
    assert.equal((await bench.row("a")).execution, 2);
    assert.equal(await bench.exists("b"), false);
  });
  test("M3 a start that finds its run under an id sends its messages once for each key", async (bench) => {
    await bench.created("a");
    const start = { idempotencyKey: "k", onConflict: "use-existing", messages: [{ job: signal("s1") }] } as const;
    for (let i = 0; i < 3; i++) assert.equal((await bench.create("a", start)).status, "existing");
    same(idsOf((await bench.claimRun("a")).inbox), ["s1"]);
  });
  test("M3 a run of another workflow under an id is a conflict that names it, whatever onConflict says", async (bench) => {
    const before = await bench.created("a");
    await bench.close(await bench.running("b"));
    for (const onConflict of ["reject", "use-existing", "restart-if-closed", "reopen"] as const) {
      for (const more of [{}, { idempotencyKey: "k" }, { messages: [{ job: signal("s1") }] }]) {
        const open = await bench.create("a", { workflow: "refund", onConflict, ...more });
        same(open, { status: "conflict", id: "a", runStatus: "pending", workflow: "order" });
        const closed = await bench.create("b", { workflow: "refund", onConflict, ...more });
        same(closed, { status: "conflict", id: "b", runStatus: "completed", workflow: "order" });
      }
    }
    same(await bench.row("a"), before);
    same((await bench.claimRun("a")).inbox, []);
    await bench.created("c", { workflow: "refund", idempotencyKey: "k" }); // the key was never used
  });

  // ── messages and times ──

  test("M8 messages with the start are there at the first claim, in order", async (bench) => {
    const result = await bench.create("a", { messages: [{ job: signal("s1") }, { job: update("u1") }, { job: signal("s2") }] });
    assert.ok(result.status === "created");
    const { inbox } = await bench.claimRun("a");
    same(idsOf(inbox), ["s1", "u1", "s2"]);
    same(
      inbox.map(({ id }) => id),
      result.inboxIds,
    );
  });
  test("W2 a run with a delay or a start time is not claimed before it", async (bench) => {
    await bench.created("a", { delay: 100, queue: "q" });
    await bench.created("b", { startAt: START + 200, queue: "q" });
    const ids = async () => (await bench.claim({ queue: "q" })).runs.map(({ run }) => run.id);
    same(await ids(), []);
    bench.time = START + 99;
    same(await ids(), []);
    bench.time = START + 100;
    same(await ids(), ["a"]);
    bench.time = START + 200;
    same(await ids(), ["b"]);
  });
  test("M2 a message does not start a run before its time, and is there when it starts", async (bench) => {
    await bench.created("a", { delay: 100 });
    await bench.sent("a", signal("s1"));
    assert.equal(await bench.isClaimable("a"), false);
    bench.time += 100;
    same(idsOf((await bench.claimRun("a")).inbox), ["s1"]);
  });
  test("K7 a deadline is a length from now or a moment", async (bench) => {
    assert.equal((await bench.created("a", { deadline: 100 })).deadlineAt, START + 100);
    assert.equal((await bench.created("b", { deadlineAt: START + 7 })).deadlineAt, START + 7);
  });

  // ── the first turn ──

  test("D2 a run with its first turn is created leased to its worker, with all that the turn wrote", async (bench) => {
    const child = bench.newRun("c", { parent: { runId: "a", execution: 1, seq: 2, parentClose: "cancel", announce: true } });
    const run = firstRun(bench, { state: payload("published"), children: [child], tasks: [bench.newTask(3)], attributes: { seen: true } });
    const result = (await bench.store.create([run]))[0];
    assert.ok(result?.status === "created");
    const { status, epoch, workerId, startedAt, availableAt, turns, historyLength, state, attributes } = await bench.row("a");
    same(
      { status, epoch, workerId, startedAt, availableAt, turns, historyLength, state, attributes },
      { status: "running", epoch: 1, workerId: "w1", startedAt: START, availableAt: START + LEASE, turns: 1, historyLength: 1, state: payload("published"), attributes: { seen: true } },
    ); // biome-ignore format: a row
    same(await bench.store.history("a"), [run.first?.commit.turn]);
    assert.equal(await bench.exists("c"), true);
    assert.equal((await bench.claimTasks()).length, 1);
    const held = { runId: "a", execution: 1, epoch: 1, workerId: "w1", turns: 1 };
    same(
      (await bench.inbox(held)).map(({ job }) => job.type),
      ["childStarted"],
    );
    await bench.close(held);
  });
  test("D2 a first turn may park or end the run", async (bench) => {
    await bench.store.create([
      firstRun(bench, { lease: "park", status: "sleeping", wakeAt: START + 50 }, "a"),
      firstRun(bench, { close: COMPLETED, status: "completed" }, "b"),
    ]);
    const [a, b] = [await bench.row("a"), await bench.row("b")];
    same([a.status, a.workerId, a.availableAt], ["sleeping", undefined, START + 50]);
    same([b.status, b.output, b.finishedAt, b.availableAt], ["completed", payload("done"), START, undefined]);
  });
  test("D2 a first turn whose run exists writes nothing", async (bench) => {
    const before = await bench.created("a");
    const target = await bench.parked("t");
    const child = bench.newRun("c", { parent: { runId: "a", execution: 1, seq: 2, parentClose: "cancel", announce: true } });
    const commit = {
      state: payload("published"), children: [child], tasks: [bench.newTask(3)], attributes: { seen: true }, updates: [{ id: "u1", outcome: { status: "completed", value: payload(1) } }],
      sends: [{ seq: 4, runId: "t", message: { job: signal("s1") } }],
    } as const; // biome-ignore format: a commit
    const run = firstRun(bench, commit);
    for (const onConflict of ["reject", "use-existing", "restart-if-closed"] as const) {
      const result = (await bench.store.create([{ ...run, onConflict }]))[0];
      assert.equal(result?.status, onConflict === "reject" ? "conflict" : "existing");
    }
    same(await bench.row("a"), before);
    same(await bench.store.history("a"), []);
    same(await bench.outcome("a", "u1"), undefined);
    assert.equal(await bench.exists("c"), false);
    same(await bench.claimTasks(), []);
    assert.equal(await bench.isClaimable(target.runId), false);
  });
}

function firstRun(bench: Bench, more: Partial<NonNullable<NewRun["first"]>["commit"]>, id = "a"): NewRun {
  const held = { runId: id, execution: 1, epoch: 1, workerId: "w1", turns: 0 };
  return bench.newRun(id, { first: { workerId: "w1", lease: LEASE, commit: bench.draft(held, { turn: bench.turn(held), ...more }) } });
}
