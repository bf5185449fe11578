// Setting up: many at once, newer and foreign schemas, roles with few rights, poolers, urls.

import { spawn } from "node:child_process";
import { type AddressInfo, connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { InvalidInputError } from "@holdfast/core";
import type { Logger } from "holdfast";
import type { Wakeup } from "holdfast/store";
import { describe, expect, onTestFinished, test } from "vitest";
import { type FromUrlOptions, PostgresStore, type PostgresTransaction } from "../src/index.ts";
import { Bouncer } from "./bouncer.ts";
import { bundled } from "./processes/bundled.ts";
import {
  COMPLETED,
  claim,
  draft,
  heldOf,
  inboxOf,
  newRun,
  range,
  running,
  signal,
  type TestStore,
  turnOf,
  until,
  useDatabase,
} from "./support.ts";
import { Wire } from "./wire.ts";

const database = useDatabase();

function logOf(): { logger: Logger; warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, logger: { debug() {}, info() {}, warn: (message) => void warnings.push(message), error() {} } };
}

describe("migrations", () => {
  test("many open a new schema at once, and all can use it", async () => {
    const schema = database.newSchema();
    const stores = await Promise.all(range(12).map(() => database.open({ schema, connections: 2 })));
    await Promise.all(stores.map((store, i) => store.create([newRun(`r${i}`)])));
    expect((await stores[0]?.count({}))?.pending).toBe(12);
    expect(await database.sql(`SELECT version FROM "${schema}".migrations`)).toEqual([{ version: 1 }]);
  });
  test("processes that open a new schema at the same moment make it once, and all can use it", async () => {
    const [schema, program] = [database.newSchema(), await bundled("opener")];
    const openers = range(6).map((i) => spawn(process.execPath, [program, database.url, schema, `r${i}`]));
    onTestFinished(() => {
      for (const opener of openers) opener.kill();
    });
    const lines = openers.map((opener) => createInterface(opener.stdout)[Symbol.asyncIterator]());
    const next = async (): Promise<unknown[]> => Promise.all(lines.map(async (line) => (await line.next()).value));
    expect(await next()).toEqual(openers.map(() => "ready"));
    for (const { stdin } of openers) stdin.write("go\n");
    expect(await next()).toEqual(openers.map(() => "created"));
    expect(await database.sql(`SELECT version FROM "${schema}".migrations`)).toEqual([{ version: 1 }]);
    expect(await database.sql(`SELECT id FROM "${schema}".runs ORDER BY id`)).toEqual(range(6).map((i) => ({ id: `r${i}` })));
  }, 60_000);
  test("HF_STORE_NEWER a schema of a newer version is refused and left as it is; a process that has it open goes on", async () => {
    const schema = database.newSchema();
    const old = await database.open({ schema });
    await database.sql(`INSERT INTO "${schema}".migrations (version, hash) VALUES (99, 'x')`);
    await expect(database.open({ schema })).rejects.toMatchObject({ code: "HF_STORE_NEWER", found: 99, known: 1 });
    const held = await running(old, "a");
    expect(await old.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })])).toMatchObject([{ status: "committed" }]);
  });
  test("a worker that has it open goes on while another brings columns, indexes and functions of a newer version", async () => {
    const schema = database.newSchema();
    const old = await database.open({ schema });
    const held = await running(old, "a");
    const [client, s] = [await database.client(), `"${schema}"`];
    await client.query("BEGIN");
    await client.query(`ALTER TABLE ${s}.runs ADD COLUMN novelty text`);
    const committing = old.commit([draft(held, { turn: turnOf(held) })]);
    await client.query(`CREATE FUNCTION ${s}.commit_turns_2() RETURNS integer LANGUAGE sql AS 'SELECT 1'`);
    await client.query(`CREATE INDEX novelties ON ${s}.runs (novelty) WHERE novelty IS NOT NULL`);
    await client.query(`INSERT INTO ${s}.migrations (version, hash) VALUES (2, 'x')`);
    await client.query("COMMIT");
    expect(await committing).toMatchObject([{ status: "committed" }]);
    await old.create([newRun("b", { onConflict: "use-existing", messages: [{ job: signal("s1") }] })]);
    const [other] = await claim(old);
    expect(other?.inbox).toHaveLength(1);
    expect(
      await old.commit([draft(held, { turn: turnOf(held), sends: [{ seq: 1, runId: "b", message: { job: signal("s2") } }] })]),
    ).toMatchObject([{ status: "committed" }]);
    expect((await old.get(["a", "b"])).map((run) => run?.status)).toEqual(["running", "running"]);
  });
  test.each([
    ["by a build between releases", 'UPDATE "$s".migrations SET hash = repeat(\'0\', 64)', "000000000000"],
    ["before there were hashes", 'ALTER TABLE "$s".migrations DROP COLUMN hash', "found none"],
    ["and a function was changed", `CREATE OR REPLACE FUNCTION "$s".clock_1(p_now bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'`, "clock_1"],
    ["and a function is gone", 'DROP FUNCTION "$s".give_up_call_1', "give_up_call_1"],
  ])("HF_STORE_SCHEMA a schema of this version that was made %s is refused, with what to do, and left as it is", async (_, sql, found) => {
    const schema = database.newSchema();
    await (await database.open({ schema })).create([newRun("a")]);
    await database.sql(sql.replace("$s", schema));
    const error: unknown = await database.open({ schema }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "HF_STORE_SCHEMA", name: "StoreSchemaError", message: expect.stringContaining(found) });
    expect((error as Error).message).toContain(`DROP SCHEMA "${schema}" CASCADE`);
    expect(await database.sql(`SELECT id FROM "${schema}".runs`)).toEqual([{ id: "a" }]);
  }); // biome-ignore format: one statement per line
  test("functions of the user's in the same schema, of other names or other parameters, are welcome", async () => {
    const schema = database.newSchema();
    await database.open({ schema });
    for (const signature of ["mine(a text)", "clock_1(a text)"])
      await database.sql(`CREATE FUNCTION "${schema}".${signature} RETURNS text LANGUAGE sql AS 'SELECT a'`);
    await database.open({ schema });
  });
  test("HF_STORE_FOREIGN a schema with tables of another program is refused and left as it is", async () => {
    const schema = database.newSchema();
    await database.sql(`CREATE SCHEMA "${schema}"`);
    await database.sql(`CREATE TABLE "${schema}".runs (mine text)`);
    await expect(database.open({ schema })).rejects.toMatchObject({ code: "HF_STORE_FOREIGN" });
    expect(await database.sql(`SELECT * FROM "${schema}".runs`)).toEqual([]);
  });
  test("tables of the user's in the same schema are welcome", async () => {
    const schema = database.newSchema();
    await database.sql(`CREATE SCHEMA "${schema}"`);
    await database.sql(`CREATE TABLE "${schema}".orders (mine text)`);
    expect(await (await database.open({ schema })).create([newRun("a")])).toMatchObject([{ status: "created" }]);
  });
});

