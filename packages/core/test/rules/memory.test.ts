// Job: prove that what a run leaves behind is garbage: evicted and forgotten executors, ended units, abandoned steps.
// Owns: the objects that workflows hold here, watched by weak references. Needs `--expose-gc`.
// Invariants: X10 (eviction drops, it never settles), W5 (parked runs can be discarded), L4, C7.
import { type AnyWorkflow, Executor, jsonCodec, Loop, Receive, serializeError, type WorkflowContext, workflow } from "@holdfast/core";
import { drive, Harness } from "@holdfast/core/testing";
import { describe, expect, it } from "vitest";

const macrotask = () => new Promise<void>((resolve) => setImmediate(resolve));

/** What is left of the objects after collecting garbage, giving finalizers and microtasks their time. */
async function alive(refs: readonly WeakRef<object>[]): Promise<number> {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) throw new Error("Run with --expose-gc.");
  let count = refs.length;
  for (let i = 0; i < 10 && count > 0; i++) {
    await macrotask();
    gc();
    await macrotask();
    count = refs.filter((ref) => ref.deref() !== undefined).length;
  }
  return count;
}

/** Something that only the frame of workflow code which made it holds. */
class Held {
  readonly bytes = new Uint8Array(1_000);
}
/** Makes them, and remembers them weakly. */
class Watch {
  readonly refs: WeakRef<object>[] = [];
  make(): Held {
    const held = new Held();
    this.refs.push(new WeakRef(held));
    return held;
  }
}

type Suspend = (ctx: WorkflowContext, watch: Watch) => Promise<unknown>;
const kid = workflow("kid", async () => 0);
const SUSPENDED: Readonly<Record<string, Suspend>> = {
  "a step, and its body": (ctx, watch) => {
    const inBody = watch.make();
    return ctx.step("s", () => inBody.bytes.length);
  },
  "a step with a rollback": (ctx, watch) => {
    const inRollback = watch.make();
    return ctx.step("s", () => 0, { rollback: () => void inRollback.bytes });
  },
  "a sleep": (ctx) => ctx.sleep("1d"),
  "a wait for a signal": (ctx) => ctx.waitForSignal("never", { timeout: "1d" }),
  "a condition, and its predicate": (ctx, watch) => {
    const inPredicate = watch.make();
    return ctx.condition(() => inPredicate.bytes.length === 0);
  },
  "a cell": (ctx) => ctx.ivar().wait(),
  "a child": (ctx) => ctx.child(kid, undefined),
  "parallel branches": (ctx, watch) =>
    ctx.parallel([
      async (c) => {
        const inBranch = watch.make();
        await c.sleep("1d");
        return inBranch.bytes;
      },
      async () => watch.make().bytes.length,
    ]),
  "a race": (ctx, watch) =>
    ctx.race("r", {
      a: async (c) => {
        const inBranch = watch.make();
        await c.sleep("1d");
        return inBranch.bytes;
      },
    }),
  "a loop": (ctx, watch) =>
    ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (c, i: number) => {
      const inIteration = watch.make();
      if (i === 5) await c.sleep("1d");
      return Loop.continue(i + Math.sign(inIteration.bytes.length));
    }),
  "a receive with handlers in flight": (ctx, watch) =>
    ctx.receive(watch.make() as unknown, {
      signals: {
        go: (_payload, state) => {
          const inHandler = watch.make();
          return Receive.async(async (c) => {
            await c.sleep("1d");
            return inHandler.bytes;
          }, state);
        },
      },
    }),
  "a promise that another holds": (ctx) => Promise.all([ctx.sleep("1d"), Promise.race([ctx.step("s", () => 0), ctx.waitForSignal("x")])]),
};

function suspended(suspend: Suspend, watch: Watch): AnyWorkflow {
  return workflow("suspended", async (ctx) => {
    const held = watch.make();
    try {
      await suspend(ctx, watch);
    } finally {
      held.bytes.fill(1);
    }
  });
}

