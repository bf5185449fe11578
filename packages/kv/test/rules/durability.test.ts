// Job: prove what is written when: one batch a turn, nothing twice, nothing for nothing, all of it or none.
// Owns: nothing.
// Invariants: seen at the driver's door: batches, lists, keys.

import { Loop, Receive, signal, update, workflow } from "@holdfast/core";
import { createWorkflow, type KvWrite, MemoryDriver, openWorkflow, realEnvironment, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { decode, encode } from "../../src/storage/binary.ts";
import { messageKey, PREFIX } from "../../src/storage/layout.ts";
import { unpack } from "../../src/storage/tuple.ts";
import { KvHost } from "../host.ts";

/** A driver that keeps book of what it is asked. */
class Watched extends MemoryDriver {
  readonly batches: (readonly KvWrite[])[] = [];
  /** Entries that each list has given. */
  lists: number[] = [];
  gets = 0;
  readonly log: string[] = [];
  override async batch(writes: readonly KvWrite[]) {
    this.batches.push(writes);
    await super.batch(writes);
    this.log.push("batch");
  }
  override async list(prefix: Uint8Array) {
    const entries = await super.list(prefix);
    this.lists.push(entries.length);
    return entries;
  }
  override get(key: Uint8Array) {
    this.gets++;
    return super.get(key);
  }
  override async setAlarm(runId: string, at: number) {
    await super.setAlarm(runId, at);
    this.log.push("alarm");
  }
  override async clearAlarm(runId: string) {
    await super.clearAlarm(runId);
    this.log.push("clear");
  }
}

const steps = (count: number) =>
  workflow("steps", async (ctx) => {
    for (let i = 0; i < count; i++) await ctx.step("step", async () => i);
    await ctx.waitForSignal("go");
    return count;
  });

describe("batches", () => {
  test("D1 D2 steps in sequence cost one batch each: the outcome of one with the command of the next", async () => {
    const driver = new Watched();
    const order: string[] = [];
    const w = workflow("w", async (ctx) => {
      for (let i = 0; i < 10; i++) {
        await ctx.step(`s${i}`, async () => void order.push(`${i} after ${driver.batches.length}`));
      }
    });
    await runWorkflow({ driver, workflow: w, id: "r" });
    expect(driver.batches).toHaveLength(12); // H5: the last turn has two
    // Each body ran after the batch that records it.
    expect(order).toEqual(Array.from({ length: 10 }, (_, i) => `${i} after ${i + 1}`));
  });

  test("D2 steps that end together share a batch", async () => {
    const driver = new Watched();
    const w = workflow("w", (ctx) => ctx.parallel(Array.from({ length: 200 }, (_, i) => (branch) => branch.step("s", async () => i))));
    await runWorkflow({ driver, workflow: w, id: "r" });
    expect(driver.batches.length).toBeLessThanOrEqual(3);
  });

  test("Y1 H2 a wake-up that changes nothing writes nothing, and reads all records in one pass", async () => {
    const driver = new Watched();
    const w = steps(5_000); // two records each
    const first = await runWorkflow({ driver, workflow: w, id: "r", logger: silent });
    const { length } = driver.batches;
    for (let i = 0; i < 3; i++) {
      driver.lists = [];
      driver.gets = 0;
      expect(await runWorkflow({ driver, workflow: w, id: "r", logger: silent })).toEqual(first);
      // Everything at once; and a look for messages, of which there are none, before it is left alone.
      const [all, ...looks] = driver.lists;
      expect(all).toBeGreaterThan(10_000);
      expect([looks, driver.gets, driver.batches.length - length]).toEqual([[0], 0, 0]);
    }
  });

  test("H2 a closed run is left as it is", async () => {
    const driver = new Watched();
    const w = workflow("w", async () => "done");
    await runWorkflow({ driver, workflow: w, id: "r" });
    const { length } = driver.batches;
    expect(await runWorkflow({ driver, workflow: w, id: "r" })).toEqual({ status: "completed", output: "done" });
    expect(driver.batches).toHaveLength(length);
  });

  test("H2 outside writers only append: a send is one new message key, and an alarm", async () => {
    const driver = new Watched();
    const w = steps(1);
    await runWorkflow({ driver, workflow: w, id: "r" });
    const before = driver.batches.length;
    const handle = openWorkflow({ driver, workflow: w, id: "r" });
    await handle.signal("go");
    await handle.cancel("why");
    const sent = driver.batches.slice(before);
    expect(sent.map((writes) => writes.map((write) => [write.type, "key" in write && unpack(write.key)[0]]))).toEqual([
      [["set", 3]],
      [["set", 3]],
    ]);
    expect(driver.alarms.get("r")).toBeLessThanOrEqual(Date.now());
    expect(driver.log.at(-1)).toBe("alarm"); // after the message: see the host
  });

  test("H3 keys carry no run id; names are kept once, locations are made of their numbers", async () => {
    const driver = new Watched();
    const name = "a rather long name of a step that is used again and again";
    const w = workflow("w", async (ctx) => {
      for (let i = 0; i < 20; i++) await ctx.step(name, async () => i);
    });
    await runWorkflow({ driver, workflow: w, id: "the-id-of-this-run" });
    const keys = [...driver.namespace.entries.keys()];
    expect(keys.filter((key) => key.includes("the-id-of-this-run") || key.includes("rather long"))).toEqual([]);
    const records = keys.filter((key) => unpack(Uint8Array.from(key, (letter) => letter.charCodeAt(0)))[0] === 2);
    expect(Math.max(...records.map((key) => key.length))).toBeLessThan(16);
    expect([...driver.namespace.entries.values()].filter((value) => Buffer.from(value).includes("rather long"))).toHaveLength(1);
  });

  test("H3 the registry numbers names as locations are read: those of the path before that of the operation", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", (ctx) => ctx.join("outer", { branch: (branch) => branch.step("inner", async () => 1) }));
    await runWorkflow({ driver, workflow: w, id: "r" });
    const names = (await driver.list(PREFIX.names)).map(({ value }) => decode(value));
    expect(names).toEqual(["outer", "branch", "inner"]);
  });

  test("L4 R11 a trim is one range of keys, in the batch of the commit", async () => {
    const driver = new Watched();
    const w = workflow("w", (ctx) =>
      ctx.loop({ name: "loop", state: 0, commitInterval: 10, historyEvery: 10, historyKeep: 0 }, async (body, n: number) => {
        await body.step("a", async () => n);
        await body.step("b", async () => n);
        return n === 35 ? Loop.break(n) : Loop.continue(n + 1);
      }),
    );
    await runWorkflow({ driver, workflow: w, id: "r" });
    const trims = driver.batches.filter((writes) => writes.some(({ type }) => type === "deleteRange"));
    expect(trims).toHaveLength(3);
    for (const writes of trims) {
      expect(writes.filter(({ type }) => type === "deleteRange")).toHaveLength(1);
      expect(writes.filter(({ type }) => type === "delete").length).toBeLessThanOrEqual(1); // the commit before it
      expect(writes.some((write) => write.type === "set" && unpack(write.key)[0] === 2)).toBe(true);
    }
  });

  test("M7 a turn that takes messages deletes them and records them in one batch", async () => {
    const driver = new Watched();
    const w = workflow({ name: "w", updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.receive(0, { updates: { add: (n, sum) => Receive.reply(sum + n, sum + n) } });
    });
    await runWorkflow({ driver, workflow: w, id: "r" });
    const before = driver.batches.length;
    expect(await openWorkflow({ driver, workflow: w, id: "r" }).update("add", 5, { idempotencyKey: "k" })).toBe(5);
    const [send, turn, ...more] = driver.batches.slice(before);
    expect(more).toEqual([]);
    expect(send).toHaveLength(1);
    const groups = turn?.map((write) => `${write.type} ${"key" in write ? unpack(write.key)[0] : ""}`) ?? [];
    expect(groups).toEqual(expect.arrayContaining(["delete 3", "set 5", "set k", "set u"]));
  });
});

