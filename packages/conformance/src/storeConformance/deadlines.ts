// Conformance: what deadlines do to runs.
// Owns: tests of `expire`, and of claims of what is past its deadline.
// Invariants tested: K7, with S1, P10, D11 and V4 as far as they meet it.

import assert from "node:assert/strict";
import type { RunClose, TurnCommit } from "holdfast/store";
import { COMPLETED, failure, failureOf, jobsOf, payload, range, resolution, runIds, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

const next: RunClose = { status: "continued", next: { input: payload("next"), version: "v2", seed: "seed 2", carried: [] } };
const BLOCKED = { status: "blocked", blocked: { error: failure("diverged"), code: "code 1" }, seen: Number.MAX_SAFE_INTEGER } as const;

export function deadlines({ test }: Suite): void {
  test("K7 a run past its deadline fails at once, with no turn, no matter which worker holds it", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.created("b", { deadline: 100, delay: 1_000 });
    await bench.parked("c", { deadline: 101 });
    bench.time += 99;
    assert.equal((await bench.store.expire()).expired, 0);
    bench.time += 1;
    assert.equal((await bench.store.expire()).expired, 2);
    assert.equal((await bench.store.expire()).expired, 0);
    for (const id of ["a", "b"]) {
      const { status, error, finishedAt, workerId, availableAt } = await bench.row(id);
      same(
        [status, error?.name, finishedAt, workerId, availableAt],
        ["failed", "DeadlineExceededError", START + 100, undefined, undefined],
      );
    }
    assert.equal((await bench.tryCommit(held, { close: COMPLETED })).status, "stale");
    assert.equal((await bench.row("c")).status, "sleeping");
  });
  test("K7 the parent of a run past its deadline is notified", async (bench) => {
    const parent = await bench.running("p");
    const link = { runId: "p", execution: 1, seq: 3, parentClose: "cancel", announce: false } as const;
    await bench.commit(parent, { children: [bench.newRun("c", { parent: link, deadline: 10 })] });
    bench.time += 10;
    await bench.store.expire();
    const { seq, outcome } = resolution(await bench.inbox(parent));
    same([seq, failureOf(outcome)], [3, "DeadlineExceededError"]);
  });
  test("K7 a run with rollbacks loses its claim and gets the news once; its code undoes what it did", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.commit(held, { turn: bench.turn(held), rollbacks: 2 });
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 1);
    assert.equal((await bench.store.expire()).expired, 0);
    assert.equal((await bench.tryCommit(held, { state: payload("late") })).status, "stale");
    const { inbox, recovered } = await bench.claimRun("a", { workerId: "w2" });
    assert.equal(recovered, false);
    same(jobsOf(inbox).map((job) => (job.type === "expire" ? job.error.name : job.type)), ["DeadlineExceededError"]); // biome-ignore format: one line
    assert.equal((await bench.store.expire()).expired, 0);
  });
  test("K7 S1 what a turn says of rollbacks counts at the deadline, whether the run keeps its lease, says what it waits for or parks", async (bench) => {
    const ways: Readonly<Record<string, Partial<TurnCommit>>> = {
      goes: {},
      says: { waitingFor: ["x"] },
      parks: { lease: "park", status: "sleeping" },
    };
    for (const [id, way] of Object.entries(ways)) {
      const none = await bench.running(`${id}, none left`, { deadline: 100 });
      await bench.commit(none, { turn: bench.turn(none), rollbacks: 2 });
      await bench.commit(none, { turn: bench.turn(none), rollbacks: 0, ...way });
      const some = await bench.running(id, { deadline: 100 });
      await bench.commit(some, { turn: bench.turn(some), rollbacks: 2, ...way });
    }
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 6);
    for (const id of Object.keys(ways)) {
      assert.equal((await bench.row(`${id}, none left`)).status, "failed", `${id}, none left`);
      const { inbox } = await bench.claimRun(id, { workerId: "w2" });
      same([id, ...jobsOf(inbox).map(({ type }) => type)], [id, "expire"]);
    }
  });
  test("K7 S1 a run that is rolling back outlasts its deadline undisturbed, and the deadline counts once", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.commit(held, { turn: bench.turn(held), status: "rolling_back", rollbacks: 2 });
    const parked = await bench.running("b", { deadline: 100 });
    await bench.park(parked, { turn: bench.turn(parked), status: "rolling_back", rollbacks: 0, wakeAt: START + 900 });
    const before = await bench.store.get(["a", "b"]);
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 2);
    assert.equal((await bench.store.expire()).expired, 0);
    same(await bench.store.get(["a", "b"]), before); // epoch, worker and lease; when the next attempt is due
    same(await bench.inbox(held), []);
    await bench.commit(held, { turn: bench.turn(held), status: "rolling_back", rollbacks: 1 });
    await bench.close(held, { status: "failed", error: failure("no stock"), resumable: false }, { turn: bench.turn(held) });
    same([(await bench.row("a")).status, (await bench.row("a")).error], ["failed", failure("no stock")]);
    bench.time = START + 900;
    same((await bench.claimRun("b")).inbox, []);
    assert.equal((await bench.store.expire()).expired, 0);
  });
  test("K7 once its rollbacks are discarded, a run past its deadline fails at once", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.commit(held, { rollbacks: 2 });
    await bench.commit(held, { rollbacks: 0 });
    bench.time += 100;
    await bench.store.expire();
    assert.equal((await bench.row("a")).status, "failed");
  });
  test("K7 no run retry follows a deadline, and it can't be resumed", async (bench) => {
    const held = await bench.running("a", {
      deadline: 100,
      retry: { maxAttempts: 5, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 },
    });
    await bench.commit(held, { turn: bench.turn(held) });
    bench.time += 100;
    await bench.store.expire();
    same(await bench.store.resume(["a"]), ["not-resumable"]);
  });
  test("K7 a run that is resumed has its deadline still", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    await bench.store.resume(["a"]);
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 1);
    assert.equal((await bench.row("a")).error?.name, "DeadlineExceededError");
  });
  test("K7 P10 a run that begins again has the deadline of its new start", async (bench) => {
    await bench.running("a", { deadline: 100 });
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 1);
    await bench.create("a", { onConflict: "restart-if-closed", deadline: 50 });
    assert.equal((await bench.store.expire()).expired, 0);
    bench.time += 50;
    assert.equal((await bench.store.expire()).expired, 1);
    same([(await bench.row("a")).status, (await bench.row("a")).execution], ["failed", 2]);
  });
  test("K7 deadlines go on with the chain", async (bench) => {
    await bench.close(await bench.running("a", { deadline: 100 }), next);
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 1);
    same([(await bench.row("a")).status, (await bench.row("a")).execution], ["failed", 2]);
  });

  // ── claims ──

  test("K7 a claim hands out no run past its deadline, begun or not, and has room for those that are not", async (bench) => {
    const queue = "one";
    for (const i of range(5)) await bench.created(`new ${i}`, { queue, deadline: i });
    const slept = await bench.running("slept", { deadline: 100 });
    await bench.park(slept, { turn: bench.turn(slept), wakeAt: START + 200 });
    await bench.running("lost", { deadline: 100 }); // by a worker that died
    await bench.created("in time", { queue, deadline: 1_000_000 });
    bench.time += 100_000;
    same(runIds(await bench.claim({ queue, limit: 1, workerId: "w2" })), ["in time"]);
    for (const id of ["slept", "lost"]) same(runIds(await bench.claim({ queue: `queue of ${id}`, workerId: "w2" })), []);
    await bench.store.expire();
    for (const id of [...range(5).map((i) => `new ${i}`), "slept", "lost"]) {
      const { status, error, startedAt } = await bench.row(id);
      same([status, error?.name, startedAt === undefined], ["failed", "DeadlineExceededError", id.startsWith("new")]);
    }
  });
  test("K7 S1 one past its deadline is claimed for its rollbacks, with the news, by the worker that claims it", async (bench) => {
    const held = await bench.running("a", { deadline: 100 });
    await bench.park(held, { turn: bench.turn(held), rollbacks: 1, wakeAt: START + 50 });
    const undoing = await bench.running("b", { deadline: 100 });
    await bench.park(undoing, { turn: bench.turn(undoing), status: "rolling_back", rollbacks: 1, wakeAt: START + 50 });
    bench.time += 100;
    await bench.store.expire();
    same(jobsOf((await bench.claimRun("a")).inbox).map(({ type }) => type), ["expire"]); // biome-ignore format: one line
    same([(await bench.claimRun("b")).inbox, (await bench.store.expire()).expired], [[], 0]);
  });
  test("K7 P10 nor is the next execution of a chain past its deadline, nor a run that is resumed after it", async (bench) => {
    await bench.close(await bench.running("a", { deadline: 100 }), next);
    const held = await bench.running("b", { deadline: 100 });
    await bench.close(held, { status: "failed", error: failure("no") }, { turn: bench.turn(held) });
    bench.time += 100;
    await bench.store.resume(["b"]);
    for (const id of ["a", "b"]) {
      same(runIds(await bench.claim({ queue: `queue of ${id}` })), []);
      await bench.store.expire();
      same((await bench.row(id)).error?.name, "DeadlineExceededError");
    }
  });
  test("K7 a deadline that is over from the start is accepted, and its run is never handed out", async (bench) => {
    await bench.created("a", { deadline: 0 });
    await bench.created("b", { deadlineAt: START - 1 });
    for (const id of ["a", "b"]) same(runIds(await bench.claim({ queue: `queue of ${id}` })), []);
    await bench.store.expire();
    for (const id of ["a", "b"]) same((await bench.row(id)).error?.name, "DeadlineExceededError");
  });
  test("K7 V4 a blocked run with rollbacks stays blocked, and has the news when it is tried again; one without fails", async (bench) => {
    for (const [id, rollbacks] of [["with", 1], ["without", 0]] as const) {
      const held = await bench.running(id, { deadline: 100 });
      await bench.commit(held, { turn: bench.turn(held), rollbacks });
      await bench.park(held, BLOCKED);
    } // biome-ignore format: pairs
    bench.time += 100;
    assert.equal((await bench.store.expire()).expired, 2);
    same((await bench.row("without")).error?.name, "DeadlineExceededError");
    same([(await bench.row("with")).status, (await bench.row("with")).error?.message], ["blocked", "diverged"]);
    assert.equal(await bench.isClaimable("with"), false);
    await bench.store.resume(["with"]);
    same(jobsOf((await bench.claimRun("with")).inbox).map(({ type }) => type), ["expire"]); // biome-ignore format: one line
  });
  test("K7 V4 a worker that starts claims a blocked run past its deadline for its rollbacks alone", async (bench) => {
    for (const [id, rollbacks] of [["with", 1], ["without", 0]] as const) {
      const held = await bench.running(id, { queue: "one", deadline: 100 });
      await bench.commit(held, { turn: bench.turn(held), rollbacks });
      await bench.park(held, BLOCKED);
    } // biome-ignore format: pairs
    bench.time += 100;
    const { runs } = await bench.claim({ queue: "one", blockedAfter: 0 });
    same(runs.map(({ run, inbox }) => [run.id, jobsOf(inbox).map(({ type }) => type)]), [["with", ["expire"]]]); // biome-ignore format: one line
    same((await bench.row("without")).status, "failed");
  });

  // ── activities ──

  test("K7 D11 no activity of a run past its deadline is handed out, and others are", async (bench) => {
    for (const [id, rollbacks] of [["late", 0], ["to be undone", 1], ["in time", 0]] as const) {
      const held = await bench.running(id, id === "in time" ? {} : { deadline: 100 });
      await bench.park(held, { turn: bench.turn(held), rollbacks, tasks: [bench.newTask(1)] });
    } // biome-ignore format: pairs
    bench.time += 100;
    same((await bench.claimTasks({ limit: 1 })).map(({ runId }) => runId), ["in time"]); // biome-ignore format: one line
    await bench.store.expire();
    same(await bench.claimTasks(), []);
  });
  test("K7 D8 an attempt that would come after the deadline fails the run now", async (bench) => {
    for (const rollbacks of [0, 1]) {
      const id = `${rollbacks} to undo`;
      const held = await bench.running(id, { deadline: 1_000 });
      await bench.park(held, { turn: bench.turn(held), rollbacks, tasks: [bench.newTask(1)] });
      await bench.fail(await bench.claimTask());
    }
    const { status, error } = await bench.row("0 to undo");
    same([status, error?.name], ["failed", "DeadlineExceededError"]);
    same(jobsOf((await bench.claimRun("1 to undo")).inbox).map(({ type }) => type), ["expire"]); // biome-ignore format: one line
    bench.time += 2_000;
    same([(await bench.store.expire()).expired, await bench.claimTasks()], [0, []]);
  });
}
