// A process in which promises reject before they are awaited: a "workflow"'s, or the "owner"'s own while a run is live. Also to be run by
// `node --test`.

import { FatalError, MemoryDriver, runWorkflow, workflow } from "@holdfast/kv";

const floating = workflow("floating", async (ctx) => {
  const promise = (async () => ctx.step("fails", () => Promise.reject(new FatalError("no"))))();
  await ctx.sleep(20);
  return promise.catch((error) => error.name);
});
/** Its own error, in a turn in which it is not awaited yet: it is awaited later, or never. */
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
const waiting = workflow("waiting", async (ctx) => ctx.waitForSignal("never"));
const start = (of, input) => runWorkflow({ driver: new MemoryDriver(), workflow: of, id: "r", mode: "live", input });
const resultOf = async (of, input) => (await start(of, input).result()).output;

const acts = {
  workflow: () => resultOf(floating),
  careless: () => resultOf(careless, { forgets: false }),
  forgetful: () => resultOf(careless, { forgets: true }),
  /** Every kind of theirs, and one of the owner's: what does a listener in this process hear? */
  async listener() {
    const heard = [];
    process.on("unhandledRejection", (reason) => heard.push(reason.message));
    const results = [await acts.workflow(), await acts.careless(), await acts.forgetful()];
    const handle = start(waiting);
    await handle.describe();
    const isHeard = new Promise((resolve) => {
      process.on("unhandledRejection", resolve);
    });
    void Promise.reject(new Error("mine"));
    await isHeard;
    await handle.evict();
    return [...results, ...heard].join(", ");
  },
  async step() {
    const stray = workflow("stray", async (ctx) => {
      await ctx.step("strays", async () => void Promise.reject(new Error("of a step")));
    });
    return resultOf(stray);
  },
  async waiter() {
    const handle = start(careless, { forgets: true });
    void handle.result().then(() => {
      throw new Error("of who waits");
    });
    await handle.result();
    await new Promise(() => {});
  },
  async owner() {
    const handle = start(waiting);
    await handle.describe();
    const unhandled = new Promise((resolve) => {
      process.on("unhandledRejection", resolve);
    });
    const promise = Promise.reject(new Error("mine"));
    await unhandled;
    const message = await promise.catch((error) => error.message);
    await handle.evict();
    return message;
  },
};
if (process.env.NODE_TEST_CONTEXT === undefined) process.stdout.write(await acts[process.argv[2]]());
else {
  const { test } = await import("node:test");
  for (const act of ["workflow", "careless", "forgetful"]) test(act, acts[act]);
}
