// Job: prove what `runWorkflow` and handles promise: modes, results, one executor a namespace, live runs.
// Owns: nothing.
// Invariants: real time where it must be, in milliseconds, and always by waiting for what is to come.

import { Receive, replay, signal, update, workflow } from "@holdfast/core";
import {
  createChild,
  createWorkflow,
  type EngineDriver,
  jsonCodec,
  MemoryDriver,
  openWorkflow,
  type RunResult,
  realEnvironment,
  runWorkflow,
} from "@holdfast/kv";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const never = () => new Promise<never>(() => {});

const chat = workflow(
  {
    name: "chat",
    signals: { say: signal<string>(), bye: signal() },
    updates: { ask: update<string, string>() },
    queries: { said: (state: string[] | undefined) => state ?? [] },
  },
  async (ctx) => {
    const { state } = await ctx.receive([] as string[], {
      signals: {
        say(word, said, handler) {
          handler.publishState([...said, word]);
          return Receive.noreply([...said, word]);
        },
        bye: (_, said) => Receive.stop(said),
      },
      updates: { ask: (question, said) => Receive.reply(`${question}? ${said.length}`, said) },
    });
    return state;
  },
);

describe("yield", () => {
  test("P1 P11 each way of coming to rest is a result", async () => {
    const results: RunResult[] = [];
    const run = async (name: string, fn: Parameters<typeof workflow>[1], options: object = {}) => {
      const driver = new MemoryDriver();
      const result = await runWorkflow({ driver, workflow: workflow(name, fn), id: name, logger: silent, ...options } as never);
      results.push(result as unknown as RunResult);
    };
    await run("completed", (async () => 42) as never);
    await run("failed", async () => {
      throw new TypeError("bad");
    });
    await run("sleeping", async (ctx) => ctx.sleep("1h"));
    await run("waiting", (async (ctx: { waitForSignal(name: string): Promise<unknown> }) => ctx.waitForSignal("word")) as never);
    await run("blocked", async () => void (await new Promise((resolve) => setTimeout(resolve, 1))));
    await run("continued", (async (ctx: { continueAsNew(input: unknown): unknown }) => ctx.continueAsNew({ n: 2 })) as never);
    expect(results).toEqual([
      { status: "completed", output: 42 },
      { status: "failed", error: expect.objectContaining({ name: "TypeError", message: "bad" }) },
      { status: "sleeping", wakeAt: expect.any(Number), waitingFor: [expect.stringContaining("sleep")] },
      { status: "sleeping", waitingFor: ["signal word"] },
      { status: "blocked", error: expect.objectContaining({ name: "ForeignAwaitError" }) },
      { status: "continued", input: { n: 2 } },
    ]);
  });

  test("K3 a canceled run says so, with what its root returned", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", async (ctx) => {
      try {
        await ctx.sleep("1h");
        return "slept";
      } catch {
        return "cleaned up";
      }
    });
    await runWorkflow({ driver, workflow: w, id: "r" });
    const handle = openWorkflow({ driver, workflow: w, id: "r" });
    await handle.cancel("no more");
    expect(await handle.wake()).toEqual({ status: "canceled", output: "cleaned up", reason: "no more" });
    expect(await handle.result()).toEqual({ status: "canceled", output: "cleaned up", reason: "no more" });
  });

  test("K8 a time limit of more than 24.8 days, the longest timer there is, is kept too", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    vi.resetModules(); // the environment takes the timers that are there when it is loaded
    const { realEnvironment: environment } = await import("../../src/environment.ts");
    const day = 86_400_000;
    const fired: string[] = [];
    environment.after(60 * day, () => fired.push("60 days"));
    environment.after(61 * day, () => fired.push("canceled")).cancel();
    const canceledLater = environment.after(61 * day, () => fired.push("canceled later"));
    vi.advanceTimersByTime(60 * day - 1);
    expect(fired).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(fired).toEqual(["60 days"]);
    canceledLater.cancel();
    vi.advanceTimersByTime(2 * day);
    expect(fired).toEqual(["60 days"]);
  });

  test("K9 a run that has not had its first turn is canceled without one", async () => {
    const driver = new MemoryDriver();
    let turns = 0;
    const w = workflow("w", async (ctx, n: number) => {
      turns++;
      return n > 0 ? ctx.continueAsNew(n - 1) : "end";
    });
    expect(await runWorkflow({ driver, workflow: w, id: "r", input: 1 })).toEqual({ status: "continued", input: 0 });
    const handle = openWorkflow({ driver, workflow: w, id: "r" });
    expect((await handle.describe()).status).toBe("pending");
    await handle.cancel("changed my mind");
    expect(await handle.wake()).toEqual({ status: "canceled", reason: "changed my mind" });
    expect(turns).toBe(1);
  });

  test("Y5 the history of a run without a first turn says whose it is, and replays", async () => {
    const w = workflow({ name: "w", version: "3" }, async (ctx, n: number) => (n < 2 ? ctx.continueAsNew(n + 1) : n));
    const options = { driver: new MemoryDriver(), workflow: w, id: "r", logger: silent };
    const handle = await createWorkflow({ ...options, input: 1 });
    const created = await handle.history();
    expect(created).toMatchObject({ run: { id: "r", workflow: "w", version: "3", input: 1, status: "pending" }, turns: [] });
    await replay(w, created);
    await runWorkflow({ ...options, input: 1 });
    const continued = await handle.history();
    expect(continued).toMatchObject({ run: { id: "r", workflow: "w", version: "3", input: 2, status: "pending" }, turns: [] });
    await replay(w, continued);
    const other = { ...options, driver: new MemoryDriver() };
    await runWorkflow({ ...other, input: 1, deadline: 0 });
    expect(await openWorkflow(other).history()).toMatchObject({ run: { id: "r", workflow: "w", input: 1, status: "failed" }, turns: [] });
  });

  test("P10 the input of a start counts once; the next execution has its own", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", async (ctx, n: number) => (n < 2 ? ctx.continueAsNew(n + 1) : n));
    expect(await runWorkflow({ driver, workflow: w, id: "r", input: 0 })).toMatchObject({ status: "continued", input: 1 });
    expect(await runWorkflow({ driver, workflow: w, id: "r", input: 99 })).toMatchObject({ status: "continued", input: 2 });
    expect((await openWorkflow({ driver, workflow: w, id: "r" }).describe()).execution).toBe(3);
    expect(await runWorkflow({ driver, workflow: w, id: "r", input: 99 })).toEqual({ status: "completed", output: 2 });
  });

  test("P7 P10 D10 no turn is before the one before it, though the clock was set back: of the next execution, and of a resume", async () => {
    const driver = new MemoryDriver();
    let now = 5_000;
    const environment = { ...realEnvironment, now: () => now };
    let isBroken = true;
    const w = workflow("w", async (ctx, times: readonly number[]) => {
      const all = [...times, ctx.now().getTime()];
      if (all.length < 2) return ctx.continueAsNew(all);
      await ctx.step("work", () => undefined);
      if (isBroken) throw new Error("broken");
      return [...all, ctx.now().getTime()];
    });
    const once = { driver, workflow: w, id: "r", environment, logger: silent };
    expect(await runWorkflow({ ...once, input: [] })).toEqual({ status: "continued", input: [5_000] });
    now = 1_000;
    expect((await runWorkflow({ ...once, input: [] })).status).toBe("failed");
    isBroken = false;
    const handle = openWorkflow(once);
    await handle.recover();
    expect(await handle.wake()).toEqual({ status: "completed", output: [5_000, 5_000, 5_000] });
  });

  test("an input that the schema refuses, a bad id and a bad mode are errors before anything is written", async () => {
    const driver = new MemoryDriver();
    const typed = workflow({ name: "typed", input: z.object({ n: z.number() }) }, async (_, { n }) => n);
    await expect(runWorkflow({ driver, workflow: typed, id: "r", input: { n: "x" } as never })).rejects.toMatchObject({
      code: "HF_INVALID_INPUT",
    });
    expect(() => runWorkflow({ driver, workflow: typed, id: "", input: { n: 1 } })).toThrow(/An id must have/);
    expect(() => runWorkflow({ driver, workflow: typed, id: "r", input: { n: 1 }, mode: "sideways" as never })).toThrow(/mode must be/);
    expect(() => runWorkflow({ driver: {} as never, workflow: typed, id: "r", input: { n: 1 } })).toThrow(/EngineDriver/);
    expect(driver.namespace.entries.size).toBe(0);
    await expect(openWorkflow({ driver, workflow: typed, id: "r" }).wake()).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
  });
});

