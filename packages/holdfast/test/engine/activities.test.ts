// D11: activities: claims from their queue, heartbeats, timeouts, cancellation.

import { ActivityFailedError, activity, FatalError, RunFailedError, workflow } from "holdfast";
import type { Answer } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { aborted, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("activities on %s", (store) => {
  const engines = enginesOn(store);

  test("D11 an activity on another queue is carried out by the worker that serves it", async () => {
    const host = await engines.open();
    const other = await engines.open();
    const render = activity("render", async (text: string) => `<p>${text}</p>`, { queue: "gpu" });
    const page = workflow("page", async (ctx, text: string) => ctx.activity(render, text));
    await host.worker({ workflows: [page] });
    const run = await host.start(page, "hello");
    await until(async () => (await run.describe()).waitingFor.some((what) => what.includes("render")));
    const gpu = await other.worker({ workflows: [], activities: [render], queue: "gpu" });
    expect(await run.result()).toBe("<p>hello</p>");
    expect(await run.operations()).toMatchObject([
      {
        kind: "activity",
        name: "render",
        status: "completed",
        output: "<p>hello</p>",
        attempts: [{ number: 1, status: "completed", workerId: gpu.id }],
      },
    ]);
  });

  test("D11 the queue of a call goes before that of the definition, and both before the run's own", async () => {
    const engine = await engines.open();
    const seen: string[] = [];
    const act = activity("act", (where: string) => void seen.push(where), { queue: "b" });
    const plain = activity("plain", (where: string) => void seen.push(where));
    const both = workflow("both", async (ctx) => {
      await ctx.activity(act, "call", { queue: "c" });
      await ctx.activity(act, "definition");
      await ctx.activity(plain, "run");
    });
    await engine.worker({ workflows: [both], activities: [plain], queue: "a" });
    await engine.worker({ workflows: [], activities: [act], queue: "b" });
    await engine.worker({ workflows: [], activities: [act], queue: "c" });
    await (await engine.start(both, undefined, { queue: "a" })).result();
    expect(seen).toEqual(["call", "definition", "run"]);
  });

  test("D8 D11 D12 a failed attempt is retried by its policy, with the same idempotency key; all attempts are kept", async () => {
    const engine = await engines.open();
    const keys: string[] = [];
    const act = activity(
      "act",
      (_: undefined, { attempt, idempotencyKey }) => {
        keys.push(idempotencyKey);
        if (attempt < 3) throw new TypeError(`no (${attempt})`);
        return attempt;
      },
      { retry: { initialInterval: 5 } },
    );
    const run1 = workflow("w", async (ctx) => ctx.activity(act, undefined));
    const worker = await engine.worker({ workflows: [run1], activities: [act] });
    const run = await engine.start(run1, undefined, { id: "r" });
    expect(await run.result()).toBe(3);
    expect(keys).toEqual(["r/act", "r/act", "r/act"]);
    const [operation] = await run.operations();
    expect(operation?.attempts).toMatchObject([
      { number: 1, status: "failed", error: { name: "TypeError" }, workerId: worker.id },
      { number: 2, status: "failed", error: { name: "TypeError" }, workerId: worker.id },
      { number: 3, status: "completed", workerId: worker.id },
    ]);
  });

  test("D11 a retry that is claimed before the news of the failure has come back is an attempt like others", async () => {
    const engine = await engines.open();
    const act = activity(
      "act",
      async (_: undefined, { attempt }) => {
        if (attempt < 5) throw new RangeError("not yet");
        return attempt;
      },
      { retry: { maxAttempts: 5, initialInterval: 0, jitter: 0 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act] });
    const runs = await engine.startMany(
      w,
      Array.from({ length: 60 }, () => ({ input: undefined })),
    );
    expect(new Set(await Promise.all(runs.map((run) => run.result())))).toEqual(new Set([5]));
  });

  test("D11 exhaustion throws ActivityFailedError with its cause", async () => {
    const engine = await engines.open();
    const act = activity("act", () => Promise.reject(new RangeError("no")), { retry: { maxAttempts: 2, initialInterval: 1 } });
    const w = workflow("w", async (ctx) => {
      await ctx.activity(act, undefined);
    });
    await engine.worker({ workflows: [w], activities: [act] });
    const error = await errorOf((await engine.start(w, undefined)).result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.cause).toBeInstanceOf(ActivityFailedError);
    expect(error.cause).toMatchObject({ activity: "act", attempts: 2, cause: { name: "RangeError", message: "no" } });
  });

  test.each([
    ["FatalError", () => new FatalError("no"), {}],
    ["what nonRetryable names", () => new RangeError("no"), { nonRetryable: ["RangeError"] }],
    ["what nonRetryable tests", () => new RangeError("no"), { nonRetryable: (error: Error) => error.message === "no" }],
  ])("D8 D11 %s is never retried", async (_, error, retry) => {
    const engine = await engines.open();
    const attempts: number[] = [];
    const act = activity(
      "act",
      (_: undefined, { attempt }) => {
        attempts.push(attempt);
        throw error();
      },
      { retry: { initialInterval: 1, ...retry } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act] });
    await expect((await engine.start(w, undefined)).result()).rejects.toThrow(RunFailedError);
    expect(attempts).toEqual([1]);
  });

  test("D11 an attempt over startToClose is aborted and ended; its late result is dropped, the next attempt counts", async () => {
    const engine = await engines.open();
    const told = new Gate<unknown>();
    const late = new Gate<string>();
    let begun = 0; // an attempt may be over before it has begun
    const act = activity(
      "act",
      async (_: undefined, { signal }) => {
        if (++begun > 1) return "second";
        signal.addEventListener("abort", () => told.open(signal.reason));
        return late.passed;
      },
      { startToClose: 50, retry: { initialInterval: 1 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act], lease: "60ms", gracePeriod: 0 });
    const run = await engine.start(w, undefined);
    expect(await run.result()).toBe("second");
    expect(await told.passed).toBeInstanceOf(Error);
    late.open("first");
    const [operation] = await run.operations();
    expect(operation?.output).toBe("second");
    expect(operation?.attempts[0]).toMatchObject({ status: "failed", error: { name: "StepTimeoutError" } });
  });

  test("D11 a missed heartbeat ends the attempt, and the next one has what was last reported", async () => {
    const engine = await engines.open();
    const act = activity(
      "act",
      async (_: undefined, { heartbeat, lastHeartbeat, signal }) => {
        if (lastHeartbeat !== undefined) return lastHeartbeat;
        heartbeat({ done: 3 });
        return aborted(signal);
      },
      { heartbeat: 100, retry: { initialInterval: 1 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act], lease: "100ms", gracePeriod: 0 });
    expect(await (await engine.start(w, undefined)).result()).toEqual({ done: 3 });
  });

  test("D11 heartbeats keep an attempt alive past its limit", async () => {
    const engine = await engines.open();
    const attempts: number[] = [];
    const act = activity(
      "act",
      async (_: undefined, { attempt, heartbeat }) => {
        attempts.push(attempt);
        const begun = performance.now();
        while (performance.now() - begun < 1_200) {
          heartbeat();
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
        return attempt;
      },
      { heartbeat: 800, retry: { initialInterval: 1 } },
    );
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w], activities: [act] });
    expect(await (await engine.start(w, undefined)).result()).toBe(1);
    expect(attempts).toEqual([1]);
  });

  test("D11 an attempt that its worker hears of when its lease is over, and another has made it, is not begun", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const host = await engines.open();
    const began: number[] = [];
    const act = activity("act", (_: undefined, { attempt }) => began.push(attempt));
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    const claimed = new Gate();
    const ended = new Gate();
    const asked = new Gate();
    wire.intercept("claimTasks", async (pass, request) => {
      const answer = await pass(request);
      if (answer.tasks.length === 0) return answer;
      claimed.open();
      await ended.passed;
      return answer;
    });
    wire.intercept("heartbeat", async (pass, tasks) => {
      const held = await pass(tasks);
      asked.open();
      return held;
    });
    await host.worker({ workflows: [w] });
    await first.worker({ workflows: [], activities: [act], lease: "100ms", gracePeriod: 0 });
    const run = await host.start(w, undefined);
    await claimed.passed;
    await host.worker({ workflows: [], activities: [act] });
    await run.result();
    ended.open();
    await asked.passed;
    expect(began).toEqual([2]);
  });

  test("D11 an activity of a dead worker is attempted by another, and the late answer is dropped", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire, skips: true });
    const host = await engines.open({ skips: true });
    const again = new Gate();
    const second = new Gate<string>();
    const entered = new Gate();
    const late = new Gate<string>();
    const act = activity("act", async (_: undefined, { attempt }) => {
      if (attempt > 1) {
        again.open();
        return second.passed;
      }
      entered.open();
      return late.passed;
    });
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await host.worker({ workflows: [w] });
    const dead = await first.worker({ workflows: [], activities: [act], lease: "30s", gracePeriod: 0 });
    const run = await host.start(w, undefined);
    await entered.passed;
    // It is frozen rather than dead: it neither renews nor claims, but its answer still gets through.
    wire.intercept("heartbeat", async (_pass, tasks) => tasks.map(() => true));
    wire.intercept("claimTasks", async (pass, request) => pass({ ...request, activities: [] }));
    const answered = new Gate<readonly Answer<boolean>[]>();
    wire.intercept("answerTasks", async (pass, answers) => {
      const taken = await pass(answers);
      answered.open(taken);
      return taken;
    });
    const alive = await host.worker({ workflows: [], activities: [act] });
    engines.skip(30_000);
    await again.passed;
    late.open("first"); // while the other attempt runs
    expect(await answered.passed).toEqual([false]);
    second.open("second");
    expect(await run.result()).toBe("second");
    expect((await run.operations())[0]).toMatchObject({
      output: "second",
      attempts: [
        { number: 1, status: "lost", workerId: dead.id },
        { number: 2, status: "completed", workerId: alive.id },
      ],
    });
  });

  test("K1 D11 cancellation of the run reaches the running activity", async () => {
    const engine = await engines.open();
    const other = await engines.open();
    const entered = new Gate();
    const told = new Gate<unknown>();
    const act = activity("act", async (_: undefined, { signal }) => {
      entered.open();
      return aborted(signal).catch((reason) => told.open(reason));
    });
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w] });
    await other.worker({ workflows: [], activities: [act], lease: "60ms" });
    const run = await engine.start(w, undefined);
    await entered.passed;
    await run.cancel();
    expect((await errorOf(run.result())).name).toBe("CanceledError");
    expect(await told.passed).toBeInstanceOf(Error);
  });

  test("C7 D11 an activity that lost a race is aborted and abandoned", async () => {
    const engine = await engines.open();
    const told = new Gate<unknown>();
    const entered = new Gate();
    const act = activity("act", async (_: undefined, { signal }) => {
      entered.open();
      return aborted(signal).catch((reason) => told.open(reason));
    });
    const w = workflow("w", async (ctx) => {
      const { winner } = await ctx.race("first", { act: (ctx) => ctx.activity(act, undefined), go: (ctx) => ctx.waitForSignal("go") });
      return winner;
    });
    await engine.worker({ workflows: [w], activities: [act], lease: "60ms" });
    const run = await engine.start(w, undefined);
    await entered.passed;
    await run.signal("go");
    expect(await run.result()).toBe("go");
    await told.passed;
    expect((await run.operations()).find(({ name }) => name === "act")?.status).toBe("canceled");
  });

  test("D11 scheduleToStart: an activity that no worker takes fails in time", async () => {
    const engine = await engines.open();
    const act = activity("act", () => 1, { queue: "unserved", scheduleToStart: 30 });
    const w = workflow("w", async (ctx) => ctx.activity(act, undefined));
    await engine.worker({ workflows: [w] });
    const error = await errorOf((await engine.start(w, undefined)).result());
    expect(error.cause).toMatchObject({ name: "ActivityFailedError", cause: { name: "StepTimeoutError" } });
  });

  test("D11 scheduleToClose bounds all attempts together", async () => {
    const engine = await engines.open();
    const act = activity("act", () => Promise.reject(new Error("no")), {
      scheduleToClose: 100,
      retry: { initialInterval: 20, backoff: 1 },
    });
    const w = workflow("w", async (ctx) => {
      await ctx.activity(act, undefined);
    });
    await engine.worker({ workflows: [w], activities: [act] });
    const error = await errorOf((await engine.start(w, undefined)).result());
    expect(error.cause).toBeInstanceOf(ActivityFailedError);
  });

  test("W1 a worker takes no more activities at once than it has room for", async () => {
    const engine = await engines.open();
    let now = 0;
    let most = 0;
    const act = activity("act", async () => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setTimeout(resolve, 2));
      now--;
    });
    const w = workflow("w", async (ctx) => {
      await Promise.all(Array.from({ length: 12 }, () => ctx.activity(act, undefined)));
    });
    await engine.worker({ workflows: [w], activities: [act], activityConcurrency: 3 });
    await (await engine.start(w, undefined)).result();
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(3);
  });

  test("D11 P8 arguments and results cross the codec", async () => {
    const engine = await engines.open();
    const act = activity("act", (when: Date) => new Map([["year", when.getUTCFullYear()]]));
    const w = workflow("w", async (ctx) => ctx.activity(act, new Date(0)));
    await engine.worker({ workflows: [w], activities: [act] });
    expect(await (await engine.start(w, undefined)).result()).toEqual(new Map([["year", 1970]]));
  });
});
