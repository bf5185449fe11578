// Job: prove the order of messages, and that no caller waits for what never comes.
// Owns: nothing.
// Invariants: H2 H4 M1 M10; senders of several processes are drivers on one namespace, each with a clock of its own.

import { Receive, signal, update, workflow } from "@holdfast/core";
import { type EngineDriver, type Environment, MemoryDriver, openWorkflow, realEnvironment, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { PREFIX } from "../../src/storage/layout.ts";
import { unpack } from "../../src/storage/tuple.ts";
import { KvHost } from "../host.ts";

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

/** What the key of an entry begins with. */
const unpackedGroup = (key: string) => String(unpack(Uint8Array.from(key, (letter) => letter.charCodeAt(0)))[0]);
const silent = { debug() {}, info() {}, warn() {}, error() {} };

describe("callers of updates", () => {
  const adder = workflow({ name: "adder", updates: { add: update<number, number>() }, signals: { stop: signal() } }, async (ctx) => {
    const { state } = await ctx.receive(0, {
      updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) },
      signals: { stop: (_, sum) => Receive.stop(sum) },
    });
    await ctx.step("last", () => working);
    return state;
  });
  const working: Promise<void> = Promise.resolve();

  test("H1 a start right after the reply to an update is not refused, though that update has the run run", async () => {
    const driver = new MemoryDriver();
    const options = { driver, workflow: adder, id: "r", logger: silent };
    await runWorkflow(options);
    const handle = openWorkflow(options);
    for (let i = 1; i <= 3; i++) {
      expect(await handle.update("add", 1)).toBe(i);
      expect(await runWorkflow(options)).toMatchObject({ status: "sleeping" });
    }
    expect(await handle.update("add", 1)).toBe(4);
    const live = runWorkflow({ ...options, mode: "live" });
    await live.signal("stop");
    expect(await live.result()).toEqual({ status: "completed", output: 4 });
  });

  test("H1 two starts right after it are still one too many", async () => {
    const driver = new MemoryDriver();
    const options = { driver, workflow: adder, id: "r", logger: silent };
    await runWorkflow(options);
    await openWorkflow(options).update("add", 1);
    const both = await Promise.allSettled([runWorkflow(options), runWorkflow(options)]);
    expect(both.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect(both[1]).toMatchObject({ reason: { code: "HF_KV_RUN_LIVE" } });
  });

  test("M10 a caller hears of the outcome, though its run has moved on to another driver", async () => {
    const slow = workflow({ name: "slow", updates: { ask: update<string, string>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: {
          ask: (word) =>
            Receive.async(async (handler) => {
              await handler.step("think", () => {
                thoughts++;
                return thinking;
              });
              return `${word}!`;
            }, 0),
        },
      });
    });
    let thoughts = 0;
    let thinking: Promise<unknown> = new Promise(() => {});
    const driver = new MemoryDriver();
    const options = { driver, workflow: slow, id: "r", logger: silent };
    const live = runWorkflow({ ...options, mode: "live" });
    const asked = live.update("ask", "well");
    await expect.poll(() => thoughts).toBe(1);
    await live.evict();
    thinking = Promise.resolve();
    const there = runWorkflow({ ...options, driver: elsewhere(driver), mode: "live" });
    expect(await asked).toBe("well!");
    await there.evict();
  });

  test("M12 K6 a caller whose run ends or is blocked on another driver hears of that", async () => {
    for (const [how, code] of [
      ["terminate", "HF_RUN_CLOSED"],
      ["block", "HF_RUN_BLOCKED"],
    ] as const) {
      const stuck = workflow({ name: "stuck", updates: { ask: update<string, string>() } }, async (ctx) => {
        await ctx.step("never", () => new Promise(() => {}));
        await ctx.receive(0, { updates: { ask: () => Receive.reply("", 0) } });
      });
      const driver = new MemoryDriver();
      const options = { driver, workflow: stuck, id: "r", logger: silent };
      const live = runWorkflow({ ...options, mode: "live" });
      await expect.poll(async () => (await live.describe()).waitingFor.join()).toBe("");
      const handle = openWorkflow(options);
      const asked = handle.update("ask", "well").catch((error) => error.code);
      await live.evict();
      const there = { ...options, driver: elsewhere(driver) };
      if (how === "terminate") await openWorkflow(there).terminate();
      const other = workflow({ name: "stuck", updates: { ask: update<string, string>() } }, async (ctx) => ctx.step("other", () => 1));
      await runWorkflow({ ...there, workflow: other as never });
      expect(["HF_UPDATE_REJECTED", code]).toContain(await asked);
    }
  });

  test("M10 an outcome without a key is kept for an hour, and goes with a later one; one with a key stays", async () => {
    const host = new KvHost();
    const run = await host.start(adder);
    const { namespace } = host.driver("run");
    const stored = (group: string) => [...namespace.entries.keys()].filter((key) => unpackedGroup(key) === group).length;
    for (let i = 0; i < 20; i++) await run.update("add", 1);
    await run.update("add", 1, { idempotencyKey: "k" });
    expect([stored("u"), stored("e")]).toEqual([21, 20]);
    await host.skip("59m");
    await run.update("add", 1);
    expect([stored("u"), stored("e")]).toEqual([22, 21]);
    await host.skip("2h");
    await host.handle("run").wake();
    expect(stored("u")).toBe(22); // nothing was recorded since
    await host.crash();
    await run.update("add", 1);
    expect([stored("u"), stored("e"), stored("9")]).toEqual([2, 1, 1]);
    expect(await run.update("add", 1, { idempotencyKey: "k" })).toBe(21); // the outcome of the first
    expect(await run.update("add", 1)).toBe(24);
  });

  test("M10 P9 where batches are bounded, outcomes that are over go by and by", async () => {
    const host = new KvHost({ maxBatchWrites: 48 });
    const run = await host.start(adder);
    const { namespace } = host.driver("run");
    const stored = () => [...namespace.entries.keys()].filter((key) => unpackedGroup(key) === "u").length;
    for (let i = 0; i < 10; i++) await run.update("add", 1);
    await host.skip("3h");
    const counts: number[] = [];
    for (let i = 0; i < 6; i++) {
      await run.update("add", 1);
      counts.push(stored());
    }
    expect([await run.status(), counts[0], counts.at(-1)]).toEqual(["sleeping", 8, 6]);
  });

  test("M8 its caller is answered when its time is over, by the run's clock, though no host minds the alarm", async () => {
    const waits = workflow({ name: "waits", signals: { go: signal() }, updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.waitForSignal("go");
      await ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
    });
    const driver = new MemoryDriver();
    const options = { driver, workflow: waits, id: "r", logger: silent };
    await runWorkflow(options);
    const handle = openWorkflow(options);
    await expect(handle.update("add", 1, { acceptWithin: 50 })).rejects.toMatchObject({ code: "HF_UPDATE_REJECTED" });
    expect((await driver.list(PREFIX.messages)).length).toBe(0);
    // A sender whose clock is an hour behind, or ahead, gives it no less and no more.
    const sender = openWorkflow({ ...options, driver: elsewhere(driver), environment: clockAt(-HOUR) });
    const asked = sender.update("add", 1, { acceptWithin: "1m", timeout: "2s" });
    await expect.poll(async () => (await handle.describe()).wakeAt).toBeInstanceOf(Date);
    await handle.signal("go");
    await handle.wake();
    expect(await asked).toBe(1);
  });

  test("V4 an update to a blocked run says so, runs none of its code, and is kept", async () => {
    let posted = 0;
    const make = (bad: boolean) =>
      workflow({ name: "w", updates: { add: update<number, number>() }, signals: { go: signal() } }, async (ctx) => {
        await ctx.waitForSignal("go");
        if (bad) {
          posted++; // what it does outside of steps
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        await ctx.receive(0, { updates: { add: (n, sum) => Receive.stop(sum + n, sum + n) } });
      });
    const driver = new MemoryDriver();
    const options = { driver, workflow: make(true), id: "r", logger: silent };
    await runWorkflow(options);
    const handle = openWorkflow(options);
    await handle.signal("go");
    expect(await runWorkflow(options)).toMatchObject({ status: "blocked" });
    expect(driver.alarms.get("r")).toBeUndefined(); // not tried again by itself
    await expect(handle.update("add", 2, { idempotencyKey: "k" })).rejects.toMatchObject({ code: "HF_RUN_BLOCKED" });
    await handle.signal("go");
    expect(driver.alarms.get("r")).toBeUndefined(); // nor by messages
    expect(posted).toBe(1);
    await handle.recover();
    expect(driver.alarms.get("r")).toBeLessThanOrEqual(Date.now());
    const better = { ...options, workflow: make(false) };
    expect(await runWorkflow(better)).toMatchObject({ status: "completed" });
    expect(await openWorkflow(better).update("add", 2, { idempotencyKey: "k" })).toBe(2);
  });
});

describe("advice", () => {
  test("D10 errors name the calls of this host", async () => {
    const w = workflow("w", (ctx) => ctx.step("s", () => Promise.reject(new Error("no")), { retry: { maxAttempts: 1 } }));
    const driver = new MemoryDriver();
    const options = { driver, workflow: w, id: "r", logger: silent };
    const { error } = (await runWorkflow(options)) as { error: Error };
    expect(error.message).toContain("recover()");
    expect(error.message).not.toContain("resume()");
    expect(error.stack).not.toContain("resume()");
    await openWorkflow(options)
      .terminate()
      .catch((closed: Error) => expect(closed.message).not.toContain("onConflict"));
  });
});
