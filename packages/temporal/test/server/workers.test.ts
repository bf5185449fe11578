// Workers that have nothing to do, and code that they can't go on with.

import { Receive, RunBlockedError, replay, update, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG, newQueue } from "./engines.ts";

const { open } = engines();

test("W1 a worker without workflows and activities is idle, and stops", { timeout: LONG }, async () => {
  const holdfast = await open();
  const worker = await holdfast.worker({ workflows: [] });
  expect(worker.active).toBe(0);
  await worker.stop();
});

test("V4 X7 a step that calls ctx blocks its run, which corrected code goes on with", { timeout: LONG }, async () => {
  const queue = newQueue();
  let calls = 0;
  const code = (isBroken: boolean) =>
    workflow("nested", async (ctx) => {
      const first = await ctx.step("first", () => 1);
      return ctx.step("second", async () => {
        calls++;
        return isBroken ? ctx.step("inner", () => first) : first + 1;
      });
    });
  const broken = await open(queue);
  const worker = await broken.worker({ workflows: [code(true)] });
  const run = await broken.start(code(true));
  await expect(run.result()).rejects.toBeInstanceOf(RunBlockedError);
  expect(await run.describe()).toMatchObject({ status: "blocked", error: { name: "OutOfTurnError" } });
  expect(calls).toBe(1);
  await worker.stop();
  await (await open(queue)).worker({ workflows: [code(false)] });
  await expect.poll(() => run.result().catch(() => undefined)).toBe(2);
});

test("M8 an update that comes in the same task as what opens the receive is accepted, also by a worker without a cache", {
  timeout: LONG,
}, async () => {
  const adding = workflow({ name: "adding", updates: { add: update<number, number>() } }, async (ctx) => {
    await ctx.step("before", () => 1);
    const { state } = await ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
    return state;
  });
  const holdfast = await open();
  await holdfast.worker({ workflows: [adding], cachedRuns: 0 });
  for (let i = 1; i <= 8; i++) {
    const run = await holdfast.start(adding);
    expect(await run.update("add", i, { acceptWithin: "10s" })).toBe(i);
    expect(await run.result()).toBe(i);
    await replay(adding, await run.history());
  }
});

test("P7 Y1 a run that a worker takes up for an update has the time at which it paused", { timeout: LONG }, async () => {
  const paused = workflow({ name: "paused", updates: { go: update<void, number>() } }, async (ctx) => {
    const begun = ctx.now().getTime();
    await ctx.receive(0, { updates: { go: (_, state) => Receive.stop(begun, state) } });
    return ctx.step("after", () => begun);
  });
  const holdfast = await open();
  await holdfast.worker({ workflows: [paused], cachedRuns: 0 });
  const run = await holdfast.start(paused);
  await expect.poll(async () => (await run.describe()).status).toBe("sleeping");
  const asked = Date.now();
  const begun = await run.update("go");
  expect(begun).toBeLessThan(asked);
  expect(await run.result()).toBe(begun);
  await replay(paused, await run.history());
});
