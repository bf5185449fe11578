// Ticks beside other transactions, and what the look for due schedules reads.

import type { Overlap, ScheduleState, Tick } from "holdfast/store";
import type { Client } from "pg";
import { expect, test } from "vitest";
import type { PostgresStore } from "../src/index.ts";
import { newRun, useDatabase } from "./support.ts";

const database = useDatabase();
const TICK = 1_000_000;

interface Bench {
  readonly store: PostgresStore;
  readonly schema: string;
}
async function bench(...ids: string[]): Promise<Bench> {
  const schema = database.newSchema();
  const store = await database.openBare({ schema, clock: () => TICK });
  for (const id of ids) await store.changeSchedule({ id, before: undefined, after: state(TICK) });
  return { store, schema };
}
const state = (tick: number, spec = "{}"): ScheduleState => ({ revision: "one", spec, isPaused: false, tick, dueAt: tick });
function tickOf(schedule: string, at = TICK, overlap: Overlap = "skip"): Tick {
  const run = { ...newRun(`${schedule}@${at}`, { schedule }), tick: at };
  return { schedule, revision: "one", replaces: at, missed: 0, run, overlap, next: at + 1, nextDueAt: at + 1 };
}
async function lock({ schema }: Bench, table: "schedules" | "runs", id: string): Promise<Client> {
  const client = await database.client();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM ${schema}.${table} WHERE id = $1 FOR UPDATE`, [id]);
  return client;
}

test("T1 D3 a schedule that another transaction has locked is busy, with all its ticks; others tick", async () => {
  const here = await bench("a", "b", "c");
  const client = await lock(here, "schedules", "b");
  const ticks = [tickOf("a"), tickOf("b"), tickOf("b", TICK + 1), tickOf("c"), tickOf("unknown")];
  expect(await here.store.tick(ticks)).toEqual(["started", "busy", "busy", "started", "lost"]);
  await client.query("ROLLBACK");
  expect(await here.store.tick([tickOf("b"), tickOf("b", TICK + 1, "allow")])).toEqual(["started", "started"]);
});

test.each(["queue", "cancel-previous"] as const)(
  "T6 D3 %s: a tick is busy while another transaction has the run before locked",
  async (overlap) => {
    const here = await bench("a", "b");
    expect(await here.store.tick([tickOf("a"), tickOf("b")])).toEqual(["started", "started"]);
    const client = await lock(here, "runs", `a@${TICK}`);
    const next = [tickOf("a", TICK + 1, overlap), tickOf("b", TICK + 1, overlap)];
    expect(await here.store.tick(next)).toEqual(["busy", "started"]);
    expect(await here.store.tick(next, true)).toEqual(["busy", "lost"]);
    await client.query("ROLLBACK");
    expect(await here.store.tick(next)).toEqual(["started", "lost"]);
    expect((await here.store.get([`a@${TICK + 1}`]))[0]).toMatchObject({ after: `a@${TICK}` });
  },
);

test("T6 skip and allow wait for no lock on the run before", async () => {
  const here = await bench("a", "b");
  await here.store.tick([tickOf("a"), tickOf("b")]);
  await lock(here, "runs", `a@${TICK}`);
  await lock(here, "runs", `b@${TICK}`);
  expect(await here.store.tick([tickOf("a", TICK + 1, "skip"), tickOf("b", TICK + 1, "allow")])).toEqual(["skipped", "started"]);
});

test("T2 a look reads no more of large specs than an answer should have, and one in any case", async () => {
  const { store } = await bench();
  for (const id of ["a", "b", "c"])
    await store.changeSchedule({ id, before: undefined, after: state(TICK, JSON.stringify("x".repeat(9_000_000))) });
  const found = async (): Promise<string[]> => (await store.expire()).schedules.map(({ id }) => id);
  expect(await found()).toEqual(["a"]);
  await store.tick([tickOf("a")]);
  expect(await found()).toEqual(["b"]);
});

test("T2 100,000 idle schedules: the look for due ones reads an index that has only their times", async () => {
  const { store, schema } = await bench("due");
  await database.sql(
    `INSERT INTO ${schema}.schedules (id, revision, spec, paused, tick, due_at) SELECT 'idle' || i, 'r', '{}', false, ${TICK} + i, ${TICK} + i FROM generate_series(1, 100000) i`,
  );
  await database.sql(`ANALYZE ${schema}.schedules`);
  expect((await store.expire()).schedules.map(({ id }) => id)).toEqual(["due"]);
  const plan = await database.sql(
    `EXPLAIN SELECT * FROM ${schema}.schedules WHERE due_at <= ${TICK} AND due_at IS NOT NULL ORDER BY due_at LIMIT 500`,
  );
  expect(JSON.stringify(plan)).toContain("Index Scan using schedules_due");
});
