// Job: prove that a run past its deadline does nothing more, whether or not a process had it in memory when it passed.
// Owns: nothing.
// Invariants: K7 S1 D10 V4; time passes only when a test says so, also while there is no process.

import { signal, workflow } from "@holdfast/core";
import { createWorkflow, MemoryDriver, openWorkflow, realEnvironment, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

const HOUR = 3_600_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** No process is there while time passes. */
async function hoursWithout(host: KvHost, hours: number): Promise<void> {
  host.process.dead = true;
  host.world.time += hours * HOUR;
  await host.crash();
}

describe("a run past its deadline", () => {
  test("K7 that slept while every process was down fails, and no step of it starts", async () => {
    const ran: string[] = [];
    const w = workflow("w", async (ctx) => {
      await ctx.step("book", async () => void ran.push("book"), { rollback: async () => void ran.push("undo book") });
      await ctx.sleep("30m");
      ran.push("code");
      await ctx.step("charge", async () => void ran.push("charge"));
    });
    const host = new KvHost();
    const run = await host.start(w, undefined, { deadline: "1h" });
    await hoursWithout(host, 2);
    await expect(run.result()).rejects.toThrow(/deadline/);
    expect(ran).toEqual(["book", "undo book"]);
    await expect(run.recover()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
  });

  test("K7 whose step was to be tried again, or whose message came, when every process was down, runs neither", async () => {
    const ran: string[] = [];
    const w = workflow({ name: "w", signals: { go: signal() } }, async (ctx) => {
      const trying = ctx.step(
        "try",
        () => {
          ran.push("try");
          throw new Error("no");
        },
        { retry: { initialInterval: "30m" } },
      );
      await ctx.waitForSignal("go");
      ran.push("code");
      await trying;
    });
    const host = new KvHost();
    const run = await host.start(w, undefined, { deadline: "1h" });
    await host.handle("run").signal("go" as never);
    await hoursWithout(host, 2);
    await expect(run.result()).rejects.toThrow(/deadline/);
    expect(ran).toEqual(["try"]);
    const attempts = (await run.history()).turns.at(-1) as { jobs: { type: string }[] };
    expect(attempts.jobs.map(({ type }) => type)).toContain("expire");
  });

  test("K7 without a first turn is not begun", async () => {
    let begun = 0;
    const w = workflow("w", async () => void begun++);
    let now = Date.UTC(2026, 0, 1);
    const options = {
      driver: new MemoryDriver(),
      workflow: w,
      id: "r",
      logger: silent,
      environment: { ...realEnvironment, now: () => now },
    };
    await createWorkflow({ ...options, deadline: "1h" });
    now += 2 * HOUR;
    expect(await runWorkflow(options)).toMatchObject({ status: "failed", error: { code: "HF_DEADLINE_EXCEEDED" } });
    expect([begun, options.driver.alarms.get("r")]).toEqual([0, undefined]);
  });

  test("K7 a deadline that is over is accepted, and fails the run at once", async () => {
    let begun = 0;
    const w = workflow("w", async (ctx) => {
      begun++;
      await ctx.step("s", async () => void begun++);
    });
    for (const deadline of [0, "0s", new Date(0)] as const) {
      const options = { driver: new MemoryDriver(), workflow: w, id: "r", logger: silent };
      expect(await runWorkflow({ ...options, deadline })).toMatchObject({ status: "failed", error: { code: "HF_DEADLINE_EXCEEDED" } });
      expect(await openWorkflow(options).describe()).toMatchObject({ status: "failed", id: "r", workflow: "w" });
      await expect(openWorkflow(options).recover()).rejects.toMatchObject({ code: "HF_NOT_RESUMABLE" });
    }
    expect(begun).toBe(0);
  });

  test("K7 where batches are bounded, more messages than a turn takes come with it: none moves code", async () => {
    let moved = 0;
    const w = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => {
      for (;;) {
        await ctx.waitForSignal("word");
        moved++;
      }
    });
    const host = new KvHost({ maxBatchBytes: 4_000 });
    const run = await host.start(w, undefined, { deadline: "1h" });
    const handle = host.handle("run");
    for (let i = 0; i < 40; i++) await handle.signal("word", "x".repeat(100) as never);
    await hoursWithout(host, 2);
    await expect(run.result()).rejects.toThrow(/deadline/);
    expect(moved).toBe(0);
  });

  test("K7 V4 that is blocked fails, unless it has something to undo", async () => {
    for (const undoable of [false, true]) {
      const undone: string[] = [];
      const make = (name: string) =>
        workflow({ name: "w", signals: { go: signal() } }, async (ctx) => {
          await ctx.step(name, async () => 1, undoable ? { rollback: async () => void undone.push(name) } : {});
          await ctx.waitForSignal("go");
        });
      const host = new KvHost();
      const run = await host.start(make("old"), undefined, { deadline: "1h" });
      host.run(make("new"), "run");
      await run.signal("go" as never);
      expect(await run.status()).toBe("blocked");
      await host.skip("1h");
      expect(await run.status()).toBe(undoable ? "blocked" : "failed");
      if (undoable) {
        host.run(make("old"), "run");
        await run.recover();
        await expect(run.result()).rejects.toThrow(/deadline/);
        expect(undone).toEqual(["old"]);
      }
    }
  });

  test("K7 V4 that broke a rule is woken once more, when its deadline passes, and fails", async () => {
    let posted = 0;
    const w = workflow("w", async (ctx) => {
      await ctx.step("s", async () => 1);
      posted++;
      await new Promise((resolve) => setTimeout(resolve, 1));
    });
    const host = new KvHost();
    const run = await host.start(w, undefined, { deadline: "1h" });
    expect(await run.status()).toBe("blocked");
    await host.skip("59m");
    expect([await run.status(), posted]).toEqual(["blocked", 1]);
    await host.skip("1m");
    expect([await run.status(), posted]).toEqual(["failed", 1]);
  });

  test("K7 S1 D10 an attempt of the run that would come too late is none: it fails as it did, and what it did is undone", async () => {
    const undone: string[] = [];
    const w = workflow({ name: "w", retry: { maxAttempts: 5, initialInterval: "2h", jitter: 0 } }, async (ctx) => {
      await ctx.step("book", async () => "room", { rollback: async (room) => void undone.push(room) });
      throw new Error("on purpose");
    });
    const host = new KvHost();
    const run = await host.start(w, undefined, { deadline: "1h" });
    await expect(run.result()).rejects.toThrow(/on purpose/);
    expect(undone).toEqual(["room"]);
  });
});
