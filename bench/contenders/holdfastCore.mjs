// The executor of Holdfast on its own, and `replay`, which checks code against histories.

import { Executor, jsonCodec, replay, replayView, workflow } from "@holdfast/core";
import { Holdfast } from "holdfast";

const RECORDS = 100;
const HISTORIES = 50;
/** The number of operations of one run. */
const LENGTH = 100;

const chain = workflow("chain", async (ctx, steps) => {
  let sum = 0;
  for (let i = 0; i < steps; i++) sum += await ctx.step("work", () => 1);
  return sum;
});
const ONE = jsonCodec.encode(1);

/** Drives one run to its end like a host; the outcome of every step is available at once. Records the turns if `turns` is given. */
async function drive(id, steps, turns) {
  const executor = new Executor({ workflow: chain });
  let jobs = [{ type: "start", runId: id, workflow: "chain", input: jsonCodec.encode(steps), seed: id, startedAt: 0 }];
  for (let index = 0; ; index++) {
    const completion = await executor.activate({ time: index, jobs, historyLength: 0 });
    if (completion.status === "failed") throw completion.error;
    turns?.push({ index, time: index, historyLength: 0, jobs, commands: completion.commands });
    const last = completion.commands[completion.commands.length - 1];
    if (last.type === "complete") return turns;
    jobs = [{ type: "resolve", seq: last.seq, outcome: { status: "completed", value: ONE } }];
  }
}

const recordsOf = ({ turns }) => turns.reduce((sum, { jobs, commands }) => sum + jobs.length + commands.length, 0);

/** Histories of real runs, read from the engine: a hundred records each, including start and end. */
async function realHistories() {
  const engine = await Holdfast.open("memory:");
  await engine.worker({ workflows: [chain], determinism: "off" });
  const runs = await engine.startMany(
    chain,
    Array.from({ length: HISTORIES }, () => ({ input: RECORDS / 2 - 1 })),
  );
  await Promise.all(runs.map((run) => run.result()));
  const histories = await Promise.all(runs.map((run) => run.history()));
  await engine.close();
  const records = recordsOf(histories[0]);
  if (records !== RECORDS) throw new Error(`A history has ${records} records.`);
  return histories;
}

export async function open() {
  let histories = [];
  return {
    async prepare() {
      histories = await realHistories();
    },
    async check(count) {
      for (let i = 0; i < count; i++) await replay(chain, histories[i % histories.length]);
    },
    async live(operations) {
      for (let at = 0; at < operations; at += LENGTH) await drive(`run-${at}`, LENGTH);
    },
    async recorded(operations) {
      globalThis.gc?.();
      const heap = process.memoryUsage().heapUsed;
      const turns = [];
      for (let at = 0; at < operations; at += LENGTH) turns.push(await drive(`run-${at}`, LENGTH, []));
      globalThis.gc?.();
      return { turns, bytes: process.memoryUsage().heapUsed - heap };
    },
    async replayed(runs) {
      for (const turns of runs) {
        const completion = await new Executor({ workflow: chain }).replay(replayView(turns));
        if (completion.status === "failed") throw completion.error;
      }
    },
    async close() {},
  };
}
