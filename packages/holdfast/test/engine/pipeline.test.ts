// From jobs to commits and back, where many runs share the way: none is lost, none is doubled, and each keeps its order.

import type { Turn } from "@holdfast/core";
import { realEnvironment } from "@holdfast/host";
import { Holdfast, signal, workflow } from "holdfast";
import { afterEach, expect, test } from "vitest";
import { Committer } from "../../src/engine/committer.ts";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { NewRun, Store, TurnCommit } from "../../src/store/port.ts";

const engines: Holdfast[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** An engine on a store that works elsewhere: its answers come a little later, and it wants two batches at once. */
async function open(store: Store = new MemoryStore()): Promise<Holdfast> {
  const changed = new Proxy(store, {
    get: (target, key: keyof Store) => {
      if (key === "limits") return { ...target.limits, calls: 2 };
      if (key === "commit") return (turns: readonly TurnCommit[]) => later().then(() => target.commit(turns));
      const value = target[key];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const engine = await Holdfast.with({ store: changed, environment: realEnvironment }, { logger: silent });
  engines.push(engine);
  return engine;
}

test.each([1, 2, 3])(
  "D2 D3 however many runs are in progress, each turn is written once, those of a run in order, and none is left (%i)",
  async (seed) => {
    let state = seed;
    const below = (limit: number): number => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * limit);
    };
    const written: TurnCommit[] = [];
    const created: string[] = [];
    const underWay = new Set<string>();
    let batches = 0;
    let failed = 0;
    const store = {
      limits: { items: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY, calls: 2 },
      async commit(turns: readonly TurnCommit[]) {
        expect(turns.length).toBeGreaterThan(0);
        expect(++batches).toBeLessThanOrEqual(2);
        const ids = new Set(turns.map(({ runId }) => runId));
        for (const id of ids) {
          expect(underWay.has(id)).toBe(false);
          underWay.add(id);
        }
        for (const _ of range(below(6))) await later();
        for (const id of ids) underWay.delete(id);
        batches--;
        if (below(8) === 0) {
          failed += turns.length;
          throw new Error("no");
        }
        written.push(...turns);
        return turns.map(() => ({ status: "committed", inbox: [] }));
      },
      async create(runs: readonly NewRun[]) {
        expect(runs.length).toBeGreaterThan(0);
        for (const _ of range(below(4))) await later();
        created.push(...runs.map(({ id }) => id));
        return runs.map(({ id }) => ({ status: "created", id, execution: 1, inboxIds: [] }));
      },
    } as unknown as Store;
    let inProgress = 0;
    const committer = new Committer(store, realEnvironment, () => below(2) === 0, () => inProgress, () => {}); // biome-ignore format: one call
    const committed: Promise<boolean>[] = [];
    const starts: Promise<unknown>[] = [];
    let turns = 0;
    for (const _ of range(60)) {
      inProgress = below(4) === 0 ? below(2) : below(200);
      for (const _turn of range(below(40))) {
        const turn = { runId: `r${below(60)}`, epoch: turns++ } as TurnCommit;
        committed.push(new Promise((done) => committer.commit(turn, () => done(true), () => done(false)))); // biome-ignore format: one line
      }
      for (const i of range(below(4) === 0 ? below(250) : 0)) {
        starts.push(committer.create({ id: `${starts.length}-${i}`, ...(below(2) === 0 && { first: {} }) } as NewRun));
      }
      if (below(3) > 0) await later();
    }
    inProgress = 0; // they are given back: their last turns are still to be written
    const outcomes = await Promise.all(committed);
    await Promise.all(starts);
    expect(committer.idle).toBe(true);
    expect(outcomes.filter((done) => !done)).toHaveLength(failed);
    expect(new Set(written).size).toBe(written.length);
    expect(written).toHaveLength(turns - failed);
    expect(new Set(created).size).toBe(starts.length);
    for (const id of range(60).map((n) => `r${n}`)) {
      const order = written.filter(({ runId }) => runId === id).map(({ epoch }) => epoch);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }
  },
);

test("W4 D6 a worker that stops while turns wait to begin leaves them to the next: nothing is lost, no recorded step runs again", async () => {
  const ran = new Map<string, number>();
  const chain = workflow("chain", async (ctx, name: string) => {
    let sum = 0;
    for (const i of range(6)) {
      sum += await ctx.step(`s${i}`, () => {
        ran.set(`${name} ${i}`, (ran.get(`${name} ${i}`) ?? 0) + 1);
        return i;
      });
    }
    return sum;
  });
  const engine = await open();
  let worker = await engine.worker({ workflows: [chain], concurrency: 40 });
  const runs = await Promise.all(range(60).map((i) => engine.start(chain, `c${i}`, { id: `c${i}` })));
  for (const _ of range(4)) {
    await later();
    const stopped = worker.stop();
    worker = await engine.worker({ workflows: [chain], concurrency: 40 });
    await stopped;
  }
  expect(await Promise.all(runs.map((run) => run.result({ timeout: "10s" })))).toEqual(runs.map(() => 15));
  expect(new Set(ran.values())).toEqual(new Set([1]));
});

const waiting = workflow({ name: "waiting", signals: { go: signal<number>() } }, async (ctx, name: string) => {
  const before = await ctx.step("before", () => name);
  return [before, await ctx.waitForSignal("go")];
});

test("P10 W5 a run that is started again begins again, although its last execution is still in memory", async () => {
  const engine = await open();
  await engine.worker({ workflows: [waiting] });
  const first = await engine.start(waiting, "first", { id: "again" });
  while ((await first.describe()).status !== "sleeping") await later();
  await first.terminate("enough");
  // With a delay the next execution is claimed, not begun by the engine that starts it.
  const second = await engine.start(waiting, "second", { id: "again", onConflict: "restart-if-closed", delay: 5 });
  await second.signal("go", 1);
  expect(await second.result({ timeout: "5s" })).toEqual(["second", 1]);
});

test("M8 M2 a run that is claimed before it has begun takes what came with its start, and what came after, in order", async () => {
  const both = workflow({ name: "both", signals: { go: signal<number>() } }, async (ctx) => {
    const values: number[] = [];
    for (const _ of range(3)) values.push(await ctx.waitForSignal("go"));
    return values;
  });
  const engine = await open();
  const run = await engine.start(both, undefined, {
    id: "both",
    signals: [
      { name: "go", payload: 1 },
      { name: "go", payload: 2 },
    ],
  });
  await run.signal("go", 3);
  await engine.worker({ workflows: [both] });
  expect(await run.result({ timeout: "5s" })).toEqual([1, 2, 3]);
  const [first] = (await run.history()).turns as readonly Turn[];
  expect(first?.jobs.map(({ type }) => type)).toEqual(["start", "signal", "signal", "signal"]);
});

test("M1 M2 X9 a crowd of messages that waits for a run goes into several turns: all of it, in order", async () => {
  const crowd = workflow({ name: "crowd", signals: { add: signal<number>() } }, async (ctx, count: number) => {
    const taken: number[] = [];
    await ctx.step("first", () => 0);
    while (taken.length < count) taken.push(await ctx.waitForSignal("add"));
    return taken;
  });
  const engine = await open();
  const run = await engine.start(crowd, 1_001);
  await Promise.all(range(1_001).map((n) => run.signal("add", n)));
  await engine.worker({ workflows: [crowd] });
  expect(await run.result({ timeout: "20s" })).toEqual(range(1_001));
  const turns = (await run.history()).turns as readonly Turn[];
  const taken = turns.map(({ jobs }) => jobs.filter(({ type }) => type === "signal").length);
  expect(taken.reduce((sum, count) => sum + count)).toBe(1_001);
  expect(Math.max(...taken)).toBe(200);
});

test("D12 the info of a step can be passed on: copied, listed, wrapped", async () => {
  const told: unknown[] = [];
  const handing = workflow("handing", async (ctx) =>
    ctx.step("work", (info) => {
      const copy = { ...info };
      told.push(Object.keys(info), copy.attempt, copy.idempotencyKey === info.idempotencyKey, copy.signal === info.signal);
      told.push(new Proxy(info, {}).idempotencyKey === info.idempotencyKey);
    }),
  );
  const engine = await open();
  await engine.worker({ workflows: [handing] });
  await (await engine.start(handing, undefined)).result();
  expect(told).toEqual([["attempt", "idempotencyKey", "signal"], 1, true, true, true]);
});
