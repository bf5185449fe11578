// testEngine: time that skips, stand-ins, and the replay of everything at the end.

import { pbkdf2 } from "node:crypto";
import { createServer } from "node:http";
import { mock } from "node:test";
import {
  activity,
  FatalError,
  InvalidInputError,
  NondeterminismError,
  Receive,
  RunBlockedError,
  RunFailedError,
  RunNotFoundError,
  signal,
  update,
  workflow,
} from "holdfast";
import { testEngine } from "holdfast/testing";
import { afterEach, describe, expect, test, vi } from "vitest";

test("K8 a sleep of 30 days takes no time", async () => {
  const nap = workflow("nap", async (ctx) => {
    const began = ctx.now();
    await ctx.sleep("30d");
    return ctx.now().getTime() - began.getTime();
  });
  const engine = await testEngine({ workflows: [nap] });
  const run = await engine.start(nap, undefined);
  expect(await run.result()).toBe(30 * 86_400_000);
  await engine.close();
});

test("the clock starts at startTime, and everything is on it", async () => {
  const startTime = new Date("2030-05-01T12:00:00Z");
  const nap = workflow("nap", async (ctx) => {
    await ctx.sleep("1h");
    return [ctx.run.startedAt, ctx.now()];
  });
  await using engine = await testEngine({ workflows: [nap], startTime });
  expect(engine.now()).toEqual(startTime);
  const run = await engine.start(nap, undefined);
  expect(await run.result()).toEqual([startTime, new Date("2030-05-01T13:00:00Z")]);
  expect((await run.describe()).finishedAt).toEqual(engine.now());
});

test("D8 retries, run retries, timeouts of waits and deadlines are skipped to as well", async () => {
  let tries = 0;
  const flaky = workflow({ name: "flaky", retry: { maxAttempts: 2, initialInterval: "1d" } }, async (ctx) =>
    ctx.step(
      "flaky",
      () => {
        if (++tries < 8) throw new Error("no");
        return tries;
      },
      { retry: { maxAttempts: 5, initialInterval: "1h" } },
    ),
  );
  const wait = workflow("wait", async (ctx) => ctx.waitForSignal("go", { timeout: "7d" }));
  const late = workflow({ name: "late", deadline: "2d", signals: { go: signal() } }, async (ctx) => {
    await ctx.waitForSignal("go");
  });
  const engine = await testEngine({ workflows: [flaky, wait, late] });
  const runs = [await engine.start(flaky, undefined), await engine.start(wait, undefined)] as const;
  expect(await runs[0].result()).toBe(8);
  expect(await runs[1].result()).toEqual({ timedOut: true });
  await expect((await engine.start(late, undefined)).result()).rejects.toThrow(/deadline/);
  await engine.close();
});

test("D11 activities run, are retried and time out in skipped time", async () => {
  const act = activity(
    "act",
    async (_: undefined, { attempt }) => {
      if (attempt < 3) throw new Error("no");
      return attempt;
    },
    { retry: { initialInterval: "1h" } },
  );
  const unserved = activity("unserved", () => 1, { queue: "unserved", scheduleToStart: "1d" });
  const both = workflow("both", async (ctx) => [
    await ctx.activity(act, undefined),
    await ctx.activity(unserved, undefined).catch((error: Error) => error.name),
  ]);
  const engine = await testEngine({ workflows: [both], activities: [act] });
  expect(await (await engine.start(both, undefined)).result()).toEqual([3, "ActivityFailedError"]);
  await engine.close();
});

test("steps and activities have stand-ins by name", async () => {
  const charge = activity("charge", async (_: { amount: number }): Promise<string> => {
    throw new FatalError("the real one");
  });
  const order = workflow("order", async (ctx) => {
    const reserved = await ctx.step("reserve", (): string => {
      throw new FatalError("the real one");
    });
    return [reserved, await ctx.activity(charge, { amount: 5 })];
  });
  const engine = await testEngine({
    workflows: [order],
    activities: [charge],
    replace: {
      steps: { reserve: ({ attempt }) => `reserved at ${attempt}` },
      activities: { charge: ({ amount }, { attempt }) => `charged ${amount} at ${attempt}` },
    },
  });
  expect(await (await engine.start(order, undefined)).result()).toEqual(["reserved at 1", "charged 5 at 1"]);
  await engine.close();
});

