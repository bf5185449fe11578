// Job: prove that the time of turns is the store's, and never before a timer that they fire.
// Owns: the clocks of the store and of the worker.
// Invariants: K8 (a sleep is as long as it says, by ctx.now() too), P7 (a late answer does not set the clock of a worker back).

import { Holdfast, RunBlockedError, workflow } from "holdfast";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/store.ts";
import type { ClaimRequest, ClaimResult, CommitResult, TurnCommit } from "../../src/store/port.ts";
import { TestWorld } from "../../src/testing/world.ts";
import { Gate } from "./engines.ts";

/** What goes through it waits while a gate is set. */
class SlowStore extends MemoryStore {
  claimAnswer: Gate | undefined;
  commitAnswer: Gate | undefined;
  claims = 0;
  commits = 0;
  override async claim(request: ClaimRequest): Promise<ClaimResult> {
    const result = await super.claim(request);
    if (request.blockedAfter !== undefined) return result; // as it starts
    this.claims++;
    await this.claimAnswer?.passed;
    return result;
  }
  override async commit(turns: readonly TurnCommit[]): Promise<CommitResult[]> {
    const results = await super.commit(turns);
    this.commits++;
    await this.commitAnswer?.passed;
    return results;
  }
}

/** The store's clock is as much ahead of the worker's. */
const AHEAD = 5_000;
let engine: Holdfast;
let store: SlowStore;
afterEach(async () => {
  store.claimAnswer?.open();
  await engine.close();
});

const settled = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** A run that has slept from 0 to 30, at 40, and whose turn after that waits for a commit. */
async function aSleepThatIsOver() {
  let ahead = AHEAD;
  const world = new TestWorld(0);
  store = new SlowStore({ clock: () => world.now() + ahead });
  engine = await Holdfast.with({ store, environment: world });
  const busy = new Gate();
  const beside = new Gate();
  const nap = workflow("nap", async (ctx) => {
    const began = ctx.now().getTime();
    const [slept] = await Promise.all([
      ctx.sleep(30).then(() => ctx.now().getTime() - began),
      ctx.step("busy", () => busy.passed), // so that it is not parked
      ctx.step("beside", () => beside.passed),
    ]);
    return slept;
  });
  const clock = workflow("clock", async (ctx) => ctx.now().getTime());
  await engine.worker({ workflows: [nap, clock] });
  await settled(() => store.claims === 1);
  const run = await engine.start(nap, undefined);
  return {
    run,
    now: async () => (await engine.start(clock, undefined)).result(),
    setBack(ms: number): void {
      ahead -= ms;
    },
    /** Time passes; at each of its moments the worker looks for work. */
    async passes(time: number): Promise<void> {
      const { claims } = store;
      world.moveTo(time);
      if (store.claimAnswer === undefined) await settled(() => store.claims > claims);
    },
    async claimsSlowly(time: number): Promise<() => Promise<void>> {
      const answer = new Gate();
      store.claimAnswer = answer;
      const { claims } = store;
      world.moveTo(time);
      await settled(() => store.claims > claims);
      return async () => {
        store.claimAnswer = new Gate(); // the next would put the clock right
        answer.open();
        await settled(() => true);
      };
    },
    async commitsSlowly(): Promise<() => void> {
      const answer = new Gate();
      store.commitAnswer = answer;
      const { commits } = store;
      beside.open();
      await settled(() => store.commits > commits);
      return () => {
        store.commitAnswer = undefined;
        answer.open();
        busy.open();
      };
    },
  };
}

test("K8 P7 a claim that is answered late does not set the worker's clock back: a sleep is as long as it says", async () => {
  const { run, now, passes, claimsSlowly, commitsSlowly } = await aSleepThatIsOver();
  const answerClaim = await claimsSlowly(10);
  const answerCommit = await commitsSlowly();
  await passes(40);
  await answerClaim();
  answerCommit();
  expect(await run.result()).toBe(40);
  expect(await now()).toBe(40 + AHEAD);
});

test("K8 a store whose clock is set back is followed, but no turn is before a timer that it fires", async () => {
  const { run, now, passes, setBack, commitsSlowly } = await aSleepThatIsOver();
  const answerCommit = await commitsSlowly();
  await passes(40);
  setBack(25);
  await passes(41);
  answerCommit();
  expect(await run.result()).toBe(30);
  expect(await now()).toBe(41 + AHEAD - 25);
});