describe("limits of a batch", () => {
  const w = workflow("w", async (ctx) => {
    await ctx.waitForSignal("go");
    const parts = await ctx.parallel(Array.from({ length: 30 }, (_, i) => (branch) => branch.step("s", async () => "x".repeat(100) + i)));
    return parts.length;
  });

  test.each([{ maxBatchBytes: 700 }, { maxBatchWrites: 20 }])(
    "P9 D2 %o: a turn that needs more is refused whole, never split, and blocks the run",
    async (limits) => {
      const host = new KvHost(limits);
      const run = await host.start(w);
      const before = new Map(host.driver("run").namespace.entries);
      await run.signal("go");
      expect(await run.status()).toBe("blocked");
      await expect(run.result()).rejects.toMatchObject({
        message: expect.stringContaining(Object.keys(limits)[0] ?? ""),
        code: "HF_RUN_BLOCKED",
      });
      // Of that turn there is nothing: not a record more than before.
      const records = (entries: ReadonlyMap<string, unknown>) =>
        [...entries.keys()].filter((key) => key.charCodeAt(1) === 2 || key.charCodeAt(1) === 5);
      expect(records(host.driver("run").namespace.entries)).toEqual(records(before));
    },
  );

  test("P9 D2 outcomes that come together are taken in as many turns as fit, each whole", async () => {
    const wide = workflow(
      "wide",
      async (ctx) => (await Promise.all(Array.from({ length: 40 }, (_, i) => ctx.step("s", async () => `${i}`.repeat(50))))).length,
    );
    const driver = new Watched({ maxBatchBytes: 4_000 });
    expect(await runWorkflow({ driver, workflow: wide, id: "r" })).toEqual({ status: "completed", output: 40 });
    expect(driver.batches.length).toBeGreaterThan(3);
    const sizes = driver.batches.map((writes) =>
      writes.reduce((sum, write) => sum + (write.type === "set" ? write.key.length + write.value.length : 0), 0),
    );
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4_000);
  });

  test("M10 P10 messages whose turn did not come are refused at the end, and move on to the next execution", async () => {
    const chat = workflow(
      { name: "chat", signals: { end: signal<boolean>() }, updates: { ask: update<string, string>() } },
      async (ctx, n: number) => {
        const { state } = await ctx.receive(true, {
          signals: { end: (again) => Receive.stop(again) },
          updates: { ask: (word, held) => Receive.reply(`${word} ${n}`, held) },
        });
        return state ? ctx.continueAsNew(n + 1) : n;
      },
    );
    const driver = new Watched({ maxBatchWrites: 30 });
    await runWorkflow({ driver, workflow: chat, id: "r", input: 1 });
    const handle = openWorkflow({ driver, workflow: chat, id: "r" });
    /** All of them are stored before anybody runs it. */
    const send = async (again: boolean) => {
      const elsewhere = openWorkflow({ driver: new MemoryDriver({ namespace: driver.namespace }), workflow: chat, id: "r" });
      await elsewhere.signal("end", again, { idempotencyKey: `end ${again}` });
      return Array.from({ length: 20 }, (_, i) => handle.update("ask", `word ${i}`, { idempotencyKey: `${again} ${i}` }));
    };
    const codes = async (sent: Promise<string>[]) => {
      let settled = false;
      const answers = Promise.allSettled(sent).finally(() => (settled = true));
      for (; !settled; await new Promise((resolve) => setImmediate(resolve))) await handle.wake(); // as a host does that minds its alarm
      return new Set((await answers).map((one) => (one.status === "fulfilled" ? one.value.split(" ").at(-1) : one.reason.code)));
    };
    // Each has an answer: of this execution, of the next, or that no receive took it.
    for (const code of await codes(await send(true))) expect(["1", "2", "HF_UPDATE_REJECTED"]).toContain(code);
    await handle.wake();
    expect((await handle.describe()).execution).toBe(2);
    for (const code of await codes(await send(false))) expect(["2", "HF_UPDATE_REJECTED", "HF_RUN_CLOSED"]).toContain(code);
    expect(driver.batches.every(({ length }) => length <= 30)).toBe(true);
    expect(await handle.result()).toEqual({ status: "completed", output: 2 });
  });

  test("P9 V4 an attempt whose error is more than a batch takes blocks the run, and its next one counts", async () => {
    const driver = new Watched({ maxBatchBytes: 2_000 });
    let tries = 0;
    const talkative = workflow("talkative", (ctx) =>
      ctx.step("s", async () => {
        if (++tries === 1) throw new Error("x".repeat(5_000));
        return tries;
      }),
    );
    const options = { driver, workflow: talkative, id: "r", logger: silent };
    expect(await runWorkflow(options)).toMatchObject({ status: "blocked", error: { code: "HF_LIMIT_EXCEEDED" } });
    expect(await runWorkflow(options)).toEqual({ status: "completed", output: 2 });
  });

  test("K1 any number of messages that wait are taken at once", { timeout: 30_000 }, async () => {
    const many = 150_000; // more than a call takes arguments
    const waits = workflow("waits", async (ctx) => ctx.sleep("1d"));
    const driver = new MemoryDriver();
    await runWorkflow({ driver, workflow: waits, id: "r", logger: silent });
    const value = encode({ job: { type: "cancel", reason: "no more" } });
    await driver.batch(Array.from({ length: many }, (_, i) => ({ type: "set", key: messageKey(Date.now(), i, ""), value })));
    expect(await openWorkflow({ driver, workflow: waits, id: "r", logger: silent }).wake()).toEqual({
      status: "canceled",
      reason: "no more",
    });
    expect(await driver.list(PREFIX.messages)).toEqual([]);
  });

  test("P9 the same run goes on where batches may be larger", async () => {
    const small = new MemoryDriver({ maxBatchWrites: 20 });
    await runWorkflow({ driver: small, workflow: w, id: "r", logger: silent });
    await openWorkflow({ driver: small, workflow: w, id: "r" }).signal("go" as never);
    expect(await runWorkflow({ driver: small, workflow: w, id: "r", logger: silent })).toMatchObject({ status: "blocked" });
    const large = new MemoryDriver({ namespace: small.namespace });
    expect(await runWorkflow({ driver: large, workflow: w, id: "r" })).toEqual({ status: "completed", output: 30 });
  });
});

