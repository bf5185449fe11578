// Holdfast on a SQLite file: default settings, or synchronous=NORMAL.
import { Holdfast, workflow } from "holdfast";

const five = workflow("five", async (ctx, input) => {
  for (let i = 0; i < 5; i++) await ctx.step(`step-${i}`, async () => ({ ok: true, i, input }));
  return { done: true };
});
const one = workflow("one", async (ctx) => ctx.step("only", async () => ({ ok: true })));
const chain = workflow("chain", async (ctx, steps) => {
  for (let i = 0; i < steps; i++) await ctx.step("work", async () => ({ ok: true, i }));
  return steps;
});
const wide = workflow("wide", async (ctx, width) => {
  const results = await Promise.all(Array.from({ length: width }, (_, i) => ctx.step(`wide-${i}`, async () => ({ ok: true, i }))));
  return results.length;
});

export async function open(file, { synchronous }) {
  const engine = await Holdfast.open(`file:${file}${synchronous === undefined ? "" : `?synchronous=${synchronous}`}`);
  const worker = await engine.worker({ workflows: [five, one, chain, wide], concurrency: 100, determinism: "off" });
  return {
    async throughput(runs) {
      const started = await engine.startMany(
        five,
        Array.from({ length: runs }, (_, i) => ({ input: { i } })),
      );
      await Promise.all(started.map((run) => run.result()));
    },
    async latency() {
      await (await engine.start(one, undefined)).result();
    },
    async depth(steps) {
      await (await engine.start(chain, steps)).result();
    },
    async width(count) {
      await (await engine.start(wide, count)).result();
    },
    /** Runs that really ran, and wait for a signal; out of memory, in the file. */
    async crowd(runs) {
      const parked = workflow("parked", async (ctx) => ctx.waitForSignal("never"));
      const parker = await engine.worker({ workflows: [parked], queue: "crowd", concurrency: 500, cachedRuns: 0, determinism: "off" });
      for (let at = 0; at < runs; at += 1_000) {
        await engine.startMany(
          parked,
          Array.from({ length: Math.min(1_000, runs - at) }, () => ({ input: undefined, queue: "crowd" })),
        );
      }
      while ((await engine.count({ workflow: "parked" })).sleeping < runs) await new Promise((resolve) => setTimeout(resolve, 20));
      await parker.stop();
    },
    async close() {
      await worker.stop();
      await engine.close();
    },
  };
}
