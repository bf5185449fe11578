// node worker.mjs <contender and target as JSON>: a worker in a separate process, which ends with the process that started it.

import { contenders } from "./plan.mjs";

const { contender, target } = JSON.parse(process.argv[2] ?? "{}");
const { module, options } = contenders[contender];
const { open } = await import(`./contenders/${module}.mjs`);
const subject = await open(target, { ...options, workers: 1 });
/** Asked for its usage: milliseconds of processor time since its start, and memory in MiB. */
process.on("message", () => {
  const { user, system } = process.cpuUsage();
  process.send({ processorMs: (user + system) / 1_000, mib: process.memoryUsage().rss / 2 ** 20 });
});
process.once("disconnect", async () => {
  await subject.close();
  process.exit(0);
});
process.send("ready");
