// Job: prove that mistakes which hosts of this kind are known for are not made here, seen at the driver's door.
// Owns: nothing.
// Invariants: one test per mistake. Mistakes that any host can make are in `hostConformance`.

import { signal, workflow } from "@holdfast/core";
import { MemoryDriver, openWorkflow, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

const never = () => new Promise<never>(() => {});

describe("known traps", () => {
  test("X10 K1 evict reaches branches: their steps are notified, nothing more is written, and the run goes on elsewhere", async () => {
    const told: string[] = [];
    const heard: string[] = [];
    let first = true;
    const w = workflow("w", async (ctx) => {
      const work = (name: string) => async () => {
        try {
          return await ctx_step(name);
        } finally {
          heard.push(name); // workflow code hears nothing of an eviction
        }
      };
      const ctx_step = (name: string) => steps[name]?.() ?? never();
      const steps: Record<string, () => Promise<string>> = {};
      return ctx.join("all", {
        left: async (branch) => {
          steps["left"] = () => branch.step("work", ({ signal }) => slow("left", signal));
          return work("left")();
        },
        deep: (branch) =>
          branch.join("inner", {
            right: async (inner) => {
              steps["right"] = () => inner.step("work", ({ signal }) => slow("right", signal));
              return work("right")();
            },
          }),
      });
    });
    async function slow(name: string, signal: AbortSignal): Promise<string> {
      if (!first) return name;
      signal.addEventListener("abort", () => told.push(name));
      return never();
    }
    const host = new KvHost();
    const run = await host.start(w);
    const before = [...host.driver("run").namespace.entries.keys()];
    await host.handle("run").evict();
    expect(told.toSorted()).toEqual(["left", "right"]);
    expect(heard).toEqual([]);
    expect([...host.driver("run").namespace.entries.keys()]).toEqual(before);

    first = false;
    expect(await run.result()).toEqual({ left: "left", deep: { right: "right" } });
  });

  test("X10 a late result of an evicted step is dropped", async () => {
    const finishes: ((value: string) => void)[] = [];
    const w = workflow("w", (ctx) => ctx.step("work", () => new Promise<string>((resolve) => finishes.push(resolve))));
    const host = new KvHost();
    const run = await host.start(w);
    await host.handle("run").evict();
    finishes[0]?.("too late");
    await host.settle();
    expect(finishes).toHaveLength(2); // the alarm that stands has woken it: another attempt
    finishes[1]?.("in time");
    expect(await run.result()).toBe("in time");
  });

  test("M7 a message is not lost between being taken and the batch that says so", async () => {
    const w = workflow("w", async (ctx) => {
      const first = await ctx.waitForSignal("word");
      const second = await ctx.waitForSignal("word");
      return [first, second];
    });
    for (const when of ["before", "after"] as const) {
      const host = new KvHost();
      const run = await host.start(w);
      await run.signal("word", 1);
      const { process } = host;
      // The sender's own batch is a set; the one that takes the message deletes it.
      process.onBatch = (moment, writes) => {
        if (moment === when && writes.some(({ type }) => type === "delete")) process.dead = true;
      };
      await host.handle("run").signal("word", 2 as never);
      await host.settle();
      expect(process.dead).toBe(true);
      await host.crash();
      expect(await run.result(), when).toEqual([1, 2]);
    }
  });

  test("M1 D9 a message that was acknowledged wakes its run, whatever dies after", async () => {
    const w = workflow("w", async (ctx) => ctx.waitForSignal("word"));
    const host = new KvHost();
    const run = await host.start(w);
    expect(host.alarms.get("run")).toBeUndefined();
    const sent = host.handle("run").signal("word", "hello" as never);
    await sent;
    host.process.dead = true; // acknowledged, and no process has run it yet
    await host.crash();
    expect(await run.result()).toBe("hello");
  });

  test("D9 a message from a process that the driver can't tell of is not left without an alarm by the run that parks", async () => {
    /** Hints get lost on the way to it. */
    class Deaf extends MemoryDriver {
      override watch(): () => void {
        return () => {};
      }
    }
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      await ctx.step("work", () => working);
      return ctx.waitForSignal("word");
    });
    let finish: () => void = () => {};
    let working = Promise.resolve();
    for (const mode of ["yield", "live"] as const) {
      working = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const driver = new Deaf();
      const options = { driver, workflow: w, id: "r" };
      const parked = mode === "yield" ? runWorkflow(options) : runWorkflow({ ...options, mode });
      const elsewhere = new MemoryDriver({ namespace: driver.namespace, alarms: driver.alarms });
      const sender = openWorkflow({ driver: elsewhere, workflow: w, id: "r" });
      await expect.poll(() => driver.namespace.entries.size).toBeGreaterThan(0);
      await sender.signal("word", "hello"); // while the step runs
      finish();
      const result = await (mode === "yield" ? parked : (parked as { result(): Promise<unknown> }).result());
      expect(result, mode).toEqual({ status: "completed", output: "hello" });
    }
  });

  test("M7 D2 where batches are bounded, a message whose turn comes later stays stored until then", async () => {
    const w = workflow("w", async (ctx) => {
      const got: string[] = [];
      for (let i = 0; i < 30; i++) got.push(((await ctx.waitForSignal("word")) as string).trim());
      return got.join();
    });
    const words = Array.from({ length: 30 }, (_, i) => `word ${i}`.padEnd(40));
    for (let at = 1; at <= 6; at++) {
      const host = new KvHost({ maxBatchBytes: 4_000 });
      const run = await host.start(w);
      const handle = host.handle("run");
      await Promise.all(words.map((word, i) => handle.signal("word", word as never, { idempotencyKey: `k${i}` })));
      const { process } = host;
      let turns = 0;
      process.onBatch = (moment, writes) => {
        if (moment === "after" && writes.some(({ type }) => type === "delete") && ++turns === at) process.dead = true;
      };
      await host.settle();
      await host.crash();
      expect(await run.result(), `killed after turn ${at}`).toBe(words.map((word) => word.trim()).join());
    }
  });
});