test("M8 V4 a run whose first turn is blocked is there with all it was started with", async () => {
  const driver = new MemoryDriver();
  const wrong = workflow({ name: "w", signals: { word: signal<string>() } }, async () => void (await new Promise(setImmediate)));
  const start = { driver, id: "r", signals: [{ name: "word" as const, payload: "hello" }], attributes: { city: "Ulm" }, logger: silent };
  expect(await runWorkflow({ ...start, workflow: wrong })).toMatchObject({ status: "blocked" });
  expect((await openWorkflow({ driver, workflow: wrong, id: "r" }).describe()).attributes).toEqual({ city: "Ulm" });
  const fixed = workflow({ name: "w", signals: { word: signal<string>() } }, async (ctx) => ctx.waitForSignal("word"));
  expect(await runWorkflow({ driver, workflow: fixed, id: "r" })).toEqual({ status: "completed", output: "hello" });
});

describe("one executor a namespace", () => {
  test("H1 a second start is refused while the first is live, in both modes, and possible after it", async () => {
    const driver = new MemoryDriver();
    const handle = runWorkflow({ driver, workflow: chat, id: "r", mode: "live" });
    await handle.signal("say", "hello");
    await expect(runWorkflow({ driver, workflow: chat, id: "r" })).rejects.toMatchObject({ code: "HF_KV_RUN_LIVE" });
    expect(() => runWorkflow({ driver, workflow: chat, id: "r", mode: "live" })).toThrow(
      expect.objectContaining({ code: "HF_KV_RUN_LIVE" }),
    );
    await handle.evict();
    expect(await runWorkflow({ driver, workflow: chat, id: "r" })).toMatchObject({ status: "sleeping" });
  });
  test("H1 wake joins a session that is under way", async () => {
    const driver = new MemoryDriver();
    let finish: (value: string) => void = () => {};
    const begun = new Promise<void>((resolve) => {
      finish = () => resolve();
    });
    let end: (value: string) => void = () => {};
    const w = workflow("w", (ctx) =>
      ctx.step("s", () => {
        finish("");
        return new Promise<string>((resolve) => {
          end = resolve;
        });
      }),
    );
    const running = runWorkflow({ driver, workflow: w, id: "r" });
    await begun;
    const woken = openWorkflow({ driver, workflow: w, id: "r" }).wake();
    end("done");
    expect(await Promise.all([running, woken])).toEqual([
      { status: "completed", output: "done" },
      { status: "completed", output: "done" },
    ]);
  });
});

