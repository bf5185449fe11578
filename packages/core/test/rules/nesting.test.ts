// Job: prove rule N as the executor enforces it, for code that gets round the types.
// Owns: the workflows in it. What the compiler refuses is in ../model/nesting.test.ts.
// Invariants: N (every cell of its table), A5, V4 (a broken rule fails the turn, never the run).
import {
  type AnyWorkflow,
  type AsyncHandlerContext,
  activity,
  type BranchContext,
  type HandlerContext,
  IllegalCallError,
  IllegalReturnError,
  Loop,
  type NoReply,
  Receive,
  type UnitContext,
  type WorkflowContext,
  workflow,
} from "@holdfast/core";
import { crashAnywhere, drive, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

/** Every context, as code sees it that does not care for types. */
type AnyContext = WorkflowContext & AsyncHandlerContext<unknown>;
type Body = (ctx: AnyContext) => Promise<unknown>;
type Unit = "root" | "parallel branch" | "join branch" | "race branch" | "sync handler" | "async handler";

const untyped = (ctx: UnitContext) => ctx as AnyContext;

/** A workflow that does `body` in a unit of that kind; signal "go" is what handlers handle. */
function inside(unit: Unit, body: Body): AnyWorkflow {
  const branch = (ctx: BranchContext) => body(untyped(ctx));
  return workflow("nested", async (ctx): Promise<unknown> => {
    switch (unit) {
      case "root":
        return body(untyped(ctx));
      case "parallel branch":
        return (await ctx.parallel([branch])).map((slot) => (slot.status === "fulfilled" ? slot.value : slot.reason))[0];
      case "join branch":
        return (await ctx.join("j", { b: branch })).b;
      case "race branch":
        return (await ctx.race("r", { b: branch })).value;
      case "sync handler":
        return ctx.receive(0, { signals: { go: async (_payload, _state, handler) => (await body(untyped(handler))) as NoReply<number> } });
      case "async handler":
        return ctx.receive(0, {
          signals: {
            go: (_payload, state) => Receive.async((handler) => body(untyped(handler)), state),
          },
        });
    }
  });
}

/** The run up to the turn in which the body is first run. */
async function begin(unit: Unit, body: Body): Promise<Harness> {
  const h = new Harness(inside(unit, body));
  await h.start(undefined, ...(unit.endsWith("handler") ? [h.signalJob("go")] : []));
  return h;
}

/** What the turn failed with. */
async function failure(turn: Promise<unknown>): Promise<unknown> {
  return turn.then(
    () => "the turn did not fail",
    (error: unknown) => error,
  );
}

const UNITS: readonly Unit[] = ["root", "parallel branch", "join branch", "race branch", "sync handler", "async handler"];
const title: Readonly<Record<Unit, string>> = {
  root: "root",
  "parallel branch": "parallel/~0",
  "join branch": "j/b",
  "race branch": "r/b",
  "sync handler": "receive/~h0",
  "async handler": "receive/~h0/~async",
};

/** The bodies that count as the unit around them, each doing `body` inside. */
const WRAPPERS: readonly (readonly [string, (body: Body) => Body])[] = [
  ["loop", (body) => (ctx) => ctx.loop({ name: "l", state: 0 }, async (own) => Loop.break(await body(own)))],
  ["try", (body) => async (ctx) => (await ctx.try("t", (own) => body(own))).ok],
  ["shield", (body) => (ctx) => ctx.shield((own) => body(own))],
];

const receives: Body = (ctx) => ctx.receive(0, {});
const updatesState: Body = (ctx) => ctx.updateState((state) => ["result", state]);

interface Cell {
  readonly call: "receive" | "updateState";
  readonly unit: Unit;
  readonly body: Body;
}
const ILLEGAL: readonly Cell[] = [
  ...UNITS.filter((unit) => unit !== "root").map((unit): Cell => ({ call: "receive", unit, body: receives })),
  ...UNITS.filter((unit) => unit !== "async handler").map((unit): Cell => ({ call: "updateState", unit, body: updatesState })),
];

describe("N the cells that say no", () => {
  it.each(ILLEGAL)("N $call in a $unit is an IllegalCallError that names call, unit and reason", async ({ call, unit, body }) => {
    const error = await failure(begin(unit, body));
    expect(error).toBeInstanceOf(IllegalCallError);
    expect(error).toMatchObject({ call, unit: title[unit] });
    expect((error as IllegalCallError).reason).not.toBe("");
  });

  it.each(ILLEGAL)("N V4 $call in a $unit fails the turn even if user code swallows it", async ({ call, unit, body }) => {
    let seen: unknown;
    const error = await failure(
      begin(unit, async (ctx) => {
        try {
          await body(ctx);
        } catch (caught) {
          seen = caught;
        }
        return unit === "sync handler" ? Receive.noreply(0) : "swallowed";
      }),
    );
    expect(error).toMatchObject({ name: "IllegalCallError", call });
    expect(seen).toBe(error);
  });

  it.each(ILLEGAL)("N V4 $call in a $unit never settles the run", async ({ unit, body }) => {
    const h = new Harness(inside(unit, body));
    await failure(h.start(undefined, ...(unit.endsWith("handler") ? [h.signalJob("go")] : [])));
    expect(h.terminal).toBeUndefined();
    expect(h.commands).toEqual([]);
    expect(h.turns).toEqual([]);
  });

  for (const [wrapper, wrap] of WRAPPERS) {
    it.each(ILLEGAL)(
      `N $call in the body of a ${wrapper} within a $unit is refused as in the unit around it`,
      async ({ call, unit, body }) => {
        const error = await failure(begin(unit, wrap(body)));
        expect(error).toMatchObject({ name: "IllegalCallError", call });
      },
    );
  }

  it("N a branch within an async handler is a branch: no updateState, no receive", async () => {
    for (const body of [receives, updatesState]) {
      const error = await failure(begin("async handler", (ctx) => ctx.parallel([(own) => body(untyped(own))])));
      expect(error).toMatchObject({ name: "IllegalCallError", unit: "receive/~h0/~async/parallel/~0" });
    }
  });

  it("N a try around a violation does not make a value of it", async () => {
    const error = await failure(
      begin("root", async (ctx) => {
        const result = await ctx.try("t", async (own) => own.updateState((state) => [0, state]));
        return ctx.step(`after ${result.ok}`, () => 0);
      }),
    );
    expect(error).toBeInstanceOf(IllegalCallError);
  });

  it("N what is called after a violation leads nowhere, and nothing of the turn is recorded", async () => {
    const reached: string[] = [];
    const swallowing = inside("root", async (ctx) => {
      ctx.publishState("before");
      void ctx.step("before", () => 0);
      try {
        await ctx.updateState((state) => [0, state]);
      } catch {
        reached.push("caught");
      }
      ctx.publishState("after");
      await ctx.step("after", () => 0);
      reached.push("settled");
    });
    const h = new Harness(swallowing);

    await failure(h.start());

    expect(reached).toEqual(["caught"]);
    expect(h.turns).toEqual([]);
    expect(h.state).toBeUndefined();
    expect(h.open.size).toBe(0);
  });
});

describe("N waiting for signals in handlers", () => {
  const HANDLERS: readonly Unit[] = ["sync handler", "async handler"];
  const waits: readonly (readonly [string, (ctx: AnyContext, name: string) => Promise<unknown>])[] = [
    ["waitForSignal", (ctx, name) => ctx.waitForSignal(name)],
    ["waitForSignal with a timeout", (ctx, name) => ctx.waitForSignal(name, { timeout: "1h" })],
    ["listen", (ctx, name) => ctx.listen(["other", name])],
  ];
  const done = (unit: Unit, value: unknown) => (unit === "sync handler" ? Receive.stop(value as number) : value);

  for (const unit of HANDLERS) {
    it.each(waits)(`N %s in a ${unit} for a name that the receive handles is illegal`, async (_name, wait) => {
      const error = await failure(begin(unit, async (ctx) => done(unit, await wait(ctx, "go"))));
      expect(error).toMatchObject({ name: "IllegalCallError", unit: title[unit] });
      expect((error as IllegalCallError).reason).toContain('"go"');
    });

    it.each(waits)(`N V4 %s in a ${unit} for a handled name fails the turn even if swallowed`, async (_name, wait) => {
      const error = await failure(
        begin(unit, async (ctx) => {
          try {
            await wait(ctx, "go");
          } catch {}
          return done(unit, 0);
        }),
      );
      expect(error).toBeInstanceOf(IllegalCallError);
    });

    it.each(waits)(`N %s in a ${unit} for another name is legal`, async (_name, wait) => {
      const h = await begin(unit, async (ctx) => {
        await wait(ctx, "approve");
        return done(unit, 1);
      });
      expect(h.executor.waitingFor).toHaveLength(2);
      await h.signal("approve", "yes");
      expect(h.executor.waitingFor).toHaveLength(unit === "sync handler" ? 0 : 1);
      await crashAnywhere(h);
    });

    for (const [wrapper, wrap] of WRAPPERS) {
      it(`N waitForSignal for a handled name in the body of a ${wrapper} within a ${unit} is illegal`, async () => {
        const error = await failure(
          begin(
            unit,
            wrap((ctx) => ctx.waitForSignal("go")),
          ),
        );
        expect(error).toMatchObject({ name: "IllegalCallError", call: "waitForSignal" });
      });
    }

    it(`N waitForSignal for a handled name in a branch within a ${unit} is illegal`, async () => {
      const error = await failure(begin(unit, (ctx) => ctx.join("j", { b: (own) => own.waitForSignal("go") })));
      expect(error).toMatchObject({ name: "IllegalCallError", call: "waitForSignal" });
    });
  }

  it("N an async handler may not wait for a handled name after the receive was stopped either", async () => {
    const wf = workflow("stopped", async (ctx) =>
      ctx.receive(0, {
        signals: {
          go: (_payload, state) =>
            Receive.async(async (handler) => {
              await handler.step("work", () => 0);
              await handler.waitForSignal("go");
            }, state),
          stop: (_payload, state) => Receive.stop(state),
        },
      }),
    );
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("go"), h.signalJob("stop"));
    await expect(h.resolve("work")).rejects.toBeInstanceOf(IllegalCallError);
  });

  it("N root and branches may wait for any name while a receive handles it", async () => {
    const wf = workflow("beside", async (ctx) => {
      const own = ctx.waitForSignal("go");
      const { state } = await ctx.receive(0, { signals: { go: (payload, state: number) => Receive.stop(state + Number(payload)) } });
      return [await own, state];
    });
    const h = new Harness(wf);
    await h.start(undefined, h.signalJob("go", 1), h.signalJob("go", 2));
    expect(h.output).toEqual([1, 2]);
    await crashAnywhere(h);
  });
});

