// P10, W2, M3 and what bad input gets: starting runs.

import {
  Holdfast,
  InvalidInputError,
  LimitExceededError,
  Receive,
  RunAlreadyExistsError,
  type StartOptions,
  signal,
  UnserializableValueError,
  update,
  type WorkflowContext,
  workflow,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { MemoryStore } from "../../src/store/memory/store.ts";
import { enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

/** The longest duration there is: 10,000 years. */
const LONGEST = 10_000 * 365.25 * 86_400_000;
const echo = workflow("echo", async (_ctx, input: unknown) => input);

describe.each(STORES)("starting on %s", (store) => {
  const engines = enginesOn(store);

  test("P10 an id is taken once; without one, ids sort by time", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const run = await engine.start(echo, 1, { id: "a" });
    await expect(engine.start(echo, 2, { id: "a" })).rejects.toThrow(RunAlreadyExistsError);
    expect(await run.result()).toBe(1);
    await expect(engine.start(echo, 2, { id: "a" })).rejects.toThrow(RunAlreadyExistsError);
    const first = await engine.start(echo, 1);
    await new Promise((resolve) => setTimeout(resolve, 2));
    const second = await engine.start(echo, 1);
    expect(first.id < second.id).toBe(true);
  });

  test("P10 a refused start does no harm to the run that has the id", async () => {
    const engine = await engines.open();
    const held = new Gate();
    const wait = workflow("wait", async (ctx) => {
      await ctx.step("hold", () => held.passed);
      return ctx.waitForSignal("go");
    });
    await engine.worker({ workflows: [wait], lease: "3s" });
    const run = await engine.start(wait, undefined, { id: "a" });
    await Promise.all([1, 2, 3].map(() => expect(engine.start(wait, undefined, { id: "a" })).rejects.toThrow(RunAlreadyExistsError)));
    const { availableAt } = await run.describe();
    // Its lease is renewed as before, and messages reach it.
    await until(async () => ((await run.describe()).availableAt?.getTime() ?? 0) > (availableAt?.getTime() ?? 0));
    await run.signal("go", "on");
    held.open();
    expect(await run.result()).toBe("on");
    const [operation] = await run.operations();
    expect(operation?.attempts).toHaveLength(1);
  });

  test("P10 two starts at once under one id: one run", async () => {
    const [first, second] = [await engines.open(), await engines.open()];
    await first.worker({ workflows: [echo] });
    const starts = await Promise.allSettled([first, first, second, second].map((engine) => engine.start(echo, 1, { id: "a" })));
    expect(starts.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected", "rejected"]);
    expect((await first.list()).runs).toHaveLength(1);
  });

  test("P10 use-existing finds the run, open or closed", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const options: StartOptions = { id: "a", onConflict: "use-existing" };
    const run = await engine.start(echo, 1, options);
    expect(await (await engine.start(echo, 2, options)).result()).toBe(1);
    await run.result();
    expect(await (await engine.start(echo, 3, options)).result()).toBe(1);
  });

  test("P10 restart-if-closed begins the next execution, with an empty history", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const options: StartOptions = { id: "a", onConflict: "restart-if-closed" };
    const run = await engine.start(echo, 1, options);
    expect(await run.result()).toBe(1);
    await engine.start(echo, 2, options);
    await until(async () => (await run.describe()).execution === 2 && (await run.describe()).status === "completed");
    expect(await run.result()).toBe(2);
    expect(await run.describe()).toMatchObject({ execution: 2, input: 2, output: 2 });
    expect((await run.history()).turns).toHaveLength(1);
  });

  test("P10 continueAsNew: a new execution with what was not consumed; messages and results go to the newest", async () => {
    const engine = await engines.open();
    const counter = workflow({ name: "counter", signals: { item: signal<number>() } }, async (ctx, sum: number) => {
      const item = await ctx.waitForSignal("item");
      return sum + item >= 6 ? sum + item : ctx.continueAsNew(sum + item);
    });
    await engine.worker({ workflows: [counter] });
    const run = await engine.start(counter, 0, { attributes: { kind: "sum" } });
    for (const item of [1, 2, 3]) await run.signal("item", item);
    expect(await run.result()).toBe(6);
    expect(await run.describe()).toMatchObject({ execution: 3, input: 3, output: 6, status: "completed", attributes: { kind: "sum" } });
  });

  test("P10 updates of a chain go to its newest execution, and cancel ends it", async () => {
    const engine = await engines.open();
    const entity = workflow({ name: "entity", updates: { next: update<void, number>() } }, async (ctx, n: number) => {
      await ctx.receive(n, { updates: { next: (_, state) => Receive.stop(state + 1, state + 1) } });
      return ctx.continueAsNew(n + 1);
    });
    await engine.worker({ workflows: [entity] });
    const run = await engine.start(entity, 0);
    expect(await run.update("next")).toBe(1);
    expect(
      await until(async () => {
        try {
          return await run.update("next");
        } catch (error) {
          if ((error as Error).name === "UpdateRejectedError") return undefined; // between two executions
          throw error;
        }
      }),
    ).toBe(2);
    await run.cancel();
    expect((await errorOf(run.result())).name).toBe("CanceledError");
  });

  test("M3 a start that is repeated under its key finds the run of the first", async () => {
    const engine = await engines.open();
    const client = await engines.open();
    await engine.worker({ workflows: [echo] });
    const first = await engine.start(echo, 1, { idempotencyKey: "k" });
    const again = await Promise.all([engine, client].map((one) => one.start(echo, 2, { idempotencyKey: "k" })));
    expect(again.map(({ id }) => id)).toEqual([first.id, first.id]);
    expect(await again[0]?.result()).toBe(1);
    expect((await engine.list()).runs).toHaveLength(1);
    const many = await engine.startMany(echo, [{ input: 3, idempotencyKey: "k" }, { input: 4 }]);
    expect(await Promise.all(many.map((run) => run.result()))).toEqual([1, 4]);
  });

  test("W2 higher priority goes first, then who became available first", async () => {
    const engine = await engines.open();
    const order: string[] = [];
    const note = workflow("note", async (ctx, name: string) => ctx.step("note", () => void order.push(name)));
    for (const [name, priority] of [["a", 0], ["b", -1], ["c", 5], ["d", 0], ["e", 5]] as const) await engine.start(note, name, { priority }); // biome-ignore format: one line
    await engine.worker({ workflows: [note], concurrency: 1 });
    await until(async () => (await engine.count()).completed === 5);
    expect(order).toEqual(["c", "e", "a", "d", "b"]);
  });

  test("K8 delay and startAt: not before their time, and signals don't hurry them", async () => {
    const engine = await engines.open({ skips: true });
    const timed = workflow("timed", async (ctx) => ctx.now().getTime());
    await engine.worker({ workflows: [timed] });
    const before = engines.now();
    const delayed = await engine.start(timed, undefined, { delay: "1h", signals: [{ name: "hurry" }] });
    const at = new Date(engines.now() + 3_600_000);
    const dated = await engine.start(timed, undefined, { startAt: at });
    await dated.signal("hurry");
    const never = await engine.start(timed, undefined, { delay: "1d" });
    await (await engine.start(timed, undefined)).result(); // the worker has looked since
    for (const run of [delayed, dated, never]) expect((await run.describe()).status).toBe("pending");
    engines.skip(2 * 3_600_000);
    await engine.worker({ workflows: [timed] }); // it looks at once
    expect(await dated.result()).toBeGreaterThanOrEqual(at.getTime());
    expect(await delayed.result()).toBeGreaterThanOrEqual(before + 3_600_000);
    expect((await never.describe()).status).toBe("pending");
  });

  test("startMany starts 1,000 runs, in order", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const runs = await engine.startMany(
      echo,
      Array.from({ length: 1_000 }, (_, n) => ({ input: n, id: `n${n}` })),
    );
    expect(runs.map(({ id }) => id)).toEqual(Array.from({ length: 1_000 }, (_, n) => `n${n}`));
    const results = await Promise.all(runs.map((run) => run.result()));
    expect(results).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
    expect((await engine.count({ workflow: "echo" })).completed).toBe(1_000);
  });

  test("a workflow may be started by its name, here or where no code of it is", async () => {
    const client = await engines.open();
    const run = await client.start("echo", { by: "name" });
    const engine = await engines.open();
    await engine.worker({ workflows: { echo, notAWorkflow: 1 } });
    expect(await run.result()).toEqual({ by: "name" });
  });
});