async function startWith(executor: Executor, name: string): Promise<void> {
  const start = { type: "start", runId: "r", workflow: name, input: jsonCodec.encode(undefined), seed: "s", startedAt: 0 } as const;
  const go = { type: "signal", id: "go", name: "go", payload: jsonCodec.encode(undefined) } as const;
  const completion = await executor.activate({ time: 0, jobs: [start, go] });
  expect(completion.status).toBe("ok");
}

describe("X10 eviction", () => {
  it.each(Object.keys(SUSPENDED))("X10 W5 an evicted run suspended in %s holds nothing, though its executor is kept", async (kind) => {
    const watch = new Watch();
    const executor = new Executor({ workflow: suspended(SUSPENDED[kind] as Suspend, watch) });
    await startWith(executor, "suspended");
    expect(await alive(watch.refs.slice(0, 1))).toBe(1);

    await executor.activate({ time: 0, jobs: [{ type: "evict" }] });

    expect(await alive(watch.refs)).toBe(0);
    expect(executor.openOperations).toEqual([]);
  });

  it.each(Object.keys(SUSPENDED))(
    "X10 an executor that is just forgotten, suspended in %s, is collected with all it holds",
    async (kind) => {
      const watch = new Watch();
      const forgotten = await (async () => {
        const executor = new Executor({ workflow: suspended(SUSPENDED[kind] as Suspend, watch) });
        await startWith(executor, "suspended");
        return new WeakRef(executor);
      })();
      expect(await alive([...watch.refs, forgotten])).toBe(0);
    },
  );

  it("X10 a replayed run that is evicted holds nothing either", async () => {
    const watch = new Watch();
    const wf = suspended(
      (ctx, own) =>
        ctx.loop({ name: "l", state: 0, commitInterval: 2 }, async (c, i: number) => {
          const held = own.make();
          await c.step("s", () => held.bytes);
          return Loop.continue(i + 1);
        }),
      watch,
    );
    const h = await Harness.start(wf);
    for (let i = 0; i < 5; i++) await h.resolve("s");
    await h.recover();
    await h.activate({ type: "evict" });
    expect(await alive(watch.refs)).toBe(0);
    expect(h.turns.length).toBeGreaterThan(0);
  });

  it("X10 X7 a run that broke a rule and is evicted holds nothing", async () => {
    const watch = new Watch();
    const wf = suspended((ctx) => ctx.parallel([(c) => c.sleep("1d"), () => ctx.step("violation", () => 0)]), watch);
    const h = new Harness(wf);
    const error: unknown = await h.start().catch((caught: unknown) => caught);
    // V8 keeps the frames of an error alive until its stack is read; recording the error reads it.
    expect(serializeError(error)).toMatchObject({ name: "OutOfTurnError" });
    await h.activate({ type: "evict" });
    expect(await alive(watch.refs)).toBe(0);
  });

  it("X10 W5 a thousand parked runs are discarded one by one", async () => {
    const watch = new Watch();
    const kinds = Object.values(SUSPENDED);
    const executors: Executor[] = [];
    for (let i = 0; i < 1_000; i++) {
      const executor = new Executor({ workflow: suspended(kinds[i % kinds.length] as Suspend, watch) });
      await startWith(executor, "suspended");
      executors.push(executor);
    }
    for (const executor of executors) await executor.activate({ time: 0, jobs: [{ type: "evict" }] });
    expect(watch.refs.length).toBeGreaterThanOrEqual(1_000);
    expect(await alive(watch.refs)).toBe(0);
    expect(executors).toHaveLength(1_000);
  });

  it("X10 finalizers run for what an evicted run held", async () => {
    let finalized = 0;
    const registry = new FinalizationRegistry<undefined>(() => finalized++);
    const watch = new Watch();
    const wf = suspended((ctx) => {
      const held = watch.make();
      registry.register(held, undefined);
      return ctx.sleep("1d").then(() => held);
    }, watch);
    const executor = new Executor({ workflow: wf });
    await startWith(executor, "suspended");
    await executor.activate({ time: 0, jobs: [{ type: "evict" }] });
    expect(await alive(watch.refs)).toBe(0);
    await macrotask();
    expect(finalized).toBe(1);
  });

  it("X10 jobs that come after the eviction wake nothing", async () => {
    const seen: string[] = [];
    const wf = workflow("late", async (ctx) => {
      try {
        await ctx.step("s", () => 0);
      } finally {
        seen.push("finally");
      }
    });
    const h = await Harness.start(wf);
    const late = h.resolved("s");
    await h.activate({ type: "evict" });
    await h.activate(late);
    await macrotask();
    expect(seen).toEqual([]);
  });
});

