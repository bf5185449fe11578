// @rivetkit/workflow-engine on its own memory driver and on Holdfast's: no queue, no lease. Its own driver waits for a timer of at least a
// millisecond in every call, even with its latency set to 0; Holdfast's driver does not wait.

import { MemoryDriver } from "@holdfast/kv";
import { runWorkflow } from "@rivetkit/workflow-engine";
import { InMemoryDriver } from "@rivetkit/workflow-engine/testing";
import { byCallers } from "../statistics.mjs";

const CONCURRENCY = 100;

class SameMemoryDriver extends InMemoryDriver {
  atomicBatch = true;
  memory = new MemoryDriver();
  batches = 0;
  lists = 0;
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
    this.lists++;
    return this.memory.list(prefix);
  }
  batch(writes) {
    this.batches++;
    return this.memory.batch(writes.map(({ key, value }) => ({ type: "set", key, value })));
  }
  setAlarm(id, at) {
    return this.memory.setAlarm(id, at);
  }
  clearAlarm(id) {
    return this.memory.clearAlarm(id);
  }
}

async function sequential(ctx, steps) {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i }));
  return steps;
}
async function parallel(ctx, steps) {
  const branches = {};
  for (let i = 0; i < steps; i++) branches[`branch-${i}`] = { run: (branch) => branch.step("work", async () => ({ ok: true, i })) };
  return Object.keys(await ctx.join("all", branches)).length;
}
async function parked(ctx, steps) {
  for (let i = 0; i < steps; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i }));
  await ctx.sleep("long", 86_400_000);
}

export async function open(_target, { driver }) {
  const makeDriver = () => {
    if (driver !== "own") return new SameMemoryDriver();
    const own = new InMemoryDriver();
    own.latency = 0;
    return own;
  };
  let last;
  const toTheEnd = async (definition, size) => {
    last = makeDriver();
    const { state, output } = await runWorkflow("run", definition, size, last, { mode: "yield" }).result;
    if (state !== "completed" || output !== size) throw new Error(`The run ended ${state}.`);
  };
  return {
    throughput: (runs) => byCallers(CONCURRENCY, runs, () => toTheEnd(sequential, 5)),
    latency: () => toTheEnd(sequential, 1),
    depth: (steps) => toTheEnd(sequential, steps),
    width: (count) => toTheEnd(parallel, count),
    calls: () => ({ batches: last.batches }),
    async parkedRun(records) {
      const memory = makeDriver();
      const run = () => runWorkflow("run", parked, Math.floor((records - 2) / 2), memory, { mode: "yield" }).result;
      await run();
      let lists = 0;
      const wake = async () => {
        const before = memory.lists;
        const { state } = await run();
        if (state !== "sleeping") throw new Error(`The run is ${state}.`);
        lists = memory.lists - before;
      };
      return { wake, calls: () => ({ lists }) };
    },
    async close() {},
  };
}
