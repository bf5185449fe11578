// A network that falls silent: no answer, no error, no end. Nothing waits forever, nothing is lost, and nothing stays locked.

import { jsonCodec } from "@holdfast/core";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { PostgresStoreOptions, PostgresTransaction } from "../src/index.ts";
import { canOwnServers } from "./server/index.ts";
import { COMPLETED, draft, type Held, inboxOf, newRun, running, signal, type TestStore, turnOf, until, useDatabase } from "./support.ts";
import { Wire } from "./wire.ts";

const database = useDatabase();
const COMMITTED = [{ status: "committed" }];
const value = jsonCodec.encode("bought");
/** The timeout of calls that are to be abandoned; those that follow have enough time. */
const SOON = 700;

let schema = "";
let wire: Wire;
let url = "";
beforeEach(async () => {
  schema = database.newSchema();
  const through = await Wire.to(database.url);
  ({ wire, url } = through);
  onTestFinished(() => through.wire.close());
  await database.open({ schema, listen: false }); // making the schema may take longer than answers do here
});
const open = (more: Partial<PostgresStoreOptions> = {}): Promise<TestStore> =>
  database.open({ connectionString: url, schema, noAnswer: SOON, ...more });
/** Sessions of the store that wait for a lock, or keep a transaction open. */
const busy = (): Promise<{ pid: number }[]> =>
  database.sql(
    `SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database()
       AND (wait_event_type = 'Lock' OR state LIKE 'idle in transaction%')`,
  );
const commit = (store: TestStore, held: Held) => store.commit([draft(held, { turn: turnOf(held), seen: 0 })]);

