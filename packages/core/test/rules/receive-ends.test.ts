// Job: prove how a receive ends: by a stop, by its timeout, by a handler that throws; and what happens to messages then.
// Owns: the workflows in it.
// Invariants: R5, R6, R8 and R9.
import { type Command, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

describe("R5 R6 the stop", () => {
  it("R5 after a stop nothing more is dispatched", async () => {
    const wf = workflow("stops", async (ctx) => {
      const { state } = await ctx.receive([] as unknown[], {
        signals: { a: (payload, all) => Receive.noreply([...all, payload]), end: (_payload, all) => Receive.stop(all) },
      });
      return [state, await ctx.listen(["a", "end"], { count: 10 })];
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("a", 1), h.signalJob("end"), h.signalJob("a", 2), h.signalJob("end", 3));
    expect(h.output).toEqual([
      [1],
      [
        { name: "a", payload: 2 },
        { name: "end", payload: 3 },
      ],
    ]);
    await crashAnywhere(h);
  });

  it("R5 M8 an update that was not accepted by the time of the stop is rejected", async () => {
    const wf = workflow("stops", async (ctx) =>
      ctx.receive(0, {
        signals: { end: (_payload, state) => Receive.stop(state) },
        updates: { read: (_input, state) => Receive.reply(state, state) },
      }),
    );
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("end"), h.updateJob("read", undefined, "u"));
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    await crashAnywhere(h);
  });

  it("R5 M8 or accepted by the receive that opens after it in the same activation", async () => {
    const wf = workflow("phases", async (ctx) => {
      await ctx.receive(1, {
        signals: { next: (_payload, state) => Receive.stop(state) },
        updates: { read: (_input, state) => Receive.reply(state, state) },
      });
      await ctx.receive(2, { updates: { read: (_input, state) => Receive.reply(state, state) } });
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("next"), h.updateJob("read", undefined, "u"));
    expect(h.updateResult("u")).toEqual({ value: 2 });
    await crashAnywhere(h);
  });

  const twoPhases = workflow("two phases", async (ctx) => {
    await ctx.receive(0, {
      signals: {
        stop: async (_payload, state, handler) => {
          await handler.step("work", () => 0);
          return Receive.stop(state);
        },
        note: (_payload, state) => Receive.noreply(state + 1),
      },
      updates: { read: (_input, state) => Receive.reply(state, state) },
    });
    const { state } = await ctx.receive([] as unknown[], {
      signals: { note: (payload, all) => Receive.noreply([...all, payload]), end: (_payload, all) => Receive.stop(all) },
      updates: { read: (_input, state) => Receive.reply(state, state) },
    });
    return state;
  });

  it("R6 an update accepted and not yet dispatched when the receive closes fails with ReceiveClosedError", async () => {
    const h = await Harness.start(twoPhases);
    await h.signal("stop");
    await h.update("read", undefined, "u");
    expect(h.updateResult("u")).toBeUndefined();

    await h.resolve("work");

    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError", update: "read" } });
    await crashAnywhere(h);
  });

  it("R6 a signal in that place stays buffered, for the receive that comes next", async () => {
    const h = await Harness.start(twoPhases);
    await h.signal("stop");
    await h.turn(h.signalJob("note", 1), h.updateJob("read", undefined, "u"), h.signalJob("note", 2));
    await h.resolve("work");
    await h.signal("end");
    expect(h.output).toEqual([1, 2]);
    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    await crashAnywhere(h);
  });

  it("R6 the timeout closes it in the same way", async () => {
    const wf = workflow("times out", async (ctx) =>
      ctx.receive(0, {
        signals: {
          slow: async (_payload, state, handler) => {
            await handler.step("work", () => 0);
            return Receive.noreply(state);
          },
        },
        updates: { read: (_input, state) => Receive.reply(state, state) },
        timeout: "1m",
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("slow");
    await h.fire();
    await h.update("read", undefined, "u");
    await h.resolve("work");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    expect(h.output).toEqual({ state: 0, timedOut: true });
    await crashAnywhere(h);
  });

  it("R6 P3 so does a root that returns without awaiting it", async () => {
    const wf = workflow("hasty", async (ctx) => {
      void ctx.receive(0, {
        signals: {
          slow: async (_payload, state, handler) => {
            await handler.step("work", () => 0);
            return Receive.noreply(state);
          },
        },
        updates: { read: (_input, state) => Receive.reply(state, state) },
      });
      await ctx.step("main", () => 0);
      return "done";
    });
    const h = await Harness.start(wf);
    await h.signal("slow");
    await h.update("read", undefined, "u");
    await h.resolve("main");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    expect(h.status).toBe("sleeping"); // its handler is joined
    await h.resolve("work");
    expect(h.output).toBe("done");
    await crashAnywhere(h);
  });
});

describe("R8 the timeout", () => {
  const timed = workflow("timed", async (ctx) => {
    const first = await ctx.receive([] as unknown[], {
      signals: {
        a: (payload, all) => Receive.noreply([...all, payload]),
        slow: async (payload, all, handler) => Receive.noreply([...all, await handler.step("work", () => payload)]),
        stop: (_payload, all) => Receive.stop(all),
        slowStop: async (_payload, all, handler) => {
          await handler.step("work", () => 0);
          return Receive.stop(all);
        },
      },
      timeout: "1h",
    });
    return { ...first, rest: (await ctx.waitForSignal("a", { timeout: "1h" })).payload };
  });

  it("R8 what arrived before the timeout goes first", async () => {
    const h = await Harness.start(timed);
    await h.turn(h.signalJob("a", 1), { type: "fire", seq: h.nextTimer as number }, h.signalJob("a", 2));
    expect(h.output).toEqual({ state: [1], timedOut: true, rest: 2 });
    await crashAnywhere(h);
  });

  it("R8 behind a running handler it keeps its place among the messages", async () => {
    const h = await Harness.start(timed);
    const seq = h.nextTimer as number;
    await h.signal("slow", "s");
    await h.signal("a", 1);
    await h.turn({ type: "fire", seq });
    await h.signal("a", 2);
    expect(h.status).toBe("sleeping");
    await h.resolve("work", "s");
    expect(h.output).toEqual({ state: ["s", 1], timedOut: true, rest: 2 });
    await crashAnywhere(h);
  });

  it("R8 a stop that arrived before it wins", async () => {
    const h = await Harness.start(timed);
    await h.turn(h.signalJob("stop"), { type: "fire", seq: h.nextTimer as number });
    await h.signal("a", "rest");
    expect(h.output).toEqual({ state: [], timedOut: false, rest: "rest" });
    await crashAnywhere(h);
  });

  it("R8 a handler that was running when it fired, and stops, wins", async () => {
    const h = await Harness.start(timed);
    const seq = h.nextTimer as number;
    await h.signal("slowStop");
    await h.turn({ type: "fire", seq });
    await h.resolve("work");
    await h.signal("a", "rest");
    expect(h.output).toEqual({ state: [], timedOut: false, rest: "rest" });
    await crashAnywhere(h);
  });

  it("R8 it is a durable timer: it goes on after a crash", async () => {
    const h = await Harness.start(timed);
    await h.recover();
    await h.fire();
    await h.signal("a", "rest");
    expect(h.output).toMatchObject({ timedOut: true });
  });

  it("R8 it is cancelled when a handler stops the receive", async () => {
    const h = await Harness.start(timed);
    const [receive] = h.commands;
    const seq = receive !== undefined && "seq" in receive ? receive.seq : 0;
    expect(h.timers.has(seq)).toBe(true);
    await h.signal("stop");
    expect(h.commands).toContainEqual({ type: "settle", seq, status: "completed" });
    expect(h.timers.has(seq)).toBe(false);
  });
});

describe("R9 handlers that throw", () => {
  const fragile = workflow("fragile", async (ctx) => {
    try {
      return await ctx.receive(0, {
        signals: {
          bad: () => {
            throw new RangeError("bad signal");
          },
          slowBad: async (_payload, _state, handler) => {
            await handler.step("work", () => 0);
            throw new RangeError("bad signal");
          },
          async: (_payload, state) => Receive.async(async (handler) => void (await handler.step("background", () => 0)), state),
          end: (_payload, state) => Receive.stop(state),
        },
        updates: {
          add: (input: number, state) => Receive.reply(state + input, state + input),
          bad: async (_input, _state, handler) => {
            await handler.step("work", () => 0);
            throw new TypeError("bad update");
          },
        },
      });
    } catch (error) {
      return (error as Error).message;
    }
  });

  it("R9 an update fails for its caller, the state is unchanged, the loop goes on", async () => {
    const h = await Harness.start(fragile);
    await h.update("add", 1, "u1");
    await h.update("bad", undefined, "u2");
    await h.update("add", 1, "u3");
    await h.resolve("work");
    expect(h.updateResult("u2")).toMatchObject({ error: { name: "TypeError", message: "bad update" } });
    expect(h.updateResult("u3")).toEqual({ value: 2 });
    await h.signal("end");
    expect(h.output).toEqual({ state: 2, timedOut: false });
    await crashAnywhere(h);
  });

  it("R9 so does one whose operation failed", async () => {
    const h = await Harness.start(fragile);
    await h.update("bad", undefined, "u");
    await h.fail("work", new Error("disk full"));
    expect(h.updateResult("u")).toMatchObject({ error: { name: "StepFailedError" } });
    expect(h.status).toBe("sleeping");
    await crashAnywhere(h);
  });

  it("R9 a signal's error is thrown from receive", async () => {
    const h = await Harness.start(fragile);
    await h.signal("bad");
    expect(h.output).toBe("bad signal");
    await crashAnywhere(h);
  });

  it("R9 after in-flight handlers ended", async () => {
    const h = await Harness.start(fragile);
    await h.signal("async");
    await h.signal("bad");
    expect(h.status).toBe("sleeping");
    await h.resolve("background");
    expect(h.output).toBe("bad signal");
    await crashAnywhere(h);
  });

  it("R9 R6 it closes the receive: nothing more is dispatched, accepted updates fail, signals stay", async () => {
    const h = await Harness.start(fragile);
    await h.signal("slowBad");
    await h.turn(h.updateJob("add", 1, "u"), h.signalJob("end"));
    const commands = await h.resolve("work");
    expect(types(commands)).not.toContain("dispatch");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "ReceiveClosedError" } });
    expect(h.output).toBe("bad signal");
    await crashAnywhere(h);
  });

  it("R9 a handler may throw what is not an Error", async () => {
    const wf = workflow("throws", async (ctx) =>
      ctx.receive(0, {
        updates: {
          bad: () => {
            throw "just text";
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("bad", undefined, "u");
    expect(h.updateResult("u")).toMatchObject({ error: { message: expect.stringContaining("just text") } });
    expect(h.status).toBe("sleeping");
  });
});
