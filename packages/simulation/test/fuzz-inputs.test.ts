// Whatever callers hand over besides ids, urls and histories: options, filters, names, payloads, timeouts. A typed error or a right answer.

import { HoldfastError, jsonCodec, signal, update, workflow } from "@holdfast/core";
import { explore, type Scenario, simulate } from "@holdfast/simulation";
import fc from "fast-check";
import { testEngine } from "holdfast/testing";
import { expect, test } from "vitest";

async function typed<T>(work: () => Promise<T> | T): Promise<T | HoldfastError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw new Error(`not a typed error: ${String(error)}`, { cause: error });
  }
}

const odd = fc.constantFrom<unknown>(
  Symbol("s"),
  10n,
  "",
  " ",
  "\0",
  "__proto__",
  "\ud800",
  "x".repeat(3_000),
  -1,
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 53,
  new Date(Number.NaN),
  new Date(8.64e15),
  null,
  [],
  {},
  () => 1,
);
const anything = fc.oneof(odd, odd, fc.anything(), fc.string());

const echo = workflow("echo", async (_ctx, input: number) => input);

test("P1 options of a start, one of them odd: the run ends as it should, or a typed error and no run", async () => {
  const engine = await testEngine({ workflows: [echo] });
  const names = [
    "onConflict",
    "idempotencyKey",
    "queue",
    "priority",
    "delay",
    "startAt",
    "deadline",
    "version",
    "retry",
    "signals",
    "attributes",
  ];
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), anything, async (name, value) => {
      const id = `run-${++number}`;
      const run = await typed(() => engine.start(echo, number, { id, [name]: value } as never));
      const [found] = (await engine.list({ limit: 1_000 })).runs.filter((one) => one.id === id);
      if (run instanceof HoldfastError) {
        expect(found).toBeUndefined();
        return;
      }
      // One that waits for another queue, code or time is there, and can be ended.
      if (found !== undefined && found.status !== "completed") await typed(() => run.terminate());
      const end = await typed(() => run.result({ timeout: "5s" }));
      if (!(end instanceof HoldfastError)) expect(end).toBeTypeOf("number");
    }),
    { numRuns: 400 },
  );
  await engine.close();
}, 60_000);

const account = workflow(
  { name: "account", signals: { put: signal<unknown>() }, updates: { echo: update<unknown, unknown>() }, queries: {} },
  async (ctx) => {
    return ctx.waitForSignal("put");
  },
);

test("M1 M12 names and payloads of messages: delivered as they were, or a typed error, and the run goes on", async () => {
  const engine = await testEngine({ workflows: [account] });
  let number = 0;
  type Loose = {
    signal(...args: unknown[]): Promise<void>;
    update(...args: unknown[]): Promise<unknown>;
    query(...args: unknown[]): unknown;
  };
  await fc.assert(
    fc.asyncProperty(anything, anything, anything, async (name, payload, options) => {
      const run = await engine.start(account, undefined, { id: `account-${++number}` });
      const loose = run as unknown as Loose;
      await typed(() => loose.update(name, payload, options));
      await typed(() => Promise.resolve(loose.query(name, payload)));
      if (name !== "put") await typed(() => loose.signal(name, payload, options));
      const sent = await typed(() => loose.signal("put", payload));
      if (sent instanceof HoldfastError) await loose.signal("put", "instead");
      const expected = sent instanceof HoldfastError ? "instead" : jsonCodec.decode(jsonCodec.encode(payload));
      expect(await run.result({ timeout: "5s" })).toEqual(expected);
    }),
    { numRuns: 150 },
  );
  await engine.close();
}, 60_000);

test("filters, cursors and timeouts: an answer, or a typed error", async () => {
  const engine = await testEngine({ workflows: [echo] });
  const run = await engine.start(echo, 1, { id: "one", attributes: { x: 1 } });
  await run.result();
  const names = ["status", "workflow", "queue", "parentId", "attributes", "since", "until", "limit", "cursor"];
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), anything, async (name, value) => {
      const page = await typed(() => engine.list({ [name]: value } as never));
      if (!(page instanceof HoldfastError)) expect(page.runs.length).toBeLessThanOrEqual(1);
      const count = await typed(() => engine.count({ [name]: value } as never));
      expect(count).toBeDefined();
      const result = await typed(() => run.result({ timeout: value } as never));
      if (!(result instanceof HoldfastError)) expect(result).toBe(1);
      await typed(() => engine.run(value as string).describe());
    }),
    { numRuns: 400 },
  );
  await engine.close();
}, 60_000);

test("options of a simulation: it is carried out, or a typed error, never passed over", async () => {
  const scenario = (): Scenario => ({
    name: "echo",
    workflows: () => [echo],
    play: async (clients) => {
      await clients.start("echo", 1, { id: "one" });
      await clients.end("one");
    },
  });
  const names = ["seed", "scenarios", "store", "without", "faults", "workers", "only", "storm", "disasters"];
  const parts = ["name", "workflows", "activities", "replace", "play", "verify", "mayBlock", "needsBuilds"];
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), anything, async (name, value) => {
      const report = await typed(() => simulate({ seed: 1, scenarios: () => [scenario()], [name]: value } as never));
      if (!(report instanceof HoldfastError)) expect(report.violation?.message).toBeUndefined();
    }),
    { numRuns: 300 },
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...parts), anything, fc.boolean(), async (part, value, isGiven) => {
      const changed = { ...scenario(), [part]: isGiven ? () => value : value } as Scenario;
      const report = await typed(() => simulate({ seed: 1, scenarios: () => [changed] }));
      // Whatever is wrong with it then is the scenario's own fault, and is said to be.
      if (!(report instanceof HoldfastError)) expect([undefined, "scenario"]).toContain(report.violation?.oracle);
    }),
    { numRuns: 300 },
  );
  for (const seeds of [0, -1, 1.5, undefined, "10"]) {
    await expect(explore({ seeds: seeds as number, scenarios: () => [scenario()] })).rejects.toMatchObject({ name: "InvalidInputError" });
  }
}, 60_000);
