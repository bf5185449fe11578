// Attempts that were abandoned: they are notified at once, though their lease is long, and keep no slot.

import { activity, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { aborted, enginesOn, errorOf, Gate, STORES, until } from "./engines.ts";

/** A test that waits for the next renewal would time out first. */
const LONG = { lease: "10m", gracePeriod: 0 } as const;

describe.each(STORES)("attempts that are abandoned, on %s", (store) => {
  const engines = enginesOn(store);

  const listener = () => {
    const entered = new Gate();
    const told = new Gate<Error>();
    const run = async (_: undefined, { signal }: { signal: AbortSignal }): Promise<void> => {
      entered.open();
      await aborted(signal).catch(told.open.bind(told));
    };
    return { entered, told, run };
  };

  describe.each(["this", "another"])("by %s process", (where) => {
    const open = async (options: { skips?: boolean } = {}) => {
      const host = await engines.open(options);
      return { host, other: where === "this" ? host : await engines.open(options) };
    };

    test("K1 D11 an activity hears at once that its run was canceled", async () => {
      const { host, other } = await open();
      const { entered, told, run: body } = listener();
      const act = activity("act", body);
      const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
      await other.worker({ workflows: [w], ...LONG });
      await host.worker({ workflows: [], activities: [act], ...LONG });
      const run = await other.start(w, undefined);
      await entered.passed;
      await run.cancel();
      expect((await errorOf(run.result())).name).toBe("CanceledError");
      expect(await told.passed).toMatchObject({ code: "HF_ATTEMPT_OVER", message: expect.stringContaining("canceled") });
    });

    test("K6 D11 an activity hears at once that its run was terminated", async () => {
      const { host, other } = await open();
      const { entered, told, run: body } = listener();
      const act = activity("act", body);
      const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
      await host.worker({ workflows: [w], activities: [act], ...LONG });
      const run = await other.start(w, undefined);
      await entered.passed;
      await run.terminate("enough");
      expect(await told.passed).toMatchObject({
        code: "HF_ATTEMPT_OVER",
        message: expect.stringContaining("terminated"),
        cause: { name: "RunTerminatedError" },
      });
    });

    test("K6 D11 an activity of a child hears at once that its run ended with its parent", async () => {
      const { host, other } = await open();
      const { entered, told, run: body } = listener();
      const act = activity("act", body);
      const child = workflow("child", async (ctx) => ctx.activity(act, undefined));
      const w = workflow("w", async (ctx) => ctx.child(child, undefined, { parentClose: "terminate" }));
      await host.worker({ workflows: [w, child], activities: [act], ...LONG });
      const run = await other.start(w, undefined);
      await entered.passed;
      await run.terminate();
      expect(await told.passed).toMatchObject({ code: "HF_ATTEMPT_OVER", message: expect.stringContaining("terminated") });
    });

    test("K6 D4 a step hears at once that its run was terminated", async () => {
      const { host, other } = await open();
      const { entered, told, run: body } = listener();
      const w = workflow("w", async (ctx) => ctx.step("s", async ({ signal }) => body(undefined, { signal })));
      await host.worker({ workflows: [w], ...LONG });
      const run = await other.start(w, undefined);
      await entered.passed;
      await run.terminate("enough");
      expect(await told.passed).toMatchObject({ code: "HF_CLAIM_LOST" });
    });

    test("K7 D4 D11 steps and activities hear at once that the deadline of their run has passed", async () => {
      const { host, other } = await open({ skips: true });
      const ofStep = listener();
      const ofActivity = listener();
      const act = activity("act", ofActivity.run);
      const w = workflow("w", async (ctx) => {
        await Promise.all([ctx.activity(act, undefined), ctx.step("s", async ({ signal }) => ofStep.run(undefined, { signal }))]);
      });
      await host.worker({ workflows: [w], activities: [act], ...LONG });
      const run = await other.start(w, undefined, { deadline: "5m" });
      await Promise.all([ofActivity.entered.passed, ofStep.entered.passed]);
      engines.skip(300_000);
      const cause = { name: "DeadlineExceededError" };
      expect(await ofActivity.told.passed).toMatchObject({ code: "HF_ATTEMPT_OVER", message: expect.stringContaining("failed"), cause });
      expect(await ofStep.told.passed).toMatchObject({ code: "HF_CLAIM_LOST" });
      expect((await run.describe()).status).toBe("failed");
    });

    test("C7 D11 an activity hears at once that its workflow has given it up", async () => {
      const { host, other } = await open();
      const { entered, told, run: body } = listener();
      const act = activity("act", body);
      const w = workflow("w", async (ctx) => {
        await ctx.race("first", { act: (ctx) => ctx.activity(act, undefined), go: (ctx) => ctx.waitForSignal("go") });
        await ctx.waitForSignal("end");
      });
      await other.worker({ workflows: [w], ...LONG });
      await host.worker({ workflows: [], activities: [act], ...LONG });
      const run = await other.start(w, undefined);
      await entered.passed;
      await run.signal("go");
      expect(await told.passed).toMatchObject({ code: "HF_ATTEMPT_OVER", message: expect.stringContaining("its workflow canceled it") });
      await run.signal("end");
      await run.result();
    });
  });

  test("D11 W1 an activity that does not listen keeps no slot once it was abandoned; what it returns is dropped", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const late = new Gate<string>();
    const deaf = activity("deaf", async () => {
      entered.open();
      return late.passed;
    });
    const quick = activity("quick", () => "quick");
    const first = workflow("first", async (ctx) => ctx.activity(deaf, undefined));
    const second = workflow("second", async (ctx) => ctx.activity(quick, undefined));
    await engine.worker({ workflows: [first, second], activities: [deaf, quick], activityConcurrency: 1, ...LONG });
    const run = await engine.start(first, undefined);
    await entered.passed;
    const next = await engine.start(second, undefined);
    await run.terminate();
    expect(await next.result()).toBe("quick");
    late.open("late");
    await until(() => engines.log.find(({ level, message }) => level === "debug" && message.includes('"deaf"')));
    expect(await run.describe()).toMatchObject({ status: "terminated", output: undefined });
    expect(engines.log.filter(({ level }) => level === "error")).toEqual([]);
  });

  test.each([
    ["startToClose", { startToClose: 60 }],
    ["heartbeat", { heartbeat: 60 }],
  ])("D11 an attempt hears at once that its %s has passed, keeps no slot, and no attempt begins twice", async (limit, options) => {
    const engine = await engines.open();
    const told = new Gate<Error>();
    const begun: number[] = [];
    const act = activity(
      "act",
      async (_: undefined, { attempt, signal }) => {
        if (begun.push(attempt) > 1) return attempt;
        signal.addEventListener("abort", () => told.open(signal.reason));
        return new Promise<number>(() => {}); // it does not listen
      },
      { ...options, retry: { initialInterval: 1 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act], activityConcurrency: 1, ...LONG });
    const run = await engine.start(w, undefined);
    expect(await told.passed).toMatchObject({ name: "StepTimeoutError", limit });
    expect(await run.result()).toBeGreaterThan(1);
    // One whose time is over before it begins does not.
    expect(begun).toEqual([...new Set(begun)].toSorted((a, b) => a - b));
  });

  test("W4 D11 an activity may report while its worker stops, within the grace period", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const stopping = new Gate();
    const act = activity(
      "act",
      async (_: undefined, { attempt, heartbeat, lastHeartbeat }) => {
        if (attempt > 1) return lastHeartbeat;
        entered.open();
        await stopping.passed;
        heartbeat("half");
        throw new Error("no more");
      },
      { retry: { initialInterval: 1 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], ...LONG });
    const stopped = await engine.worker({ workflows: [], activities: [act], gracePeriod: "1m" });
    const run = await engine.start(w, undefined);
    await entered.passed;
    const stop = stopped.stop();
    stopping.open();
    await stop;
    await engine.worker({ workflows: [], activities: [act], ...LONG });
    expect(await run.result()).toBe("half");
  });

  test("W4 D11 an activity that was given back keeps its lease no longer by reporting", async () => {
    const engine = await engines.open();
    const entered = new Gate<() => void>();
    const act = activity("act", async (_: undefined, { attempt, heartbeat }) => {
      if (attempt > 1) return attempt;
      entered.open(() => heartbeat("still here"));
      return new Promise<number>(() => {});
    });
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], ...LONG });
    const stopped = await engine.worker({ workflows: [], activities: [act], ...LONG });
    const run = await engine.start(w, undefined);
    const report = await entered.passed;
    await stopped.stop();
    report();
    await engine.worker({ workflows: [], activities: [act], ...LONG });
    expect(await run.result()).toBe(2);
  });
});
