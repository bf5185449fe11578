// B1 B2 B6 P8 P10 D12 M1: an inspection of an engine, on every store.

import { activity, InvalidInputError, jsonCodec, Receive, signal, update, workflow } from "holdfast";
import { type EncodedValue, type Inspection, type InspectionChange, inspect, isOptional, showTurn } from "holdfast/inspect";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { enginesOn, errorOf, Gate, STORES, until } from "../engine/engines.ts";

const shown = (value: EncodedValue | undefined): unknown => {
  const read = value?.read();
  return read === undefined ? undefined : "value" in read ? read.value : read;
};

describe.each(STORES)("an inspection on %s", (store) => {
  const engines = enginesOn(store);
  const open: Inspection[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  async function opened(options?: Parameters<typeof engines.open>[0]) {
    const engine = await engines.open(options);
    const inspection = inspect(engine);
    open.push(inspection);
    return { engine, inspection };
  }
  const echo = workflow("echo", async (_ctx, input: unknown) => input);

  test("P8 lists have no values unless they are asked for; one run has them", async () => {
    const { engine, inspection } = await opened();
    await engine.worker({ workflows: [echo] });
    const run = await engine.start(echo, { big: "x".repeat(100) }, { id: "r", attributes: { tenant: 42 } });
    await run.result();
    const { runs, cursor } = await inspection.list();
    expect(cursor).toBeUndefined();
    expect(runs).toMatchObject([
      {
        id: "r",
        workflow: "echo",
        status: "completed",
        attributes: { tenant: 42 },
        input: undefined,
        output: undefined,
        createdAt: expect.any(Date),
      },
    ]);
    const [full] = (await inspection.list({ attributes: { tenant: 42 } }, { values: true })).runs;
    expect(shown(full?.input)).toEqual({ big: "x".repeat(100) });
    expect(full?.input?.bytes).toBe(110);
    const one = await inspection.get("r");
    expect({ ...one, input: shown(one?.input), output: shown(one?.output) }).toMatchObject(await run.describe());
    expect(await inspection.get("unknown")).toBeUndefined();
    await expect(inspection.list({ cursor: "nonsense" })).rejects.toThrow(InvalidInputError);
    await expect(inspection.list({ limit: 0 })).rejects.toThrow(InvalidInputError);
  });

  test("B2 counts by status", async () => {
    const { engine, inspection } = await opened();
    await engine.startMany(echo, [{ id: "a" }, { id: "b" }]);
    await engine.run("a").terminate();
    expect(await inspection.counts()).toMatchObject({
      ...{ pending: { n: 1, capped: false }, terminated: { n: 1, capped: false }, failed: { n: 0, capped: false } },
    });
    expect(await inspection.counts({ status: "failed" })).toMatchObject({ pending: { n: 0, capped: false } });
  });

  test("B6 what a run waits for is said by the workers of all processes", async () => {
    const { engine, inspection } = await opened();
    await engine.start(echo, 1, { id: "r" });
    await until(async () => (await inspection.get("r"))?.waitingFor[0] === "no worker serves echo");
    expect((await inspection.list()).runs).toMatchObject([{ waitingFor: ["no worker serves echo"] }]);
    expect(await inspection.why("r")).toMatchObject([{ kind: "no-worker", since: expect.any(Date) }]);
    expect(await inspection.why("unknown")).toBeUndefined();
    const other = await engines.open();
    const worker = await other.worker({ workflows: [echo] });
    await engine.run("r").result();
    expect((await inspection.workers()).map(({ id }) => id)).toEqual([worker.id]);
  });

  test("D12 operations, attempts, turns and the timeline of a run", async () => {
    const { engine, inspection } = await opened();
    const render = activity("render", (page: number) => page * 2);
    let attempts = 0;
    const work = workflow("work", async (ctx) => {
      ctx.publishState({ at: "charge" });
      await ctx.step("charge", () => (++attempts < 2 ? Promise.reject(new Error("no")) : "paid"), { retry: { initialInterval: 1 } });
      return ctx.activity(render, 21);
    });
    const worker = await engine.worker({ workflows: [work], activities: [render] });
    const run = await engine.start(work, undefined, { id: "r" });
    expect(await run.result()).toBe(42);
    const operations = await inspection.operations("r");
    expect(operations.map(({ input, output, ...operation }) => ({ ...operation, input: shown(input), output: shown(output) }))).toEqual(
      await run.operations(),
    );
    const turns = await inspection.turns("r");
    expect(turns.map(({ index }) => index)).toEqual(turns.map((_, i) => i));
    expect(await inspection.turns("r", { after: 0, limit: 1 })).toEqual([turns[1]]);
    expect(turns.flatMap(({ state }) => (state === undefined ? [] : [shown(inspection.value(state))]))).toEqual([{ at: "charge" }]);
    expect(shown((await inspection.get("r"))?.state)).toEqual({ at: "charge" });
    expect((await inspection.attempts("r")).map(({ number, status }) => [number, status])).toEqual([
      [1, "failed"],
      [2, "completed"],
      [1, "completed"],
    ]);
    expect(new Set((await inspection.turnWorkers("r")).values())).toEqual(new Set([worker.id]));
    const timeline = await inspection.timeline("r");
    expect(timeline).toMatchObject({ execution: 1, lastTurn: turns.length - 1, complete: true });
    expect(timeline?.operations.map(({ location, status }) => [location, status])).toEqual([
      ["charge", "completed"],
      ["render", "completed"],
    ]);
    expect((await inspection.timeline("r", { after: turns.length - 1 }))?.turns).toEqual([]);
    expect(await inspection.timeline("unknown")).toBeUndefined();
    expect(await inspection.history("r")).toEqual(await run.history());
    expect(await inspection.history("unknown")).toBeUndefined();
    const texts = turns.map((turn) => showTurn(turn, inspection, (value) => `<${value.bytes}>`));
    expect(JSON.stringify(texts)).toContain('"value":"<6>"');
    expect(JSON.stringify(texts)).not.toContain("paid");
  });

  test("P10 older executions can be looked at", async () => {
    const { engine, inspection } = await opened();
    const chain = workflow({ name: "chain", version: "1" }, async (ctx, n: number) => {
      await ctx.step(`step-${n}`, () => n);
      return n < 3 ? ctx.continueAsNew(n + 1) : n;
    });
    await engine.worker({ workflows: [chain] });
    await (await engine.start(chain, 1, { id: "r" })).result();
    const executions = await inspection.executions("r");
    expect(executions.map(({ execution, status, input, turns }) => [execution, status, shown(input), turns > 0])).toEqual([
      [1, "continued", 1, true],
      [2, "continued", 2, true],
      [3, "completed", 3, true],
    ]);
    expect((await inspection.operations("r", 2)).map(({ location, status }) => [location, status])).toEqual([["step-2", "completed"]]);
    expect(await inspection.timeline("r", { execution: 1 })).toMatchObject({ execution: 1, units: [{ path: "", status: "completed" }] });
    expect(await inspection.timeline("r", { execution: 9 })).toBeUndefined();
    expect((await inspection.history("r", 1))?.run).toMatchObject({ input: 1, status: "continued", version: "1" });
    expect(await inspection.executions("unknown")).toEqual([]);
  });

  test("M1 messages that wait, and children", async () => {
    const { engine, inspection } = await opened();
    const held = new Gate();
    const entered = new Gate();
    const kid = workflow("kid", async (ctx) => ctx.waitForSignal("never"));
    const parent = workflow("parent", async (ctx) => {
      const child = await ctx.startChild(kid, undefined, { id: "child" });
      await ctx.step("hold", () => {
        entered.open();
        return held.passed;
      });
      await ctx.waitForSignal("go");
      await child.cancel();
    });
    await engine.worker({ workflows: [parent, kid] });
    await engine.start(parent, undefined, { id: "r" });
    await entered.passed;
    expect((await inspection.children("r")).runs.map(({ id, parentId }) => [id, parentId])).toEqual([["child", "r"]]);
    await engine.start(echo, 1, { id: "still" }); // no worker serves it: its message waits
    await engine.run("still").signal("hello", { n: 1 });
    const inbox = await inspection.inbox("still");
    expect(inbox).toMatchObject([{ kind: "signal", name: "hello", id: expect.any(String) }]);
    expect(shown(inbox[0]?.payload)).toEqual({ n: 1 });
    if (store !== "memory") expect(inbox[0]?.receivedAt).toBeInstanceOf(Date);
    expect(await inspection.inbox("unknown")).toEqual([]);
    held.open();
    await engine.run("r").terminate();
  });

  test("queues, schedules and the store itself", async () => {
    const { engine, inspection } = await opened();
    await engine.queues.set("mail", { concurrency: 2 });
    await engine.schedules.set("nightly", { workflow: echo, input: { n: 1 }, cron: "0 3 * * *" });
    expect(inspection.features).toEqual({ queues: true, schedules: true, workers: true });
    expect(await inspection.queueStats()).toMatchObject([{ name: "mail", concurrency: 2, runs: { waiting: 0, held: 0 } }]);
    const [nightly] = await inspection.schedules();
    expect(nightly).toMatchObject({ id: "nightly", workflow: "echo", input: { n: 1 }, cron: "0 3 * * *", nextRuns: expect.any(Array) });
    expect(await inspection.schedule("nightly")).toMatchObject({ id: "nightly" });
    expect(await inspection.schedule("unknown")).toBeUndefined();
    expect(await inspection.store()).toMatchObject({ host: inspection.host, exists: true, now: expect.any(Date) });
  });

  test("B6 workers register what their messages look like", async () => {
    const { engine, inspection } = await opened();
    const Plan = z.object({ plan: z.enum(["free", "pro"]), seats: z.number().int().min(1).default(1) });
    const v1 = workflow(
      {
        ...{ name: "subscribe", version: "2", serves: ["1"], input: Plan },
        signals: { pay: signal(z.object({ amount: z.number() })), note: signal(z.string().optional()), poke: signal<void>() },
        updates: { upgrade: update(z.string().transform((text) => text.length)) },
        queries: { plan: (state: unknown) => state },
      },
      async (ctx) => {
        await ctx.receive(0, { signals: { poke: (_, state) => Receive.stop(state) } });
      },
    );
    const worker = await engine.worker({ workflows: [v1, echo] });
    const found = await inspection.workflows();
    expect(found).toMatchObject([
      { name: "echo", version: undefined, versions: [undefined], schemas: { signals: {}, updates: {}, queries: [] }, workers: [worker.id] },
      {
        ...{ name: "subscribe", version: "2", versions: ["2", "1"], workers: [worker.id] },
        schemas: {
          input: { type: "object", properties: { plan: { enum: ["free", "pro"] } }, required: ["plan"] },
          signals: { pay: { properties: { amount: { type: "number" } } }, poke: {} },
          updates: { upgrade: { type: "string" } },
          queries: ["plan"],
        },
      },
    ]);
    expect(found[0]?.schemas).not.toHaveProperty("input");
    const { input = {}, signals = {} } = found[1]?.schemas ?? {};
    expect([input, ...Object.values(signals)].map(isOptional)).toEqual([false, false, true, false]);
    await worker.stop();
    expect((await inspection.workflows()).map(({ name, workers }) => [name, workers])).toEqual([
      ["echo", []],
      ["subscribe", []],
    ]);
  });

  test("P8 a value that can't be decoded fails no read", async () => {
    const codec = {
      encode: (value: unknown) => `secret ${jsonCodec.encode(value)}`,
      decode: (data: string | Uint8Array) => {
        if (String(data).includes("broken")) throw new Error("the key is gone");
        return jsonCodec.decode(String(data).slice("secret ".length));
      },
    };
    const { engine, inspection } = await opened({ codec });
    await engine.start(echo, "broken", { id: "bad" });
    await engine.start(echo, "fine", { id: "good" });
    const { runs } = await inspection.list({}, { values: true });
    expect(runs.map(({ id, input }) => [id, shown(input)]).toSorted()).toEqual([
      ["bad", { unreadable: expect.stringContaining("the key is gone") }],
      ["good", "fine"],
    ]);
    expect(runs.every(({ error }) => error === undefined)).toBe(true);
    await engine.schedules.set("s", { workflow: echo, input: "broken", every: "1h" });
    expect(await inspection.schedules()).toMatchObject([{ id: "s", input: { $unreadable: expect.stringContaining("the key is gone") } }]);
    const failing = workflow("failing", async () => Promise.reject(new Error("private")));
    await engine.worker({ workflows: [failing] });
    await errorOf((await engine.start(failing, undefined, { id: "failed" })).result());
    expect((await inspection.get("failed"))?.error?.message).toContain("private");
    expect((await inspection.list({ status: "failed" })).runs[0]?.error?.message).toContain("private");
    expect(JSON.stringify(await inspection.turns("failed"))).toContain("private");
  });

  test("watchers are called when something may have changed, with the run where it is known", async () => {
    const { engine, inspection } = await opened();
    const changes: InspectionChange[] = [];
    const unwatch = inspection.watch((change) => changes.push(change));
    await engine.worker({ workflows: [echo] });
    await (await engine.start(echo, 1, { id: "r" })).result();
    await until(async () => changes.some(({ runs, runIds }) => runs && (runIds === undefined || runIds.includes("r"))));
    unwatch();
    const before = changes.length;
    await (await engine.start(echo, 1, { id: "s" })).result();
    await inspection.list();
    expect(changes.length).toBe(before);
  });
});
