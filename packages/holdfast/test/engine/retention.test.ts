// Retention and delete, as users meet them: closed runs go in time, on every store.

import { realEnvironment } from "@holdfast/host";
import { type Holdfast, RunNotFoundError, RunOpenError, signal, workflow } from "holdfast";
import { testEngine } from "holdfast/testing";
import { describe, expect, test } from "vitest";
import { enginesOn, STORES, until } from "./engines.ts";

const DAY = 86_400_000;
/** What is done twice a minute is done every few milliseconds. */
const HURRIED = {
  ...realEnvironment,
  every: (ms: number, callback: () => void) => realEnvironment.every(ms === 30_000 ? 20 : ms, callback),
};

const plain = workflow("plain", async (_ctx, text: string) => text);
const short = workflow({ name: "short", retention: "1d" }, async (_ctx, text: string) => text);
const kept = workflow({ name: "kept", retention: "forever" }, async (_ctx, text: string) => text);
const waits = workflow({ name: "waits", retention: "1d", signals: { go: signal<unknown>() } }, async (ctx) => ctx.waitForSignal("go"));
const parent = workflow({ name: "parent", signals: { go: signal<unknown>() } }, async (ctx) => {
  const child = await ctx.child(short, "of a parent", { id: "child" });
  await ctx.waitForSignal("go");
  return child;
});
const relay = workflow("relay", async (ctx, text: string) => ctx.child(plain, text));
const told = workflow({ name: "told", signals: { word: signal<string>() } }, async (ctx) => ctx.waitForSignal("word"));
const family = workflow("family", async (ctx, text: string) => {
  const child = await ctx.startChild(told, undefined);
  await child.signal("word", `${text}?`);
  return [await ctx.child(relay, text), await ctx.child(plain, `${text}!`), await child.result()];
});
const workflows = [plain, short, kept, waits, parent, relay, told, family];

const isGone = async (engine: Holdfast, id: string): Promise<boolean> =>
  engine
    .run(id)
    .describe()
    .then(
      () => false,
      (error: unknown) => error instanceof RunNotFoundError,
    );

describe.each(STORES)("on %s", (name) => {
  const engines = enginesOn(name);
  const open = async (more = {}): Promise<Holdfast> => {
    const engine = await engines.open({ skips: true, environment: HURRIED, ...more });
    await engine.worker({ workflows });
    return engine;
  };

  test("B4 closed runs go by the retention of their workflow, else by that of the engine; open ones stay", async () => {
    const engine = await open({ retention: "7d" });
    for (const one of [plain, short, kept]) await (await engine.start(one, "x", { id: one.name })).result();
    await engine.start(waits, undefined, { id: "open" });
    await until(async () => (await engine.run("open").describe()).status === "sleeping");
    engines.skip(2 * DAY);
    await until(() => isGone(engine, "short"));
    expect([await isGone(engine, "plain"), await isGone(engine, "kept")]).toEqual([false, false]);
    engines.skip(6 * DAY);
    await until(() => isGone(engine, "plain"));
    expect([await isGone(engine, "kept"), await isGone(engine, "open")]).toEqual([false, false]);
    // Its id is free.
    expect(await (await engine.start(plain, "again", { id: "plain" })).result()).toBe("again");
  });

  test("B4 a start by name, of a process without the workflow, gets its retention with the first claim", async () => {
    const client = await engines.open({ skips: true, environment: HURRIED });
    await client.start("waits", undefined, { id: "named" });
    await client.start("short", "x", { id: "quick" });
    const engine = await open();
    await until(async () => (await engine.run("named").describe()).status === "sleeping");
    await engine.run("quick").result();
    await client.run("named").terminate();
    engines.skip(2 * DAY);
    await until(() => isGone(engine, "named"));
    await until(() => isGone(engine, "quick"));
  });

  test("B4 a child stays while its parent waits, and goes once that has ended", async () => {
    const engine = await open();
    const run = await engine.start(parent, undefined, { id: "p" });
    await until(async () => (await run.describe()).waitingFor.includes("signal go"));
    await (await engine.start(short, "x", { id: "other" })).result();
    engines.skip(2 * DAY);
    await until(() => isGone(engine, "other"));
    expect(await isGone(engine, "child")).toBe(false);
    await engine.run("p").signal("go", undefined);
    await run.result();
    await until(() => isGone(engine, "child"));
  });

  test("B4 delete removes a closed run; an open one is a RunOpenError, an unknown one a RunNotFoundError", async () => {
    const engine = await open();
    const run = await engine.start(waits, undefined, { id: "w", idempotencyKey: "k" });
    await expect(run.delete()).rejects.toThrow(RunOpenError);
    await run.signal("go", 1);
    await run.result();
    await expect(engine.run("w", plain).delete()).rejects.toThrow(/workflow/); // M3: a handle of another workflow
    await run.delete();
    await expect(run.delete()).rejects.toThrow(RunNotFoundError);
    await expect(run.result()).rejects.toThrow(RunNotFoundError);
    await expect(run.signal("go", 1)).rejects.toThrow(RunNotFoundError);
    const again = await engine.start(waits, undefined, { id: "w2", idempotencyKey: "k" });
    expect(again.id).toBe("w2");
  });

  test("B4 a parent that is deleted and started again under its id starts its children again", async () => {
    const engine = await open();
    for (const word of ["one", "two"]) {
      const run = await engine.start(family, word, { id: "f" });
      expect(await run.result()).toEqual([word, `${word}!`, `${word}?`]);
      expect((await engine.list({ parentId: "f" })).runs.map(({ id, status, input }) => [id, status, input]).sort()).toEqual([
        ["f/plain", "completed", `${word}!`],
        ["f/relay", "completed", word],
        ["f/told", "completed", undefined],
      ]);
      await run.delete();
    }
    // The whole family is there, without a parent, and nothing else.
    expect((await engine.list()).runs.map(({ id }) => id).sort()).toEqual(["f/plain", "f/relay", "f/relay/plain", "f/told"]);
  });

  test("B4 a worker that has a removed run in memory does not take the next run of that id for it", async () => {
    const engine = await open();
    const first = await engine.start(waits, undefined, { id: "w" });
    await until(async () => (await first.describe()).status === "sleeping");
    const client = await engines.open({ skips: true });
    await client.run("w").terminate();
    await client.run("w").delete();
    const second = await client.start(waits, undefined, { id: "w" });
    await until(async () => (await second.describe()).status === "sleeping");
    await second.signal("go", "for the second");
    expect(await second.result()).toBe("for the second");
    expect((await second.history()).turns).toHaveLength(2);
  });
});

test("B4 testEngine removes closed runs when its clock passes their time", async () => {
  const engine = await testEngine({ workflows });
  await (await engine.start(short, "x", { id: "s" })).result();
  await engine.advance("23h");
  expect(await isGone(engine, "s")).toBe(false);
  await engine.advance("2h");
  expect(await isGone(engine, "s")).toBe(true);
  await engine.close();
});