describe("X10 while a run lives", () => {
  it("L4 iterations that are over are not held", async () => {
    const watch = new Watch();
    const wf = workflow("loop", async (ctx) =>
      ctx.loop({ name: "l", state: 0 }, async (c, i: number) => {
        const held = watch.make();
        await c.step("s", () => held.bytes.length);
        await c.race("r", { a: (d) => d.sleep(1), b: (d) => d.step("abandoned", () => held.bytes) });
        return Loop.continue(i + 1);
      }),
    );
    const h = await Harness.start(wf);
    for (let i = 0; i < 100; i++) {
      await h.resolve("s");
      await h.fire();
    }
    expect(watch.refs).toHaveLength(101);
    expect(await alive(watch.refs.slice(0, 99))).toBe(0);
    expect(h.status).toBe("sleeping");
  });

  it("C7 the body of an abandoned step is not held", async () => {
    const watch = new Watch();
    const wf = workflow("abandons", async (ctx) => {
      const start = (c: Pick<WorkflowContext, "step">) => {
        const inBody = watch.make();
        return c.step("slow", () => inBody.bytes);
      };
      await ctx.race("r", { quick: (c) => c.sleep(1), slow: start });
      await ctx.sleep("1d");
    });
    const h = await Harness.start(wf);
    await h.fire();
    expect(await alive(watch.refs)).toBe(0);
    expect(h.status).toBe("sleeping");
  });

  it("X10 branches and handlers that are over are not held", async () => {
    const watch = new Watch();
    const wf = workflow("ended", async (ctx) => {
      await ctx.parallel(
        Array.from({ length: 10 }, () => async (c: WorkflowContext | Pick<WorkflowContext, "step">) => {
          const held = watch.make();
          await c.step("s", () => 0);
          held.bytes.fill(1);
        }),
      );
      await ctx.receive(0, {
        signals: {
          go: (_payload, state) => {
            const held = watch.make();
            return Receive.async(async (c) => {
              await c.step("t", () => held.bytes.length);
            }, state);
          },
        },
      });
    });
    const h = await Harness.start(wf);
    await h.turn(...h.openLocations.map((location) => h.resolved(location)));
    for (let i = 0; i < 10; i++) {
      await h.signal("go");
      await h.resolve("t");
    }
    expect(watch.refs).toHaveLength(20);
    expect(await alive(watch.refs)).toBe(0);
    expect(h.status).toBe("sleeping");
  });

  it("X10 a run that has ended holds nothing of its code", async () => {
    const watch = new Watch();
    const wf = workflow("ends", async (ctx) => {
      const held = watch.make();
      await ctx.step("s", () => held.bytes.length, { rollback: () => void held.bytes });
      await ctx.parallel([(c) => c.step("t", () => held.bytes.length)]);
      ctx.rollbackCheckpoint("done");
      return held.bytes.length;
    });
    const h = await drive(await Harness.start(wf));
    expect(h.output).toBe(1_000);
    expect(await alive(watch.refs)).toBe(0);
    expect(h.executor.closed).toBe(true);
  });
});