describe("N Receive.async as a result", () => {
  const result = () => Receive.async(async () => "later", 0);

  it("N a sync handler may return it", async () => {
    const h = await begin("sync handler", async () => result());
    expect(h.executor.waitingFor).toEqual(["receive"]);
  });

  it.each(UNITS.filter((unit) => unit !== "sync handler"))(
    "N V4 returned from a %s it fails the turn with IllegalReturnError",
    async (unit) => {
      const h = new Harness(inside(unit, async () => result()));
      const error = await failure(h.start(undefined, ...(unit.endsWith("handler") ? [h.signalJob("go")] : [])));
      expect(error).toBeInstanceOf(IllegalReturnError);
      expect(h.terminal).toBeUndefined();
      expect(h.turns).toEqual([]);
    },
  );
});

describe("N the cells that say yes", () => {
  const greet = activity("greet", async (name: string) => `hello ${name}`);
  const child = workflow("kid", async () => "grown");
  const everything: Body = async (ctx) => {
    const seen: unknown[] = [];
    seen.push(await ctx.step("s", () => "step"));
    seen.push(await ctx.transaction("t", () => "transaction"));
    seen.push(await ctx.activity(greet, "you"));
    seen.push(await ctx.child(child, undefined));
    await ctx.sleep(1);
    seen.push(await ctx.sideEffect(() => "side effect"));
    ctx.publishState("published");
    seen.push(ctx.now() instanceof Date, typeof ctx.random(), ctx.uuid().length);
    seen.push(ctx.patched("p"));
    await ctx.yield();
    seen.push((await ctx.parallel([async () => "parallel"])).length);
    seen.push(await ctx.join("join", { a: async () => "join" }));
    seen.push(await ctx.race("race", { a: async () => "race" }));
    seen.push(await ctx.loop("loop", async () => Loop.break("loop")));
    seen.push(await ctx.try("try", async () => "try"));
    seen.push(await ctx.shield(async () => "shield"));
    return seen;
  };
  const expected = [
    "step",
    "transaction",
    "hello you",
    "grown",
    "side effect",
    true,
    "number",
    36,
    true,
    1,
    { a: "join" },
    { winner: "a", value: "race" },
    "loop",
    { ok: true, value: "try" },
    "shield",
  ];

  it.each(UNITS)("N what every unit may do works in a %s", async (unit) => {
    let seen: unknown;
    const h = await begin(unit, async (ctx) => {
      seen = await everything(ctx);
      return unit === "sync handler" ? Receive.stop(0) : "done";
    });
    await drive(h, { activities: [greet], workflows: [child] });
    expect(seen).toEqual(expected);
    expect(h.state).toBe("published");
    await crashAnywhere(h);
  });

  it.each(["root", "parallel branch", "join branch", "race branch"] as const)("N waitForSignal and listen work in a %s", async (unit) => {
    const h = await begin(unit, async (ctx) => [await ctx.waitForSignal("a"), await ctx.listen(["b"])]);
    await h.turn(h.signalJob("a", 1), h.signalJob("b", 2));
    expect(h.output).toEqual([1, [{ name: "b", payload: 2 }]]);
    await crashAnywhere(h);
  });

  for (const [wrapper, wrap] of WRAPPERS) {
    it(`N the body of a ${wrapper} in the root may receive`, async () => {
      const h = await begin(
        "root",
        wrap((ctx) => ctx.receive(0, { signals: { end: (_payload, state) => Receive.stop(state) } })),
      );
      await h.signal("end");
      expect(h.status).toBe("completed");
      await crashAnywhere(h);
    });

    it(`N the body of a ${wrapper} in an async handler may updateState`, async () => {
      const wf = workflow("counts", async (ctx) =>
        ctx.receive(0, {
          signals: {
            add: (_payload, state: number) =>
              Receive.async(
                (handler) => wrap((own) => own.updateState((n) => [n, (n as number) + 1]))(handler as unknown as AnyContext),
                state,
              ),
            end: (_payload, state: number) => Receive.stop(state),
          },
        }),
      );
      const h = new Harness(wf);
      await h.start(undefined, h.signalJob("add"), h.signalJob("add"), h.signalJob("end"));
      expect(h.output).toEqual({ state: 2, timedOut: false });
      await crashAnywhere(h);
    });
  }

  it("N A5 updateState works in an async handler", async () => {
    const h = await begin("async handler", async (ctx: HandlerContext) => untyped(ctx).updateState((state) => ["read", state]));
    expect(h.executor.waitingFor).toEqual(["receive"]);
    await crashAnywhere(h);
  });
});
