// Job: prove what happens to signals: buffered in order, consumed by waiters, each once.
// Owns: the workflows in it. Updates and queries are in updates-and-queries.test.ts, the dispatch of a receive in receive.test.ts.
// Invariants: M1 to M7 and M13, as far as the executor goes; durability and senders are the host's.
import { type Command, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const settles = (commands: readonly Command[]) => commands.filter((command) => command.type === "settle");

describe("M1 M2 M3 buffering", () => {
  it("M1 a signal that comes before any code waits for it is not lost", async () => {
    const wf = workflow("late waiter", async (ctx) => {
      await ctx.step("work", () => 0);
      return ctx.waitForSignal("approve");
    });
    const h = await Harness.start(wf);
    await h.signal("approve", "yes");
    await h.recover();
    await h.resolve("work");
    expect(h.output).toBe("yes");
    await crashAnywhere(h);
  });

  it("M1 M8 a signal sent with start is delivered in the first activation", async () => {
    const wf = workflow("eager", async (ctx) => ctx.waitForSignal("hello"));
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("hello", "at once"));
    expect(h.output).toBe("at once");
    expect(h.transcript).toHaveLength(1);
    await crashAnywhere(h);
  });

  it("M2 signals that no unit consumes stay buffered in arrival order, across phases", async () => {
    const wf = workflow("phases", async (ctx) => {
      const log: unknown[] = [];
      await ctx.step("first phase", () => 0);
      log.push(await ctx.waitForSignal("b"));
      const { state } = await ctx.receive([] as unknown[], {
        signals: { c: (payload, all) => Receive.noreply([...all, payload]), end: (_payload, all) => Receive.stop(all) },
      });
      log.push(...state);
      await ctx.sleep("1h");
      for (const { name, payload } of await ctx.listen(["a", "b", "c"], { count: 10 })) log.push(`${name}${payload}`);
      return log;
    });
    const h = await Harness.start(wf);
    for (const [name, payload] of [
      ["a", 1],
      ["b", 2],
      ["c", 3],
      ["a", 4],
    ] as const)
      await h.signal(name, payload);
    await h.resolve("first phase");
    await h.signal("b", 5);
    await h.turn(h.signalJob("end"), h.signalJob("c", 6), h.signalJob("a", 7));
    await h.fire();
    expect(h.output).toEqual([2, 3, "a1", "a4", "b5", "c6", "a7"]);
    await crashAnywhere(h);
  });

  it("M3 N signals of a name are N deliveries, equal payloads or not", async () => {
    const wf = workflow("counts", async (ctx) => {
      let sum = 0;
      for (let i = 0; i < 3; i++) sum += (await ctx.waitForSignal("add")) as number;
      return sum;
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("add", 5), h.signalJob("add", 5));
    expect(h.status).toBe("sleeping");
    await h.signal("add", 5);
    expect(h.output).toBe(15);
    await crashAnywhere(h);
  });
});

describe("M4 waitForSignal", () => {
  it("M4 waitForSignal pops the oldest buffered signal of its name", async () => {
    const wf = workflow("pops", async (ctx) => {
      await ctx.step("work", () => 0);
      return [await ctx.waitForSignal("a"), await ctx.waitForSignal("a")];
    });
    const h = await Harness.start(wf);
    await h.signal("b", "other");
    await h.signal("a", "old");
    await h.signal("a", "new");
    await h.resolve("work");
    expect(h.output).toEqual(["old", "new"]);
    await crashAnywhere(h);
  });

  it("M4 X5 it does not pause if there is one: the unit keeps the turn", async () => {
    const order: string[] = [];
    const wf = workflow("keeps the turn", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.parallel([
        async (branch) => {
          order.push("first waits");
          await branch.waitForSignal("a");
          order.push("first goes on");
        },
        async () => void order.push("second"),
      ]);
    });
    const h = await Harness.start(wf);
    await h.signal("a");
    await h.resolve("work");
    expect(order).toEqual(["first waits", "first goes on", "second"]);
  });

  it("M4 Y7 a wait that did not pause leaves a record too, with what it consumed", async () => {
    const h = new Harness(workflow("records", async (ctx) => ctx.waitForSignal("a", { timeout: "1h" })));
    const commands = await h.start(undefined, h.signalJob("a", 1, { id: "msg" }));
    expect(commands).toMatchObject([
      { type: "signal", names: ["a"] },
      { type: "settle", status: "completed", messages: ["msg"] },
      { type: "complete" },
    ]);
    expect(h.timers.size).toBe(0);
  });

  const timed = workflow("timed", async (ctx) => {
    const first = await ctx.waitForSignal("a", { timeout: "1h" });
    await ctx.step("work", () => 0);
    const second = await ctx.waitForSignal("a", { timeout: "1h" });
    return [first, second];
  });

  it("M4 with a timeout it says timedOut, and a signal that arrives later stays buffered", async () => {
    const h = await Harness.start(timed);
    await h.fire();
    await h.signal("a", "late");
    await h.resolve("work");
    expect(h.output).toEqual([{ timedOut: true }, { timedOut: false, payload: "late" }]);
    await crashAnywhere(h);
  });

  it("M4 R8 a signal that arrives with the timeout, and before it, wins; the timeout is dropped", async () => {
    const h = await Harness.start(timed);
    const seq = h.nextTimer as number;
    await h.turn(h.signalJob("a", "in time"), { type: "fire", seq });
    await h.resolve("work");
    await h.fire();
    expect(h.output).toEqual([{ timedOut: false, payload: "in time" }, { timedOut: true }]);
    await crashAnywhere(h);
  });

  it("M4 R8 a signal that arrives with the timeout, but after it, stays buffered", async () => {
    const h = await Harness.start(timed);
    const seq = h.nextTimer as number;
    await h.turn({ type: "fire", seq }, h.signalJob("a", "too late"));
    await h.resolve("work");
    expect(h.output).toEqual([{ timedOut: true }, { timedOut: false, payload: "too late" }]);
    await crashAnywhere(h);
  });

  it("M4 a payload of undefined is not a timeout", async () => {
    const h = new Harness(workflow("void", async (ctx) => ctx.waitForSignal("a", { timeout: 1 })));
    await h.start(undefined, h.signalJob("a"));
    expect(h.output).toEqual({ timedOut: false, payload: undefined });
  });
});