test("advance lets time pass: what is due within it happens, in order, and no more", async () => {
  const ticks: string[] = [];
  const tick = workflow("tick", async (ctx, name: string) => {
    for (let i = 1; i <= 3; i++) {
      await ctx.sleep(name === "hourly" ? "1h" : "90m");
      await ctx.step("tick", () => void ticks.push(`${name} ${i}`));
    }
  });
  const engine = await testEngine({ workflows: [tick], skipTime: false });
  const began = engine.now().getTime();
  const [hourly, other] = [await engine.start(tick, "hourly"), await engine.start(tick, "other")];
  await engine.advance("59m");
  expect(ticks).toEqual([]);
  await engine.advance("61m");
  expect(ticks).toEqual(["hourly 1", "other 1", "hourly 2"]);
  expect(engine.now().getTime() - began).toBe(2 * 3_600_000);
  await engine.advance("1d");
  expect(ticks).toHaveLength(6);
  await Promise.all([hourly.result(), other.result()]);
  await engine.close();
});

test("without skipTime nothing happens by itself", async () => {
  const nap = workflow("nap", async (ctx) => ctx.sleep("1h"));
  const engine = await testEngine({ workflows: [nap], skipTime: false });
  const run = await engine.start(nap, undefined);
  await expect(run.result({ signal: AbortSignal.timeout(50) })).rejects.toThrow();
  expect((await run.describe()).status).toBe("sleeping");
  await engine.advance("1h");
  await run.result();
  await engine.close();
});

test("time does not skip while a test only sends and looks", async () => {
  const entity = workflow({ name: "entity", updates: { add: update<number, number>() } }, async (ctx) => {
    const { timedOut } = await ctx.receive(0, { updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) }, timeout: "1h" });
    return timedOut;
  });
  const engine = await testEngine({ workflows: [entity] });
  const run = await engine.start(entity, undefined);
  expect(await run.update("add", 1)).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await run.update("add", 2)).toBe(3);
  expect((await run.describe()).status).not.toBe("completed");
  expect(await run.result()).toBe(true);
  await engine.close();
});

test("R9 Y5 a run that failed because it changed a state in place replays: closing says nothing more", async () => {
  const hasty = workflow("hasty", (ctx) =>
    ctx.receive({ items: [1] }, { signals: { add: (_payload, state) => Receive.stop(mutated(state)) } }),
  );
  const mutated = (state: { items: number[] }): typeof state => {
    state.items.push(2);
    return state;
  };
  const engine = await testEngine({ workflows: [hasty] });
  const run = await engine.start(hasty, undefined, { signals: [{ name: "add" }] });
  await expect(run.result()).rejects.toMatchObject({ cause: { name: "TypeError" } });
  await engine.close();
});

test("Y5 closing replays every history and fails on a workflow that is not deterministic", async () => {
  let draws = 0;
  const dice = workflow("dice", async (ctx) => {
    const name = ++draws % 2 === 1 ? "odd" : "even"; // depends on something that is not recorded
    await ctx.step(name, () => {});
  });
  const engine = await testEngine({ workflows: [dice] });
  const run = await engine.start(dice, undefined, { id: "r" });
  await run.result();
  const error = await engine.close().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(NondeterminismError);
  expect(error).toMatchObject({ location: "odd", message: expect.stringContaining("history of run r does not replay") });
});

test("a stand-in for an activity needs no activity", async () => {
  const charge = activity("charge", async (cents: number) => `charged ${cents}`, { queue: "payments" });
  const order = workflow("order", (ctx) => ctx.activity(charge, 5));
  await using engine = await testEngine({
    workflows: [order],
    replace: { activities: { charge: (cents: number) => `pretended ${cents}` } },
  });
  expect(await (await engine.start(order)).result()).toBe("pretended 5");
});

