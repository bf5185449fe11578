// Job: the snippets of the programming model's document, each as a workflow that can be run.
// Owns: nothing; they run in model.test.ts.
import { activity, FatalError, Receive, signal, update, workflow } from "@holdfast/core";

export const fetchUser = activity("users.fetch", async (id: number) => ({ id, name: "Ada" }));
export const loadConfig = activity("config.load", async (tenant: string) => ({ tenant, theme: "dark" }));
export const priceOf = activity("pricing.lookup", async (sku: string) => sku.length);
export const stepA = activity("step.a", async (_: string) => "a");
export const stepB = activity("step.b", async (_: string): Promise<string> => {
  throw new FatalError("b is broken");
});
export const stepC = activity("step.c", async (_: string) => "c");
export const processOrder = activity("orders.process", async (_order: { customerId: string; orderNumber: number }) => {});
export const MODEL_ACTIVITIES = [fetchUser, loadConfig, priceOf, stepA, stepB, stepC, processOrder];

/** Sequences.next("orders") and UUID.uuid4(), counted. */
export function identifiers(next: () => number) {
  return workflow("identifiers", async (ctx) => {
    const orderNumber = await ctx.sideEffect(() => next());
    const correlationId = await ctx.sideEffect(() => `correlation-${next()}`);
    await ctx.sleep("pause", "1m");
    return { orderNumber, correlationId };
  });
}

/** The side effects of an order: they run once, and are recorded. */
export function orderProcessing(next: () => number, clock: () => Date) {
  return workflow("order-processing", async (ctx, { customerId }: { customerId: string }) => {
    const orderNumber = await ctx.sideEffect(() => next());
    const startedAt = await ctx.sideEffect(() => clock());
    ctx.publishState({ orderNumber, status: "processing" });
    await ctx.activity(processOrder, { customerId, orderNumber });
    return { orderNumber, startedAt };
  });
}

export const pricingBefore = workflow("pricing", async (ctx, item: string) => ctx.step("pricing.v1", () => `${item}: old`));
export const pricing = workflow("pricing", async (ctx, item: string) => {
  if (ctx.patched("use-new-pricing")) return ctx.step("pricing.v2", () => `${item}: new`);
  return ctx.step("pricing.v1", () => `${item}: old`);
});
/** After every run from before the patch has ended. */
export const pricingAfter = workflow("pricing", async (ctx, item: string) => {
  ctx.deprecatePatch("use-new-pricing");
  return ctx.step("pricing.v2", () => `${item}: new`);
});

/** A workflow module: queries on what was published, and the three ways for `run` to return. */
export const checkout = workflow(
  {
    name: "checkout",
    queries: {
      status: (state: { phase: string } | undefined) => state?.phase,
      items: (state: { items?: string[] } | undefined) => state?.items,
    },
  },
  async (ctx, input: { end: "ok" | "error" | "continue_as_new" }) => {
    ctx.publishState({ phase: "open", items: ["book"] });
    await ctx.sleep("think", "1s");
    if (input.end === "error") throw new FatalError("declined");
    if (input.end === "continue_as_new") return ctx.continueAsNew({ end: "ok" });
    return "paid";
  },
);

/** wait_for_signal during linear execution. */
export const approvals = workflow("approvals", async (ctx) => {
  await ctx.step("prepare", () => {});
  const first = await ctx.waitForSignal("approve");
  const second = await ctx.waitForSignal("approve");
  return [first, second];
});

/** Handlers of every kind of return value. */
export const handlers = workflow(
  {
    name: "handlers",
    signals: { name: signal<string>(), done: signal() },
    updates: { add: update<number, number>(), guarded: update<number, number>(), finish: update<void, string>() },
  },
  async (ctx) =>
    ctx.receive(
      { names: [] as string[], sum: 0 },
      {
        signals: {
          name: (name, state) => Receive.noreply({ ...state, names: [...state.names, name] }),
          done: (_, state) => Receive.stop(state),
        },
        updates: {
          add: (n, state) => Receive.reply(state.sum + n, { ...state, sum: state.sum + n }),
          guarded: {
            validate: (n, state) => {
              if (n <= state.sum) throw new Error("reason");
            },
            handle: (n, state) => Receive.reply(n, { ...state, sum: n }),
          },
          finish: (_, state) => Receive.stop("bye", state),
        },
      },
    ),
);