describe("a call", () => {
  test("D2 that is not answered is asked again, though its patience is over by then", async () => {
    const store = await open({ patience: 1 });
    const held = await running(store, "a");
    await commit(store, held);
    wire.muteAt("send_messages_1");
    expect(await store.send([{ runId: "a", message: { job: signal("s1") } }])).toMatchObject([{ status: "sent" }]);
    wire.muteAt("send_messages_1", { answered: true });
    expect(await store.send([{ runId: "a", message: { job: signal("s2") } }])).toMatchObject([{ status: "sent" }]);
    expect((await inboxOf(store, held)).length).toBe(2);
  });
  test("D2 the same of a turn, on the connection that turns share", async () => {
    const store = await open({ patience: 1 });
    const held = await running(store, "a");
    for (const _ of [1, 2]) expect(await commit(store, held)).toMatchObject(COMMITTED);
    wire.fallSilent();
    const committing = commit(store, held);
    wire.recover();
    expect(await committing).toMatchObject(COMMITTED);
    expect((await store.history("a")).map(({ index }) => index)).toEqual([0, 1, 2]);
  });
  test("D3 that was abandoned locks no row: its session is ended, and its name is not used again", async () => {
    const store = await open({ patience: 1 });
    await running(store, "a");
    await running(store, "b");
    const holder = await database.client();
    await holder.query("BEGIN");
    await holder.query(`SELECT 1 FROM "${schema}".runs WHERE id = 'a' FOR UPDATE`);
    await expect(store.terminate([{ runId: "a", reason: undefined }])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    await until(async () => (await busy()).length === 0, "the end of the abandoned call");
    // On another name: the abandoned call may still reach the server.
    const before = await names();
    expect(await store.terminate([{ runId: "b", reason: undefined }])).toMatchObject([{ status: "sent" }]);
    expect(await names()).toEqual(before + 1);
    await holder.query("ROLLBACK");
    expect((await store.get(["a"]))[0]?.status).toBe("running");
  });
  test("D2 that the url has given a limit is abandoned with its connection: no other call follows it there", async () => {
    const limited = new URL(url);
    limited.searchParams.set("query_timeout", String(SOON));
    const store = await open({ connectionString: limited.href, noAnswer: undefined, patience: 1, connections: 1 });
    const held = await running(store, "a");
    const holder = await database.client();
    await holder.query("BEGIN");
    await holder.query(`SELECT 1 FROM "${schema}".runs WHERE id = 'a' FOR UPDATE`);
    await expect(store.terminate([{ runId: "a", reason: undefined }])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    expect((await store.get(["a"]))[0]?.status).toBe("running");
    await until(async () => (await busy()).length === 0, "the end of the abandoned call");
    await holder.query("ROLLBACK");
    expect(await commit(store, held)).toMatchObject(COMMITTED);
  });
  const names = async (): Promise<number> => (await database.sql(`SELECT 1 FROM "${schema}".calls`)).length;
});

describe("a transaction step", () => {
  let store: TestStore;
  let held: Held;
  let table = "";
  let runs = 0;
  beforeEach(async () => {
    store = await open();
    held = await running(store, "a");
    table = `of_${schema}`;
    await database.sql(`CREATE TABLE ${table} (what text)`);
    runs = 0;
  });
  const step = (more: () => void = () => undefined) =>
    store.transact({ ...held, seq: 5 }, async (tx) => {
      runs++;
      await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ('lamp')`);
      more();
      return value;
    });
  const bought = async (): Promise<number> => (await database.sql(`SELECT 1 FROM ${table}`)).length;

  test.each(["BEGIN", 'FROM "$s".runs WHERE id'])("D6 begins again when %s is not answered", async (text) => {
    wire.muteAt(text.replace("$s", schema));
    expect(await step()).toMatchObject({ job: { type: "resolve", seq: 5 } });
    expect([runs, await bought()]).toEqual([1, 1]);
    expect(wire.silent).toBe(1);
  });
  test("D6 is taken back when its end is not answered, and keeps no lock", async () => {
    wire.muteAt("finish_transaction_1", { answered: true });
    await expect(step()).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE", retryable: true });
    await until(async () => (await busy()).length === 0, "the end of the transaction");
    expect(await commit(store, held)).toMatchObject(COMMITTED);
    expect([await bought(), (await inboxOf(store, held)).length]).toEqual([0, 0]);
  });
  test.each([true, false])("D6 finds out what became of a COMMIT that is not answered (it arrives: %s)", async (answered) => {
    wire.muteAt("COMMIT\0", { answered }); // not what is READ COMMITTED
    const [settled] = await Promise.allSettled([step()]);
    expect(settled).toMatchObject(
      answered ? { value: { job: { type: "resolve", seq: 5 } } } : { reason: { code: "HF_STORE_UNAVAILABLE", retryable: true } },
    );
    const times = answered ? 1 : 0;
    expect([await bought(), (await inboxOf(store, held)).length]).toEqual([times, times]);
  });
  test("D6 finds out what became of a COMMIT, though the server is away for longer than patience lasts", async () => {
    store = await open({ patience: 1 });
    wire.muteAt("COMMIT\0", { answered: true });
    const ending = step(() => void until(() => wire.silent > 0, "COMMIT").then(() => wire.fallSilent()));
    await until(() => wire.silent > 3, "more failed tries"); // of the fate, at least
    wire.recover();
    expect(await ending).toMatchObject({ job: { type: "resolve", seq: 5 } });
    expect([runs, await bought(), (await inboxOf(store, held)).length]).toEqual([1, 1, 1]);
  }, 30_000);
  test("D6 that throws is over, though ROLLBACK is not answered", async () => {
    wire.muteAt("ROLLBACK");
    const thrown = new Error("no lamp");
    const failing = step(() => {
      throw thrown;
    });
    await expect(failing).rejects.toBe(thrown);
    await until(async () => (await busy()).length === 0, "the end of the transaction");
    expect(await bought()).toBe(0);
  });
});

if (canOwnServers) {
  describe("a server whose standby has fallen silent", () => {
    const own = useDatabase({ own: true });
    test("D2 a call is not taken for carried out until the standby has it, though it was abandoned", async () => {
      const named = new URL(own.url);
      named.searchParams.set("options", "-c synchronous_commit=on");
      await own.open({ schema });
      const store = await own.open({ connectionString: named.href, schema, noAnswer: SOON, patience: 1, listen: false });
      await store.create([newRun("a"), newRun("b")]);
      const waits = () => own.sql<{ pid: number }>("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
      await own.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
      await own.sql("SELECT pg_reload_conf()");
      // It is so once a call waits.
      const probe = await own.client();
      await probe.query("SET synchronous_commit = on");
      let isSilent = false;
      const probing = (async () => {
        while (!isSilent) await probe.query(`COMMENT ON SCHEMA "${schema}" IS 'asked'`);
      })();
      await until(async () => (await waits()).length > 0, "one that waits for the standby");
      isSilent = true;
      await expect(store.create([newRun("c"), newRun("d")])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
      expect((await waits()).length).toBe(2);
      expect(await own.sql(`SELECT 1 FROM "${schema}".runs WHERE id = 'c'`)).toEqual([]);
      await own.sql("ALTER SYSTEM RESET synchronous_standby_names");
      await own.sql("SELECT pg_reload_conf()");
      await probing;
      await until(async () => (await store.get(["c"]))[0], "the end of the abandoned call");
    }, 30_000);
  });
}

describe("who listens", () => {
  const listens = (): number => wire.statements.filter((sql) => sql.startsWith("LISTEN")).length;
  /** Names runs that have ended elsewhere: polling does not. */
  async function hears(store: TestStore): Promise<void> {
    const other = await database.open({ schema });
    const ended: string[] = [];
    store.watch((wakeup) => ended.push(...(wakeup.ended ?? [])));
    let runs = 0;
    await until(async () => {
      const held = await running(other, `r${++runs}`);
      await other.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
      return ended.length > 0;
    }, "news from elsewhere");
  }
  test("W1 hears once it can, if LISTEN was not answered at first", async () => {
    wire.muteAt("LISTEN");
    const store = await open();
    await until(() => listens() === 2, "another try");
    await hears(store);
  });
  test("W1 hears again, when the connection has fallen silent unnoticed", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const store = await open();
    wire.fallSilent();
    wire.recover();
    vi.advanceTimersByTime(20_000);
    await until(() => listens() === 2, "another connection");
    vi.useRealTimers();
    await hears(store);
  });
});

describe("opening and closing", () => {
  test.each(["pg_tables", "CREATE SCHEMA", "LISTEN"])("opening goes on when %s is not answered", async (text) => {
    wire.muteAt(text);
    const store = await open({ schema: text === "CREATE SCHEMA" ? database.newSchema() : schema });
    expect(wire.silent).toBe(1);
    expect(await store.create([newRun("a")])).toMatchObject([{ status: "created" }]);
  });
  test("closing ends, with calls and a transaction under way that are never answered", async () => {
    const store = await open({ patience: 1 });
    const held = await running(store, "a");
    await commit(store, held);
    let isBegun = false;
    const working = store.transact({ ...held, seq: 5 }, async (tx) => {
      isBegun = true;
      await (tx as PostgresTransaction).query("SELECT pg_sleep(600)");
      return value;
    });
    const ended = expect(working).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
    await until(() => isBegun, "the transaction");
    wire.fallSilent();
    const calling = store.get(["a"]).catch(() => undefined);
    await store.close();
    await ended;
    await calling;
  });
  test("closing ends, though the function of a transaction never does", async () => {
    const store = await open();
    const held = await running(store, "a");
    let isBegun = false;
    void store.transact({ ...held, seq: 5 }, () => {
      isBegun = true;
      return new Promise<never>(() => undefined);
    });
    await until(() => isBegun, "the transaction");
    await store.close();
  });
});

test("D3 what was abandoned in an outage that outlasts all patience is ended once the server can be reached again", async () => {
  const store = await open({ patience: SOON, listen: false });
  const held = await running(store, "a");
  let go = (): void => {};
  const goes = new Promise<void>((resolve) => {
    go = resolve;
  });
  const step = store.transact({ runId: "a", epoch: held.epoch, seq: 1 }, async (tx) => {
    await (tx as PostgresTransaction).query("SELECT 1");
    wire.fallSilent();
    go();
    return value;
  });
  await goes;
  await expect(step).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
  // Until nothing tries any more on behalf of that call.
  await expect(store.get(["a"])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
  await expect(store.get(["a"])).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE" });
  expect(await busy()).toHaveLength(1);
  wire.recover();
  await until(async () => (await busy()).length === 0);
}, 60_000);
