// P9, P11, D12: what can be seen of runs from outside, and their limits.

import { activity, LimitExceededError, RunFailedError, RunNotFoundError, replay, signal, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { enginesOn, errorOf, Gate, STORES, until } from "./engines.ts";

describe.each(STORES)("looking at runs on %s", (store) => {
  const engines = enginesOn(store);
  const echo = workflow("echo", async (_ctx, input: unknown) => input);

  test("P11 the statuses of a run, from its start to its end", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const work = workflow({ name: "work", signals: { go: signal<string>() } }, async (ctx) => {
      await ctx.step("hold", () => held.passed);
      return ctx.waitForSignal("go");
    });
    const run = await engine.start(work, undefined, { id: "r", priority: 3, queue: "q", attributes: { customer: "c1", vip: true } });
    expect(await run.describe()).toMatchObject({
      ...{ id: "r", workflow: "work", version: undefined, status: "pending", queue: "q", priority: 3, execution: 1, attempt: 1 },
      ...{ input: undefined, output: undefined, error: undefined, parentId: undefined, attributes: { customer: "c1", vip: true } },
      ...{ startedAt: undefined, finishedAt: undefined, deadlineAt: undefined, workerId: undefined, historyLength: 0 },
      createdAt: expect.any(Date),
    });
    const worker = await engine.worker({ workflows: [work], queue: "q" });
    await until(async () => (await run.describe()).status === "running");
    expect(await run.describe()).toMatchObject({ workerId: worker.id, startedAt: expect.any(Date) });
    held.open();
    await until(async () => (await run.describe()).status === "sleeping");
    expect(await run.describe()).toMatchObject({ workerId: undefined, waitingFor: ["signal go"], availableAt: undefined });
    await run.signal("go", "on");
    await run.result();
    const info = await run.describe();
    expect(info).toMatchObject({ status: "completed", output: "on", waitingFor: [], finishedAt: expect.any(Date) });
    expect(info.historyLength).toBeGreaterThan(0);
  });

  test("P11 waitingFor says in words what a run waits for", async () => {
    const engine = await engines.open();
    const kid = workflow("kid", async (ctx) => ctx.waitForSignal("never"));
    const wait = workflow("wait", async (ctx) => {
      await Promise.all([
        ctx.sleep("nap", "1h"),
        ctx.sleep("2h"),
        ctx.condition(() => false),
        ctx.waitForSignal("go"),
        ctx.waitForSignal("soon", { timeout: "1h" }),
        ctx.child(kid, undefined),
        ctx.step("flaky", () => Promise.reject(new Error("no")), { retry: { initialInterval: "1h" } }),
      ]);
    });
    await engine.worker({ workflows: [wait, kid] });
    const run = await engine.start(wait, undefined);
    const { waitingFor } = await until(async () => {
      const info = await run.describe();
      return info.status === "sleeping" && info;
    });
    const time = "\\d{4}-\\d\\d-\\d\\dT.*Z";
    const expected = [
      `^step flaky \\(attempt 2 at ${time}\\)$`,
      `^sleep nap until ${time}$`,
      `^sleep until ${time}$`,
      "^condition$",
      "^signal go$",
      `^signal soon until ${time}$`,
      "child.*kid",
    ];
    expect(waitingFor).toHaveLength(expected.length);
    for (const pattern of expected) expect(waitingFor).toContainEqual(expect.stringMatching(new RegExp(pattern)));
  });

  test("P11 a run that a worker has says what its open operations are; one that starts later says when", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const entered = new Gate();
    const rendering = new Gate();
    const render = activity("render", () => {
      rendering.open();
      return held.passed;
    });
    const kid = workflow("kid", async (ctx) => ctx.waitForSignal("never"));
    const busy = workflow({ name: "busy", signals: { approve: signal() } }, async (ctx) => {
      await ctx.step("over", () => {});
      await ctx.join("all", {
        charge: (ctx) =>
          ctx.step(
            "charge",
            ({ attempt }) => {
              if (attempt === 1) throw new Error("no");
              entered.open();
              return held.passed;
            },
            { retry: { initialInterval: 1 } },
          ),
        render: (ctx) => ctx.activity(render, undefined),
        approve: (ctx) => ctx.waitForSignal("approve"),
        kid: (ctx) => ctx.child(kid, undefined, { id: "kid" }),
        nap: (ctx) => ctx.sleep("nap", "1h"),
      });
    });
    await engine.worker({ workflows: [busy, kid], activities: [render] });
    const run = await engine.start(busy, undefined);
    await Promise.all([entered.passed, rendering.passed]);
    const { status, waitingFor } = await run.describe();
    expect(status).toBe("running");
    expect(waitingFor).toEqual([
      "step all/charge/charge (attempt 2)",
      "activity all/render/render",
      "signal all/approve/approve",
      "child all/kid/kid",
      expect.stringMatching(/^sleep all\/nap\/nap until \d{4}-.*Z$/),
    ]);
    held.open();
    await run.terminate();

    const startAt = new Date(Date.now() + 3_600_000);
    const later = await engine.start(echo, 1, { startAt });
    expect((await later.describe()).waitingFor).toEqual([
      `start at ${startAt.toISOString()}`,
      expect.stringMatching(/no worker.* serves echo/),
    ]);
    await engine.worker({ workflows: [echo] });
    expect((await engine.list({ workflow: "echo" })).runs[0]?.waitingFor).toEqual([`start at ${startAt.toISOString()}`]);
  });

  test.each(["terminate", "deadline"] as const)(
    "D12 of a run that has ended (%s) nothing is under way: abandoned, and lost",
    async (how) => {
      const engine = await engines.open({ skips: true });
      const entered = [new Gate(), new Gate(), new Gate()] as const;
      const never = () => new Promise<never>(() => {});
      const act = activity("act", () => {
        entered[0].open();
        return never();
      });
      const busy = workflow("busy", async (ctx) => {
        await ctx.step("over", () => 1);
        await Promise.all([
          ctx.step("first", () => {
            entered[1].open();
            return never();
          }),
          ctx.step(
            "second",
            ({ attempt }) => {
              if (attempt === 1) throw new Error("no");
              entered[2].open();
              return never();
            },
            { retry: { initialInterval: 1 } },
          ),
          ctx.activity(act, undefined),
          ctx.waitForSignal("go"),
          ctx.sleep("nap", "1h"),
        ]);
      });
      await engine.worker({ workflows: [busy], activities: [act], gracePeriod: 0 });
      const run = await engine.start(busy, undefined, how === "deadline" ? { deadline: "10s" } : {});
      await Promise.all(entered.map(({ passed }) => passed));
      expect((await run.operations()).map(({ status }) => status)).toEqual(["completed", "running", "running", "running", "waiting", "waiting"]); // biome-ignore format: one line
      if (how === "terminate") await run.terminate();
      else engines.skip(10_000);
      await errorOf(run.result());
      const { finishedAt } = await run.describe();
      const operations = await run.operations();
      expect(operations.map(({ name, status, attempts }) => [name, status, ...attempts.map((one) => one.status)])).toEqual([
        ["over", "completed", "completed"],
        ["first", "abandoned", "lost"],
        ["second", "abandoned", "failed", "lost"],
        ["act", "abandoned", "lost"],
        ["go", "abandoned"],
        ["nap", "abandoned"],
      ]);
      for (const { endedAt, attempts } of operations.slice(1)) {
        expect(endedAt).toEqual(finishedAt);
        for (const attempt of attempts) expect(attempt.endedAt).toBeInstanceOf(Date);
      }
    },
  );

  test("list: newest first, by every filter", async () => {
    const engine = await engines.open();
    const other = workflow("other", async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [echo, other] });
    const done = await engine.start(echo, 1, { id: "a", attributes: { customer: "c1", n: 1 } });
    await done.result();
    await new Promise((resolve) => setTimeout(resolve, 2));
    const between = new Date();
    await new Promise((resolve) => setTimeout(resolve, 2));
    await engine.start(other, undefined, { id: "b", attributes: { customer: "c1", n: "1" } });
    await engine.start(echo, 3, { id: "c", queue: "unserved" });
    await until(async () => (await engine.run("b").describe()).status === "sleeping");
    const ids = async (filter: Parameters<typeof engine.list>[0]) => (await engine.list(filter)).runs.map(({ id }) => id);
    expect(await ids({})).toEqual(["c", "b", "a"]);
    expect(await ids({ workflow: "echo" })).toEqual(["c", "a"]);
    expect(await ids({ queue: "unserved" })).toEqual(["c"]);
    expect(await ids({ status: "completed" })).toEqual(["a"]);
    expect(await ids({ status: ["pending", "sleeping"] })).toEqual(["c", "b"]);
    expect(await ids({ attributes: { customer: "c1" } })).toEqual(["b", "a"]);
    expect(await ids({ attributes: { customer: "c1", n: 1 } })).toEqual(["a"]);
    expect(await ids({ since: between })).toEqual(["c", "b"]);
    expect(await ids({ until: between })).toEqual(["a"]);
    expect(await ids({ workflow: "nothing" })).toEqual([]);
    expect(await engine.count()).toMatchObject({ pending: 1, sleeping: 1, completed: 1, failed: 0 });
    expect(await engine.count({ workflow: "echo" })).toMatchObject({ pending: 1, sleeping: 0, completed: 1 });
  });

  test("list: cursors go through everything once, whatever is started meanwhile", async () => {
    const engine = await engines.open();
    await engine.startMany(
      echo,
      Array.from({ length: 25 }, (_, n) => ({ input: n, id: `n${n}` })),
    );
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await engine.list({ limit: 10, ...(cursor !== undefined && { cursor }) });
      seen.push(...page.runs.map(({ id }) => id));
      cursor = page.cursor;
      await engine.start(echo, 0, { id: `late${seen.length}` });
    } while (cursor !== undefined);
    // A run that is started meanwhile may be shown, if it has the millisecond that the cursor stands at; never one twice, and none left out.
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => id.startsWith("n"))).toHaveLength(25);
  });

  test("attributes that a run sets can be found; null takes one away", async () => {
    const engine = await engines.open();
    const tag = workflow("tag", async (ctx) => {
      ctx.setAttributes({ phase: "two", first: null, n: 2 });
    });
    await engine.worker({ workflows: [tag] });
    const run = await engine.start(tag, undefined, { attributes: { first: true, kept: "yes" } });
    await run.result();
    expect((await run.describe()).attributes).toEqual({ kept: "yes", phase: "two", n: 2 });
    expect((await engine.list({ attributes: { phase: "two", n: 2 } })).runs).toHaveLength(1);
  });

  test("D12 operations() lists every kind of operation, with the input of activities", async () => {
    const engine = await engines.open();
    const render = activity("render", async (page: number) => page);
    const all = workflow("all", async (ctx) => {
      await ctx.sideEffect(() => 1);
      ctx.patched("p");
      ctx.rollbackCheckpoint("so far");
      ctx.setAttributes({ phase: 1 });
      await ctx.try("risky", async () => 1);
      await ctx.shield(async () => 1);
      await ctx.condition(() => true);
      await ctx.signalRun(ctx.run.id, "go");
      await ctx.activity(render, 7);
      await ctx.cancelRun("missing").catch(() => {});
      await ctx.ivar().wait();
    });
    await engine.worker({ workflows: [all], activities: [render] });
    const run = await engine.start(all);
    const seen = await until(async () => {
      const operations = await run.operations();
      return operations.some(({ kind }) => kind === "ivar") && operations;
    });
    expect(seen.map(({ kind, name, status, input }) => [kind, name, status, input])).toEqual([
      ["sideEffect", "sideEffect", "completed", undefined],
      ["patch", "p", "completed", undefined],
      ["rollbackCheckpoint", "so far", "completed", undefined],
      ["attributes", "attributes", "completed", undefined],
      ["try", "risky", "completed", undefined],
      ["shield", "shield", "completed", undefined],
      ["condition", "condition", "completed", undefined],
      ["signalRun", "go", "completed", undefined],
      ["activity", "render", "completed", 7],
      ["cancelRun", "cancelRun", "failed", undefined],
      ["ivar", "ivar", "waiting", undefined],
    ]);
  });

  test("P11 W6 a run whose message or timer is there waits for a worker, not for that any more", async () => {
    const engine = await engines.open();
    const work = workflow({ name: "work", version: "2", signals: { go: signal() } }, async (ctx) => ctx.waitForSignal("go"));
    const nap = workflow("nap", async (ctx) => ctx.sleep(50));
    const worker = await engine.worker({ workflows: [work, nap] });
    const [run, napping] = [await engine.start(work), await engine.start(nap)];
    await until(async () => (await run.describe()).status === "sleeping");
    await until(async () => (await napping.describe()).status !== "pending");
    await worker.stop();
    await run.signal("go");
    expect(await run.describe()).toMatchObject({ status: "sleeping", waitingFor: ["no worker serves work@2"] });
    const info = await until(async () => {
      const now = await napping.describe();
      return now.status === "completed" || (now.waitingFor[0]?.startsWith("no worker") === true && now);
    });
    if (info !== true) expect(info).toMatchObject({ status: "sleeping", waitingFor: ["no worker serves nap"] });
    const listed = (await engine.list({ workflow: "work" })).runs;
    expect(listed.map(({ waitingFor }) => waitingFor)).toEqual([["no worker serves work@2"]]);
    const elsewhere = await engine.start(work, undefined, { queue: "slow", delay: "1h" });
    expect((await elsewhere.describe()).waitingFor).toEqual([
      expect.stringMatching(/^start at /),
      'no worker serves work@2 in queue "slow"',
    ]);
    await engine.worker({ workflows: [work] });
    await run.result();
  });

  test("P11 D11 of an activity that no worker has taken up it is said that none here serves it, and in which queue", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const render = activity("render", async () => held.passed, { queue: "gpu" });
    const page = workflow("page", async (ctx) => ctx.activity(render));
    await engine.worker({ workflows: [page] });
    const run = await engine.start(page);
    const words = async () => (await run.describe()).waitingFor;
    await until(async () => (await run.describe()).status === "sleeping");
    expect(await words()).toEqual(['activity render (no worker serves it in queue "gpu")']);
    const elsewhere = await engines.open();
    await elsewhere.worker({ workflows: [], activities: [render], queue: "gpu" });
    await until(async () => (await words())[0] === "activity render");
    held.open();
    await run.result();
    expect(await words()).toEqual([]);
  });

  test("P11 M10 a caller whose time is up learns what the run waits for", async () => {
    const engine = await engines.open();
    const work = workflow({ name: "work", signals: { go: signal() } }, async (ctx) => ctx.waitForSignal("go"));
    const unserved = await engine.start(work, undefined, { id: "u" });
    await expect(unserved.result({ timeout: 1 })).rejects.toMatchObject({
      code: "HF_WAIT_TIMEOUT",
      message:
        "The result of run u did not arrive within 1 ms. The run is pending and waits for: no worker serves work. It may still arrive: ask again.",
    });
    await engine.worker({ workflows: [work] });
    await until(async () => (await unserved.describe()).status === "sleeping");
    await expect(unserved.result({ timeout: 1 })).rejects.toThrow("The run is sleeping and waits for: signal go.");
    await expect(engine.run("missing").result({ timeout: 1 })).rejects.toThrow();
  });

  test("D12 describe() tells the last failure while a step, an activity or the run waits for its next attempt", async () => {
    const engine = await engines.open();
    const fails = async (message: string) => Promise.reject(new RangeError(message));
    const retry = { initialInterval: "1h" } as const;
    const act = activity("act", () => fails("of the activity"), { retry });
    const cases = {
      step: workflow("step", async (ctx) => ctx.step("charge", () => fails("of the step"), { retry })),
      activity: workflow("activity", async (ctx) => ctx.activity(act)),
      run: workflow({ name: "run", retry: { maxAttempts: 3, ...retry } }, async () => fails("of the run")),
    };
    await engine.worker({ workflows: Object.values(cases), activities: [act] });
    for (const [kind, one] of Object.entries(cases)) {
      const run = await engine.start(one);
      const info = await until(async () => {
        const now = await run.describe();
        return now.status === "sleeping" && now.error !== undefined && now;
      });
      expect(info.error).toMatchObject({ name: "RangeError", message: `of the ${kind}` });
      expect(info.waitingFor.join()).toMatch({ step: /attempt 2 at/, activity: /attempt 2/, run: /another attempt at/ }[kind] ?? /never/);
    }
  });

  test("an unknown run is a RunNotFoundError, whatever is asked", async () => {
    const engine = await engines.open();
    const run = engine.run("missing");
    for (const ask of [
      () => run.describe(),
      () => run.state(),
      () => run.operations(),
      () => run.history(),
      () => run.query("x"),
      () => run.result(),
    ])
      await expect(ask()).rejects.toThrow(RunNotFoundError);
  });

  test("Y5 history() is portable: as JSON it replays with the code it came from, and not with other code", async () => {
    const engine = await engines.open();
    const make = (name: string) =>
      workflow("order", async (ctx) => {
        const at = await ctx.step(name, () => new Date(0));
        await ctx.sleep(1);
        return [at, ctx.uuid()];
      });
    const order = make("reserve");
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, undefined);
    await run.result();
    const history = JSON.parse(JSON.stringify(await run.history()));
    await replay(order, history);
    await expect(replay(make("charge"), history)).rejects.toMatchObject({ name: "NondeterminismError" });
  });

  test("Y5 history() of a run without a first turn says of which run it is, and replays", async () => {
    const engine = await engines.open();
    const order = workflow({ name: "order", version: "2" }, async (ctx, input: { n: number }) => {
      if (input.n > 1) return ctx.continueAsNew({ n: input.n - 1 });
      return ctx.step("charge", () => input.n);
    });
    const other = workflow("other", async () => {});
    await engine.start(order, { n: 1 }, { id: "new" });
    await engine.start(order, { n: 1 }, { id: "late", delay: "1h" });
    await (await engine.start(order, { n: 1 }, { id: "canceled" })).cancel();
    await (await engine.start(order, { n: 1 }, { id: "ended" })).terminate();
    for (const [id, status] of Object.entries({ new: "pending", late: "pending", canceled: "canceled", ended: "terminated" })) {
      const history = JSON.parse(JSON.stringify(await engine.run(id).history()));
      expect(history).toEqual({
        format: "holdfast-history/1",
        run: { id, workflow: "order", version: "2", input: { n: 1 }, status },
        turns: [],
      });
      await replay(order, history);
      await expect(replay(other, history)).rejects.toThrow(/belongs to workflow "order"/);
      expect(await engine.run(id).operations()).toEqual([]);
    }
  });

  test("P8 inputs, outputs and states of every kind come back as they were", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const value = {
      date: new Date(5),
      map: new Map([["a", new Set([1n])]]),
      none: undefined,
      bytes: new Uint8Array([1, 2]),
      nan: Number.NaN,
    };
    const run = await engine.start(echo, value);
    expect(await run.result()).toEqual(value);
    expect((await run.describe()).input).toEqual(value);
  });
});

