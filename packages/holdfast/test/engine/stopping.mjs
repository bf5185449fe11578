// A process with work in progress, and an end: "one" or "two" engines that stop on signals, a "hasty" one, or an "activity" that stop() abandons.
// With a url, the run is in that store, for others to go on with.
// It says what happens, a line each. A step lasts until a line comes in.

import { createInterface } from "node:readline";
import { activity, Holdfast, workflow } from "holdfast";

const [mode, url = "memory:"] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${line}\n`);
const lines = createInterface({ input: process.stdin });

const work = workflow("work", async (ctx) => {
  await ctx.step("work", async () => {
    say("begun");
    await new Promise((resolve) => lines.once("line", resolve));
    say("ended");
  });
  if (url !== "memory:") await ctx.step("go on", () => say("went on"));
});

if (mode === "activity") {
  lines.close();
  process.stdin.destroy(); // nothing but the worker keeps this process alive
  let begin = () => {};
  const begun = new Promise((resolve) => {
    begin = resolve;
  });
  const endless = activity("endless", () => {
    begin();
    return new Promise(() => {});
  });
  const engine = await Holdfast.open("memory:");
  const waits = workflow("waits", async (ctx) => ctx.activity(endless, undefined));
  const worker = await engine.worker({ workflows: [waits], activities: [endless], gracePeriod: 300 });
  await engine.start(waits, undefined);
  await begun;
  await worker.stop();
  say("stopped");
  await engine.close();
  say("closed");
} else {
  if (mode === "two") {
    const idle = await Holdfast.open("memory:");
    const worker = await idle.worker({ workflows: [work], stopOn: ["SIGTERM"] });
    process.on("SIGTERM", () => void worker.stop().then(() => setImmediate(() => say("the idle one has stopped"))));
  }
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => say(signal));
  const engine = await Holdfast.open(url);
  await engine.worker({ workflows: [work], stopOn: ["SIGTERM", "SIGINT"], gracePeriod: mode === "hasty" ? 200 : "30s" });
  await engine.start(work, undefined, { id: "run" });
}
