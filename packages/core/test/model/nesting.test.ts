// Job: prove the table of rule N as the compiler sees it: which context offers which operation.
// Owns: the types. The bodies here are compiled, never run; what gets round the types is proved with the executor.
// Invariants: N, A5, C1 to C3, L1, R4.
import { describe, expectTypeOf, it } from "vitest";
import type {
  AsyncHandlerContext,
  BranchContext,
  ChildHandle,
  ContinueAsNew,
  HandlerContext,
  UnitContext,
  WorkflowContext,
} from "../../src/model/index.ts";
import { activity, Loop, Receive, signal, update, workflow } from "../../src/model/index.ts";

describe("what each context offers", () => {
  it("N every context does what a unit may do, at compile time", () => {
    expectTypeOf<WorkflowContext>().toExtend<UnitContext>();
    expectTypeOf<BranchContext>().toExtend<UnitContext>();
    expectTypeOf<HandlerContext>().toExtend<UnitContext>();
    expectTypeOf<AsyncHandlerContext<number>>().toExtend<UnitContext>();
  });

  it("N receive and continueAsNew are the root's alone, at compile time", () => {
    expectTypeOf<WorkflowContext>().toHaveProperty("receive");
    expectTypeOf<WorkflowContext>().toHaveProperty("continueAsNew");
    for (const only of ["receive", "continueAsNew"] as const) {
      expectTypeOf<BranchContext>().not.toHaveProperty(only);
      expectTypeOf<HandlerContext>().not.toHaveProperty(only);
      expectTypeOf<AsyncHandlerContext<number>>().not.toHaveProperty(only);
    }
  });

  it("N updateState is an async handler's alone, at compile time", () => {
    expectTypeOf<AsyncHandlerContext<number>>().toHaveProperty("updateState");
    expectTypeOf<WorkflowContext>().not.toHaveProperty("updateState");
    expectTypeOf<BranchContext>().not.toHaveProperty("updateState");
    expectTypeOf<HandlerContext>().not.toHaveProperty("updateState");
  });

  it("N branches of parallel, join and race can't receive, at compile time", () => {
    workflow("branches", async (ctx) => {
      await ctx.parallel([
        async (ctx) => {
          expectTypeOf(ctx).toEqualTypeOf<BranchContext>();
          // @ts-expect-error receive is the root's
          await ctx.receive(0, {});
        },
      ]);
      await ctx.join("join", {
        // @ts-expect-error receive is the root's
        a: async (ctx) => ctx.receive(0, {}),
      });
      await ctx.race("race", {
        // @ts-expect-error receive is the root's
        a: async (ctx) => ctx.receive(0, {}),
      });
    });
  });

  it("N branches within branches are branches, at compile time", () => {
    workflow("deep", async (ctx) => {
      await ctx.parallel([
        async (ctx) =>
          ctx.join("inner", {
            a: async (ctx) => {
              expectTypeOf(ctx).toEqualTypeOf<BranchContext>();
              // @ts-expect-error receive is the root's
              await ctx.receive(0, {});
            },
          }),
      ]);
    });
  });

  it("N the bodies of loop, try and shield may do what the unit around them may, at compile time", () => {
    workflow("bodies", async (ctx) => {
      await ctx.loop("forever", async (ctx) => {
        await ctx.receive(0, {});
        return Loop.break();
      });
      await ctx.loop({ name: "counted", state: 0 }, async (ctx, n) => {
        await ctx.receive(n, {});
        return Loop.break(n);
      });
      await ctx.try("attempt", async (ctx) => ctx.receive(0, {}));
      await ctx.shield(async (ctx) => ctx.receive(0, {}));

      await ctx.parallel([
        async (ctx) => {
          await ctx.loop("in a branch", async (ctx) => {
            // @ts-expect-error the unit around it is a branch
            await ctx.receive(0, {});
            return Loop.break();
          });
          // @ts-expect-error the unit around it is a branch
          await ctx.try("in a branch", async (ctx) => ctx.receive(0, {}));
          // @ts-expect-error the unit around it is a branch
          await ctx.shield(async (ctx) => ctx.receive(0, {}));
        },
      ]);
    });
  });

  it("N a handler can neither receive nor updateState, an async handler can updateState, at compile time", () => {
    workflow({ name: "handlers", signals: { go: signal() }, updates: { add: update<number, string>() } }, async (ctx) => {
      await ctx.receive(0, {
        signals: {
          go: async (_, state, ctx) => {
            // @ts-expect-error receive is the root's
            await ctx.receive(0, {});
            // @ts-expect-error updateState is an async handler's
            await ctx.updateState((s) => [s, s]);
            await ctx.sleep("1s");
            return Receive.noreply(state);
          },
        },
        updates: {
          add: (n, state) =>
            Receive.async(async (ctx) => {
              expectTypeOf(ctx).toEqualTypeOf<AsyncHandlerContext<number>>();
              const before = await ctx.updateState((s) => [String(s), s + n]);
              expectTypeOf(before).toEqualTypeOf<string>();
              // @ts-expect-error receive is the root's
              await ctx.receive(0, {});
              return before;
            }, state),
        },
      });
    });
  });

  it("A3 updateState keeps the type of the state, at compile time", () => {
    const body = async (ctx: AsyncHandlerContext<{ n: number }>) => {
      // @ts-expect-error not the state's type
      await ctx.updateState((s) => [s.n, { n: "one" }]);
      return ctx.updateState((s) => [s.n, { n: s.n + 1 }]);
    };
    expectTypeOf(body).returns.resolves.toEqualTypeOf<number>();
  });
});