describe.each(STORES)("bad input on %s", (store) => {
  const engines = enginesOn(store);

  test.each<[string, StartOptions]>([
    ["an empty id", { id: "" }],
    ["an id that is too long", { id: "x".repeat(513) }],
    ["an id with control characters", { id: "a\nb" }],
    ["an id that is not a string", { id: 5 as never }],
    ["a malformed duration", { delay: "soon" as never }],
    ["a negative delay", { delay: -5 }],
    ["a malformed deadline", { deadline: "1y" as never }],
    ["an invalid date", { startAt: new Date(Number.NaN) }],
    ["a date that is none", { startAt: "tomorrow" as never }],
    ["a broken priority", { priority: 1.5 }],
    ["a retry policy that makes no sense", { retry: { maxAttempts: 0 } }],
    ["an unknown way of conflicts", { onConflict: "overwrite" as never }],
    ["an attribute that is not a plain value", { attributes: { a: {} as never } }],
    ["an attribute that is not a number", { attributes: { a: Number.NaN } }],
    ["an attribute without end", { attributes: { a: Number.POSITIVE_INFINITY } }],
    ["attributes that are none", { attributes: null as never }],
    ["an empty queue", { queue: "" }],
    ["a queue that is not a string", { queue: 7 as never }],
    ["a version that is not a string", { version: 7 as never }],
    ["an idempotency key that is not a string", { idempotencyKey: 7 as never }],
    ["signals without names", { signals: [{} as never] }],
    ["signals with options that they don't have", { signals: [{ name: "go", idempotencyKey: "k" } as never] }],
    ["signals that are not a list", { signals: "go" as never }],
    ["a signal that is nothing", { signals: [null as never] }],
    ["signals that are nothing", { signals: null as never }],
    ["options that are nothing", null as never],
    ["options that are text", "fast" as never],
    ["options that are a list", [] as never],
    ["a transaction that the store can't share", { tx: {} }],
  ])("%s is an InvalidInputError, and nothing is written", async (_, options) => {
    const engine = await engines.open();
    const error = await errorOf(engine.start(echo, 1, options));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.code).toBe("HF_INVALID_INPUT");
    expect((await engine.list()).runs).toEqual([]);
  });

  test("P8 P9 values that can't be stored, or are too large, are refused by name; nothing is written", async () => {
    const engine = await engines.open({ limits: { payloadBytes: 1_000 } });
    const unstorable = await errorOf(engine.start(echo, { list: [() => {}] }));
    expect(unstorable).toBeInstanceOf(UnserializableValueError);
    expect(unstorable.message).toMatch(/^value\.list\[0\] in the input of workflow echo can't be stored: it is a function/);
    const error = await errorOf(engine.start(echo, "x".repeat(2_000)));
    expect(error).toBeInstanceOf(LimitExceededError);
    expect(error).toMatchObject({ limit: "payloadBytes", max: 1_000 });
    await expect(engine.startMany(echo, [{ input: 1 }, { input: "x".repeat(2_000) }])).rejects.toThrow(LimitExceededError);
    expect((await engine.list()).runs).toEqual([]);
  });

  test("P10 of starts with one id the first one counts, also if this process serves the workflow", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const both = [
      { input: 1, id: "a" },
      { input: 2, id: "a" },
    ];
    expect(await errorOf(engine.startMany(echo, both))).toMatchObject({ name: "RunAlreadyExistsError", runIds: ["a"] });
    expect(await engine.run("a").result()).toBe(1);
    const first = engine.start(echo, 3, { id: "b" });
    const second = engine.start(echo, 4, { id: "b", onConflict: "use-existing" });
    await Promise.all([first, second]);
    expect(await engine.run("b").result()).toBe(3);
  });

  test("M3 texts that a store finds things by have a longest length, and are refused before they can be in the way", async () => {
    const engine = await engines.open();
    const plain = workflow("plain", async () => 1);
    const long = "x".repeat(513);
    for (const options of [{ idempotencyKey: long }, { queue: long }, { version: long }])
      expect(await errorOf(engine.start(plain, undefined, options))).toMatchObject({ name: "InvalidInputError" });
    expect((await errorOf(engine.start(long))).message).toContain("workflow must have at most 512 characters, not 513");
    const run = await engine.start(plain, undefined, { idempotencyKey: "é".repeat(512) });
    expect((await errorOf(run.signal("go", 1, { idempotencyKey: long }))).message).toContain("at most 512 characters, not 513");
  });

  test("what is not a workflow can't be started or served", async () => {
    const engine = await engines.open();
    for (const bad of ["", undefined, {}, null, 5]) await expect(engine.start(bad as never, 1)).rejects.toThrow(InvalidInputError);
    await expect(engine.worker({ workflows: [{} as never] })).rejects.toThrow(InvalidInputError);
    await expect(engine.worker({ workflows: [echo, workflow("echo", async () => 1)] })).rejects.toThrow(/two workflows "echo"/);
    for (const options of [{ concurrency: 0 }, { activityConcurrency: -1 }, { cachedRuns: 0.5 }, { lease: "soon" }, { lease: 0 }, { gracePeriod: -1 }, { turnTimeout: "x" }, { determinism: "maybe" }, { queue: "" }, { stopOn: ["SIGKILL"] }]) // biome-ignore format: one line
      await expect(engine.worker({ workflows: [echo], ...(options as object) }), JSON.stringify(options)).rejects.toThrow(
        InvalidInputError,
      );
    await engine.worker({ workflows: [echo] });
    expect(await (await engine.start(echo, 1)).result()).toBe(1);
  });

  test("worker options that are missing, or something else, are refused by name", async () => {
    const engine = await engines.open();
    for (const options of [undefined, null, {}, "all", { workflows: null }, { workflows: "order" }, { workflows: [echo], activities: 5 }])
      await expect(engine.worker(options as never), JSON.stringify(options)).rejects.toThrow(InvalidInputError);
    const error = await errorOf(engine.worker({ workflows: [echo], stopOn: "SIGTERM" as never }));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.message).toContain('stopOn must be a list such as ["SIGTERM"], not "SIGTERM"');
  });

  test("startMany checks all of its items before it starts any", async () => {
    const engine = await engines.open();
    for (const items of [undefined, null, 5, "ab", {}, [null], [{ input: 1 }, 5]])
      await expect(engine.startMany(echo, items as never), JSON.stringify(items)).rejects.toThrow(InvalidInputError);
    const bad = { input: 2, id: "b", priority: 0.5 };
    await expect(engine.startMany(echo, [{ input: 1, id: "a" }, bad])).rejects.toThrow(InvalidInputError);
    await expect(engine.startMany(echo, [{ input: 1, id: "a" }, { input: () => {} }])).rejects.toThrow(UnserializableValueError);
    expect((await engine.list()).runs).toEqual([]);
  });

  test("P10 startMany with ids that clash starts all others, and says which clashed", async () => {
    const engine = await engines.open();
    await engine.start(echo, 0, { id: "old" });
    const items = ["a", "b", "a", "old", "c"].map((id, input) => ({ id, input }));
    const error = (await errorOf(engine.startMany(echo, items))) as RunAlreadyExistsError;
    expect(error).toBeInstanceOf(RunAlreadyExistsError);
    expect(error.runIds).toEqual(["a", "old"]);
    expect(error.message).toContain('runs "a", "old" already exist');
    expect((await engine.list()).runs.map(({ id }) => id).sort()).toEqual(["a", "b", "c", "old"]);
    expect((await engine.run("a").describe()).input).toBe(0);
    const one = (await errorOf(engine.startMany(echo, [{ input: 1, id: "a" }, { input: 1, id: "d" }]))) as RunAlreadyExistsError; // biome-ignore format: one line
    expect([one.runId, one.runIds]).toEqual(["a", ["a"]]);
    await engine.worker({ workflows: [echo] });
    await engine.run("b").result();
    const signals = [{ name: "go" }];
    const mixed = await errorOf(engine.startMany(echo, [{ input: 1, id: "a" }, { input: 1, id: "b", onConflict: "use-existing", signals }])); // biome-ignore format: one line
    expect(mixed).toMatchObject({
      code: "HF_START_FAILED",
      cause: { errors: [{ code: "HF_RUN_ALREADY_EXISTS" }, { code: "HF_RUN_CLOSED" }] },
    });
  });

  test("handles, lists and counts refuse unknown options", async () => {
    const engine = await engines.open();
    const run = await engine.start(echo, 1);
    const untyped = engine.run(run.id) as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const calls: [string, () => Promise<unknown> | undefined][] = [
      ["result", () => untyped["result"]?.(null)],
      ["result with a signal that is none", () => untyped["result"]?.({ signal: {} })],
      ["signal", () => untyped["signal"]?.("a", 1, null)],
      ["signal without a name", () => untyped["signal"]?.()],
      ["signal with a key that is not a string", () => untyped["signal"]?.("a", 1, { idempotencyKey: 5 })],
      ["update", () => untyped["update"]?.("a", 1, null)],
      ["cancel", () => untyped["cancel"]?.({})],
      ["terminate", () => untyped["terminate"]?.(5)],
      ["list", () => engine.list(null as never)],
      ["list by a status that is none", () => engine.list({ status: null as never })],
      ["list by a workflow that is none", () => engine.list({ workflow: 5 as never })],
      ["list by attributes that are none", () => engine.list({ attributes: null as never })],
      ["count", () => engine.count("all" as never)],
      ["updateWithStart", () => engine.updateWithStart(echo, 1, null as never)],
      ["run", async () => engine.run(5 as never)],
    ];
    for (const [what, call] of calls) {
      const error = await errorOf(Promise.resolve(call()));
      expect([what, error.name]).toEqual([what, "InvalidInputError"]);
    }
    expect(await run.describe()).toMatchObject({ status: "pending" });
  });

  test("filters that make no sense are refused", async () => {
    const engine = await engines.open();
    for (const filter of [
      { limit: 0 },
      { limit: 1_001 },
      { limit: 1.5 },
      { status: "done" },
      { cursor: "nonsense" },
      { since: new Date(Number.NaN) },
    ])
      await expect(engine.list(filter as never), JSON.stringify(filter)).rejects.toThrow(InvalidInputError);
    await expect(engine.count({ status: ["completed", "done"] as never })).rejects.toThrow(InvalidInputError);
  });

  test("a time that no Date can say is refused, and lists stay whole", async () => {
    const engine = await engines.open();
    for (const options of [
      { delay: 8.64e15 },
      { deadline: 8.64e15 },
      { startAt: new Date(8.64e15 + 1) },
      { deadline: new Date(Number.NaN) },
    ])
      await expect(engine.start(echo, 1, options), JSON.stringify(options)).rejects.toThrow(InvalidInputError);
    await engine.start(echo, 1, { id: "latest", startAt: new Date(8.64e15) });
    await engine.start(echo, 1, { id: "longest", delay: LONGEST });
    expect((await engine.list()).runs.map(({ id, status }) => [id, status]).sort()).toEqual([["latest", "pending"], ["longest", "pending"]]); // biome-ignore format: pairs
  });

  test("K8 the longest timers are waited for, and looked at, like others", async () => {
    const engine = await engines.open();
    const naps: Record<string, (ctx: WorkflowContext) => Promise<unknown>> = {
      "the longest sleep": (ctx) => ctx.sleep(LONGEST),
      "until the last date": (ctx) => ctx.sleepUntil(new Date(8.64e15)),
      "the longest timeout": (ctx) => ctx.waitForSignal("never", { timeout: LONGEST }),
      "too long a sleep": (ctx) => ctx.sleep(LONGEST + 1),
    };
    const nap = workflow("nap", (ctx, kind: string) => naps[kind]?.(ctx) ?? Promise.resolve());
    await engine.worker({ workflows: [nap] });
    for (const kind of Object.keys(naps)) await engine.start(nap, kind, { id: kind });
    expect(await errorOf(engine.run("too long a sleep").result())).toMatchObject({ cause: { name: "InvalidInputError" } });
    await until(async () => (await engine.count()).sleeping === 3);
    const { runs } = await engine.list({ status: "sleeping" });
    for (const { id } of runs) expect((await engine.run(id).describe()).waitingFor, id).toHaveLength(1);
  });

  test("delay and startAt together are refused: they say different things", async () => {
    const engine = await engines.open();
    await expect(engine.start(echo, 1, { delay: "1s", startAt: new Date() })).rejects.toThrow(/delay and startAt/);
    await expect(engine.start(echo, 1, { delay: "1s", startAt: new Date() })).rejects.toThrow(InvalidInputError);
    expect((await engine.list()).runs).toEqual([]);
  });

  test("signals that come with a start are declared ones, as those that are sent later", async () => {
    const engine = await engines.open();
    const order = workflow({ name: "order", signals: { pay: signal<number>() } }, async (ctx) => ctx.waitForSignal("pay"));
    const refused = { code: "HF_UNKNOWN_MESSAGE", message: 'Workflow "order" declares no signal "payy". Declared: pay.' };
    const signals = [{ name: "pay", payload: 1 }, { name: "payy" }] as { name: "pay"; payload: number }[];
    expect(await errorOf(engine.start(order, undefined, { signals }))).toMatchObject(refused);
    expect(await errorOf(engine.startMany(order, [{ input: undefined, signals }]))).toMatchObject(refused);
    expect((await engine.list()).runs).toEqual([]);
    // One that declares none takes any.
    await engine.start(echo, 1, { signals: [{ name: "payy" }] });
  });

  test("a closed engine says so", async () => {
    const engine = await engines.open();
    const run = await engine.start(echo, 1);
    const waiting = errorOf(run.result());
    await engine.close();
    expect(await waiting).toMatchObject({ code: "HF_ENGINE_CLOSED" });
    for (const call of [
      () => engine.start(echo, 1),
      () => engine.worker({ workflows: [echo] }),
      () => engine.list(),
      () => engine.count(),
      () => run.result(),
      () => run.signal("a"),
      () => run.update("a"),
      () => run.query("a"),
      () => run.cancel(),
      () => run.terminate(),
      () => run.resume(),
      () => run.state(),
      () => run.describe(),
      () => run.history(),
      () => run.operations(),
    ])
      expect(await errorOf(call()), String(call)).toMatchObject({ code: "HF_ENGINE_CLOSED" });
    await engine.close();
  });

  test("W4 an engine that is closing begins nothing new, and lets what it began end", async () => {
    const engine = await engines.open();
    const entered = new Gate();
    const held = new Gate();
    const slow = workflow("slow", async (ctx) => {
      await ctx.step("slow", async () => {
        entered.open();
        await held.passed;
      });
      return "done";
    });
    await engine.worker({ workflows: [slow] });
    const run = await engine.start(slow, undefined);
    await entered.passed;
    const closed = engine.close();
    for (const call of [
      () => engine.worker({ workflows: [slow] }),
      () => engine.start(slow, undefined),
      () => engine.startMany(slow, [{ input: undefined }]),
      () => run.signal("a"),
      () => run.cancel(),
      () => run.terminate(),
      () => run.resume(),
    ])
      expect(await errorOf(call())).toMatchObject({ code: "HF_ENGINE_CLOSED" });
    held.open();
    await closed;
    const other = await engines.open();
    await other.worker({ workflows: [slow] });
    expect(await other.run(run.id).result({ timeout: "8s" })).toBe("done");
  });

  test("W4 a worker that starts as its engine closes does not outlive it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const asked = new Gate();
    const answered = new Gate();
    wire.intercept("now", async (pass, ...args) => {
      asked.open();
      await answered.passed;
      return pass(...args);
    });
    const starting = errorOf(engine.worker({ workflows: [echo] }));
    await asked.passed;
    const closed = engine.close();
    answered.open();
    expect(await starting).toMatchObject({ code: expect.stringMatching(/^HF_(ENGINE|STORE)_CLOSED$/) });
    await closed;
  });

  test("a wait can be ended, by time or by signal", async () => {
    const engine = await engines.open();
    const run = await engine.start(echo, 1);
    await expect(run.result({ timeout: 10 })).rejects.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    const controller = new AbortController();
    const waiting = errorOf(run.result({ signal: controller.signal }));
    controller.abort(new Error("enough"));
    expect(await waiting).toMatchObject({ message: "enough" });
    await expect(run.result({ timeout: "soon" as never })).rejects.toThrow(InvalidInputError);
  });

  test("a start whose write failed tells so, and leaves nothing behind", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const worker = await engine.worker({ workflows: [echo] });
    wire.intercept("create", () => Promise.reject(new Error("The disk is full.")));
    await expect(engine.start(echo, 1, { id: "a" })).rejects.toThrow(/disk is full/);
    wire.intercept("create", undefined);
    expect(worker.active).toBe(0);
    expect(await (await engine.start(echo, 2, { id: "a" })).result()).toBe(2);
  });
});

