// The key-value host of Holdfast, on its memory driver or on LevelDB.

import { workflow } from "@holdfast/core";
import { MemoryDriver, runWorkflow } from "@holdfast/kv";

/** @param {Record<string, number>} counts */
function counted(driver, counts) {
  for (const call of ["batch", "list"]) {
    const original = driver[call].bind(driver);
    driver[call] = (...args) => {
      counts[call] = (counts[call] ?? 0) + 1;
      return original(...args);
    };
  }
  return driver;
}

async function makeDriver(options, counts) {
  if (options.driver !== "level") return { driver: counted(new MemoryDriver(), counts), close: async () => {} };
  const { LevelStore } = await import("@holdfast/kv/level");
  const store = await LevelStore.open(options.folder);
  return { driver: counted(store.driver("run"), counts), close: () => store.close() };
}

const sequential = workflow("sequential", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ i }));
  return steps;
});
const parallel = workflow("parallel", async (ctx, steps) => {
  const branches = {};
  for (let i = 0; i < steps; i++) branches[`branch-${i}`] = (branch) => branch.step("work", async () => ({ i }));
  return Object.keys(await ctx.join("all", branches)).length;
});
const parked = workflow("parked", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ i }));
  await ctx.waitForSignal("never");
});

async function timed(run) {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

async function toTheEnd(definition, size, options) {
  const counts = {};
  const { driver, close } = await makeDriver(options, counts);
  const ms = await timed(async () => {
    const { status, output } = await runWorkflow({ driver, workflow: definition, id: "run", input: size });
    if (status !== "completed" || output !== size) throw new Error(`It ended as ${status}.`);
  });
  await close();
  return { ms, batches: counts.batch };
}

export const W3 = (size, options) => toTheEnd(sequential, size, options);
export const W4 = (size, options) => toTheEnd(parallel, size, options);

/** Wakes a run that has `size` records: reads, replays, finds nothing to do. */
export async function wake(size, options) {
  const counts = {};
  const { driver, close } = await makeDriver(options, counts);
  const steps = Math.floor((size - 2) / 2);
  await runWorkflow({ driver, workflow: parked, id: "run", input: steps });
  counts.batch = 0;
  counts.list = 0;
  const ms = await timed(async () => {
    const { status } = await runWorkflow({ driver, workflow: parked, id: "run", input: steps });
    if (status !== "sleeping") throw new Error(`It is ${status}.`);
  });
  await close();
  return { ms, lists: counts.list, batches: counts.batch };
}