test("H1 M10 of several that send at once to a run that is not being run, one runs it and all have their answers", async () => {
  const driver = new MemoryDriver();
  await runWorkflow({ driver, workflow: chat, id: "r" });
  const asked = Array.from({ length: 20 }, (_, i) => openWorkflow({ driver, workflow: chat, id: "r" }).update("ask", `${i}`));
  const woken = Array.from({ length: 5 }, () => openWorkflow({ driver, workflow: chat, id: "r" }).wake());
  expect(await Promise.all(asked)).toEqual(asked.map((_, i) => `${i}? 0`));
  for (const result of await Promise.all(woken)) expect(result).toMatchObject({ status: "sleeping" });
});

describe("live", () => {
  test("M10 it stays, and is woken by messages of any handle on the same driver", async () => {
    const driver = new MemoryDriver();
    const handle = runWorkflow({ driver, workflow: chat, id: "r", mode: "live" });
    const other = openWorkflow({ driver, workflow: chat, id: "r" });
    await other.signal("say", "one");
    await handle.signal("say", "two");
    expect(await other.update("ask", "how many")).toBe("how many? 2");
    expect(await other.query("said")).toEqual(["one", "two"]);
    expect(await handle.state()).toEqual(["one", "two"]);
    await other.signal("bye");
    expect(await handle.result()).toEqual({ status: "completed", output: ["one", "two"] });
    expect(await other.result()).toEqual({ status: "completed", output: ["one", "two"] });
    await expect(handle.signal("say", "three")).rejects.toMatchObject({ code: "HF_RUN_CLOSED" });
  });

  test("D9 it hears of messages that another driver of the namespace announces", async () => {
    const driver = new MemoryDriver();
    const handle = runWorkflow({ driver, workflow: chat, id: "r", mode: "live" });
    await handle.signal("say", "first"); // it is there
    // As another process would: a driver of its own.
    const elsewhere = new MemoryDriver({ namespace: driver.namespace, alarms: driver.alarms });
    const sender = openWorkflow({ driver: elsewhere, workflow: chat, id: "r" });
    await sender.signal("say", "from afar");
    await sender.signal("bye");
    expect(await handle.result()).toEqual({ status: "completed", output: ["first", "from afar"] });
  });

  test("K8 its timers fire by themselves", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", async (ctx) => {
      const start = ctx.now().getTime();
      await ctx.sleep(20);
      return ctx.now().getTime() - start;
    });
    const result = await runWorkflow({ driver, workflow: w, id: "r", mode: "live" }).result();
    expect(result.status === "completed" && result.output).toBeGreaterThanOrEqual(20);
  });

  test("P10 it goes on with the next execution by itself", async () => {
    const driver = new MemoryDriver();
    const w = workflow({ name: "w", signals: { go: signal<number>() } }, async (ctx, sum: number) => {
      const n = await ctx.waitForSignal("go");
      return n === 0 ? sum : ctx.continueAsNew(sum + n);
    });
    const handle = runWorkflow({ driver, workflow: w, id: "r", input: 0, mode: "live" });
    for (const n of [1, 2, 3, 0]) await handle.signal("go", n);
    expect(await handle.result()).toEqual({ status: "completed", output: 6 });
  });

  test("D10 it waits for the next attempt of the run by itself", async () => {
    const driver = new MemoryDriver();
    let tries = 0;
    const w = workflow({ name: "w", retry: { maxAttempts: 3, initialInterval: 5, jitter: 0 } }, async () => {
      if (++tries < 3) throw new Error("no");
      return tries;
    });
    expect(await runWorkflow({ driver, workflow: w, id: "r", mode: "live" }).result()).toEqual({ status: "completed", output: 3 });
  });

  test("X10 evict ends it here; what is left to do has an alarm, and goes on with wake", async () => {
    const driver = new MemoryDriver();
    let first = true;
    let tell: () => void = () => {};
    const told = new Promise<void>((resolve) => {
      tell = resolve;
    });
    let begin: () => void = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const w = workflow("w", (ctx) =>
      ctx.step("s", ({ signal: aborts }) => {
        if (!first) return "second time";
        first = false;
        aborts.addEventListener("abort", tell);
        begin();
        return never();
      }),
    );
    const handle = runWorkflow({ driver, workflow: w, id: "r", mode: "live" });
    await begun;
    await handle.evict();
    await told;
    expect(await handle.result()).toMatchObject({ status: "sleeping", wakeAt: expect.any(Number) });
    expect(driver.alarms.get("r")).toBeLessThanOrEqual(Date.now());
    expect(await handle.wake()).toEqual({ status: "completed", output: "second time" });
    expect(await handle.result()).toEqual({ status: "completed", output: "second time" });
  });

  test("V4 a live run that is blocked ends here, and says why", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", async () => void (await new Promise((resolve) => setTimeout(resolve, 1))));
    const handle = runWorkflow({ driver, workflow: w, id: "r", mode: "live", logger: silent });
    expect(await handle.result()).toMatchObject({ status: "blocked", error: { code: "HF_FOREIGN_AWAIT" } });
    expect((await handle.describe()).waitingFor).toEqual(["code that can advance it (ForeignAwaitError)"]);
  });

  test("K6 terminate ends it at once, running no workflow code", async () => {
    const driver = new MemoryDriver();
    const log: string[] = [];
    const w = workflow("w", async (ctx) => {
      try {
        await ctx.sleep("1h");
      } finally {
        log.push("code");
      }
    });
    const handle = runWorkflow({ driver, workflow: w, id: "r", mode: "live" });
    await handle.terminate("now");
    expect(await handle.result()).toMatchObject({ status: "terminated", error: { code: "HF_RUN_TERMINATED" } });
    expect(log).toEqual([]);
    expect((await handle.history()).run.status).toBe("terminated");
  });

  test("Y5 history() of a run without a first turn says of which run it is, and replays", async () => {
    const driver = new MemoryDriver();
    const w = workflow({ name: "w", version: "2" }, async (_ctx, input: { n: number }) => input.n);
    const handle = await createWorkflow({ driver, workflow: w, id: "r", input: { n: 1 } });
    const history = JSON.parse(JSON.stringify(await handle.history()));
    const run = { id: "r", workflow: "w", version: "2", input: { n: 1 }, status: "pending" };
    expect(history).toEqual({ format: "holdfast-history/1", run, turns: [] });
    await replay(w, history);
  });

  test("X11 an operation that fails while no code awaits it yet does not end the process", async () => {
    const driver = new MemoryDriver();
    const w = workflow("w", async (ctx) => {
      const helper = async () => {
        await ctx.step("fails", () => Promise.reject(new Error("early")), { retry: { maxAttempts: 1 } });
      };
      const early = helper();
      await ctx.sleep(10);
      try {
        await early;
        return "not reached";
      } catch (error) {
        return ((error as Error).cause as Error).message;
      }
    });
    expect(await runWorkflow({ driver, workflow: w, id: "r", mode: "live" }).result()).toEqual({ status: "completed", output: "early" });
  });
});

