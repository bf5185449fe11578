// Keys and priorities are Temporal's fairness keys and priority keys.

import { activity, type Holdfast, workflow } from "holdfast";
import { expect, test } from "vitest";
import { engines, LONG } from "./engines.ts";

const server = engines();
const { open } = server;

const charge = activity("charge", async () => "charged");
const child = workflow("child", async (ctx) => ctx.run.key);
const parent = workflow("parent", async (ctx) => {
  await ctx.activity(charge, undefined);
  await ctx.activity(charge, undefined, { key: "other", priority: 2 });
  const children = [await ctx.child(child, undefined), await ctx.child(child, undefined, { key: "another", priority: -1 })];
  return { key: ctx.run.key, children };
});

/** Priority and fairness key of each event that has them. */
async function urgencies(id: string) {
  return (await server.events(id)).flatMap((event) => {
    const { priority } =
      event.workflowExecutionStartedEventAttributes ??
      event.activityTaskScheduledEventAttributes ??
      event.startChildWorkflowExecutionInitiatedEventAttributes ??
      {};
    return priority ? [[priority.priorityKey ?? 0, priority.fairnessKey ?? ""]] : [];
  });
}
async function openServed(): Promise<Holdfast> {
  const engine = await open();
  await engine.worker({ workflows: [parent, child], activities: [charge] });
  return engine;
}

test("Q1 the key of a run is its fairness key; children and activities inherit it and the priority", { timeout: LONG }, async () => {
  const engine = await openServed();
  const run = await engine.start(parent, undefined, { key: "tenant", priority: 1 });
  expect(await run.result()).toEqual({ key: "tenant", children: ["tenant", "another"] });
  expect(await run.describe()).toMatchObject({ key: "tenant", priority: 1 });
  expect(await urgencies(run.id)).toEqual([
    [2, "tenant"],
    [2, "tenant"],
    [1, "other"],
    [2, "tenant"],
    [4, "another"],
  ]);
});

test("Q1 a run without a key has none", { timeout: LONG }, async () => {
  const engine = await openServed();
  const run = await engine.start(child, undefined);
  expect(await run.result()).toBeUndefined();
  expect(await urgencies(run.id)).toEqual([]);
  expect((await run.describe()).key).toBeUndefined();
});

test("Q11 a key of 256 bytes is kept, though the server accepts only 64", { timeout: LONG }, async () => {
  const engine = await openServed();
  const key = "é".repeat(128);
  const run = await engine.start(child, undefined, { key });
  expect(await run.result()).toBe(key);
  expect((await run.describe()).key).toBe(key);
  const [[, hash] = []] = await urgencies(run.id);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
});

test("P10 the next execution has key, priority and fairness key of the one before", { timeout: LONG }, async () => {
  const twice = workflow("twice", async (ctx, again?: boolean) => (again === true ? ctx.run.key : ctx.continueAsNew(true)));
  const engine = await open();
  await engine.worker({ workflows: [twice] });
  const run = await engine.start(twice, undefined, { key: "tenant", priority: 1 });
  expect(await run.result()).toBe("tenant");
  expect(await run.describe()).toMatchObject({ key: "tenant", priority: 1, execution: 2 });
  const { service, namespace } = server.raw;
  const { workflowExecutionInfo: info } = await service.describeWorkflowExecution({ namespace, execution: { workflowId: run.id } });
  expect(info?.priority).toMatchObject({ priorityKey: 2, fairnessKey: "tenant" });
});

test("T1 the runs of a schedule have its key", { timeout: LONG }, async () => {
  const engine = await openServed();
  const id = `s-${crypto.randomUUID()}`;
  await engine.schedules.set(id, { workflow: child, cron: "0 0 * * *", start: { key: "tenant" } });
  expect((await engine.schedules.get(id)).start).toMatchObject({ key: "tenant" });
  const run = engine.run(await engine.schedules.trigger(id));
  expect(await run.result()).toBe("tenant");
  expect(await urgencies(run.id)).toEqual([[0, "tenant"]]);
  await engine.schedules.delete(id);
});
