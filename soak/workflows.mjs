// The workflows of the soak: each exercises one feature, and returns a result that a model can predict.
// Owns: the definitions that workers serve.
// Invariants: an output depends only on the input and on acknowledged messages, never on attempts, workers or time.

import { activity, FatalError, Loop, Receive, RollbackError, signal, update, workflow } from "holdfast";
import { begin, end, work } from "./effects.mjs";
import { addEntry, after, readEntries } from "./ledgerTable.mjs";

/** @typedef {{ value: number, ms: number, failures: number }} Work */

/** Attempts that are lost with their worker count (D7), so there are enough of them for every step to succeed. */
const retry = { maxAttempts: 1_000, initialInterval: 30, maxInterval: 300 };

/** @param {any} ctx @param {string} name @param {Work} plan @param {object} [options] */
const step = async (ctx, name, plan, options = {}) => (await ctx.step(name, work(plan.value, plan), { retry, ...options })).value;

const sum = (/** @type {readonly number[]} */ numbers) => numbers.reduce((total, one) => total + one, 0);

export const chain = workflow("chain", async (ctx, /** @type {{ steps: Work[] }} */ { steps }) => {
  let total = 0;
  for (const plan of steps) total += await step(ctx, "link", plan);
  return total;
});

export const fan = workflow(
  "fan",
  async (ctx, /** @type {{ how: "parallel" | "join" | "all", branches: Work[][] }} */ { how, branches }) => {
    const branch = (/** @type {Work[]} */ plans) => async (/** @type {any} */ own) => {
      let total = 0;
      for (const plan of plans) total += await step(own, "part", plan);
      return total;
    };
    if (how === "all") return sum(await Promise.all(branches.flat().map((plan, i) => step(ctx, `part-${i}`, plan))));
    if (how === "join")
      return sum(Object.values(await ctx.join("parts", Object.fromEntries(branches.map((plans, i) => [`b${i}`, branch(plans)])))));
    const settled = await ctx.parallel(branches.map(branch));
    return sum(settled.map((one) => (one.status === "fulfilled" ? one.value : Number.NaN)));
  },
);

/** Fails at `failAt` and rolls back its completed steps. */
export const saga = workflow(
  "saga",
  async (ctx, /** @type {{ steps: Work[], failAt: number, how: "fatal" | "rollback" }} */ { steps, failAt, how }) => {
    for (const [i, plan] of steps.entries()) {
      if (i === failAt && how === "rollback") throw new RollbackError(`stopped at ${i}`);
      if (i === failAt) await ctx.step("bad", work(0, { error: () => new FatalError(`stopped at ${i}`) }), { retry });
      await step(ctx, `do-${i}`, plan, {
        rollback: (/** @type {unknown} */ _, /** @type {any} */ info) => void end(info, begin(info), true),
      });
    }
    return steps.length;
  },
);

/** @typedef {{ order: string[], total: number, notes: string[] }} Account */
/** @typedef {{ id: string, plan: Work }} Entry */

/** @param {Account} state @param {Entry} entry @returns {Account} */
const booked = (state, { id, plan }) => ({ ...state, order: [...state.order, id], total: state.total + plan.value });

/** @returns {import("holdfast").UpdateSpec<Entry, number>} */
const booking = () => update();

/** An entity with many clients. Every kind of update appends its entry, and replies with the position of the entry. */
export const account = workflow(
  {
    name: "account",
    updates: { add: booking(), post: booking(), later: booking(), close: booking() },
    signals: { note: /** @type {import("holdfast").SignalSpec<string>} */ (signal()) },
  },
  async (ctx, /** @type {{ checkpointEvery: number }} */ { checkpointEvery }) => {
    const { state } = await ctx.receive(/** @type {Account} */ ({ order: [], total: 0, notes: [] }), {
      checkpointEvery,
      updates: {
        add: (entry, state) => Receive.reply(state.order.length, booked(state, entry)),
        post: async (entry, state, own) => {
          await step(own, "post", entry.plan);
          return Receive.reply(state.order.length, booked(state, entry));
        },
        later: (entry, state) =>
          Receive.async(async (own) => {
            await step(own, "later", entry.plan);
            return own.updateState((now) => [now.order.length, booked(now, entry)]);
          }, state),
        close: (_, state) => Receive.stop(state.order.length, state),
      },
      signals: { note: (id, state) => Receive.noreply({ ...state, notes: [...state.notes, id] }) },
    });
    return state;
  },
);

/** @typedef {{ plan: Work, children: Tree[] }} Tree */
/** @type {import("holdfast").Workflow<Tree, number>} */
export const tree = workflow("tree", async (ctx, /** @type {Tree} */ { plan, children }) => {
  const own = await step(ctx, "node", plan);
  if (children.length === 1) return own + (await ctx.child(tree, /** @type {Tree} */ (children[0])));
  const handles = [];
  for (const child of children) handles.push(await ctx.startChild(tree, child));
  let total = own;
  for (const handle of handles) total += await handle.result();
  return total;
});

export const counter = workflow("counter", async (ctx, /** @type {{ plans: Work[], every: number }} */ { plans, every }) =>
  ctx.loop(
    { name: "count", state: { i: 0, total: 0 }, commitInterval: every, historyEvery: 2 * every, historyKeep: every },
    async (own, { i, total }) => {
      const plan = plans[i];
      if (plan === undefined) return Loop.break(total);
      return Loop.continue({ i: i + 1, total: total + (await step(own, "tick", plan)) });
    },
  ),
);

