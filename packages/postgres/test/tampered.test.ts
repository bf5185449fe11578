// Rows that were tampered with under a worker: it lives on, the runs beside it end, and callers that ask for the damaged one get an answer.

import { HoldfastError, InvalidInputError, signal, workflow } from "@holdfast/core";
import { Holdfast } from "holdfast";
import { afterEach, expect, test } from "vitest";
import { draft, type Held, inboxOf, running, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const engines: Holdfast[] = [];
afterEach(async () => {
  await Promise.all(engines.splice(0).map((engine) => engine.close()));
});

const waits = workflow({ name: "waits", signals: { go: signal<number>() } }, async (ctx, input: number) => {
  await ctx.step("a", () => input);
  return [await ctx.waitForSignal("go")];
});

async function open(schema: string): Promise<Holdfast> {
  const engine = await Holdfast.open(`${database.url}?schema=${schema}`, { logger: quiet });
  engines.push(engine);
  return engine;
}
/** A schema with a run in the middle of its life, its signal in the inbox. */
async function interrupted(): Promise<string> {
  const schema = database.newSchema();
  const engine = await open(schema);
  const worker = await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
  const run = await engine.start(waits, 1, { id: "one" });
  await until(async () => (await run.describe()).status === "sleeping", "the run to sleep");
  await worker.stop();
  await run.signal("go", 1);
  await engine.close();
  return schema;
}

const PLACES = [
  ["executions", "input"],
  ["runs", "turns"],
  ["runs", "execution"],
  ["runs", "retry"],
  ["records", "data"],
  ["records", "type"],
  ["inbox", "data"],
  ["inbox", "type"],
] as const;
const BROKEN = ["{", "[]", "-1"] as const;

test.each(PLACES.flatMap(([table, column]) => BROKEN.map((value) => [table, column, value] as const)))(
  "V4 W3 %s.%s = %s: the worker lives on, the run beside it ends, the damaged one is answered for",
  async (table, column, value) => {
    const schema = await interrupted();
    const isRefused = await database.sql(`UPDATE ${schema}.${table} SET ${column} = '${value}'`).then(
      () => false,
      () => true, // by the table itself
    );
    const engine = await open(schema);
    const healthy = await engine.start(waits, 2, { id: "two" });
    await healthy.signal("go", 2);
    // It finds both in one claim.
    await engine.worker({ workflows: [waits], gracePeriod: 0, determinism: "off" });
    expect(await healthy.result({ timeout: "20s" })).toEqual([2]);
    const damaged = engine.run("one", waits);
    const told = await damaged.result({ timeout: "20s" }).catch((error: unknown) => error);
    if (isRefused || !(told instanceof HoldfastError))
      expect(told).toEqual([1]); // or what was changed did not matter
    else expect(told).not.toMatchObject({ code: "HF_WAIT_TIMEOUT" });
    for (const look of [() => damaged.describe(), () => damaged.history(), () => damaged.operations(), () => engine.list()]) {
      const seen = await look().catch((error: unknown) => error);
      if (seen instanceof Error) expect(seen).toBeInstanceOf(HoldfastError);
    }
  },
  60_000,
);

test("V4 W3 D4 a message that was damaged under a run in hand: the run is released, those beside it are kept", async () => {
  const schema = database.newSchema();
  const engine = await open(schema);
  let end = (): void => {};
  const bodies: string[] = [];
  const busy = workflow("busy", async (ctx, name: string) =>
    ctx.step("long", () => {
      bodies.push(name);
      return new Promise<void>((done) => {
        end = done;
      });
    }),
  );
  await engine.worker({ workflows: [busy], gracePeriod: 0, lease: 1_000, determinism: "off" });
  const damaged = await engine.start(busy, "damaged", { id: "damaged" });
  const healthy = await engine.start(busy, "healthy", { id: "healthy" });
  await until(() => bodies.length === 2, "both to be at their step");
  await database.sql(
    `INSERT INTO ${schema}.inbox (run, id, type, received_at) SELECT key, 1, 'nonsense', 0 FROM ${schema}.runs WHERE id = 'damaged'`,
  );
  await database.sql(`UPDATE ${schema}.runs SET last_message = 1 WHERE id = 'damaged'`);
  const told = await damaged.result({ timeout: "20s" }).catch((error: unknown) => error);
  expect(told).toMatchObject({ code: "HF_RUN_BLOCKED", cause: { code: "HF_STORE_CORRUPT" } });
  end();
  await healthy.result({ timeout: "20s" });
  expect(bodies).toEqual(["damaged", "healthy"]);
}, 60_000);

test("V4 D2 D4 a damaged message that comes with a commit: what was written is said of all others of the batch", async () => {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  const held = [await running(store, "damaged"), await running(store, "beside"), await running(store, "apart")];
  await database.sql(
    `INSERT INTO ${schema}.inbox (run, id, type, received_at) SELECT key, key, 'nonsense', 0 FROM ${schema}.runs WHERE id IN ('damaged', 'apart')`,
  );
  await database.sql(`UPDATE ${schema}.runs SET last_message = key WHERE id IN ('damaged', 'apart')`);
  // The last goes by itself, as it does more than usual.
  const commits = held.map((run, i) => draft(run, { turn: turnOf(run), ...(i === 2 && { attributes: { a: 1 } }) }));
  const results = await store.commit(commits);
  expect(results.map(({ status }) => status)).toEqual(["stale", "committed", "stale"]);
});

test.each(["records SET value = NULL", "records SET name = NULL", "records SET seq = NULL"])(
  "D12 V4 %s: the operations of the run are HF_STORE_CORRUPT",
  async (change) => {
    const schema = await interrupted();
    const run = (await open(schema)).run("one", waits);
    expect(await run.operations()).toMatchObject([{ name: "a", output: 1 }, { kind: "signal" }]);
    await database.sql(`UPDATE ${schema}.${change}`);
    await expect(run.operations()).rejects.toMatchObject({ code: "HF_STORE_CORRUPT" });
  },
  60_000,
);

test("P9 a cursor that is none is its sender's fault, and no damage", async () => {
  const store = await database.open({ schema: database.newSchema() });
  await expect(store.list({ limit: 10, cursor: "nonsense" })).rejects.toBeInstanceOf(InvalidInputError);
});

const UNREADABLE = ["retry = '{'", `input = '{"$payload":'`, `last_heartbeat = '{"$payload":'`] as const;
const RETRY = { maxAttempts: 3, initialInterval: 1, backoff: 2, maxInterval: 1, jitter: 0 };
const TASK = { seq: 1, activity: "mail", queue: "t", input: "1", retry: RETRY, location: "x", startToClose: 60_000 };
const REQUEST = { workerId: "w1", queue: "t", activities: ["mail"], limit: 10, lease: 1_000 };

async function withTasks(clock: () => number): Promise<{ schema: string; store: TestStore; held: Held[] }> {
  const schema = database.newSchema();
  const store = await database.open({ schema, clock });
  const held = [await running(store, "damaged"), await running(store, "healthy")];
  for (const one of held) await store.commit([draft(one, { turn: turnOf(one), tasks: [TASK] })]);
  return { schema, store, held };
}

test.each(UNREADABLE)("D11 V4 tasks: %s fails the activity that waits, and those beside it are handed out", async (damage) => {
  const { schema, store, held } = await withTasks(() => 1_000);
  await database.sql(`UPDATE ${schema}.tasks SET ${damage} WHERE run = (SELECT key FROM ${schema}.runs WHERE id = 'damaged')`);
  expect((await store.claimTasks(REQUEST)).tasks).toMatchObject([{ runId: "healthy", attempt: 1 }]);
  expect((await store.claimTasks(REQUEST)).tasks).toEqual([]);
  const corrupt = { status: "failed", error: { data: { code: "HF_STORE_CORRUPT" } } };
  expect(await inboxOf(store, held[0] as Held)).toMatchObject([{ job: { type: "resolve", seq: 1, outcome: corrupt } }]);
  expect(await inboxOf(store, held[1] as Held)).toEqual([]);
});

test.each(["retry = '{'", "backoff = -1", "max_interval = 'Infinity', attempt = 2000000000"])(
  "D11 V4 tasks: %s of an activity under way does not stop others from timing out",
  async (damage) => {
    let now = 1_000;
    const { schema, store, held } = await withTasks(() => now);
    expect((await store.claimTasks(REQUEST)).tasks).toHaveLength(2);
    await database.sql(
      `UPDATE ${schema}.tasks SET start_to_close = 10, max_attempts = CASE run WHEN (SELECT key FROM ${schema}.runs WHERE id = 'healthy') THEN 1 ELSE 1e300 END`,
    );
    await database.sql(`UPDATE ${schema}.tasks SET ${damage} WHERE run = (SELECT key FROM ${schema}.runs WHERE id = 'damaged')`);
    now += 2_000;
    await store.expire();
    expect(await inboxOf(store, held[1] as Held)).toMatchObject([{ job: { type: "resolve", outcome: { status: "failed" } } }]);
  },
);
