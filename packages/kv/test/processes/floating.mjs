// A process in which promises reject before somebody awaits them: a "workflow"'s, or the "owner"'s own while a run is live.

import { FatalError, MemoryDriver, runWorkflow, workflow } from "@holdfast/kv";

const floating = workflow("floating", async (ctx) => {
  const promise = (async () => ctx.step("fails", () => Promise.reject(new FatalError("no"))))();
  await ctx.sleep(20);
  return promise.catch((error) => error.name);
});
if (process.argv[2] === "workflow") {
  process.removeAllListeners("unhandledRejection"); // whoever was there before
  const { output } = await runWorkflow({ driver: new MemoryDriver(), workflow: floating, id: "r", mode: "live" }).result();
  process.stdout.write(output);
} else {
  const waiting = workflow("waiting", async (ctx) => ctx.waitForSignal("never"));
  const handle = runWorkflow({ driver: new MemoryDriver(), workflow: waiting, id: "r", mode: "live" });
  await handle.describe();
  const unhandled = new Promise((resolve) => {
    process.on("unhandledRejection", resolve);
  });
  const promise = Promise.reject(new Error("mine"));
  await unhandled;
  process.stdout.write(await promise.catch((error) => error.message));
  await handle.evict();
}