test("options that are missing, or something else, are refused by name", async () => {
  for (const [options, named] of [
    [undefined, /testEngine: workflows: Expected a list of workflows/],
    [{ workflows: {} }, /testEngine: workflows: Expected a list of workflows/],
    [{ workflows: [], replace: { steps: { pay: 5 } } }, /testEngine: steps\.pay: A stand-in must be a function/],
    [{ workflows: [], replace: { activities: 5 } }, /testEngine: The options must be an object/],
  ] as const)
    await expect(testEngine(options as never), JSON.stringify(options)).rejects.toThrow(named);
});

test("Y5 open runs are replayed too, and failed ones; closing again is fine", async () => {
  const wait = workflow("wait", async (ctx) => {
    await ctx.step("one", () => 1);
    await ctx.waitForSignal("go");
  });
  const bad = workflow("bad", async (ctx) => {
    await ctx.step("one", () => 1, { rollback: () => {} });
    throw new Error("no");
  });
  const engine = await testEngine({ workflows: [wait, bad], skipTime: false });
  await engine.start(wait, undefined);
  await expect((await engine.start(bad, undefined)).result()).rejects.toThrow(RunFailedError);
  await engine.advance(1);
  await engine.close();
  await engine.close();
});

test('X8 determinism is "error": the clock of the machine in workflow code blocks the run', async () => {
  const clock = workflow("clock", async () => Date.now());
  const engine = await testEngine({ workflows: [clock] });
  const run = await engine.start(clock, undefined);
  await expect(run.result()).rejects.toMatchObject({ name: "RunBlockedError" });
  await engine.close();
});

test("many runs that sleep for a year, at different times", async () => {
  const nap = workflow("nap", async (ctx, n: number) => {
    await ctx.sleep(n * 1_000);
    await ctx.sleep("365d");
    return n;
  });
  const engine = await testEngine({ workflows: [nap] });
  const runs = await engine.startMany(
    nap,
    Array.from({ length: 100 }, (_, n) => ({ input: n })),
  );
  expect(await Promise.all(runs.map((run) => run.result()))).toEqual(runs.map((_, n) => n));
  await engine.close();
});

// ── bodies that wait for time itself ──

const never = () => new Promise<never>(() => {});
const act = activity("act", never, { startToClose: "5s", retry: { maxAttempts: 2, initialInterval: "1m" } });
const beating = activity("beating", never, { heartbeat: "5s", retry: { maxAttempts: 1 } });
const causeOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: Error) => (error.cause as Error | undefined)?.name ?? error.name,
  );
const waits = {
  "a step's timeout": workflow("timeout", async (ctx) =>
    causeOf(ctx.step("never", never, { timeout: "5s", retry: { maxAttempts: 2, initialInterval: "1m" } })),
  ),
  "a race with a sleep": workflow("race", async (ctx) => {
    const { winner } = await ctx.race("first", {
      work: (ctx) =>
        ctx.step("never", ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))),
      late: (ctx) => ctx.sleep("5s"),
    });
    return winner;
  }),
  "an activity's startToClose": workflow("startToClose", async (ctx) => causeOf(ctx.activity(act, undefined))),
  "an activity's heartbeat": workflow("heartbeat", async (ctx) => causeOf(ctx.activity(beating, undefined))),
  "a deadline": workflow({ name: "deadline", deadline: "1h" }, async (ctx) => ctx.step("never", never)),
};
const ends: Record<keyof typeof waits, string> = {
  "a step's timeout": "StepTimeoutError",
  "a race with a sleep": "late",
  "an activity's startToClose": "StepTimeoutError",
  "an activity's heartbeat": "StepTimeoutError",
  "a deadline": "DeadlineExceededError",
};
for (const [what, wait] of Object.entries(waits) as [keyof typeof waits, (typeof waits)["a deadline"]][]) {
  test(`D8 D11 K7 time skips for a body that waits for ${what}`, async () => {
    const engine = await testEngine({ workflows: [wait], activities: [act, beating] });
    const run = await engine.start(wait, undefined);
    expect(await run.result().catch((error: Error) => (error.cause as Error).name)).toBe(ends[what]);
    await engine.close();
  });
  test(`D8 D11 K7 advance() passes a body that waits for ${what}, and close() does not wait for one`, async () => {
    const engine = await testEngine({ workflows: [wait], activities: [act, beating], skipTime: false });
    const run = await engine.start(wait, undefined);
    await engine.start(wait, undefined, { id: "left" });
    await engine.advance("2s");
    expect(["running", "sleeping"]).toContain((await run.describe()).status);
    await engine.advance("2h");
    expect(["completed", "failed"]).toContain((await run.describe()).status);
    await engine.start(wait, undefined, { id: "late" });
    await engine.close();
  });
}

