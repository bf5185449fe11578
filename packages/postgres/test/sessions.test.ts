// Sessions: what a role, a user's function or a failover makes of them, and what is left for the next user of the connection.

import dns from "node:dns";
import { FatalError, jsonCodec } from "@holdfast/core";
import { Client } from "pg";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { isLost } from "../src/connection/serverErrors.ts";
import type { PostgresStoreOptions, PostgresTransaction } from "../src/index.ts";
import { Bouncer } from "./bouncer.ts";
import { claim, draft, type Held, inboxOf, newRun, range, running, signal, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
const COMMITTED = [{ status: "committed" }];
const value = jsonCodec.encode("bought");
let schema = "";
beforeEach(() => {
  schema = database.newSchema();
});
const commit = (store: TestStore, held: Held) => store.commit([draft(held, { turn: turnOf(held), seen: 0 })]);

/** A setting of the database, for sessions that begin now; until it is reset, or the test is over. */
async function setting(name: string, to: string): Promise<() => Promise<unknown>> {
  const client = await database.client(); // of the time before
  const { rows } = await client.query<{ name: string }>("SELECT quote_ident(current_database()) AS name");
  await client.query(`ALTER DATABASE ${rows[0]?.name} SET ${name} = '${to}'`);
  const reset = (): Promise<unknown> => client.query(`ALTER DATABASE ${rows[0]?.name} RESET ${name}`);
  onTestFinished(async () => {
    const last = new Client({ connectionString: database.url });
    await last.connect();
    await last.query(`SET default_transaction_read_only = off`);
    await last.query(`ALTER DATABASE ${rows[0]?.name} RESET ${name}`);
    await last.end();
  });
  return reset;
}
const pids = async (): Promise<number[]> => {
  const sessions = await database.sql<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database() AND query NOT LIKE 'LISTEN%'",
  );
  return sessions.map(({ pid }) => pid);
};

describe.each(["serializable", "repeatable read"])("a role whose transactions are %s by default", (level) => {
  /** Nothing is written to runs but in READ COMMITTED. */
  async function guard(): Promise<void> {
    await database.sql(`CREATE FUNCTION "${schema}".guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF current_setting('transaction_isolation') <> 'read committed' THEN RAISE 'written in %', current_setting('transaction_isolation'); END IF;
      RETURN NEW; END $$`);
    await database.sql(
      `CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON "${schema}".runs FOR EACH ROW EXECUTE FUNCTION "${schema}".guard()`,
    );
  }
  test.each(["directly", "behind a pooler"])("D3 calls are carried out in READ COMMITTED, %s", async (how) => {
    await setting("default_transaction_isolation", level);
    const through = how === "directly" ? undefined : await Bouncer.before(database.url, 3);
    onTestFinished(() => through?.bouncer.close());
    const store = await database.open({ schema, ...(through !== undefined && { connectionString: through.url, listen: false }) });
    await guard();
    const held = await running(store, "a");
    for (const _ of range(3)) expect(await commit(store, held)).toMatchObject(COMMITTED);
    expect(await store.send([{ runId: "a", message: { job: signal("s1") } }])).toMatchObject([{ status: "sent" }]);
    expect(await store.create([newRun("a")])).toMatchObject([{ status: "conflict" }]);
    expect(await store.terminate([{ runId: "a", reason: undefined }])).toMatchObject([{ status: "sent" }]);
  });
  test("D6 a transaction step ends well, though its run has gone on meanwhile", async () => {
    await setting("default_transaction_isolation", level);
    const store = await database.open({ schema });
    const held = await running(store, "a");
    const message = await store.transact({ ...held, seq: 5 }, async (tx) => {
      await (tx as PostgresTransaction).query("SELECT 1");
      await store.send([{ runId: "a", message: { job: signal("s1") } }]);
      expect(await commit(store, held)).toMatchObject(COMMITTED);
      return value;
    });
    expect((await inboxOf(store, held)).at(-1)).toEqual(message);
  });
  test("of several that open a new schema at once, one makes it and the others find it", async () => {
    await setting("default_transaction_isolation", level);
    const holder = await database.client();
    await holder.query("BEGIN");
    await holder.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`holdfast migrations of ${schema}`]);
    const opening = Promise.all(range(3).map(() => database.open({ schema })));
    await until(
      async () => (await database.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")).length === 3,
      "three that wait",
    );
    await holder.query("ROLLBACK");
    expect((await opening).length).toBe(3);
  });
});

