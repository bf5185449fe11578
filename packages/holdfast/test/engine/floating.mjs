// A process in which promises reject before they are awaited: a "workflow"'s, or the "owner"'s own. Also to be run by `node --test`.

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
/** Its own error, in a turn in which no code awaits it yet: it is awaited later, or never. */
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
const { workerData } = await import("node:worker_threads");
const [whose, url = "memory:"] = workerData ?? (process.env.NODE_TEST_CONTEXT === undefined ? process.argv.slice(2) : ["test"]);
const engine = await Holdfast.open(url, { logger: silent });
await engine.worker({ workflows: [floating, asynchronous, careless, stray] });

const acts = {
  workflow: async () => (await engine.start(floating, undefined)).result(),
  async closures() {
    const run = await engine.start(asynchronous, undefined);
    const failure = await run.result().catch((error) => error.cause.attempts);
    return `${failure} ${await run.query("late").catch((error) => error.name)}`;
  },
  /** Every kind of theirs, and one of the owner's: what does a listener in this process hear? */
  async listener() {
    const heard = [];
    process.on("unhandledRejection", (reason) => heard.push(reason.message));
    process.on("uncaughtException", (error) => heard.push(error.message)); // where rejections are uncaught first (strict)
    const results = [];
    for (const [one, input] of [
      [floating, undefined],
      [careless, { forgets: false }],
      [careless, { forgets: true }],
    ])
      results.push(await (await engine.start(one, input)).result());
    const isHeard = new Promise((resolve) => {
      process.on("unhandledRejection", resolve);
    });
    void Promise.reject(new Error("mine"));
    await isHeard;
    return [...results, ...new Set(heard)].join(", ");
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
if (whose === "test") {
  const { test } = await import("node:test");
  for (const act of ["workflow", "careless", "closures"]) test(act, acts[act]);
  test("owner", async () => {
    void Promise.reject(new Error("mine"));
    await new Promise((resolve) => setImmediate(resolve));
  });
  test("close", () => engine.close());
} else if (whose === "thread") {
  const { Worker } = await import("node:worker_threads");
  const thread = new Worker(new URL(import.meta.url), { workerData: ["listener", url] });
  const code = await new Promise((resolve, reject) => void thread.on("exit", resolve).on("error", reject));
  await engine.close();
  process.exitCode = code;
} else {
  process.stdout.write(await acts[whose]());
  await engine.close();
}
