// What the server refuses, call by call: nothing of a call that is refused is written, but for the parts that say so, and calls that share
// a round trip do not share their faults.

import { jsonCodec } from "@holdfast/core";
import { StoreError, StoreRefusedError } from "holdfast/store";
import { describe, expect, test } from "vitest";
import { Line } from "../src/line.ts";
import { COMPLETED, draft, inboxOf, newRun, range, running, signal, turnOf, useDatabase } from "./support.ts";

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
  expect(failure).toMatchObject({ code: "HF_STORE_REFUSED", retryable: false, written: [], cause: { code } });
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

test("D2 of a call that goes in several round trips, those that were written before one is refused are told", async () => {
  const { store, schema } = await refusing("executions");
  const runs = range(1_300).map((i) => newRun(i === 1_200 ? "bad" : `good-${i}`));
  const failure = await failureOf(store.create(runs));
  expect(failure).toMatchObject({ code: "HF_STORE_REFUSED" });
  expect(failure.written).toHaveLength(1_000);
  expect(failure.written[999]).toMatchObject({ status: "created", id: "good-999" });
  expect(await database.sql(`SELECT count(*)::integer AS runs FROM ${schema}.runs`)).toEqual([{ runs: 1_000 }]);
});

test("D3 M1 senders that share a round trip do not share their faults, and keep their order", async () => {
  const { store } = await refusing("inbox");
  const good = await running(store, "good");
  await running(store, "bad");
  const send = (runId: string, id: string) => store.send([{ runId, message: { job: signal(id) } }]);
  const sent = await Promise.allSettled(range(40).map((i) => send([5, 6, 39].includes(i) ? "bad" : "good", `s${i}`)));
  expect(sent.flatMap(({ status }, i) => (status === "rejected" ? [i] : []))).toEqual([5, 6, 39]);
  expect(sent[5]).toMatchObject({ reason: { code: "HF_STORE_REFUSED" } });
  const arrived = (await inboxOf(store, good)).map(({ job }) => (job.type === "signal" ? job.id : ""));
  expect(arrived).toEqual(range(40).flatMap((i) => ([5, 6, 39].includes(i) ? [] : [`s${i}`])));
});

describe("a line of calls", () => {
  /** Work that refuses some items, in portions of three. */
  function line(bad: readonly number[], code: "HF_STORE_REFUSED" | "HF_STORE_UNAVAILABLE" = "HF_STORE_REFUSED") {
    const written: number[] = [];
    const calls: number[] = [];
    const locked = new Set<number>();
    const work = async (items: readonly number[]) => {
      calls.push(items.length);
      const results: (string | undefined)[] = [];
      for (let from = 0; from < items.length; from += 3) {
        const portion = items.slice(from, from + 3);
        await Promise.resolve();
        if (portion.some((item) => bad.includes(item) && !locked.has(item))) throw new StoreError("No.", { code, written: results });
        written.push(...portion.filter((item) => !locked.has(item)));
        results.push(...portion.map((item) => (locked.has(item) ? undefined : `r${item}`)));
      }
      return results;
    };
    const made = new Line<number, string>(work, { keyOf: String, patience: 60_000, tooLong: () => new Error("too long") });
    return { made, written, calls, locked };
  }
  test("D2 D3 those that stand aside for a lock, and those that are refused, take no other with them", async () => {
    const { made, written, locked } = line([2, 7, 8]);
    locked.add(0).add(4).add(8);
    const calls = [[0, 1], [2], [3, 4], [5], [6], [7], [8], [9]].map((items) => made.add(items)); // biome-ignore format: one line
    const early = Promise.allSettled(calls);
    await calls[7]; // the others that could be are written by now
    expect(written.sort((a, b) => a - b)).toEqual([1, 3, 5, 6, 9]);
    const behind = [made.add([4, 10]), made.add([7]), made.add([11])];
    const late = Promise.allSettled(behind);
    await behind[2];
    expect(written.sort((a, b) => a - b)).toEqual([1, 3, 5, 6, 9, 10, 11]);
    locked.clear();
    const ended = [...(await early), ...(await late)];
    const told = ended.map((one) => (one.status === "fulfilled" ? one.value : (one.reason as StoreError).code));
    const refused = "HF_STORE_REFUSED";
    expect(told).toEqual([["r0", "r1"], refused, ["r3", "r4"], ["r5"], ["r6"], refused, refused, ["r9"], ["r4", "r10"], refused, ["r11"]]); // biome-ignore format: one line
    expect(written.sort((a, b) => a - b)).toEqual([0, 1, 3, 4, 4, 5, 6, 9, 10, 11]);
  });

  test("D2 D3 nothing is written twice, and who was written in part hears of that part", async () => {
    const { made, written } = line([7]);
    // 0 1 | 2 3 4 5 6 | 7 8 | 9: the portions cut across the calls.
    const calls = [[0, 1], [2, 3, 4, 5, 6], [7, 8], [9]].map((items) => made.add(items)); // biome-ignore format: one line
    const [a, b, c, d] = await Promise.allSettled(calls);
    expect(a).toEqual({ status: "fulfilled", value: ["r0", "r1"] });
    expect(b).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_REFUSED", written: ["r2", "r3", "r4", "r5"] } });
    expect(c).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_REFUSED", written: [] } });
    expect(d).toEqual({ status: "fulfilled", value: ["r9"] });
    expect(written).toEqual([0, 1, 2, 3, 4, 5, 9]);
  });

  test("D3 a server that is away is asked once, for all of them", async () => {
    const { made, written, calls } = line([4], "HF_STORE_UNAVAILABLE");
    const settled = await Promise.allSettled([[0, 1], [2, 3], [4], [5]].map((items) => made.add(items)));
    expect(settled).toMatchObject([
      { status: "fulfilled", value: ["r0", "r1"] },
      { status: "rejected", reason: { code: "HF_STORE_UNAVAILABLE", written: ["r2"] } },
      { status: "rejected", reason: { code: "HF_STORE_UNAVAILABLE", written: [] } },
      { status: "rejected", reason: { code: "HF_STORE_UNAVAILABLE", written: [] } },
    ]);
    expect([written, calls]).toEqual([[0, 1, 2], [6]]);
  });
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