export const dayLong = workflow({ name: "day-long", signals: { note: signal<string>(), close: signal() } }, async (ctx) => {
  const { state, timedOut } = await ctx.receive([] as string[], {
    signals: { note: (text, all) => Receive.noreply([...all, text]), close: (_, all) => Receive.stop(all) },
    timeout: "24h",
  });
  return timedOut ? { timedOut: state } : state;
});

/** Sync handlers may block; the next message waits for them. */
export const blocking = workflow({ name: "blocking", signals: { work: signal<number>(), done: signal() } }, async (ctx) => {
  const { state } = await ctx.receive([] as number[], {
    signals: {
      work: async (n, all, ctx) => {
        await ctx.parallel([(ctx) => ctx.step("left", () => {}), (ctx) => ctx.step("right", () => {})]);
        await ctx.sleep("rest", "1s");
        return Receive.noreply([...all, n]);
      },
      done: (_, all) => Receive.stop(all),
    },
  });
  return state;
});

type Priced = { items: { sku: string; price: number }[] };
export const addItems = workflow(
  {
    name: "add-items",
    signals: { note: signal<string>(), stop: signal() },
    updates: { addItem: update<string, number>(), count: update<void, number>() },
  },
  async (ctx) => {
    const { state } = await ctx.receive<Priced>(
      { items: [] },
      {
        updates: {
          addItem: (sku, state) =>
            Receive.async(async (ctx) => {
              const price = await ctx.activity(priceOf, sku);
              return ctx.updateState((s) => [price, { items: [{ sku, price }, ...s.items] }]);
            }, state),
          // Reading without changing: the state is returned as it was.
          count: (_, state) => Receive.async((ctx) => ctx.updateState((s) => [s.items.length, s]), state),
        },
        signals: {
          note: (text, state) =>
            Receive.async(async (ctx) => {
              await ctx.step("note", () => {});
              if (text === "bad") throw new Error("no such note");
              return "ignored";
            }, state),
          stop: (_, state) => Receive.stop(state),
        },
      },
    );
    return state.items.map((item) => item.sku);
  },
);

export const threeSteps = workflow("three-steps", async (ctx) => {
  const results = await ctx.parallel([
    (ctx) => ctx.activity(stepA, "x"),
    (ctx) => ctx.activity(stepB, "y"),
    (ctx) => ctx.activity(stepC, "z"),
  ]);
  return results.map((one) => (one.status === "fulfilled" ? { ok: one.value } : { error: (one.reason as Error).name }));
});

export const userAndConfig = workflow("user-and-config", async (ctx, args: { userId: number; tenant: string }) => {
  const [user, config] = await ctx.parallel([
    (ctx) => ctx.activity(fetchUser, args.userId),
    (ctx) => ctx.activity(loadConfig, args.tenant),
  ]);
  if (user.status === "rejected" || config.status === "rejected") throw new FatalError("not both");
  return { user: user.value, config: config.value };
});

/** Nested fan-out. */
export const nestedFanOut = workflow("nested-fan-out", async (ctx) => {
  await ctx.parallel([
    (ctx) => ctx.parallel([(ctx) => ctx.step("a", () => {}), (ctx) => ctx.step("b", () => {})]),
    async (ctx) => {
      await ctx.sideEffect(() => 1);
      ctx.publishState("from a branch");
      await ctx.sleep("1s");
    },
  ]);
});

/** Three kinds of state, independent of one another. */
export const threeStates = workflow({ name: "three-states", signals: { set: signal<string>(), done: signal() } }, async (ctx) => {
  const local = await ctx.step("local", () => "local");
  ctx.publishState({ phase: "open", itemCount: 0 });
  const { state } = await ctx.receive("accumulator", {
    signals: { set: (next) => Receive.noreply(next), done: (_, all) => Receive.stop(all) },
  });
  ctx.publishState({ phase: "charging" });
  await ctx.sleep("pause", "1s");
  return { local, state };
});

export const publishesInClosure = workflow(
  { name: "publishes-in-closure", updates: { restock: update<string, number>() } },
  async (ctx) => {
    await ctx.receive(0, {
      updates: {
        restock: (_sku, state) =>
          Receive.async(
            (ctx) =>
              ctx.updateState((s) => {
                ctx.publishState(s + 1);
                return [s + 1, s + 1];
              }),
            state,
          ),
      },
    });
  },
);
