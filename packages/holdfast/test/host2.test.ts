import { expect, test } from "vitest";
import { activity, FatalError, workflow, signal, Receive } from "holdfast";
import { testEngine } from "../src/testing/testEngine.ts";

test("30 days take no time", async () => {
  const wf = workflow("s", async (ctx) => { await ctx.sleep("30d"); return ctx.now().toISOString(); });
  const e = await testEngine({ workflows: [wf] });
  const r = await e.start(wf, undefined);
  expect(await r.result()).toBe("2026-01-31T00:00:00.000Z");
  await e.close();
});
test("run retry, resume", async () => {
  let fails = 0;
  const wf = workflow({ name: "rr", retry: { maxAttempts: 3, initialInterval: "1m" } }, async (ctx) => {
    const a = await ctx.step("a", () => "a");
    const b = await ctx.step("b", () => { if (++fails < 3) throw new FatalErrorNot("x"); return "b"; }, { retry: { maxAttempts: 1 } });
    return a + b + ctx.run.attempt;
  });
  class FatalErrorNot extends Error {}
  const e = await testEngine({ workflows: [wf] });
  const r = await e.start(wf, undefined);
  expect(await r.result()).toBe("ab3");
  const wf2 = wf;
  await e.close();
  void wf2;
});
test("resume by hand, saga, cancel, deadline", async () => {
  let bad = true;
  const undone: string[] = [];
  const wf = workflow({ name: "m" }, async (ctx) => {
    await ctx.step("a", () => 1);
    await ctx.step("b", () => { if (bad) throw new FatalError("x"); return "b"; });
    return "ok";
  });
  const saga = workflow("saga", async (ctx) => {
    await ctx.step("x", () => "X", { rollback: (o) => { undone.push(o); } });
    await ctx.step("y", () => "Y", { rollback: (o) => { undone.push(o); } });
    await ctx.step("z", () => { throw new FatalError("z"); });
  });
  const wait = workflow({ name: "wait", signals: { go: signal() } }, async (ctx) => { await ctx.waitForSignal("go"); });
  const e = await testEngine({ workflows: [wf, saga, wait] });
  const r = await e.start(wf, undefined);
  await expect(r.result()).rejects.toThrow();
  bad = false;
  await r.resume();
  expect(await r.result()).toBe("ok");
  await expect((await e.start(saga, undefined)).result()).rejects.toThrow();
  expect(undone).toEqual(["Y", "X"]);
  const w = await e.start(wait, undefined);
  await e.advance(1);
  expect((await w.describe()).waitingFor).toEqual(["signal go"]);
  await w.cancel("no");
  await expect(w.result()).rejects.toThrow(/cancel/i);
  const d = await e.start(wait, undefined, { deadline: "1h" });
  await expect(d.result()).rejects.toThrow();
  console.log((await d.describe()).error, (await d.describe()).status);
  const t = await e.start(wait, undefined);
  await t.terminate();
  expect((await t.describe()).status).toBe("terminated");
  const entity = workflow({ name: "e" }, async () => 1);
  void entity; void Receive; void activity;
  await e.close();
});