test("P7 P10 the next execution of a run is not before the last turn of the one before, though the store's clock has gone back", async () => {
  let now = AHEAD;
  const world = new TestWorld(0);
  store = new SlowStore({ clock: () => now });
  engine = await Holdfast.with({ store, environment: world });
  const chain = workflow("chain", async (ctx, times: readonly number[]) => {
    const all = [...times, ctx.now().getTime()];
    if (all.length === 2) return all;
    await ctx.step("set back", () => {
      now -= 100;
    });
    return ctx.continueAsNew(all);
  });
  await engine.worker({ workflows: [chain] });
  const run = await engine.start(chain, []);
  expect(await run.result()).toEqual([AHEAD, AHEAD]);
  await engine.start(chain, [0], { id: run.id, onConflict: "restart-if-closed" });
  expect(await run.result()).toEqual([0, AHEAD]);
  expect(await (await engine.start(chain, [0])).result()).toEqual([0, AHEAD - 100]); // another run has nothing to do with it
});

test("K8 P7 a sleep and another attempt of a run count from the time of their turn, which is not before the last one", async () => {
  let now = AHEAD;
  const world = new TestWorld(0);
  store = new SlowStore({ clock: () => now });
  engine = await Holdfast.with({ store, environment: world });
  const setBack = async (): Promise<void> => {
    now -= 100;
    const { claims } = store;
    world.moveTo(world.now() + 10);
    await settled(() => store.claims > claims);
  };
  const nap = workflow("nap", async (ctx) => {
    await ctx.step("set back", setBack);
    await ctx.sleep(1_000);
  });
  const retry = { maxAttempts: 2, initialInterval: 2_000, jitter: 0 };
  const fails = workflow({ name: "fails", retry }, async (ctx) => {
    await ctx.step("set back", setBack);
    throw new Error("not yet");
  });
  await engine.worker({ workflows: [nap, fails] });
  await settled(() => store.claims === 1);
  for (const [flow, wait] of [
    [nap, 1_000],
    [fails, 2_000],
  ] as const) {
    const began = now;
    const { id } = await engine.start(flow, undefined);
    const parked = async () => (await store.get([id]))[0];
    while ((await parked())?.status !== "sleeping") await settled(() => true);
    expect([flow.name, (await parked())?.availableAt]).toEqual([flow.name, began + wait]);
  }
});

test("P7 K8 D12 a worker whose clock is set, back or forward, goes on from where it was: only the store tells it the time", async () => {
  let ahead = 0;
  const world = new (class extends TestWorld {
    override now(): number {
      return super.now() + ahead;
    }
  })(10_000);
  store = new SlowStore({ clock: () => AHEAD });
  engine = await Holdfast.with({ store, environment: world });
  const clock = workflow("clock", async (ctx) => ctx.now().getTime());
  await engine.worker({ workflows: [clock] });
  await settled(() => store.claims === 1);
  store.claimAnswer = new Gate(); // the next would put the clock right
  expect(await (await engine.start(clock, undefined)).result()).toBe(AHEAD);
  for (ahead of [-3_000, 3_000]) expect(await (await engine.start(clock, undefined)).result()).toBe(AHEAD);
});

describe.each([
  ["ahead of", AHEAD],
  ["behind", -AHEAD],
])("a store whose clock is %s that of the process", (_, ahead) => {
  const work = workflow("work", async (ctx) => {
    await ctx.sleep(1_000);
  });
  let world: TestWorld;
  beforeEach(async () => {
    world = new TestWorld(100_000);
    store = new SlowStore({ clock: () => world.now() + ahead });
    engine = await Holdfast.with({ store, environment: world });
  });

  test("P11 W6 a run waits for a worker from its start on, by the store's clock", async () => {
    const run = await engine.start(work);
    expect((await run.describe()).waitingFor).toEqual(["no worker serves work"]);
    expect((await engine.list()).runs.map(({ waitingFor }) => waitingFor)).toEqual([["no worker serves work"]]);
    const later = await engine.start(work, undefined, { delay: 4_000 });
    expect((await later.describe()).waitingFor).toEqual([
      `start at ${new Date(world.now() + ahead + 4_000).toISOString()}`,
      "no worker serves work",
    ]);
  });

  test("V4 result() of a blocked run that was just resumed waits for the result of that", async () => {
    let isBroken = true;
    const waits = workflow("waits", async (ctx) => {
      if (isBroken) await new Promise((resolve) => setTimeout(resolve, 1));
      return ctx.step("work", async () => "done");
    });
    const first = await engine.worker({ workflows: [waits] });
    const run = await engine.start(waits);
    await expect(run.result()).rejects.toThrow(RunBlockedError);
    await first.stop();
    isBroken = false;
    await run.resume();
    const result = run.result();
    result.catch(() => undefined);
    await settled(() => true);
    await engine.worker({ workflows: [waits] });
    expect(await result).toBe("done");
  });
});
