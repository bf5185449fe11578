// `openReadOnly`: a store that is only read, by its url.

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask, startServer, type TestServer } from "@holdfast/postgres-server";
import { Holdfast, InvalidInputError, workflow } from "holdfast";
import { type Inspection, inspect, openReadOnly } from "holdfast/inspect";
import { StoreError } from "holdfast/store";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { until } from "../engine/engines.ts";

const echo = workflow("echo", async (ctx, input: unknown) => ctx.step("one", () => input));

async function expectEmpty(inspection: Inspection): Promise<void> {
  expect(await inspection.store()).toMatchObject({ exists: false, now: undefined });
  expect(await inspection.list()).toEqual({ runs: [], cursor: undefined });
  expect(await inspection.list({}, { values: true })).toEqual({ runs: [], cursor: undefined });
  expect(Object.values(await inspection.counts()).every(({ n, capped }) => n === 0 && !capped)).toBe(true);
  expect(await inspection.get("r")).toBeUndefined();
  expect(await inspection.timeline("r")).toBeUndefined();
  expect(await inspection.history("r")).toBeUndefined();
  expect(await inspection.why("r")).toBeUndefined();
  expect(await inspection.schedule("s")).toBeUndefined();
  const lists = [
    inspection.turns("r"),
    inspection.attempts("r"),
    inspection.operations("r"),
    inspection.inbox("r"),
    inspection.executions("r"),
  ];
  for (const list of lists) expect(await list).toEqual([]);
  for (const list of [inspection.queueStats(), inspection.workers(), inspection.schedules(), inspection.workflows()])
    expect(await list).toEqual([]);
  expect((await inspection.turnWorkers("r")).size).toBe(0);
}
async function expectRun(inspection: Inspection): Promise<void> {
  expect(await inspection.store()).toMatchObject({ exists: true, schema: { found: 1, known: 1 }, now: expect.any(Date) });
  expect((await inspection.list()).runs.map(({ id, status }) => [id, status])).toEqual([["r", "completed"]]);
  expect((await inspection.get("r"))?.output?.read()).toEqual({ value: 7 });
  expect((await inspection.timeline("r"))?.operations.map(({ location }) => location)).toEqual(["one"]);
  expect((await inspection.workflows()).map(({ name }) => name)).toEqual(["echo"]);
  expect(await inspection.queueStats()).toEqual([]);
}
async function work(engine: Holdfast): Promise<void> {
  await engine.worker({ workflows: [echo] });
  await (await engine.start(echo, 7, { id: "r" })).result();
}

describe("on SQLite", () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-read-only-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test.each([true, false])(
    "a file that is not there reads as empty, nothing is created, and it is read once it is there (thread: %s)",
    async (thread) => {
      const url = `file:${join(folder, "deep/app.db")}`;
      const inspection = await openReadOnly(url, { thread });
      await expectEmpty(inspection);
      expect(readdirSync(folder)).toEqual([]);
      const engine = await Holdfast.open(url);
      await work(engine);
      await expectRun(inspection);
      await engine.close();
      await expectRun(inspection);
      await inspection.close();
    },
  );

  test("B5 a namespace has its own file", async () => {
    const url = `file:${join(folder, "app.db")}`;
    const engine = await Holdfast.open(url, { namespace: "eu" });
    await work(engine);
    const [here, there] = [await openReadOnly(url), await openReadOnly(url, { namespace: "eu" })];
    await expectEmpty(here);
    await expectRun(there);
    await Promise.all([here.close(), there.close(), engine.close()]);
  });

  test("an invalid url, option or namespace is refused", async () => {
    await expect(openReadOnly("mysql://x")).rejects.toThrow(InvalidInputError);
    await expect(openReadOnly(`file:${folder}/a.db?mode=rw`)).rejects.toThrow(InvalidInputError);
    await expect(openReadOnly("memory:", { namespace: "a b" })).rejects.toThrow(InvalidInputError);
    await expect(openReadOnly("memory:", { values: true } as never)).rejects.toThrow(InvalidInputError);
    await expect(openReadOnly(42 as never)).rejects.toThrow(InvalidInputError);
  });
});

test("in memory: the runs of a namespace of this process", async () => {
  const engine = await Holdfast.open("memory:", { namespace: "read-only-test" });
  await work(engine);
  const inspection = await openReadOnly("memory:", { namespace: "read-only-test" });
  expect((await inspection.list()).runs.map(({ id }) => id)).toEqual(["r"]);
  await inspection.close();
  await engine.close();
});

describe("on PostgreSQL", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  }, 60_000);
  afterAll(() => server?.stop(), 60_000);

  test("a database without a schema reads as empty, nothing is created or written, and it is read once it is there", async () => {
    const url = await server.createDatabase();
    const early = await openReadOnly(url);
    await expectEmpty(early);
    expect(await ask(url, "SELECT nspname FROM pg_namespace WHERE nspname = 'holdfast'")).toEqual([]);
    const engine = await Holdfast.open(url);
    await work(engine);
    await engine.close();
    // From here on every transaction that writes is refused.
    await ask(url, `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET default_transaction_read_only = on`);
    const late = await openReadOnly(url);
    await expectRun(late);
    expect(await late.why("r")).toMatchObject([{ kind: "closed" }]);
    expect(await late.workers()).toEqual([]);
    expect(await late.schedules()).toEqual([]);
    await until(async () => (await early.store()).exists);
    await expectRun(early);
    await Promise.all([early.close(), late.close()]);
  });

  test("W3 the store's time is the server's", async () => {
    const url = await server.createDatabase();
    const engine = await Holdfast.open(url);
    await ask(
      url,
      `CREATE OR REPLACE FUNCTION holdfast.clock_1(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
         SELECT coalesce(p_now, (extract(epoch FROM clock_timestamp() - interval '1 hour') * 1000)::bigint) $$`,
    );
    const reading = await openReadOnly(url);
    for (const inspection of [inspect(engine), reading]) {
      const now = (await inspection.store()).now?.getTime() ?? Date.now();
      expect(Date.now() - now).toBeGreaterThan(59 * 60_000);
      await inspection.close();
    }
    await engine.close();
  });

  test("a server that can't be reached is a StoreError", async () => {
    await expect(openReadOnly("postgres://nobody@127.0.0.1:1/none")).rejects.toThrow(StoreError);
  });
});
