// Holdfast on a SQLite file, on PostgreSQL, or in memory, with default settings.

import { Holdfast, Receive, signal, update, workflow } from "holdfast";
import { byCallers, until } from "../statistics.mjs";

/** The number of callers that signal runs at the same time, as for the peers. */
const CALLERS = 100;

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

/** By long run: how often its function was entered, and the callback for its next step. */
const long = { entered: new Map(), seen: new Map() };
const patient = workflow({ name: "patient", signals: { go: signal() } }, async (ctx, { name, steps }) => {
  long.entered.set(name, (long.entered.get(name) ?? 0) + 1);
  for (let i = 0; i < steps; i++) await ctx.step("work", async () => ({ ok: true, i }));
  for (;;) {
    await ctx.waitForSignal("go");
    await ctx.step("next", async () => ({ ok: true }));
    // D1: this step runs once the outcome of the previous one is durable.
    await ctx.step("seen", async () => long.seen.get(name)());
  }
});
const parked = workflow({ name: "parked", signals: { go: signal() } }, async (ctx) => {
  await ctx.step("before", async () => ({ ok: true }));
  await ctx.waitForSignal("go");
  return ctx.step("after", async () => ({ ok: true }));
});
const entity = workflow({ name: "entity", updates: { add: update() } }, async (ctx) => {
  const { state } = await ctx.receive(0, {
    updates: { add: (amount, total) => Receive.reply(total + amount, total + amount) },
    checkpointEvery: 100,
  });
  return state;
});
const parent = workflow("parent", async (ctx, children) => {
  const outcomes = await ctx.parallel(Array.from({ length: children }, () => (branch) => branch.child(one, undefined)));
  return outcomes.filter(({ status }) => status === "fulfilled").length;
});
/** What has ended and started, in the order in which it did. */
const moments = { ends: [], starts: [] };
const job = workflow("job", async (_ctx, i) => i);
const turnstile = workflow("turnstile", async (ctx, i) => {
  moments.starts.push(performance.now());
  await ctx.step("work", async () => i);
  moments.ends.push(performance.now());
});
/** By part of the workload. */
const LIMITS = {
  concurrency: { concurrency: 50 },
  rate: { rate: { limit: 1_000_000, per: "1s" } },
  keys: { perKey: { concurrency: 1 } },
};
const KEYS = 100;

const workflows = [job, turnstile, five, one, chain, wide, patient, parked, entity, parent];

const addressOf = ({ store, file, url }, synchronous) => {
  if (store === "none") return "memory:";
  if (store === "postgres") return url;
  return `file:${file}${synchronous === undefined ? "" : `?synchronous=${synchronous}`}`;
};

export async function open(target, { synchronous, workers, workload, part }) {
  const engine = await Holdfast.open(addressOf(target, synchronous));
  const work = (options) => engine.worker({ workflows, concurrency: 100, determinism: "off", ...options });
  if (workers > 0) await work({});
  // A separate queue whose runs are evicted from memory as soon as they wait.
  if (workload === "W5") await work({ queue: "evicted", cachedRuns: 0 });
  if (workload === "W6") await work({ queue: "crowd", cachedRuns: 100 });

  if (workload === "jobs" || workload === "slots") {
    const limits = workload === "slots" ? { concurrency: 1 } : LIMITS[part];
    if (limits !== undefined) await engine.queues.set("jobs", limits);
    await work({ queue: "jobs" });
  }

  let longRuns = 0;
  return {
    async jobs(count) {
      const keyOf = (i) => (part === "keys" ? { key: `key-${i % KEYS}` } : {});
      const started = await engine.startMany(
        job,
        Array.from({ length: count }, (_, i) => ({ input: i, queue: "jobs", ...keyOf(i) })),
      );
      await Promise.all(started.map((run) => run.result()));
    },
    async gaps(count) {
      moments.starts = [];
      moments.ends = [];
      const started = await engine.startMany(
        turnstile,
        Array.from({ length: count }, (_, i) => ({ input: i, queue: "jobs" })),
      );
      await Promise.all(started.map((run) => run.result()));
      return moments.starts.slice(1).map((start, i) => start - moments.ends[i]);
    },
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
    async longRun(steps, { evicted }) {
      const name = evicted ? "evicted" : "default";
      const run = await engine.start(patient, { name, steps }, { queue: name });
      longRuns++;
      const parks = () => until(async () => (await engine.count({ workflow: "patient" })).sleeping === longRuns);
      await parks();
      return async () => {
        const before = long.entered.get(name);
        const start = performance.now();
        const seen = new Promise((resolve) => long.seen.set(name, resolve));
        await run.signal("go");
        await seen;
        const ms = performance.now() - start;
        await parks();
        if (long.entered.get(name) > before !== evicted) throw new Error(`The run was ${evicted ? "not " : ""}evicted.`);
        return ms;
      };
    },
    async crowd(from, runs) {
      const { sleeping } = await engine.count({ workflow: "parked" });
      for (let at = 0; at < runs; at += 1_000) {
        const size = Math.min(1_000, runs - at);
        await engine.startMany(
          parked,
          Array.from({ length: size }, (_, i) => ({ input: undefined, id: `parked-${from + at + i}`, queue: "crowd" })),
        );
      }
      await until(async () => (await engine.count({ workflow: "parked" })).sleeping === sleeping + runs, 100);
    },
    async wake(numbers) {
      await byCallers(CALLERS, numbers.length, async (i) => {
        const run = engine.run(`parked-${numbers[i]}`, parked);
        await run.signal("go");
        await run.result();
      });
    },
    async entity() {
      const run = await engine.start(entity, undefined);
      await until(async () => (await engine.count({ workflow: "entity" })).sleeping === 1);
      return () => run.update("add", 1);
    },
    async fanOut(children) {
      const done = await (await engine.start(parent, children)).result();
      if (done !== children) throw new Error(`${done} of ${children} children completed.`);
    },
    close: () => engine.close(),
  };
}
