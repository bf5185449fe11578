// Job: the example workflows, one of each shape: sequential, entity, multi-phase, fan-out, async handlers, side effects,
// continue-as-new, and one with nearly everything.
// Owns: nothing; they run in workflows.test.ts.
import { FatalError, Loop, Receive, RollbackError, signal, update, workflow } from "@holdfast/core";
import { batchInsert, charge, createAccount, type Item, lookupPrice, refund, sendReceipt, sendWelcome } from "./shop.ts";

// Sequential
export const onboarding = workflow(
  { name: "onboarding", queries: { status: (state: { step: string } | undefined) => state?.step } },
  async (ctx, input: { userId: string }) => {
    ctx.publishState({ step: "creating_account" });
    const account = await ctx.activity(createAccount, input.userId);
    ctx.publishState({ step: "sending_welcome" });
    await ctx.activity(sendWelcome, account);
    ctx.publishState({ step: "done" });
    return { accountId: account.id };
  },
);

// Entity
export const counter = workflow(
  {
    name: "counter",
    signals: { increment: signal(), decrement: signal(), done: signal() },
    queries: { value: (state: number | undefined) => state ?? 0 },
  },
  async (ctx) => {
    ctx.publishState(0);
    const { state } = await ctx.receive(0, {
      signals: {
        increment: (_, count) => Receive.noreply(count + 1),
        decrement: (_, count) => Receive.noreply(count - 1),
        done: (_, count) => Receive.stop(count),
      },
    });
    ctx.publishState(state);
    return state;
  },
);

// Multi-phase
type Cart = { items: Item[] };
export const shoppingCart = workflow(
  {
    name: "shopping-cart",
    signals: { checkout: signal() },
    updates: {
      addItem: update<Item, void>(),
      removeItem: update<string, void>(),
      confirm: update<void, "ok">(),
      cancel: update<void, "ok">(),
    },
    queries: { status: (state: { phase: string; itemCount?: number; total?: number } | undefined) => state },
  },
  async (ctx) => {
    ctx.publishState({ phase: "open", itemCount: 0 });
    const { state: cart } = await ctx.receive<Cart>(
      { items: [] },
      {
        updates: {
          addItem: {
            validate: (item) => {
              if (!/^[A-Z]+-\d+$/.test(item.sku)) throw new Error("invalid SKU");
            },
            handle: (item, state, ctx) => {
              const items = [item, ...state.items];
              ctx.publishState({ phase: "open", itemCount: items.length });
              return Receive.reply(undefined, { items });
            },
          },
          removeItem: (sku, state) => Receive.reply(undefined, { items: state.items.filter((i) => i.sku !== sku) }),
        },
        signals: { checkout: (_, state) => Receive.stop(state) },
      },
    );

    ctx.publishState({ phase: "charging", itemCount: cart.items.length });
    const total = await ctx.activity(charge, cart.items);
    ctx.publishState({ phase: "confirming", total });
    const { state: outcome } = await ctx.receive<{ confirmed?: boolean }>(
      {},
      {
        updates: {
          confirm: () => Receive.stop("ok" as const, { confirmed: true }),
          cancel: () => Receive.stop("ok" as const, { confirmed: false }),
        },
      },
    );
    if (outcome.confirmed) {
      ctx.publishState({ phase: "done", total });
      await ctx.activity(sendReceipt, total);
      return { total };
    }
    ctx.publishState({ phase: "refunded" });
    await ctx.activity(refund, total);
    return "cancelled" as const;
  },
);

// Fan-out
export const batch = workflow("batch", async (ctx, input: { items: string[] }) => {
  const results = await ctx.parallel(input.items.map((item) => (ctx) => ctx.activity(lookupPrice, item)));
  const failures = results.filter((r) => r.status === "rejected").length;
  if (failures > 0) throw new FatalError(`${failures} failed`);
  return { processed: results.length };
});

