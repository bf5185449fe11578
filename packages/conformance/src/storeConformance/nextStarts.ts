// Conformance: newer starts of a run that exists.
// Owns: tests of `onConflict: "replace"` and `"debounce"`: what happens to the start, to its messages and to the existing run.
// Invariants tested: Q9, Q10, M1, M3, M8, M10, K1, K5, K6, K7, K9, P10, D2, D9.

import assert from "node:assert/strict";
import type { CreateResult, NewRun } from "holdfast/store";
import {
  type Bench,
  CANCEL,
  COMPLETED,
  failure,
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

const WAYS = ["replace", "debounce"] as const;
type Way = (typeof WAYS)[number];

const start = (bench: Bench, onConflict: Way, input: string, more: Partial<NewRun> = {}): Promise<CreateResult> =>
  bench.create("a", { onConflict, input: payload(input), seed: `seed of ${input}`, ...more });

/** Execution, status, input, and when it can be claimed. */
async function standing(bench: Bench, id = "a"): Promise<unknown> {
  const { execution, status, input, availableAt } = await bench.row(id);
  return [execution, status, input, availableAt];
}
const pending = (execution: number, input: string, at: number): unknown => [execution, "pending", payload(input), at];

const SEEN = { status: "failed", error: failure("no") } as const;
/** Each way in which an execution may end, with its next start waiting. It is held at first. */
const ends: Readonly<Record<string, (bench: Bench, held: Held) => Promise<unknown>>> = {
  completed: (bench, held) => bench.close(held, COMPLETED, { turn: bench.turn(held) }),
  failed: (bench, held) => bench.close(held, SEEN, { turn: bench.turn(held) }),
  "failed for good": (bench, held) => bench.close(held, { ...SEEN, resumable: false }),
  canceled: (bench, held) => bench.close(held, { status: "canceled" }, { turn: bench.turn(held) }),
  "completed by a turn with more": async (bench, held) => {
    await bench.commit(held, { turn: bench.turn(held), tasks: [bench.newTask(1)] });
    await bench.close(held, COMPLETED, { turn: bench.turn(held), attributes: { over: true } });
  },
  "completed in a batch": async (bench, held) => {
    const others = await Promise.all(range(2).map((i) => bench.running(`other ${i}`)));
    const drafts = [...others, held].map((one) => bench.draft(one, { turn: bench.turn(one), close: COMPLETED, status: "completed" }));
    const results = await bench.store.commit(drafts);
    same(results.map((result) => result.status === "committed" && result.goesOn === true), [false, false, true]); // biome-ignore format: one line
  },
};

export function nextStarts({ test, crashes, shares }: Suite): void {
  for (const way of WAYS) {
    test(`Q9 ${way}: a run that does not exist is created, one that is closed gets its next execution`, async (bench) => {
      same((await start(bench, way, "one")).status, "created");
      await bench.close(await bench.hold("a"));
      bench.time += 5;
      same(await start(bench, way, "two", { messages: [{ job: signal("s") }] }), {
        status: "created", id: "a", execution: 2, inboxIds: [(await bench.claimRun("a")).inbox[0]?.id],
      }); // biome-ignore format: a result
      same((await bench.row("a")).input, payload("two"));
    });
    test(`Q9 ${way}: a run that no worker has claimed takes this start, input and options, and keeps its place in the queue`, async (bench) => {
      const messages = (id: string) => [{ job: signal(id) }];
      await start(bench, way, "one", { queue: "q", attributes: { x: 1 }, deadline: 10, messages: messages("s1") });
      bench.time += 1;
      await bench.created("b", { queue: "r" });
      bench.time += 1;
      const more = { queue: "r", version: "v2", attributes: { y: 2 }, deadline: 1_000, messages: messages("s2") };
      same((await start(bench, way, "two", more)).status, "existing");
      const { runs } = await bench.claim({ queue: "r" });
      same(runs.map(({ run }) => [run.id, run.input, run.seed, run.version, run.deadlineAt, run.attributes, run.execution]), [
        ["a", payload("two"), "seed of two", "v2", START + 1_002, { y: 2 }, 1],
        ["b", payload("b"), "seed of b", undefined, undefined, {}, 1],
      ]); // biome-ignore format: a table
      same(idsOf(runs[0]?.inbox ?? []), ["s1", "s2"]);
      same((await bench.claim({ queue: "q" })).runs, []);
    });
    test(`Q9 ${way}: a delay restarts for a run that waits for its time`, async (bench) => {
      await start(bench, way, "one", { delay: 100 });
      bench.time += 60;
      await start(bench, way, "two", { delay: 100 });
      same(await standing(bench), pending(1, "two", START + 160));
      await start(bench, way, "three", { startAt: START + 70 });
      same(await standing(bench), pending(1, "three", START + 70));
      await start(bench, way, "four");
      same(await standing(bench), pending(1, "four", START + 60));
      bench.time += 5;
      await start(bench, way, "five");
      same(await standing(bench), pending(1, "five", START + 60));
      await start(bench, way, "six", { delay: 1 });
      same(await standing(bench), pending(1, "six", START + 66));
    });
    for (const [how, end] of Object.entries(ends))
      test(`Q9 ${way}: the commit that closes a run that has begun begins its next start: ${how}`, async (bench) => {
        const held = await bench.running("a", { attributes: { old: true }, deadline: 50 * LEASE });
        same((await start(bench, way, "two", { queue: "next", attributes: { x: 2 }, priority: 3 })).status, "existing");
        same([(await bench.row("a")).status, (await bench.row("a")).input], ["running", payload("a")]);
        bench.time += 7;
        await end(bench, held);
        same(await standing(bench), pending(2, "two", START + 7));
        const { queue, attributes, priority, deadlineAt, startedAt, seed, output, error, turns, historyLength } = await bench.row("a");
        same(
          { queue, attributes, priority, deadlineAt, startedAt, seed, output, error, turns, historyLength },
          { queue: "next", attributes: { x: 2 }, priority: 3, seed: "seed of two", turns: 0, historyLength: 0 },
        );
        const claimed = await bench.claimRun("a");
        same([claimed.run.execution, claimed.run.input, claimed.turns, idsOf(claimed.inbox)], [2, payload("two"), [], []]);
        same((await bench.tryCommit(held, { turn: bench.turn(held) })).status, "stale");
        await bench.close(heldOf(claimed), COMPLETED);
        same(await standing(bench), [2, "completed", payload("two"), undefined]);
      });
    test(`Q9 ${way}: of several starts the newest is the next, and its delay counts from then`, async (bench) => {
      const held = await bench.running("a");
      await start(bench, way, "two", { delay: 100 });
      bench.time += 10;
      await start(bench, way, "three", { delay: 50 });
      bench.time += 10;
      await bench.close(held);
      same(await standing(bench), pending(2, "three", START + 60));
      await bench.store.terminate([{ runId: "a", reason: undefined }]);
      same((await bench.row("a")).status, "terminated");
    });
    test(`Q9 ${way}: a next start whose time is over begins at once`, async (bench) => {
      const held = await bench.running("a");
      await start(bench, way, "two", { delay: 100 });
      bench.time += 200;
      await bench.close(held);
      same(await standing(bench), pending(2, "two", START + 200));
    });
    test(`Q9 M1 ${way}: signals of all starts wait for the next, those of senders go to the open execution and what it leaves moves on`, async (bench) => {
      const held = await bench.running("a");
      const s1 = await bench.sent("a", signal("s1"));
      await start(bench, way, "two", { messages: [{ job: signal("start 2") }] });
      const s2 = await bench.sent("a", signal("s2"));
      await start(bench, way, "three", { messages: [{ job: signal("start 3") }] });
      await bench.sent("a", signal("s3"));
      same(
        idsOf(await bench.inbox(held)).filter((id) => id !== "cancel"),
        ["s1", "s2", "s3"],
      );
      await bench.commit(held, { turn: bench.turn(held), consumed: [s1, s2], seen: s2 });
      // s1 was consumed by code, s2 was given to a turn and nothing took it.
      await bench.close(held, { ...COMPLETED, unconsumed: [{ job: signal("s2") }] });
      same(idsOf((await bench.claimRun("a")).inbox), ["s2", "start 2", "start 3", "s3"]);
    });
    test(`Q9 M3 ${way}: a run keeps the keys of all its starts, and a repeated key changes nothing`, async (bench) => {
      await start(bench, way, "one", { idempotencyKey: "k1" });
      await start(bench, way, "two", { idempotencyKey: "k2" });
      await start(bench, way, "not one", { idempotencyKey: "k1" });
      same((await bench.row("a")).input, payload("two"));
      const held = await bench.hold("a");
      await start(bench, way, "three", { idempotencyKey: "k3", messages: [{ job: signal("s") }] });
      for (const key of ["k1", "k2", "k3"])
        same(await start(bench, way, "again", { idempotencyKey: key, messages: [{ job: signal("s") }] }), { status: "existing", id: "a", execution: 1, inboxIds: [] }); // biome-ignore format: one line
      await bench.close(held);
      const claimed = await bench.claimRun("a");
      same([claimed.run.input, idsOf(claimed.inbox)], [payload("three"), ["s"]]);
      await start(bench, way, "again", { idempotencyKey: "k3" });
      await bench.close(heldOf(claimed));
      same(await standing(bench), [2, "completed", payload("three"), undefined]);
    });
    test(`Q9 K1 ${way}: a cancel by a caller drops the next start, and so does terminate`, async (bench) => {
      const held = await bench.running("a");
      await start(bench, way, "two", { messages: [{ job: signal("s") }, { job: update("u") }] });
      await bench.sent("a", CANCEL);
      same(failureOf(await bench.outcome("a", "u")), "RunClosedError");
      await bench.close(held, { status: "canceled" });
      same(await standing(bench), [1, "canceled", payload("a"), undefined]);
      const other = await bench.running("b");
      await bench.create("b", { onConflict: way });
      await bench.store.terminate([{ runId: "b", reason: undefined }]);
      same(await standing(bench, "b"), [1, "terminated", payload("b"), undefined]);
      same((await bench.tryCommit(other)).status, "stale");
    });
    test(`Q9 M8 M10 ${way}: an update that comes with a next start is for that, and one of the execution before ends with it`, async (bench) => {
      const held = await bench.running("a");
      await bench.sent("a", update("u1"));
      await start(bench, way, "two", { messages: [{ job: update("u2") }] });
      same((await bench.send("a", update("u2"))).status, "duplicate");
      await bench.close(held, COMPLETED, { turn: bench.turn(held) });
      same([failureOf(await bench.outcome("a", "u1")), await bench.outcome("a", "u2")], ["RunClosedError", undefined]);
      const claimed = await bench.claimRun("a");
      same(idsOf(claimed.inbox), ["u2"]);
      const outcome = { status: "completed", value: payload(7) } as const;
      const [message] = claimed.inbox;
      const next = heldOf(claimed);
      await bench.commit(next, { turn: bench.turn(next), consumed: [message?.id ?? 0], updates: [{ id: "u2", outcome }] });
      same(await bench.outcome("a", "u2"), outcome);
    });
    test(`Q9 M8 ${way}: an update that waits with a next start for longer than it may is rejected`, async (bench) => {
      await bench.running("a");
      await start(bench, way, "two", { messages: [{ job: update("u"), acceptWithin: 10 }] });
      const reject = () => bench.store.rejectUpdates([{ runId: "a", id: "u", error: failure("late") }]);
      same(await reject(), ["waiting"]);
      bench.time += 10;
      same(await reject(), [{ status: "rejected", error: failure("late") }]);
    });
    test(`Q9 P10 ${way}: continue-as-new is not the end of a run; its next start waits on, and an execution that it began is not taken over`, async (bench) => {
      const held = await bench.running("a");
      await start(bench, "debounce", "two");
      const next = { input: payload("continued"), version: undefined, seed: "seed 2", carried: [] };
      await bench.close(held, { status: "continued", next }, { turn: bench.turn(held) });
      same(await standing(bench), pending(2, "continued", START));
      const result = await start(bench, way, "three");
      if (way === "replace") {
        // K9: no worker has begun with it, so that it is canceled at once.
        same([result.status, await standing(bench)], ["created", pending(3, "three", START)]);
        return;
      }
      same([result.status, await standing(bench)], ["existing", pending(2, "continued", START)]);
      await bench.close(await bench.hold("a"));
      same(await standing(bench), pending(3, "three", START));
    });
    test(`Q9 K7 ${way}: a deadline of the execution before ends that, and the next start has its own`, async (bench) => {
      await bench.running("a", { deadline: 10 });
      await start(bench, way, "two", { deadline: 100 });
      bench.time += 10;
      await bench.store.expire();
      same([await standing(bench), (await bench.row("a")).deadlineAt], [pending(2, "two", START + 10), START + 100]);
      bench.time = START + 100;
      await bench.store.expire();
      same(await standing(bench), [2, "failed", payload("two"), undefined]);
    });
    test(`Q9 K6 ${way}: a child tells its parent how it ended, and its next start has no parent; before it has begun it stays a child`, async (bench) => {
      const p = await bench.running("p");
      const parent = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
      await bench.commit(p, { turn: bench.turn(p), children: [bench.newRun("a", { parent })] });
      await start(bench, way, "two");
      same((await bench.row("a")).parent, parent);
      const held = await bench.hold("a");
      await start(bench, way, "three");
      await bench.close(held, COMPLETED, { turn: bench.turn(held) });
      same(jobsOf(await bench.inbox(p)).map((job) => job.type === "resolve" && [job.seq, job.outcome]), [[1, { status: "completed", value: payload("done") }]]); // biome-ignore format: one line
      same((await bench.row("a")).parent, undefined);
      await bench.close(p, COMPLETED, { turn: bench.turn(p) });
      same(await standing(bench), pending(2, "three", START));
    });
    test(`Q9 K6 ${way}: a parent that ends closes its child, whose next start begins`, async (bench) => {
      const p = await bench.running("p");
      const parent = { runId: "p", execution: 1, seq: 1, parentClose: "terminate", announce: false } as const;
      await bench.commit(p, { turn: bench.turn(p), children: [bench.newRun("a", { parent })] });
      await bench.hold("a");
      await start(bench, way, "two");
      await bench.close(p, COMPLETED, { turn: bench.turn(p) });
      same(await standing(bench), pending(2, "two", START));
    });
    test(`Q9 Q10 ${way}: what is after a run waits for its next start too`, async (bench) => {
      const held = await bench.running("a");
      await bench.created("b", { after: "a" });
      await start(bench, way, "two");
      await bench.close(held, COMPLETED, { turn: bench.turn(held) });
      same((await bench.row("b")).after, "a");
      await bench.close(await bench.hold("a"), COMPLETED);
      same(await standing(bench, "b"), pending(1, "b", START));
    });
    test(`Q9 Q10 ${way}: a start that is taken over, and a next start, wait for the run that they are after`, async (bench) => {
      const [x, y] = [await bench.running("x"), await bench.running("y")];
      await start(bench, way, "one", { after: "x" });
      await start(bench, way, "two", { after: "y", delay: 5 });
      await bench.close(x);
      same([(await bench.row("a")).after, (await bench.row("a")).availableAt], ["y", undefined]);
      await start(bench, way, "three");
      const held = await bench.hold("a");
      await start(bench, way, "four", { after: "y" });
      await bench.close(held, COMPLETED, { turn: bench.turn(held) });
      same([await standing(bench), (await bench.row("a")).after], [[2, "pending", payload("four"), undefined], "y"]);
      await bench.close(y, COMPLETED, { turn: bench.turn(y) });
      same(await standing(bench), pending(2, "four", START));
    });
    test(`Q9 Q10 ${way}: two runs never wait for each other: the one that would close the circle begins`, async (bench) => {
      await start(bench, way, "one", { delay: 100 });
      await bench.created("b", { after: "a" });
      await start(bench, way, "two", { after: "b" });
      same([await standing(bench), (await bench.row("b")).after], [pending(1, "two", START), "a"]);
      const held = await bench.hold("a");
      await start(bench, way, "three", { after: "b" });
      await bench.close(held);
      same([await standing(bench), (await bench.row("b")).after], [pending(2, "three", START), "a"]);
    });
    test(`Q9 M3 ${way}: a run of another workflow is a conflict, and a child does not take over an open run`, async (bench) => {
      await bench.created("a", { workflow: "other" });
      same((await start(bench, way, "two")).status, "conflict");
      await bench.running("b");
      const parent = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
      same((await bench.create("b", { onConflict: way, parent })).status, "conflict");
    });
    test(`Q9 D2 ${way}: many starts of one run in one batch are taken in order`, async (bench) => {
      const starts = (from: number) => range(3).map((i) => bench.newRun("a", { onConflict: way, input: payload(from + i), messages: [{ job: signal(`s${from + i}`) }] })); // biome-ignore format: one line
      same((await bench.store.create(starts(0))).map(({ status }) => status), ["created", "existing", "existing"]); // biome-ignore format: one line
      const claimed = await bench.claimRun("a");
      same([claimed.run.input, idsOf(claimed.inbox)], [payload(2), ["s0", "s1", "s2"]]);
      await bench.store.create(starts(3));
      await bench.close(heldOf(claimed), COMPLETED, { consumed: claimed.inbox.map(({ id }) => id) });
      const next = await bench.claimRun("a");
      same([next.run.input, idsOf(next.inbox)], [payload(5), ["s3", "s4", "s5"]]);
    });
  }

  test("Q9 debounce: later starts put a run off to maxDelay after the first at most, by the newest start's maxDelay", async (bench) => {
    await start(bench, "debounce", "one", { delay: 100, maxDelay: 150 });
    bench.time += 90;
    await start(bench, "debounce", "two", { delay: 100, maxDelay: 150 });
    same(await standing(bench), pending(1, "two", START + 150));
    await start(bench, "debounce", "three", { delay: 100, maxDelay: 500 });
    same(await standing(bench), pending(1, "three", START + 190));
    await start(bench, "debounce", "four", { startAt: START + 1_000, maxDelay: 300 });
    same(await standing(bench), pending(1, "four", START + 300));
    await start(bench, "debounce", "five", { delay: 10, maxDelay: 20 });
    same(await standing(bench), pending(1, "five", START + 20));
    await start(bench, "replace", "six", { delay: 100 });
    same(await standing(bench), pending(1, "six", START + 190));
  });
  test("Q9 debounce: maxDelay counts from the first start of an execution: of one that waits, and of one that begins again", async (bench) => {
    const held = await bench.running("a");
    bench.time += 1_000;
    await start(bench, "debounce", "two", { delay: 100, maxDelay: 150 });
    bench.time += 90;
    await start(bench, "debounce", "three", { delay: 100, maxDelay: 150 });
    await bench.close(held);
    same(await standing(bench), pending(2, "three", START + 1_150));
    bench.time += 10;
    await start(bench, "debounce", "four", { delay: 100, maxDelay: 180 });
    same(await standing(bench), pending(2, "four", START + 1_180));
    bench.time = START + 1_180;
    await bench.close(await bench.hold("a"));
    bench.time += 1_000;
    await start(bench, "debounce", "five", { delay: 100, maxDelay: 150 });
    bench.time += 90;
    await start(bench, "debounce", "six", { delay: 100, maxDelay: 150 });
    same(await standing(bench), pending(3, "six", START + 2_330));
  });
  test("Q9 K1 replace cancels a run that has begun, once, and debounce leaves it alone", async (bench) => {
    const held = await bench.running("a");
    await start(bench, "debounce", "two");
    same(await bench.inbox(held), []);
    await start(bench, "replace", "three");
    await start(bench, "replace", "four");
    same(jobsOf(await bench.inbox(held)).map(({ type }) => type), ["cancel"]); // biome-ignore format: one line
    same((await bench.tryCommit(held, { close: COMPLETED, status: "completed", lateIf: { cancel: true, signals: [] } })).status, "late");
    await bench.close(held, { status: "canceled" }, { turn: bench.turn(held), consumed: [(await bench.inbox(held))[0]?.id ?? 0] });
    same(await standing(bench), pending(2, "four", START));
    same(idsOf((await bench.claimRun("a")).inbox), []);
  });
  test("Q9 D9 replace wakes a run that waits, so that it learns that it is canceled", async (bench) => {
    await bench.parked("a");
    await start(bench, "debounce", "two");
    assert.equal(await bench.isClaimable("a"), false);
    await start(bench, "replace", "three");
    const claimed = await bench.claimRun("a");
    same(jobsOf(claimed.inbox).map(({ type }) => type), ["cancel"]); // biome-ignore format: one line
    same(claimed.run.input, payload("a"));
  });
  test("Q9 K5 an answer to a commit says whether the run goes on", async (bench) => {
    const held = await bench.running("a");
    await start(bench, "debounce", "two");
    const first = await bench.tryCommit(held, { turn: bench.turn(held), close: COMPLETED, status: "completed" });
    same(first.status === "committed" && first.goesOn, true);
    const next = await bench.hold("a");
    const last = await bench.tryCommit(next, { turn: bench.turn(next), close: COMPLETED, status: "completed" });
    same(last.status === "committed" && last.goesOn === true, false);
  });
  test("Q9 D10 a failed run that begins its next start can't be resumed, and its start time is that of the next claim", async (bench) => {
    const held = await bench.running("a");
    await start(bench, "debounce", "two");
    await bench.close(held, SEEN, { turn: bench.turn(held) });
    same(await bench.store.resume(["a"]), ["not-resumable"]);
    bench.time += 9;
    same((await bench.claimRun("a")).run.startedAt, START + 9);
  });
  if (crashes)
    test("Q9 D2 a next start is there when the process dies, before and after the end that begins it", async (bench) => {
      await bench.running("a");
      await start(bench, "debounce", "two", { messages: [{ job: signal("s1") }], attributes: { x: 1 } });
      await bench.crash();
      await start(bench, "debounce", "three", { messages: [{ job: signal("s2") }], attributes: { y: 1 } });
      await bench.crash();
      bench.time += 2 * LEASE;
      const held = await bench.hold("a");
      await bench.close(held, COMPLETED, { turn: bench.turn(held) });
      await bench.crash();
      const claimed = await bench.claimRun("a");
      same(
        [claimed.run.execution, claimed.run.input, idsOf(claimed.inbox), claimed.run.attributes],
        [2, payload("three"), ["s1", "s2"], { y: 1 }],
      );
    });
  if (shares)
    test("Q9 D3 starts of one run while it ends, in two processes: the newest is what it ran with last, and no signal is lost", async (bench) => {
      const beside = await bench.beside();
      try {
        await bench.created("a");
        for (const round of range(10)) {
          const held = await bench.hold("a");
          const starting = range(3).map((i) =>
            beside.store.create([beside.newRun("a", { onConflict: "debounce", input: payload([round, i]), messages: [{ job: signal(`${round} ${i}`) }] })]),
          ); // biome-ignore format: a start
          await bench.close(held, COMPLETED, { turn: bench.turn(held) });
          await Promise.all(starting);
          let seen: string[] = [];
          for (;;) {
            const { status } = await bench.row("a");
            if (status === "completed") break;
            const claimed = await bench.claimRun("a");
            seen = [...seen, ...idsOf(claimed.inbox)];
            if (seen.length === 3) {
              same(claimed.run.input, payload([round, Number(seen.at(-1)?.split(" ")[1])]));
              await start(bench, "debounce", "again");
            }
            await bench.close(heldOf(claimed), COMPLETED, {
              consumed: claimed.inbox.map(({ id }) => id),
              seen: only(claimed.inbox.slice(-1)).id,
            });
            if (seen.length === 3) break;
          }
          same(seen.toSorted(), range(3).map((i) => `${round} ${i}`)); // biome-ignore format: one line
        }
      } finally {
        await beside.store.close();
      }
    });
}
