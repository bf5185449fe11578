// Job: prove how a receive dispatches messages to its handlers, one after the other.
// Owns: the workflows in it. How it ends is in receive-ends.test.ts, checkpoints are in receive-checkpoint.test.ts.
// Invariants: R1 to R4 and R7.
import { type Command, IllegalReturnError, Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

/** Collects what comes: `a` and `b` at once, `slow` with a step, `end` stops. Updates `read` and `save` (with a step). */
const collector = workflow("collector", async (ctx) =>
  ctx.receive([] as unknown[], {
    signals: {
      a: (payload, all) => Receive.noreply([...all, `a${payload}`]),
      b: (payload, all) => Receive.noreply([...all, `b${payload}`]),
      slow: async (payload, all, handler) => Receive.noreply([...all, await handler.step("work", () => payload)]),
      end: (_payload, all) => Receive.stop(all),
    },
    updates: {
      read: (_input, all) => Receive.reply([...all], all),
      save: async (input, all, handler) => Receive.reply("saved", [...all, await handler.step("work", () => input)]),
      finish: (_input, all) => Receive.stop("finished", all),
    },
  }),
);

describe("R1 the loop", () => {
  it("R1 dispatches matching messages to handlers until one stops it, and returns the state", async () => {
    const h = await Harness.start(collector);
    await h.signal("a", 1);
    await h.update("read", undefined, "u");
    await h.signal("b", 2);
    await h.signal("end");
    expect(h.updateResult("u")).toEqual({ value: ["a1"] });
    expect(h.output).toEqual({ state: ["a1", "b2"], timedOut: false });
    await crashAnywhere(h);
  });

  const timed = workflow("timed", async (ctx) =>
    ctx.receive(0, { signals: { add: (payload: number, sum) => Receive.noreply(sum + payload) }, timeout: "1h" }),
  );

  it("R1 or until the timeout fires: then it says timedOut, with the state so far", async () => {
    const h = await Harness.start(timed);
    await h.signal("add", 3);
    await h.fire();
    expect(h.output).toEqual({ state: 3, timedOut: true });
    await crashAnywhere(h);
  });

  it("R1 messages that no handler matches are left alone", async () => {
    const h = await Harness.start(timed);
    await h.signal("other");
    await h.signal("toString");
    expect(types(h.commands)).toEqual(["receive"]);
    await crashAnywhere(h);
  });

  it("R1 one receive is open at a time", async () => {
    const wf = workflow("twice", async (ctx) => Promise.all([ctx.receive(0, {}), ctx.receive(0, {})]));
    await expect(Harness.start(wf)).rejects.toMatchObject({ name: "IllegalCallError", call: "receive" });
  });

  it("R1 the next one may follow, with its own state", async () => {
    const wf = workflow("phases", async (ctx) => {
      const first = await ctx.receive("x", { signals: { next: (_payload, state) => Receive.stop(`${state}1`) } });
      const second = await ctx.receive("y", { signals: { next: (_payload, state) => Receive.stop(`${state}2`) } });
      return [first.state, second.state];
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("next"), h.signalJob("next"));
    expect(h.output).toEqual(["x1", "y2"]);
    await crashAnywhere(h);
  });
});

describe("R2 entry", () => {
  it("R2 buffered signals that match are dispatched first, in global arrival order; the others keep their place", async () => {
    const wf = workflow("entry", async (ctx) => {
      await ctx.step("work", () => 0);
      const { state } = await ctx.receive([] as string[], {
        signals: {
          b: (payload, all) => Receive.noreply([...all, `b${payload}`]),
          a: (payload, all) => Receive.noreply([...all, `a${payload}`]),
          end: (_payload, all) => Receive.stop(all),
        },
      });
      const rest = await ctx.listen(["x", "y"], { count: 10 });
      return [state, rest.map(({ name, payload }) => `${name}${payload}`)];
    });
    const h = await Harness.start(wf);
    for (const [i, name] of ["a", "y", "b", "x", "a"].entries()) await h.signal(name, i);
    await h.resolve("work");
    await h.turn(h.signalJob("y", 5), h.signalJob("end"));
    expect(h.output).toEqual([
      ["a0", "b2", "a4"],
      ["y1", "x3", "y5"],
    ]);
    await crashAnywhere(h);
  });

  it("R2 buffered signals go before an update of the activation that opens it", async () => {
    const wf = workflow("entry", async (ctx) => {
      await ctx.step("work", () => 0);
      await ctx.receive(0, {
        signals: { add: (payload: number, sum) => Receive.noreply(sum + payload) },
        updates: { read: (_input, sum) => Receive.reply(sum, sum) },
      });
    });
    const h = await Harness.start(wf);
    await h.signal("add", 1);
    await h.turn(h.signalJob("add", 10), h.updateJob("read", undefined, "u"), h.signalJob("add", 100), h.resolved("work"));
    expect(h.updateResult("u")).toEqual({ value: 11 });
    await crashAnywhere(h);
  });
});

describe("R3 sync handlers", () => {
  it("R3 a sync handler is its own unit, numbered by dispatch", async () => {
    const h = await Harness.start(collector);
    await h.signal("a", 1);
    await h.signal("slow", 2);
    expect(h.openLocations).toEqual(["receive/~h1/work"]);
    expect(h.commands).toContainEqual(expect.objectContaining({ type: "dispatch", unit: "receive/~h1" }));
  });

  it("R3 the next message is dispatched only after it ended, in arrival order", async () => {
    const h = await Harness.start(collector);
    await h.turn(h.signalJob("slow", 1), h.signalJob("a", 2));
    await h.signal("b", 3);
    await h.signal("a", 4);
    expect(h.commands.filter((command) => command.type === "dispatch")).toHaveLength(1);
    await h.resolve("work", "slow1");
    await h.signal("end");
    expect(h.output).toEqual({ state: ["slow1", "a2", "b3", "a4"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R3 it may use blocking operations: parallel, loops, timers, waits for other names", async () => {
    const wf = workflow("busy handler", async (ctx) =>
      ctx.receive([] as unknown[], {
        signals: {
          go: async (_payload, all, handler) => {
            const both = await handler.parallel([async (b) => b.step("left", () => 0), async (b) => b.step("right", () => 0)]);
            const count = await handler.loop({ name: "rounds", state: 0, commitInterval: 1 }, async (body, i) => {
              await body.step("round", () => 0);
              return i === 1 ? Loop.break(i) : Loop.continue(i + 1);
            });
            await handler.sleep("nap", "1m");
            const extra = await handler.waitForSignal("extra");
            return Receive.stop([...all, ...both.map((result) => (result.status === "fulfilled" ? result.value : "")), count, extra]);
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("go");
    await h.resolve("receive/~h0/parallel/~1/right", "R");
    await h.resolve("receive/~h0/parallel/~0/left", "L");
    await h.resolve("receive/~h0/rounds/~0/round");
    await h.resolve("receive/~h0/rounds/~1/round");
    await h.fire("nap");
    await h.signal("extra", "more");
    expect(h.output).toEqual({ state: ["L", "R", 1, "more"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R3 P3 a handler that returned is not over while its own step is outstanding", async () => {
    const wf = workflow("hasty", async (ctx) =>
      ctx.receive([] as string[], {
        signals: {
          go: (_payload, all, handler) => {
            void handler.step("left behind", () => 0);
            return Receive.noreply([...all, "go"]);
          },
          end: (_payload, all) => Receive.stop([...all, "end"]),
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("go");
    await h.signal("end");
    expect(h.status).toBe("sleeping");
    await h.resolve("left behind");
    expect(h.output).toEqual({ state: ["go", "end"], timedOut: false });
    await crashAnywhere(h);
  });
});

describe("R4 what handlers return", () => {
  it("R4 the ways of a signal handler: noreply, stop", async () => {
    const h = await Harness.start(collector);
    await h.signal("a", 1);
    expect(h.status).toBe("sleeping");
    await h.signal("end");
    expect(h.output).toMatchObject({ state: ["a1"] });
  });

  it("R4 the ways of an update handler: reply, stop with a value", async () => {
    const h = await Harness.start(collector);
    await h.update("read", undefined, "u1");
    expect(h.status).toBe("sleeping");
    await h.update("finish", undefined, "u2");
    expect([h.updateResult("u1"), h.updateResult("u2")]).toEqual([{ value: [] }, { value: "finished" }]);
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("R4 an update that stops with undefined gets undefined", async () => {
    const wf = workflow("void", async (ctx) => ctx.receive(0, { updates: { stop: () => Receive.stop(undefined, 7) } }));
    const h = await Harness.start(wf);
    await h.update("stop", undefined, "u");
    expect(h.updateResult("u")).toEqual({ value: undefined });
    expect(h.output).toEqual({ state: 7, timedOut: false });
  });

  const illegal: [what: string, signal: unknown, update: unknown][] = [
    ["nothing", undefined, undefined],
    ["a bare state", { count: 1 }, 5],
    ["the result of the other kind", Receive.reply(1, 0), Receive.noreply(0)],
    ["a stop of the other kind", Receive.stop(1, 0), Receive.stop(0)],
    ["an async without a function", { result: "async", state: 0 }, { result: "async", state: 0, fn: 1 }],
  ];
  it.each(illegal)(
    "R4 V4 %s is an IllegalReturnError from a signal handler: the turn fails, the run is unharmed",
    async (_what, result) => {
      const wf = workflow("illegal", async (ctx) => ctx.receive(0, { signals: { go: () => result as never } }));
      const h = await Harness.start(wf);
      await expect(h.signal("go")).rejects.toBeInstanceOf(IllegalReturnError);
      expect(h.status).toBe("sleeping");
      expect(h.turns).toHaveLength(1);
      const fixed = workflow("illegal", async (ctx) => ctx.receive(0, { signals: { go: () => Receive.stop(1) } }));
      await h.recover(fixed);
      await h.signal("go");
      expect(h.output).toEqual({ state: 1, timedOut: false });
    },
  );
  it.each(illegal)("R4 %s is an IllegalReturnError from an update handler", async (_what, _signal, result) => {
    const wf = workflow("illegal", async (ctx) => ctx.receive(0, { updates: { go: () => result as never } }));
    const h = await Harness.start(wf);
    await expect(h.update("go")).rejects.toThrow(/Receive\.reply\(value, state\), stop\(value, state\) or async/);
  });
});

describe("R7 updates beside a busy handler", () => {
  it("R7 an update that arrives while a sync handler is running is accepted at the end of that activation", async () => {
    const h = await Harness.start(collector);
    await h.signal("slow", 1);
    const commands = await h.update("read", undefined, "u");
    expect(commands).toMatchObject([{ type: "acceptUpdate", id: "u" }]);
    expect(h.updateResult("u")).toBeUndefined();
    await h.resolve("work", "slow1");
    expect(h.updateResult("u")).toEqual({ value: ["slow1"] });
    await crashAnywhere(h);
  });

  it("R7 it is queued in arrival order with signals", async () => {
    const h = await Harness.start(collector);
    await h.signal("slow", 1);
    await h.signal("a", 1);
    await h.turn(h.updateJob("read", undefined, "u1"), h.signalJob("b", 2), h.updateJob("read", undefined, "u2"));
    await h.signal("a", 3);
    await h.update("read", undefined, "u3");
    await h.resolve("work", "s");
    expect(["u1", "u2", "u3"].map((id) => h.updateResult(id))).toEqual([
      { value: ["s", "a1"] },
      { value: ["s", "a1", "b2"] },
      { value: ["s", "a1", "b2", "a3"] },
    ]);
    await crashAnywhere(h);
  });

  it("R7 if the handler ends in the same activation, it is dispatched there", async () => {
    const h = await Harness.start(collector);
    await h.signal("slow", 1);
    const commands = await h.turn(h.updateJob("read", undefined, "u"), h.resolved("work", "s"));
    expect(types(commands)).toEqual(["acceptUpdate", "dispatch", "completeUpdate"]);
    expect(h.updateResult("u")).toEqual({ value: ["s"] });
    await crashAnywhere(h);
  });

  it("R7 several that wait run one after the other", async () => {
    const h = await Harness.start(collector);
    await h.turn(h.updateJob("save", 1, "u1"), h.updateJob("save", 2, "u2"), h.updateJob("save", 3, "u3"));
    expect(h.openLocations).toEqual(["receive/~h0/work"]);
    expect(h.commands.filter((command) => command.type === "acceptUpdate").map((command) => command.id)).toEqual(["u1", "u2", "u3"]);
    await h.resolve("work", 1);
    expect(h.openLocations).toEqual(["receive/~h1/work"]);
    await h.resolve("work", 2);
    await h.resolve("work", 3);
    await h.signal("end");
    expect(h.output).toEqual({ state: [1, 2, 3], timedOut: false });
    await crashAnywhere(h);
  });

  it("R7 M8 one that it does not handle is still rejected at once", async () => {
    const h = await Harness.start(collector);
    await h.signal("slow", 1);
    expect(await h.update("unknown", undefined, "u")).toEqual([]);
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
  });

  it("R7 M9 one that its validator refuses is rejected without a trace", async () => {
    const wf = workflow("strict", async (ctx) =>
      ctx.receive(0, {
        signals: {
          slow: async (_payload, state, handler) => {
            await handler.step("work", () => 0);
            return Receive.noreply(state + 1);
          },
        },
        updates: {
          check: {
            validate: (_input, state: number) => {
              if (state === 0) throw new Error("not yet");
            },
            handle: (_input, state) => Receive.reply(state, state),
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("slow");
    expect(await h.update("check", undefined, "u1")).toEqual([]);
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    await h.resolve("work");
    await h.update("check", undefined, "u2");
    expect(h.updateResult("u2")).toEqual({ value: 1 });
    await crashAnywhere(h);
  });
});
