// `holdfast replay` of open runs with 100 records each, by what it takes of the processors.

import { Holdfast, workflow } from "holdfast";
import { completed, project } from "./places.mjs";

const STEPS = 49;
const CODE = `import { signal, workflow } from "holdfast";
export const steps = workflow({ name: "steps", signals: { go: signal() } }, async (ctx) => {
  for (let i = 0; i < ${STEPS}; i++) await ctx.step("work", async () => i);
  await ctx.waitForSignal("go");
});
`;

export async function replayFigures({ isQuick }) {
  const count = isQuick ? 200 : 10_000;
  const { folder, remove } = project({ "workflows/steps.ts": CODE });
  const url = `file:${folder}/.holdfast/holdfast.db`;
  const { mkdirSync } = await import("node:fs");
  mkdirSync(`${folder}/.holdfast`);
  const engine = await Holdfast.open(url);
  const steps = workflow("steps", async (ctx) => {
    for (let i = 0; i < STEPS; i++) await ctx.step("work", async () => i);
    await ctx.waitForSignal("go");
  });
  const worker = await engine.worker({ workflows: [steps] });
  for (let i = 0; i < count; i += 500)
    await engine.startMany(
      steps,
      Array.from({ length: Math.min(500, count - i) }, () => ({})),
    );
  while ((await engine.count({ status: "sleeping" })).sleeping < count) await new Promise((done) => setTimeout(done, 50));
  const [first] = (await engine.list({ limit: 1 })).runs;
  const records = (await engine.run(first?.id ?? "").describe()).historyLength;
  await worker.stop();
  await engine.close();
  // Starting and loading the code is the same for few runs: it is taken off.
  const idle = await completed(["replay", "--sample", "1", "--json"], folder);
  const { cpuMs, ms } = await completed(["replay", "--json"], folder);
  remove();
  const note = `${count.toLocaleString("en")} histories of ${records} records`;
  return [
    {
      name: "`replay`, histories per second of processor time",
      value: (count - 1) / ((cpuMs - idle.cpuMs) / 1_000),
      unit: "/s",
      goal: 2_000,
      isLeast: true,
      note,
    },
    { name: "`replay`, histories per second, with its start", value: count / (ms / 1_000), unit: "/s", note },
  ];
}
