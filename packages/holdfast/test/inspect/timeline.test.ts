// D12 X3 L4 M7: the timeline of real runs: every kind of operation, units, attempts, loops, messages.

import { activity, FatalError, Loop, Receive, signal, update, workflow } from "holdfast";
import { timelineOf } from "holdfast/inspect";
import { expect, test } from "vitest";
import { errorOf, Gate, until } from "../engine/engines.ts";
import { expectSame, opened } from "./timelines.ts";

test("every kind of operation, and the units that they run in", async () => {
  const { engine, timeline } = await opened();
  const kid = workflow("kid", async () => "kid");
  const render = activity("render", (page: number) => page);
  const all = workflow({ name: "all", signals: { go: signal<number>(), add: signal<number>() } }, async (ctx) => {
    await ctx.step("one", () => 1);
    await ctx.transaction("tx", () => 2);
    await ctx.activity(render, 3);
    await ctx.child(kid);
    const handle = await ctx.startChild(kid, undefined, { id: "detached" });
    await handle.result();
    await ctx.sleep("nap", 1);
    await ctx.sideEffect(() => 4);
    await ctx.signalRun(ctx.run.id, "go", 1);
    await ctx.waitForSignal("go");
    await ctx.cancelRun("detached").catch(() => undefined);
    await ctx.parallel([(branch) => branch.step("p0", () => 0), (branch) => branch.step("p1", () => 1)]);
    await ctx.join("both", { a: (branch) => branch.step("left", () => 0), b: (branch) => branch.step("right", () => 1) });
    await ctx.race("first", { quick: (branch) => branch.step("q", () => 0), slow: (branch) => branch.sleep("1h") });
    await ctx.try("risky", (body) =>
      body.step("boom", () => {
        throw new FatalError("no");
      }),
    );
    await ctx.shield((body) => body.step("safe", () => 0));
    await ctx.loop({ name: "poll", state: 0 }, async (each, state) => {
      await each.step("tick", () => state);
      return state === 2 ? Loop.break(state) : Loop.continue(state + 1);
    });
    const flag = ctx.ivar<number>();
    await ctx.join("meet", {
      put: async (branch) => {
        await branch.step("work", () => 0);
        flag.put(1);
      },
      get: async () => flag.wait(),
      when: async (branch) => branch.condition(() => flag.filled),
    });
    ctx.patched("new");
    ctx.setAttributes({ done: true });
    ctx.rollbackCheckpoint("safe");
    await ctx.signalRun(ctx.run.id, "add", 5);
    await ctx.receive(0, {
      signals: {
        add: (n, state) => (n === 5 ? Receive.async((handler) => handler.step("later", () => n), state + n) : Receive.stop(state)),
      },
      timeout: "10ms",
    });
    return "end";
  });
  const worker = await engine.worker({ workflows: [all, kid], activities: [render] });
  const run = await engine.start(all, undefined, { id: "r" });
  expect(await run.result()).toBe("end");
  const found = await timeline("r");
  await expectSame(engine, "r", found);
  expect(found).toMatchObject({ execution: 1, complete: true, lastTurn: found.turns.at(-1)?.index });
  expect(new Set(found.turns.map(({ workerId }) => workerId))).toEqual(new Set([worker.id]));
  const kinds = new Set(found.operations.map(({ kind }) => kind));
  for (const kind of ["step", "transaction", "activity", "child", "signalRun", "cancelRun", "sleep", "signal", "condition", "ivar", "parallel",
    "join", "race", "loop", "try", "shield", "receive", "sideEffect", "patch", "rollbackCheckpoint", "attributes"] as const) expect(kinds).toContain(kind); // biome-ignore format: a list

  const byPath = new Map(found.units.map((unit) => [unit.path, unit]));
  expect(byPath.get("")).toMatchObject({ role: "root", parent: null, status: "completed", endedAt: expect.any(Number) });
  expect(byPath.get("parallel/~1")).toMatchObject({ role: "branch", parent: "", status: "completed" });
  expect(byPath.get("both/a")).toMatchObject({ role: "branch", parent: "", status: "completed" });
  expect(byPath.get("first/quick")).toMatchObject({ role: "branch", status: "completed" });
  expect(byPath.get("first/slow")).toMatchObject({ role: "branch", status: "canceled" });
  expect(byPath.get("risky")).toMatchObject({ role: "body", parent: "", status: "completed" });
  expect(byPath.get("shield")).toMatchObject({ role: "body", parent: "", status: "completed" });
  expect(byPath.get("poll/~2")).toMatchObject({ role: "iteration", parent: "", status: "completed" });
  expect(byPath.get("receive/~h0")).toMatchObject({ role: "handler", parent: "", status: "completed" });
  expect(byPath.get("receive/~h0/~async")).toMatchObject({ role: "async", parent: "", status: "completed" });
  for (const { parent, startedAt, endedAt } of found.units) {
    if (parent !== null) expect(byPath.has(parent)).toBe(true);
    expect(endedAt).toBeGreaterThanOrEqual(startedAt);
  }
  for (const { unit, location } of found.operations) expect(byPath.has(unit), location).toBe(true);

  const at = new Map(found.operations.map((operation) => [operation.location, operation]));
  expect(at.get("kid")).toMatchObject({ kind: "child", childId: "r/kid", attempts: [] });
  expect(at.get("nap")).toMatchObject({ wakeAt: (at.get("nap")?.scheduledAt ?? 0) + 1, endedAt: expect.any(Number) });
  expect(at.get("risky/boom")).toMatchObject({ status: "failed", error: { name: "FatalError", message: "no" } });
  expect(at.get("one")?.attempts).toEqual([
    { number: 1, status: "completed", startedAt: expect.any(Number), endedAt: expect.any(Number), workerId: worker.id },
  ]);
  expect(found.loops).toEqual([{ location: "poll", iterations: 3, failed: 0, kept: 3, committedAt: null }]);
  expect(found.messages).toMatchObject([
    { kind: "signal", name: "go", takenBy: "go#1", arrivedTurn: expect.any(Number), takenTurn: expect.any(Number) },
    { kind: "signal", name: "add", takenBy: "receive" },
  ]);
  expect(JSON.stringify(found)).not.toContain("stack");
  await engine.close();
});