test("a body that waits for something real is given the time it takes", async () => {
  const fetching = workflow("fetching", async (ctx) => {
    const value = await ctx.step("fetch", () => new Promise((resolve) => setTimeout(() => resolve("fetched"), 150)), { timeout: "1h" });
    return [value, ctx.now()];
  });
  const engine = await testEngine({ workflows: [fetching] });
  const began = engine.now();
  expect(await (await engine.start(fetching, undefined)).result()).toEqual(["fetched", began]);
  await engine.close();
});

// ── closing ──

test("V4 closing fails for a run that is blocked and that was not reported", async () => {
  const clock = workflow("clock", async (ctx) => {
    await ctx.sleep("1s");
    return Date.now();
  });
  const engine = await testEngine({ workflows: [clock] });
  await engine.start(clock, undefined, { id: "unseen" });
  await engine.advance("5s");
  const error = await engine.close().then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  expect(error).toBeInstanceOf(RunBlockedError);
  expect(error?.message).toMatch(/run "unseen" is blocked: .*Date\.now/s);

  const other = await testEngine({ workflows: [clock] });
  await expect((await other.start(clock, undefined)).result()).rejects.toThrow(RunBlockedError);
  await other.close(); // another engine was
});

test("everything that is wrong is reported at once", async () => {
  let draws = 0;
  const dice = workflow("dice", async (ctx) => ctx.step(++draws % 2 === 1 ? "odd" : "even", () => {}));
  const clock = workflow("clock", async () => Date.now());
  const engine = await testEngine({ workflows: [dice, clock] });
  await (await engine.start(dice, undefined, { id: "diced" })).result();
  await engine.start(clock, undefined, { id: "clocked" });
  const error = await engine.close().then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  expect(error).toBeInstanceOf(AggregateError);
  expect(error?.message).toMatch(/clocked/);
  expect(error?.message).toMatch(/diced/);
});

test("W4 once it closes it begins nothing new", async () => {
  const nap = workflow("nap", async (ctx) => ctx.sleep("1h"));
  const engine = await testEngine({ workflows: [nap] });
  const closed = engine.close();
  await expect(engine.start(nap, undefined)).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
  await closed;
});

