// Retention: closed runs go when their time is over, with all that belongs to them, and stay in the archive if it is asked for.

import { jsonCodec } from "@holdfast/core";
import { expect, test } from "vitest";
import { COMPLETED, draft, newRun, range, running, signal, type TestStore, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();
const DAY = 86_400_000;
const value = jsonCodec.encode({ amount: 12 });
const RETRY = { maxAttempts: 3, initialInterval: 1, backoff: 1, maxInterval: 1, jitter: 0 };

async function open(more: object = {}): Promise<{ store: TestStore; schema: string; clock: { time: number } }> {
  const schema = database.newSchema();
  const clock = { time: 1_000 * DAY };
  const store = await database.open({ schema, clock: () => clock.time, retention: 30 * DAY, ...more });
  return { store, schema, clock };
}
/** What is due is found where deadlines are looked at. */
async function retire(store: TestStore): Promise<number> {
  await store.expire();
  return store.retire();
}
/** A run that leaves something in every table there is. */
async function closed(store: TestStore, id: string, more: Parameters<typeof newRun>[1] = {}): Promise<void> {
  const held = await running(store, id, { idempotencyKey: `start ${id}`, ...more });
  await store.send([{ runId: id, message: { job: signal("s1"), idempotencyKey: "k" } }]);
  await store.send([{ runId: id, message: { job: { type: "update", id: "u1", name: "x", input: value } } }]);
  await store.commit([
    draft(held, {
      turn: turnOf(held),
      state: value,
      attempts: [{ seq: 1, number: 1, status: "failed", startedAt: 1, workerId: "w1" }],
      tasks: [{ seq: 2, activity: "mail", queue: "t", input: value, retry: RETRY, location: "x" }],
    }),
  ]);
  await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
}
async function rows(schema: string): Promise<number> {
  const tables = ["runs", "executions", "states", "records", "inbox", "message_keys", "updates", "attempts", "tasks"];
  const [row] = await database.sql<{ count: number }>(
    `SELECT (${tables.map((table) => `(SELECT count(*) FROM "${schema}".${table})`).join(" + ")})::int AS count`,
  );
  return row?.count ?? -1;
}

test("closed runs stay forever unless a retention is given", async () => {
  const { store, clock } = await open({ retention: undefined });
  await closed(store, "a");
  clock.time += 10_000 * DAY;
  expect(await retire(store)).toBe(0);
  expect((await store.get(["a"]))[0]?.status).toBe("completed");
});

test("a closed run goes with all that belongs to it once its time is over, and not before", async () => {
  const { store, schema, clock } = await open();
  await closed(store, "a");
  clock.time += 30 * DAY;
  expect(await retire(store)).toBe(0);
  await closed(store, "b");
  const open_ = await running(store, "c");
  clock.time += 1;
  expect([await retire(store), await retire(store)]).toEqual([1, 0]);
  expect((await store.get(["a", "b", "c"])).map((row) => row?.status)).toEqual([undefined, "completed", "running"]);
  clock.time += 31 * DAY;
  await store.commit([draft(open_, COMPLETED)]);
  expect(await retire(store)).toBe(1);
  clock.time += 31 * DAY;
  expect(await retire(store)).toBe(1);
  expect(await rows(schema)).toBe(0);
});

test("M3 with a run go its keys: the same start is a new run then", async () => {
  const { store, clock } = await open();
  await closed(store, "a");
  expect(await store.create([newRun("x", { idempotencyKey: "start a" })])).toMatchObject([{ status: "existing", id: "a" }]);
  clock.time += 31 * DAY;
  await retire(store);
  expect(await store.create([newRun("x", { idempotencyKey: "start a" })])).toMatchObject([{ status: "created", id: "x" }]);
});

test("a closed child stays as long as its parent is open, however long the way to others is", async () => {
  const { store, clock } = await open();
  const parent = await running(store, "p");
  const link = { runId: "p", execution: 1, seq: 1, parentClose: "abandon", announce: false } as const;
  for (const i of range(150)) await store.create([newRun(`child ${i}`, { parent: link })]);
  await store.terminate(range(150).map((i) => ({ runId: `child ${i}`, reason: undefined })));
  clock.time += 1;
  await closed(store, "other");
  clock.time += 31 * DAY;
  expect(await retire(store)).toBe(1);
  expect(await store.get(["other"])).toEqual([undefined]);
  expect((await store.count({})).terminated).toBe(150);
  await store.commit([draft(parent, COMPLETED)]);
  let gone = 0;
  for (let count = await retire(store); count > 0; count = await retire(store)) gone += count;
  expect(gone).toBe(150);
});

test("many go in small batches, and several processes at it do not get in each other's way", async () => {
  const { store, schema, clock } = await open();
  const ids = range(450).map((i) => `r${i}`);
  await store.create(ids.map((id) => newRun(id)));
  await store.terminate(ids.map((runId) => ({ runId, reason: undefined })));
  clock.time += 31 * DAY;
  const other = await database.open({ schema, clock: () => clock.time, retention: 30 * DAY });
  const all = async (one: TestStore): Promise<number> => {
    let gone = 0;
    for (let count = await retire(one); count > 0; count = await retire(one)) {
      expect(count).toBeLessThanOrEqual(100);
      gone += count;
    }
    return gone;
  };
  const [here, there] = await Promise.all([all(store), all(other)]);
  expect(here + there + (await all(store))).toBe(450);
  expect(await rows(schema)).toBe(0);
});

test("archive=on keeps each as one row: the run as JSON, and its history", async () => {
  const { store, schema, clock } = await open({ archive: true });
  await closed(store, "a", { attributes: { customer: "c1" } });
  clock.time += 31 * DAY;
  expect(await retire(store)).toBe(1);
  const archived =
    await database.sql(`SELECT run_id, workflow, status, run ->> 'input' AS input, run ->> 'state' AS state, run ->> 'output' AS output,
    json_array_length(history) AS records, history -> 0 ->> 'name' AS step FROM "${schema}".archive`);
  expect(archived).toEqual([
    {
      run_id: "a",
      workflow: "order",
      status: "completed",
      input: jsonCodec.encode("a"),
      state: value,
      output: jsonCodec.encode("done"),
      records: 2,
      step: "step-0",
    },
  ]);
  expect(await rows(schema)).toBe(0);
});

test("D3 a closed run that can't be deleted stops no other run from being deleted, and the call at the end says so", async () => {
  const { store, schema, clock } = await open();
  for (const id of ["a", "bad1", "b", "bad2", "c"]) await closed(store, id);
  await database.sql(
    `CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF OLD.id LIKE 'bad%' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN OLD;
     END $$`,
  );
  await database.sql(`CREATE TRIGGER refuse BEFORE DELETE ON ${schema}.runs FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse()`);
  clock.time += 31 * DAY;
  expect(await retire(store)).toBe(3);
  await expect(retire(store)).rejects.toMatchObject({ code: "HF_STORE_REFUSED" });
  expect((await store.list({ limit: 10 })).runs.map(({ id }) => id).toSorted()).toEqual(["bad1", "bad2"]);
  await database.sql(`DROP FUNCTION ${schema}.refuse() CASCADE`);
  expect([await retire(store), await retire(store)]).toEqual([2, 0]);
});

test("D3 a hundred closed runs that can't be deleted stop none of those behind them", async () => {
  const { store, schema, clock } = await open();
  const old = range(110).map((i) => `bad${i}`);
  await store.create([...old, "a"].map((id) => newRun(id)));
  await database.sql(
    `UPDATE ${schema}.runs SET status = 'completed', ended_as = 'completed', available_at = NULL, finished_at = $1, remove_at = $1::bigint + (id = 'a')::integer`,
    [clock.time],
  );
  await database.sql(
    `CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF OLD.id LIKE 'bad%' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN OLD;
     END $$`,
  );
  await database.sql(`CREATE TRIGGER refuse BEFORE DELETE ON ${schema}.runs FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse()`);
  clock.time += 31 * DAY;
  expect(await retire(store)).toBe(1);
  await expect(retire(store)).rejects.toMatchObject({ code: "HF_STORE_REFUSED" });
});
