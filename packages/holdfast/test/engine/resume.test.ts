// D10: a failed run goes on from where it stopped, by hand or by its own policy.

import { activity, FatalError, RunFailedError, replay, signal, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

/** For what used to wait forever. */
const SOON = { timeout: "8s" } as const;

describe.each(STORES)("resuming on %s", (store) => {
  const engines = enginesOn(store);

  test("D10 resume() goes on at the step that failed: completed steps do not run again, caught failures stay caught", async () => {
    const engine = await engines.open();
    const ran: string[] = [];
    let fixed = false;
    const order = workflow("order", async (ctx) => {
      await ctx.step("reserve", () => void ran.push("reserve"));
      const coupon = await ctx
        .step("coupon", () => {
          ran.push("coupon");
          if (!fixed) throw new FatalError("no coupon");
          return "coupon";
        })
        .catch(() => "none");
      await ctx.step("charge", ({ attempt }) => {
        ran.push(`charge ${attempt}`);
        if (!fixed) throw new FatalError("no money");
      });
      return { coupon, attempt: ctx.run.attempt };
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    fixed = true;
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

  test("D8 D10 what the workflow's own function names is not tried again as a whole", async () => {
    const engine = await engines.open();
    const tried: string[] = [];
    const retry = { maxAttempts: 3, initialInterval: 1, nonRetryable: ({ message }: Error) => message === "never" };
    const order = workflow({ name: "order", retry }, async (_ctx, message: string) => {
      tried.push(message);
      throw new Error(message);
    });
    await engine.worker({ workflows: [order] });
    for (const message of ["never", "again"]) await errorOf((await engine.start(order, message)).result(SOON));
    expect(tried).toEqual(["never", "again", "again", "again"]);
    const refused = errorOf(engine.start(order, "x", { retry: { nonRetryable: () => true } as never }));
    expect(await refused).toMatchObject({ name: "InvalidInputError" });
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

  test("D10 a run is resumed by any worker that serves it, after a crash too", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    let fixed = false;
    const order = workflow("order", async (ctx) => {
      const one = await ctx.step("one", () => 1);
      const two = await ctx.step("two", () => {
        if (!fixed) throw new FatalError("no");
        return 2;
      });
      await ctx.waitForSignal("go");
      return one + two;
    });
    await first.worker({ workflows: [order], ...DOOMED });
    const run = await first.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    fixed = true;
    await run.resume();
    await until(async () => {
      const { status, waitingFor } = await run.describe();
      return status === "sleeping" && waitingFor.includes("signal go"); // before, it waits for a free worker
    });
    wire.cut();
    await engines.expireLeases();
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

  test("D10 resume is refused for runs that have ended otherwise than by failing, and after rollbacks; V3 not for open ones", async () => {
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
    await open.resume();
    const delayed = await engine.start(wait, undefined, { delay: "1h" });
    await delayed.resume();
    expect((await delayed.describe()).status).toBe("pending");
    await open.signal("go", "on");
    expect(await open.result()).toBe("on");
    await expect(open.resume()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
    await expect(engine.run("missing").resume()).rejects.toMatchObject({ name: "RunNotFoundError" });
  });

  test("D10 K7 the advice to resume is given where it helps: not after rollbacks, not after a deadline", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    const fail = () => {
      throw new FatalError("no");
    };
    const plain = workflow("plain", async (ctx) => ctx.step("fails", fail));
    const saga = workflow("saga", async (ctx) => {
      await ctx.step("one", () => 1, { rollback: () => {} });
      await ctx.step("fails", fail);
    });
    const late = workflow({ name: "late", deadline: 20 }, async (ctx) => ctx.sleep("1h"));
    await engine.worker({ workflows: [plain, saga, late] });
    for (const [one, isAdvised] of [
      [plain, true],
      [saga, false],
      [late, false],
    ] as const) {
      const run = await engine.start(one as typeof plain, undefined);
      for (const asked of [run, client.run(run.id)]) {
        const error = await errorOf(asked.result());
        expect(error).toBeInstanceOf(RunFailedError);
        expect([one.name, /run\.resume\(\) continues/.test(error.message)]).toEqual([one.name, isAdvised]);
        if (!isAdvised) expect(error.message).toMatch(/can't be resumed/);
      }
    }
  });

  test("P11 D10 a resumed run that no worker serves is sleeping, and says so", async () => {
    const engine = await engines.open();
    const order = workflow("order", async (ctx) =>
      ctx.step("charge", () => {
        throw new FatalError("no");
      }),
    );
    const worker = await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    await worker.stop();
    await run.resume();
    expect(await run.describe()).toMatchObject({
      status: "sleeping",
      attempt: 2,
      waitingFor: [expect.stringMatching(/no worker.* serves order/)],
    });
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
      return seen.status === "sleeping" && seen.waitingFor.length > 0 && seen;
    });
    wire.cut();
    await engines.expireLeases();
    fail = false;
    expect(info).toMatchObject({ status: "sleeping", attempt: 2, error: { message: "try again" } });
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
    for (const run of [hurried, canceled])
      await until(async () => (await run.describe()).waitingFor.some((one) => one.startsWith("another attempt")));
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
    let fixed = false;
    const gate = new Gate();
    const collect = workflow("collect", async (ctx) => {
      const first = await ctx.waitForSignal("item");
      await ctx.sleep(1);
      await ctx.step("check", async () => {
        await gate.passed;
        if (!fixed) throw new FatalError("no");
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
    fixed = true;
    await run.resume();
    expect(await run.result()).toEqual(["a", "b"]);
  });

  test("D10 D12 resume() asks again for the activity that failed, and its attempts go on", async () => {
    const engine = await engines.open();
    let fixed = false;
    const tried: number[] = [];
    const charge = activity(
      "charge",
      async (amount: number, { attempt }) => {
        tried.push(attempt);
        if (!fixed || attempt === 3) throw new Error("no money");
        return amount;
      },
      { retry: { maxAttempts: 2, initialInterval: 1 } },
    );
    const order = workflow("order", async (ctx) => {
      const first = await ctx.step("first", () => 1);
      return first + (await ctx.activity(charge, 5));
    });
    await engine.worker({ workflows: [order], activities: [charge] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    fixed = true;
    await run.resume();
    expect(await run.result(SOON)).toBe(6);
    expect(tried).toEqual([1, 2, 3, 4]); // it has its two attempts again
    const operation = (await run.operations()).find(({ name }) => name === "charge");
    expect(operation).toMatchObject({ status: "completed", output: 5 });
    expect(operation?.attempts.map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "failed"],
      [3, "failed"],
      [4, "completed"],
    ]);
    await replay(order, JSON.parse(JSON.stringify(await run.history())));
  });

  test("D10 resume() resumes the child that failed, where it stopped, and gets its result", async () => {
    const engine = await engines.open();
    let fixed = false;
    const ran: string[] = [];
    const kid = workflow("kid", async (ctx) => {
      await ctx.step("one", () => void ran.push("one"));
      return ctx.step("two", () => {
        ran.push("two");
        if (!fixed) throw new FatalError("no");
        return 2;
      });
    });
    const order = workflow("order", async (ctx) => ctx.child(kid, undefined, { id: "kid" }));
    await engine.worker({ workflows: [order, kid] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    fixed = true;
    await run.resume();
    expect(await run.result(SOON)).toBe(2);
    expect(ran).toEqual(["one", "two", "two"]);
    expect(await engine.run("kid").describe()).toMatchObject({ status: "completed", execution: 1, attempt: 2 });
  });

  test.each(["abandon", "cancel", "terminate"] as const)(
    "D10 K6 a started child (parentClose %s) that ended while its parent was closed has its result for the resumed parent",
    async (parentClose) => {
      const engine = await engines.open();
      let fixed = false;
      const kid = workflow({ name: "kid", signals: { go: signal<number>() } }, async (ctx) => ctx.waitForSignal("go"));
      const order = workflow("order", async (ctx) => {
        const child = await ctx.startChild(kid, undefined, { id: "kid", parentClose });
        await ctx.step("charge", () => {
          if (!fixed) throw new FatalError("no money");
        });
        return child.result();
      });
      await engine.worker({ workflows: [order, kid] });
      const run = await engine.start(order, undefined);
      await expect(run.result()).rejects.toThrow(RunFailedError);
      if (parentClose === "abandon") {
        await engine.run("kid", kid).signal("go", 7);
        expect(await engine.run("kid").result()).toBe(7);
      } else await expect(engine.run("kid").result()).rejects.toThrow();
      fixed = true;
      await run.resume();
      if (parentClose !== "abandon") {
        // It begins again, and waits again.
        await until(async () => (await engine.run("kid").describe()).execution === 2);
        await engine.run("kid", kid).signal("go", 7);
      }
      expect(await run.result(SOON)).toBe(7);
    },
  );

  test("D10 a run with a retry policy asks again for the activity and the child that failed", async () => {
    const engine = await engines.open();
    const fails = new Set(["act", "kid"]);
    const act = activity("act", async () => (fails.delete("act") ? Promise.reject(new Error("no")) : "act"), { retry: { maxAttempts: 1 } });
    const kid = workflow("kid", async () => {
      if (fails.delete("kid")) throw new Error("no");
      return "kid";
    });
    const retry = { maxAttempts: 2, initialInterval: 5 };
    const first = workflow({ name: "first", retry }, async (ctx) => [await ctx.activity(act, undefined), ctx.run.attempt]);
    const second = workflow({ name: "second", retry }, async (ctx) => [await ctx.child(kid, undefined), ctx.run.attempt]);
    await engine.worker({ workflows: [first, second, kid], activities: [act] });
    expect(await (await engine.start(first, undefined)).result(SOON)).toEqual(["act", 2]);
    expect(await (await engine.start(second, undefined)).result(SOON)).toEqual(["kid", 2]);
  });

  test("M1 D10 a signal that was acknowledged while the failing turn was on its way is there for the resumed run", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const sender = await engines.open();
    let fixed = false;
    let isSent = false;
    const order = workflow({ name: "order", signals: { go: signal<string>() } }, async (ctx) => {
      await ctx.step("charge", () => {
        if (!fixed) throw new FatalError("no money");
      });
      return ctx.waitForSignal("go");
    });
    wire.intercept("commit", async (pass, commits) => {
      const closing = commits.find(({ close }) => close?.status === "failed");
      if (closing !== undefined && !isSent) {
        isSent = true;
        await sender.run(closing.runId, order).signal("go", "hello"); // acknowledged: durable
      }
      return pass(commits);
    });
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    expect(isSent).toBe(true);
    fixed = true;
    await run.resume();
    expect(await run.result(SOON)).toBe("hello");
  });

  test("K1 K3 a cancel reaches a run that waits to be tried again, wherever it failed", async () => {
    const engine = await engines.open();
    const calls: string[] = [];
    const retry = { maxAttempts: 3, initialInterval: "1h" } as const;
    const bug = () => {
      throw new Error("a bug");
    };
    const plain = workflow({ name: "plain", retry }, async () => bug());
    const afterStep = workflow({ name: "afterStep", retry }, async (ctx) => {
      await ctx.step("ok", () => void calls.push("ok"));
      bug();
    });
    const inStep = workflow({ name: "inStep", retry }, async (ctx) => {
      await ctx.step("bad", bug, { retry: { maxAttempts: 1 } });
      await ctx.step("after", () => void calls.push("after"));
    });
    await engine.worker({ workflows: [plain, afterStep, inStep] });
    for (const one of [plain, afterStep, inStep]) {
      const run = await engine.start(one, undefined);
      await until(async () => (await run.describe()).waitingFor.some((what) => what.startsWith("another attempt")));
      await run.cancel("enough");
      const error = await errorOf(run.result(SOON));
      expect([one.name, error.name, error.message]).toEqual([one.name, "CanceledError", expect.stringContaining("enough")]);
      expect((await run.describe()).status).toBe("canceled");
      await replay(one, JSON.parse(JSON.stringify(await run.history())));
    }
    expect(calls).toEqual(["ok"]);
  });
});