describe.each(STORES)("limits on %s", (store) => {
  const engines = enginesOn(store);

  test("P9 an operation whose value is too large fails by the name of the limit, and may be caught", async () => {
    const engine = await engines.open({ limits: { payloadBytes: 1_000 } });
    const large = workflow("large", async (ctx) => {
      const error = await ctx.step("large", () => "x".repeat(2_000)).catch((e: Error) => e.cause as LimitExceededError);
      return error instanceof LimitExceededError ? [error.name, error.limit] : "no error";
    });
    await engine.worker({ workflows: [large] });
    expect(await (await engine.start(large, undefined)).result()).toEqual(["LimitExceededError", "payloadBytes"]);
  });

  test("P9 outputs, signals, updates, activities and children are bounded too", async () => {
    const engine = await engines.open({ limits: { payloadBytes: 1_000 } });
    const output = workflow("output", async () => "x".repeat(2_000));
    await engine.worker({ workflows: [output] });
    const error = await errorOf((await engine.start(output, undefined)).result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect(error.cause).toMatchObject({ name: "LimitExceededError", limit: "payloadBytes" });
    const act = activity("act", () => "x".repeat(2_000));
    const echo = workflow("echo", async (_ctx, text: string) => text.length);
    const both = workflow("both", async (ctx) => {
      const fails = (work: Promise<unknown>) => work.then(() => "no error", (e: Error) => [e.name, (e.cause as Error | undefined)?.name]); // biome-ignore format: one line
      return [await fails(ctx.activity(act, undefined)), await fails(ctx.child(echo, "x".repeat(2_000)))];
    });
    await engine.worker({ workflows: [both, echo], activities: [act] });
    expect(await (await engine.start(both, undefined)).result()).toEqual([
      ["ActivityFailedError", "LimitExceededError"],
      ["LimitExceededError", undefined],
    ]);
    const run = await engine.start(output, undefined, { queue: "unserved" });
    await expect(engine.run(run.id).signal("any", "x".repeat(2_000))).rejects.toThrow(LimitExceededError);
    await expect(engine.run(run.id).update("any", "x".repeat(2_000))).rejects.toThrow(LimitExceededError);
  });

  test("P9 a history that grows too long is warned of, then fails the run", async () => {
    const engine = await engines.open({ limits: { historyWarn: 20, historyMax: 60 } });
    const long = workflow("long", async (ctx) => {
      for (let i = 0; i < 100; i++) await ctx.step("step", () => i);
    });
    await engine.worker({ workflows: [long] });
    const error = await errorOf((await engine.start(long, undefined)).result());
    expect(error.cause).toMatchObject({ name: "LimitExceededError", limit: expect.stringMatching(/^history/) });
    expect(engines.log.filter(({ level, message }) => level === "warn" && /history/i.test(message)).length).toBeGreaterThan(0);
  });
});