describe.each(STORES)("schemas on %s", (store) => {
  const engines = enginesOn(store);
  const order = workflow(
    {
      name: "order",
      input: z.object({ n: z.coerce.number(), at: z.date().default(new Date(0)) }),
      output: z.object({ total: z.number() }),
    },
    async (_ctx, { n, at }) => ({ total: n === 13 ? ("unlucky" as never) : n * 2, extra: at }),
  );

  test("input is validated before anything is written, and the run gets what the schema made of it", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [order] });
    const error = await errorOf(engine.start(order, { n: "no number" } as never));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues).toMatchObject([{ path: ["n"] }]);
    expect((await engine.list()).runs).toEqual([]);
    const run = await engine.start(order, { n: "21" } as never);
    expect(await run.result()).toEqual({ total: 42 });
    expect((await run.describe()).input).toEqual({ n: 21, at: new Date(0) });
  });

  test("input of a run that was started by name is validated by the worker, once, before any code runs", async () => {
    let ran = 0;
    const toNumber = z.object({ n: z.string().transform(Number) }); // refuses what it made
    const strict = workflow({ name: "strict", input: toNumber }, async (_ctx, { n }) => {
      ran++;
      return n;
    });
    const client = await engines.open();
    const [good, bad] = [await client.start("strict", { n: "21" }), await client.start("strict", { n: 21 })];
    const engine = await engines.open();
    await engine.worker({ workflows: [strict] });
    expect(await good.result()).toBe(21);
    expect((await errorOf(bad.result())).cause).toMatchObject({ name: "InvalidInputError", issues: [{ path: ["n"] }] });
    expect(await (await engine.start(strict, { n: "4" } as never)).result()).toBe(4);
    expect(await (await engine.start("strict", { n: "5" })).result()).toBe(5);
    expect(ran).toBe(3);
  });

  test("output is validated too: a run whose output the schema refuses fails", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [order] });
    const run = await engine.start(order, { n: 13 } as never);
    const error = await errorOf(run.result());
    expect(error.name).toBe("RunFailedError");
    expect(error.cause).toMatchObject({ name: "InvalidInputError" });
  });
});

