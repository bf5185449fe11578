// Runs that go on in new executions of Temporal because their history is long: to users they are one execution.
// Owns: none.
// Invariants: P10 L3 R11 (what was before the loop or receive is kept: results, rollbacks, patches, timers, deadlines, parents).

import { type ChildHandle, Loop, Receive, RollbackError, type Run, signal, type UnitContext, update, workflow } from "holdfast";
import { describe, expect, test, vi } from "vitest";
import type { HistoryEvent } from "../../src/bridge.ts";
import { msIfSet } from "../../src/proto.ts";
import { type Engines, engines, LONG } from "./engines.ts";

/** More than one execution holds. */
const ROUNDS = 50;

/** How its executions began, the newest first. */
async function startsOf(on: Engines, id: string): Promise<NonNullable<HistoryEvent["workflowExecutionStartedEventAttributes"]>[]> {
  const starts = [];
  let runId = "";
  do {
    const start = (await on.events(id, runId))[0]?.workflowExecutionStartedEventAttributes ?? {};
    starts.push(start);
    runId = start.continuedExecutionRunId ?? "";
  } while (runId !== "");
  return starts;
}

describe("a run in many executions", () => {
  const on = engines(
    { settings: { "limit.historyCount.suggestContinueAsNew": 40, "history.workflowIdReuseMinimalInterval": "0s" } },
    { shortestExecution: 0 },
  );

  /** Iterations with a step each, which commit. */
  const rounds = <C extends UnitContext>(ctx: C, count = ROUNDS, each?: (round: UnitContext, n: number) => Promise<unknown>) =>
    ctx.loop({ name: "rounds", state: 0, commitInterval: 2 }, async (round, n) => {
      await round.step("round", () => n);
      await each?.(round, n);
      return n + 1 >= count ? Loop.break(n + 1) : Loop.continue(n + 1);
    });
  const executionsOf = async (id: string): Promise<number> => (await startsOf(on, id)).length;

  test.concurrent(
    "S1 rollbacks of steps before the loop run after it, once, last first",
    async ({ expect }) => {
      const holdfast = await on.open();
      const undone: unknown[] = [];
      const saga = workflow("saga", async (ctx) => {
        await ctx.step("first", () => 1, { rollback: (output) => void undone.push(["first", output]) });
        await ctx.step("second", () => 2, { rollback: (output) => void undone.push(["second", output]) });
        await rounds(ctx);
        throw new RollbackError("too late");
      });
      await holdfast.worker({ workflows: [saga] });
      const run = await holdfast.start(saga);
      await expect(run.result()).rejects.toMatchObject({ code: "HF_RUN_FAILED" });
      expect(undone).toEqual([
        ["second", 2],
        ["first", 1],
      ]);
      expect(await executionsOf(run.id)).toBeGreaterThan(2);
    },
    LONG,
  );

  test.concurrent(
    "V1 X5 patches, side effects, random numbers, time and attributes stay as they were",
    async ({ expect }) => {
      const holdfast = await on.open();
      let effects = 0;
      const constant = workflow("constant", async (ctx) => {
        const isPatched = ctx.patched("new way");
        const before = [ctx.uuid(), ctx.random(), await ctx.sideEffect(() => ++effects), ctx.run.startedAt.getTime()];
        ctx.setAttributes({ phase: "loop" });
        await rounds(ctx);
        return {
          isPatched,
          again: ctx.patched("new way"),
          before,
          started: ctx.run.startedAt.getTime(),
          after: [ctx.uuid(), ctx.random()],
        };
      });
      await holdfast.worker({ workflows: [constant] });
      const run = await holdfast.start(constant, undefined, { attributes: { team: "red" } });
      const { isPatched, again, before, started, after } = await run.result();
      expect([isPatched, again]).toEqual([true, true]);
      expect(effects).toBe(1);
      expect(before[3]).toBe(started);
      expect(after[0]).not.toBe(before[0]);
      expect((await run.describe()).attributes).toEqual({ team: "red", phase: "loop" });
      expect(await executionsOf(run.id)).toBeGreaterThan(2);
    },
    LONG,
  );

  test.concurrent(
    "K7 the deadline is that of the start",
    async ({ expect }) => {
      const holdfast = await on.open();
      const endless = workflow("endless", async (ctx) => rounds(ctx, Number.POSITIVE_INFINITY));
      await holdfast.worker({ workflows: [endless] });
      const begun = Date.now();
      const run = await holdfast.start(endless, undefined, { deadline: "10s" });
      await expect(run.result()).rejects.toMatchObject({ cause: { code: "HF_DEADLINE_EXCEEDED" } });
      expect(Date.now() - begun).toBeGreaterThan(9_900);
      expect(Date.now() - begun).toBeLessThan(30_000);
      expect(await executionsOf(run.id)).toBeGreaterThan(1);
    },
    LONG,
  );

  test.concurrent(
    "R8 R11 the timeout of a receive is not prolonged",
    async ({ expect }) => {
      const holdfast = await on.open();
      const timed = workflow({ name: "timed", updates: { add: update<number, number>() } }, async (ctx) => {
        const begun = ctx.now().getTime();
        const { state, timedOut } = await ctx.receive(0, {
          updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) },
          timeout: "4s",
          checkpointEvery: 3,
        });
        return { state, timedOut, took: ctx.now().getTime() - begun };
      });
      await holdfast.worker({ workflows: [timed] });
      const run = await holdfast.start(timed);
      let sent = 0;
      let isOver = false;
      while (!isOver)
        await run.update("add", 1, { acceptWithin: "1m" }).then(
          () => sent++,
          () => {
            isOver = true;
          },
        );
      const { state, timedOut, took } = await run.result();
      expect({ state, timedOut }).toEqual({ state: sent, timedOut: true });
      expect(took).toBeGreaterThanOrEqual(4_000);
      expect(took).toBeLessThan(30_000); // updates are sent until it is over: a timeout that begins anew with an execution has no end
      expect(await executionsOf(run.id)).toBeGreaterThan(1);
    },
    LONG,
  );

  test.concurrent(
    "P10 a child that goes on in new executions is the same child: result, failure and parent",
    async ({ expect }) => {
      const holdfast = await on.open();
      const child = workflow<boolean, string>("child", async (ctx, fails) => {
        await rounds(ctx);
        if (fails) throw new RangeError("it failed");
        return `child of ${ctx.run.parentId}`;
      });
      const parent = workflow("parent", async (ctx) => {
        const good = await ctx.child(child, false, { id: `${ctx.run.id}-good` });
        const bad = await ctx.try("bad", (unit) => unit.child(child, true, { id: `${ctx.run.id}-bad` }));
        return [good, bad.ok ? "?" : (bad.error.cause as Error).message];
      });
      await holdfast.worker({ workflows: [child, parent] });
      const run = await holdfast.start(parent);
      expect(await run.result()).toEqual([`child of ${run.id}`, "it failed"]);
      expect(await executionsOf(`${run.id}-good`)).toBeGreaterThan(2);
      expect(await holdfast.run(`${run.id}-good`).describe()).toMatchObject({ parentId: run.id, execution: 1 });
    },
    LONG,
  );

  test.concurrent(
    "P10 L3 a child that was started before the loop and is abandoned does not hold it up, and is not started again",
    async ({ expect }) => {
      const holdfast = await on.open();
      let started = 0;
      const waits = workflow({ name: "waits", signals: { end: signal<string>() } }, async (ctx) => {
        await ctx.step("count", () => ++started);
        return ctx.waitForSignal("end");
      });
      const parent = workflow("parent", async (ctx) => {
        const handle: ChildHandle<string> = await ctx.startChild(waits, undefined, { id: `${ctx.run.id}-child`, parentClose: "abandon" });
        await rounds(ctx);
        await handle.signal("end", "ended");
        return handle.id;
      });
      await holdfast.worker({ workflows: [waits, parent] });
      const run = await holdfast.start(parent);
      expect(await run.result()).toBe(`${run.id}-child`);
      expect(await holdfast.run(`${run.id}-child`).result()).toBe("ended");
      expect(started).toBe(1);
      expect(await executionsOf(run.id)).toBeGreaterThan(2);
    },
    LONG,
  );

  test.concurrent(
    "L3 the result of a child that was abandoned before the loop is refused, not awaited forever",
    async ({ expect }) => {
      const holdfast = await on.open();
      const child = workflow("child", async (ctx) => void (await ctx.waitForSignal("never")));
      const parent = workflow("parent", async (ctx) => {
        const handle = await ctx.startChild(child, undefined, { id: `${ctx.run.id}-child`, parentClose: "abandon" });
        await rounds(ctx);
        return handle.result();
      });
      await holdfast.worker({ workflows: [child, parent] });
      const run = await holdfast.start(parent);
      await expect(run.result()).rejects.toMatchObject({ cause: { code: "HF_CHILD_FAILED", cause: { code: "HF_UNSUPPORTED" } } });
      expect(await executionsOf(run.id)).toBeGreaterThan(2);
      await holdfast.run(`${run.id}-child`).terminate();
    },
    LONG,
  );

  test.concurrent(
    "K1 a cancellation, a signal and a query while executions change",
    async ({ expect }) => {
      const holdfast = await on.open();
      let cleaned = 0;
      const endless = workflow({ name: "endless", queries: { twice: (n: number) => 2 * n } }, async (ctx) => {
        try {
          await rounds(ctx, Number.POSITIVE_INFINITY, async (round, n) => round.publishState(n));
        } finally {
          await ctx.shield((unit) => unit.step("clean up", () => ++cleaned));
        }
      });
      await holdfast.worker({ workflows: [endless] });
      const run: Run<unknown> = await holdfast.start(endless);
      await vi.waitFor(async () => expect(await executionsOf(run.id)).toBeGreaterThan(3), { timeout: 60_000, interval: 100 });
      expect(await holdfast.run(run.id, endless).query("twice")).toBeGreaterThan(20);
      await run.cancel("enough");
      await expect(run.result()).rejects.toMatchObject({ code: "HF_CANCELED" });
      expect(await run.describe()).toMatchObject({ status: "canceled", execution: 1 });
      expect(cleaned).toBe(1);
    },
    LONG,
  );

  test.concurrent(
    "Y1 any worker goes on with any execution, also without a cache",
    async ({ expect }) => {
      const holdfast = await on.open();
      const counted = workflow("counted", async (ctx) => {
        const before = await ctx.step("before", () => "before");
        const count = await rounds(ctx, 40, async (round) => round.sideEffect(() => 1));
        return [before, count, await ctx.step("after", () => "after")];
      });
      await Promise.all([1, 2].map(() => holdfast.worker({ workflows: [counted], cachedRuns: 0 })));
      const runs = await holdfast.startMany(counted, [{}, {}, {}]);
      for (const run of runs) expect(await run.result()).toEqual(["before", 40, "after"]);
    },
    LONG,
  );
});

describe("a run that gets updates all the time", () => {
  const on = engines({ settings: { "limit.historyCount.suggestContinueAsNew": 40 } });
  test(
    "M1 R11 the server delays none of its executions, so that no signal waits for one",
    async () => {
      const holdfast = await on.open();
      const entity = workflow({ name: "entity", updates: { add: update<number, number>() } }, async (ctx) => {
        const { state } = await ctx.receive(0, { updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) }, checkpointEvery: 5 });
        return state;
      });
      await holdfast.worker({ workflows: [entity] });
      const run = await holdfast.start(entity);
      let sum = 0;
      do for (let i = 0; i < 20; i++) expect(await run.update("add", 1, { acceptWithin: "10s" })).toBe(++sum);
      while ((await startsOf(on, run.id)).length < 4);
      for (const { firstWorkflowTaskBackoff } of await startsOf(on, run.id)) expect(msIfSet(firstWorkflowTaskBackoff) ?? 0).toBe(0);
      await run.terminate();
    },
    LONG,
  );
});