test("attempts, backoff, waits, and who had the run", async () => {
  const { engine, timeline } = await opened();
  let attempts = 0;
  const flaky = workflow("flaky", async (ctx) => {
    await Promise.all([
      ctx.step("charge", () => Promise.reject(new Error(`no ${"x".repeat(300)}${++attempts}`)), {
        retry: { initialInterval: 1, maxInterval: "1h", backoff: 3_600_000 },
      }),
      ctx.waitForSignal("never", { timeout: "2h" }),
    ]);
  });
  const worker = await engine.worker({ workflows: [flaky] });
  await engine.start(flaky, undefined, { id: "r" });
  await until(async () => attempts === 2 && (await engine.run("r").describe()).status === "sleeping");
  const found = await timeline("r");
  await expectSame(engine, "r", found);
  const [charge, never] = found.operations;
  expect(charge).toMatchObject({ location: "charge", status: "scheduled", endedAt: null, error: null, childId: null });
  expect(charge?.attempts).toMatchObject([
    { number: 1, status: "failed", workerId: worker.id },
    { number: 2, status: "failed", workerId: worker.id },
  ]);
  expect(charge?.retryAt).toBeGreaterThan((charge?.attempts[1]?.endedAt ?? 0) + 1_000_000);
  expect(never).toMatchObject({ location: "never", status: "waiting", wakeAt: (never?.scheduledAt ?? 0) + 7_200_000, retryAt: null });
  expect(found.units).toMatchObject([{ path: "", role: "root", endedAt: null, status: "running" }]);
  await engine.run("r").terminate();
  const after = await timeline("r");
  await expectSame(engine, "r", after);
  expect(after.operations.map(({ status }) => status)).toEqual(["abandoned", "abandoned"]);
  expect(after.units).toMatchObject([{ path: "", status: "canceled", endedAt: expect.any(Number) }]);
  await engine.close();
});

test("an error has at most 200 characters, and no half of a character", async () => {
  const { engine, timeline } = await opened();
  const failing = workflow("failing", async (ctx) =>
    ctx.step("boom", () => {
      throw new FatalError("😀".repeat(150));
    }),
  );
  await engine.worker({ workflows: [failing] });
  const run = await engine.start(failing, undefined, { id: "r" });
  await errorOf(run.result());
  const [boom] = (await timeline("r")).operations;
  expect(boom?.error?.name).toBe("FatalError");
  expect(boom?.error?.message.length).toBeLessThanOrEqual(200);
  expect(() => encodeURIComponent(boom?.error?.message ?? "")).not.toThrow();
  expect((await timeline("r")).units).toMatchObject([{ path: "", status: "failed" }]);
  await engine.close();
});

test("L4 a long loop is folded: iterations that were trimmed are counted", async () => {
  const { engine, timeline } = await opened();
  const held = new Gate();
  const polling = workflow("polling", async (ctx) =>
    ctx.loop({ name: "poll", state: 0, commitInterval: 5, historyEvery: 5, historyKeep: 2 }, async (each, state) => {
      await each.try("maybe", (body) =>
        body.step("tick", async () => {
          if (state === 53) await held.passed;
          if (state === 52) throw new FatalError("odd");
        }),
      );
      return state === 53 ? Loop.break(state) : Loop.continue(state + 1);
    }),
  );
  await engine.worker({ workflows: [polling] });
  const run = await engine.start(polling, undefined, { id: "r" });
  const found = await until(async () => {
    const now = await timeline("r");
    return now.loops[0]?.iterations === 54 && now;
  });
  await expectSame(engine, "r", found);
  expect(found.loops).toEqual([{ location: "poll", iterations: 54, failed: 1, kept: expect.any(Number), committedAt: expect.any(Number) }]);
  expect(found.loops[0]?.kept).toBeLessThan(12);
  expect(found.units.filter(({ endedAt }) => endedAt === null).map(({ path }) => path)).toEqual(["", "poll/~53", "poll/~53/maybe"]);
  expect(found.units.find(({ path }) => path === "poll/~53/maybe")).toMatchObject({ role: "body", parent: "poll/~53" });
  held.open();
  await run.result();
  await engine.close();
});

