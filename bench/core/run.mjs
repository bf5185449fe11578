// bench/core: operations a second through the executor with nothing stored.
// One run of many sequential steps and many runs of a hundred, live and in replay; each at a half, whole and double size, since
// time and memory must be linear in the number of operations. A figure, not a test: compare only within one run of it.

import { Executor, jsonCodec, replayView, workflow } from "@holdfast/core";

const chain = workflow("chain", async (ctx, steps) => {
  let sum = 0;
  for (let i = 0; i < steps; i++) sum += await ctx.step("work", () => 1);
  return sum;
});

const ONE = jsonCodec.encode(1);

/** Drives one run to its end as a host would, with every step's outcome known at once. Records turns if asked to. */
async function drive(id, steps, turns) {
  const executor = new Executor({ workflow: chain });
  let jobs = [{ type: "start", runId: id, workflow: "chain", input: jsonCodec.encode(steps), seed: id, startedAt: 0 }];
  let index = 0;
  let length = 0;
  for (;;) {
    const completion = await executor.activate({ time: index, jobs, historyLength: length });
    if (completion.status === "failed") throw completion.error;
    turns?.push({ index, time: index, historyLength: length, jobs, commands: completion.commands });
    index++;
    length = 0;
    const last = completion.commands[completion.commands.length - 1];
    if (last.type === "complete") return turns;
    jobs = [{ type: "resolve", seq: last.seq, outcome: { status: "completed", value: ONE } }];
  }
}

async function replayed(turns) {
  const executor = new Executor({ workflow: chain });
  const completion = await executor.replay(replayView(turns));
  if (completion.status === "failed") throw completion.error;
}

/** What a run leaves in memory. Forced collections cost the code that follows its speed: they are kept away from what is timed. */
async function weighed(run) {
  globalThis.gc?.();
  const heap = process.memoryUsage().heapUsed;
  const kept = await run();
  globalThis.gc?.();
  return { bytes: process.memoryUsage().heapUsed - heap, kept };
}
async function timed(run) {
  await new Promise(setImmediate);
  const start = performance.now();
  await run();
  return (performance.now() - start) / 1000;
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function series(label, operations, run) {
  const rates = [];
  for (let i = 0; i < 3; i++) await run(); // warm, as a server is
  for (let i = 0; i < 3; i++) rates.push(operations / (await timed(run)));
  const spread = `${Math.round(Math.min(...rates)).toLocaleString("en")} – ${Math.round(Math.max(...rates)).toLocaleString("en")}`;
  console.log(`${label.padEnd(44)} ${Math.round(median(rates)).toLocaleString("en").padStart(10)} operations/s   (${spread})`);
  return median(rates);
}

console.log(`node ${process.version}\n`);
await drive("warm", 20_000);

for (const steps of [50_000, 100_000, 200_000]) {
  await series(`one run of ${steps.toLocaleString("en")} steps, live`, steps, () => drive("run", steps));
}
for (const steps of [50_000, 100_000, 200_000]) {
  const { kept: turns, bytes } = await weighed(() => drive("run", steps, []));
  await series(`one run of ${steps.toLocaleString("en")} steps, replay`, steps, () => replayed(turns));
  console.log(`${"".padEnd(44)} ${(bytes / steps).toFixed(0).padStart(10)} bytes of history in memory an operation`);
}
for (const runs of [500, 1_000, 2_000]) {
  const all = (make) => Promise.all(Array.from({ length: runs }, (_, i) => make(i)));
  await series(`${runs.toLocaleString("en")} runs of 100 steps, live`, runs * 100, () => all((i) => drive(`run-${i}`, 100)));
  const turns = await drive("run", 100, []);
  await series(`${runs.toLocaleString("en")} runs of 100 steps, replay`, runs * 100, () => all(() => replayed(turns)));
}
