// Keys of signals and ids of updates are apart.

import { Receive, signal, update, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const { open } = engines();

test("M3 a signal whose key names an answered update is delivered; its repetition is not", { timeout: LONG }, async () => {
  const entity = workflow(
    {
      name: "keys",
      signals: { add: signal<number>() },
      updates: { total: update<undefined, number>(), stop: update<undefined, number>() },
    },
    async (ctx) => {
      const { state } = await ctx.receive(0, {
        signals: { add: (n, sum) => Receive.noreply(sum + n) },
        updates: { total: (_, sum) => Receive.reply(sum, sum), stop: (_, sum) => Receive.stop(sum, sum) },
      });
      return state;
    },
  );
  const holdfast = await open();
  await holdfast.worker({ workflows: [entity] });
  const run = await holdfast.start(entity, undefined);
  expect(await run.update("total", undefined, { idempotencyKey: "x" })).toBe(0);
  for (let i = 0; i < 2; i++) await run.signal("add", 5, { idempotencyKey: "update:x" });
  expect(await run.update("stop", undefined)).toBe(5);
});
