// Job: prove that the states of loops and receives are values.
// Owns: states that are shared, changed in place, or can't be copied.
// Invariants: R9, M9, P9 (limits hold for them), Y4 (refusals replay).
import { type AnyWorkflow, LimitExceededError, Loop, Receive, UnserializableValueError, workflow } from "@holdfast/core";
import { crashAnywhere, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

interface Cart {
  items: string[];
  seen?: Map<string, { n: number }>;
}

describe("M9 validators", () => {
  const wf = workflow("cart", async (ctx) => {
    const { state } = await ctx.receive<Cart>(
      { items: [], seen: new Map() },
      {
        signals: { end: (_payload, state) => Receive.stop(state) },
        updates: {
          add: {
            validate: (item: unknown, state) => {
              state.items.push(`seen ${item}`);
              state.seen?.set(String(item), { n: 1 });
              if (item === "no") throw new Error("not this one");
            },
            handle: (item: unknown, state) => Receive.reply(state.items.length, { ...state, items: [...state.items, String(item)] }),
          },
        },
      },
    );
    return [state.items, [...(state.seen?.keys() ?? [])]];
  });

  it.each([false, true])("M9 what a validator does to the state never counts (frozen states: %s)", async (freezeStates) => {
    const h = await Harness.start(wf, undefined, { freezeStates });
    await h.update("add", "a", "u1");
    await h.update("add", "no", "u2");
    await h.update("add", "b", "u3");
    expect(h.updateResult("u1")).toEqual({ value: 0 });
    expect(h.updateResult("u2")).toHaveProperty("error");
    expect(h.updateResult("u3")).toEqual({ value: 1 });
    await h.signal("end");
    expect(h.output).toEqual([["a", "b"], []]);
    await crashAnywhere(h);
  });

  it("M9 a state that can't be copied is not a state: the update is rejected, and the reason says where", async () => {
    const holder = workflow("holder", async (ctx) => {
      await ctx.receive<{ callback?: () => void }>(
        {},
        {
          signals: { hold: (_payload, _state) => Receive.noreply({ callback: () => {} }) },
          updates: { ask: { validate: () => {}, handle: (_input, state) => Receive.reply(1, state) } },
        },
      );
    });
    const h = await Harness.start(holder);
    await h.signal("hold");
    await h.update("ask", undefined, "u1");
    const result = h.updateResult("u1") as { error: Error };
    expect(result.error.name).toBe("UpdateRejectedError");
    expect(result.error.message).toContain("value.callback");
  });
});

describe("R9 initial states", () => {
  const SHARED = { items: [] as string[] };
  const receiving = workflow("receives", async (ctx) => {
    const { state } = await ctx.receive(SHARED, {
      signals: {
        add: (item: unknown, state) => {
          state.items.push(String(item)); // in place, where nothing guards it
          return Receive.noreply(state);
        },
        end: (_payload, state) => Receive.stop(state),
      },
    });
    return state.items;
  });
  const looping = workflow("loops", async (ctx) =>
    ctx.loop({ name: "l", state: SHARED, commitInterval: 2 }, async (_ctx, state) => {
      if (state.items.length === 3) return Loop.break(state.items);
      state.items.push("x");
      return Loop.continue(state);
    }),
  );

  it("R9 two runs of one receive never share the object that both began with", async () => {
    const runs = [await Harness.start(receiving), await Harness.start(receiving)];
    for (const run of runs) await run.signal("add", "a");
    for (const run of runs) {
      await run.signal("end");
      expect(run.output).toEqual(["a"]);
      await crashAnywhere(run);
    }
    expect(SHARED).toEqual({ items: [] });
  });

  it("R9 nor do two runs of one loop", async () => {
    for (const run of [await Harness.start(looping), await Harness.start(looping)]) {
      expect(run.output).toEqual(["x", "x", "x"]);
      await crashAnywhere(run);
    }
    expect(SHARED).toEqual({ items: [] });
  });

  const refusing = (state: unknown): AnyWorkflow =>
    workflow("refused", async (ctx) => {
      const name = (error: Error) => error.name;
      const loop = await ctx.loop({ name: "l", state }, async () => Loop.break("ran")).catch(name);
      const receive = await ctx.receive(state, {}).then(() => "ran", name);
      await ctx.sleep("1m");
      return [loop, receive];
    });

  it.each([
    ["a function in it", { callback: () => {} }, UnserializableValueError.name],
    ["a symbol", Symbol("s"), UnserializableValueError.name],
    ["more than the limit", { text: "x".repeat(2_000) }, LimitExceededError.name],
  ])("R9 P8 P9 one that can't be stored (%s) fails its call, and does so in replay", async (_name, state, error) => {
    const h = await Harness.start(refusing(state), undefined, { limits: { payloadBytes: 1_000 } });
    expect(h.commands.map(({ type }) => type)).toEqual(["refuse", "refuse", "sleep"]);
    await h.recover();
    await h.fire();
    expect(h.output).toEqual([error, error]);
  });
});

describe("R9 frozen states", () => {
  const FROZEN = { freezeStates: true };
  const place = (error: unknown) => (error as Error).stack?.includes("states.test.ts") === true && (error as Error).name;

  it("R9 an iteration that changes its state in place gets a TypeError at its line, at any depth", async () => {
    const changes: ((state: { list: number[]; deep: { map: Map<string, { n: number }> } }) => unknown)[] = [
      (state) => state.list.push(1),
      (state) => Object.assign(state, { more: 1 }),
      (state) => Object.assign(state.deep.map.get("a") ?? {}, { n: 2 }),
    ];
    for (const change of changes) {
      const wf = workflow("changes", async (ctx) => {
        const found: unknown[] = [];
        await ctx.loop(
          { name: "l", state: { list: [0], deep: { map: new Map([["a", { n: 1 }]]) } }, commitInterval: 1 },
          async (_ctx, state) => {
            try {
              change(state);
            } catch (error) {
              found.push(place(error));
            }
            // Initial, given on, and decoded from a commit.
            return found.length === 3 ? Loop.break(0) : Loop.continue({ list: [...state.list], deep: { map: new Map([["a", { n: 1 }]]) } });
          },
        );
        return found;
      });
      expect((await Harness.start(wf, undefined, FROZEN)).output).toEqual(["TypeError", "TypeError", "TypeError"]);
    }
  });

  it("R9 so do handlers, async handlers and updateState; a handler that throws leaves the state unchanged", async () => {
    const wf = workflow("changes", async (ctx) => {
      const { state } = await ctx.receive<Cart>(
        { items: [] },
        {
          signals: {
            later: (_payload, state) => {
              const next: Cart = { items: [...state.items, "later"] };
              return Receive.async(async (own) => {
                await own.sleep("1m");
                next.items.push("too late");
              }, next);
            },
            change: (_payload, state) =>
              Receive.async(
                (own) =>
                  own.updateState((current) => {
                    current.items.push("in place");
                    return [0, current];
                  }),
                state,
              ),
            end: (_payload, state) => Receive.stop(state),
          },
          updates: {
            add: (item: unknown, state) => {
              state.items.push(String(item));
              return Receive.reply(0, state);
            },
          },
        },
      );
      return state;
    });
    const h = await Harness.start(wf, undefined, FROZEN);
    await h.update("add", "a", "u1");
    expect(h.updateResult("u1")).toMatchObject({ error: { name: "TypeError" } });
    await h.signal("change");
    await h.signal("later");
    await h.fire();
    const failures = h.commands.flatMap((command) => (command.type === "handlerFailed" ? [command.error.name] : []));
    expect(failures).toEqual(["TypeError", "TypeError"]);
    await h.signal("end");
    expect(h.output).toEqual({ items: ["later"] });
    await crashAnywhere(h);
  });

  it("R9 what can't be frozen stays as it is: Map, Set, Date, typed arrays, class instances", async () => {
    class Counter {
      n = 0;
    }
    const wf = workflow("keeps", async (ctx) =>
      ctx.loop(
        { name: "l", state: { map: new Map(), set: new Set(), date: new Date(0), bytes: new Uint8Array(2), n: 0 } },
        async (_ctx, state) => {
          state.map.set(1, 1);
          state.set.add(1);
          state.date.setTime(1);
          state.bytes[0] = 1;
          if (state.n === 1) (state as unknown as { counter: Counter }).counter.n++;
          return state.n === 2 ? Loop.break("changed") : Loop.continue({ ...state, n: state.n + 1, counter: new Counter() });
        },
      ),
    );
    const h = await Harness.start(wf, undefined, FROZEN);
    expect(h.output).toBe("changed");
  });
});