test("P11 describe tells how a run stands", async () => {
  const driver = new MemoryDriver();
  const w = workflow({ name: "w", version: "3", deadline: "1d" }, async (ctx) => {
    ctx.setAttributes({ city: "Ulm", gone: null });
    await ctx.sleep("1h");
  });
  await runWorkflow({ driver, workflow: w, id: "r", attributes: { gone: 1, kept: true } });
  const described = await openWorkflow({ driver, workflow: w, id: "r" }).describe();
  expect(described).toMatchObject({
    id: "r",
    workflow: "w",
    version: "3",
    status: "sleeping",
    execution: 1,
    attempt: 1,
    attributes: { city: "Ulm", kept: true },
  });
  expect(described.deadlineAt?.getTime()).toBe(described.createdAt.getTime() + 86_400_000);
  expect(described.wakeAt).toBeInstanceOf(Date);
});

test("M10 an update that gets no answer in time says so; the answer may still come", async () => {
  const driver = new MemoryDriver();
  const w = workflow({ name: "w", updates: { ask: update<void, string>() }, signals: { go: signal() } }, async (ctx) => {
    await ctx.receive(0, {
      updates: {
        ask: async (_, state, handler) => {
          await handler.waitForSignal("go");
          return Receive.reply("yes", state);
        },
      },
    });
  });
  const handle = runWorkflow({ driver, workflow: w, id: "r", mode: "live" });
  await expect(handle.update("ask", undefined, { idempotencyKey: "k", timeout: 5 })).rejects.toMatchObject({
    code: "HF_WAIT_TIMEOUT",
    message: expect.stringMatching(/ The run is \w+( and waits for: receive(, signal receive\/~h0\/go)?)?\. It may still arrive/),
  });
  await expect.poll(async () => (await handle.describe()).status).toBe("sleeping");
  await expect(handle.update("ask", undefined, { idempotencyKey: "k", timeout: 5 })).rejects.toThrow(/waits for: receive, signal .*go\./);
  const again = handle.update("ask", undefined, { idempotencyKey: "k" });
  await handle.signal("go");
  expect(await again).toBe("yes");
  await handle.evict();
});