describe("what handlers may return", () => {
  it("R4 signal handlers don't reply, at compile time", () => {
    workflow({ name: "signals", signals: { a: signal(), b: signal(), c: signal() } }, async (ctx) => {
      await ctx.receive(0, {
        signals: {
          // @ts-expect-error no caller waits for a reply
          a: (_, state) => Receive.reply("hello", state),
          // @ts-expect-error no caller waits for a reply
          b: (_, state) => Receive.stop("hello", state),
          // @ts-expect-error a bare state is not a result
          c: (_, state) => state + 1,
        },
      });
    });
  });

  it("R4 update handlers reply with the declared output, at compile time", () => {
    workflow(
      { name: "updates", updates: { a: update<void, "ok">(), b: update<void, "ok">(), c: update<void, "ok">(), d: update<void, "ok">() } },
      async (ctx) => {
        await ctx.receive(0, {
          updates: {
            // @ts-expect-error the caller waits for a reply
            a: (_, state) => Receive.noreply(state),
            // @ts-expect-error the caller waits for a reply
            b: (_, state) => Receive.stop(state),
            // @ts-expect-error not the declared output
            c: (_, state) => Receive.reply(7, state),
            // @ts-expect-error not the declared output
            d: (_, state) => Receive.async(async () => 7, state),
          },
        });
      },
    );
  });

  it("R4 M9 payload, input and state are typed in handlers and validators, at compile time", () => {
    workflow({ name: "typed", signals: { note: signal<string>() }, updates: { add: update<{ n: number }, number>() } }, async (ctx) => {
      const { state, timedOut } = await ctx.receive(
        { total: 0 },
        {
          signals: {
            note: (payload, state) => {
              expectTypeOf(payload).toEqualTypeOf<string>();
              expectTypeOf(state).toEqualTypeOf<{ total: number }>();
              return Receive.noreply(state);
            },
          },
          updates: {
            add: {
              validate: (input, state) => {
                expectTypeOf(input).toEqualTypeOf<{ n: number }>();
                expectTypeOf(state).toEqualTypeOf<{ total: number }>();
              },
              handle: async (input, state) => Receive.reply(state.total, { total: state.total + input.n }),
            },
          },
          timeout: "1h",
          checkpointEvery: 100,
        },
      );
      expectTypeOf(state).toEqualTypeOf<{ total: number }>();
      expectTypeOf(timedOut).toEqualTypeOf<boolean>();
    });
  });
});