/** Writes exactly one row per entry to a table of the user. */
export const ledger = workflow("ledger", async (ctx, /** @type {{ entries: Work[] }} */ { entries }) => {
  let total = 0;
  for (const [i, { value, failures }] of entries.entries()) {
    total += await ctx.transaction(
      "book",
      (tx, info) => {
        const token = begin(info);
        return after(addEntry(tx, info.idempotencyKey.split("/")[0] ?? "", i, value), () => {
          if (info.attempt <= failures) throw new Error("rolled back as planned");
          end(info, token, true);
          return value;
        });
      },
      { retry },
    );
  }
  return total;
});

/** Reads that table, for the checks. */
export const audit = workflow("audit", async (ctx, /** @type {{ from: number, count: number }} */ { from, count }) =>
  ctx.transaction("read", (tx) => readEntries(tx, from, count)),
);

/** Consumes signals as they arrive, and returns them in that order. */
export const collector = workflow(
  { name: "collector", signals: { item: signal(), extra: signal() } },
  async (ctx, /** @type {{ items: number, extras: number, plan: Work }} */ { items, extras, plan }) => {
    const got = { items: /** @type {unknown[]} */ ([]), extras: /** @type {unknown[]} */ ([]) };
    for (let i = 0; i < items; i++) {
      got.items.push(await ctx.waitForSignal("item"));
      if (i % 3 === 0) await step(ctx, "look", plan);
    }
    while (got.extras.length < extras) {
      const heard = await ctx.listen(["extra"], { count: 3, timeout: 200 });
      got.extras.push(...heard.map(({ payload }) => payload));
    }
    return got;
  },
);

export const sleeper = workflow("sleeper", async (ctx, /** @type {{ naps: number[], plan: Work }} */ { naps, plan }) => {
  let early = 0;
  for (const nap of naps) {
    const before = ctx.now().getTime();
    await ctx.sleep(nap);
    if (ctx.now().getTime() - before < nap) early++;
    await step(ctx, "awake", plan);
  }
  return { early };
});

/** Continues as new after each signal; signals that it has not consumed are carried over. */
export const relay = workflow(
  { name: "relay", signals: { baton: signal() } },
  async (ctx, /** @type {{ laps: number, got: unknown[], plan: Work }} */ { laps, got, plan }) => {
    if (laps === 0) return got;
    await step(ctx, "lap", plan);
    const baton = await ctx.waitForSignal("baton");
    return ctx.continueAsNew({ laps: laps - 1, got: [...got, baton], plan });
  },
);

const errand = activity("errand", async (/** @type {Work} */ plan, info) => (await work(plan.value, plan)(info)).value, { retry });
const beating = activity(
  "beating",
  async (/** @type {Work} */ plan, info) => {
    info.heartbeat(info.attempt);
    return (await work(plan.value, plan)(info)).value;
  },
  { retry, startToClose: "60s" },
);
export const courier = workflow("courier", async (ctx, /** @type {{ errands: Work[] }} */ { errands }) => {
  const first = await ctx.activity(beating, /** @type {Work} */ (errands[0]));
  return first + sum(await Promise.all(errands.slice(1).map((plan) => ctx.activity(errand, plan))));
});

/** Waits to be cancelled, and cleans up. */
export const waiter = workflow({ name: "waiter", signals: { never: signal() } }, async (ctx, /** @type {{ plan: Work }} */ { plan }) => {
  try {
    await step(ctx, "before", plan);
    await ctx.waitForSignal("never");
  } finally {
    await ctx.shield((own) => step(own, "cleanup", plan));
  }
});

/** The first branch to succeed wins; the other is cancelled. */
export const racer = workflow("racer", async (ctx, /** @type {{ plan: Work, naps: number[] }} */ { plan, naps }) => {
  const { winner, value } = await ctx.race("first", {
    work: (own) => step(own, "run", plan),
    nap: async (own) => {
      for (const nap of naps) await own.sleep(nap);
      return -1;
    },
  });
  return winner === "work" ? value === plan.value : value === -1;
});

/** The run is retried as a whole; its completed steps do not run again. */
export const stubborn = workflow(
  { name: "stubborn", retry: { maxAttempts: 4, initialInterval: 50 } },
  async (ctx, /** @type {{ plan: Work, failures: number }} */ { plan, failures }) => {
    const value = await step(ctx, "first", plan);
    if (ctx.run.attempt <= failures) throw new Error(`run ${ctx.run.attempt} fails as planned`);
    return value + (await step(ctx, "second", plan));
  },
);

/** Fails with a fatal error until a client resumes it. */
export const resumed = workflow("resumed", async (ctx, /** @type {{ plan: Work }} */ { plan }) => {
  const value = await step(ctx, "first", plan);
  const once = async (/** @type {any} */ info) => {
    const done = await work(plan.value, plan)(info);
    if (info.attempt === 1) throw new FatalError("to be resumed");
    return done;
  };
  return value + (await ctx.step("once", once, { retry })).value;
});

/** Has two children: one ends by itself, the other is cancelled with its parent. */
export const family = workflow("family", async (ctx, /** @type {{ items: number, plan: Work }} */ { items, plan }) => {
  await ctx.startChild(waiter, { plan });
  const child = await ctx.startChild(collector, { items, extras: 0, plan });
  for (let i = 0; i < items; i++) await child.signal("item", `item${i}`);
  return (await child.result()).items.join();
});

export const workflows = [
  chain,
  fan,
  saga,
  account,
  tree,
  counter,
  ledger,
  audit,
  collector,
  sleeper,
  relay,
  courier,
  waiter,
  racer,
  stubborn,
  resumed,
  family,
];
export const activities = [errand, beating];
