// The key-value host of Holdfast on its memory driver or on LevelDB, one run at a time: no queue, no lease.

import { join } from "node:path";
import { workflow } from "@holdfast/core";
import { MemoryDriver, runWorkflow } from "@holdfast/kv";
import { byCallers } from "../statistics.mjs";

const CONCURRENCY = 100;

const sequential = workflow("sequential", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i }));
  return steps;
});
const parallel = workflow("parallel", async (ctx, steps) => {
  const branches = {};
  for (let i = 0; i < steps; i++) branches[`branch-${i}`] = (branch) => branch.step("work", async () => ({ ok: true, i }));
  return Object.keys(await ctx.join("all", branches)).length;
});
const parked = workflow("parked", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i }));
  await ctx.waitForSignal("never");
});

/** A driver that counts batches and lists since it was created or since the counts were last read. */
function counted(driver) {
  const counts = { batches: 0, lists: 0 };
  for (const [call, count] of [
    ["batch", "batches"],
    ["list", "lists"],
  ]) {
    const original = driver[call].bind(driver);
    driver[call] = (...args) => {
      counts[count]++;
      return original(...args);
    };
  }
  return { driver, counts };
}

async function openDrivers({ folder }, driver) {
  if (driver !== "level") return { make: () => new MemoryDriver(), close: async () => {} };
  const { LevelStore } = await import("@holdfast/kv/level");
  const store = await LevelStore.open(join(folder, "level"));
  let made = 0;
  return { make: () => store.driver(`run-${made++}`), close: () => store.close() };
}

export async function open(target, { driver }) {
  const drivers = await openDrivers(target, driver);
  let last;
  async function toTheEnd(definition, size) {
    last = counted(drivers.make());
    const { status, output } = await runWorkflow({ driver: last.driver, workflow: definition, id: "run", input: size });
    if (status !== "completed" || output !== size) throw new Error(`The run ended ${status}.`);
  }
  return {
    throughput: (runs) => byCallers(CONCURRENCY, runs, () => toTheEnd(sequential, 5)),
    latency: () => toTheEnd(sequential, 1),
    depth: (steps) => toTheEnd(sequential, steps),
    width: (count) => toTheEnd(parallel, count),
    calls: () => ({ batches: last.counts.batches }),
    /** Creates a waiting run of `records` records. Waking it reads and replays it, and finds nothing to do. */
    async parkedRun(records) {
      const { driver: own, counts } = counted(drivers.make());
      const run = { driver: own, workflow: parked, id: "run", input: Math.floor((records - 2) / 2) };
      await runWorkflow(run);
      let lists = 0;
      const wake = async () => {
        const before = counts.lists;
        const { status } = await runWorkflow(run);
        if (status !== "sleeping") throw new Error(`The run is ${status}.`);
        lists = counts.lists - before;
      };
      return { wake, calls: () => ({ lists }) };
    },
    close: drivers.close,
  };
}
