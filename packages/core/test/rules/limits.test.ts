// Job: prove the limits of payloads and histories: what is over them fails and says so, and replay does not depend on them.
// Owns: the workflows in it.
// Invariants: P9.
import { activity, type Command, DEFAULT_LIMITS, type Limits, Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const mail = activity("mail", async (_args: unknown) => 0);
const kid = workflow("kid", async (_ctx, _input: unknown) => 0);

/** The same run on a host that was given other limits. */
async function withLimits(h: Harness, limits: Partial<Limits>): Promise<Harness> {
  const other = new Harness(h.workflow, { ...h.options, limits });
  other.turns = h.turns;
  for (const [seq, command] of h.open) other.open.set(seq, command);
  await other.recover();
  return other;
}

describe("P9 payload size", () => {
  const MAX = 100;
  const limits = { payloadBytes: MAX };
  const exactly = (bytes: number) => "x".repeat(bytes - 2); // and two quotes

  it("P9 the limit is 2 MiB by default, inclusive", async () => {
    expect(DEFAULT_LIMITS.payloadBytes).toBe(2 * 1024 * 1024);
    const wf = workflow("large", async (ctx, extra: number) => {
      await ctx.activity(mail, exactly(DEFAULT_LIMITS.payloadBytes + extra));
    });
    expect((await Harness.start(wf, 0)).openLocations).toEqual(["mail"]);
    expect((await Harness.start(wf, 1)).error).toMatchObject({ name: "LimitExceededError", limit: "payloadBytes" });
  });

  it("P9 the size is counted in bytes", async () => {
    const wf = workflow("umlauts", async (ctx, text: string) => {
      await ctx.activity(mail, text);
    });
    expect((await Harness.start(wf, "ä".repeat(49), { limits })).openLocations).toEqual(["mail"]);
    expect((await Harness.start(wf, "ä".repeat(50), { limits })).error).toMatchObject({
      name: "LimitExceededError",
      actual: 102,
      max: 100,
    });
  });

  const calls = ["activity", "child", "startChild", "signalRun", "sideEffect", "publishState", "loop"] as const;
  const caller = (call: (typeof calls)[number]) =>
    workflow("large", async (ctx) => {
      const large = exactly(MAX + 1);
      const ways = {
        activity: () => ctx.activity(mail, large),
        child: () => ctx.child(kid, large),
        startChild: () => ctx.startChild(kid, large),
        signalRun: () => ctx.signalRun("other", "hello", large),
        sideEffect: () => ctx.sideEffect(() => large),
        publishState: async () => ctx.publishState(large),
        loop: () => ctx.loop({ name: "l", state: large, commitInterval: 1 }, async () => Loop.continue(large)),
      };
      let error: unknown;
      try {
        await ways[call]();
      } catch (caught) {
        error = caught;
      }
      await ctx.step("next", () => 0);
      return /payloadBytes allows .*/.exec((error as Error).message)?.[0];
    });

  it.each(calls)("P9 %s with a value over the limit fails with an error that names it, and can be caught", async (call) => {
    const h = await Harness.start(caller(call), undefined, { limits });
    expect(h.openLocations).toEqual(["next"]);
    await h.resolve("next");
    expect(h.output).toBe("payloadBytes allows 100, and this is 101");
    await crashAnywhere(h);
  });

  it.each(calls)("P9 a refusal of %s is replayed the same by a host with a higher limit", async (call) => {
    const h = await withLimits(await Harness.start(caller(call), undefined, { limits }), { payloadBytes: 1_000 });
    await h.resolve("next");
    expect(h.output).toContain("and this is 101");
  });

  it.each(["activity", "child", "signalRun", "sideEffect", "publishState"] as const)(
    "P9 a %s that was accepted is replayed the same by a host with a lower limit",
    async (call) => {
      const wf = workflow("large", async (ctx) => {
        const large = exactly(MAX + 1);
        if (call === "activity") await ctx.activity(mail, large);
        else if (call === "child") await ctx.child(kid, large);
        else if (call === "signalRun") await ctx.signalRun("other", "hello", large);
        else if (call === "sideEffect") await ctx.sideEffect(() => large);
        else ctx.publishState(large);
        await ctx.step("next", () => 0);
      });
      const h = await Harness.start(wf);
      await expect(withLimits(h, limits)).resolves.toBeInstanceOf(Harness);
    },
  );

  it("P9 a loop state that was committed is replayed the same by a host with a lower limit", async () => {
    const wf = workflow("large", async (ctx) =>
      ctx.loop({ name: "l", state: exactly(MAX + 1), commitInterval: 1 }, async (body, state) => {
        await body.step("next", () => 0);
        return Loop.continue(state);
      }),
    );
    const h = await Harness.start(wf);
    await h.resolve("next");
    await expect(withLimits(h, limits)).resolves.toBeInstanceOf(Harness);
  });

  const chatty = workflow("chatty", async (ctx) =>
    ctx.receive("state", {
      updates: {
        sync: (size: number) => Receive.reply(exactly(size), "changed"),
        async: (size: number, state) => Receive.async(async () => exactly(size), state),
        get: (_input, state) => Receive.reply(state, state),
      },
    }),
  );

  it.each(["sync", "async"])("P9 a reply over the limit fails the %s update, and the run goes on", async (kind) => {
    const h = await Harness.start(chatty, undefined, { limits });
    await h.update(kind, MAX + 1, "large");
    await h.update("get", undefined, "small");
    expect(h.updateResult("large")).toMatchObject({ error: { name: "LimitExceededError", limit: "payloadBytes" } });
    expect(h.updateResult("small")).toEqual({ value: "state" });
    await crashAnywhere(h);
  });

  it.each(["sync", "async"])("P9 the outcome of a %s update does not depend on the limits of the host that replays it", async (kind) => {
    const strict = await Harness.start(chatty, undefined, { limits });
    await strict.update(kind, MAX + 1);
    const lenient = await withLimits(strict, {});
    await lenient.update("get", undefined, "get");
    expect(lenient.updateResult("get")).toEqual({ value: "state" });

    const large = await Harness.start(chatty);
    await large.update(kind, MAX + 1);
    await expect(withLimits(large, limits)).resolves.toBeInstanceOf(Harness);
  });

  it("P9 an output over the limit fails the run, and is replayed the same under other limits", async () => {
    const h = await Harness.start(
      workflow("large", async () => exactly(MAX + 1)),
      undefined,
      { limits },
    );
    expect(h.error).toMatchObject({ name: "LimitExceededError", limit: "payloadBytes", what: expect.stringContaining("output") });
    await expect(withLimits(h, {})).resolves.toBeInstanceOf(Harness);
  });

  it("P9 an input of the next execution over the limit fails the run, and is replayed the same under other limits", async () => {
    const wf = workflow("large", async (ctx, _input: unknown) => ctx.continueAsNew(exactly(MAX + 1)));
    const h = await Harness.start(wf, undefined, { limits });
    expect(h.error).toMatchObject({ name: "LimitExceededError", limit: "payloadBytes" });
    await expect(withLimits(h, {})).resolves.toBeInstanceOf(Harness);
  });

  it("P9 a run that failed over the limit goes on where it is raised", async () => {
    const wf = workflow("large", async () => exactly(MAX + 1));
    const h = await Harness.start(wf, undefined, { limits });
    Object.assign(h.options, { limits: {} });
    await h.resume();
    expect(h.status).toBe("completed");
  });
});

describe("P9 history length", () => {
  function logged() {
    const warnings: string[] = [];
    const ignore = () => {};
    return { warnings, logger: { debug: ignore, info: ignore, error: ignore, warn: (message: string) => void warnings.push(message) } };
  }
  const steps = workflow("steps", async (ctx) => {
    for (let i = 0; i < 1_000; i++) await ctx.step(`s${i}`, () => 0);
  });
  /** Runs steps until the history holds at least so many records. */
  async function grow(h: Harness, records: number): Promise<void> {
    const length = () => h.turns.reduce((sum, turn) => sum + turn.jobs.length + turn.commands.length, 0);
    while (length() < records && h.status === "sleeping") await h.resolve(h.openLocations[0] as string);
  }

  it("P9 warns at 10,000 records and fails at 50,000 by default", () => {
    expect(DEFAULT_LIMITS).toMatchObject({ historyWarn: 10_000, historyMax: 50_000 });
  });

  it("P9 warns once when the history reaches the limit, not before", async () => {
    const { warnings, logger } = logged();
    const h = await Harness.start(steps, undefined, { logger, limits: { historyWarn: 10, historyMax: 1_000 } });
    await grow(h, 10);
    expect(warnings).toEqual([]);
    await grow(h, 40);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("records");
    expect(h.status).toBe("sleeping");
  });

  it("P9 an operation over the maximum fails with an error that names the limit", async () => {
    const h = await Harness.start(steps, undefined, { limits: { historyWarn: 5, historyMax: 10 } });
    await grow(h, 100);
    expect(h.status).toBe("failed");
    expect(h.error).toMatchObject({ name: "LimitExceededError", limit: "historyMax", max: 10 });
    expect(h.error?.message).toMatch(/^the history with one more record is over the limit: historyMax allows 10, and this is \d+/);
    await crashAnywhere(h);
  });

  const rotates = workflow("rotates", async (ctx, call: string) => {
    for (let i = 0; i < 100; i++) {
      try {
        if (call === "step") await ctx.step(`s${i}`, () => 0);
        else await ctx.sideEffect(() => i);
      } catch (error) {
        return ctx.continueAsNew((error as Error).name);
      }
    }
    return "never refused";
  });

  it("P9 the failure can be caught, and the run continued as new", async () => {
    const h = await Harness.start(rotates, "step", { limits: { historyWarn: 5, historyMax: 10 } });
    await grow(h, 100);
    expect(h.terminal).toMatchObject({ type: "continueAsNew", input: '"LimitExceededError"' });
    await crashAnywhere(h);
  });

  it("P9 operations that do not pause count and fail too", async () => {
    const h = await Harness.start(rotates, "sideEffect", { limits: { historyWarn: 5, historyMax: 10 } });
    expect(h.terminal).toMatchObject({ type: "continueAsNew", input: '"LimitExceededError"' });
    expect(h.commands.length).toBeLessThan(15);
    await crashAnywhere(h);
  });

  const stubborn = workflow("stubborn", async (ctx) => {
    const errors: string[] = [];
    const note = (error: unknown) => void errors.push((error as { limit: string }).limit);
    await ctx.step("s0", () => 0);
    await ctx.step("s1", () => 0).catch(note);
    await ctx.sleep("nap", 1).catch(note);
    await ctx.waitForSignal("a").catch(note);
    await ctx.parallel([async () => 0]).catch(note);
    await ctx.sideEffect(() => 0).catch(note);
    await ctx.activity(mail, 0).catch(note);
    return errors;
  });
  const REFUSED = { historyWarn: 1, historyMax: 2 };

  it("P9 every kind of operation is refused there", async () => {
    const h = await Harness.start(stubborn, undefined, { limits: REFUSED });
    await h.resolve("s0");
    expect(h.output).toEqual(Array(6).fill("historyMax"));
  });

  it("P9 a refusal is replayed the same by a host with other limits", async () => {
    const waits = workflow("waits", async (ctx) => {
      await ctx.step("s0", () => 0);
      const refused = await ctx.step("s1", () => 0).catch((error: Error) => error.name);
      const also = await ctx.sideEffect(() => 0).catch((error: Error) => error.name);
      await ctx.receive(0, { signals: { go: () => Receive.stop(0) } }).catch(() => 0);
      return [refused, also];
    });
    const live = await Harness.start(waits, undefined, { limits: REFUSED });
    await live.resolve("s0");
    const expected = live.output;
    expect(expected).toEqual(["LimitExceededError", "LimitExceededError"]);
    await expect(withLimits(live, {})).resolves.toBeInstanceOf(Harness);
  });

  it("P9 an operation that was accepted is replayed the same by a host with a lower maximum", async () => {
    const h = await Harness.start(steps);
    await grow(h, 20);
    const strict = await withLimits(h, { historyWarn: 1, historyMax: 3 });
    await strict.resolve(strict.openLocations[0] as string);
    expect(strict.error).toMatchObject({ limit: "historyMax" });
  });

  it("P9 a loop that trims never comes to the limit", async () => {
    const wf = workflow("bounded", async (ctx) =>
      ctx.loop({ name: "l", state: 0, commitInterval: 2, historyEvery: 2, historyKeep: 1 }, async (body, i) => {
        await body.step("s", () => 0);
        return i === 50 ? Loop.break(i) : Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf, undefined, { limits: { historyWarn: 20, historyMax: 30 } });
    while (h.status === "sleeping") await h.resolve("s");
    expect(h.output).toBe(50);
  });

  it("P9 historyLength says how long the history is, and rejected updates and queries do not count", async () => {
    const lengths: number[] = [];
    const wf = workflow({ name: "lengths", queries: { ping: () => 1 } }, async (ctx) => {
      for (const name of ["a", "b", "c"]) {
        lengths.push(ctx.historyLength());
        await ctx.step(name, () => 0);
      }
    });
    const h = new Harness(wf);
    const bare = (...jobs: Parameters<Harness["turn"]>) => h.executor.activate({ time: 0, jobs });
    const resolve = (seq: number) => ({ type: "resolve", seq, outcome: { status: "completed", value: "0" } }) as const;
    const start = { type: "start", runId: "r", workflow: "lengths", input: "null", seed: "s", startedAt: 0 } as const;
    await bare(start);
    await bare(h.updateJob("no receive"));
    await bare(h.queryJob("ping"));
    const second = await bare(resolve(1), h.updateJob("nor this one"));
    expect(second.status === "ok" && second.commands.map((command: Command) => command.type)).toEqual(["step"]);
    await bare(resolve(2));
    expect(lengths).toEqual([0, 2, 4]);
  });
});
