// `run.operations()` of an engine that has the code of the run.
// Invariants: D12 (every operation, in order of emission).

import { activity, Holdfast, Loop, type OperationInfo, Receive, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const on = engines();

const charge = activity("charge", (amount: number) => `charged ${amount}`);
const small = workflow("small", async (_, n: number) => n);
/** Does a little of everything, and then waits for a signal. */
const everything = workflow("everything", async (ctx) => {
  ctx.setAttributes({ phase: "all" });
  await ctx.step("reserve", () => 1);
  await ctx.activity(charge, 5);
  await ctx.child(small, 2);
  await ctx.sideEffect(() => 3);
  ctx.patched("new way");
  await ctx.join("both", { one: async (one) => one.step("a", () => 1), two: async (two) => two.sleep("nap", 10) });
  await ctx.try("attempt", async () => 1);
  await ctx.loop("rounds", async (round) => {
    await round.step("round", () => 1);
    return Loop.break();
  });
  await ctx.receive(0, { signals: { enough: (_, state) => Receive.stop(state) } });
  ctx.rollbackCheckpoint("behind us");
  await ctx.race("first", { signal: async (one) => one.waitForSignal("go"), later: async (two) => two.sleep("long", "1h") });
});

async function listed(engine: Holdfast): Promise<[string, string, string, string][]> {
  await engine.worker({ workflows: [everything, small], activities: [charge] });
  const run = await engine.start(everything, undefined, { signals: [{ name: "enough" }] });
  const isThere = ({ location }: OperationInfo): boolean => location === "first/later/long";
  await expect.poll(async () => (await run.operations()).some(isThere)).toBe(true);
  const operations = await run.operations();
  await run.terminate();
  return operations.map(({ location, unit, kind, status }) => [location, unit, kind, status]);
}

test(
  "D12 those that leave no events are found by replay: the list is that of the other hosts",
  async () => {
    const embedded = await Holdfast.open("memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    const expected = await listed(embedded);
    await embedded.close();
    expect(expected.length).toBeGreaterThan(15);
    expect(await listed(await on.open())).toEqual(expected);
  },
  LONG,
);

test(
  "D12 without the code those are listed of which the server knows",
  async () => {
    const engine = await on.open();
    const worker = await engine.worker({ workflows: [everything, small], activities: [charge] });
    const run = await engine.start(everything);
    await expect.poll(async () => (await run.operations()).some(({ kind }) => kind === "receive")).toBe(true);
    await worker.stop();
    const kinds = new Set((await run.operations()).map(({ kind }) => kind));
    expect([...kinds].toSorted()).toEqual(["activity", "child", "patch", "sideEffect", "sleep", "step"]);
    await run.terminate();
  },
  LONG,
);

test(
  "P11 D8 a run that sleeps, or whose local step is tried again, says when it goes on",
  async () => {
    const engine = await on.open();
    const later = workflow("later", async (ctx, what: "sleep" | "step") => {
      if (what === "sleep") return ctx.sleep("1h");
      const retry = { initialInterval: "1h" } as const;
      return ctx.step("flaky", () => Promise.reject(new Error("not yet")), { local: true, retry });
    });
    await engine.worker({ workflows: [later] });
    const sleeping = await engine.start(later, "sleep");
    const retrying = await engine.start(later, "step");
    const hasTime = async () =>
      [await sleeping.describe(), await retrying.describe()].map(({ availableAt }) => availableAt instanceof Date);
    await expect.poll(hasTime).toEqual([true, true]);
    const [availableAt = new Date(0)] = [(await sleeping.describe()).availableAt];
    expect(availableAt.getTime()).toBeGreaterThan(Date.now() + 3_500_000);
    expect((await retrying.describe()).waitingFor).toEqual([expect.stringMatching(/^step flaky \(attempt 2 at 20/)]);
    expect(await retrying.why()).toMatchObject([{ kind: "retrying", location: "flaky" }]);
    await Promise.all([sleeping.terminate(), retrying.terminate()]);
  },
  LONG,
);
