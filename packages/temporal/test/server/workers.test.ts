// Workers that have nothing to do, and code that they can't go on with.

import { RunBlockedError, workflow } from "holdfast";
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