describe("servers that are not ready", () => {
  /** What a server says that is recovering. */
  const STARTING = ((): Buffer => {
    const fields = "SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    const message = Buffer.from(`E....${fields}`);
    message.writeInt32BE(message.length - 1, 1);
    return message;
  })();

  test("one that says it is starting is waited for, longer than one that is not there", async () => {
    const target = new URL(database.url);
    let startedAt: number | undefined;
    const starting = createServer((client) => {
      startedAt ??= performance.now();
      client.on("error", () => undefined);
      if (performance.now() - startedAt < 6_000) return void client.once("data", () => client.end(STARTING));
      const server = connect(Number(target.port || 5432), target.hostname).on("error", () => client.destroy());
      client.pipe(server).pipe(client);
    });
    await new Promise<void>((resolve) => starting.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void starting.close());
    const url = new URL(database.url);
    url.port = String((starting.address() as AddressInfo).port);
    url.hostname = "127.0.0.1";
    const store = await database.open({ connectionString: url.href, schema: database.newSchema() });
    expect(await store.create([newRun("a")])).toMatchObject([{ status: "created" }]);
  }, 40_000);
});

describe("roles", () => {
  let roles = 0;
  async function roleUrl(): Promise<{ role: string; url: string }> {
    const role = `holdfast_role_${process.pid}_${++roles}`;
    await database.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    const url = new URL(database.url);
    url.username = role;
    url.password = "secret";
    return { role, url: url.href };
  }
  const drop = async (role: string): Promise<void> => {
    await database.sql(`DROP OWNED BY ${role} CASCADE`);
    await database.sql(`DROP ROLE ${role}`);
  };
  const useAll = async (store: TestStore): Promise<void> => {
    const held = await running(store, "a", { attributes: { x: 1 }, deadline: 1_000_000 });
    await store.send([{ runId: "a", message: { job: signal("s1"), idempotencyKey: "k" } }]);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    await store.expire();
    expect((await store.list({ limit: 1, attributes: { x: 1 } })).runs).toHaveLength(1);
    await store.close();
  };

  test("a role without superuser rights that may create schemas sets it up and uses it", async () => {
    const { role, url } = await roleUrl();
    await database.sql(`GRANT CREATE ON DATABASE ${new URL(url).pathname.slice(1)} TO ${role}`);
    await useAll(await database.open({ connectionString: url, schema: database.newSchema() }));
    await drop(role);
  });
  test("a role that may not, but has a schema made for it, uses that", async () => {
    const { role, url } = await roleUrl();
    const schema = database.newSchema();
    await database.sql(`CREATE SCHEMA "${schema}" AUTHORIZATION ${role}`);
    await useAll(await database.open({ connectionString: url, schema }));
    await drop(role);
  });
  test("HF_STORE_DENIED says what a role lacks", async () => {
    const { role, url } = await roleUrl();
    await expect(database.open({ connectionString: url, schema: database.newSchema() })).rejects.toMatchObject({
      code: "HF_STORE_DENIED",
      message: expect.stringContaining("GRANT CREATE ON DATABASE"),
    });
    await drop(role);
  });
  test("HF_STORE_CANNOT_OPEN a wrong user, password or database is said at once, and not repeated", async () => {
    const url = new URL(database.url);
    url.username = "missing";
    url.password = "wrong";
    const error = await database.open({ connectionString: url.href }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "HF_STORE_CANNOT_OPEN" });
    expect(String(error)).not.toContain("wrong");
    url.href = database.url;
    url.pathname = "/nowhere";
    await expect(database.open({ connectionString: url.href })).rejects.toMatchObject({ code: "HF_STORE_CANNOT_OPEN" });
  });
});

