// node closing.mjs <folder> <mark|end|never>: a run in a LevelDB that drains its signals; its process is killed once that batch of its end
// is written, and after the mark only once a signal that was sent then is acknowledged. Sends another signal when it starts. Says on stdout
// how each send went and, if the process lives on, how the run ended.

import { openWorkflow, runWorkflow, signal, workflow } from "@holdfast/kv";
import { LevelStore } from "@holdfast/kv/level";
import { decode } from "../../dist/storage/binary.js";
import { KEY } from "../../dist/storage/layout.js";

const [, , folder, moment] = process.argv;
const drain = workflow({ name: "drain", signals: { word: signal() } }, async (ctx) => {
  const words = [];
  for (;;) {
    const got = await ctx.listen(["word"], { count: 100, timeout: 20 });
    if (got.length === 0) return words;
    for (const { payload } of got) words.push(payload);
  }
});
const store = await LevelStore.open(folder);
const driver = store.driver("r");
const options = { driver, workflow: drain, id: "r" };
const { batch } = driver;
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`); // into a pipe, which takes it before this returns
async function send(word) {
  const sent = await openWorkflow(options)
    .signal("word", word)
    .then(
      () => word,
      (error) => error.code,
    );
  say({ sent });
}
driver.batch = async (writes) => {
  await batch.call(driver, writes);
  const write = writes.find(({ type, key }) => type === "set" && Buffer.compare(key, KEY.status) === 0);
  const status = write && decode(write.value);
  const isMoment = { mark: status?.closing === true, end: status?.status === "completed", never: false }[moment];
  if (!isMoment) return;
  if (moment === "mark") await send(`${process.pid} after the mark`);
  process.kill(process.pid, "SIGKILL");
};
const sent = send(`${process.pid} at the start`);
const ended = runWorkflow({ ...options, mode: "live" }).result();
await sent;
say({ ended: await ended });
await store.close();
