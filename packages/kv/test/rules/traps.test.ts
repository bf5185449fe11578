// Job: prove that mistakes which engines of this kind are known for are not made here.
// Owns: nothing.
// Invariants: one test a trap; each fails if the trap is fallen into.

import { FatalError, Receive, RollbackError, update, workflow } from "@holdfast/core";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

const never = () => new Promise<never>(() => {});

describe("known traps", () => {
  test("C2 D6 a step without a value inside a join does not run again after a replay", async () => {
    let ran = 0;
    const w = workflow("w", async (ctx) => {
      const result = await ctx.join("both", {
        silent: (branch) => branch.step("nothing", async () => void ran++),
        other: (branch) => branch.waitForSignal("go"),
      });
      return "silent" in result && result.silent === undefined;
    });
    const host = new KvHost();
    const run = await host.start(w);
    for (let i = 0; i < 3; i++) await host.crash();
    await host.handle("run").wake();
    await run.signal("go");
    expect(await run.result()).toBe(true);
    expect(ran).toBe(1);
  });

  test("Y4 a `try` that failed replays as failed, and takes the way it took", async () => {
    let attempts = 0;
    const w = workflow("w", async (ctx) => {
      const tried = await ctx.try("risk", (inner) =>
        inner.step("risk", async () => {
          if (++attempts === 1) throw new FatalError("first time");
          return "would succeed now";
        }),
      );
      await ctx.waitForSignal("go");
      return tried.ok ? tried.value : `failed: ${(tried.error.cause as Error).message}`;
    });
    const host = new KvHost();
    const run = await host.start(w);
    await host.crash();
    await run.signal("go");
    expect(await run.result()).toBe("failed: first time");
    expect(attempts).toBe(1);
  });

  test("V4 S3 code that diverges blocks the run; no rollback runs, and the old code goes on with it", async () => {
    const undone: string[] = [];
    const make = (name: string) =>
      workflow("w", async (ctx) => {
        await ctx.step("book", async () => "room", { rollback: async (room) => void undone.push(room) });
        await ctx.step(name, async () => name);
        await ctx.waitForSignal("go");
        throw new RollbackError("on purpose");
      });
    const host = new KvHost();
    const run = await host.start(make("pay"));
    await host.crash();
    host.run(make("charge"), "run");
    await run.signal("go");
    expect(await run.status()).toBe("blocked");
    await expect(run.result()).rejects.toThrow(/charge/);
    await host.skip("1d"); // it is tried again and again
    expect([await run.status(), undone]).toEqual(["blocked", []]);

    host.run(make("pay"), "run");
    await host.skip("10m");
    await expect(run.result()).rejects.toThrow(/on purpose/);
    expect(undone).toEqual(["room"]);
  });

  test("V4 X7 X8 code that breaks a rule blocks the run too, and leaves no trace of the turn", async () => {
    const make = (bad: boolean) =>
      workflow("w", async (ctx) => {
        await ctx.waitForSignal("go");
        const before = await ctx.step("before", async () => 1);
        if (bad) await new Promise((resolve) => setTimeout(resolve, 1));
        return before;
      });
    const host = new KvHost();
    const run = await host.start(make(true));
    await run.signal("go");
    expect(await run.status()).toBe("blocked");
    await expect(run.result()).rejects.toThrow(/ctx.step/);
    host.run(make(false), "run");
    await host.skip("10m");
    expect(await run.result()).toBe(1);
  });

  test("D7 a step that kills the process is stopped after its attempts", async () => {
    let begun = 0;
    const w = workflow("w", async (ctx) => {
      try {
        return await ctx.step(
          "deadly",
          () => {
            begun++;
            host.process.dead = true; // the process is gone before anything can be written
            return never();
          },
          { retry: { maxAttempts: 3, initialInterval: 1 } },
        );
      } catch (error) {
        return (error as Error).message;
      }
    });
    const host = new KvHost();
    const run = await host.start(w);
    for (let i = 0; i < 10; i++) await host.crash();
    expect(await run.result()).toMatch(/failed after 3 attempts.*did not come back/);
    expect(begun).toBe(3);
  });

  test("D7 a step that may be tried once is tried once, though the process dies", async () => {
    let begun = 0;
    const w = workflow("w", (ctx) =>
      ctx.step(
        "once",
        () => {
          begun++;
          return never();
        },
        { retry: { maxAttempts: 1 } },
      ),
    );
    const host = new KvHost();
    const run = await host.start(w);
    await host.crash();
    await expect(run.result()).rejects.toThrow(/after 1 attempt/);
    expect(begun).toBe(1);
  });

  test("X10 K1 evict reaches branches: their steps are told, nothing more is written, and the run goes on elsewhere", async () => {
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
    host.process.dead = true; // acknowledged, and nobody has run it yet
    await host.crash();
    expect(await run.result()).toBe("hello");
  });

  test("K1 K5 a cancel is not overwritten by a run in progress", async () => {
    let finish: (value: string) => void = () => {};
    const w = workflow("w", async (ctx) => {
      await ctx.step("long", () => new Promise<string>((resolve) => (finish = resolve)));
      await ctx.step("never", async () => "reached");
      return "completed";
    });
    const host = new KvHost();
    const run = await host.start(w);
    expect(await run.status()).toBe("running");
    // Both at once: the step ends and writes, the cancel is appended.
    const canceled = host.handle("run").cancel("stop");
    finish("done");
    await canceled;
    await host.settle();
    expect(await run.status()).toBe("canceled");
    await expect(run.result()).rejects.toThrow(/stop/);
    await host.crash();
    await host.handle("run").wake();
    expect(await run.status()).toBe("canceled");
    await expect(run.signal("x")).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
  });

  test("K1 a cancel that was acknowledged outlives the process that was told", async () => {
    const w = workflow("w", (ctx) => ctx.step("long", never));
    const host = new KvHost();
    const run = await host.start(w);
    const { process } = host;
    process.onBatch = (moment, writes) => {
      if (moment === "before" && writes.length > 1) process.dead = true; // the turn that would take it
    };
    await host.handle("run").cancel();
    await host.settle();
    await host.crash();
    expect(await run.status()).toBe("canceled");
  });

  test("D5 a step is not run again because a sibling slept", async () => {
    let ran = 0;
    let finish: () => void = () => {};
    const w = workflow("w", (ctx) =>
      ctx.join("both", {
        sleeps: (branch) => branch.sleep("1h"),
        works: (branch) =>
          branch.step("work", async () => {
            ran++;
            await new Promise<void>((resolve) => (finish = resolve));
            return ran;
          }),
      }),
    );
    const host = new KvHost();
    const run = await host.start(w);
    await host.skip("30m");
    expect(await run.status()).toBe("running"); // not parked: something is in flight
    finish();
    await host.skip("30m");
    expect(await run.result()).toEqual({ sleeps: undefined, works: 1 });
  });

  test("M10 an update that was accepted is answered once, though the process dies before the answer is durable", async () => {
    let handled = 0;
    const w = workflow({ name: "w", updates: { add: update<number, number>() } }, async (ctx) => {
      await ctx.receive(0, {
        updates: {
          add: async (n, sum, handler) => {
            const total = await handler.step("add", async () => {
              handled++;
              return sum + n;
            });
            return Receive.reply(total, total);
          },
        },
      });
    });
    const host = new KvHost();
    const run = await host.start(w);
    expect(await run.update("add", 5, { idempotencyKey: "one" })).toBe(5);
    const { process } = host;
    let batches = 0;
    process.onBatch = (moment) => {
      if (moment === "before" && ++batches === 3) process.dead = true; // send, accept, and the answer that is not written
    };
    void host
      .handle("run")
      .update("add", 7 as never, { idempotencyKey: "two" })
      .catch(() => {});
    await host.settle();
    expect(process.dead).toBe(true);
    await host.crash();
    expect(await run.update("add", 7, { idempotencyKey: "two" })).toBe(12);
    expect(await run.update("add", 5, { idempotencyKey: "one" })).toBe(5);
    expect(handled).toBe(3);
  });

  test("K6 V4 terminate ends a run that its code can't advance", async () => {
    const make = (name: string) =>
      workflow("w", async (ctx) => {
        await ctx.step(name, async () => 1);
        await ctx.waitForSignal("go");
      });
    const host = new KvHost();
    const run = await host.start(make("old"));
    host.run(make("new"), "run");
    await run.signal("go");
    expect(await run.status()).toBe("blocked");
    await run.terminate("no code for it");
    expect(await run.status()).toBe("terminated");
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
