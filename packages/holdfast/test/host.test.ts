import { expect, test } from "vitest";
import { activity, Holdfast, Receive, signal, update, workflow } from "holdfast";
import { MemoryStore } from "../src/store/memory/store.ts";
import { realEnvironment } from "../src/host/environment.ts";

const open = () => Holdfast.with({ store: new MemoryStore(), environment: realEnvironment });

test("runs steps to the end", async () => {
  const wf = workflow("chain", async (ctx, n: number) => {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += await ctx.step("work", async () => i);
    return sum;
  });
  const engine = await open();
  await engine.worker({ workflows: [wf] });
  const run = await engine.start(wf, 5);
  expect(await run.result()).toBe(10);
  const info = await run.describe();
  expect(info.status).toBe("completed");
  console.log((await run.operations()).length, info);
  await engine.close();
});
test("retries, sleeps, activities, children, updates", async () => {
  const act = activity("double", async (n: number) => n * 2);
  const kid = workflow("kid", async (ctx, n: number) => ctx.step("k", () => n + 1));
  let tries = 0;
  const wf = workflow({ name: "all", signals: { go: signal<number>() }, updates: { add: update<number, number>() } }, async (ctx) => {
    const a = await ctx.step("flaky", () => { if (++tries < 3) throw new Error("no"); return tries; }, { retry: { initialInterval: 10 } });
    await ctx.sleep(20);
    const b = await ctx.activity(act, 21);
    const c = await ctx.child(kid, 1);
    const d = await ctx.waitForSignal("go");
    const { state } = await ctx.receive(0, { updates: { add: (n, s) => n < 0 ? Receive.stop(s, s) : Receive.reply(s + n, s + n) } });
    return { a, b, c, d, state };
  });
  const engine = await open();
  await engine.worker({ workflows: [wf, kid], activities: [act] });
  const run = await engine.start(wf, undefined, { id: "r1" });
  await run.signal("go", 7);
  let ok = false;
  while (!ok) { try { expect(await run.update("add", 5)).toBe(5); ok = true; } catch (e) { if ((e as Error).name !== "UpdateRejectedError") throw e; await new Promise((r) => setTimeout(r, 10)); } }
  expect(await run.update("add", -1)).toBe(5);
  expect(await run.result()).toEqual({ a: 3, b: 42, c: 2, d: 7, state: 5 });
  for (const o of await run.operations()) console.log(o.location, o.kind, o.status, o.attempts.map((a) => a.status).join());
  await engine.close();
});