test.each([
  ["an unknown scheme", "mysql://x", /not the url of an engine/],
  ["no text", 5, /must be text/],
  ["a file without a name", "file:", /names no file/],
  ["an unknown option", "file:./x.db?journal=off", /is not an option/],
])("Holdfast.open refuses %s", async (_, url, message) => {
  const error = await errorOf(Holdfast.open(url as string));
  expect(error).toBeInstanceOf(InvalidInputError);
  expect(error.message).toMatch(message);
});

describe("opening an engine", () => {
  const store = () => new MemoryStore();
  test.each<[string, object | null, RegExp]>([
    ["options that are nothing", null, /options must be an object/],
    ["a limit of nothing", { limits: { payloadBytes: 0 } }, /payloadBytes: .*above 0/],
    ["a negative limit", { limits: { historyMax: -1 } }, /historyMax/],
    ["a limit that is not a number", { limits: { historyWarn: "many" } }, /historyWarn/],
    ["a limit that is not whole", { limits: { payloadBytes: 1.5 } }, /payloadBytes/],
    ["a limit that there is not", { limits: { payloadbytes: 5 } }, /payloadbytes: Unknown limit\. Known limits: /],
    ["limits that are none", { limits: null }, /limits/],
    ["a codec without decode", { codec: { encode: () => "" } }, /encode and decode/],
    ["a codec that is nothing", { codec: null }, /encode and decode/],
    ["a logger that is none", { logger: {} }, /debug, info, warn and error/],
  ])("P9 %s is an InvalidInputError", async (_, options, message) => {
    for (const open of [() => Holdfast.open("memory:", options as never), () => Holdfast.with({ store: store() }, options as never)]) {
      const error = await errorOf(open());
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(error.message).toMatch(message);
    }
  });

  test("P9 limits may be left out or without end", async () => {
    const engine = await Holdfast.open("memory:", { limits: { payloadBytes: Number.POSITIVE_INFINITY, historyMax: undefined as never } });
    await engine.start(echo, "x".repeat(3_000_000));
    await engine.close();
  });

  test("P8 a codec that returns neither text nor bytes is named in the error", async () => {
    class SealedCodec {
      encode = (_value: unknown): never => Promise.resolve("sealed") as never;
      decode = (data: unknown) => data;
    }
    for (const [codec, name] of [
      [new SealedCodec(), /codec SealedCodec: encode must return a string or a Uint8Array synchronously, not a promise/],
      [{ encode: () => ({}) as never, decode: () => 1 }, /the codec: encode must return a string/],
    ] as const) {
      const engine = await Holdfast.open("memory:", { codec });
      const error = await errorOf(engine.start(echo, 1));
      expect(error).toBeInstanceOf(UnserializableValueError);
      expect(error.message).toMatch(name);
      expect((await engine.list()).runs).toEqual([]);
      await engine.close();
    }
  });

  test("P8 a codec that fails in a step fails the step, and is named", async () => {
    class Moody {
      encode = (value: unknown) => (value === "odd" ? (5 as never) : JSON.stringify(value ?? null));
      decode = (data: string | Uint8Array) => JSON.parse(String(data)) as unknown;
    }
    const engine = await Holdfast.open("memory:", { codec: new Moody() });
    const work = workflow("work", async (ctx) =>
      ctx.step("odd", () => "odd").catch((error: Error) => String((error.cause as Error).message)),
    );
    await engine.worker({ workflows: [work] });
    expect(await (await engine.start(work, undefined)).result()).toMatch(/codec Moody: encode must return/);
    await engine.close();
  });
});
