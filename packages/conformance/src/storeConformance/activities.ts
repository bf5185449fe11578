// Conformance: activities.
// Owns: tests of a commit's `tasks` and `cancelTasks`, and of `claimTasks`, `heartbeat` and `answerTasks`.
// Invariants tested: D11, D8, D12, C7, W1.

import assert from "node:assert/strict";
import { reviveError, StepTimeoutError } from "@holdfast/core";
import { COMPLETED, failure, failureOf, LEASE, only, payload, RETRY, range, resolution, START, same } from "./bench.ts";
import type { Suite } from "./suite.ts";

export function activities({ test }: Suite): void {
  test("D11 a task is there with its commit, for workers of its queue that have its code", async (bench) => {
    const task = bench.newTask(2, { startToClose: 500, scheduleToClose: 5_000, scheduleToStart: 1_000, heartbeat: 300 });
    await bench.waitingFor("a", task);
    same(await bench.claimTasks({ queue: "elsewhere" }), []);
    same(await bench.claimTasks({ activities: ["print"] }), []);
    const { id, token, ...claimed } = await bench.claimTask({ activities: ["print", "mail"] });
    same(claimed, { ...task, runId: "a", execution: 1, attempt: 1 });
    same([typeof id, typeof token], ["number", "number"]);
    same(await bench.claimTasks(), []);
  });
  test("W1 a claim takes no more tasks than its limit, oldest first", async (bench) => {
    await bench.waitingFor("a", ...range(5).map((i) => bench.newTask(i)));
    same((await bench.claimTasks({ limit: 3 })).map(({ seq }) => seq), [0, 1, 2]); // biome-ignore format: one line
    same((await bench.claimTasks({ limit: 3 })).map(({ seq }) => seq), [3, 4]); // biome-ignore format: one line
  });
  test("D11 many claimers at the same time: every task is claimed exactly once", async (bench) => {
    await bench.waitingFor("a", ...range(40).map((i) => bench.newTask(i)));
    const claims = await Promise.all(range(15).map((i) => bench.claimTasks({ workerId: `w${i}`, limit: 4 })));
    same(claims.flat().map(({ seq }) => seq).sort((a, b) => a - b), range(40)); // biome-ignore format: one line
  });
  test("D7 D11 tasks that a worker was given and does not know of are given to it again, by the same attempt", async (bench) => {
    await bench.waitingFor("a", ...range(4).map((i) => bench.newTask(i)));
    const [known, lost, other] = await bench.claimTasks({ limit: 3 });
    assert.ok(known !== undefined && lost !== undefined && other !== undefined);
    await bench.complete(other);
    bench.time += LEASE / 2;
    same(await bench.claimTasks({ workerId: "w2", known: [], limit: 0 }), []);
    const again = await bench.claimTasks({ limit: 2, known: [known.id] });
    same(again.map(({ seq, attempt }) => [seq, attempt]), [[1, 1], [3, 1]]); // biome-ignore format: one line
    same(await bench.claimTasks({ known: [known.id, ...again.map(({ id }) => id)] }), []);
    // By its new token, for as long as any other.
    assert.equal(await bench.complete(lost), false);
    bench.time += LEASE - 1;
    assert.equal(await bench.complete(only(again.slice(0, 1))), true);
  });
  test("D11 the outcome of a task wakes its run", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    const task = await bench.claimTask();
    bench.time += 10;
    assert.equal(await bench.complete(task, { x: 1 }), true);
    assert.equal((await bench.row("a")).availableAt, START + 10);
    same(resolution((await bench.claimRun("a")).inbox), {
      type: "resolve",
      seq: 2,
      outcome: { status: "completed", value: payload({ x: 1 }) },
    });
  });
  test("D11 W3 after the clock was set back a dead worker's activity goes to another after a lease", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { startToClose: 200 * LEASE }));
    await bench.store.expire();
    const task = await bench.claimTask();
    bench.time -= 100 * LEASE;
    await bench.store.expire();
    same(await bench.claimTasks({ workerId: "w2" }), []);
    bench.time += LEASE;
    await bench.store.expire();
    bench.time += 1;
    const { id, attempt } = await bench.claimTask({ workerId: "w2" });
    same([id, attempt], [task.id, task.attempt + 1]);
    assert.equal(await bench.complete(task), false);
  });
  test("D11 a task is answered once: the second answer is dropped", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    const task = await bench.claimTask();
    const results = await Promise.all(range(5).map((i) => bench.complete(task, i)));
    assert.equal(results.filter(Boolean).length, 1);
    assert.equal((await bench.claimRun("a")).inbox.length, 1);
    assert.equal(await bench.complete({ ...task, id: 12_345 }), false);
  });
  test("D11 answers of one batch succeed or fail each by itself", async (bench) => {
    await bench.waitingFor("a", bench.newTask(1), bench.newTask(2));
    const [one, two] = await bench.claimTasks();
    assert.ok(one !== undefined && two !== undefined);
    const outcome = { status: "completed", value: payload(1) } as const;
    same(
      await bench.store.answerTasks([
        { id: one.id, token: one.token + 1_000, outcome },
        { id: two.id, token: two.token, outcome },
      ]),
      [false, true],
    );
    assert.equal(resolution((await bench.claimRun("a")).inbox).seq, 2);
  });

  // ── retries ──

  test("D8 a failure is retried by policy, and the last one is the run's", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    for (const attempt of [1, 2, 3]) {
      const task = await bench.claimTask();
      assert.equal(task.attempt, attempt);
      assert.equal(await bench.fail(task, `no ${attempt}`), true);
      same(await bench.claimTasks(), []);
      if (attempt < 3) {
        assert.equal(await bench.isClaimable("a"), false);
        const { nextAt } = await bench.store.claimTasks({ workerId: "w1", queue: "tasks", activities: ["mail"], limit: 1, lease: LEASE });
        assert.equal(nextAt, bench.time + 1_000);
        bench.time += 999;
        same(await bench.claimTasks(), []);
        bench.time += 1;
      }
    }
    same(resolution((await bench.claimRun("a")).inbox), {
      type: "resolve",
      seq: 2,
      outcome: { status: "failed", error: failure("no 3"), attempts: 3 },
    });
    bench.time += 100 * LEASE;
    same(await bench.claimTasks(), []);
  });
  test("D8 a wait that the error asks for counts instead of the policy's, without its cap; within the policy's attempts", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2)); // waits of a second, three attempts
    const fail = async (after: number): Promise<void> => {
      const { id, token } = await bench.claimTask();
      const outcome = { status: "failed", error: failure("busy"), retryable: true, random: 0.5, after } as const;
      same(await bench.store.answerTasks([{ id, token, outcome }]), [true]);
    };
    await fail(7 * LEASE);
    bench.time += 7 * LEASE - 1;
    same(await bench.claimTasks(), []);
    bench.time += 1;
    await fail(0);
    await fail(5);
    same(resolution((await bench.claimRun("a")).inbox).outcome, { status: "failed", error: failure("busy"), attempts: 3 });
  });
  test("D8 the waits grow by the policy, with the worker's randomness", async (bench) => {
    const retry = { maxAttempts: 9, initialInterval: 1_000, backoff: 3, maxInterval: 5_000, jitter: 0.5 };
    await bench.waitingFor("a", bench.newTask(2, { retry }));
    for (const wait of [750, 2_250, 3_750]) {
      assert.equal(await bench.fail(await bench.claimTask()), true); // random 0.5
      bench.time += wait - 1;
      same(await bench.claimTasks(), []);
      bench.time += 1;
    }
    assert.equal((await bench.claimTask()).attempt, 4);
  });
  test("D8 a failure that no retry can fix is the run's at once", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    await bench.fail(await bench.claimTask(), "fatal", false);
    same(resolution((await bench.claimRun("a")).inbox).outcome, { status: "failed", error: failure("fatal"), attempts: 1 });
  });
  test("D8 a retry that would come after scheduleToClose is not waited for", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { scheduleToClose: 900 }));
    await bench.fail(await bench.claimTask(), "slow");
    same(resolution((await bench.claimRun("a")).inbox).outcome, { status: "failed", error: failure("slow"), attempts: 1 });
  });
  test("D12 every attempt of a task keeps status, error, times and worker", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    const first = await bench.claimTask({ workerId: "w1" });
    bench.time += 10;
    await bench.fail(first, "no");
    bench.time += 1_000;
    const second = await bench.claimTask({ workerId: "w2" });
    const look = async () => (await bench.attempts("a")).map(({ seq, number, status, error, startedAt, endedAt, workerId, task }) => ({ seq, number, status, error: error?.message, startedAt, endedAt, workerId, task })); // biome-ignore format: one line
    const failed = { seq: 2, number: 1, status: "failed", error: "no", startedAt: START, endedAt: START + 10, workerId: "w1", task: true };
    same(await look(), [failed, { seq: 2, number: 2, status: "running", startedAt: START + 1_010, workerId: "w2", task: true }]);
    bench.time += 5;
    await bench.complete(second);
    same(await look(), [
      failed,
      { seq: 2, number: 2, status: "completed", startedAt: START + 1_010, endedAt: START + 1_015, workerId: "w2", task: true },
    ]);
    await bench.close(await bench.hold("a"));
    assert.equal((await look()).length, 2);
  });

  test("D8 D12 an attempt that failed says when the next one is due; the last one does not", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { retry: { ...bench.newTask(2).retry, maxAttempts: 2 } }));
    const retries = async () => (await bench.attempts("a")).map(({ number, status, retryAt }) => ({ number, status, retryAt }));
    await bench.fail(await bench.claimTask(), "no");
    const [first] = await retries();
    assert.ok(first?.retryAt !== undefined && first.retryAt > START, `the next attempt is due at ${first?.retryAt}`);
    bench.time = first.retryAt;
    await bench.fail(await bench.claimTask(), "no");
    same(await retries(), [first, { number: 2, status: "failed" }]);
  });

  test("D12 an attempt that was abandoned is kept, and not as running", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2), bench.newTask(3)] });
    await bench.claimTasks();
    bench.time += 5;
    await bench.commit(held, { cancelTasks: [2] });
    await bench.close(held);
    same((await bench.attempts("a")).map(({ seq, number, status, endedAt }) => [seq, number, status !== "running", endedAt]), [[2, 1, true, START + 5], [3, 1, true, START + 5]]); // biome-ignore format: pairs
  });
  test("D7 the activities of a run go on while it is recovered", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2)] });
    const task = await bench.claimTask({ lease: 5 * LEASE });
    bench.time += LEASE;
    const claimed = await bench.claimRun("a", { workerId: "w2" });
    same([claimed.recovered, claimed.attempts], [true, []]);
    same((await bench.attempts("a")).map(({ status, task: isTask }) => [status, isTask]), [["running", true]]); // biome-ignore format: pairs
    assert.equal(await bench.complete(task), true);
  });

  // ── asked for again (D10) ──

  test("D10 D12 a task that is asked for again goes on numbering where its attempts had ended", async (bench) => {
    const held = await bench.running("a");
    const retry = { ...RETRY, maxAttempts: 1 };
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2, { retry })] });
    await bench.fail(await bench.claimTask(), "no 1");
    await bench.close(held, { status: "failed", error: failure("no 1") }, { turn: bench.turn(held) });
    await bench.store.resume(["a"]);
    const again = await bench.hold("a");
    await bench.commit(again, { turn: bench.turn(again), tasks: [bench.newTask(2, { retry: { ...RETRY, maxAttempts: 3 }, attempt: 1 })] });
    const second = await bench.claimTask();
    assert.equal(second.attempt, 2);
    await bench.fail(second, "no 2");
    bench.time += 1_000;
    const third = await bench.claimTask();
    assert.equal(third.attempt, 3);
    await bench.fail(third, "no 3");
    const answers = (await bench.inbox(again)).flatMap(({ job }) => (job.type === "resolve" ? job.outcome : []));
    same(answers, [{ status: "failed", error: failure("no 3"), attempts: 3 }]);
    same((await bench.attempts("a")).map(({ seq, number, error }) => [seq, number, error?.message]), [[2, 1, "no 1"], [2, 2, "no 2"], [2, 3, "no 3"]]); // biome-ignore format: triples
  });
  test("D10 D11 a task that is asked for again is to be started in time as well", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { attempt: 2, scheduleToStart: 500 }), bench.newTask(3, { attempt: 2, queue: "other" }));
    bench.time += 499;
    await bench.store.expire();
    assert.equal(await bench.isClaimable("a"), false);
    bench.time += 1;
    await bench.store.expire();
    same(await bench.claimTasks(), []);
    const { seq, outcome } = resolution((await bench.claimRun("a")).inbox);
    same([seq, failureOf(outcome)], [2, "StepTimeoutError"]);
    assert.equal((await bench.claimTask({ queue: "other" })).attempt, 3);
  });

  // ── limits of time ──

  test("D11 a task whose worker died is another's, and the late answer is dropped", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    const lost = await bench.claimTask();
    bench.time += LEASE - 1;
    same(await bench.claimTasks({ workerId: "w2" }), []);
    bench.time += 1;
    await bench.store.expire();
    bench.time += 1_000;
    const task = await bench.claimTask({ workerId: "w2" });
    same([task.id, task.attempt, task.token === lost.token], [lost.id, 2, false]);
    same([await bench.complete(lost), await bench.fail(lost)], [false, false]);
    same(only(await bench.store.heartbeat([{ id: lost.id, token: lost.token, lease: LEASE }])), false);
    same((await bench.attempts("a")).map(({ number, status }) => [number, status]), [[1, "lost"], [2, "running"]]); // biome-ignore format: pairs
    assert.equal(await bench.complete(task), true);
    assert.equal((await bench.claimRun("a")).inbox.length, 1);
  });
  test("D11 a task that kills its workers is stopped after its attempts", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    for (const _ of range(3)) {
      await bench.claimTask();
      bench.time += LEASE;
      await bench.store.expire();
      bench.time += 1_000;
    }
    same(await bench.claimTasks(), []);
    const { outcome } = resolution((await bench.claimRun("a")).inbox);
    same([outcome.status, "attempts" in outcome && outcome.attempts], ["failed", 3]);
  });
  test("D11 heartbeats renew the lease, and their last word goes to the next attempt", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2));
    const { id, token } = await bench.claimTask();
    for (const i of range(3)) {
      bench.time += LEASE - 1;
      same(await bench.store.heartbeat([{ id, token, lease: LEASE, details: payload(i) }]), [true]);
    }
    bench.time += LEASE - 1;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE }]), [true]);
    same(await bench.claimTasks({ workerId: "w2" }), []);
    bench.time += LEASE;
    await bench.store.expire();
    bench.time += 1_000;
    const next = await bench.claimTask();
    same([next.attempt, next.lastHeartbeat], [2, payload(2)]);
  });
  test("D11 an attempt over its startToClose is over, heartbeats or not", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { startToClose: 500 }));
    const { id, token } = await bench.claimTask();
    bench.time += 499;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE, details: payload(1) }]), [true]);
    bench.time += 1;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE }]), [false]);
    bench.time += 1_000;
    assert.equal((await bench.claimTask()).attempt, 2);
    const [row] = await bench.attempts("a");
    same([row?.status, row?.error?.name], ["failed", "StepTimeoutError"]);
  });
  test("D11 timeouts use up attempts, and the last is the run's", async (bench) => {
    await bench.waitingFor(
      "a",
      bench.newTask(2, { startToClose: 500, retry: { maxAttempts: 2, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 } }),
    );
    for (const _ of range(2)) {
      await bench.claimTask();
      bench.time += 500;
      await bench.store.expire();
      bench.time += 1;
    }
    const { outcome } = resolution((await bench.claimRun("a")).inbox);
    same([failureOf(outcome), "attempts" in outcome && outcome.attempts], ["StepTimeoutError", 2]);
  });
  test("D11 an attempt that misses its heartbeat is over; renewing the lease alone is not a heartbeat", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { heartbeat: 300 }));
    const { id, token } = await bench.claimTask();
    bench.time += 299;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE, details: payload("alive") }]), [true]);
    bench.time += 299;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE }]), [true]);
    bench.time += 1;
    same(await bench.store.heartbeat([{ id, token, lease: LEASE }]), [false]);
    const [row] = await bench.attempts("a");
    same([row?.status, row?.error?.name], ["failed", "StepTimeoutError"]);
    bench.time += 1_000;
    same((await bench.claimTask()).lastHeartbeat, payload("alive"));
  });
  test("D11 a task that no worker starts in time fails", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { scheduleToStart: 500 }));
    bench.time += 499;
    await bench.store.expire();
    assert.equal(await bench.isClaimable("a"), false);
    bench.time += 1;
    await bench.store.expire();
    same(await bench.claimTasks(), []);
    assert.equal(failureOf(resolution((await bench.claimRun("a")).inbox).outcome), "StepTimeoutError");
  });
  test("D11 scheduleToStart is about the first start: a retry may come later", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { scheduleToStart: 500 }));
    await bench.fail(await bench.claimTask());
    bench.time += 1_000;
    assert.equal((await bench.claimTask()).attempt, 2);
  });
  test("D11 a task over its scheduleToClose is over, running or not", async (bench) => {
    await bench.waitingFor("a", bench.newTask(2, { scheduleToClose: 500 }), bench.newTask(3, { scheduleToClose: 500 }));
    const task = await bench.claimTask();
    bench.time += 500;
    await bench.store.expire();
    assert.equal(await bench.complete(task), false);
    same(await bench.claimTasks(), []);
    const { inbox } = await bench.claimRun("a");
    same(inbox.map(({ job }) => job.type === "resolve" && [job.seq, failureOf(job.outcome)]).toSorted(), [[2, "StepTimeoutError"], [3, "StepTimeoutError"]]); // biome-ignore format: pairs
  });

  test("D11 what took too long is named: the activity and which of its limits", async (bench) => {
    const limits = ["startToClose", "scheduleToClose", "scheduleToStart", "heartbeat"] as const;
    const retry = { maxAttempts: 1, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };
    for (const limit of limits) {
      await bench.waitingFor(limit, bench.newTask(2, { queue: limit, [limit]: 500, retry }));
      if (limit !== "scheduleToStart") await bench.claimTask({ queue: limit });
      bench.time += 500;
      await bench.store.expire();
      const { outcome } = resolution((await bench.claimRun(limit)).inbox);
      assert.equal(outcome.status, "failed");
      const error = reviveError(outcome.error);
      assert.equal(error instanceof StepTimeoutError && error.limit, limit);
      assert.match(error.message, new RegExp(`activity "mail" .*${limit}.*\\n.*${limit}`));
    }
  });

  // ── giving up ──

  test("C7 a task that its run abandons is gone, and its worker is notified", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2), bench.newTask(3), bench.newTask(4)] });
    const task = await bench.claimTask();
    assert.equal(task.seq, 2);
    await bench.commit(held, { turn: bench.turn(held), cancelTasks: [2, 3, 99] });
    same(only(await bench.store.heartbeat([{ id: task.id, token: task.token, lease: LEASE }])), false);
    assert.equal(await bench.complete(task), false);
    same((await bench.claimTasks()).map(({ seq }) => seq), [4]); // biome-ignore format: one line
    same(await bench.inbox(held), []);
  });
  test("C7 a task that one commit both asks for and abandons is not created", async (bench) => {
    const held = await bench.running("a");
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2), bench.newTask(3)], cancelTasks: [2] });
    same((await bench.claimTasks()).map(({ seq }) => seq), [3]); // biome-ignore format: one line
  });
  test("C7 a run abandons its own tasks, not those of others with the same number", async (bench) => {
    const held = await bench.running("a");
    await bench.waitingFor("b", bench.newTask(2));
    await bench.commit(held, { cancelTasks: [2] });
    same((await bench.claimTasks()).map(({ runId }) => runId), ["b"]); // biome-ignore format: one line
  });
  for (const [how, end] of [
    ["completes", "commit"],
    ["is terminated", "terminate"],
    ["passes its deadline", "expire"],
  ] as const) {
    test(`D11 the tasks of a run that ${how} are gone`, async (bench) => {
      const held = await bench.running("a", { deadline: 100 });
      await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(2), bench.newTask(3)] });
      const task = await bench.claimTask();
      bench.time += 100;
      if (end === "commit") await bench.close(held, COMPLETED);
      else if (end === "terminate") await bench.store.terminate([{ runId: "a", reason: undefined }]);
      else await bench.store.expire();
      assert.equal(await bench.complete(task), false);
      bench.time += 100 * LEASE;
      await bench.store.expire();
      same(await bench.claimTasks(), []);
    });
  }
}
