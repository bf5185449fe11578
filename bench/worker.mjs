// node worker.mjs <contender and target as JSON>: a worker in a separate process, which ends with the process that started it.

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