// Async update handlers
type Stock = Record<string, { quantity: number; price: number }>;
export const inventory = workflow(
  {
    name: "inventory",
    signals: { close: signal() },
    updates: { restock: update<Item, { quantity: number; price: number }>() },
    queries: { stock: (state: Stock | undefined) => state ?? {} },
  },
  async (ctx) => {
    const { state } = await ctx.receive<{ stock: Stock }>(
      { stock: {} },
      {
        updates: {
          restock: (item, state) =>
            Receive.async(async (ctx) => {
              const price = await ctx.activity(lookupPrice, item.sku);
              const [entry, stock] = await ctx.updateState((s) => {
                const entry = { quantity: (s.stock[item.sku]?.quantity ?? 0) + item.quantity, price };
                const stock = { ...s.stock, [item.sku]: entry };
                return [[entry, stock] as const, { stock }];
              });
              ctx.publishState(stock);
              return entry;
            }, state),
        },
        signals: { close: (_, state) => Receive.stop(state) },
        checkpointEvery: 1000,
      },
    );
    return state.stock;
  },
);

// Side effects, versions
export const orders = workflow("orders", async (ctx, input: { customerId: string }) => {
  const orderNumber = await ctx.sideEffect(() => Math.floor(Math.random() * 1e6));
  const startedAt = ctx.now();
  if (ctx.patched("use-new-pricing")) await ctx.step("price-v2", () => 2);
  else await ctx.step("price-v1", () => 1);
  ctx.removed("legacy-audit", "step");
  return { orderNumber, startedAt, customer: input.customerId };
});

// Continue-as-new
export const collector = workflow(
  {
    name: "collector",
    signals: { event: signal<string>(), flush: signal() },
    queries: { count: (n: number | undefined) => n ?? 0 },
  },
  async (ctx, input: { generation: number }) => {
    ctx.publishState(0);
    const { state, timedOut } = await ctx.receive<string[]>([], {
      signals: {
        event: (e, events, ctx) => {
          ctx.publishState(events.length + 1);
          return Receive.noreply([...events, e]);
        },
        flush: (_, events) => Receive.stop(events),
      },
      timeout: "24h",
    });
    await ctx.activity(batchInsert, state);
    if (timedOut && input.generation > 10) return input.generation;
    return ctx.continueAsNew({ generation: input.generation + 1 });
  },
);

// Steps, Promise.all, sleep, join, race, loop, rollback, human in the loop
export const checkout = workflow("checkout", async (ctx, _input: { orderId: string }) => {
  const [user, settings] = await Promise.all([
    ctx.step("fetch-user", async () => ({ id: 1, email: "a@b.c" })),
    ctx.step("fetch-settings", async () => ({ theme: "dark" })),
  ]);
  await ctx.sleep("wait-one-hour", "1h");
  const both = await ctx.join("fetch-all", {
    user: async (ctx) => ctx.step("user", () => "u"),
    posts: async (ctx) => ctx.step("posts", () => [1, 2, 3]),
  });
  const raced = await ctx.race("timeout", {
    work: async (ctx) => ctx.step("work", () => 42),
    timeout: async (ctx) => {
      await ctx.sleep("5s");
      return null;
    },
  });
  if (raced.winner === "work") raced.value.toFixed();
  const processed = await ctx.loop(
    { name: "process-items", state: { cursor: 0, processed: 0 }, commitInterval: 10, historyEvery: 10, historyKeep: 10 },
    async (ctx, state) => {
      const page = await ctx.step("fetch", () => ({ items: state.cursor < 3 ? [1] : [], next: state.cursor + 1 }));
      if (page.items.length === 0) return Loop.break(state.processed);
      await ctx.step("process", () => {});
      return Loop.continue({ cursor: page.next, processed: state.processed + page.items.length });
    },
  );
  ctx.rollbackCheckpoint("billing");
  const receipt = await ctx.step("charge", async ({ idempotencyKey }) => ({ id: idempotencyKey }), {
    timeout: "30s",
    retry: { maxAttempts: 5, initialInterval: "100ms" },
    rollback: async (receipt) => {
      receipt.id.trim();
    },
  });
  const approval = await ctx.waitForSignal("approve", { timeout: "2d" });
  if (approval.timedOut) throw new RollbackError("nobody approved");
  const done = ctx.ivar<number>();
  done.put(processed);
  const seen = await ctx.condition(() => done.tryRead(), "1m");
  seen?.toFixed();
  return { user, settings, both, receipt };
});

// Nesting rules, at compile time and at run time
export const receiveInBranch = workflow("receive-in-branch", async (ctx) => {
  await ctx.parallel([
    async (ctx) => {
      // @ts-expect-error receive is the root's
      await ctx.receive(0, {});
    },
  ]);
});
export const updateStateInRoot = workflow("update-state-in-root", async (ctx) => {
  // @ts-expect-error updateState is an async handler's
  await ctx.updateState((s) => [1, s]);
});