test("M7 messages: when they came, and which operation consumed them", async () => {
  const { engine, timeline } = await opened();
  const talking = workflow(
    { name: "talking", signals: { a: signal<number>(), b: signal<number>() }, updates: { set: update<number, number>() } },
    async (ctx) => {
      await ctx.waitForSignal("a");
      await ctx.receive(0, { updates: { set: (n) => Receive.stop(n, n) } });
      await ctx.waitForSignal("a");
    },
  );
  await engine.worker({ workflows: [talking] });
  const run = await engine.start(talking, undefined, { id: "r" });
  await run.signal("b", 1);
  await run.signal("a", 1);
  await run.update("set", 1);
  await run.cancel();
  await errorOf(run.result());
  const found = await timeline("r");
  await expectSame(engine, "r", found);
  const by = (kind: string, name: string | null) => found.messages.find((message) => message.kind === kind && message.name === name);
  expect(by("signal", "b")).toMatchObject({ takenTurn: null, takenBy: null });
  expect(by("signal", "a")).toMatchObject({ takenBy: "a" });
  expect(by("update", "set")).toMatchObject({ takenBy: "receive" });
  expect(by("cancel", null)).toMatchObject({ takenTurn: by("cancel", null)?.arrivedTurn, takenBy: null });
  expect(found.units).toMatchObject([
    { path: "", status: "canceled" },
    { path: "receive/~h0", role: "handler" },
  ]);
  await engine.close();
});

test("after a turn: what has changed since, and what is still open", async () => {
  const { engine, timeline } = await opened();
  const stepwise = workflow("stepwise", async (ctx) => {
    await ctx.step("one", () => 1);
    const open = ctx.sleep("long", "1h");
    await ctx.waitForSignal("go");
    await ctx.step("two", () => 2);
    await open;
  });
  await engine.worker({ workflows: [stepwise] });
  const run = await engine.start(stepwise, undefined, { id: "r" });
  await until(async () => (await run.describe()).status === "sleeping");
  const first = await timeline("r");
  await run.signal("go");
  await until(async () => (await run.operations()).some(({ name, status }) => name === "two" && status === "completed"));
  const second = await timeline("r", first.lastTurn);
  expect(second.lastTurn).toBeGreaterThan(first.lastTurn);
  expect(second.turns.map(({ index }) => index)).toEqual(second.turns.map((_, i) => first.lastTurn + 1 + i));
  expect(second.operations.map(({ location }) => location)).toEqual(["long", "go", "two"]);
  expect(second.messages).toMatchObject([{ name: "go", takenBy: "go" }]);
  const merged = new Map([...first.operations, ...second.operations].map((operation) => [operation.seq, operation]));
  expect([...merged.values()]).toEqual((await timeline("r")).operations);
  await engine.close();
});

test("D10 a resume reopens the run, its operation and its unit", async () => {
  const { engine, timeline } = await opened();
  let fails = true;
  const job = workflow("job", async (ctx) =>
    ctx.join("both", {
      a: (branch) =>
        branch.step("work", () => {
          if (fails) throw new FatalError("no");
          return 1;
        }),
    }),
  );
  await engine.worker({ workflows: [job] });
  const run = await engine.start(job, undefined, { id: "r" });
  await errorOf(run.result());
  expect((await timeline("r")).units).toMatchObject([
    { path: "", status: "failed" },
    { path: "both/a", status: "failed" },
  ]);
  fails = false;
  await run.resume();
  await run.result();
  const found = await timeline("r");
  await expectSame(engine, "r", found);
  expect(found.units).toMatchObject([
    { path: "", status: "completed" },
    { path: "both/a", status: "completed" },
  ]);
  await engine.close();
});

test("more operations than are listed: the newest, and their units", async () => {
  const turns = [
    {
      ...{ index: 0, time: 1, historyLength: 0 },
      jobs: [],
      commands: Array.from({ length: 20_005 }, (_, i) => ({
        type: "step" as const,
        seq: i + 1,
        unit: i < 10 ? "old/a" : "new/b",
        name: `s${i}`,
        n: 0,
      })),
    },
  ];
  const found = timelineOf(turns, [], new Map());
  expect(found.complete).toBe(false);
  expect(found.operations).toHaveLength(20_000);
  expect(found.operations[0]).toMatchObject({ seq: 6, location: "old/a/s5" });
  expect(timelineOf(turns, [], new Map(), { mostOperations: 10 }).units.map(({ path }) => path)).toEqual(["", "new/b"]);
});

test("no turn yet", () => {
  expect(timelineOf([], [], new Map())).toEqual({
    ...{ execution: 1, lastTurn: -1, complete: true },
    ...{ turns: [], units: [], operations: [], loops: [], messages: [] },
  });
});