describe("a transaction step", () => {
  let store: TestStore;
  let held: Held;
  let table = "";
  const open = async (more: Partial<PostgresStoreOptions> = {}): Promise<void> => {
    store = await database.open({ schema, connections: 1, ...more });
    held = await running(store, "a");
    table = `of_${schema}`;
    await database.sql(`CREATE TABLE ${table} (what text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`);
  };
  const step = (work: (tx: PostgresTransaction) => Promise<unknown>) =>
    store.transact({ ...held, seq: 5 }, async (tx) => {
      await work(tx as PostgresTransaction);
      return value;
    });
  const bought = async (): Promise<number> => (await database.sql(`SELECT 1 FROM ${table}`)).length;

  test.each([
    ["COMMIT", 1],
    ["COMMIT; BEGIN", 1],
    ["COMMIT AND CHAIN", 1],
    ["ROLLBACK", 0],
    ["ROLLBACK; BEGIN", 0],
    ["ROLLBACK AND CHAIN", 0],
  ])("D6 with a hidden %s fails for good, whether its function returns or throws", async (sql, left) => {
    await open();
    const ending = (what: string) => `INSERT INTO ${table} VALUES ('${what}'); ${sql}`;
    const refused = { code: "HF_STORE_TRANSACTION", retryable: false };
    await expect(step((tx) => tx.query(ending("lamp")))).rejects.toMatchObject(refused);
    const thrown = new Error("no lamp");
    const throwing = step(async (tx) => {
      await tx.query(ending("chair"));
      throw thrown;
    });
    // What was taken back as a whole may be done again.
    if (left > 0) await expect(throwing).rejects.toMatchObject({ ...refused, cause: thrown });
    else await expect(throwing).rejects.toBe(thrown);
    expect([await bought(), (await inboxOf(store, held)).length]).toEqual([2 * left, 0]);
    expect(await step((tx) => tx.query(`INSERT INTO ${table} VALUES ('table')`))).not.toBe("stale");
  });

  test.each(["SELECT 1; ROLLBACK; INSERT", "ROLLBACK; SELECT 1; INSERT"])(
    "D6 what is written behind a hidden ROLLBACK (%s) is there to stay, and the step is not tried again",
    async (sql) => {
      await open();
      const thrown = new Error("no lamp");
      const throwing = step(async (tx) => {
        await tx.query(`SELECT 1; ${sql} INTO ${table} VALUES ('lamp')`);
        throw thrown;
      });
      await expect(throwing).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION", cause: thrown });
      const later = step(async (tx) => {
        await tx.query("SELECT 1; ROLLBACK");
        await tx.query(`INSERT INTO ${table} VALUES ('chair')`);
        throw thrown;
      });
      await expect(later).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION", cause: thrown });
      expect(await bought()).toBe(2);
    },
  );

  test.each([
    ["in its words", new FatalError("The payment server closed the account.")],
    ["in its code", Object.assign(new Error("no such file"), { code: "ENOENT" })],
  ])("D8 an error of its function's own is passed on, though it reads like a lost connection %s", async (_, error) => {
    await open();
    await expect(step(() => Promise.reject(error))).rejects.toBe(error);
  });

  const left = `SELECT current_setting('search_path') || coalesce(current_setting('my.setting', true), '') AS set, current_user::text AS role,
    (SELECT count(*)::integer FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
    (SELECT count(*)::integer FROM pg_listening_channels()) AS channels, to_regclass('mine')::text AS mine,
    (SELECT count(*)::integer FROM pg_cursors WHERE is_holdable) AS cursors,
    (SELECT count(*)::integer FROM pg_prepared_statements WHERE from_sql) AS prepared`;
  const leavings = [
    "SET search_path = nowhere",
    "SELECT set_config('my.setting', 'x', false)",
    "SET ROLE pg_monitor",
    "SELECT pg_advisory_lock(1)",
    "LISTEN somebody",
    "CREATE TEMP TABLE mine (what text)",
    "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
    "PREPARE mine AS SELECT 1",
    "DO $$ BEGIN SET my.setting = 'x'; END $$",
  ];
  test.each(leavings)("leaves nothing of %s to the next one", async (sql) => {
    await open();
    const look = async (): Promise<unknown> => {
      let rows: unknown;
      await step(async (tx) => {
        rows = (await tx.query(left)).rows;
      });
      return rows;
    };
    const before = await look();
    expect(await step((tx) => tx.query(sql))).toMatchObject({ job: { seq: 5 } });
    expect(await look()).toEqual(before);
    const thrown = new Error("no lamp");
    const throwing = step(async (tx) => {
      await tx.query(sql);
      throw thrown;
    });
    await expect(throwing).rejects.toBe(thrown);
    expect(await look()).toEqual(before);
  });
  test("keeps its connection, with the statements that the user has given a name, after a setting was cleared away", async () => {
    await open();
    const seen: unknown[] = [];
    for (const _ of range(3)) {
      await step(async (tx) => {
        await tx.query("SET my.setting = 'x'");
        seen.push((await tx.query({ name: "pid", text: "SELECT pg_backend_pid() AS pid" })).rows[0].pid);
      });
    }
    expect(new Set(seen).size).toBe(1);
  });
  test("D6 that has set something fails with its own error if it can't be committed", async () => {
    await open();
    const twice = step(async (tx) => {
      await tx.query("SET my.setting = 'x'");
      await tx.query(`INSERT INTO ${table} VALUES ('lamp'), ('lamp')`);
    });
    await expect(twice).rejects.toMatchObject({ code: "23505" });
    expect(await bought()).toBe(0);
  });
  test("waits for one of the connections while all are in use, and says so when its patience is over", async () => {
    await open({ patience: 500 });
    let free = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      free = resolve;
    });
    const order: number[] = [];
    const first = step(() => gate);
    await expect(step(async () => undefined)).rejects.toMatchObject({ code: "HF_STORE_BUSY", retryable: true });
    const others = range(3).map((i) =>
      step(async () => {
        order.push(i);
      }),
    );
    free();
    await Promise.all([first, ...others]);
    expect(order).toEqual([0, 1, 2]);
  });
  test.each(["lets the error through", "swallows it"])(
    "D6 on a server that is read-only now leaves its connection; its function %s",
    async (how) => {
      await open({ patience: 1 });
      const reset = await setting("default_transaction_read_only", "on");
      const insert = (tx: PostgresTransaction) => tx.query(`INSERT INTO ${table} VALUES ('lamp')`);
      const failing = step((tx) => (how === "swallows it" ? insert(tx).catch(() => undefined) : insert(tx)));
      await expect(failing).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE", retryable: true });
      await reset();
      expect(await step(insert)).toMatchObject({ job: { seq: 5 } });
      expect(await bought()).toBe(1);
    },
  );
});

