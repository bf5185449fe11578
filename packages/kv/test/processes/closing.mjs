// node closing.mjs <folder> <mark|end|never>: a run in a LevelDB that drains its signals; its process is killed once that batch of its end
// is written. Sends one signal if the run is there, and says on stdout how that went and, if it ends, how the run has.

import { openWorkflow, runWorkflow, signal, workflow } from "@holdfast/kv";
import { LevelStore } from "@holdfast/kv/level";

const [, , folder, moment] = process.argv;
const drain = workflow({ name: "drain", signals: { word: signal() } }, async (ctx) => {
  const words = [];
  for (;;) {
    const got = await ctx.listen(["word"], { count: 100, timeout: 200 });
    if (got.length === 0) return words;
    for (const { payload } of got) words.push(payload);
  }
});
const store = await LevelStore.open(folder);
const driver = store.driver("r");
const options = { driver, workflow: drain, id: "r" };
const { batch } = driver;
driver.batch = async (writes) => {
  await batch.call(driver, writes);
  const text = writes.map(({ value }) => (value === undefined ? "" : Buffer.from(value).toString("latin1"))).join();
  if (text.includes({ mark: "closing", end: "completed" }[moment])) process.kill(process.pid, "SIGKILL");
};
const sent = openWorkflow(options)
  .signal("word", process.pid)
  .then(
    () => process.pid,
    (error) => error.code,
  );
const ended = runWorkflow({ ...options, mode: "live" }).result();
process.stdout.write(`${JSON.stringify({ sent: await sent })}\n`);
process.stdout.write(`${JSON.stringify({ ended: await ended })}\n`);
await store.close();
