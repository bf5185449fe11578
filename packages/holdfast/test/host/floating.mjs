// A process in which promises reject before somebody awaits them: a "workflow"'s, or the "owner"'s own.

import { FatalError, Holdfast, workflow } from "holdfast";

const floating = workflow("floating", async (ctx) => {
  const promise = (async () => ctx.step("fails", () => Promise.reject(new FatalError("no"))))();
  await ctx.sleep(20);
  return promise.catch((error) => error.name);
});
/** What has to be synchronous, and is not: refused, and nothing else. */
const asynchronous = workflow({ name: "asynchronous", queries: { late: async () => Promise.reject(new Error("late")) } }, async (ctx) => {
  await ctx.sideEffect(async () => Promise.reject(new Error("aside"))).catch((error) => error.name);
  await ctx.step("fails", () => Promise.reject(new Error("again")), {
    retry: {
      maxAttempts: 2,
      initialInterval: 1,
      nonRetryable: () => {
        throw new Error("of the policy");
      },
    },
  });
});
/** Its own error, in a turn in which nobody awaits it yet: it is awaited later, or never. */
const careless = workflow("careless", async (ctx, { forgets }) => {
  let isOver = false;
  async function late() {
    await ctx.step("works", () => 1);
    isOver = true;
    throw new Error("of its own");
  }
  const promise = late();
  await ctx.condition(() => isOver);
  await ctx.sleep(1);
  return forgets ? "forgotten" : promise.catch((error) => error.message);
});
const stray = workflow("stray", async (ctx) => {
  await ctx.step("strays", async () => {
    void Promise.reject(new Error("of a step"));
  });
});
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const [, , whose, url = "memory:"] = process.argv;
const engine = await Holdfast.open(url, { logger: silent });
await engine.worker({ workflows: [floating, asynchronous, careless, stray] });

const acts = {
  workflow: async () => (await engine.start(floating, undefined)).result(),
  async closures() {
    const run = await engine.start(asynchronous, undefined);
    const failure = await run.result().catch((error) => error.cause.attempts);
    return `${failure} ${await run.query("late").catch((error) => error.name)}`;
  },
  careless: async () => (await engine.start(careless, { forgets: false })).result(),
  forgetful: async () => (await engine.start(careless, { forgets: true })).result(),
  step: async () => (await engine.start(stray, undefined)).result(),
  async waiter() {
    const run = await engine.start(careless, { forgets: true });
    void run.result().then(() => {
      throw new Error("of who waits");
    });
    await run.result();
    await new Promise(() => {});
  },
  async owner() {
    const unhandled = new Promise((resolve) => {
      process.on("unhandledRejection", resolve);
    });
    const promise = Promise.reject(new Error("mine"));
    await unhandled;
    return promise.catch((error) => error.message);
  },
};
process.stdout.write(await acts[whose]());
await engine.close();