describe("M5 listen", () => {
  it("M5 listen takes up to count buffered signals of any of the names in global arrival order", async () => {
    const wf = workflow("listens", async (ctx) => {
      await ctx.step("work", () => 0);
      const batch = await ctx.listen(["c", "a"], { count: 3 });
      const rest = await ctx.listen(["a", "b", "c"], { count: 10 });
      return [batch, rest].map((signals) => signals.map(({ name, payload }) => `${name}${payload}`).join(" "));
    });
    const h = await Harness.start(wf);
    for (const [i, name] of ["a", "b", "c", "a", "c"].entries()) await h.signal(name, i);
    await h.resolve("work");
    expect(h.output).toEqual(["a0 c2 a3", "b1 c4"]);
    await crashAnywhere(h);
  });

  it("M5 it waits for the first, and not for count of them", async () => {
    const wf = workflow("listens", async (ctx) => ctx.listen(["a", "b"], { count: 5 }));
    const h = await Harness.start(wf);
    expect(h.status).toBe("sleeping");
    await h.signal("c", "no waiter's");
    expect(h.status).toBe("sleeping");
    await h.signal("b", 1);
    expect(h.output).toEqual([{ name: "b", payload: 1 }]);
  });

  it("M5 the first brings along what came with it in the same activation, in arrival order", async () => {
    const wf = workflow("listens", async (ctx) => ctx.listen(["a", "b"], { count: 3 }));
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("b", 1), h.signalJob("x"), h.signalJob("a", 2), h.signalJob("b", 3), h.signalJob("a", 4));
    expect(h.output).toEqual([
      { name: "b", payload: 1 },
      { name: "a", payload: 2 },
      { name: "b", payload: 3 },
    ]);
    await crashAnywhere(h);
  });

  it("M5 without a count it takes one", async () => {
    const wf = workflow("listens", async (ctx) => [await ctx.listen(["a"]), await ctx.listen(["a"])]);
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("a", 1), h.signalJob("a", 2));
    expect(h.output).toEqual([[{ name: "a", payload: 1 }], [{ name: "a", payload: 2 }]]);
  });

  it("M5 with a timeout it comes back with nothing", async () => {
    const wf = workflow("listens", async (ctx) => ctx.listen(["a", "b"], { count: 2, timeout: "5m" }));
    const h = await Harness.start(wf);
    await h.fire();
    expect(h.output).toEqual([]);
    await crashAnywhere(h);
  });

  it.each([
    [[], undefined],
    [["a"], 0],
    [["a"], 1.5],
  ] as const)("M5 listen(%j, count %s) is bad input, and says so", async (names, count) => {
    const wf = workflow("listens", async (ctx) => ctx.listen(names, count === undefined ? {} : { count }));
    expect((await Harness.start(wf)).error).toMatchObject({ name: "InvalidInputError" });
  });
});