test("D2 after a failover none of the connections of before is used again", async () => {
  const store = await database.open({ schema, connections: 5, listen: false });
  await running(store, "a");
  const read = (): Promise<unknown> => Promise.all(range(30).map(() => store.get(["a"])));
  const reset = await setting("default_transaction_read_only", "on");
  await read(); // as good as ever
  const before = await pids();
  await reset();
  await Promise.all(range(10).map((i) => store.create([newRun(`b${i}`), newRun(`c${i}`)])));
  await until(async () => {
    await read();
    return (await pids()).every((pid) => !before.includes(pid));
  }, "new connections");
  expect((await claim(store)).length).toBe(20);
});

test("D2 a host whose name is not known for a moment is waited for, once it was there", async () => {
  const named = new URL(database.url);
  named.hostname = "localhost";
  const store = await database.open({ connectionString: named.href, schema });
  const { lookup } = dns;
  let asked = 0;
  const unknown = vi.spyOn(dns, "lookup").mockImplementation(((...given: Parameters<typeof lookup>) => {
    if (++asked > 2) return lookup(...given);
    const answer = given.at(-1) as unknown as (error: Error) => void;
    answer(Object.assign(new Error("getaddrinfo ENOTFOUND localhost"), { code: "ENOTFOUND" }));
  }) as typeof lookup);
  onTestFinished(() => unknown.mockRestore());
  const ends = (await pids()).map((pid) => `pg_terminate_backend(${pid}, 5000)`);
  await database.sql(`SELECT ${ends.join(", ")}`);
  expect(await store.create([newRun("a")])).toMatchObject([{ status: "created" }]);
  expect(asked).toBeGreaterThan(2);
});

test.each([
  ["XX000", "FATAL", true],
  ["XX000", "PANIC", true],
  ["XX000", "ERROR", false],
  ["57P05", "FATAL", true],
  ["25P03", "FATAL", true],
  ["25P04", "FATAL", true],
  ["25P04", "ВАЖНО", true], // severities are in the language of the server
  ["53300", "FATAL", true],
  ["28P01", "FATAL", false],
  ["3D000", "FATAL", false],
])("%s of severity %s: the connection is lost: %s", (code, severity, lost) => {
  expect(isLost(Object.assign(new Error("said the server"), { code, severity }))).toBe(lost);
});
