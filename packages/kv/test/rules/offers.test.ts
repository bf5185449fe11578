// Job: prove what this host says and does where it offers less than others, or more.
// Owns: nothing.
// Invariants: V4 (what is missing blocks the run, which goes on once it is there). What all hosts share is in `hostConformance`.

import { activity, LimitExceededError, workflow } from "@holdfast/core";
import { MemoryDriver, type Router, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { KvHost } from "../host.ts";

const ship = workflow("ship", async (ctx) => ctx.sleep("1m"));
const order = workflow("order", async (ctx) => ctx.child(ship, undefined));
const speaker = workflow("speaker", async (ctx) => ctx.signalRun("ear", "word", "hello"));
const resize = activity("resize", async ({ width }: { width: number }) => width * 2);
const image = workflow("image", (ctx) => ctx.activity(resize, { width: 5 }));

describe("what is missing", () => {
  test("V4 without a router it is a clear error, and the run is unharmed", async () => {
    const host = new KvHost({ routed: false });
    for (const [id, code] of [
      ["child", order],
      ["signal", speaker],
    ] as const) {
      const run = await host.start(code, undefined, { id });
      await expect(run.result()).rejects.toThrow(/router/);
      expect(await run.status()).toBe("blocked");
    }
  });

  test("V4 D6 a transaction is a clear error: there is nothing to share it with", async () => {
    const host = new KvHost();
    const run = await host.start(workflow("t", (ctx) => ctx.transaction("t", async () => 1)));
    await expect(run.result()).rejects.toThrow(/use ctx.step/);
  });

  test("V4 an activity that is not passed blocks the run", async () => {
    const host = new KvHost();
    const run = await host.start(image);
    await expect(run.result()).rejects.toThrow(/activities: \[resize\]/);
    expect(await run.status()).toBe("blocked");
  });

  test("V2 a run of another version is blocked, and says which", async () => {
    const make = (version: string) => workflow({ name: "w", version }, async (ctx) => ctx.waitForSignal("go" as never));
    const host = new KvHost();
    await host.start(make("1"));
    const wrong = host.run(make("2"), "run");
    await wrong.signal("go");
    await expect(wrong.result()).rejects.toThrow(/version 1/);
  });
});

describe("a router that throws", () => {
  const routerOf = (signal: Router["signal"]): Router => ({
    start: async () => "started",
    signal,
    cancel: async () => "sent",
    terminate: async () => "sent",
    ended: async () => {},
  });

  test("M12 what trying again can't fix is an answer: the operation fails with it", async () => {
    const router = routerOf(async () => {
      throw new LimitExceededError({ limit: "maxBatchBytes", actual: 2, max: 1, what: "a signal" });
    });
    const result = await runWorkflow({ driver: new MemoryDriver(), workflow: speaker, id: "r", router });
    expect(result).toMatchObject({ status: "failed", error: { code: "HF_LIMIT_EXCEEDED" } });
  });

  test("D8 what may be is tried again, after a wait", async () => {
    let calls = 0;
    const router = routerOf(async () => {
      if (++calls === 1) throw new Error("no connection");
      return "sent";
    });
    const driver = new MemoryDriver();
    const handle = runWorkflow({ driver, workflow: speaker, id: "r", router, mode: "live" });
    await expect.poll(() => calls).toBe(1);
    await handle.recover(); // now, not later
    expect(await handle.result()).toEqual({ status: "completed", output: undefined });
    expect(calls).toBe(2);
  });
});

describe("what is more", () => {
  test("D8 recover tries at once what waits for its next attempt", async () => {
    const host = new KvHost();
    let attempts = 0;
    const waits = workflow("waits", (ctx) =>
      ctx.step(
        "try",
        () => {
          if (++attempts === 1) throw new Error("no");
          return attempts;
        },
        { retry: { initialInterval: "1d" } },
      ),
    );
    const run = await host.start(waits);
    expect(await run.status()).toBe("sleeping");
    await run.recover();
    expect(await run.result()).toBe(2);
  });
});
