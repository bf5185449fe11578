// Job: prove the order of messages, and that no caller waits for what never comes.
// Owns: nothing.
// Invariants: H2 H4 M1 M10; senders of several processes are drivers on one namespace, each with a clock of its own.

import { signal, workflow } from "@holdfast/core";
import { type EngineDriver, type Environment, MemoryDriver, openWorkflow, realEnvironment, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";

const three = workflow({ name: "three", signals: { word: signal<string>() } }, async (ctx) => {
  const words: string[] = [];
  for (let i = 0; i < 3; i++) words.push(await ctx.waitForSignal("word"));
  return words;
});
const clockAt = (offset: number): Environment => ({ ...realEnvironment, now: () => realEnvironment.now() + offset });
const HOUR = 3_600_000;

/** The same storage, from another process. */
const elsewhere = (driver: MemoryDriver): MemoryDriver => new MemoryDriver({ namespace: driver.namespace, alarms: driver.alarms });

/** A driver that has only what the port demands. */
function bare(driver: MemoryDriver): EngineDriver {
  const { maxBatchBytes, maxBatchWrites } = driver;
  return {
    get: (key) => driver.get(key),
    set: (key, value) => driver.set(key, value),
    delete: (key) => driver.delete(key),
    deletePrefix: (prefix) => driver.deletePrefix(prefix),
    deleteRange: (start, end) => driver.deleteRange(start, end),
    list: (prefix) => driver.list(prefix),
    batch: (writes) => driver.batch(writes),
    maxBatchBytes,
    maxBatchWrites,
    setAlarm: (id, at) => driver.setAlarm(id, at),
    clearAlarm: (id) => driver.clearAlarm(id),
    watch: (onMessage) => driver.watch(onMessage),
    announce: () => driver.announce(),
  };
}

describe("the order of messages", () => {
  for (const [name, port] of [
    ["with last()", (driver: MemoryDriver): EngineDriver => driver],
    ["without", bare],
  ] as const) {
    test(`H4 messages are taken in the order in which the namespace took them, whatever the senders' clocks say (${name})`, async () => {
      const driver = new MemoryDriver();
      const options = { workflow: three, id: "r" };
      await runWorkflow({ driver, ...options });
      for (const [word, offset] of [
        ["first", HOUR],
        ["second", -HOUR],
        ["third", 0],
      ] as const)
        await openWorkflow({ driver: port(elsewhere(driver)), ...options, environment: clockAt(offset) }).signal("word", word);
      expect(await runWorkflow({ driver, ...options })).toEqual({ status: "completed", output: ["first", "second", "third"] });
    });
  }

  test("H4 a live run takes a message from elsewhere, of which no hint came, before one that its own process sends after", async () => {
    class Deaf extends MemoryDriver {
      override watch(): () => void {
        return () => {};
      }
    }
    const driver = new Deaf();
    const live = runWorkflow({ driver, workflow: three, id: "r", mode: "live", environment: clockAt(-HOUR) });
    await live.signal("word", "first");
    await openWorkflow({ driver: elsewhere(driver), workflow: three, id: "r" }).signal("word", "second");
    await live.signal("word", "third");
    expect(await live.result()).toEqual({ status: "completed", output: ["first", "second", "third"] });
  });

  test("H4 sends that are not awaited keep their order", async () => {
    const driver = new MemoryDriver();
    const options = { driver, workflow: three, id: "r" };
    await runWorkflow(options);
    const handle = openWorkflow(options);
    await Promise.all(["first", "second", "third"].map((word) => handle.signal("word", word)));
    expect(await runWorkflow(options)).toEqual({ status: "completed", output: ["first", "second", "third"] });
  });

  test("P10 H4 where batches are bounded, what a continuation carries comes before what it had not yet taken, and nothing is lost", async () => {
    const chain = workflow({ name: "chain", signals: { word: signal<string>(), go: signal() } }, async (ctx, n: number) => {
      if (n < 3) {
        await ctx.waitForSignal("go");
        return ctx.continueAsNew(n + 1);
      }
      const words: string[] = [];
      for (let i = 0; i < 24; i++) words.push((await ctx.waitForSignal("word")).trim());
      return words;
    });
    const driver = new MemoryDriver({ maxBatchWrites: 60 });
    const options = { driver, workflow: chain, id: "r", input: 1 };
    await runWorkflow(options);
    const handle = openWorkflow(options);
    const words = Array.from({ length: 24 }, (_, i) => `word ${i}`);
    for (const word of words.slice(0, 12)) await handle.signal("word", word);
    await handle.signal("go");
    await handle.signal("go");
    for (const word of words.slice(12)) await handle.signal("word", word);
    expect(await runWorkflow({ ...options, mode: "live" }).result()).toEqual({ status: "completed", output: words });
  });
});