describe("starts and sends that don't fit", () => {
  const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx, _input: string) => ctx.waitForSignal("word"));

  test("P9 a start whose input is more than a batch takes is refused, and leaves neither run nor alarm", async () => {
    const driver = new Watched({ maxBatchBytes: 2_000 });
    const start = { driver, workflow: w, id: "r", input: "x".repeat(3_000), logger: silent };
    await expect(runWorkflow(start)).rejects.toMatchObject({
      code: "HF_LIMIT_EXCEEDED",
      message: expect.stringContaining("maxBatchBytes"),
    });
    await expect(createWorkflow(start)).rejects.toMatchObject({ code: "HF_LIMIT_EXCEEDED" });
    expect([driver.namespace.entries.size, driver.alarms.get("r")]).toEqual([0, undefined]);
    expect(await runWorkflow({ ...start, input: "x" })).toMatchObject({ status: "sleeping" });
  });

  test("P9 M1 a message that is more than a batch takes is refused at the sender, and the run goes on", async () => {
    const driver = new Watched({ maxBatchBytes: 2_000 });
    await runWorkflow({ driver, workflow: w, id: "r", input: "x" });
    const handle = openWorkflow({ driver, workflow: w, id: "r" });
    await expect(handle.signal("word", "x".repeat(3_000))).rejects.toMatchObject({ code: "HF_LIMIT_EXCEEDED" });
    await handle.signal("word", "hello");
    expect(await handle.wake()).toEqual({ status: "completed", output: "hello" });
  });
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };

