// Job: prove what becomes of signals, updates and queries: buffered, taken in order, accepted or rejected, answered.
// Owns: the workflows in it. What a receive does with messages is in receive.test.ts.
// Invariants: M1 to M11, M13, as far as the executor goes; durability and senders are the host's.
import { type Command, evaluateQuery, type Job, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);
const settles = (commands: readonly Command[]) => commands.filter((command) => command.type === "settle");

describe("M1 M2 M3 buffering", () => {
  it("M1 a signal that comes before anybody waits is not lost", async () => {
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
    for (const [name, payload] of [["a", 1], ["b", 2], ["c", 3], ["a", 4]] as const) await h.signal(name, payload);
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

  it("M4 Y7 a wait that did not pause leaves a record all the same, with what it took", async () => {
    const h = new Harness(workflow("records", async (ctx) => ctx.waitForSignal("a", { timeout: "1h" })));
    const commands = await h.start(undefined, h.signalJob("a", 1, { id: "msg" }));
    expect(commands).toMatchObject([{ type: "signal", names: ["a"] }, { type: "settle", status: "completed", messages: ["msg"] }, { type: "complete" }]);
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
    await h.signal("c", "nobody's");
    expect(h.status).toBe("sleeping");
    await h.signal("b", 1);
    expect(h.output).toEqual([{ name: "b", payload: 1 }]);
  });

  it("M5 the first brings along what came with it in the same activation, in arrival order", async () => {
    const wf = workflow("listens", async (ctx) => ctx.listen(["a", "b"], { count: 3 }));
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("b", 1), h.signalJob("x"), h.signalJob("a", 2), h.signalJob("b", 3), h.signalJob("a", 4));
    expect(h.output).toEqual([{ name: "b", payload: 1 }, { name: "a", payload: 2 }, { name: "b", payload: 3 }]);
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

  it.each([[[], undefined], [["a"], 0], [["a"], 1.5]] as const)("M5 listen(%j, count %s) is bad input, and says so", async (names, count) => {
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

  it("M6 what counts is who began to wait first, not who comes first in the code", async () => {
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
    expect(h.output).toEqual([[{ name: "y", payload: 1 }, { name: "x", payload: 2 }], 3, 4]);
    await crashAnywhere(h);
  });

  it("M6 a waiter that timed out is no longer in line", async () => {
    const wf = workflow("gives up", async (ctx) => {
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
      const { winner } = await ctx.race("first", { signal: async (a) => a.waitForSignal("go"), step: async (b) => b.step("work", () => 0) });
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

describe("M8 updates that nobody accepts", () => {
  const worker = workflow("worker", async (ctx) => {
    await ctx.step("work", () => 0);
    return ctx.random();
  });

  it("M8 an update that no receive accepts by the end of the activation is rejected, and nothing enters history", async () => {
    const h = await Harness.start(worker);
    const before = h.turns.length;
    expect(await h.update("change", 1, "u")).toEqual([]);
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError", update: "change" } });
    expect(h.turns).toHaveLength(before);
    await h.resolve("work");
    await crashAnywhere(h);
  });

  it("M8 rejected beside other jobs, it leaves no trace among them", async () => {
    const h = await Harness.start(worker);
    await h.turn(h.updateJob("change", 1, "u"), h.resolved("work"));
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    expect(h.turns.flatMap((turn) => turn.jobs).map((job) => job.type)).toEqual(["start", "resolve"]);
    await crashAnywhere(h);
  });

  it("M8 a receive that does not handle its name rejects it", async () => {
    const wf = workflow("other", async (ctx) => ctx.receive(0, { updates: { known: (_input, state) => Receive.reply(1, state) } }));
    const h = await Harness.start(wf);
    await h.update("unknown", 1, "u");
    await h.update("toString", 1, "v");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    expect(h.updateResult("v")).toMatchObject({ error: { name: "UpdateRejectedError" } });
  });

  it("M8 it is not kept for a receive of a later activation", async () => {
    const wf = workflow("later", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.receive(0, { updates: { change: () => Receive.stop("changed", 1) } });
    });
    const h = await Harness.start(wf);
    await h.update("change", 1, "early");
    await h.resolve("work");
    expect(h.status).toBe("sleeping");
    await h.update("change", 1, "late");
    expect(h.updateResult("late")).toEqual({ value: "changed" });
    expect(h.status).toBe("completed");
  });

  const opens = workflow("opens", async (ctx) => {
    await ctx.step("work", () => 0);
    const { state } = await ctx.receive(0, { updates: { change: (input: number) => Receive.stop(`got ${input}`, input) } });
    return state;
  });

  it("M8 a receive that opens later in the same activation accepts it", async () => {
    const h = await Harness.start(opens);
    await h.turn(h.updateJob("change", 7, "u"), h.resolved("work"));
    expect(h.updateResult("u")).toEqual({ value: "got 7" });
    expect(h.output).toBe(7);
    await crashAnywhere(h);
  });

  it("M8 updates sent with start are delivered in the first activation", async () => {
    const wf = workflow("eager", async (ctx) => (await ctx.receive(0, { updates: { change: (input: number) => Receive.stop("ok", input) } })).state);
    const h = new Harness(wf);
    await h.start(undefined, h.updateJob("change", 7, "u"));
    expect(h.updateResult("u")).toEqual({ value: "ok" });
    expect(h.output).toBe(7);
    await crashAnywhere(h);
  });

  it("M8 an update that comes with the end of the run is rejected", async () => {
    const h = await Harness.start(worker);
    await h.turn(h.resolved("work"), h.updateJob("change", 1, "u"));
    expect(h.status).toBe("completed");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
  });
});

describe("M9 validators", () => {
  /** Refuses what is negative; keeps a sum; says what the validator saw. */
  function adder() {
    const validated: [input: number, state: number][] = [];
    const wf = workflow("adder", async (ctx) => {
      const { state } = await ctx.receive(0, {
        updates: {
          add: {
            validate: (input: number, state: number) => {
              validated.push([input, state]);
              if (input < 0) throw new RangeError("must not be negative");
            },
            handle: async (input: number, state: number, handler) => {
              const fee = await handler.step("fee", () => 1);
              return Receive.reply(handler.uuid(), state + input + fee);
            },
          },
        },
        signals: { stop: (_payload, state) => Receive.stop(state) },
      });
      return [state, ctx.uuid()];
    });
    return { wf, validated };
  }

  it("M9 a validator that throws rejects the update with its reason; its handler does not run", async () => {
    const { wf } = adder();
    const h = await Harness.start(wf);
    expect(await h.update("add", -1, "u")).toEqual([]);
    const result = h.updateResult("u") as { error: Error };
    expect(result.error).toMatchObject({ name: "UpdateRejectedError", cause: { name: "RangeError" } });
    expect(result.error.message).toContain("must not be negative");
    await h.signal("stop");
    expect(h.output).toMatchObject([0, expect.any(String)]);
  });

  it("M9 a rejection leaves no trace: the run goes on as if the update had never been sent", async () => {
    const transcripts: unknown[] = [];
    for (const disturbed of [false, true]) {
      const { wf } = adder();
      const h = await Harness.start(wf);
      if (disturbed) await h.update("add", -1, "bad1");
      const jobs: Job[] = [h.updateJob("add", 1, "good")];
      await h.turn(...(disturbed ? [h.updateJob("add", -2, "bad2"), ...jobs, h.updateJob("add", -3, "bad3")] : jobs));
      if (disturbed) await h.update("add", -4, "bad4"); // while the handler is running
      await h.resolve("fee", 1);
      await h.signal("stop", undefined, { id: "stop" });
      transcripts.push(h.turns.map(({ historyLength: _, ...turn }) => turn));
      await crashAnywhere(h);
    }
    expect(transcripts[1]).toEqual(transcripts[0]);
  });

  it("M9 an update that passes runs its validator once, before acceptance, with the committed state", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.update("add", 5);
    await h.update("add", 6); // the handler of the first is running: its change has not ended
    await h.resolve("fee", 1);
    await h.resolve("receive/~h1/fee", 1);
    await h.update("add", 7);
    expect(validated).toEqual([[5, 0], [6, 0], [7, 13]]);
  });

  it("M9 the committed state includes what an async handler has written", async () => {
    const seen: unknown[] = [];
    const wf = workflow("async", async (ctx) =>
      ctx.receive(0, {
        updates: {
          write: (_input, state) =>
            Receive.async(async (handler) => {
              await handler.updateState((current) => [0, current + 10]);
              await handler.step("slow", () => 0);
            }, state),
          check: { validate: (_input, state) => void seen.push(state), handle: (_input, state) => Receive.reply(state, state) },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("write");
    await h.update("check");
    expect(seen).toEqual([10]);
  });

  it("M9 replay runs no validator", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.update("add", 1);
    await h.update("add", -1);
    await h.recover();
    expect(validated).toHaveLength(2);
    expect(h.executor.openOperations.length).toBeGreaterThan(0);
  });

  it("M9 an update that was accepted stays accepted where the validator has become stricter", async () => {
    const h = await Harness.start(adder().wf);
    await h.update("add", 1, "u");
    const strict = workflow("adder", async (ctx) => {
      const { state } = await ctx.receive(0, {
        updates: {
          add: {
            validate: () => {
              throw new Error("no more");
            },
            handle: async (input: number, state: number, handler) => Receive.reply("old", state + input + (await handler.step("fee", () => 1))),
          },
        },
        signals: { stop: (_payload, state) => Receive.stop(state) },
      });
      return state;
    });
    await h.recover(strict);
    await h.resolve("fee", 1);
    expect(h.updateResult("u")).toEqual({ value: "old" });
  });

  it("M9 a host that knows of the acceptance may say so: then no validator runs", async () => {
    const { wf, validated } = adder();
    const h = await Harness.start(wf);
    await h.turn({ type: "update", id: "u", name: "add", input: "-5", validate: false });
    expect(validated).toEqual([]);
    expect(h.openLocations).toEqual(["receive/~h0/fee"]);
  });

  it("M9 a validator is synchronous: one that returns a promise breaks the rules", async () => {
    const wf = workflow("async validator", async (ctx) =>
      ctx.receive(0, { updates: { add: { validate: (async () => {}) as () => void, handle: () => Receive.reply(0, 0) } } }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("add")).rejects.toMatchObject({ name: "IllegalReturnError" });
  });

  it("M9 a validator may not use a ctx", async () => {
    const wf = workflow("draws", async (ctx) =>
      ctx.receive(0, { updates: { add: { validate: () => void ctx.random(), handle: () => Receive.reply(0, 0) } } }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("add")).rejects.toMatchObject({ name: "IllegalCallError", call: "random" });
  });
});

describe("M10 outcomes of updates", () => {
  const wf = workflow("saves", async (ctx) =>
    ctx.receive(0, {
      updates: {
        save: async (input: number, state: number, handler) => {
          const saved = await handler.step("save", () => input);
          return Receive.reply(saved, state + 1);
        },
      },
    }),
  );

  it("M10 an update is accepted in history before its handler runs", async () => {
    const h = await Harness.start(wf);
    const commands = await h.update("save", 1, "u");
    expect(types(commands)).toEqual(["acceptUpdate", "dispatch", "step"]);
    expect(h.updateResult("u")).toBeUndefined();
  });

  it("M10 its outcome is recorded with the turn that ends the handler", async () => {
    const h = await Harness.start(wf);
    await h.update("save", 1, "u");
    await h.recover();
    const commands = await h.resolve("save", "saved");
    expect(commands).toMatchObject([{ type: "completeUpdate", id: "u", status: "completed", value: '"saved"' }]);
    await crashAnywhere(h);
  });

  it("M10 a failure is an outcome too, and replay gives the same", async () => {
    const h = await Harness.start(wf);
    await h.update("save", 1, "u");
    const commands = await h.fail("save", new Error("disk full"));
    expect(commands).toMatchObject([{ type: "completeUpdate", id: "u", status: "failed", error: { name: "StepFailedError" } }]);
    await h.recover();
    await crashAnywhere(h);
  });
});

describe("M11 queries", () => {
  const account = workflow(
    {
      name: "account",
      queries: {
        balance: (state: { balance: number } | undefined) => state?.balance,
        above: (state: { balance: number }, args: { limit: number }) => state.balance > args.limit,
        broken: () => {
          throw new TypeError("no such thing");
        },
        mutates: (state: { balance: number }) => ++state.balance,
        unencodable: () => () => 1,
      },
    },
    async (ctx) => {
      let hidden = 1;
      ctx.publishState({ balance: 10 });
      await ctx.step("work", () => 0);
      hidden++;
      ctx.publishState({ balance: 20 + hidden });
    },
  );
  const answer = (h: Harness, id: string) => {
    const found = h.answers.find((one) => one.id === id);
    return found?.type === "answerQuery" ? { value: h.codec.decode(found.value) } : found;
  };

  it("M11 a query sees the published state, and its arguments", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("balance", undefined, "q1"), h.queryJob("above", { limit: 5 }, "q2"));
    expect(answer(h, "q1")).toEqual({ value: 10 });
    expect(answer(h, "q2")).toEqual({ value: true });
  });

  it("M11 a query never writes and never advances a unit: no command, no record", async () => {
    const h = await Harness.start(account);
    const turns = h.turns.length;
    const commands = await h.turn(h.queryJob("balance"), h.queryJob("mutates"), h.queryJob("broken"));
    expect(commands).toEqual([]);
    expect(h.turns).toHaveLength(turns);
    await h.turn(h.queryJob("balance", undefined, "q"));
    expect(answer(h, "q")).toEqual({ value: 10 });
    await h.resolve("work");
    await crashAnywhere(h);
  });

  it("M11 a condition that would hold by now is not read for a query", async () => {
    let ready = false;
    const wf = workflow({ name: "waits", queries: { ping: () => "pong" } }, async (ctx) => ctx.condition(() => ready));
    const h = await Harness.start(wf);
    ready = true;
    expect(await h.turn(h.queryJob("ping"))).toEqual([]);
    expect(h.status).toBe("sleeping");
  });

  it("M11 X6 a query that comes with other jobs is answered after them, with what they published", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("balance", undefined, "q"), h.resolved("work"));
    expect(answer(h, "q")).toEqual({ value: 22 });
    expect(h.turns.flatMap((turn) => turn.jobs).map((job) => job.type)).toEqual(["start", "resolve"]);
    await crashAnywhere(h);
  });

  it("M11 the asking process evaluates it with its own definition, for open and for closed runs", async () => {
    const h = await Harness.start(account);
    expect(evaluateQuery(account, "balance", h.published, undefined)).toBe(10);
    await h.resolve("work");
    expect(h.status).toBe("completed");
    expect(evaluateQuery(account, "balance", h.published, undefined)).toBe(22);
    await h.turn(h.queryJob("balance", undefined, "q"));
    expect(answer(h, "q")).toEqual({ value: 22 });
    const newer = workflow({ name: "account", queries: { doubled: (state: { balance: number }) => state.balance * 2 } }, async () => 0);
    expect(evaluateQuery(newer, "doubled", h.published, undefined)).toBe(44);
  });

  it("M11 before anything was published a query gets undefined", async () => {
    expect(evaluateQuery(account, "balance", undefined, undefined)).toBeUndefined();
  });

  it("M11 each query gets a state of its own: what one does to it no other sees", async () => {
    const h = await Harness.start(account);
    expect(evaluateQuery(account, "mutates", h.published, undefined)).toBe(11);
    expect(evaluateQuery(account, "mutates", h.published, undefined)).toBe(11);
  });

  it.each(["unknown", "toString", "broken"])("M11 a query that is unknown or throws is a QueryFailedError: %s", async (name) => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob(name, undefined, "q"));
    expect(answer(h, "q")).toMatchObject({ type: "failQuery", error: { name: "QueryFailedError" } });
    expect(() => evaluateQuery(account, name, h.published, undefined)).toThrow(expect.objectContaining({ name: "QueryFailedError", query: name }));
    await h.resolve("work");
    expect(h.status).toBe("completed");
  });

  it("M11 P8 an answer that can't be encoded fails the query, not the run", async () => {
    const h = await Harness.start(account);
    await h.turn(h.queryJob("unencodable", undefined, "q"));
    expect(answer(h, "q")).toMatchObject({ type: "failQuery" });
    await h.resolve("work");
    expect(h.status).toBe("completed");
  });

  it("M11 a query after recovery sees the same state", async () => {
    const h = await Harness.start(account);
    await h.recover();
    expect(h.executor.query("balance", undefined)).toBe(10);
  });
});

describe("M13 signals that the receiver's schema refuses", () => {
  const wf = workflow("strict", async (ctx) => ctx.waitForSignal("a", { timeout: "1h" }));
  function recorder() {
    const warnings: string[] = [];
    const ignore = () => {};
    return { warnings, logger: { debug: ignore, info: ignore, error: ignore, warn: (message: string) => void warnings.push(message) } };
  }

  it("M13 it is recorded, logged and delivered to nobody; the run goes on", async () => {
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