describe("under fake timers", () => {
  const work = workflow("work", async (ctx) => {
    await ctx.sleep("1h");
    return ctx.step("flaky", ({ attempt }) => {
      if (attempt < 3) throw new Error("no");
      return attempt;
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    mock.timers.reset();
  });
  const fakes: [string, () => unknown][] = [
    ["vitest's", () => vi.useFakeTimers()],
    ["node:test's", () => mock.timers.enable()],
  ];
  for (const [whose, enable] of fakes) {
    test(`K8 it works as ever under ${whose}, enabled before or after it was made`, async () => {
      enable();
      const engine = await testEngine({ workflows: [work] });
      expect(await (await engine.start(work, undefined)).result()).toBe(3);
      await engine.close();
      vi.useRealTimers();
      mock.timers.reset();
      const other = await testEngine({ workflows: [work] });
      enable();
      expect(await (await other.start(work, undefined)).result()).toBe(3);
      await other.advance("1d");
      await other.close();
    });
  }
});

test("D11 an activity is served on whichever queue it is put, and so is a run", async () => {
  const render = activity("render", async (page: number) => page * 2, { queue: "gpu" });
  const mail = activity("mail", async (to: string) => `to ${to}`);
  const kid = workflow("kid", async (ctx) => ctx.activity(render, 4));
  const all = workflow("all", async (ctx) => [
    await ctx.activity(render, 1),
    await ctx.activity(mail, "ada", { queue: "post" }),
    await ctx.child(kid, undefined, { queue: "kids" }),
  ]);
  await using engine = await testEngine({ workflows: [all, kid], activities: [render, mail] });
  expect(await (await engine.start(all)).result()).toEqual([2, "to ada", 8]);
  const elsewhere = await engine.start(all, undefined, { queue: "elsewhere" });
  expect(await elsewhere.result()).toEqual([2, "to ada", 8]);
});

describe("when nothing can happen any more", () => {
  const wait = workflow({ name: "wait", signals: { go: signal<number>() } }, async (ctx) => ctx.waitForSignal("go"));

  test("P11 result() of a run that only a message can wake says what it waits for", async () => {
    await using engine = await testEngine({ workflows: [wait] });
    const run = await engine.start(wait, undefined, { id: "r1" });
    await expect(run.result()).rejects.toMatchObject({
      code: "HF_TEST_STUCK",
      message: expect.stringMatching(/^Run r1 of workflow "wait" waits for: signal go\. Nothing in this test can advance it/),
    });
    await run.signal("go", 1);
    expect(await run.result()).toBe(1);
  });

  test("P11 so does update(), and result() of a run that no worker serves", async () => {
    const slow = workflow({ name: "slow", signals: { confirm: signal() }, updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: {
          add: async (n, sum, own) => {
            await own.waitForSignal("confirm");
            return Receive.reply(sum + n, sum + n);
          },
        },
      });
    });
    await using engine = await testEngine({ workflows: [slow] });
    const run = await engine.start(slow);
    await expect(run.update("add", 1)).rejects.toThrow(/waits for: receive, signal .*confirm/);
    const unknown = await engine.start("unknown");
    await expect(unknown.result()).rejects.toThrow(/waits for: no worker serves unknown/);
    const given = activity("given", () => 1);
    const calls = workflow("calls", async (ctx) => ctx.activity(given));
    await engine.worker({ workflows: [calls] });
    await expect((await engine.start(calls)).result()).rejects.toThrow(/waits for: activity given.*no worker/);
  });

  test("what the test does meanwhile counts: a message may come from a timer, a socket, a file", async () => {
    await using engine = await testEngine({ workflows: [wait] });
    const run = await engine.start(wait);
    setTimeout(() => void run.signal("go", 7), 300);
    expect(await run.result()).toBe(7);
    const other = await engine.start(wait);
    const result = other.result();
    for (let i = 0; i < 10; i++) await new Promise(setImmediate);
    await other.signal("go", 8);
    expect(await result).toBe(8);
  });

  test("a test may take its time: a request that takes long, a hash that a thread of Node computes", { timeout: 30_000 }, async () => {
    await using server = await slowServer();
    await using engine = await testEngine({ workflows: [wait] });
    for (const [i, work] of [() => server.get(3_500), () => hash(2_500)].entries()) {
      const run = await engine.start(wait);
      const result = run.result();
      result.catch(() => {}); // told below
      await work();
      await run.signal("go", i);
      expect(await result).toBe(i);
    }
  });

  test("K7 K8 a step that takes long is over before its time, which it does not wait for", { timeout: 30_000 }, async () => {
    await using server = await slowServer();
    const works = workflow({ name: "works", deadline: "1h" }, async (ctx) => {
      await ctx.step("asks", () => server.get(2_000), { timeout: "30s" });
      await ctx.step("hashes", () => hash(300), { timeout: "30s" });
      return "done";
    });
    await using engine = await testEngine({ workflows: [works] });
    expect(await (await engine.start(works)).result()).toBe("done");
  });

  test("a caller's timeout is its own: real time, whatever the run does with the engine's", async () => {
    const patient = workflow("patient", async (ctx) => {
      await ctx.sleep("30d");
      return "rested";
    });
    await using engine = await testEngine({ workflows: [patient, wait] });
    // The thirty days pass at once; ten seconds of the caller's don't.
    expect(await (await engine.start(patient)).result({ timeout: "10s" })).toBe("rested");
    const began = performance.now();
    const run = await engine.start(wait);
    await expect(run.result({ timeout: 400 })).rejects.toMatchObject({
      code: "HF_WAIT_TIMEOUT",
      message: expect.stringContaining("signal go"),
    });
    expect(performance.now() - began).toBeGreaterThanOrEqual(399);
  });
});

