// @rivetkit/workflow-engine, on its own memory driver and on the one of Holdfast. Its own waits for a timer on every call, a millisecond
// at least, also with its latency set to 0; Holdfast's waits for nothing.

import { MemoryDriver } from "@holdfast/kv";
import { runWorkflow } from "@rivetkit/workflow-engine";
import { InMemoryDriver } from "@rivetkit/workflow-engine/testing";

class SameMemoryDriver extends InMemoryDriver {
  atomicBatch = true;
  constructor(counts) {
    super();
    this.memory = new MemoryDriver();
    this.counts = counts;
  }
  async get(key) {
    return (await this.memory.get(key)) ?? null;
  }
  set(key, value) {
    return this.memory.set(key, value);
  }
  delete(key) {
    return this.memory.delete(key);
  }
  batchDelete(keys) {
    return this.memory.batch(keys.map((key) => ({ type: "delete", key })));
  }
  deletePrefix(prefix) {
    return this.memory.deletePrefix(prefix);
  }
  deleteRange(start, end) {
    return this.memory.deleteRange(start, end);
  }
  list(prefix) {
    this.counts.list = (this.counts.list ?? 0) + 1;
    return this.memory.list(prefix);
  }
  batch(writes) {
    this.counts.batch = (this.counts.batch ?? 0) + 1;
    return this.memory.batch(writes.map(({ key, value }) => ({ type: "set", key, value })));
  }
  setAlarm(id, at) {
    return this.memory.setAlarm(id, at);
  }
  clearAlarm(id) {
    return this.memory.clearAlarm(id);
  }
}
function makeDriver(counts, { driver }) {
  if (driver !== "own") return new SameMemoryDriver(counts);
  const own = new InMemoryDriver();
  own.latency = 0;
  return own;
}

async function sequential(ctx, steps) {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ i }));
  return steps;
}
async function parallel(ctx, steps) {
  const branches = {};
  for (let i = 0; i < steps; i++) branches[`branch-${i}`] = { run: (branch) => branch.step("work", async () => ({ i })) };
  return Object.keys(await ctx.join("all", branches)).length;
}
async function parked(ctx, steps) {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ i }));
  await ctx.sleep("long", 86_400_000);
}

async function timed(run) {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

async function toTheEnd(definition, size, options) {
  const counts = {};
  const driver = makeDriver(counts, options);
  const ms = await timed(async () => {
    const { state, output } = await runWorkflow("run", definition, size, driver, { mode: "yield" }).result;
    if (state !== "completed" || output !== size) throw new Error(`It ended as ${state}.`);
  });
  return { ms, batches: counts.batch };
}

export const W3 = (size, options) => toTheEnd(sequential, size, options);
export const W4 = (size, options) => toTheEnd(parallel, size, options);

export async function wake(size, options) {
  const counts = {};
  const driver = makeDriver(counts, options);
  const steps = Math.floor((size - 2) / 2);
  await runWorkflow("run", parked, steps, driver, { mode: "yield" }).result;
  counts.batch = 0;
  counts.list = 0;
  const ms = await timed(async () => {
    const { state } = await runWorkflow("run", parked, steps, driver, { mode: "yield" }).result;
    if (state !== "sleeping") throw new Error(`It is ${state}.`);
  });
  return { ms, lists: counts.list, batches: counts.batch };
}
