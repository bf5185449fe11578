// M1–M4, M7, M12, M13: signals, as those who send them and those who get them see them.

import { InvalidInputError, Receive, RunClosedError, RunNotFoundError, signal, UnserializableValueError, workflow } from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

describe.each(STORES)("signals on %s", (store) => {
  const engines = enginesOn(store);
  const collect = (n: number) =>
    workflow({ name: "collect", signals: { item: signal<number>() } }, async (ctx) => {
      const items: number[] = [];
      while (items.length < n) items.push(await ctx.waitForSignal("item"));
      return items;
    });

  test("M1 M2 signals sent before any worker is there are kept, in the order they came", async () => {
    const engine = await engines.open();
    const three = collect(3);
    const run = await engine.start(three, undefined);
    for (const item of [1, 2, 3]) await run.signal("item", item);
    await engine.worker({ workflows: [three] });
    expect(await run.result()).toEqual([1, 2, 3]);
  });

  test("M1 a send is acknowledged only when it is durable", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const one = collect(1);
    const run = await engine.start(one, undefined);
    wire.intercept("send", () => Promise.reject(new Error("The disk is full.")));
    await expect(run.signal("item", 1)).rejects.toThrow(/disk is full/);
    wire.intercept("send", undefined);
    await run.signal("item", 2);
    await engine.worker({ workflows: [one] });
    expect(await run.result()).toEqual([2]);
  });

  test("M2 signals that no code waits for yet stay buffered across phases", async () => {
    const engine = await engines.open();
    const phases = workflow({ name: "phases", signals: { a: signal<string>(), b: signal<string>() } }, async (ctx) => {
      const a = await ctx.waitForSignal("a");
      await ctx.step("between", () => {});
      return [a, await ctx.waitForSignal("b"), await ctx.waitForSignal("b")];
    });
    await engine.worker({ workflows: [phases] });
    const run = await engine.start(phases, undefined);
    await run.signal("b", "b1");
    await run.signal("b", "b2");
    await run.signal("a", "a1");
    expect(await run.result()).toEqual(["a1", "b1", "b2"]);
  });

  test("M3 N signals are N deliveries, and a repeated key is one", async () => {
    const engine = await engines.open();
    const three = collect(3);
    await engine.worker({ workflows: [three] });
    const run = await engine.start(three, undefined);
    await run.signal("item", 1);
    await run.signal("item", 1);
    await Promise.all([1, 2, 3].map(() => run.signal("item", 7, { idempotencyKey: "seven" })));
    expect(await run.result()).toEqual([1, 1, 7]);
    // What was acknowledged once is acknowledged again, also after the run has closed.
    await run.signal("item", 7, { idempotencyKey: "seven" });
  });

  test("M4 a wait that timed out leaves a later signal to the next one", async () => {
    const engine = await engines.open();
    const patient = workflow({ name: "patient", signals: { go: signal<number>() } }, async (ctx) => {
      const first = await ctx.waitForSignal("go", { timeout: 5 });
      ctx.publishState("late");
      return [first, await ctx.waitForSignal("go", { timeout: "1h" })];
    });
    await engine.worker({ workflows: [patient] });
    const run = await engine.start(patient, undefined);
    await until(async () => (await run.state()) === "late");
    await run.signal("go", 1);
    expect(await run.result()).toEqual([{ timedOut: true }, { timedOut: false, payload: 1 }]);
  });

  test("M5 listen takes up to count of any of the names, in the order they came", async () => {
    const engine = await engines.open();
    const ears = workflow({ name: "ears", signals: { a: signal<number>(), b: signal<number>(), c: signal<number>() } }, async (ctx) => [
      await ctx.listen(["a", "b"], { count: 3 }),
      await ctx.listen(["a", "b"], { count: 3 }),
      await ctx.listen(["a"], { timeout: 5 }),
      await ctx.waitForSignal("c"),
    ]);
    const run = await engine.start(ears, undefined);
    await run.signal("b", 1);
    await run.signal("c", 2);
    await run.signal("a", 3);
    await run.signal("b", 4);
    await run.signal("a", 5);
    await engine.worker({ workflows: [ears] });
    expect(await run.result()).toEqual([
      [{ name: "b", payload: 1 }, { name: "a", payload: 3 }, { name: "b", payload: 4 }],
      [{ name: "a", payload: 5 }],
      [],
      2,
    ]); // biome-ignore format: rows
  });

  test("M6 several waiters of one name are served in the order in which they began to wait", async () => {
    const engine = await engines.open();
    const line = workflow({ name: "line", signals: { item: signal<number>() } }, async (ctx) =>
      ctx.join("line", { first: (ctx) => ctx.waitForSignal("item"), second: (ctx) => ctx.waitForSignal("item") }),
    );
    await engine.worker({ workflows: [line] });
    const run = await engine.start(line, undefined);
    await until(async () => (await run.describe()).status === "sleeping");
    await run.signal("item", 1);
    await run.signal("item", 2);
    expect(await run.result()).toEqual({ first: 1, second: 2 });
  });

  test("M7 a signal whose turn was not committed is delivered again; one whose turn was is not", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const two = collect(2);
    await first.worker({ workflows: [two], ...DOOMED });
    const run = await first.start(two, undefined);
    await run.signal("item", 1);
    await until(async () => (await run.describe()).historyLength > 2 && (await run.describe()).status === "sleeping");
    const taken = new Gate();
    wire.intercept("commit", async (pass, turns) => {
      if (!turns.some(({ consumed = [] }) => consumed.length > 0)) return pass(turns);
      wire.cut(); // the turn that takes the second signal is lost
      taken.open();
      throw new Error("The process died.");
    });
    await run.signal("item", 2);
    await taken.passed;
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [two] });
    expect(await second.run(run.id).result()).toEqual([1, 2]);
  });

  test("M12 closed runs and unknown ones take no messages", async () => {
    const engine = await engines.open();
    const none = collect(0);
    await engine.worker({ workflows: [none] });
    const run = await engine.start(none, undefined);
    await run.result();
    await expect(run.signal("item", 1)).rejects.toThrow(RunClosedError);
    await expect(run.cancel()).rejects.toThrow(RunClosedError);
    await expect(run.terminate()).rejects.toThrow(RunClosedError);
    const missing = engine.run("missing", none);
    for (const send of [() => missing.signal("item", 1), () => missing.cancel(), () => missing.terminate(), () => missing.result()])
      await expect(send()).rejects.toThrow(RunNotFoundError);
  });

  test("M12 a signal from another run gets the same errors, as its operation's", async () => {
    const engine = await engines.open();
    const target = collect(1);
    const sender = workflow("sender", async (ctx, id: string) => {
      await ctx.signalRun(id, "item", 5);
      return ctx.signalRun("missing", "item", 5).catch((error: Error) => error.name);
    });
    await engine.worker({ workflows: [target, sender] });
    const run = await engine.start(target, undefined);
    expect(await (await engine.start(sender, run.id)).result()).toBe("RunNotFoundError");
    expect(await run.result()).toEqual([5]);
  });

  test("M1 a payload that the declared schema refuses is refused at the sender, and nothing is sent", async () => {
    const engine = await engines.open();
    const typed = workflow({ name: "typed", signals: { item: signal(z.object({ n: z.number().min(1) })) } }, async (ctx) =>
      ctx.waitForSignal("item"),
    );
    await engine.worker({ workflows: [typed] });
    const run = await engine.start(typed, undefined);
    const error = await errorOf(run.signal("item", { n: 0 }));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues).toMatchObject([{ path: ["n"] }]);
    await run.signal("item", { n: 1 });
    expect(await run.result()).toEqual({ n: 1 });
  });

  test("M13 one that only the receiver's schema refuses is recorded and logged, and not delivered; the run goes on", async () => {
    const engine = await engines.open();
    const typed = workflow({ name: "typed", signals: { item: signal(z.number()) } }, async (ctx) => ctx.waitForSignal("item"));
    await engine.worker({ workflows: [typed] });
    const run = await engine.start(typed, undefined);
    await engine.run(run.id).signal("item", "no number"); // a sender that knows no schema
    await until(() => engines.log.some(({ message }) => message.includes('"item" was rejected')));
    await run.signal("item", 1);
    expect(await run.result()).toBe(1);
    expect(JSON.stringify(await run.history())).toContain("no number");
  });

  test("P8 a payload that can't be stored is refused at the sender", async () => {
    const engine = await engines.open();
    const run = await engine.start(collect(1), undefined);
    await expect(engine.run(run.id).signal("item", { fn: () => {} })).rejects.toThrow(UnserializableValueError);
  });

  test("a workflow that declares its signals takes no others", async () => {
    const engine = await engines.open();
    const run = await engine.start(collect(1), undefined);
    await expect(run.signal("itme" as "item", 1)).rejects.toMatchObject({ code: "HF_UNKNOWN_MESSAGE" });
  });

  test("M8 signals sent with start are there in the first activation", async () => {
    const engine = await engines.open();
    const greedy = workflow({ name: "greedy", signals: { item: signal<number>() } }, async (ctx) => {
      const got = await ctx.waitForSignal("item", { timeout: 0 });
      return got.timedOut ? "late" : got.payload;
    });
    await engine.worker({ workflows: [greedy] });
    const run = await engine.start(greedy, undefined, { signals: [{ name: "item", payload: 3 }] });
    expect(await run.result()).toBe(3);
  });

  test("M8 signals with start go to the run that exists, with use-existing", async () => {
    const engine = await engines.open();
    const two = collect(2);
    await engine.worker({ workflows: [two] });
    const start = (payload: number) =>
      engine.start(two, undefined, { id: "one", onConflict: "use-existing", signals: [{ name: "item", payload }] });
    const run = await start(1);
    await start(2);
    expect(await run.result()).toEqual([1, 2]);
    await expect(start(3)).rejects.toThrow(RunClosedError);
  });

  test("M1 M2 many senders at once: nothing is lost, and each sender's order is kept", async () => {
    const first = await engines.open();
    const second = await engines.open();
    const all = workflow({ name: "all", signals: { item: signal<[string, number]>() } }, async (ctx) => {
      const { state } = await ctx.receive<[string, number][]>([], {
        signals: { item: (item, items) => (items.length === 59 ? Receive.stop([...items, item]) : Receive.noreply([...items, item])) },
      });
      return state;
    });
    await first.worker({ workflows: [all] });
    const run = await first.start(all, undefined);
    const senders = [first.run(run.id, all), second.run(run.id, all), run];
    await Promise.all(
      senders.map(async (sender, who) => {
        for (let i = 0; i < 20; i++) await sender.signal("item", [`s${who}`, i]);
      }),
    );
    const got = await run.result();
    for (let who = 0; who < 3; who++)
      expect(got.filter(([name]) => name === `s${who}`).map(([, i]) => i)).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test("M1 M2 a signal that was durable before a transaction's outcome is not passed over, and comes before a later one", async () => {
    const wire = new Wire();
    wire.intercept("watch", () => () => {}); // hints are lost
    const engine = await engines.open({ wire });
    const sender = await engines.open();
    const both = workflow({ name: "both", signals: { s: signal<string>() } }, async (ctx) => {
      const value = await ctx.transaction("t", () => 1);
      return [value, await ctx.waitForSignal("s"), await ctx.waitForSignal("s")];
    });
    wire.intercept("transact", async (pass, claim, body) => {
      await sender.run(claim.runId, both).signal("s", "hello"); // acknowledged: durable
      return pass(claim, body);
    });
    await engine.worker({ workflows: [both] });
    const run = await engine.start(both, undefined);
    await until(async () => (await run.describe()).waitingFor.includes("signal s") || (await run.operations()).length > 1);
    await sender.run(run.id, both).signal("s", "second");
    expect(await run.result({ timeout: "8s" })).toEqual([1, "hello", "second"]);
  });

  test("M1 M13 a schema that transforms is applied once, no matter who sends and how the signal comes", async () => {
    const engine = await engines.open();
    const toNumber = z.string().transform(Number); // refuses what it made
    const sum = workflow({ name: "sum", signals: { n: signal(toNumber), stop: signal() } }, async (ctx, items: unknown[]) => {
      const { state } = await ctx.receive(items, {
        signals: { n: (n, all) => Receive.noreply([...all, n]), stop: (_: unknown, all) => Receive.stop(all) },
      });
      return state.length < 4 ? ctx.continueAsNew(state) : state;
    });
    const waiting = workflow({ name: "waiting", signals: { n: signal(toNumber), go: signal() } }, async (ctx, isSecond: boolean) => {
      if (isSecond) return ctx.waitForSignal("n");
      await ctx.waitForSignal("go");
      return ctx.continueAsNew(true); // the other signal goes on, as the schema made it
    });
    await engine.worker({ workflows: [sum, waiting] });
    const run = await engine.start(sum, [], { signals: [{ name: "n", payload: "1" }] });
    await run.signal("n", "2" as never);
    await engine.run(run.id).signal("n", "3"); // a handle that knows no schema
    await engine.run(run.id).signal("n", { bad: true }); // M13
    await run.signal("n", "4" as never);
    await run.signal("stop");
    expect(await run.result({ timeout: "8s" })).toEqual([1, 2, 3, 4]);
    await expect(run.signal("n", 5 as never)).rejects.toThrow(InvalidInputError);

    const next = await engine.start(waiting, false);
    await next.signal("n", "7" as never);
    await until(async () => (await next.history()).turns.length > 1); // it was taken in, and no code waited for it
    await next.signal("go");
    expect(await next.result({ timeout: "8s" })).toBe(7);
  });
});