/** A driver whose next answer to a call comes late: what it says is as of the time of the call. */
class Late extends MemoryDriver {
  #gate: Promise<void> | undefined;
  #open: () => void = () => {};
  #onReached: () => void = () => {};
  hold(): { readonly reached: Promise<void>; release(): void } {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
    const reached = new Promise<void>((resolve) => {
      this.#onReached = resolve;
    });
    return { reached, release: () => this.#open() };
  }
  async #late<T>(answer: T): Promise<T> {
    const gate = this.#gate;
    this.#gate = undefined;
    if (gate !== undefined) this.#onReached();
    await gate;
    return answer;
  }
  override async get(key: Uint8Array) {
    return this.#late(await super.get(key));
  }
  override async batch(writes: Parameters<MemoryDriver["batch"]>[0]) {
    return this.#late(await super.batch(writes));
  }
}

test("M10 an update whose outcome comes with the end of the run has it, though its second sender finds the run closed", async () => {
  const w = workflow({ name: "w", updates: { ask: update<void, string>() } }, async (ctx) => {
    await ctx.receive(0, { updates: { ask: (_, state) => Receive.stop("yes", state) } });
  });
  const driver = new MemoryDriver();
  await runWorkflow({ driver, workflow: w, id: "r" });
  const late = new Late({ namespace: driver.namespace, alarms: driver.alarms });
  const { reached, release } = late.hold();
  const second = openWorkflow({ driver: late, workflow: w, id: "r" }).update("ask", undefined, { idempotencyKey: "k" });
  await reached; // it has found no outcome yet
  expect(await openWorkflow({ driver, workflow: w, id: "r" }).update("ask", undefined, { idempotencyKey: "k" })).toBe("yes");
  release();
  expect(await second).toBe("yes");
});

