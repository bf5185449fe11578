// D10: a failed run goes on from where it stopped, by hand or by its own policy.

import { FatalError, RunFailedError, signal, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("resuming on %s", (store) => {
  const engines = enginesOn(store);

  test("D10 resume() goes on at the step that failed: completed steps do not run again, caught failures stay caught", async () => {
    const engine = await engines.open();
    const ran: string[] = [];
    let mended = false;
    const order = workflow("order", async (ctx) => {
      await ctx.step("reserve", () => void ran.push("reserve"));
      const coupon = await ctx
        .step("coupon", () => {
          ran.push("coupon");
          if (!mended) throw new FatalError("no coupon");
          return "coupon";
        })
        .catch(() => "none");
      await ctx.step("charge", ({ attempt }) => {
        ran.push(`charge ${attempt}`);
        if (!mended) throw new FatalError("no money");
      });
      return { coupon, attempt: ctx.run.attempt };
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    mended = true;
    await run.resume();
    expect(await run.result()).toEqual({ coupon: "none", attempt: 2 });
    expect(ran).toEqual(["reserve", "coupon", "charge 1", "charge 2"]);
    const info = await run.describe();
    expect(info).toMatchObject({ status: "completed", attempt: 2, error: undefined });
    const charge = (await run.operations()).find(({ name }) => name === "charge");
    expect(charge).toMatchObject({ status: "completed" });
    expect(charge?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "completed"],
    ]);
  });

  test("D10 a resumed step has its attempts again", async () => {
    const engine = await engines.open();
    const tried: number[] = [];
    let last = 2;
    const order = workflow("order", async (ctx) =>
      ctx.step(
        "charge",
        ({ attempt }) => {
          tried.push(attempt);
          if (attempt <= last) throw new Error("no money");
          return attempt;
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    last = 3;
    await run.resume();
    expect(await run.result()).toBe(4);
    expect(tried).toEqual([1, 2, 3, 4]);
  });

  test("D10 a run is resumed by whoever serves it, after a crash too", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    let mended = false;
    const order = workflow("order", async (ctx) => {
      const one = await ctx.step("one", () => 1);
      const two = await ctx.step("two", () => {
        if (!mended) throw new FatalError("no");
        return 2;
      });
      await ctx.waitForSignal("go");
      return one + two;
    });
    await first.worker({ workflows: [order], ...DOOMED });
    const run = await first.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    mended = true;
    await run.resume();
    await until(async () => (await run.describe()).status === "sleeping" && (await run.describe()).waitingFor.length > 0);
    wire.cut();
    const second = await engines.open();
    await second.worker({ workflows: [order] });
    const found = second.run(run.id, order);
    await found.signal("go");
    expect(await found.result()).toBe(3);
  });

  test("D10 a run that threw outside of any step is tried again at that place", async () => {
    const engine = await engines.open();
    let throws = true;
    let steps = 0;
    const order = workflow("order", async (ctx) => {
      await ctx.step("one", () => void steps++);
      if (throws) throw new Error("a bug");
      return "ok";
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(/a bug/);
    throws = false;
    await run.resume();
    expect(await run.result()).toBe("ok");
    expect(steps).toBe(1);
  });

  test("D10 resume is refused for runs that have not failed, and after rollbacks", async () => {
    const engine = await engines.open();
    const saga = workflow("saga", async (ctx) => {
      await ctx.step("one", () => 1, { rollback: () => {} });
      await ctx.step("two", () => {
        throw new FatalError("no");
      });
    });
    const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [saga, wait] });
    const undone = await engine.start(saga, undefined);
    await expect(undone.result()).rejects.toThrow(RunFailedError);
    await expect(undone.resume()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
    const open = await engine.start(wait, undefined);
    await expect(open.resume()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
    await open.signal("go", "on");
    expect(await open.result()).toBe("on");
    await expect(open.resume()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
    await expect(engine.run("nobody").resume()).rejects.toMatchObject({ name: "RunNotFoundError" });
  });

  test("D10 a run with a retry policy goes on by itself; completed steps do not run again", async () => {
    const engine = await engines.open();
    const ran: string[] = [];
    const order = workflow({ name: "order", retry: { maxAttempts: 3, initialInterval: 20 } }, async (ctx) => {
      await ctx.step("reserve", () => void ran.push("reserve"));
      await ctx.step(
        "charge",
        () => {
          ran.push("charge");
          if (ran.length < 4) throw new Error("no money");
        },
        { retry: { maxAttempts: 1 } },
      );
      return ctx.run.attempt;
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    expect(await run.result()).toBe(3);
    expect(ran).toEqual(["reserve", "charge", "charge", "charge"]);
    expect((await run.describe()).attempt).toBe(3);
  });

  test("D8 D10 the retry of a run is a durable timer: the run says so, and another engine goes on", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const second = await engines.open();
    let fail = true;
    const order = workflow("order", async (ctx) => {
      if (fail) throw new Error("try again");
      await ctx.sleep(1);
      return ctx.run.attempt;
    });
    await first.worker({ workflows: [order], ...DOOMED });
    const run = await first.start(order, undefined, { retry: { maxAttempts: 2, initialInterval: 600, jitter: 0 } });
    const info = await until(async () => {
      const seen = await run.describe();
      return seen.waitingFor.length > 0 && seen;
    });
    wire.cut();
    fail = false;
    expect(info).toMatchObject({ status: "sleeping", attempt: 2, error: undefined });
    expect(info.waitingFor).toEqual([expect.stringMatching(/^another attempt at \d{4}-.*Z$/)]);
    await second.worker({ workflows: [order] });
    expect(await second.run(run.id).result()).toBe(2);
  });

  test("D10 a message does not hurry a run that waits for its next attempt, and a cancel does not wait for it", async () => {
    const engine = await engines.open();
    const fails = new Set(["hurried", "canceled"]);
    const retry = { maxAttempts: 2, initialInterval: 600, jitter: 0 };
    const order = workflow({ name: "order", retry, signals: { go: signal<number>() } }, async (ctx) => {
      if (fails.delete(ctx.run.id)) throw new Error("try again");
      return ctx.waitForSignal("go");
    });
    await engine.worker({ workflows: [order] });
    const hurried = await engine.start(order, undefined, { id: "hurried" });
    const canceled = await engine.start(order, undefined, { id: "canceled", retry: { maxAttempts: 2, initialInterval: "1h" } });
    for (const run of [hurried, canceled]) await until(async () => (await run.describe()).waitingFor.length > 0);
    await hurried.signal("go", 1);
    await canceled.cancel();
    expect((await errorOf(canceled.result())).name).toBe("CanceledError");
    expect(await hurried.result()).toBe(1);
    const [first, second] = (await hurried.history()).turns as { time: number }[];
    expect(second?.time).toBeGreaterThanOrEqual((first?.time ?? Number.NaN) + 600);
  });

  test("D8 a run is not tried again after a FatalError, nor what its policy names", async () => {
    const engine = await engines.open();
    const order = workflow("order", async (_ctx, fatal: boolean) => {
      throw fatal ? new FatalError("no money") : new RangeError("no money");
    });
    await engine.worker({ workflows: [order] });
    const retry = { maxAttempts: 5, initialInterval: 1, nonRetryable: ["RangeError"] };
    for (const fatal of [true, false]) {
      const run = await engine.start(order, fatal, { retry });
      await expect(run.result()).rejects.toThrow(RunFailedError);
      expect((await run.describe()).attempt).toBe(1);
    }
  });

  test("D10 a run retry uses up its attempts, then the run has failed", async () => {
    const engine = await engines.open();
    let tries = 0;
    const order = workflow({ name: "order", retry: { maxAttempts: 3, initialInterval: 1 } }, async () => {
      tries++;
      throw new Error(`no (${tries})`);
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    expect(await run.describe()).toMatchObject({ status: "failed", attempt: 3 });
  });

  test("D10 messages and waits of before the failure are not taken a second time", async () => {
    const engine = await engines.open();
    let mended = false;
    const gate = new Gate();
    const collect = workflow("collect", async (ctx) => {
      const first = await ctx.waitForSignal("item");
      await ctx.sleep(1);
      await ctx.step("check", async () => {
        await gate.passed;
        if (!mended) throw new FatalError("no");
      });
      const second = await ctx.waitForSignal("item");
      return [first, second];
    });
    await engine.worker({ workflows: [collect] });
    const run = await engine.start(collect, undefined);
    await run.signal("item", "a");
    await run.signal("item", "b");
    gate.open();
    await expect(run.result()).rejects.toThrow(RunFailedError);
    mended = true;
    await run.resume();
    expect(await run.result()).toEqual(["a", "b"]);
  });
});