describe("M6 several waiters", () => {
  const two = workflow("two waiters", async (ctx) => {
    const [one, other] = await ctx.parallel([async (a) => a.waitForSignal("go"), async (b) => b.waitForSignal("go")]);
    return [one, other].map((result) => (result?.status === "fulfilled" ? result.value : "failed"));
  });

  it("M6 of two waiters for one name, one signal in an activation serves the one who began first", async () => {
    const h = await Harness.start(two);
    const commands = await h.signal("go", 1);
    expect(settles(commands)).toHaveLength(1);
    await h.signal("go", 2);
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });

  it("M6 two signals in one activation serve both, in order", async () => {
    const h = await Harness.start(two);
    await h.turn(h.signalJob("go", 1), h.signalJob("go", 2));
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });

  it("M6 the wait that began first counts, not the one that comes first in the code", async () => {
    const wf = workflow("slow starter", async (ctx) => {
      const results = await ctx.parallel([
        async (a) => {
          await a.step("slow", () => 0);
          return a.waitForSignal("go");
        },
        async (b) => b.waitForSignal("go"),
      ]);
      return results.map((result) => (result.status === "fulfilled" ? result.value : "failed"));
    });
    const h = await Harness.start(wf);
    await h.resolve("slow");
    await h.turn(h.signalJob("go", "first"), h.signalJob("go", "second"));
    expect(h.output).toEqual(["second", "first"]);
    await crashAnywhere(h);
  });

  it("M6 M4 who begins to wait when the signal is there already does not jump the line", async () => {
    const wf = workflow("polite", async (ctx) => {
      const results = await ctx.parallel([
        async (a) => a.waitForSignal("go"),
        async (b) => {
          await b.step("slow", () => 0);
          return b.waitForSignal("go");
        },
      ]);
      return results.map((result) => (result.status === "fulfilled" ? result.value : "failed"));
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("go", "first"), h.resolved("slow"));
    await h.signal("go", "second");
    expect(h.output).toEqual(["first", "second"]);
    await crashAnywhere(h);
  });

  it("M6 M5 what a listen takes along is not what an earlier wait is for", async () => {
    const wf = workflow("polite", async (ctx) => {
      const results = await ctx.parallel([async (a) => a.waitForSignal("x"), async (b) => b.listen(["y", "x"], { count: 3 })]);
      return results.map((result) => (result.status === "fulfilled" ? result.value : "failed"));
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("y", 1), h.signalJob("x", 2));
    expect(h.output).toEqual([2, [{ name: "y", payload: 1 }]]);
    await crashAnywhere(h);
  });

  it("M6 M5 listen and waitForSignal stand in one line", async () => {
    const wf = workflow("one line", async (ctx) => {
      const results = await ctx.parallel([
        async (a) => a.listen(["x", "y"], { count: 3 }),
        async (b) => b.waitForSignal("x"),
        async (c) => c.waitForSignal("y"),
      ]);
      return results.map((result) => (result.status === "fulfilled" ? result.value : "failed"));
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("y", 1), h.signalJob("x", 2));
    await h.turn(h.signalJob("x", 3), h.signalJob("y", 4));
    expect(h.output).toEqual([
      [
        { name: "y", payload: 1 },
        { name: "x", payload: 2 },
      ],
      3,
      4,
    ]);
    await crashAnywhere(h);
  });

  it("M6 a waiter that timed out is no longer in line", async () => {
    const wf = workflow("times out", async (ctx) => {
      const results = await ctx.parallel([async (a) => a.waitForSignal("go", { timeout: "1m" }), async (b) => b.waitForSignal("go")]);
      return results.map((result) => (result.status === "fulfilled" ? result.value : "failed"));
    });
    const h = await Harness.start(wf);
    const seq = h.nextTimer as number;
    await h.turn({ type: "fire", seq }, h.signalJob("go", "for the second"));
    expect(h.output).toEqual([{ timedOut: true }, "for the second"]);
    await crashAnywhere(h);
  });

  it("M6 a waiter that lost a race is no longer in line", async () => {
    const wf = workflow("loses", async (ctx) => {
      const { winner } = await ctx.race("first", {
        signal: async (a) => a.waitForSignal("go"),
        step: async (b) => b.step("work", () => 0),
      });
      return [winner, await ctx.waitForSignal("go")];
    });
    const h = await Harness.start(wf);
    await h.resolve("work");
    await h.signal("go", "kept");
    expect(h.output).toEqual(["step", "kept"]);
    await crashAnywhere(h);
  });
});

describe("M7 exactly once", () => {
  const wf = workflow("takes", async (ctx) => {
    const first = await ctx.waitForSignal("a");
    await ctx.step("work", () => 0);
    return [first, await ctx.waitForSignal("a", { timeout: "1h" })];
  });

  it("M7 consumption is recorded in the turn that consumed", async () => {
    const h = await Harness.start(wf);
    const commands = await h.signal("a", 1, { id: "msg" });
    expect(settles(commands)).toMatchObject([{ messages: ["msg"] }]);
  });

  it("M7 a crash after that turn does not redeliver", async () => {
    const h = await Harness.start(wf);
    await h.signal("a", 1);
    await h.recover();
    await h.resolve("work");
    await h.fire();
    expect(h.output).toEqual([1, { timedOut: true }]);
  });

  it("M7 a crash before it redelivers", async () => {
    const h = await Harness.start(wf);
    const job = h.signalJob("a", 1);
    await h.executor.activate({ time: h.time, jobs: [job] }); // never committed
    await h.recover();
    await h.turn(job);
    await h.resolve("work");
    await h.fire();
    expect(h.output).toEqual([1, { timedOut: true }]);
    await crashAnywhere(h);
  });
});

describe("M13 signals that the receiver's schema refuses", () => {
  const wf = workflow("strict", async (ctx) => ctx.waitForSignal("a", { timeout: "1h" }));
  function recorder() {
    const warnings: string[] = [];
    const ignore = () => {};
    return { warnings, logger: { debug: ignore, info: ignore, error: ignore, warn: (message: string) => void warnings.push(message) } };
  }

  it("M13 it is recorded and logged, and not delivered; the run goes on", async () => {
    const { warnings, logger } = recorder();
    const h = await Harness.start(wf, undefined, { logger });
    await h.signal("a", "bad", { refused: "expected a number" });
    expect(h.status).toBe("sleeping");
    expect(h.turns.at(-1)?.jobs).toMatchObject([{ type: "signal", name: "a", refused: "expected a number" }]);
    expect(warnings).toEqual([expect.stringContaining("expected a number")]);

    await h.signal("a", "good");

    expect(h.output).toEqual({ timedOut: false, payload: "good" });
    await crashAnywhere(h);
  });

  it("M13 replay does not log it again", async () => {
    const { warnings, logger } = recorder();
    const h = await Harness.start(wf, undefined, { logger });
    await h.signal("a", "bad", { refused: "expected a number" });
    await h.recover();
    expect(warnings).toHaveLength(1);
  });

  it("M13 P10 it does not move to the next execution either", async () => {
    const h = new Harness(workflow("moves", async (ctx) => ctx.continueAsNew(undefined)));
    await h.start(undefined, h.signalJob("a", 1, { refused: "no" }), h.signalJob("b", 2));
    expect(h.terminal).toMatchObject({ signals: [{ name: "b" }] });
  });
});
