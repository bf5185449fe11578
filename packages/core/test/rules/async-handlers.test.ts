// Job: prove what handlers that run beside their receive do: reply late, fail alone, end before it does.
// Owns: the workflows in it. How they change the state is in update-state.test.ts.
// Invariants: A1, A2, A5 and R5.
import { type Command, Loop, Receive, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const types = (commands: readonly Command[]) => commands.map((command) => command.type);

/** `work` runs beside: a step, then its input is added to the state. `hold` is a sync handler with a step. */
const account = workflow("account", async (ctx) =>
  ctx.receive([] as unknown[], {
    updates: {
      work: (input: string, log) =>
        Receive.async(
          async (handler) => {
            const done = await handler.step(input, () => 0);
            return handler.updateState((current) => [`${done} after ${current.length}`, [...current, done]]);
          },
          [...log, `began ${input}`],
        ),
      read: (_input, log) => Receive.reply([...log], log),
    },
    signals: {
      work: (payload: string, log) =>
        Receive.async(async (handler) => {
          const done = await handler.step(payload, () => 0);
          await handler.updateState((current) => [undefined, [...current, done]]);
          return "ignored";
        }, log),
      hold: async (payload, log, handler) => Receive.noreply([...log, await handler.step("hold", () => payload)]),
      end: (_payload, log) => Receive.stop(log),
    },
    timeout: "1h",
  }),
);

describe("A1 async updates", () => {
  it("A1 an async update is accepted at once, and the receive goes on beside it", async () => {
    const h = await Harness.start(account);
    const commands = await h.update("work", "pay", "u1");
    expect(types(commands)).toEqual(["acceptUpdate", "dispatch", "step"]);
    expect(h.openLocations).toEqual(["receive/~h0/~async/pay"]);
    await h.update("read", undefined, "u2");
    expect(h.updateResult("u2")).toEqual({ value: ["began pay"] });
    expect(h.updateResult("u1")).toBeUndefined();
    await crashAnywhere(h);
  });

  it("A1 its function's return value is the reply", async () => {
    const h = await Harness.start(account);
    await h.update("work", "pay", "u");
    const commands = await h.resolve("pay", "paid");
    expect(commands).toMatchObject([{ type: "completeUpdate", id: "u", status: "completed" }]);
    expect(h.updateResult("u")).toEqual({ value: "paid after 1" });
    await crashAnywhere(h);
  });

  it("A1 the state given with Receive.async counts from there on", async () => {
    const h = await Harness.start(account);
    await h.turn(h.updateJob("work", "pay"), h.updateJob("read", undefined, "u"));
    expect(h.updateResult("u")).toEqual({ value: ["began pay"] });
  });

  it("A1 a throw fails the update and the run goes on", async () => {
    const h = await Harness.start(account);
    await h.update("work", "pay", "u1");
    await h.fail("pay", new Error("no funds"));
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "StepFailedError", cause: { message: "no funds" } } });
    await h.update("read", undefined, "u2");
    expect(h.updateResult("u2")).toEqual({ value: ["began pay"] });
    await h.signal("end");
    expect(h.output).toEqual({ state: ["began pay"], timedOut: false });
    await crashAnywhere(h);
  });

  it("A1 many run beside each other, and each caller gets its own reply", async () => {
    const h = await Harness.start(account);
    await h.turn(h.updateJob("work", "a", "ua"), h.updateJob("work", "b", "ub"), h.updateJob("work", "c", "uc"));
    expect(h.openLocations).toEqual(["receive/~h0/~async/a", "receive/~h1/~async/b", "receive/~h2/~async/c"]);
    await h.resolve("c", "C");
    await h.turn(h.resolved("b", "B"), h.resolved("a", "A"));
    expect(["ua", "ub", "uc"].map((id) => h.updateResult(id))).toEqual([
      { value: "A after 4" },
      { value: "B after 5" },
      { value: "C after 3" },
    ]);
    await crashAnywhere(h);
  });

  it("A1 it may use parallel, loops and timers", async () => {
    const wf = workflow("busy", async (ctx) =>
      ctx.receive(0, {
        updates: {
          go: (_input, state) =>
            Receive.async(async (handler) => {
              const both = await handler.parallel([async (b) => b.step("left", () => 0), async (b) => b.sleep("nap", "1m")]);
              const total = await handler.loop({ name: "rounds", state: 0, commitInterval: 1 }, async (body, i) => {
                await body.updateState((current) => [undefined, current + 1]);
                await body.step("round", () => 0);
                return i === 2 ? Loop.break(i) : Loop.continue(i + 1);
              });
              const tried = await handler.try("attempt", async (body) => body.updateState((current) => [current, current]));
              return [both.map((result) => result.status), total, tried];
            }, state),
        },
        signals: { end: (_payload, state) => Receive.stop(state) },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("go", undefined, "u");
    await h.resolve("left");
    await h.fire("nap");
    await h.signal("end");
    for (let i = 0; i < 3; i++) await h.resolve(`receive/~h0/~async/rounds/~${i}/round`);
    expect(h.updateResult("u")).toEqual({ value: [["fulfilled", "fulfilled"], 2, { ok: true, value: 3 }] });
    expect(h.output).toEqual({ state: 3, timedOut: false });
    await crashAnywhere(h);
  });

  it("A1 P3 it is not over while its own step is outstanding; then the reply is what it returned", async () => {
    const wf = workflow("hasty", async (ctx) =>
      ctx.receive(0, {
        updates: {
          go: (_input, state) =>
            Receive.async(async (handler) => {
              void handler.step("left behind", () => 0);
              return "early";
            }, state),
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.update("go", undefined, "u");
    expect(h.updateResult("u")).toBeUndefined();
    await h.fail("left behind", new Error("ignored"));
    expect(h.updateResult("u")).toEqual({ value: "early" });
    await crashAnywhere(h);
  });
});

describe("A2 async signals", () => {
  function logged() {
    const errors: string[] = [];
    const ignore = () => {};
    return { errors, logger: { debug: ignore, info: ignore, warn: ignore, error: (message: string) => void errors.push(message) } };
  }

  it("A2 the return value is ignored", async () => {
    const h = await Harness.start(account);
    await h.signal("work", "a");
    const commands = await h.resolve("a", "A");
    expect(commands).toEqual([]);
    await h.signal("end");
    expect(h.output).toEqual({ state: ["A"], timedOut: false });
    await crashAnywhere(h);
  });

  it("A2 a throw is logged and kept in history; the run goes on", async () => {
    const { errors, logger } = logged();
    const h = await Harness.start(account, undefined, { logger });
    await h.signal("work", "a");
    const commands = await h.fail("a", new Error("disk full"));
    expect(commands).toMatchObject([{ type: "handlerFailed", unit: "receive/~h0/~async", error: { name: "StepFailedError" } }]);
    expect(errors).toEqual([expect.stringContaining("disk full")]);
    await h.update("read", undefined, "u");
    expect(h.updateResult("u")).toEqual({ value: [] });
    await h.recover();
    expect(errors).toHaveLength(1);
    await h.signal("end");
    expect(h.status).toBe("completed");
    await crashAnywhere(h);
  });

  it("A2 so is a throw before its first operation", async () => {
    const wf = workflow("throws", async (ctx) =>
      ctx.receive(0, { signals: { go: (_payload, state) => Receive.async(async () => Promise.reject(new Error("at once")), state) } }),
    );
    const h = await Harness.start(wf);
    expect(types(await h.signal("go"))).toEqual(["dispatch", "handlerFailed"]);
    expect(h.status).toBe("sleeping");
    await crashAnywhere(h);
  });
});

describe("R5 async handlers in flight when the receive stops", () => {
  it("R5 they finish, and the state returned includes their updateState calls", async () => {
    const h = await Harness.start(account);
    await h.update("work", "a", "ua");
    await h.signal("work", "b");
    await h.signal("end");
    expect(h.status).toBe("sleeping");
    await h.resolve("b", "B");
    expect(h.status).toBe("sleeping");
    await h.resolve("a", "A");
    expect(h.updateResult("ua")).toEqual({ value: "A after 2" });
    expect(h.output).toEqual({ state: ["began a", "B", "A"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R5 meanwhile nothing is dispatched: signals stay buffered, updates are rejected", async () => {
    const wf = workflow("closing", async (ctx) => {
      await ctx.receive(0, {
        signals: {
          go: (_payload, state) => Receive.async(async (handler) => void (await handler.step("work", () => 0)), state),
          note: (_payload, state) => Receive.noreply(state),
          end: (_payload, state) => Receive.stop(state),
        },
        updates: { read: (_input, state) => Receive.reply(state, state) },
      });
      return ctx.waitForSignal("note");
    });
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("go"), h.signalJob("end"));
    expect(await h.signal("note", "kept")).toEqual([]);
    expect(await h.update("read", undefined, "u")).toEqual([]);
    expect(h.updateResult("u")).toMatchObject({ error: { name: "UpdateRejectedError" } });
    await h.resolve("work");
    expect(h.output).toBe("kept");
    await crashAnywhere(h);
  });

  it("R5 R8 a timeout that fires meanwhile changes nothing", async () => {
    const h = await Harness.start(account);
    const seq = h.nextTimer as number;
    await h.turn(h.signalJob("work", "a"), h.signalJob("end"));
    await h.turn({ type: "fire", seq });
    await h.resolve("a", "A");
    expect(h.output).toEqual({ state: ["A"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R5 R8 after a timeout they finish too", async () => {
    const h = await Harness.start(account);
    await h.update("work", "a", "u");
    await h.fire();
    expect(h.status).toBe("sleeping");
    await h.resolve("a", "A");
    expect(h.updateResult("u")).toEqual({ value: "A after 1" });
    expect(h.output).toEqual({ state: ["began a", "A"], timedOut: true });
    await crashAnywhere(h);
  });
});

describe("A5 what async handlers are not", () => {
  it("A5 updateState exists only in async handlers", async () => {
    type Escape = { updateState(change: (state: number) => readonly [unknown, number]): Promise<unknown> };
    const change = (state: number) => [0, state] as const;
    const sync = workflow("sync", async (ctx) =>
      ctx.receive(0, {
        signals: {
          go: async (_payload, state, handler) => {
            await (handler as unknown as Escape).updateState(change);
            return Receive.noreply(state);
          },
        },
      }),
    );
    const h = await Harness.start(sync);
    await expect(h.signal("go")).rejects.toMatchObject({ name: "IllegalCallError", call: "updateState" });
    const root = workflow("root", async (ctx) => (ctx as unknown as Escape).updateState(change));
    await expect(Harness.start(root)).rejects.toMatchObject({ name: "IllegalCallError", call: "updateState" });
  });

  it("A5 an async handler can't return Receive.async", async () => {
    const wf = workflow("again", async (ctx) =>
      ctx.receive(0, { updates: { go: (_input, state) => Receive.async(async () => Receive.async(async () => 1, state), state) } }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("go")).rejects.toMatchObject({ name: "IllegalReturnError" });
  });

  it("A5 an async handler can't receive", async () => {
    type Escape = { receive(state: unknown, handlers: object): Promise<unknown> };
    const wf = workflow("nested", async (ctx) =>
      ctx.receive(0, {
        updates: { go: (_input, state) => Receive.async(async (handler) => (handler as unknown as Escape).receive(0, {}), state) },
      }),
    );
    const h = await Harness.start(wf);
    await expect(h.update("go")).rejects.toMatchObject({ name: "IllegalCallError", call: "receive" });
  });
});
