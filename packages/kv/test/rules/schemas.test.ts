// Job: prove what happens to values that schemas and codecs refuse or change, on their way in and out of a run.
// Owns: nothing.
// Invariants: M1 (refused at the sender), M11, M13 (refused at the receiver: recorded, logged, not delivered); a schema that
// transforms is applied once, whichever way the value comes.

import { Receive, signal, update, workflow } from "@holdfast/core";
import { createWorkflow, type Logger, MemoryDriver, openWorkflow, QueryFailedError, realEnvironment, runWorkflow } from "@holdfast/kv";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KvHost } from "../host.ts";

/** Refuses what it made: applied twice, it fails. */
const toNumber = z.string().transform(Number);

const sum = workflow(
  { name: "sum", signals: { n: signal(toNumber), stop: signal() }, updates: { add: update<number, number>(toNumber as never) } },
  async (ctx, before: number[]) => {
    const { state } = await ctx.receive(before, {
      signals: { n: (n, all) => Receive.noreply([...all, n]), stop: (_: unknown, all) => Receive.stop(all) },
      updates: { add: (n, all) => Receive.reply(n, [...all, n]) },
    });
    return state.length < 4 ? ctx.continueAsNew(state) : state;
  },
);

test("X11 a schema that never answers does not keep a run waiting: the run is blocked, as by a signal that can't be read", async () => {
  const silent = { "~standard": { version: 1, vendor: "test", validate: () => new Promise<never>(() => {}) } } as const;
  const slow = workflow({ name: "slow", signals: { never: signal(silent as never) } }, async (ctx) => ctx.waitForSignal("never"));
  const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
  const environment = { ...realEnvironment, patience: (_ms: number, callback: () => void) => realEnvironment.after(1, callback) };
  const handle = runWorkflow({ driver: new MemoryDriver(), workflow: slow, id: "r", mode: "live", environment, logger });
  await handle.deliver({ id: "from-another-run", name: "never", payload: "1" });
  const result = await handle.result();
  expect(result).toMatchObject({ status: "blocked", error: { code: "HF_INVALID_INPUT" } });
  expect(String((result as { error: Error }).error)).toContain("The schema did not answer within 10 s.");
});

describe("schemas that transform", () => {
  test("M1 M13 are applied once, no matter who sends and how the signal comes", async () => {
    const driver = new MemoryDriver();
    const handle = runWorkflow({
      driver,
      workflow: sum,
      id: "r",
      input: [],
      mode: "live",
      signals: [{ name: "n", payload: "1" }],
    });
    await handle.signal("n", "2" as never);
    await handle.deliver({ id: "from-another-run", name: "n", payload: '"3"' });
    expect(await handle.update("add", "4" as never)).toBe(4);
    await handle.signal("stop");
    expect(await handle.result()).toEqual({ status: "completed", output: [1, 2, 3, 4] });
    await expect(openWorkflow({ driver, workflow: sum, id: "r" }).signal("n", 5 as never)).rejects.toMatchObject({
      code: "HF_INVALID_INPUT",
    });
  });

  test("P10 M13 a signal that no code consumed goes to the next execution as the schema has made it", async () => {
    const waiting = workflow({ name: "waiting", signals: { n: signal(toNumber), go: signal() } }, async (ctx, isSecond: boolean) => {
      if (isSecond) return ctx.waitForSignal("n");
      await ctx.waitForSignal("go");
      return ctx.continueAsNew(true);
    });
    const driver = new MemoryDriver();
    const handle = await createWorkflow({
      driver,
      workflow: waiting,
      id: "r",
      input: false,
      signals: [{ name: "n", payload: "7" }],
    });
    await handle.wake();
    await handle.signal("go");
    expect(await handle.wake()).toEqual({ status: "continued", input: true });
    expect(await handle.wake()).toEqual({ status: "completed", output: 7 });
  });

  test("P8 the input of a child is what its parent's call made of it", async () => {
    const child = workflow({ name: "child", input: toNumber }, async (_, n) => n + 1);
    const parent = workflow("parent", (ctx) => ctx.child(child, "41" as never, { id: "child" }));
    const host = new KvHost();
    host.teach(child);
    const run = await host.start(parent);
    expect(await run.result()).toBe(42);
  });
});

describe("values that are refused", () => {
  const typed = workflow(
    { name: "typed", signals: { n: signal(z.number()) }, updates: { ask: update<number, number>(z.number()) } },
    async (ctx) => {
      const { state } = await ctx.receive(0, {
        signals: { n: (n) => Receive.stop(n) },
        updates: { ask: (n, held) => Receive.reply(n, held) },
      });
      return state;
    },
  );

  test("M13 a signal from another run that the schema refuses is recorded and logged, and not delivered; both runs go on", async () => {
    const warned: string[] = [];
    const logger: Logger = { debug() {}, info() {}, warn: (message) => warned.push(message), error: (message) => warned.push(message) };
    const host = new KvHost({ logger });
    const heard = await host.start(typed, undefined, { id: "ear" });
    const speaker = workflow("speaker", async (ctx, words: unknown[]) => {
      for (const word of words) await ctx.signalRun("ear", "n", word);
      return "said";
    });
    const said = await host.start(speaker, ["no number", 5], { id: "mouth" });
    expect(await said.result()).toBe("said");
    expect(await heard.result()).toBe(5);
    expect(warned).toEqual([expect.stringMatching(/signal n/)]);
    const { turns } = (await heard.history()) as unknown as { turns: { jobs: { type: string }[] }[] };
    const jobs = turns.flatMap((turn) => turn.jobs).filter(({ type }) => type === "signal");
    expect(jobs).toMatchObject([{ name: "n", refused: expect.stringContaining("expected number") }, { name: "n" }]);
  });

  test("M12 a signal from another run to a name that is not declared waits, as it does on any host", async () => {
    const host = new KvHost();
    const heard = await host.start(typed, undefined, { id: "ear" });
    const said = await host.start(
      workflow("speaker", (ctx) => ctx.signalRun("ear", "unheard of", 1)),
      undefined,
      { id: "mouth" },
    );
    await said.result();
    expect(await heard.status()).toBe("sleeping");
  });

  test("M10 M13 an update that only the receiver's schema refuses is rejected, and says why", async () => {
    const untyped = workflow({ name: "typed", updates: { ask: update<unknown, number>() } }, async () => 0);
    const driver = new MemoryDriver();
    const handle = runWorkflow({ driver, workflow: typed, id: "r", mode: "live" });
    await expect(openWorkflow({ driver, workflow: untyped, id: "r" }).update("ask", "no number")).rejects.toMatchObject({
      code: "HF_UPDATE_REJECTED",
      message: expect.stringContaining("expected number"),
    });
    expect(await handle.update("ask", 1)).toBe(1);
    await handle.evict();
  });

  test("M11 P8 a query whose answer can't be given is a QueryFailedError that says where", async () => {
    const w = workflow({ name: "w", queries: { odd: () => ({ deep: { call: () => 1 } }) } }, async (ctx) => ctx.sleep("1h"));
    const driver = new MemoryDriver();
    await runWorkflow({ driver, workflow: w, id: "r" });
    const asked = openWorkflow({ driver, workflow: w, id: "r" }).query("odd");
    await expect(asked).rejects.toThrow(QueryFailedError);
    await expect(asked).rejects.toThrow(/deep\.call/);
  });
});
