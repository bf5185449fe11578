// `engine.queues`: what it refuses, what it returns, and what workers make of it.

import { Holdfast, InvalidInputError, type QueueSpec, UnsupportedError, workflow } from "holdfast";
import type { Backend } from "holdfast/backend";
import { testEngine } from "holdfast/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { errorOf } from "../engine/engines.ts";

// biome-ignore lint/suspicious/noExplicitAny: code without types is what is tested
type Untyped = any;

describe("engine.queues", () => {
  let engine: Holdfast;
  beforeEach(async () => {
    engine = await Holdfast.open("memory:");
  });
  afterEach(() => engine.close());

  test.each<[string, Untyped, RegExp]>([
    ["no limits", undefined, /must be an object/],
    ["a list", [], /must be an object/],
    ["an unknown option", { concurency: 1 }, /Did you mean concurrency/],
    ["concurrency 0", { concurrency: 0 }, /concurrency: .* whole number of at least 1, not 0/],
    ["concurrency 1.5", { concurrency: 1.5 }, /not 1\.5/],
    ["concurrency Infinity", { concurrency: Number.POSITIVE_INFINITY }, /not Infinity/],
    ["concurrency as text", { concurrency: "3" }, /not "3"/],
    ["a rate without per", { rate: { limit: 1 } }, /rate\.per/],
    ["a rate of 0", { rate: { limit: 0, per: "1s" } }, /rate\.limit/],
    ["a window of nothing", { rate: { limit: 1, per: 0 } }, /rate\.per: per must be at least 1 ms/],
    ["a window of half a millisecond", { rate: { limit: 1, per: 0.5 } }, /rate\.per: per must be at least 1 ms/],
    ["a window that is not a duration", { perKey: { rate: { limit: 1, per: "soon" } } }, /perKey\.rate\.per: "soon" is not a duration/],
    ["a rate per key of 0", { perKey: { rate: { limit: 0, per: 1 } } }, /perKey\.rate\.limit/],
    ["a weight per key", { perKey: { weight: 2 } }, /weight/],
    ["a weight of 0", { keys: { a: { weight: 0 } } }, /keys\.a\.weight: .* from 0\.001 to 1000/],
    ["a weight above 1,000", { keys: { a: { weight: 1_001 } } }, /keys\.a\.weight/],
    ["a weight that is NaN", { keys: { a: { weight: Number.NaN } } }, /keys\.a\.weight/],
    ["an empty key", { keys: { "": {} } }, /key must be non-empty/],
    ["a key over 256 bytes", { keys: { ["ä".repeat(129)]: {} } }, /at most 256 bytes/],
    ["limits of a key that are nothing", { keys: { a: undefined } }, /keys\.a: It must be an object/],
    ["keys as a map", { keys: new Map([["a", { concurrency: 1 }]]) }, /keys: It must be an object/],
    ["a rate that is null", { rate: null }, /rate: It must be an object, not null/],
    ["a rate per key that is a list", { perKey: { rate: [] } }, /perKey\.rate: It must be an object/],
    ["counts", { counts: "all" }, /"running" or "open"/],
  ])("Q11 refuses %s", async (_, spec, message) => {
    const error = await errorOf(engine.queues.set("q", spec));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.message).toMatch(message);
    expect(await engine.queues.list()).toEqual([]);
  });
  test.each<[string, (engine: Untyped) => Promise<unknown>]>([
    ["a name that is empty", (e) => e.queues.set("", {})],
    ["a name that is not a text", (e) => e.queues.get(5)],
    ["a pause of nothing", (e) => e.queues.pause("q", { for: 0 })],
    ["a pause of no length", (e) => e.queues.pause("q", { for: "soon" })],
    ["a pause of an empty key", (e) => e.queues.pause("q", { key: "" })],
    ["an unknown option of pause", (e) => e.queues.pause("q", { until: 1 })],
    ["an unknown option of resume", (e) => e.queues.resume("q", { for: 1 })],
    ["a run with a key over 256 bytes", (e) => e.start("x", 1, { key: "k".repeat(257) })],
  ])("Q11 refuses %s", async (_, call) => {
    expect(await errorOf(call(engine))).toBeInstanceOf(InvalidInputError);
    expect(await engine.queues.list()).toEqual([]);
  });
  test("Q1 returns what was set, with lengths in milliseconds", async () => {
    const spec: QueueSpec = { concurrency: 3, rate: { limit: 5, per: "1m" }, perKey: { concurrency: 1 }, keys: { vip: { weight: 2 } } };
    await engine.queues.set("q", spec);
    const info = await engine.queues.get("q");
    expect(info).toEqual({
      ...{ name: "q", paused: false, pausedUntil: undefined, pausedKeys: [] },
      ...{ ...spec, rate: { limit: 5, per: 60_000 } },
      runs: { waiting: 0, held: 0, oldest: undefined },
      activities: { waiting: 0, held: 0, oldest: undefined },
    });
    expect(await engine.queues.list()).toEqual([info]);
    await engine.queues.delete("q");
    expect(await engine.queues.list()).toEqual([]);
  });
  test("Q8 a pause says until when", async () => {
    await engine.queues.pause("q", { for: "1h" });
    await engine.queues.pause("q", { key: "k" });
    const { paused, pausedUntil, pausedKeys } = await engine.queues.get("q");
    expect([paused, pausedKeys]).toEqual([true, ["k"]]);
    expect(pausedUntil?.getTime()).toBeGreaterThan(Date.now() + 3_500_000);
    await engine.queues.resume("q");
    await engine.queues.resume("q", { key: "k" });
    expect(await engine.queues.list()).toEqual([]);
  });
  test("a closed engine refuses calls about queues", async () => {
    await engine.close();
    await expect(engine.queues.set("q", {})).rejects.toMatchObject({ code: "HF_ENGINE_CLOSED" });
  });
  test("a backend without queues says so", async () => {
    const bare = await Holdfast.with({ backend: { name: "a simple backend", close: async () => {} } as unknown as Backend });
    const error = await errorOf(bare.queues.list());
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.message).toMatch(/queues.*a simple backend/);
  });
});

describe("workers of a limited queue", () => {
  test("Q2 Q7 never more at once than the limit, and a freed slot is used at once", async () => {
    let [running, most] = [0, 0];
    const work = workflow("work", async (ctx) => {
      await ctx.step("s", async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
      });
    });
    await using engine = await testEngine({ workflows: [work] });
    await engine.queues.set("default", { concurrency: 3 });
    const runs = await engine.startMany(
      work,
      Array.from({ length: 20 }, () => ({})),
    );
    await Promise.all(runs.map((run) => run.result()));
    expect(most).toBe(3);
    expect((await engine.queues.get("default")).runs).toEqual({ waiting: 0, held: 0, oldest: undefined });
  });
  test("Q4 Q7 a rate spreads starts over time without polling", async () => {
    const starts: number[] = [];
    const work = workflow("work", async (ctx) => {
      await ctx.step("s", () => void starts.push(engine.now().getTime()));
    });
    await using engine = await testEngine({ workflows: [work] });
    await engine.queues.set("default", { rate: { limit: 2, per: "1m" } });
    const from = engine.now().getTime();
    const runs = await engine.startMany(
      work,
      Array.from({ length: 6 }, () => ({})),
    );
    await Promise.all(runs.map((run) => run.result()));
    expect(starts.map((at) => Math.round((at - from) / 60_000))).toEqual([0, 0, 1, 1, 2, 2]);
  });
});