describe("alarms", () => {
  test("K8 D9 the alarm stands before the batch that needs it, and is exact once the run is left alone", async () => {
    const driver = new Watched();
    const w = workflow("w", async (ctx) => {
      await ctx.step("s", async () => {});
      await ctx.sleep("1h");
    });
    const now = Date.UTC(2026, 0, 1);
    const environment = { ...realEnvironment, now: () => now };
    const result = await runWorkflow({ driver, workflow: w, id: "r", environment });
    expect(result).toMatchObject({ status: "sleeping", wakeAt: now + 3_600_000 });
    expect(driver.log).toEqual(["alarm", "batch", "batch", "alarm"]);
    expect(driver.alarms.get("r")).toBe(now + 3_600_000);
  });
  test("H3 a run that is over has no alarm", async () => {
    const driver = new Watched();
    await runWorkflow({ driver, workflow: workflow("w", async () => 1), id: "r" });
    expect(driver.log).toEqual(["batch", "clear"]);
    expect(driver.alarms.get("r")).toBeUndefined();
  });
  test("D9 a wake-up too many costs nothing but time", async () => {
    const host = new KvHost();
    const w = workflow("w", async (ctx) => {
      await ctx.sleep("1h");
      return "slept";
    });
    const run = await host.start(w);
    host.alarms.set("run", 0); // as after a crash between the batch and the exact alarm
    await host.settle();
    expect(host.alarms.get("run")).toBe(host.now() + 3_600_000);
    await host.skip("1h");
    expect(await run.result()).toBe("slept");
  });
});

