// Job: prove that a receive's state is changed by one at a time, by sync handlers and by the updateState of async ones.
// Owns: the workflows in it.
// Invariants: A3, A4, A6 and R10.
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

describe("A3 A4 updateState", () => {
  /** Runs `body` as an async update handler over a number. */
  const handled = (body: Parameters<typeof Receive.async<number, unknown>>[0], timeout?: "1h") =>
    workflow("handled", async (ctx) =>
      ctx.receive(0, {
        updates: { go: (_input, state) => Receive.async(body, state), read: (_input, state) => Receive.reply(state, state) },
        ...(timeout !== undefined && { timeout }),
      }),
    );

  it("A3 runs its function with the current state, keeps the new one, and returns the result", async () => {
    const h = await Harness.start(handled((ctx) => ctx.updateState((state) => [`was ${state}`, state + 5])));
    await h.update("go", undefined, "u1");
    await h.update("read", undefined, "u2");
    expect(h.updateResult("u1")).toEqual({ value: "was 0" });
    expect(h.updateResult("u2")).toEqual({ value: 5 });
    await crashAnywhere(h);
  });

  it("A3 no update is lost between handlers that change the state by turns", async () => {
    const wf = handled(async (ctx) => {
      for (let i = 0; i < 3; i++) {
        await ctx.step("work", () => 0);
        await ctx.updateState((state) => [undefined, state + 1]);
      }
    });
    const h = await Harness.start(wf);
    await h.turn(h.updateJob("go"), h.updateJob("go"));
    for (let i = 0; i < 3; i++) await h.turn(...h.openLocations.map((location) => h.resolved(location)).reverse());
    await h.update("read", undefined, "u");
    expect(h.updateResult("u")).toEqual({ value: 6 });
    await crashAnywhere(h);
  });

  it("A3 a function that throws changes nothing, and the handler gets the error", async () => {
    const wf = handled(async (ctx) => {
      const refuse = (): readonly [unknown, number] => {
        throw new RangeError("overdrawn");
      };
      return ctx.updateState(refuse).catch((error: Error) => `caught ${error.message}`);
    });
    const h = await Harness.start(wf);
    await h.update("go", undefined, "u1");
    await h.update("read", undefined, "u2");
    expect(h.updateResult("u1")).toEqual({ value: "caught overdrawn" });
    expect(h.updateResult("u2")).toEqual({ value: 0 });
    await crashAnywhere(h);
  });

  it("A3 X5 it does not pause when no handler holds the state, and leaves no record", async () => {
    const h = await Harness.start(
      handled(async (ctx) => {
        await ctx.updateState((state) => [undefined, state + 1]);
        return ctx.updateState((state) => [state, state + 1]);
      }),
    );
    expect(types(await h.update("go"))).toEqual(["acceptUpdate", "dispatch", "completeUpdate"]);
  });

  it("A3 L3 a loop whose iterations wrote the state does not commit past them: no write is lost to a replay", async () => {
    const looping = (writes: boolean) =>
      workflow("looping", async (ctx) =>
        ctx.receive(0, {
          signals: {
            go: (_payload, state) =>
              Receive.async(async (handler) => {
                await handler.loop({ name: "outer", state: 0, commitInterval: 1 }, async (outer, i) => {
                  await outer.loop({ name: "inner", state: 0, commitInterval: 1 }, async (inner) => {
                    await inner.step("work", () => 0);
                    if (writes) await inner.shield(async (body) => body.updateState((current) => [undefined, current + 1]));
                    return Loop.break();
                  });
                  return i === 2 ? Loop.break() : Loop.continue(i + 1);
                });
              }, state),
          },
          updates: { read: (_input, state) => Receive.reply(state, state) },
        }),
      );
    for (const writes of [true, false]) {
      const h = await Harness.start(looping(writes));
      await h.signal("go");
      for (let i = 0; i < 3; i++) {
        await h.recover();
        await h.resolve("work");
      }
      await h.update("read", undefined, "u");
      expect(h.updateResult("u")).toEqual({ value: writes ? 3 : 0 });
      expect(types(h.commands).includes("commit")).toBe(!writes);
      await crashAnywhere(h);
    }
  });

  it.each<[call: string, body: Parameters<typeof handled>[0]]>([
    ["random", (ctx) => ctx.updateState((state) => [ctx.random(), state])],
    ["now", (ctx) => ctx.updateState((state) => [ctx.now(), state])],
    ["publishState", (ctx) => ctx.updateState((state) => [ctx.publishState(1), state])],
    ["step", (ctx) => ctx.updateState((state) => [void ctx.step("s", () => 0), state])],
    ["updateState", (ctx) => ctx.updateState((state) => [void ctx.updateState((inner) => [0, inner]), state])],
  ])("A4 a call of ctx.%s inside the closure is an IllegalCallError, even if it is swallowed", async (call, body) => {
    for (const swallow of [false, true]) {
      const wf = handled(async (ctx) => (swallow ? body(ctx).catch(() => "swallowed") : body(ctx)));
      const h = await Harness.start(wf);
      await expect(h.update("go")).rejects.toMatchObject({ name: "IllegalCallError", call });
      expect(h.turns).toHaveLength(1);
    }
  });

  it("A4 the closure is synchronous: a promise is an IllegalReturnError", async () => {
    const later = (async (state: number) => [0, state]) as unknown as (state: number) => readonly [number, number];
    const h = await Harness.start(handled((ctx) => ctx.updateState(later)));
    await expect(h.update("go")).rejects.toMatchObject({ name: "IllegalReturnError" });
  });

  it("A4 so is anything else than [result, newState]", async () => {
    const bare = ((state: number) => state + 1) as unknown as (state: number) => readonly [number, number];
    const h = await Harness.start(handled((ctx) => ctx.updateState(bare)));
    await expect(h.update("go")).rejects.toMatchObject({ name: "IllegalReturnError" });
  });

  it("A4 R10 a closure that had to wait is held to the same", async () => {
    const wf = workflow("waits", async (ctx) =>
      ctx.receive(0, {
        signals: {
          go: (_payload, state) =>
            Receive.async(async (handler) => {
              await handler.step("work", () => 0);
              await handler.updateState((current) => [handler.random(), current]);
            }, state),
          hold: async (_payload, state, handler) => {
            await handler.step("hold", () => 0);
            return Receive.noreply(state);
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("go"), h.signalJob("hold"));
    await h.resolve("work");
    await expect(h.resolve("hold")).rejects.toMatchObject({ name: "IllegalCallError", call: "random" });
  });
});

describe("R10 A6 the state while a sync handler holds it", () => {
  it("R10 updateState of an async handler waits while a sync handler holds the state, so neither write is lost", async () => {
    const h = await Harness.start(account);
    await h.update("work", "a", "u");
    await h.signal("hold", "h");
    expect(types(await h.resolve("a", "A"))).toEqual(["updateState"]); // it waits
    expect(h.updateResult("u")).toBeUndefined();

    await h.resolve("hold", "H");

    expect(h.updateResult("u")).toEqual({ value: "A after 2" });
    await h.signal("end");
    expect(h.output).toEqual({ state: ["began a", "H", "A"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R10 it holds it from its dispatch on, no matter which is ready first in that activation", async () => {
    const h = await Harness.start(account);
    await h.update("work", "a", "u");
    await h.turn(h.signalJob("hold", "h"), h.resolved("a", "A"));
    await h.resolve("hold", "H");
    await h.signal("end");
    expect(h.output).toMatchObject({ state: ["began a", "A", "H"] });
    await crashAnywhere(h);
  });

  it("R10 those who wait go before the next message, in order", async () => {
    const h = await Harness.start(account);
    await h.turn(h.signalJob("work", "a"), h.signalJob("work", "b"), h.signalJob("hold"));
    await h.resolve("b", "B");
    await h.resolve("a", "A");
    await h.update("read", undefined, "u");
    await h.resolve("hold", "H");
    const { value } = h.updateResult("u") as { value: string[] };
    expect(value[0]).toBe("H");
    expect(value.slice(1).sort()).toEqual(["A", "B"]);
    await crashAnywhere(h);
  });

  it("R10 R9 a sync handler that throws releases the state unchanged", async () => {
    const wf = workflow("throws", async (ctx) =>
      ctx.receive(["start"], {
        signals: {
          work: (_payload, log) =>
            Receive.async(async (handler) => {
              await handler.step("work", () => 0);
              await handler.updateState((current) => [0, [...current, "work"]]);
            }, log),
        },
        updates: {
          hold: async (_input, _log, handler) => {
            await handler.step("hold", () => 0);
            throw new Error("no");
          },
          read: (_input, log) => Receive.reply(log, log),
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.signal("work");
    await h.update("hold");
    await h.resolve("work");
    await h.resolve("hold");
    await h.update("read", undefined, "u");
    expect(h.updateResult("u")).toEqual({ value: ["start", "work"] });
    await crashAnywhere(h);
  });

  it("R10 R5 a sync handler that stops releases it too: the write is in the state returned", async () => {
    const wf = workflow("stops", async (ctx) =>
      ctx.receive([] as string[], {
        signals: {
          work: (_payload, log) =>
            Receive.async(async (handler) => {
              await handler.step("work", () => 0);
              await handler.updateState((current) => [0, [...current, "work"]]);
            }, log),
          stop: async (_payload, log, handler) => {
            await handler.step("hold", () => 0);
            return Receive.stop([...log, "stop"]);
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("work"), h.signalJob("stop"));
    await h.resolve("work");
    await h.resolve("hold");
    expect(h.output).toEqual({ state: ["stop", "work"], timedOut: false });
    await crashAnywhere(h);
  });

  const careless = workflow("careless", async (ctx) =>
    ctx.receive([] as string[], {
      signals: {
        work: (_payload, log) =>
          Receive.async(async (handler) => {
            await handler.step("work", () => 0);
            void handler.updateState((current) => [0, [...current, "work"]]);
            return undefined;
          }, log),
        busy: (_payload, log) =>
          Receive.async(async (handler) => {
            const other = handler.step("other", () => 0);
            await handler.step("work", () => 0);
            void handler.updateState((current) => [0, [...current, "busy"]]);
            await other;
          }, log),
        hold: async (_payload, log, handler) => {
          await handler.step("hold", () => 0);
          return Receive.noreply([...log, "hold"]);
        },
        end: (_payload, log) => Receive.stop(log),
      },
    }),
  );

  it("R10 P3 a write that waits is not lost where its handler returned without awaiting it", async () => {
    const h = await Harness.start(careless);
    await h.turn(h.signalJob("work"), h.signalJob("hold"));
    await h.resolve("work");
    await h.signal("end");
    await h.resolve("hold");
    expect(h.output).toEqual({ state: ["hold", "work"], timedOut: false });
    await crashAnywhere(h);
  });

  it("R10 P3 nor where its handler returns in the step before its turn to write", async () => {
    const h = await Harness.start(careless);
    await h.turn(h.signalJob("busy"), h.signalJob("hold"));
    await h.resolve("work");
    await h.signal("end");
    await h.turn(h.resolved("other"), h.resolved("hold"));
    expect(h.output).toEqual({ state: ["hold", "busy"], timedOut: false });
    await crashAnywhere(h);
  });

  /** What is published is always what was just written. */
  const publisher = workflow("publisher", async (ctx) => {
    const { state } = await ctx.receive([] as string[], {
      signals: {
        work: (payload: string, log) =>
          Receive.async(async (handler) => {
            await handler.step(payload, () => 0);
            const written = await handler.updateState((current) => [
              [...current, payload],
              [...current, payload],
            ]);
            handler.publishState(written);
          }, log),
        hold: async (_payload, log, handler) => {
          await handler.step("hold", () => 0);
          const next = [...log, "hold"];
          handler.publishState(next);
          return Receive.noreply(next);
        },
        end: (_payload, log) => Receive.stop(log),
      },
    });
    return state;
  });

  it("A6 the code after updateState runs in the same step: what it publishes is never older than what was written", async () => {
    const h = await Harness.start(publisher);
    await h.turn(h.signalJob("work", "a"), h.signalJob("work", "b"), h.signalJob("hold"));
    await h.turn(h.resolved("b"), h.resolved("a"));
    await h.resolve("hold");
    const published = h.state;
    await h.signal("end");
    expect(published).toEqual(h.output);
    expect((published as string[]).length).toBe(3);
    await crashAnywhere(h);
  });

  it("A6 so it is where no handler held the state", async () => {
    const h = await Harness.start(publisher);
    await h.turn(h.signalJob("work", "a"), h.signalJob("work", "b"));
    await h.turn(h.resolved("b"), h.resolved("a"));
    const published = h.state;
    await h.signal("end");
    expect(published).toEqual(h.output);
    await crashAnywhere(h);
  });

  it("A6 a write that had to wait sees the state as it is in its own turn", async () => {
    const wf = workflow("order", async (ctx) =>
      ctx.receive(1, {
        signals: {
          double: (_payload, n) =>
            Receive.async(async (handler) => {
              await handler.step("double", () => 0);
              const before = await handler.updateState((current) => [current, current * 2]);
              await handler.step(`saw ${before}`, () => 0);
            }, n),
          hold: async (_payload, n, handler) => {
            await handler.step("hold", () => 0);
            return Receive.noreply(n + 10);
          },
        },
      }),
    );
    const h = await Harness.start(wf);
    await h.turn(h.signalJob("double"), h.signalJob("double"), h.signalJob("hold"));
    await h.turn(h.resolved("receive/~h0/~async/double"), h.resolved("receive/~h1/~async/double"));
    await h.resolve("hold");
    expect(h.openLocations).toEqual(["receive/~h0/~async/saw 11", "receive/~h1/~async/saw 22"]);
    await crashAnywhere(h);
  });

  it("R10 K1 an updateState that waits throws when the run is canceled", async () => {
    const h = await Harness.start(account);
    await h.update("work", "a", "u");
    await h.signal("hold");
    await h.resolve("a", "A");
    await h.cancel();
    expect(h.status).toBe("canceled");
    expect(h.updateResult("u")).toMatchObject({ error: { name: "CanceledError" } });
    await crashAnywhere(h);
  });
});
