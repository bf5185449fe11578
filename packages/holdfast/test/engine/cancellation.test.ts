// K1–K3, K6–K9: cancel, terminate, deadlines.

import { CanceledError, DeadlineExceededError, Receive, RunFailedError, RunTerminatedError, update, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { aborted, DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("cancellation on %s", (store) => {
  const engines = enginesOn(store);

  test("K1 it reaches every unit: pending operations throw, ctx.signal and the signals of running steps abort", async () => {
    const engine = await engines.open();
    const told = new Gate<unknown>();
    const entered = new Gate();
    const seen = new Set<string>();
    const busy = workflow("busy", async (ctx) => {
      await ctx.parallel([
        (ctx) =>
          ctx
            .step("work", async ({ signal }) => {
              signal.addEventListener("abort", () => told.open(signal.reason));
              entered.open();
              return aborted(signal);
            })
            .catch((error: Error) => void seen.add(`step ${error.name}`)),
        (ctx) => ctx.sleep("1h").catch((error: Error) => void seen.add(`sleep ${error.name} ${ctx.signal.aborted}`)),
        (ctx) => ctx.waitForSignal("go").catch((error: Error) => void seen.add(`signal ${error.name}`)),
      ]);
    });
    await engine.worker({ workflows: [busy] });
    const run = await engine.start(busy, undefined);
    await entered.passed;
    await run.cancel("enough");
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(CanceledError);
    expect(error.message).toMatch(/^canceled: enough\n/);
    expect(await told.passed).toBeInstanceOf(Error);
    expect([...seen]).toEqual(["step CanceledError", "sleep CanceledError true", "signal CanceledError"]);
    expect((await run.describe()).status).toBe("canceled");
  });

  test("K1 it is durable: acknowledged, it survives the death of the worker", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const client = await engines.open();
    const entered = new Gate();
    const work = workflow("work", async (ctx) =>
      ctx.step("work", () => {
        entered.open();
        return new Promise(() => {});
      }),
    );
    await first.worker({ workflows: [work], ...DOOMED });
    const run = await client.start(work, undefined);
    await entered.passed;
    wire.cut();
    await run.cancel();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [work] });
    await expect(run.result()).rejects.toThrow(CanceledError);
  });

  test("K2 new pausing operations throw at once, except in a shield; calls that don't pause still work", async () => {
    const engine = await engines.open();
    const ran: string[] = [];
    const thrown = new Set<string>();
    const tidy = workflow("tidy", async (ctx) => {
      try {
        await ctx.waitForSignal("go");
      } finally {
        ctx.publishState("tidying");
        await ctx.step("outside", () => void ran.push("outside")).catch((error: Error) => void thrown.add(error.name));
        await ctx.shield(async (ctx) => {
          await ctx.sleep(1);
          await ctx.step("inside", () => void ran.push("inside"));
        });
      }
    });
    await engine.worker({ workflows: [tidy] });
    const run = await engine.start(tidy, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    await run.cancel();
    await expect(run.result()).rejects.toThrow(CanceledError);
    expect([...thrown]).toEqual(["CanceledError"]);
    expect(ran).toEqual(["inside"]);
    expect(await run.state()).toBe("tidying");
  });

  test("K3 a run that cancellation reached ends canceled with what it returned; a cooperative one is completed", async () => {
    const engine = await engines.open();
    const make = (name: string, cancellation: "enforced" | "cooperative") =>
      workflow({ name, cancellation }, async (ctx) => ctx.sleep("1h").then(() => "slept", () => "caught")); // biome-ignore format: one line
    const [enforced, cooperative] = [make("enforced", "enforced"), make("cooperative", "cooperative")];
    await engine.worker({ workflows: [enforced, cooperative] });
    const runs = await Promise.all([engine.start(enforced, undefined), engine.start(cooperative, undefined)]);
    await until(async () => (await engine.count()).sleeping === 2);
    for (const run of runs) await run.cancel();
    await expect(runs[0].result()).rejects.toThrow(CanceledError);
    expect(await runs[0].describe()).toMatchObject({ status: "canceled", output: "caught" });
    expect(await runs[1].result()).toBe("caught");
  });

  test("K3 a CanceledError without a cancel request is a failure", async () => {
    const engine = await engines.open();
    const odd = workflow("odd", async () => {
      throw new CanceledError("by myself");
    });
    await engine.worker({ workflows: [odd] });
    const run = await engine.start(odd, undefined);
    await expect(run.result()).rejects.toThrow(RunFailedError);
    expect((await run.describe()).status).toBe("failed");
  });

  test.each([
    ["another error", () => new Error("cleanup failed")],
    ["its own cancellation", () => new CanceledError("mine")],
  ])("K1 the reason of a cancellation is reported though the workflow throws %s", async (_, thrown) => {
    const engine = await engines.open();
    const messy = workflow("messy", async (ctx) => ctx.sleep("1d").catch(() => Promise.reject(thrown())));
    await engine.worker({ workflows: [messy] });
    const run = await engine.start(messy, undefined);
    await run.cancel("enough");
    const cause = { name: thrown().name, message: thrown().message };
    expect(await errorOf(run.result())).toMatchObject({ name: "CanceledError", reason: "enough", cause });
    expect((await run.describe()).error).toMatchObject({ name: "CanceledError", cause });
  });

  test("K9 a run without a first turn is canceled at once, without a worker", async () => {
    const engine = await engines.open();
    const never = workflow("never", async () => "ran");
    const [plain, delayed] = [await engine.start(never, undefined), await engine.start(never, undefined, { delay: "1d" })];
    for (const run of [plain, delayed]) {
      await run.cancel("no need");
      expect(await errorOf(run.result())).toMatchObject({
        name: "CanceledError",
        reason: "no need",
        message: expect.stringContaining("canceled: no need"),
      });
      expect(await run.describe()).toMatchObject({ status: "canceled", startedAt: undefined });
    }
  });

  test("K4 a receive closes under cancellation: handlers in flight are cancelled and joined, then it throws", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const told = new Gate<unknown>();
    const seen = new Set<string>();
    const entity = workflow({ name: "entity", updates: { work: update<void, string>() } }, async (ctx) => {
      try {
        await ctx.receive(0, {
          updates: {
            work: (_, state) =>
              Receive.async(async (ctx) => {
                try {
                  return await ctx.step("work", async ({ signal }) => {
                    signal.addEventListener("abort", () => told.open(signal.reason));
                    entered.open();
                    return aborted(signal);
                  });
                } finally {
                  seen.add("handler");
                }
              }, state),
          },
        });
      } catch (error) {
        seen.add(`receive ${(error as Error).name}`);
        throw error;
      }
    });
    await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, undefined);
    const caller = errorOf(run.update("work"));
    await entered.passed;
    await run.cancel();
    await expect(run.result()).rejects.toThrow(CanceledError);
    await told.passed;
    expect([...seen]).toEqual(["handler", "receive CanceledError"]);
    expect((await caller).name).toBe("CanceledError");
  });

  test("K6 terminate ends a run at once, running no workflow code; its steps are notified", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const told = new Gate<unknown>();
    let cleaned = false;
    const work = workflow("work", async (ctx) => {
      try {
        await ctx.step("work", async ({ signal }) => {
          signal.addEventListener("abort", () => told.open(signal.reason));
          entered.open();
          return aborted(signal);
        });
      } finally {
        cleaned = true;
      }
    });
    await engine.worker({ workflows: [work], lease: "90ms" });
    const run = await engine.start(work, undefined);
    await entered.passed;
    await run.terminate("enough");
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunTerminatedError);
    expect(error.message).toMatch(/enough/);
    await told.passed;
    expect(cleaned).toBe(false);
    expect(await run.describe()).toMatchObject({ status: "terminated", finishedAt: expect.any(Date) });
  });

  test("K6 terminate needs no worker: a run that never began is ended too", async () => {
    const engine = await engines.open();
    const never = workflow("never", async () => "ran");
    const run = await engine.start(never, undefined);
    await run.terminate();
    await expect(run.result()).rejects.toThrow(RunTerminatedError);
  });

  test("K7 a deadline fails the run, and tells its steps", async () => {
    const engine = await engines.open({ skips: true });
    const entered = new Gate();
    const told = new Gate<unknown>();
    const work = workflow("work", async (ctx) =>
      ctx.step("work", async ({ signal }) => {
        signal.addEventListener("abort", () => told.open(signal.reason));
        entered.open();
        return aborted(signal);
      }),
    );
    await engine.worker({ workflows: [work] });
    const run = await engine.start(work, undefined, { deadline: "10s" });
    await entered.passed;
    engines.skip(10_000); // its lease lasts longer
    const error = await errorOf(run.result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    await told.passed;
    const info = await run.describe();
    expect(info.finishedAt?.getTime()).toBeGreaterThanOrEqual(info.deadlineAt?.getTime() ?? Number.NaN);
    await expect(run.resume()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
  });

  test("K7 a deadline strikes with no worker at all, as long as an engine is open", async () => {
    const engine = await engines.open();
    const never = workflow({ name: "never", deadline: 30 }, async () => "ran");
    const run = await engine.start(never, undefined);
    const error = await errorOf(run.result());
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    const dated = await engine.start(never, undefined, { deadline: new Date(Date.now() + 20) });
    expect((await errorOf(dated.result())).cause).toBeInstanceOf(DeadlineExceededError);
  });

  test("K7 it runs no workflow function but due rollbacks", async () => {
    const engine = await engines.open({ skips: true });
    const ran: string[] = [];
    const saga = workflow("saga", async (ctx) => {
      await ctx.step("reserve", () => "room", { rollback: (room) => void ran.push(`release ${room}`) });
      try {
        await ctx.sleep("1h");
      } catch {
        ran.push("caught");
      } finally {
        ran.push("finally");
      }
    });
    await engine.worker({ workflows: [saga] });
    const run = await engine.start(saga, undefined, { deadline: "10s" });
    await until(async () => (await run.describe()).status === "sleeping");
    engines.skip(10_000);
    const error = await errorOf(run.result());
    expect(error.cause).toBeInstanceOf(DeadlineExceededError);
    expect(ran).toEqual(["release room"]);
    expect((await run.describe()).status).toBe("failed");
  });

  test("K7 a retry due after the deadline fails the run now, and no run retry follows", async () => {
    const engine = await engines.open();
    let tries = 0;
    const work = workflow({ name: "work", retry: { maxAttempts: 5, initialInterval: 1 } }, async (ctx) =>
      ctx.step(
        "work",
        () => {
          tries++;
          throw new Error("no");
        },
        { retry: { initialInterval: "1h" } },
      ),
    );
    await engine.worker({ workflows: [work] });
    const run = await engine.start(work, undefined, { deadline: "30m" });
    await expect(run.result({ timeout: "5s" })).rejects.toThrow(RunFailedError);
    expect((await errorOf(run.result())).cause).toBeInstanceOf(DeadlineExceededError);
    expect(tries).toBe(1);
    expect((await run.describe()).status).toBe("failed");
    const again = workflow({ name: "again", retry: { maxAttempts: 5, initialInterval: "1h" } }, async () => {
      throw new Error("no");
    });
    await engine.worker({ workflows: [again] });
    const failed = await engine.start(again, undefined, { deadline: "30m" });
    expect((await errorOf(failed.result({ timeout: "5s" }))).cause).toMatchObject({ message: "no" });
  });

  test("K8 sleeps survive restarts, fire once and never early", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const woke: number[] = [];
    const nap = workflow("nap", async (ctx) => {
      const began = ctx.now().getTime();
      await ctx.sleep(300);
      await ctx.step("wake", () => void woke.push(1));
      const until = ctx.now().getTime() + 20;
      await ctx.sleepUntil(new Date(until));
      return { slept: ctx.now().getTime() - began, late: ctx.now().getTime() - until };
    });
    await first.worker({ workflows: [nap], ...DOOMED });
    const run = await first.start(nap, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    wire.cut();
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [nap] });
    const { slept, late } = await second.run(run.id, nap).result();
    expect(slept).toBeGreaterThanOrEqual(320);
    expect(late).toBeGreaterThanOrEqual(0);
    expect(woke).toEqual([1]);
  });
});