test("D10 a recover that comes while the run that failed is still being put away is not lost", async () => {
  let isMended = false;
  const driver = new Late();
  let gate: ReturnType<Late["hold"]> | undefined;
  const w = workflow("w", (ctx) =>
    ctx.step(
      "s",
      async () => {
        if (isMended) return "fixed";
        gate = driver.hold(); // the next batch is the last: it is written, and the session hears of it late
        throw new Error("no");
      },
      { retry: { maxAttempts: 1 } },
    ),
  );
  const failed = runWorkflow({ driver, workflow: w, id: "r" });
  await expect.poll(() => gate).toBeDefined();
  await gate?.reached;
  isMended = true;
  const handle = openWorkflow({ driver, workflow: w, id: "r" });
  await handle.recover();
  gate?.release();
  expect(await failed).toMatchObject({ status: "failed" });
  expect(driver.alarms.get("r")).toBeLessThanOrEqual(Date.now()); // the process that watches it wakes the run
  expect(await handle.wake()).toEqual({ status: "completed", output: "fixed" });
});

describe("creating without running", () => {
  const greet = workflow(
    { name: "greet", signals: { word: signal<string>() } },
    async (ctx, name: string) => `${await ctx.waitForSignal("word")}, ${name}`,
  );

  test("M8 H3 it is durable and due when it is acknowledged, and has its signals in the first turn", async () => {
    const driver = new MemoryDriver();
    const handle = await createWorkflow({
      driver,
      workflow: greet,
      id: "r",
      input: "Ada",
      signals: [{ name: "word", payload: "hello" }],
      attributes: { a: 1 },
    });
    expect(await handle.describe()).toMatchObject({ status: "pending", attributes: { a: 1 } });
    expect(driver.alarms.due(Date.now())).toEqual(["r"]);
    const again = new MemoryDriver({ namespace: driver.namespace, alarms: driver.alarms }); // another process
    expect(await openWorkflow({ driver: again, workflow: greet, id: "r" }).wake()).toEqual({ status: "completed", output: "hello, Ada" });
    expect((await openWorkflow({ driver: again, workflow: greet, id: "r" }).history()).turns).toHaveLength(1);
  });

  test("H1 a run that is there, running or not, is not created again", async () => {
    const driver = new MemoryDriver();
    const create = () => createWorkflow({ driver, workflow: greet, id: "r", input: "Ada" });
    const both = await Promise.allSettled([create(), create()]);
    expect(both.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    const live = runWorkflow({ driver, workflow: greet, id: "r", input: "Eve", mode: "live" });
    await expect(create()).rejects.toMatchObject({ code: "HF_RUN_ALREADY_EXISTS" });
    await live.signal("word", "hi");
    expect(await live.result()).toEqual({ status: "completed", output: "hi, Ada" });
    await expect(create()).rejects.toMatchObject({ code: "HF_RUN_ALREADY_EXISTS" });
  });

  test("D9 H3 a host that wakes at once each run that has an alarm finds the run that is just being created", async () => {
    const woken: Promise<unknown>[] = [];
    /** Its scheduler does not wait for anything. */
    class Eager extends MemoryDriver {
      override async setAlarm(runId: string, at: number) {
        await super.setAlarm(runId, at);
        woken.push(openWorkflow({ driver: this as EngineDriver, workflow: greet, id: runId }).wake());
      }
    }
    const driver = new Eager();
    const handle = await createWorkflow({ driver, workflow: greet, id: "r", input: "Ada" });
    expect(await woken[0]).toMatchObject({ status: "sleeping" });
    await handle.signal("word", "hello");
    await Promise.all(woken);
    expect(await handle.result()).toEqual({ status: "completed", output: "hello, Ada" });
    expect(driver.alarms.get("r")).toBeUndefined();
  });

  test("H3 an alarm of a run that was never created is cleared by the wake-up that finds none", async () => {
    const driver = new MemoryDriver();
    await driver.setAlarm("r", 0);
    await expect(openWorkflow({ driver, workflow: greet, id: "r" }).wake()).rejects.toMatchObject({ code: "HF_RUN_NOT_FOUND" });
    expect(driver.alarms.get("r")).toBeUndefined();
  });

  test("K6 a child that is asked for again is found; another run of its id is a conflict", async () => {
    const driver = new MemoryDriver();
    const parent = { runId: "p", execution: 1, seq: 4 };
    const child = {
      id: "c",
      workflow: "greet",
      version: undefined,
      input: jsonCodec.encode("Ada"),
      parent,
      deadline: 1_000,
      deadlineAt: undefined,
      retry: undefined,
      queue: undefined,
    };
    expect(await createChild(child, { driver, workflow: greet })).toBe("started");
    expect(await createChild(child, { driver, workflow: greet })).toBe("started");
    expect(await createChild({ ...child, parent: { ...parent, seq: 5 } }, { driver, workflow: greet })).toBe("conflict");
    const { deadlineAt, createdAt, parent: kept } = await openWorkflow({ driver, workflow: greet, id: "c" }).describe();
    expect([(deadlineAt?.getTime() ?? 0) - createdAt.getTime(), kept]).toEqual([1_000, parent]);
  });
});
