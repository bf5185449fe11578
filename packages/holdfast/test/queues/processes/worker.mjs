// A worker with 100 slots on a queue that has three. It says when it is ready, and works until it is killed.

import { Holdfast, workflow } from "holdfast";

const [url = ""] = process.argv.slice(2);

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const job = workflow("job", async (ctx) => {
  await ctx.step("first", () => pause(5));
  await ctx.step("second", () => pause(5));
});

const engine = await Holdfast.open(url);
await engine.worker({ workflows: [job], queue: "three", concurrency: 100, lease: 1_000 });
process.stdout.write("ready\n");
