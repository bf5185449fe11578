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
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const engine = await Holdfast.open("memory:", { logger: silent });
await engine.worker({ workflows: [floating, asynchronous] });
if (process.argv[2] === "workflow") process.stdout.write(await (await engine.start(floating, undefined)).result());
else if (process.argv[2] === "closures") {
  const run = await engine.start(asynchronous, undefined);
  const failure = await run.result().catch((error) => error.cause.attempts);
  process.stdout.write(`${failure} ${await run.query("late").catch((error) => error.name)}`);
} else {
  const unhandled = new Promise((resolve) => {
    process.on("unhandledRejection", resolve);
  });
  const promise = Promise.reject(new Error("mine"));
  await unhandled;
  process.stdout.write(await promise.catch((error) => error.message));
}
await engine.close();
