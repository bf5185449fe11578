// Conformance, for stores that last: the process dies between any two calls, or during one.
// Owns: a small life of a family of runs, cut at every call; and what must go on across a cut.
// Invariants tested: M1, M3, M7, D2, D4, D9, D11, K8, W3.

import assert from "node:assert/strict";
import type { ClaimedTask } from "holdfast/store";
import {
  type Bench,
  CANCEL,
  failureOf,
  type Held,
  heldOf,
  idsOf,
  jobsOf,
  LEASE,
  only,
  payload,
  range,
  START,
  same,
  signal,
  update,
} from "./bench.ts";
import type { Suite } from "./suite.ts";

/** What the steps of the story hand on to each other: what a client and a worker would have in memory. */
interface Memory {
  order: Held;
  part: Held;
  task: ClaimedTask;
  inbox: number[];
}
type Step = readonly [call: string, run: (bench: Bench, memory: Memory) => Promise<unknown>];

/** An order that starts a part as its child, runs an activity, answers an update, waits for both, and continues. */
const story: readonly Step[] = [
  [
    "create",
    (bench) =>
      bench.created("order", { attributes: { n: 1 }, idempotencyKey: "start", messages: [{ job: signal("s0") }], deadline: 50 * LEASE }),
  ],
  ["send", (bench) => bench.sent("order", signal("s1"), "k1")],
  ["send of an update", (bench) => bench.sent("order", update("u1"))],
  [
    "claim",
    async (bench, memory) => {
      const claimed = await bench.claimRun("order");
      same(idsOf(claimed.inbox), ["s0", "s1", "u1"]);
      memory.inbox = claimed.inbox.map(({ id }) => id);
      memory.order = heldOf(claimed);
    },
  ],
  [
    "commit of a turn",
    async (bench, { order, inbox }) => {
      const parent = { runId: "order", execution: 1, seq: 2, parentClose: "cancel", announce: false } as const;
      await bench.commit(order, {
        turn: bench.turn(order),
        consumed: inbox,
        seen: inbox.at(-1),
        children: [bench.newRun("part", { parent })],
        tasks: [bench.newTask(3)],
        attempts: [
          {
            seq: 1,
            number: 1,
            status: "failed",
            error: { name: "Error", message: "no" },
            startedAt: bench.time,
            workerId: "w1",
            retryAt: bench.time + 5,
          },
        ],
        state: payload("working"),
        attributes: { n: 2, m: true },
        updates: [{ id: "u1", outcome: { status: "completed", value: payload("yes") } }],
        rollbacks: 0,
      });
    },
  ],
  [
    "park",
    (bench, { order, inbox }) =>
      bench.park(order, { turn: bench.turn(order), seen: inbox.at(-1), wakeAt: bench.time + 20 * LEASE, waitingFor: ["part"] }),
  ],
  [
    "claim of the child",
    async (bench, memory) => {
      memory.part = await bench.hold("part", { workerId: "w2" });
    },
  ],
  [
    "claim of the task",
    async (bench, memory) => {
      memory.task = await bench.claimTask();
    },
  ],
  [
    "heartbeat",
    async (bench, { task: { id, token } }) =>
      same(await bench.store.heartbeat([{ id, token, lease: LEASE, details: payload("half") }]), [true]),
  ],
  ["answer", async (bench, { task }) => assert.equal(await bench.complete(task), true)],
  ["renewal", (bench, { part }) => bench.inbox(part)],
  ["end of the child", (bench, { part }) => bench.close(part, undefined, { turn: bench.turn(part) })],
  [
    "claim of the parent",
    async (bench, memory) => {
      const claimed = await bench.claimRun("order");
      same(jobsOf(claimed.inbox).map((job) => job.type === "resolve" && job.seq).toSorted(), [2, 3]); // biome-ignore format: one line
      memory.inbox = claimed.inbox.map(({ id }) => id);
      memory.order = heldOf(claimed);
    },
  ],
  [
    "end of the execution",
    async (bench, { order, inbox }) => {
      const next = { input: payload("next"), version: "v2", seed: "seed 2", carried: [{ job: signal("carried") }] };
      await bench.close(order, { status: "continued", next }, { turn: bench.turn(order), consumed: inbox });
    },
  ],
  ["send of a cancel", (bench) => bench.send("order", CANCEL)],
];

/** All that can be read. */
async function visible(bench: Bench): Promise<unknown> {
  const { runs } = await bench.store.list({ limit: 100 });
  const ids = runs.map(({ id }) => id);
  const histories = await Promise.all(ids.map((id) => bench.store.history(id)));
  const attempts = await Promise.all(ids.map((id) => bench.attempts(id)));
  return {
    now: await bench.store.now(),
    runs,
    histories,
    attempts,
    outcome: await bench.outcome("order", "u1"),
    count: await bench.store.count({}),
  };
}

