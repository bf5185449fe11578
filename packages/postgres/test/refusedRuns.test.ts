// What the server refuses, call by call: nothing of a call that is refused is written.

import { jsonCodec } from "@holdfast/core";
import { StoreError, StoreRefusedError } from "holdfast/store";
import { expect, test } from "vitest";
import { COMPLETED, draft, newRun, range, running, turnOf, useDatabase } from "./support.ts";

const database = useDatabase();

/** A store that refuses rows of this table that belong to a run whose id begins with "bad". */
async function refusing(table: "records" | "executions" | "inbox" | "attempts" | "tasks", raise = "RAISE EXCEPTION 'not this one'") {
  const schema = database.newSchema();
  const store = await database.open({ schema });
  await database.sql(
    `CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF (SELECT id FROM ${schema}.runs WHERE key = NEW.run) LIKE 'bad%' THEN ${raise}; END IF; RETURN NEW;
     END $$`,
  );
  await database.sql(`CREATE TRIGGER refuse BEFORE INSERT ON ${schema}.${table} FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse()`);
  return { store, schema };
}
async function failureOf(work: Promise<unknown>): Promise<StoreError> {
  const failure = await work.catch((error: unknown) => error);
  if (!(failure instanceof StoreError)) throw new Error(`not a StoreError: ${String(failure)}`);
  return failure;
}

test.each([
  ["P0001", "RAISE EXCEPTION 'no'"],
  ["23514", "RAISE EXCEPTION 'no' USING ERRCODE = '23514'"],
  ["22003", "PERFORM 2147483647 + 1"],
  ["22P05", "RAISE EXCEPTION 'no' USING ERRCODE = '22P05'"],
  ["54000", "RAISE EXCEPTION 'no' USING ERRCODE = '54000'"],
  ["53400", "RAISE EXCEPTION 'no' USING ERRCODE = '53400'"],
])("D2 SQLSTATE %s is a refusal, and nothing of the call is written", async (code, raise) => {
  const { store, schema } = await refusing("records", raise);
  const held = [await running(store, "good"), await running(store, "bad")];
  const failure = await failureOf(store.commit(held.map((run) => draft({ ...run }, { turn: turnOf({ ...run }) }))));
  expect(failure).toBeInstanceOf(StoreRefusedError);
  expect(failure).toMatchObject({ code: "HF_STORE_REFUSED", retryable: false, fault: "refused", cause: { code } });
  expect(failure.message).toContain(`(SQLSTATE ${code})`);
  expect(await database.sql(`SELECT 1 FROM ${schema}.records`)).toEqual([]);
  const [good] = held;
  if (good !== undefined)
    expect(await store.commit([draft(good, { turn: turnOf(good), ...COMPLETED })])).toMatchObject([{ status: "committed" }]);
});

test.each([
  ["57014", "HF_STORE_FAILED"],
  ["53100", "HF_STORE_FULL"],
  ["53200", "HF_STORE_FAILED"],
  ["42501", "HF_STORE_DENIED"],
  ["42P01", "HF_STORE_MOVED"],
])("V4 SQLSTATE %s is none: it may pass, or it is not the run that is at fault", async (sqlState, code) => {
  const { store } = await refusing("records", `RAISE EXCEPTION 'no' USING ERRCODE = '${sqlState}'`);
  const bad = await running(store, "bad");
  expect((await failureOf(store.commit([draft(bad, { turn: turnOf(bad) })]))).code).toBe(code);
});

test("D2 D3 what is too large for an index of the server is refused for its run alone", async () => {
  const { store } = await refusing("tasks");
  // Neither compressible nor short: an index row has no room for it.
  const key = range(2_000).map((i) => ((i * 2_654_435_761) % 4_294_967_291).toString(36)).join(""); // biome-ignore format: one line
  const failure = await failureOf(store.create([newRun("good"), newRun("large", { idempotencyKey: key })]));
  expect(failure).toMatchObject({ code: "HF_STORE_REFUSED", cause: { code: "54000" } });
  expect(await store.create([newRun("good")])).toMatchObject([{ status: "created" }]);
  expect((await store.get(["good", "large"])).map((row) => row?.input)).toEqual([jsonCodec.encode("good"), undefined]);
});
