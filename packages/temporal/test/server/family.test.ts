// Runs that deal with themselves and with their children.

import { ChildFailedError, workflow } from "holdfast";
import { expect, test, vi } from "vitest";
import { engines, LONG } from "./engines.ts";

const { open } = engines();

test("M1 K1 a run may signal and cancel itself", { timeout: LONG }, async () => {
  const own = workflow("own", async (ctx, what: "signal" | "cancel") => {
    if (what === "signal") {
      await ctx.signalRun(ctx.run.id, "word", "to myself");
      await ctx.sleep(10);
      return ctx.waitForSignal("word");
    }
    await ctx.cancelRun(ctx.run.id);
    return ctx.sleep("1h");
  });
  const holdfast = await open();
  await holdfast.worker({ workflows: [own], cachedRuns: 0 });
  expect(await (await holdfast.start(own, "signal")).result()).toBe("to myself");
  const canceled = await holdfast.start(own, "cancel");
  await expect(canceled.result()).rejects.toMatchObject({ code: "HF_CANCELED" });
  expect(await canceled.describe()).toMatchObject({ status: "canceled" });
});

test("P10 a child that restarts a closed run is its next execution: keys and children are its own", { timeout: LONG }, async () => {
  const keys: string[] = [];
  const grandchild = workflow("grandchild", async (ctx) => ctx.run.id);
  const child = workflow("child", async (ctx) => {
    await ctx.step("charge", ({ idempotencyKey }) => void keys.push(idempotencyKey));
    return ctx.child(grandchild);
  });
  const parent = workflow("parent", async (ctx) => {
    const options = { id: `${ctx.run.id}-child`, onConflict: "restart-if-closed" } as const;
    return [await ctx.child(child, undefined, options), await ctx.child(child, undefined, options)];
  });
  const holdfast = await open();
  await holdfast.worker({ workflows: [parent, child, grandchild] });
  const run = await holdfast.start(parent);
  const [first, second] = await run.result();
  expect(first).not.toBe(second);
  expect(new Set(keys).size).toBe(2);
  expect(await holdfast.run(`${run.id}-child`).describe()).toMatchObject({ execution: 2, status: "completed" });
});

test("K6 the error of a child that was terminated names it", { timeout: LONG }, async () => {
  const child = workflow("child", async (ctx) => void (await ctx.waitForSignal("never")));
  const parent = workflow("parent", async (ctx) => {
    const handle = await ctx.startChild(child, undefined, { id: `${ctx.run.id}-child` });
    const error: unknown = await handle.result().catch((reason: unknown) => reason);
    return error instanceof ChildFailedError && (error.cause as Error).message.split("\n")[0];
  });
  const holdfast = await open();
  await holdfast.worker({ workflows: [parent, child] });
  const run = await holdfast.start(parent);
  await vi.waitFor(() => holdfast.run(`${run.id}-child`).terminate("enough"), { timeout: 20_000, interval: 100 });
  expect(await run.result()).toBe(`run "${run.id}-child" was terminated`);
});