export function crashes({ test, crashes: possible }: Suite): void {
  if (!possible) return;

  for (const [i, [call]] of story.entries()) {
    test(`D2 a crash after the ${call} (call ${i + 1}) loses nothing and repeats nothing`, async (bench) => {
      const memory = {} as Memory;
      for (const [at, [, run]] of story.entries()) {
        await run(bench, memory);
        bench.time++;
        if (at !== i) continue;
        const before = await visible(bench);
        await bench.crash();
        same(await visible(bench), before);
      }
      const { status, execution, turns, attributes, state } = await bench.row("order");
      same(
        { status, execution, turns, attributes, state },
        { status: "canceled", execution: 2, turns: 0, attributes: { n: 2, m: true }, state: payload("working") },
      );
      same((await bench.row("part")).status, "completed");
      same(await bench.outcome("order", "u1"), { status: "completed", value: payload("yes") });
      assert.equal((await bench.send("order", signal("s1"), "k1")).status, "duplicate");
      assert.equal((await bench.create("other", { idempotencyKey: "start" })).status, "existing");
    });
  }
  test("D2 a crash during a commit leaves all of it or nothing", async (bench) => {
    for (const i of range(5)) {
      const id = `a${i}`;
      const held = await bench.running(id);
      await bench.parked(`target${i}`);
      const parent = { runId: id, execution: 1, seq: 2, parentClose: "abandon", announce: false } as const;
      const children = [bench.newRun(`child${i}`, { parent })];
      const sends = [{ seq: 3, runId: `target${i}`, message: { job: signal("s1") } }];
      const inFlight = bench.tryCommit(held, {
        turn: bench.turn(held),
        state: payload("all"),
        children,
        sends,
        tasks: [bench.newTask(4, { queue: `tasks${i}` })],
      });
      inFlight.catch(() => undefined);
      await bench.crash();
      bench.time += LEASE;
      // The claim decides it: what the dead process had not written by then it never will.
      const { run, turns, inbox } = await bench.claimRun(id, { workerId: "w2" });
      const all = run.turns === 1;
      same([run.state, turns?.length, inbox.length], all ? [payload("all"), 1, 1] : [undefined, 0, 0]);
      same([await bench.exists(`child${i}`), await bench.isClaimable(`target${i}`)], [all, all]);
      assert.equal((await bench.claimTasks({ queue: `tasks${i}` })).length, all ? 1 : 0);
    }
  });
  test("W3 claims outlive the process of the store: epochs, leases, recoveries", async (bench) => {
    const held = await bench.running("a");
    await bench.crash();
    assert.equal(await bench.isClaimable("a"), false);
    await bench.commit(held, { turn: bench.turn(held) });
    await bench.crash();
    bench.time += LEASE;
    const { run, recovered } = await bench.claimRun("a", { workerId: "w2" });
    same([run.epoch, recovered, run.recoveries], [held.epoch + 1, true, 1]);
    await bench.crash();
    assert.equal((await bench.tryCommit(held, { state: payload("late") })).status, "stale");
  });
  test("D9 inbox ids grow across a crash: what a worker has seen stays below what comes", async (bench) => {
    const held = await bench.running("a");
    const ids: number[] = [];
    for (const i of range(4)) {
      const id = await bench.sent("a", signal(`s${i}`));
      ids.push(id);
      await bench.commit(held, { turn: bench.turn(held), consumed: [id], seen: id });
      await bench.crash();
    }
    same(
      ids,
      [...new Set(ids)].toSorted((a, b) => a - b),
    );
    await bench.park(held, { seen: ids.at(-1) });
    await bench.crash();
    await bench.sent("a", signal("last"));
    same(idsOf((await bench.claimRun("a")).inbox), ["last"]);
  });
  test("D11 tokens of tasks are not used again after a crash", async (bench) => {
    await bench.waitingFor("a", bench.newTask(1));
    const lost = await bench.claimTask();
    await bench.crash();
    bench.time += LEASE;
    await bench.store.expire();
    await bench.crash();
    bench.time += 1_000;
    const task = await bench.claimTask({ workerId: "w2" });
    assert.equal(task.attempt, 2);
    assert.equal(await bench.complete(lost), false);
    await bench.crash();
    assert.equal(await bench.complete(task), true);
    assert.equal((await bench.claimRun("a")).inbox.length, 1);
  });
  test("K8 wake-ups and deadlines survive a crash", async (bench) => {
    await bench.park(await bench.running("a"), { wakeAt: START + 500 });
    await bench.created("b", { delay: 700 });
    await bench.created("c", { deadline: 600 });
    await bench.crash();
    bench.time += 499;
    assert.equal(await bench.isClaimable("a"), false);
    bench.time += 1;
    await bench.claimRun("a");
    bench.time += 200;
    assert.equal((await bench.store.expire()).expired, 1);
    await bench.crash();
    same((await bench.row("c")).error?.name, "DeadlineExceededError");
    await bench.claimRun("b");
  });
  test("M12 what an end did to others survives a crash", async (bench) => {
    const parent = await bench.running("p");
    const link = { runId: "p", execution: 1, seq: 2, parentClose: "terminate", announce: false } as const;
    await bench.commit(parent, { turn: bench.turn(parent), children: [bench.newRun("c", { parent: link })] });
    await bench.sent("p", update("u1"));
    await bench.close(parent);
    await bench.crash();
    same((await bench.row("c")).status, "terminated");
    assert.equal(failureOf(await bench.outcome("p", "u1")), "RunClosedError");
    assert.equal((await bench.send("p", signal("s1"))).status, "closed");
  });
  test("P10 a cursor is good after a crash", async (bench) => {
    await bench.store.create(range(6).map((i) => bench.newRun(`r${i}`)));
    const { cursor } = await bench.store.list({ limit: 2 });
    await bench.crash();
    same((await bench.store.list({ limit: 3, cursor })).runs.map(({ id }) => id), ["r3", "r2", "r1"]); // biome-ignore format: one line
  });
  test("W3 opening what is open already changes nothing", async (bench) => {
    await bench.parked("a");
    const before = await visible(bench);
    for (const _ of range(3)) await bench.crash();
    same(await visible(bench), before);
    assert.equal(only(await bench.store.send([{ runId: "a", message: { job: signal("s1") } }])).status, "sent");
  });
}
