// A process with a worker, for others to kill: it says "ready", and a line for each run that it begins. Arguments: a url, a lease.

import { Holdfast, workflow } from "holdfast";

const [url, lease] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${line}\n`);
const works = workflow("works", async (ctx) => {
  await ctx.step("work", () => {
    say("begun");
    return new Promise(() => {});
  });
});
const engine = await Holdfast.open(url);
await engine.worker({ workflows: [works], lease });
say("ready");