test("closing fails for a stand-in that nothing used, and names it", async () => {
  const charge = activity("charge", async (n: number) => n);
  const order = workflow("order", async (ctx) => [await ctx.step("reserve", () => 1), await ctx.activity(charge, 1)]);
  const open = (replace: { steps?: Record<string, () => unknown>; activities?: Record<string, () => unknown> }) =>
    testEngine({ workflows: [order], activities: [charge], replace });
  const used = await open({ steps: { reserve: () => 2 }, activities: { charge: () => 3 } });
  expect(await (await used.start(order)).result()).toEqual([2, 3]);
  await used.close();
  const unused = await open({ steps: { reserv: () => 2, reserve: () => 3 }, activities: { charg: () => 3 } });
  await (await unused.start(order)).result();
  await expect(unused.close()).rejects.toMatchObject({
    code: "HF_UNUSED_STAND_IN",
    message: expect.stringMatching(/step "reserv" and activity "charg" .*never used/),
  });
});

/** Answers after as many milliseconds as it is asked for. */
async function slowServer() {
  const server = createServer((request, response) => void setTimeout(() => response.end("answer"), Number(request.url?.slice(1))));
  await new Promise<void>((resolve) => void server.listen(0, "localhost", resolve));
  const { port } = server.address() as { port: number };
  return {
    get: async (ms: number) => (await fetch(`http://localhost:${port}/${ms}`)).text(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}
/** Computes for this long in a thread that no list of resources shows. */
async function hash(ms: number): Promise<void> {
  for (const end = performance.now() + ms; performance.now() < end; )
    await new Promise((resolve) => void pbkdf2("a", "b", 50_000, 64, "sha512", resolve));
}

test("B4 retention counts by the clock of the engine", async () => {
  const done = workflow("done", async () => 1);
  await using engine = await testEngine({ workflows: [done], retention: "1d" });
  const run = await engine.start(done);
  expect(await run.result()).toBe(1);
  await engine.advance("23h");
  expect((await run.describe()).status).toBe("completed");
  await engine.advance("61m");
  await expect(run.describe()).rejects.toThrow(RunNotFoundError);
  await expect(testEngine({ workflows: [done], retention: 0 })).rejects.toThrow(InvalidInputError);
});

describe("schedules", () => {
  const report = workflow("report", async (ctx) => {
    await ctx.sleep("10m");
    return ctx.run.tick;
  });
  const startTime = new Date("2026-03-28T00:00:00Z");

  test("T7 advance resolves when its ticks have started, in order, and what they started has run", async () => {
    await using engine = await testEngine({ workflows: [report], startTime });
    await engine.schedules.set("nightly", { workflow: report, cron: "30 2 * * *", timezone: "Europe/Berlin" });
    await engine.advance("3d");
    expect(engine.now()).toEqual(new Date("2026-03-31T00:00:00Z"));
    const { runs } = await engine.list();
    const ticks = ["2026-03-30T00:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-28T01:30:00.000Z"];
    expect(runs.map(({ tick, createdAt, status }) => [tick?.toISOString(), createdAt.toISOString(), status])).toEqual(
      ticks.map((tick) => [tick, tick, "completed"]),
    );
    await engine.advance("30m");
    expect((await engine.schedules.get("nightly")).lastTick).toEqual(new Date("2026-03-31T00:30:00.000Z"));
  });
  test("T7 time is not skipped to ticks", async () => {
    await using engine = await testEngine({ workflows: [report], startTime });
    await engine.schedules.set("often", { workflow: report, every: "1m", overlap: "allow" });
    const run = await engine.start(report);
    expect(await run.result()).toBe(undefined); // the sleep was skipped to
    expect(engine.now()).toEqual(new Date("2026-03-28T00:10:00Z"));
    expect((await engine.list({ limit: 1_000 })).runs.filter(({ schedule }) => schedule === "often").length).toBeLessThanOrEqual(10);
  });
});