describe("storage that fails", () => {
  test("D2 a batch that can't be written stops the run as the last one left it; it goes on later", async () => {
    class Broken extends MemoryDriver {
      broken = false;
      override async batch(writes: readonly KvWrite[]) {
        if (this.broken) throw new Error("disk full");
        await super.batch(writes);
      }
    }
    const driver = new Broken();
    let ran = 0;
    const w = workflow("w", async (ctx) => {
      await ctx.step("first", async () => {
        ran++;
        driver.broken = true;
      });
      return ctx.step("second", async () => ++ran);
    });
    await expect(runWorkflow({ driver, workflow: w, id: "r" })).rejects.toMatchObject({
      code: "HF_KV_WRITE_FAILED",
      message: expect.stringContaining("disk full"),
    });
    expect(ran).toBe(1);
    driver.broken = false;
    // "first" has run, but its outcome is not durable: it runs again.
    expect(
      await runWorkflow({
        driver,
        workflow: workflow("w", async (ctx) => {
          await ctx.step("first", async () => {
            ran++;
          });
          return ctx.step("second", async () => ++ran);
        }),
        id: "r",
      }),
    ).toEqual({ status: "completed", output: 3 });
  });

  test("H3 a namespace of another run, workflow or format is refused, and left as it is", async () => {
    const driver = new Watched();
    const w = steps(1);
    await runWorkflow({ driver, workflow: w, id: "r" });
    const { length } = driver.batches;
    await expect(runWorkflow({ driver, workflow: w, id: "other" })).rejects.toMatchObject({ code: "HF_KV_WRONG_NAMESPACE" });
    await expect(runWorkflow({ driver, workflow: workflow("v", async () => 1), id: "r" })).rejects.toMatchObject({
      code: "HF_KV_WRONG_NAMESPACE",
    });
    expect(driver.batches).toHaveLength(length);
    for (const [key, value] of driver.namespace.entries) driver.namespace.entries.set(key, Uint8Array.of(9, ...value.subarray(1)));
    await expect(runWorkflow({ driver, workflow: w, id: "r" })).rejects.toMatchObject({
      code: "HF_KV_FORMAT",
      message: expect.stringContaining("Update"),
    });
  });
});