describe("what operations give", () => {
  it("C1 C2 C3 branch results keep their place, key and type, at compile time", () => {
    workflow("scopes", async (ctx) => {
      const settled = await ctx.parallel([async () => 1, async () => "two"]);
      expectTypeOf(settled).toEqualTypeOf<[PromiseSettledResult<number>, PromiseSettledResult<string>]>();

      const mapped = await ctx.parallel([1, 2].map((n) => async () => n));
      expectTypeOf(mapped).toEqualTypeOf<PromiseSettledResult<number>[]>();

      const joined = await ctx.join("join", { user: async () => "u", posts: async () => [1] });
      expectTypeOf(joined).toEqualTypeOf<{ user: string; posts: number[] }>();

      const raced = await ctx.race("race", { work: async () => 42, timeout: async () => null });
      expectTypeOf(raced.winner).toEqualTypeOf<"work" | "timeout">();
      if (raced.winner === "work") expectTypeOf(raced.value).toEqualTypeOf<number>();
      else expectTypeOf(raced.value).toEqualTypeOf<null>();
    });
  });

  it("L1 a loop gives what it breaks with, and goes on only with its own state, at compile time", () => {
    workflow("loops", async (ctx) => {
      const counted = await ctx.loop({ name: "counted", state: { n: 0 } }, async (_ctx, state) => {
        if (state.n > 3) return Loop.break(`${state.n}`);
        return Loop.continue({ n: state.n + 1 });
      });
      expectTypeOf(counted).toEqualTypeOf<string>();

      const named = await ctx.loop("named", async (ctx) => {
        if (ctx.random() > 0.5) return Loop.break(7);
        return;
      });
      expectTypeOf(named).toEqualTypeOf<number>();

      // @ts-expect-error not the loop's state
      await ctx.loop({ name: "counted", state: { n: 0 } }, async () => Loop.continue("one"));
    });
  });

  it("C6 condition gives the truthy value, with a timeout perhaps none, at compile time", () => {
    workflow("waits", async (ctx) => {
      const cell = ctx.ivar<{ id: string }>();
      expectTypeOf(await ctx.condition(() => cell.tryRead())).toEqualTypeOf<{ id: string }>();
      expectTypeOf(await ctx.condition(() => cell.tryRead(), "1m")).toEqualTypeOf<{ id: string } | undefined>();
      expectTypeOf(await cell.wait()).toEqualTypeOf<{ id: string }>();
    });
  });

  it("P6 D6 steps, side effects, transactions and try give what their functions give, at compile time", () => {
    workflow("calls", async (ctx) => {
      expectTypeOf(await ctx.step("sync", () => 1)).toEqualTypeOf<number>();
      const charged = await ctx.step("async", async () => "receipt", {
        rollback: (output) => {
          expectTypeOf(output).toEqualTypeOf<string>();
        },
      });
      expectTypeOf(charged).toEqualTypeOf<string>();
      expectTypeOf(await ctx.sideEffect(() => 1)).toEqualTypeOf<number>();
      expectTypeOf(await ctx.transaction("write", (tx: { run(sql: string): number }) => tx.run("…"))).toEqualTypeOf<number>();
      // @ts-expect-error a transaction has no timeout of its own
      await ctx.transaction("write", () => 1, { timeout: "1s" });
      const tried = await ctx.try("try", async () => 1);
      expectTypeOf(tried).toEqualTypeOf<{ ok: true; value: number } | { ok: false; error: Error }>();
    });
  });

  it("D11 K6 activities and children take their own input and give their own output, at compile time", () => {
    const price = activity("price", async (sku: string) => sku.length);
    const child = workflow({ name: "child", signals: { go: signal() } }, async (_ctx, input: { id: string }) => input.id);
    workflow("parent", async (ctx): Promise<number | ContinueAsNew> => {
      expectTypeOf(await ctx.child(child, { id: "1" }, { parentClose: "abandon" })).toEqualTypeOf<string>();
      expectTypeOf(await ctx.startChild(child, { id: "1" })).toEqualTypeOf<ChildHandle<string>>();
      // @ts-expect-error not the child's input
      await ctx.child(child, { id: 1 });
      // @ts-expect-error not the activity's argument
      await ctx.activity(price, 1);
      return ctx.activity(price, "AB-1", { startToClose: "30s" });
    });
  });

  it("V3 removed takes a kind of operation, at compile time", () => {
    workflow("changed", async (ctx) => {
      ctx.removed("legacy-audit", "step");
      // @ts-expect-error no such kind
      ctx.removed("legacy-audit", "audit");
      expectTypeOf(ctx.patched("new-pricing")).toEqualTypeOf<boolean>();
    });
  });
});
