// A process in which promises reject before somebody awaits them: a "workflow"'s, or the "owner"'s own.

import { FatalError, Holdfast, workflow } from "holdfast";

const floating = workflow("floating", async (ctx) => {
  const promise = (async () => ctx.step("fails", () => Promise.reject(new FatalError("no"))))();
  await ctx.sleep(20);
  return promise.catch((error) => error.name);
});
const engine = await Holdfast.open("memory:");
await engine.worker({ workflows: [floating] });
if (process.argv[2] === "workflow") process.stdout.write(await (await engine.start(floating, undefined)).result());
else {
  const unhandled = new Promise((resolve) => {
    process.on("unhandledRejection", resolve);
  });
  const promise = Promise.reject(new Error("mine"));
  await unhandled;
  process.stdout.write(await promise.catch((error) => error.message));
}
await engine.close();
