// node worker.mjs <contender and target as JSON>: a worker in a process of its own, until whoever started it goes away.

import { contenders } from "./plan.mjs";

const { contender, target } = JSON.parse(process.argv[2] ?? "{}");
const { module, options } = contenders[contender];
const { open } = await import(`./contenders/${module}.mjs`);
const subject = await open(target, { ...options, workers: 1 });
process.once("disconnect", async () => {
  await subject.close();
  process.exit(0);
});
process.send("ready");
