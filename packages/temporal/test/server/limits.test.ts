// Values near the limits of the server, which terminates a run that asks for more.
// Owns: none.
// Invariants: P9 (a value that is too large is an error at the call, and the run can handle it).

import { activity, LimitExceededError, Receive, RunNotFoundError, replay, signal, update, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

/** Just less than the server's limit and our default, without what is recorded beside it. */
const LARGE = "x".repeat(2 * 1024 * 1024 - 10);
const FITS = "x".repeat(2 * 1024 * 1024 - 20_000);

describe("values of nearly 2 MiB", () => {
  const on = engines();
  const measure = activity("measure", (text: string) => text.length);
  const child = workflow<string, number>("child", async (_, text) => text.length);
  const given = workflow<boolean, unknown>("given", async (ctx, isLarge) => {
    const text = isLarge ? LARGE : FITS;
    const tried = [
      await ctx.try("step", async (unit) => (await unit.step("step", () => text)).length),
      await ctx.try("activity", (unit) => unit.activity(measure, text)),
      await ctx.try("child", (unit) => unit.child(child, text)),
      await ctx.try("effect", async (unit) => (await unit.sideEffect(() => text)).length),
    ];
    return tried.map((one) =>
      one.ok ? one.value : [one.error, one.error.cause].find((error) => error instanceof LimitExceededError)?.name,
    );
  });
  const returns = workflow<boolean, string>("returns", async (_, isLarge) => (isLarge ? LARGE : FITS));

  test(
    "P9 those that fit pass, larger ones are errors at the call",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [given, child, returns], activities: [measure] });
      expect(await (await holdfast.start(given, false)).result()).toEqual([FITS, FITS, FITS, FITS].map((text) => text.length));
      expect(await (await holdfast.start(given, true)).result()).toEqual(Array.from({ length: 4 }, () => "LimitExceededError"));
    },
    LONG,
  );
  test(
    "P9 the output of a run",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [returns] });
      expect((await (await holdfast.start(returns, false)).result()).length).toBe(FITS.length);
      const run = await holdfast.start(returns, true);
      await expect(run.result()).rejects.toMatchObject({ code: "HF_RUN_FAILED", cause: { code: "HF_LIMIT_EXCEEDED" } });
    },
    LONG,
  );
});

describe("ids and names of more than 1,000 bytes", () => {
  const on = engines();
  const LONG_ID = "x".repeat(1_200);
  /** 512 characters, which every other host accepts. */
  const WIDE = "é".repeat(512);
  const child = workflow("child", async () => 1);
  const parent = workflow("parent", async (ctx) => {
    const tried = [
      await ctx.try("signal", (unit) => unit.signalRun(LONG_ID, "go")),
      await ctx.try("cancel", (unit) => unit.cancelRun(LONG_ID)),
      await ctx.try("name", (unit) => unit.signalRun("other", LONG_ID)),
      await ctx.try("child", (unit) => unit.child(child, undefined, { id: WIDE })),
      await ctx.try("detached", (unit) => unit.startChild(child, undefined, { id: WIDE })),
    ];
    return tried.map((one) => {
      if (one.ok) return one.value;
      const { name, message, cause } = one.error as Error & { cause?: Error };
      const why = name === "RunNotFoundError" || (cause?.message ?? message).includes("at most 1000 bytes") ? "" : message;
      return `${name}, ${cause?.name}${why}`;
    });
  });
  test(
    "M12 V4 they fail their operation, and do not block the run",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [parent, child] });
      const run = await holdfast.start(parent);
      expect(await run.result()).toEqual([
        "RunNotFoundError, undefined",
        "RunNotFoundError, undefined",
        "InvalidInputError, undefined",
        "ChildFailedError, InvalidInputError",
        "ChildFailedError, InvalidInputError",
      ]);
      await replay(parent, await run.history());
    },
    LONG,
  );
  test("M12 from outside they are unknown, or refused", async () => {
    const holdfast = await on.open();
    const run = holdfast.run(LONG_ID);
    for (const call of [run.describe(), run.signal("go"), run.result(), run.cancel(), run.terminate(), run.update("go")])
      await expect(call).rejects.toThrow(RunNotFoundError);
    await expect(holdfast.start(child, undefined, { id: WIDE })).rejects.toMatchObject({ code: "HF_INVALID_INPUT" });
  });
});

describe("more messages than the server allows in one execution", () => {
  const on = engines(
    { settings: { "history.maximumSignalsPerExecution": 20, "history.maxTotalUpdates": 20 } },
    { shortestExecution: 0 }, // by default a server allows more than a run gets in a second
  );
  const messages = { signals: { tick: signal<number>(), end: signal() }, updates: { add: update<number, number>() } };
  const counting = (name: string, checkpointEvery?: number) =>
    workflow({ name, ...messages }, async (ctx) => {
      const { state } = await ctx.receive(0, {
        signals: { tick: (_, n) => Receive.noreply(n + 1), end: (_, n) => Receive.stop(n) },
        updates: { add: (by, n) => Receive.reply(n + by, n + by) },
        ...(checkpointEvery !== undefined && { checkpointEvery }),
      });
      return state;
    });
  const full = counting("full");
  const renewed = counting("renewed", 5);
  const sender = workflow<string, unknown>("sender", async (ctx, runId) => {
    const tried = await ctx.try("signal", (unit) => unit.signalRun(runId, "tick", 1));
    return tried.ok ? "sent" : (tried.error as { code?: string }).code;
  });
  const LIMIT = { code: "HF_TEMPORAL_LIMIT", retryable: true };

  test(
    "M1 signals are refused with an error that says so, and the run has those that were acknowledged",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [full, sender] });
      const run = await holdfast.start(full);
      for (let n = 0; n < 20; n++) await run.signal("tick", n);
      await expect(run.signal("tick", 20)).rejects.toMatchObject(LIMIT);
      await expect(run.signal("end")).rejects.toThrow(/as many signals as Temporal allows/);
      expect(await (await holdfast.start(sender, run.id)).result()).toBe("HF_TEMPORAL_LIMIT");
      expect(await run.update("add", 100)).toBe(120);
    },
    LONG,
  );
  test(
    "M8 M10 so are updates, after the time in which a run may go on in a new execution",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [full] });
      const run = await holdfast.start(full);
      for (let n = 1; n <= 20; n++) expect(await run.update("add", 1)).toBe(n);
      await expect(run.update("add", 1)).rejects.toMatchObject(LIMIT);
      await run.signal("end");
      expect(await run.result()).toBe(20);
    },
    LONG,
  );
  test(
    "R11 M10 a receive that commits gets more of them, in new executions",
    async () => {
      const holdfast = await on.open();
      await holdfast.worker({ workflows: [renewed] });
      const run = await holdfast.start(renewed);
      for (let n = 1; n <= 50; n++) expect(await run.update("add", 1)).toBe(n);
      await run.signal("end");
      expect(await run.result()).toBe(50);
    },
    LONG,
  );
});
