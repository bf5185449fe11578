// Conformance: looking at runs, and hints that something may have changed.
// Owns: tests of `list`, `count` and `watch`.
// Invariants tested: P10, P11, D9, W1.

import assert from "node:assert/strict";
import type { RunFilter, RunQuery, Wakeup } from "holdfast/store";
import { type Bench, LEASE, payload, range, START, same, signal, update } from "./bench.ts";
import type { Suite } from "./suite.ts";

const listed = async (bench: Bench, query: Partial<RunQuery> = {}): Promise<string[]> =>
  (await bench.store.list({ limit: 100, ...query })).runs.map(({ id }) => id);
const counted = async (bench: Bench, filter: RunFilter = {}): Promise<number> => {
  const { capped, ...counts } = await bench.store.count(filter);
  assert.deepEqual(capped, []);
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
};

export function looking({ test }: Suite): void {
  test("P10 B1 runs are listed newest first, those of one moment by id, the last first", async (bench) => {
    await bench.created("a");
    await bench.created("b");
    bench.time += 10;
    await bench.created("c");
    bench.time -= 5;
    await bench.created("d");
    same(await listed(bench), ["c", "d", "b", "a"]);
    const { runs } = await bench.store.list({ limit: 1 });
    same(runs, [await bench.row("c")]);
  });
  test("P10 pages end, and hold every run once", async (bench) => {
    await bench.store.create(range(25).map((i) => bench.newRun(`r${i}`)));
    for (const limit of [1, 7, 25, 100]) {
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await bench.store.list({ limit, cursor });
        assert.ok(page.runs.length <= limit);
        seen.push(...page.runs.map(({ id }) => id));
        cursor = page.cursor;
      } while (cursor !== undefined);
      same(seen, range(25).map((i) => `r${i}`).toSorted().toReversed()); // biome-ignore format: one line
    }
  });
  test("P10 a cursor is stable while runs come and go", async (bench) => {
    for (const i of range(10)) {
      if (i % 3 === 0) bench.time++;
      await bench.created(`r${i}`);
    }
    const query = { status: ["pending"], limit: 4 } as const;
    const first = await bench.store.list(query);
    same(first.runs.map(({ id }) => id), ["r9", "r8", "r7", "r6"]); // biome-ignore format: one line
    assert.ok(first.cursor !== undefined);
    bench.time++;
    await bench.created("new");
    // Those of the page, the one that the cursor names among them, and one that is yet to come, go.
    await bench.store.terminate(["r8", "r6", "r4"].map((runId) => ({ runId, reason: undefined })));
    const second = await bench.store.list({ ...query, cursor: first.cursor });
    same(second.runs.map(({ id }) => id), ["r5", "r3", "r2", "r1"]); // biome-ignore format: one line
    const third = await bench.store.list({ ...query, cursor: second.cursor });
    same([third.runs.map(({ id }) => id), third.cursor], [["r0"], undefined]);
  });
  test("P11 lists and counts can be narrowed down", async (bench) => {
    await bench.created("a", { workflow: "order", queue: "q1", attributes: { customer: "x", n: 1 } });
    bench.time += 10;
    await bench.created("b", { workflow: "ship", queue: "q1", attributes: { customer: "x", n: 2 } });
    bench.time += 10;
    await bench.created("c", {
      workflow: "order",
      queue: "q2",
      attributes: { customer: "y" },
      parent: { runId: "a", execution: 1, seq: 1, parentClose: "abandon", announce: false },
    });
    await bench.claim({ queue: "q2" });
    const expected: [RunFilter, string[]][] = [
      [{}, ["c", "b", "a"]],
      [{ workflow: "order" }, ["c", "a"]],
      [{ queue: "q1" }, ["b", "a"]],
      [{ status: ["pending"] }, ["b", "a"]],
      [{ status: ["running", "failed"] }, ["c"]],
      [{ status: [] }, []],
      [{ parentId: "a" }, ["c"]],
      [{ parentId: "b" }, []],
      [{ since: START + 10 }, ["c", "b"]],
      [{ until: START + 10 }, ["a"]],
      [{ since: START + 10, until: START + 20 }, ["b"]],
      [{ attributes: { customer: "x" } }, ["b", "a"]],
      [{ attributes: { customer: "x", n: 2 } }, ["b"]],
      [{ attributes: { nothing: "x" } }, []],
      [{ workflow: "order", queue: "q1", status: ["pending"], attributes: { customer: "x" } }, ["a"]],
    ];
    for (const [query, ids] of expected) {
      same(await listed(bench, query), ids, JSON.stringify(query));
      assert.equal(await counted(bench, query), ids.length, JSON.stringify(query));
    }
  });
  test("P11 attributes are found by value and type, as they are now", async (bench) => {
    const values = { text: "1", number: 1, float: 1.5, yes: true, no: false, zero: 0, empty: "", quote: `'"\\%_` };
    for (const [id, value] of Object.entries(values)) await bench.created(id, { attributes: { key: value, "odd.key'\"$[0]": value } });
    for (const [id, value] of Object.entries(values)) {
      same(await listed(bench, { attributes: { key: value } }), [id]);
      same(await listed(bench, { attributes: { "odd.key'\"$[0]": value } }), [id]);
    }
    const held = await bench.hold("text");
    await bench.commit(held, { attributes: { key: "2" } });
    same([await listed(bench, { attributes: { key: "1" } }), await listed(bench, { attributes: { key: "2" } })], [[], ["text"]]);
  });
  test("P11 a count has every status, and a run is counted once", async (bench) => {
    await bench.created("pending");
    await bench.running("running");
    await bench.parked("sleeping");
    await bench.close(await bench.running("completed"));
    await bench.close(await bench.running("again"), {
      status: "continued",
      next: { input: payload(1), version: undefined, seed: "2", carried: [] },
    });
    same(await bench.store.count({}), {
      pending: 2, running: 1, sleeping: 1, blocked: 0, rolling_back: 0, completed: 1, failed: 0, canceled: 0, terminated: 0, continued: 0,
      capped: [],
    }); // biome-ignore format: a table
    same((await bench.store.count({ workflow: "nothing" })).pending, 0);
  });

  // ── watching ──

  /** Resolves once a wake-up says so. */
  const woken = (bench: Bench, of: keyof Wakeup): Promise<void> =>
    new Promise((resolve) => {
      const stop = bench.store.watch((wakeup) => {
        if (wakeup[of] !== true) return;
        stop();
        resolve();
      });
    });
  test("W1 new runs, messages and parked runs that are due wake who claims", async (bench) => {
    let wake = woken(bench, "work");
    await bench.created("a");
    await wake;
    const held = await bench.hold("a");
    wake = woken(bench, "work");
    await bench.sent("a", signal("s1"));
    await wake;
    wake = woken(bench, "work");
    await bench.park(held, { turn: bench.turn(held), seen: 0 });
    await wake;
  });
  test("W1 tasks wake who runs activities, and their answers who claims runs", async (bench) => {
    const wake = woken(bench, "tasks");
    await bench.waitingFor("a", bench.newTask(1));
    await wake;
    const task = await bench.claimTask();
    const work = woken(bench, "work");
    await bench.complete(task);
    await work;
  });
  test("M10 ends of runs and updates wake those that wait for them", async (bench) => {
    const held = await bench.running("a");
    await bench.sent("a", update("u1"));
    let wake = woken(bench, "results");
    await bench.commit(held, { updates: [{ id: "u1", outcome: { status: "completed", value: payload(1) } }] });
    await wake;
    wake = woken(bench, "results");
    await bench.close(held);
    await wake;
    for (const end of ["terminate", "cancel", "expire"]) {
      await bench.created(end, { deadline: LEASE });
      wake = woken(bench, "results");
      if (end === "terminate") await bench.store.terminate([{ runId: end, reason: undefined }]);
      else if (end === "cancel") await bench.send(end, { type: "cancel" });
      else {
        bench.time += LEASE;
        await bench.store.expire();
      }
      await wake;
    }
  });
  test("W1 resumed runs, blocked or failed, wake who claims", async (bench) => {
    const held = await bench.running("a");
    await bench.park(held, { status: "blocked", blocked: { error: { name: "Error", message: "no" }, code: "1" } });
    const wake = woken(bench, "work");
    await bench.store.resume(["a"]);
    await wake;
    const failed = await bench.running("b");
    await bench.close(failed, { status: "failed", error: { name: "Error", message: "no" } }, { turn: bench.turn(failed) });
    const again = woken(bench, "work");
    await bench.store.resume(["b"]);
    await again;
  });
  test("D9 a wake-up comes after what it is about can be seen", async (bench) => {
    const seen = new Promise<boolean>((resolve) => {
      bench.store.watch(() => resolve(bench.exists("a")));
    });
    await bench.created("a");
    assert.equal(await seen, true);
  });
  test("D9 a watcher that has stopped is not called", async (bench) => {
    let calls = 0;
    const stop = bench.store.watch(() => calls++);
    stop();
    const wake = woken(bench, "work");
    await bench.created("a");
    await wake;
    assert.equal(calls, 0);
  });
}
