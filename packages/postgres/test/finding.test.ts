// Lists and counts among many runs: the plans of their statements, and the rows of attributes that they stand on.

import type { RunFilter } from "holdfast/store";
import { beforeAll, expect, test, vi } from "vitest";
import { Connections, type Parameter } from "../src/connection/connections.ts";
import { COMPLETED, draft, newRun, running, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();
const MANY = 40_000;
const schema = "finding_many";

beforeAll(async () => {
  const store = await database.open({ schema, clock: () => 1_000 });
  await store.create([newRun("model", { attributes: { tenant: "none" }, version: "1" })]);
  // The triggers index what is written by hand, too.
  await database.sql(`INSERT INTO ${schema}.runs (key, id, attributes, status, ended_as, finished_at, created_at, workflow, version, work_key, schedule, lane, priority, queue)
    SELECT 1000 + i, 'r' || i, jsonb_build_object('tenant', 't' || i % 1000, 'amount', i * 7 % 10000, 'region', CASE WHEN i % 10 < 6 THEN 'eu' ELSE 'us' END)
        || CASE WHEN i % 10000 = 7 THEN '{"rare":true}'::jsonb ELSE '{}' END,
      s, nullif(s, 'sleeping'), CASE WHEN s <> 'sleeping' THEN 2000 + i END, 1000 + i, 'w' || i % 7, (i % 500)::text, 'k' || i % 1000, 's' || i % 1000, 1, 0, CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'default' END
    FROM (SELECT i, CASE i % 100 WHEN 0 THEN 'failed' WHEN 1 THEN 'sleeping' ELSE 'completed' END AS s FROM generate_series(1, ${MANY}) i) x`);
  await database.sql(
    `INSERT INTO ${schema}.executions SELECT key, 1, workflow, version, 'seed', 'null' FROM ${schema}.runs WHERE id <> 'model'`,
  );
  for (const table of ["runs", "attributes", "executions"]) await database.sql(`VACUUM ANALYZE ${schema}.${table}`);
}, 120_000);

const FILTERS: readonly RunFilter[] = [
  { attributes: { rare: true } },
  { attributes: { tenant: "t5" } },
  { attributes: { tenant: { in: ["t1", "t2", 3] } } },
  { attributes: { amount: { gte: 500, lt: 510 } } },
  { attributes: { tenant: { prefix: "t99" } } },
  { attributes: { region: "eu", amount: { gt: 9_990 } } },
  { attributes: { region: "eu", tenant: "t5" }, status: ["failed"] },
  { attributes: { region: "eu" }, workflow: "w1", queue: "default" },
  { version: "7" },
  { queue: "rare" },
  { key: "k7" },
  { schedule: "s7" },
  { idPrefix: "r77" },
  { parentId: "nothing" },
  { finishedSince: 5_000, finishedUntil: 5_100 },
  { workflow: ["w1", "w2"] },
  { status: ["failed"] },
  { status: ["rolling_back"] },
  { status: ["sleeping"], queue: "rare" },
  {},
];
/** The plan of every statement of a call. */
async function plansOf(call: () => Promise<unknown>, explain = "EXPLAIN"): Promise<string> {
  const seen: { sql: string; values: readonly Parameter[] }[] = [];
  const original = Connections.prototype.query;
  const spy = vi.spyOn(Connections.prototype, "query").mockImplementation(function (this: Connections, sql, values = [], how) {
    seen.push({ sql, values });
    return original.call(this, sql, values, how) as never;
  });
  try {
    await call();
  } finally {
    spy.mockRestore();
  }
  expect(seen.length).toBeGreaterThan(0);
  const plans = await Promise.all(seen.map(({ sql, values }) => database.sql(`${explain} ${sql}`, [...values])));
  return plans.flat().map((row) => Object.values(row as object)[0]).join("\n"); // biome-ignore format: one line
}

test("B1 a page reads no table from end to end, whatever is asked", async () => {
  const store = await database.open({ schema, clock: () => 1_000 });
  for (const filter of FILTERS) {
    const plan = await plansOf(() => store.list({ ...filter, limit: 20 }));
    expect(plan, JSON.stringify(filter)).not.toMatch(/Seq Scan on (runs|attributes|executions)/);
    expect(plan, JSON.stringify(filter)).toMatch(/Index (Only )?Scan/);
  }
});
test("B2 a count reads no table from end to end, unless it counts a good part of it", async () => {
  const store = await database.open({ schema, clock: () => 1_000 });
  for (const filter of FILTERS) {
    // These are a quarter of all runs, and all of them: a scan that stops at 10,000 is cheaper.
    if (Array.isArray(filter.workflow) || Object.keys(filter).length === 0) continue;
    const plan = await plansOf(() => store.count(filter));
    expect(plan, JSON.stringify(filter)).not.toMatch(/Seq Scan on (runs|attributes)/);
  }
});
test("B2 a count looks at 10,001 open runs of a status at most, and finds them by index", async () => {
  const own = database.newSchema();
  const store = await database.open({ schema: own, clock: () => 1_000 });
  await database.sql(`INSERT INTO "${own}".runs (key, id, status, created_at, workflow, lane, priority, queue)
    SELECT i, 'r' || i, CASE WHEN i % 10 = 0 THEN 'pending' ELSE 'sleeping' END, i, 'w', 1, 0, 'default' FROM generate_series(1, ${MANY}) i`);
  await database.sql(`VACUUM ANALYZE "${own}".runs`);
  expect(await store.count({})).toMatchObject({ pending: 4_000, sleeping: 10_000, running: 0, capped: ["sleeping"] });
  const rows = await plansOf(() => store.count({}), "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF)");
  const read = Array.from(
    rows.matchAll(/ on runs .*actual rows=([\d.]+) loops=(\d+)/g),
    ([, count, loops]) => Number(count) * Number(loops),
  );
  expect(read.length).toBeGreaterThan(0);
  expect(read.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(4_000 + 10_001);
});
test("B1 a page of one attribute is read in the order of its index", async () => {
  const store = await database.open({ schema, clock: () => 1_000 });
  const plan = await plansOf(() => store.list({ attributes: { region: "eu" }, limit: 20 }));
  expect(plan).toMatch(/Index Only Scan Backward using attributes_by_string/);
});
test("B1 the rows of attributes are those of the run, and go with it", async () => {
  const own = database.newSchema();
  const clock = { time: 1_000 };
  const store = await database.open({ schema: own, clock: () => clock.time, retention: 1_000 });
  const indexed = (): Promise<unknown[]> =>
    database.sql(`SELECT a.name, a.type, coalesce(a.string, a.number::text) AS value FROM "${own}".attributes a ORDER BY 1`);
  await store.create([newRun("plain"), newRun("a", { attributes: { b: true, n: 1.5, s: "x" } })]);
  expect(await indexed()).toEqual([
    { name: "b", type: "boolean", value: "1" },
    { name: "n", type: "number", value: "1.5" },
    { name: "s", type: "string", value: "x" },
  ]);
  const held = await running(store, "c", { attributes: { n: 1 } });
  await store.commit([draft(held, { turn: turnOf(held), attributes: { n: "1" } })]);
  await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
  expect(await indexed()).toContainEqual({ name: "n", type: "string", value: "1" });
  await store.terminate([{ runId: "a", reason: undefined }]);
  clock.time += 10_000;
  await store.expire();
  expect(await store.retire()).toBe(2);
  expect(await indexed()).toEqual([]);
});
