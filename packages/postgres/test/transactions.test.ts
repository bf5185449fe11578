// Transactions: steps that write to the user's tables, and starts and signals inside of transactions of the user's own.

import { InvalidInputError, jsonCodec } from "@holdfast/core";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import type { Store } from "holdfast/store";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import postgres from "postgres";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PostgresTransaction } from "../src/index.ts";
import { COMPLETED, claim, draft, inboxOf, newRun, running, signal, type TestStore, turnOf, until, useDatabase } from "./support.ts";

const database = useDatabase();
let schema = "";
let store: TestStore;
let table = "";
let tables = 0;
beforeEach(async () => {
  schema = await database.emptySchema();
  store = await database.open({ schema });
  table = `bought_${++tables}`;
  await database.sql(`CREATE TABLE ${table} (what text PRIMARY KEY)`);
});
const bought = async (): Promise<string[]> =>
  (await database.sql<{ what: string }>(`SELECT what FROM ${table} ORDER BY 1`)).map(({ what }) => what);
const value = jsonCodec.encode("bought");

describe("transaction steps", () => {
  test("D6 the user's writes and the outcome are there together", async () => {
    const held = await running(store, "a");
    const message = await store.transact({ ...held, seq: 5 }, async (tx) => {
      await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ($1)`, ["lamp"]);
      return value;
    });
    expect(message).toMatchObject({ job: { type: "resolve", seq: 5, outcome: { status: "completed", value } } });
    expect(await bought()).toEqual(["lamp"]);
    expect(await inboxOf(store, held)).toEqual([message]);
  });

  test("D6 a throw takes the user's writes back and leaves no outcome", async () => {
    const held = await running(store, "a");
    const thrown = new Error("no lamp");
    const work = store.transact({ ...held, seq: 5 }, async (tx) => {
      await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ('lamp')`);
      throw thrown;
    });
    await expect(work).rejects.toBe(thrown);
    expect(await bought()).toEqual([]);
    expect(await inboxOf(store, held)).toEqual([]);
  });

  test("D4 a claim that is lost while the function runs takes the user's writes back", async () => {
    const held = await running(store, "a");
    const result = await store.transact({ ...held, seq: 5 }, async (tx) => {
      await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ('lamp')`);
      await store.terminate([{ runId: "a", reason: undefined }]);
      return value;
    });
    expect(result).toBe("stale");
    expect(await bought()).toEqual([]);
  });

  test("M1 messages, commits and renewals of the run do not wait for the function", async () => {
    const held = await running(store, "a");
    const message = await store.transact({ ...held, seq: 5 }, async (tx) => {
      await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ('lamp')`);
      const [sent] = await store.send([{ runId: "a", message: { job: signal("s1") } }]);
      expect(sent?.status).toBe("sent");
      expect(await store.commit([draft(held, { turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
      expect((await inboxOf(store, held)).length).toBe(1);
      return value;
    });
    expect(message).not.toBe("stale");
    expect((await inboxOf(store, held)).map(({ job }) => job.type)).toEqual(["signal", "resolve"]);
  });

  test("D6 a connection that is lost in the middle takes everything back, and says so", async () => {
    const held = await running(store, "a");
    const work = store.transact({ ...held, seq: 5 }, async (tx) => {
      const { query } = tx as PostgresTransaction;
      await query(`INSERT INTO ${table} VALUES ('lamp')`);
      const { rows } = await query("SELECT pg_backend_pid() AS pid");
      await database.sql("SELECT pg_terminate_backend($1)", [rows[0].pid]);
      await query("SELECT 1");
      return value;
    });
    await expect(work).rejects.toMatchObject({ code: "HF_STORE_UNAVAILABLE", retryable: true });
    expect(await bought()).toEqual([]);
    expect(await inboxOf(store, held)).toEqual([]);
  });

  test("D6 when the answer to COMMIT is lost it is found out what became of it", async () => {
    const held = await running(store, "a");
    const message = await store.transact({ ...held, seq: 5 }, async (tx) => {
      const client = tx as PostgresTransaction & {
        connection: { stream: { on(e: string, f: () => void): void; destroy(): void }; query(text: string): void };
      };
      await client.query(`INSERT INTO ${table} VALUES ('lamp')`);
      const { connection } = client;
      const send = connection.query.bind(connection);
      connection.query = (text: string) => {
        send(text);
        // The bytes are on their way; nothing will read the answer.
        if (text === "COMMIT") setImmediate(() => connection.stream.destroy());
      };
      return value;
    });
    expect(message).toMatchObject({ job: { type: "resolve", seq: 5 } });
    expect(await bought()).toEqual(["lamp"]);
    expect(await inboxOf(store, held)).toEqual([message]);
  });

  test.each(["BEGIN", "commit", " /* x */ ROLLBACK", "-- y\nEND", "START TRANSACTION"])(
    "D6 %s is refused inside of a transaction step",
    async (sql) => {
      const held = await running(store, "a");
      const work = store.transact({ ...held, seq: 5 }, async (tx) => {
        await (tx as PostgresTransaction).query(sql);
        return value;
      });
      await expect(work).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    },
  );

  test("D6 savepoints are the user's own; a failed statement that was swallowed is not", async () => {
    const held = await running(store, "a");
    const kept = await store.transact({ ...held, seq: 5 }, async (tx) => {
      const { query } = tx as PostgresTransaction;
      await query("SAVEPOINT here");
      await query("SELECT 1 / 0").catch(() => query("ROLLBACK TO here"));
      await query(`INSERT INTO ${table} VALUES ('lamp')`);
      return value;
    });
    expect(kept).not.toBe("stale");
    const swallowed = store.transact({ ...held, seq: 6 }, async (tx) => {
      await (tx as PostgresTransaction).query("SELECT 1 / 0").catch(() => undefined);
      return value;
    });
    await expect(swallowed).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    expect(await bought()).toEqual(["lamp"]);
  });

  test("D6 tx is of no use once the function has returned", async () => {
    const held = await running(store, "a");
    let kept: PostgresTransaction | undefined;
    await store.transact({ ...held, seq: 5 }, (tx) => {
      kept = tx as PostgresTransaction;
      return value;
    });
    expect(() => kept?.query("SELECT 1")).toThrow(expect.objectContaining({ code: "HF_STORE_TRANSACTION" }));
  });

  test("D6 more transactions than connections all come through, and calls with them", async () => {
    const held = await running(store, "a");
    const results = await Promise.all(
      Array.from({ length: 40 }, (_, seq) =>
        store.transact({ ...held, seq }, async (tx) => {
          await (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ($1)`, [`lamp ${seq}`]);
          await store.get(["a"]);
          return value;
        }),
      ),
    );
    expect(results.every((result) => result !== "stale")).toBe(true);
    expect((await inboxOf(store, held)).length).toBe(40);
  });
});

// ── transactions of the caller's own ──

type Work = (tx: unknown) => Promise<void>;
/** Runs work in a transaction of some library. A throw rolls back. */
interface Library {
  readonly name: string;
  transaction(work: Work): Promise<void>;
  insert(tx: unknown, what: string): Promise<unknown>;
  /** Values that are not a transaction. */
  readonly root: unknown;
  close(): Promise<void>;
}

function onPg(): Library {
  const pool = new Pool({ connectionString: database.url });
  return {
    name: "pg",
    root: pool,
    async transaction(work) {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        await work(client);
        await client.query("COMMIT");
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    insert: (tx, what) => (tx as PostgresTransaction).query(`INSERT INTO ${table} VALUES ($1)`, [what]),
    close: () => pool.end(),
  };
}
function onPostgresJs(): Library {
  const sql = postgres(database.url, { onnotice: () => undefined });
  return {
    name: "postgres.js",
    root: sql,
    async transaction(work) {
      await sql.begin((tx) => work(tx));
    },
    insert: (tx, what) => (tx as typeof sql).unsafe(`INSERT INTO ${table} VALUES ($1)`, [what]),
    close: () => sql.end(),
  };
}
function onDrizzle(): Library {
  const pool = new Pool({ connectionString: database.url });
  const db = drizzlePg(pool);
  return {
    name: "Drizzle on pg",
    root: db,
    transaction: (work) => db.transaction((tx) => work(tx)),
    insert: (tx, what) => (tx as typeof db).execute(`INSERT INTO ${table} VALUES ('${what}')`),
    close: () => pool.end(),
  };
}
function onDrizzlePostgresJs(): Library {
  const sql = postgres(database.url, { onnotice: () => undefined });
  const db = drizzlePostgresJs(sql);
  return {
    name: "Drizzle on postgres.js",
    root: db,
    transaction: (work) => db.transaction((tx) => work(tx)),
    insert: (tx, what) => (tx as typeof db).execute(`INSERT INTO ${table} VALUES ('${what}')`),
    close: () => sql.end(),
  };
}
function onKysely(): Library {
  const db = new Kysely<Record<string, { what: string }>>({
    dialect: new PostgresDialect({ pool: new Pool({ connectionString: database.url }) }),
  });
  return {
    name: "Kysely",
    root: db,
    transaction: (work) => db.transaction().execute((trx) => work(trx)),
    insert: (tx, what) => (tx as typeof db).insertInto(table).values({ what }).execute(),
    close: () => db.destroy(),
  };
}

const LIBRARIES = [
  ["pg", onPg],
  ["postgres.js", onPostgresJs],
  ["Drizzle on pg", onDrizzle],
  ["Drizzle on postgres.js", onDrizzlePostgresJs],
  ["Kysely", onKysely],
] as const;

describe.each(LIBRARIES)("within a transaction of %s", (_, open) => {
  let library: Library;
  beforeEach(() => {
    library = open();
  });
  afterEach(() => library.close());
  const within = (tx: unknown): Pick<Store, "create" | "send"> => store.within(tx);
  const odd = `it's "odd" \\ $1 \n 🚀`;

  test("M1 what is started and sent is there if the transaction commits, and wakes those that wait", async () => {
    const parked = await running(store, "parked");
    await store.commit([draft(parked, { turn: turnOf(parked), lease: "park", status: "sleeping" })]);
    let wakeups = 0;
    const stop = store.watch(({ work }) => {
      if (work === true) wakeups++;
    });
    const before = wakeups;
    await library.transaction(async (tx) => {
      await library.insert(tx, "lamp");
      const created = await within(tx).create([newRun(odd, { queue: "q" })]);
      expect(created).toEqual([{ status: "created", id: odd, execution: 1, inboxIds: [] }]);
      const sent = await within(tx).send([
        { runId: "parked", message: { job: signal(odd) } },
        { runId: "missing", message: { job: signal("s1") } },
      ]);
      expect(sent).toEqual([{ status: "sent", inboxId: 0 }, { status: "not-found" }]); // biome-ignore format: a pair
      expect(await store.get([odd])).toEqual([undefined]);
    });
    expect(await bought()).toEqual(["lamp"]);
    await until(() => wakeups > before, "a wake-up");
    stop();
    expect((await claim(store, { queue: "q" })).map(({ run }) => run.id)).toEqual([odd]);
    const woken = await until(async () => (await claim(store, { queue: "queue of parked" }))[0], "the parked run");
    expect(woken.inbox.map(({ job }) => job)).toEqual([signal(odd)]);
  });

  test("M1 nothing is there if it rolls back", async () => {
    const held = await running(store, "a");
    const work = library.transaction(async (tx) => {
      await library.insert(tx, "lamp");
      await within(tx).create([newRun("b", { messages: [{ job: signal("s1") }] })]);
      await within(tx).send([{ runId: "a", message: { job: signal("s1"), idempotencyKey: "k" } }]);
      throw new Error("changed my mind");
    });
    await expect(work).rejects.toThrow("changed my mind");
    await store.expire();
    expect([await bought(), await store.get(["b"]), await inboxOf(store, held)]).toEqual([[], [undefined], []]);
    expect(await store.send([{ runId: "a", message: { job: signal("s1"), idempotencyKey: "k" } }])).toMatchObject([{ status: "sent" }]);
  });

  test("a transaction that stays open holds up no one: not the run that it has signalled, nor its worker", async () => {
    const held = await running(store, "a");
    await library.transaction(async (tx) => {
      await within(tx).send([{ runId: "a", message: { job: signal("s1") } }]);
      expect(await store.commit([draft(held, { turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
      expect(await store.send([{ runId: "a", message: { job: signal("s2") } }])).toMatchObject([{ status: "sent" }]);
    });
    const inbox = await until(async () => {
      const found = await inboxOf(store, held);
      return found.length === 2 && found;
    }, "both messages");
    expect(inbox.map(({ job }) => "id" in job && job.id)).toEqual(["s2", "s1"]);
  });

  test("what is not an open transaction is refused: each statement would commit by itself", () => {
    expect(() => within(library.root)).toThrow(InvalidInputError);
  });
});

describe("within", () => {
  test.each([undefined, null, 1, "tx", {}, () => undefined])("%s is not a transaction", (tx) => {
    expect(() => store.within(tx)).toThrow(InvalidInputError);
  });

  test("a client without BEGIN is refused", async () => {
    const client = await database.client();
    await client.query("SELECT 1");
    expect(() => store.within(client)).toThrow(/BEGIN first/);
    await client.query("BEGIN");
    expect(() => store.within(client)).not.toThrow();
  });

  test("M3 M8 starts with keys and messages, and starts of what exists, are as outside", async () => {
    const client = await database.client();
    const held = await running(store, "open");
    const closed = await running(store, "closed");
    await store.commit([draft(closed, { ...COMPLETED, turn: turnOf(closed) })]);
    await client.query("BEGIN");
    const messages = [{ job: signal("s1") }];
    const { create } = store.within(client);
    const results = await create([
      newRun("new", { idempotencyKey: "k", messages, queue: "q" }),
      newRun("again", { idempotencyKey: "k" }),
      newRun("open", { onConflict: "use-existing", messages }),
      newRun("closed", { onConflict: "use-existing", messages }),
      newRun("open"),
    ]);
    expect(results.map(({ id, status }) => [id, status])).toEqual([
      ["new", "created"],
      ["new", "existing"],
      ["open", "existing"],
      ["closed", "conflict"],
      ["open", "conflict"],
    ]);
    await client.query("COMMIT");
    expect((await claim(store, { queue: "q" })).map(({ inbox }) => inbox.length)).toEqual([1]);
    await until(async () => (await inboxOf(store, held)).length === 1, "the message");
  });

  test("Q10 a run that a transaction starts after another waits for it, and the other goes on meanwhile", async () => {
    const client = await database.client();
    const held = await running(store, "first");
    const isOver = async (id: string): Promise<boolean> => (await store.get([id]))[0]?.after === undefined;
    await client.query("BEGIN");
    await store.within(client).create([newRun("second", { after: "first", queue: "q" })]);
    expect(await store.commit([draft(held, { turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
    await client.query("COMMIT");
    await until(async () => (await database.sql(`SELECT 1 FROM "${schema}".mail`)).length === 0, "the delivery");
    expect([await isOver("second"), await claim(store, { queue: "q" })]).toEqual([false, []]);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    expect((await claim(store, { queue: "q" })).map(({ run }) => run.id)).toEqual(["second"]);
  });

  test("Q10 a run that a transaction starts after another begins if that closes before the transaction does", async () => {
    const client = await database.client();
    const held = await running(store, "first");
    await client.query("BEGIN");
    await store.within(client).create([newRun("second", { after: "first", queue: "q" })]);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    await client.query("COMMIT");
    const begun = await until(async () => (await claim(store, { queue: "q" }))[0], "the second run");
    expect(begun.run.id).toBe("second");
  });

  test("Q9 a newer start in a transaction takes effect with its commit, and the run goes on meanwhile", async () => {
    const client = await database.client();
    const held = await running(store, "a");
    const next = (input: string) =>
      newRun("a", { onConflict: "debounce", input: jsonCodec.encode(input), messages: [{ job: signal(input) }], idempotencyKey: input });
    await client.query("BEGIN");
    expect(await store.within(client).create([next("never")])).toMatchObject([{ status: "existing", id: "a" }]);
    await client.query("ROLLBACK");
    await client.query("BEGIN");
    expect(await store.within(client).create([next("two"), next("three"), next("two")])).toMatchObject([{}, {}, { status: "existing" }]);
    expect(await store.commit([draft(held, { turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
    expect(await inboxOf(store, held)).toEqual([]);
    await client.query("COMMIT");
    await until(async () => (await database.sql(`SELECT 1 FROM "${schema}".mail`)).length === 0, "the delivery");
    expect(await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toMatchObject([{ goesOn: true }]);
    const [begun] = await claim(store);
    expect([begun?.run.input, begun?.inbox.map(({ job }) => "id" in job && job.id)]).toEqual([jsonCodec.encode("three"), ["two", "three"]]);
  });

  test("Q9 a newer start in a transaction restarts a run that closes before it commits", async () => {
    const client = await database.client();
    const held = await running(store, "a");
    await client.query("BEGIN");
    await store.within(client).create([newRun("a", { onConflict: "replace", input: jsonCodec.encode("two") })]);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    await client.query("COMMIT");
    const begun = await until(async () => (await claim(store))[0], "the next execution");
    expect([begun.run.execution, begun.run.input]).toEqual([2, jsonCodec.encode("two")]);
  });

  test("M3 keys of mail count, no matter which comes first", async () => {
    const client = await database.client();
    const held = await running(store, "a");
    const message = { job: signal("s1"), idempotencyKey: "k" };
    await client.query("BEGIN");
    const { send } = store.within(client);
    expect(await send([{ runId: "a", message }])).toMatchObject([{ status: "sent" }]);
    await store.send([{ runId: "a", message }]);
    expect(await send([{ runId: "a", message }])).toMatchObject([{ status: "duplicate" }]);
    await client.query("COMMIT");
    await until(async () => (await database.sql(`SELECT 1 FROM "${schema}".mail`)).length === 0, "the delivery");
    expect((await inboxOf(store, held)).length).toBe(1);
  });

  test("D9 mail is delivered where notifications don't come, when deadlines are looked at", async () => {
    const deaf = await database.open({ schema: database.newSchema(), listen: false });
    const client = await database.client();
    const held = await running(deaf, "a");
    await client.query("BEGIN");
    await deaf.within(client).send([{ runId: "a", message: { job: signal("s1") } }]);
    await client.query("COMMIT");
    await deaf.expire();
    expect((await inboxOf(deaf, held)).length).toBe(1);
  });
});
