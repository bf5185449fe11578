// A server with few connections: each process makes do with those that it gets, nothing starves, and the log says once what to change.

import { Holdfast, type Logger, workflow } from "holdfast";
import type { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { isFull } from "../src/connection/serverErrors.ts";
import type { PostgresTransaction } from "../src/index.ts";
import { canOwnServers } from "./server/index.ts";
import { claim, type Database, draft, newRun, range, running, signal, turnOf, until, useDatabase } from "./support.ts";

interface Line {
  readonly message: string;
  readonly error: unknown;
}
function lines(): { logger: Logger; said: Line[] } {
  const said: Line[] = [];
  const note = (message: string, fields?: { readonly error?: unknown }): void => void said.push({ message, error: fields?.error });
  return { logger: { debug() {}, info() {}, warn: note, error: note }, said };
}
const countOf = async (on: Database): Promise<number> => {
  const [row] = await on.sql<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database()",
  );
  return row?.n ?? 0;
};

/** Takes all connections that there are. */
async function fill(on: Database): Promise<Client[]> {
  const taken: Client[] = [];
  for (;;) {
    const client = await on.client().catch(() => undefined);
    if (client === undefined) return taken;
    taken.push(client);
  }
}

/** As many engines, each with a worker and its share of the runs. What went wrong, and what was said, by engine. */
async function work(url: string, { engines, runs }: { engines: number; runs: number }): Promise<{ failed: unknown[]; said: Line[][] }> {
  const chain = workflow("chain", async (ctx, id: string) => {
    for (const i of range(3)) await ctx.step(`step-${i}`, async () => i);
    return id;
  });
  const logs = range(engines).map(lines);
  const all = await Promise.all(logs.map(({ logger }) => Holdfast.open(url, { logger })));
  for (const engine of all) onTestFinished(() => engine.close());
  await Promise.all(all.map((engine) => engine.worker({ workflows: [chain] })));
  const failed: unknown[] = [];
  await Promise.all(
    range(runs).map(async (i) => {
      const engine = all[i % engines] as Holdfast;
      try {
        await (await engine.start(chain, `r${i}`, { id: `r${i}` })).result();
      } catch (error) {
        failed.push(error);
      }
    }),
  );
  return { failed, said: logs.map(({ said }) => said) };
}

if (canOwnServers) {
  describe("W1 D3 a server that has few connections", () => {
    const small = useDatabase({ settings: { max_connections: "24", superuser_reserved_connections: "1", max_wal_senders: "0" } });
    test("serves eight engines that would like to have more: all runs end, no commit fails, and each says once what to change", async () => {
      const schema = small.newSchema();
      const { failed, said } = await work(`${small.url}?schema=${schema}`, { engines: 8, runs: 400 });
      expect(failed).toEqual([]);
      for (const one of said) expect(one.length).toBeLessThanOrEqual(1);
      const all = said.flat();
      for (const { message } of all) expect(message).toMatch(/connections=….*max_connections/);
    }, 120_000);
    test("has one left for each: the engine goes on with it, and polls", async () => {
      const schema = small.newSchema();
      const { logger, said } = lines();
      const url = `${small.url}?schema=${schema}&patience=3s`;
      const first = await Holdfast.open(url);
      await first.close();
      const others = await fill(small);
      await others.pop()?.end(); // one is left
      const greet = workflow("greet", async (ctx, name: string) => {
        await ctx.waitForSignal("go");
        return ctx.transaction(
          "say",
          async (tx: PostgresTransaction) => (await tx.query("SELECT $1 AS said", [name])).rows[0]?.said as string,
        );
      });
      const engine = await until(() => Holdfast.open(url, { logger }).catch(() => undefined), "the one to be free");
      await engine.worker({ workflows: [greet] });
      const run = await engine.start(greet, "hello", { id: "a" });
      await run.signal("go", undefined);
      expect(await run.result()).toBe("hello");
      expect(said.map(({ message }) => message)).toEqual([expect.stringMatching(/connections=….*max_connections/)]);
      await engine.close();
    }, 60_000);
    test("HF_STORE_UNAVAILABLE has none left: that is said, with the setting; as soon as there is one it is used", async () => {
      const schema = small.newSchema();
      const others = await fill(small);
      const error: unknown = await small.open({ schema, patience: 300 }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "HF_STORE_UNAVAILABLE", retryable: true, message: expect.stringContaining("max_connections") });
      const opening = small.open({ schema, patience: 20_000 });
      await others.pop()?.end();
      const store = await opening;
      expect(await store.create([newRun("a")])).toMatchObject([{ status: "created" }]);
    }, 60_000);
    test("has none left for a process that comes late: those before it leave it the one on which they listen", async () => {
      const schema = small.newSchema();
      const first = await small.open({ schema });
      await fill(small);
      const second = await small.open({ schema, patience: 50_000 });
      expect(await second.create([newRun("a")])).toMatchObject([{ status: "created" }]);
      expect(await claim(first)).toHaveLength(1);
    }, 60_000);
  });
}

describe("connections of one engine", () => {
  const database = useDatabase();
  test("are five at most by default, notifications included, however many calls there are; one is kept, and the one that listens", async () => {
    const store = await database.open({ schema: database.newSchema() });
    const held = await running(store, "a");
    await store.commit([draft(held, { turn: turnOf(held) })]);
    await Promise.all(range(100).flatMap((i) => [store.get([`r${i}`]), store.create([newRun(`r${i}`)])]));
    expect(await countOf(database)).toBeLessThanOrEqual(5);
    await Promise.all(range(20).map((i) => store.transact({ ...held, seq: i }, async () => "1")));
    expect(await countOf(database)).toBeLessThanOrEqual(9);
    await until(async () => (await countOf(database)) <= 3, "those that are not in use to be closed"); // the one for turns is closed later
  }, 60_000);
  test("D2 D6 one is enough for everything, without notifications", async () => {
    const store = await database.open({ schema: database.newSchema(), connections: 1, listen: false });
    const held = await running(store, "a");
    const all = await Promise.all([
      store.commit([draft(held, { turn: turnOf(held) })]),
      store.create([newRun("b")]),
      store.send([{ runId: "a", message: { job: signal("s") } }]),
      store.get(["a"]),
    ]);
    expect(all).toMatchObject([[{ status: "committed" }], [{ status: "created" }], [{ status: "sent" }], [{ id: "a" }]]);
    expect(await store.transact({ ...held, seq: 3 }, async () => "1")).toMatchObject({ job: { seq: 3 } });
  });
});

test.each([
  [{ code: "53300", severity: "FATAL", message: "sorry, too many clients already" }, true],
  [{ code: "53300", severity: "FATAL", message: 'too many connections for role "app"' }, true],
  [{ code: "08P01", severity: "FATAL", message: "no more connections allowed (max_client_conn)" }, true],
  [{ code: "XX000", severity: "FATAL", message: "MaxClientsInSessionMode: max clients reached" }, true],
  [{ code: "53400", severity: "FATAL", message: "configuration limit exceeded" }, true],
  [{ code: "53400", severity: "ERROR", message: "temporary file size exceeds temp_file_limit" }, false],
  [{ code: "57P03", severity: "FATAL", message: "the database system is starting up" }, false],
])("HF_STORE_UNAVAILABLE %o: no connection left is %s", async (fields, full) => {
  const { DatabaseError } = await import("pg");
  expect(isFull(Object.assign(new DatabaseError(fields.message, 0, "error"), fields))).toBe(full);
});