describe("poolers", () => {
  test.each([
    ["calls have names where notifications come in", true],
    ["no statement has a name where they don't", false],
  ])("%s; none leaves anything else on its connection, and LISTEN is on one of its own", async (_, listen) => {
    const { wire, url } = await Wire.to(database.url);
    const store = await database.open({ connectionString: url, schema: database.newSchema(), listen });
    const held = await running(store, "a");
    await store.transact({ ...held, seq: 1 }, async (tx) => {
      await (tx as PostgresTransaction).query("SELECT 1");
      return "1";
    });
    await store.send([{ runId: "a", message: { job: signal("s1") } }]);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    await store.expire();
    await store.list({ limit: 1 });
    await store.close();
    expect(new Set(wire.named.map((sql) => /^SELECT .*\.(\w+_1)\(/.exec(sql)?.[1] ?? sql.slice(0, sql.indexOf(" AS"))))).toEqual(
      new Set(listen ? ["WITH given", "create_runs_1", "claim_runs_1", "send_messages_1", "WITH held", "commit_turns_1"] : []),
    );
    expect(wire.statements.filter((sql) => /^\s*(set|prepare|declare|load|create temp)\b|pg_advisory_lock\(/i.test(sql))).toEqual([]);
    expect(wire.statements.filter((sql) => /^\s*listen\b/i.test(sql))).toHaveLength(listen ? 1 : 0);
    expect(wire.statements.filter((sql) => sql.startsWith("SELECT set_config('enable_seqscan'"))).toHaveLength(listen ? 1 : 0);
    await wire.close();
  });

  test("W1 behind a pooler in transaction mode everything works; that LISTEN does not is said once", async () => {
    const { bouncer, url } = await Bouncer.before(database.url, 3);
    const { logger, warnings } = logOf();
    const schema = database.newSchema();
    const store = await database.open({ connectionString: url, schema, logger });
    expect(warnings).toEqual([expect.stringContaining("LISTEN does not work")]);
    const ids = range(20).map((i) => `r${i}`);
    await Promise.all(ids.map((id) => store.create([newRun(id)])));
    const claimed = await claim(store);
    expect(claimed).toHaveLength(20);
    await Promise.all(ids.map((id) => store.send([{ runId: id, message: { job: signal(id) } }])));
    const results = await Promise.all(claimed.map((one) => { const held = heldOf(one); return store.commit([draft(held, { turn: turnOf(held), consumed: [] })]); })); // biome-ignore format: one line
    expect(results.every(([result]) => result?.status === "committed" && result.inbox.length === 1)).toBe(true);
    const first = claimed[0];
    if (first === undefined) throw new Error("nothing claimed");
    const message = await store.transact({ ...heldOf(first), seq: 9 }, async (tx) => {
      await (tx as PostgresTransaction).query("SELECT pg_sleep(0)");
      return "1";
    });
    expect(message).not.toBe("stale");
    expect((await inboxOf(store, heldOf(first))).map(({ job }) => job.type)).toEqual(["signal", "resolve"]);
    // Hints come by polling: also of what another process writes.
    const beside = await database.open({ schema });
    const woken = new Promise<void>((resolve) => void store.watch(({ work }) => work === true && resolve()));
    await beside.create([newRun("another")]);
    await woken;
    expect(warnings).toHaveLength(1);
    expect(bouncer.transactions).toBeGreaterThan(60);
    await store.close();
    await bouncer.close();
  }, 30_000);

  test("W1 with listen=off nothing is tried, nothing is said, and hints come by polling", async () => {
    const { wire, url } = await Wire.to(database.url);
    const { logger, warnings } = logOf();
    const schema = database.newSchema();
    const store = await database.open({ connectionString: url, schema, logger, listen: false });
    const woken = new Promise<void>((resolve) => void store.watch(({ results }) => results === true && resolve()));
    const beside = await database.open({ schema });
    const held = await running(beside, "a");
    await beside.commit([draft(held, { ...COMPLETED, turn: turnOf(held) })]);
    await woken;
    expect([warnings, wire.statements.filter((sql) => /^\s*listen/i.test(sql))]).toEqual([[], []]);
    await store.close();
    await wire.close();
  });
});

describe("notifications", () => {
  test("W1 a process that is alone sends no notices; as soon as there are two, each hears the other and never itself", async () => {
    const { wire, url } = await Wire.to(database.url);
    const schema = database.newSchema();
    const store = await database.open({ connectionString: url, schema });
    const told = (): number => wire.statements.filter((sql) => sql.includes("notify_1")).length;
    const before = told();
    const held = await running(store, "a");
    await store.commit([draft(held, { turn: turnOf(held), lease: "park", status: "sleeping", wakeAt: 0 })]);
    expect(told()).toBe(before);
    const beside = await database.open({ schema });
    let heard = 0;
    beside.watch(({ work }) => {
      if (work === true) heard++;
    });
    await until(async () => {
      await store.create([newRun(`b${Math.random()}`)]);
      return heard > 0;
    }, "a hint");
    expect(told()).toBeGreaterThan(before);
    await beside.close();
    await store.close();
    await wire.close();
  });
});

describe("hints", () => {
  test.each([
    ["a usual one", {}],
    ["one that sets attributes", { attributes: { a: 1 } }],
  ])("D9 W1 a caller that waits for a child learns of its end at once: %s", async (_, more) => {
    const store = await database.open({ schema: database.newSchema() });
    const parent = await running(store, "p");
    const link = { runId: "p", execution: 1, seq: 1, parentClose: "cancel", announce: false } as const;
    await store.commit([
      draft(parent, { turn: turnOf(parent), children: [newRun("c", { parent: link, queue: "of c" })], lease: "park", status: "sleeping" }),
    ]);
    const [child] = await claim(store, { queue: "of c" });
    const heard: Wakeup[] = [];
    store.watch((wakeup) => heard.push(wakeup));
    const held = heldOf(child as NonNullable<typeof child>);
    await store.commit([draft(held, { ...COMPLETED, turn: turnOf(held), ...more })]);
    expect(heard).toContainEqual(expect.objectContaining({ work: true, messages: true }));
    await store.close();
  });
});

describe("urls", () => {
  const refused: [string, FromUrlOptions?][] = [
    ["postgres://localhost/x?schema=pg_mine"],
    ["postgres://localhost/x?schema=a%20b"],
    [`postgres://localhost/x?schema=${"x".repeat(64)}`],
    ["postgres://localhost/x?connections=0"],
    ["postgres://localhost/x?listen=maybe"],
    ["postgres://localhost/x?retention=soon"],
    ["postgres://localhost/x?archive=1"],
    ["postgres://localhost/x", { namespace: "a b" }],
    ["postgres://user:p%ss word@[/x"],
  ];
  test.each(refused)("%s is refused", (...[url, options]) => {
    expect(() => PostgresStore.fromUrl(url, options)).toThrow(InvalidInputError);
  });
  test("options of the url are ours, the rest is the driver's; namespaces know nothing of each other", async () => {
    const schema = database.newSchema();
    const url = `${database.url}?schema=${schema}&connections=3&listen=off&retention=30d&archive=on&patience=5s&application_name=shop`;
    const stores = [PostgresStore.fromUrl(url), PostgresStore.fromUrl(url, { namespace: "eu" })];
    for (const store of stores) await store.open();
    expect(await Promise.all(stores.map((store) => store.create([newRun("a")])))).toMatchObject([
      [{ status: "created" }],
      [{ status: "created" }],
    ]);
    expect(await database.sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE $1 ORDER BY 1", [`${schema}%`])).toEqual([
      { nspname: schema },
      { nspname: `${schema}_eu` },
    ]);
    await Promise.all(stores.map((store) => store.close()));
  });
  test("M1 what is under way when the store is closed is done, and said to be", async () => {
    const store = await database.open({ schema: database.newSchema() });
    await store.create([newRun("a")]);
    const asked = [store.send([{ runId: "a", message: { job: signal("s1") } }]), store.resume(["a"])];
    await store.close();
    expect(await Promise.all(asked)).toMatchObject([[{ status: "sent" }], ["not-resumable"]]);
  });
  test("HF_STORE_CLOSED calls before open and after close are refused", async () => {
    const store = new PostgresStore({ connectionString: database.url });
    await expect(store.get(["a"])).rejects.toMatchObject({ code: "HF_STORE_CLOSED" });
    await expect(store.create([newRun("a")])).rejects.toMatchObject({ code: "HF_STORE_CLOSED" });
    await store.open();
    await store.close();
    await store.close();
    await expect(store.commit([])).resolves.toEqual([]);
    await expect(store.claim({ workerId: "w", queue: "q", serves: [], limit: 1, lease: 1, cached: () => undefined })).rejects.toMatchObject(
      { code: "HF_STORE_CLOSED" },
    );
  });
});
