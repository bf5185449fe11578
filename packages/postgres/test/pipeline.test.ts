// Turns one behind the other on one connection: what is lost with it, what fails on it, who waits on it, and what is left of it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import type { CommitResult } from "holdfast/store";
import type { Client } from "pg";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Pipeline, type PipelineOptions } from "../src/connection/pipeline.ts";
import { bundled } from "./processes/bundled.ts";
import { canOwnServers } from "./server/index.ts";
import {
  type Database,
  draft,
  type Held,
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
const COMMITTED = [{ status: "committed" }];

/** One turn more of each, in one batch. */
const commit = (store: TestStore, ...held: Held[]): Promise<CommitResult[]> =>
  store.commit(held.map((one) => draft(one, { turn: turnOf(one), seen: 0 })));
const runningAll = (store: TestStore, ...ids: string[]): Promise<Held[]> => Promise.all(ids.map((id) => running(store, id)));
const turnsOf = async (store: TestStore, { runId }: Held): Promise<number[]> => (await store.history(runId)).map(({ index }) => index);

/** A store whose wire is in use, with as many names of calls known to the server as the test needs at once. */
async function warm(store: TestStore, calls = 4): Promise<void> {
  const held = await runningAll(store, ...range(calls).map((i) => `warm ${i}`));
  for (const _ of range(2)) await Promise.all(held.map((one) => commit(store, one)));
}
/** A store that knows all names, so that what is asked for goes out at once and in order; it has not made its wire yet. */
async function fresh(schema: string, more: { connectionString?: string; patience?: number } = {}): Promise<TestStore> {
  const store = await database.open({ schema, ...more });
  const first = (runId: string) => {
    const held = { runId, execution: 1, epoch: 1, workerId: "w1", turns: 0 };
    return newRun(runId, { first: { workerId: "w1", lease: 30_000, commit: draft(held, { turn: turnOf(held) }) } });
  };
  await store.create([first("known 1"), first("known 2")]);
  return store;
}
/** Holds the row of a run until the test releases it. */
async function hold(on: Database, schema: string, { runId }: Held): Promise<Client> {
  const client = await on.client();
  await client.query("BEGIN");
  await client.query(`SELECT 1 FROM "${schema}".runs WHERE id = $1 FOR UPDATE`, [runId]);
  return client;
}
const backends = (where: string, on: Database = database): Promise<{ pid: number }[]> =>
  on.sql(`SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database() AND ${where}`);
/** The connection on which a transaction waits for a lock. */
const waiter = (on: Database = database): Promise<number> =>
  until(async () => (await backends("wait_event_type = 'Lock'", on))[0]?.pid, "one that waits");
/** What was passed by comes to an end on the wire before this does. */
async function settle(store: TestStore, held: Held): Promise<void> {
  for (const _ of range(2)) expect(await commit(store, held)).toMatchObject(COMMITTED);
}

describe("a connection that is lost", () => {
  test.each([
    ["turns alone", "WITH held", 1],
    ["batches", "commit_turns_1", 2],
  ])("D2 with many %s on it: each is carried out once", async (_, text, size) => {
    const { wire, url } = await Wire.to(database.url);
    onTestFinished(() => wire.close());
    const store = await database.open({ connectionString: url, schema: database.newSchema() });
    const held = await runningAll(store, ...range(12).map((i) => `r${i}`));
    wire.loseAnswerOf(text);
    const batches = range(held.length / size).map((i) => held.slice(i * size, (i + 1) * size));
    const results = await Promise.all(batches.map((batch) => commit(store, ...batch)));
    expect(wire.lost).toBe(1);
    expect(results.flat()).toMatchObject(held.flatMap(() => COMMITTED));
    expect(await Promise.all(held.map((one) => turnsOf(store, one)))).toEqual(held.map(() => [0]));
  });
  test("D2 by its server's will, with a lock waited for and others behind: none is lost, none is repeated", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const [a, b, c] = (await runningAll(store, "a", "b", "c")) as [Held, Held, Held];
    const holder = await hold(database, schema, a);
    const commits = [a, b, c].map((one) => commit(store, one));
    const pid = await waiter();
    await database.sql("SELECT pg_terminate_backend($1)", [pid]);
    expect(await Promise.all(commits.slice(1))).toMatchObject([COMMITTED, COMMITTED]);
    await holder.query("ROLLBACK");
    expect(await commits[0]).toMatchObject(COMMITTED);
    expect(await Promise.all([a, b, c].map((one) => turnsOf(store, one)))).toEqual([[0], [0], [0]]);
  });
  test("D2 one to a server that has become read-only is left for a new one", async () => {
    const schema = database.newSchema();
    const held = await running(await database.open({ schema }), "a");
    const { wire, url } = await Wire.to(database.url);
    onTestFinished(() => wire.close());
    const store = await fresh(schema, { connectionString: url, patience: 4_000 });
    const client = await database.client(); // of the time before
    const { rows } = await client.query<{ name: string }>("SELECT quote_ident(current_database()) AS name");
    await client.query(`ALTER DATABASE ${rows[0]?.name} SET default_transaction_read_only = on`);
    const committing = commit(store, held);
    await until(() => wire.statements.some((sql) => sql.startsWith("WITH held")), "a turn on its way").finally(() =>
      client.query(`ALTER DATABASE ${rows[0]?.name} RESET default_transaction_read_only`),
    );
    expect(await committing).toMatchObject(COMMITTED);
    expect(await turnsOf(store, held)).toEqual([0]);
  });
  if (canOwnServers) {
    describe("with its server", () => {
      const own = useDatabase({ own: true });
      test("D2 is made again once the server is reachable", async () => {
        const schema = own.newSchema();
        const store = await own.open({ schema });
        await warm(store);
        const held = await runningAll(store, ...range(5).map((i) => `r${i}`));
        await hold(own, schema, held[0] as Held);
        const commits = held.map((one) => commit(store, one));
        await waiter(own);
        await own.server.restart();
        expect(await Promise.all(commits)).toMatchObject(held.map(() => COMMITTED));
        expect(await Promise.all(held.map((one) => turnsOf(store, one)))).toEqual(held.map(() => [0]));
      }, 30_000);
    });
  }
});

describe("a statement that fails", () => {
  test("D3 fails alone: those behind it are answered, on the same connection", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const [a, b, c] = (await runningAll(store, "a", "b", "c")) as [Held, Held, Held];
    await hold(database, schema, a);
    const commits = Promise.allSettled([a, b, c].map((one) => commit(store, one)));
    const pid = await waiter();
    await database.sql("SELECT pg_cancel_backend($1)", [pid]);
    const [failed, ...others] = await commits;
    expect(failed).toMatchObject({ reason: { code: "HF_STORE_FAILED", cause: { code: "57014" } } });
    expect(others).toMatchObject([{ value: COMMITTED }, { value: COMMITTED }]);
    expect(await backends(`pid = ${pid}`)).toEqual([{ pid }]);
    expect(await turnsOf(store, a)).toEqual([]);
  });
  test("D3 before it could be parsed: those that count on its name go on, and by name", async () => {
    const schema = database.newSchema();
    const { wire, url } = await Wire.to(database.url);
    onTestFinished(() => wire.close());
    const store = await fresh(schema, { connectionString: url });
    const [a, ...others] = (await runningAll(store, "a", "b", "c", "d")) as [Held, ...Held[]];
    const client = await database.client();
    await client.query("BEGIN");
    await client.query(`LOCK TABLE "${schema}".runs IN ACCESS EXCLUSIVE MODE`);
    const failing = commit(store, a);
    const committing = Promise.allSettled(others.map((one) => commit(store, one)));
    const failed = expect(failing).rejects.toMatchObject({ code: "HF_STORE_FAILED", cause: { code: "57014" } });
    await database.sql("SELECT pg_cancel_backend($1)", [await waiter()]);
    await failed;
    await client.query("ROLLBACK");
    const results = await committing;
    expect(results).toMatchObject(others.map(() => ({ value: COMMITTED })));
    await warm(store);
    const unnamed = wire.statements.filter((sql) => /^SELECT .*commit_turns_1/.test(sql) && !wire.named.includes(sql));
    expect(unnamed).toEqual([]);
  });
  test("D2 for all at once, when a pooler has come between and their names are gone: they go on without", async () => {
    const schema = database.newSchema();
    const { wire, url } = await Wire.to(database.url);
    onTestFinished(() => wire.close());
    const store = await database.open({ connectionString: url, schema });
    await warm(store);
    const held = await runningAll(store, "a", "b", "c", "d");
    await database.sql(`CREATE FUNCTION "${schema}".forget() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF pg_try_advisory_lock(7) THEN DEALLOCATE ALL; END IF; RETURN NEW; END $$`);
    await database.sql(
      `CREATE TRIGGER forget AFTER INSERT ON "${schema}".records FOR EACH STATEMENT EXECUTE FUNCTION "${schema}".forget()`,
    );
    const commits = await Promise.all(held.map((one) => commit(store, one)));
    expect(commits).toMatchObject(held.map(() => COMMITTED));
    expect(await Promise.all(held.map((one) => turnsOf(store, one)))).toEqual(held.map(() => [0]));
    await commit(store, held[0] as Held);
    expect(wire.statements.at(-1)).toContain("commit_turns_1"); // a statement without a name is seen each time
  });
});

describe("D3 one that waits for a lock", () => {
  /** `a` is held up, and `b` passes it by. */
  async function passedBy(size: number): Promise<{ store: TestStore; a: Held; b: Held[]; first: Promise<unknown>; holder: Client }> {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const [a, ...b] = (await runningAll(store, "a", ...range(size).map((i) => `b${i}`))) as [Held, ...Held[]];
    const holder = await hold(database, schema, a);
    let isOver = false;
    const first = commit(store, a).finally(() => {
      isOver = true;
    });
    expect(await commit(store, ...b)).toMatchObject(b.flatMap(() => COMMITTED));
    expect(isOver).toBe(false);
    return { store, a, b, first, holder };
  }
  test.each([
    ["turn", 1],
    ["batch", 2],
  ])("is passed by: what comes late of a %s writes nothing, and harms no other call", async (_, size) => {
    const { store, a, b, first, holder } = await passedBy(size);
    await holder.query("ROLLBACK");
    expect(await first).toMatchObject(COMMITTED);
    await settle(store, a);
    expect(await turnsOf(store, a)).toEqual([0, 1, 2]);
    for (const one of b) expect(await turnsOf(store, one)).toEqual([0]);
  });
  /** The same with a message in `b`, and no turn: nothing but the name of the call tells that it was carried out. */
  async function messagePassedBy(): Promise<{
    schema: string;
    store: TestStore;
    a: Held;
    target: Held;
    first: Promise<unknown>;
    holder: Client;
  }> {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const [a, b, target] = (await runningAll(store, "a", "b", "target")) as [Held, Held, Held];
    const holder = await hold(database, schema, a);
    const first = commit(store, a);
    const sends = [{ seq: 1, runId: "target", message: { job: signal("s1") } }];
    expect(await store.commit([draft(b, { sends })])).toMatchObject([{ status: "committed", sent: [{ status: "sent" }] }]);
    return { schema, store, a, target, first, holder };
  }
  test("D2 M1 is passed by: a message that goes with a late copy has arrived once", async () => {
    const { store, a, target, first, holder } = await messagePassedBy();
    await holder.query("ROLLBACK");
    expect(await first).toMatchObject(COMMITTED);
    await settle(store, a);
    expect((await inboxOf(store, target)).length).toBe(1);
  });
  test("is passed by for as long as it waits: others do not line up behind it again", async () => {
    const { store, a, b, first, holder } = await passedBy(1);
    const [other] = b as [Held];
    // Each of them held up by itself, they would take longer than a test may. Their slot goes on, and the late copy is refused for that.
    for (const _ of range(30)) expect(await commit(store, other)).toMatchObject(COMMITTED);
    await holder.query("ROLLBACK");
    expect(await first).toMatchObject(COMMITTED);
    await settle(store, a);
    expect(await turnsOf(store, other)).toEqual(range(31));
  }, 10_000);
  test("holds up none of those that have come with it while the connection was made", async () => {
    const schema = database.newSchema();
    const [a, b] = (await runningAll(await database.open({ schema }), "a", "b")) as [Held, Held];
    const store = await fresh(schema);
    const holder = await hold(database, schema, a);
    const first = commit(store, a);
    expect(await commit(store, b)).toMatchObject(COMMITTED);
    await holder.query("ROLLBACK");
    expect(await first).toMatchObject(COMMITTED);
    await settle(store, a);
    expect(await turnsOf(store, b)).toEqual([0]);
  });
  test("holds up no call that was before it, and has a second statement", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const [a, b] = (await runningAll(store, "a", "b")) as [Held, Held];
    await store.send([{ runId: "b", message: { job: signal("s1") } }]); // its turn can't be written alone
    const holder = await hold(database, schema, a);
    const before = commit(store, b);
    const first = commit(store, a);
    expect(await before).toMatchObject([{ status: "committed", inbox: [{ job: { id: "s1" } }] }]);
    await holder.query("ROLLBACK");
    expect(await first).toMatchObject(COMMITTED);
    await settle(store, a);
    expect(await turnsOf(store, b)).toEqual([0]);
  });
  test("D2 M1 is passed by: a message of a late copy has arrived once, though the store was closed before it came", async () => {
    const { schema, store, target, first, holder } = await messagePassedBy();
    const closing = store.close();
    await until(async () => (await database.sql(`SELECT 1 FROM "${schema}".instances`)).length === 0, "leave");
    await holder.query("ROLLBACK");
    await Promise.allSettled([first, closing]);
    const later = await database.open({ schema });
    expect((await inboxOf(later, target)).length).toBe(1);
  });
});

describe("nothing is left", () => {
  test("D2 of a store that is closed with many on the wire: each is answered, or refused and not carried out", async () => {
    const schema = database.newSchema();
    const store = await database.open({ schema });
    await warm(store);
    const held = await runningAll(store, "a", "b", "c");
    const holder = await hold(database, schema, held[0] as Held);
    const commits = Promise.allSettled(held.map((one) => commit(store, one)));
    await waiter();
    const closing = store.close();
    await holder.query("ROLLBACK");
    const turns = (await commits).map((settled) => {
      expect(settled).toMatchObject(settled.status === "fulfilled" ? { value: COMMITTED } : { reason: { code: "HF_STORE_CLOSED" } });
      return settled.status === "fulfilled" ? [0] : [];
    });
    await closing;
    await until(async () => (await backends("true")).length === 0, "the end of all connections");
    await expect(commit(store, held[0] as Held)).rejects.toMatchObject({ code: "HF_STORE_CLOSED" });
    const later = await database.open({ schema });
    expect(await Promise.all(held.map((one) => turnsOf(later, one)))).toEqual(turns);
  });
  test("a process that has left a store open ends by itself", async () => {
    const child = spawn(process.execPath, [await bundled("idler"), database.url, database.newSchema()]);
    onTestFinished(() => void child.kill());
    const said = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    const [code] = await once(child, "exit");
    expect([code, ...(await said)]).toEqual([0, "committed\n", ""]);
  }, 30_000);

  describe("of the wire itself", () => {
    const pipelines: Pipeline[] = [];
    afterEach(async () => {
      vi.useRealTimers();
      await Promise.all(pipelines.splice(0).map((one) => one.close()));
    });
    const pipeline = (more: Partial<PipelineOptions> = {}): Pipeline => {
      const config = { connectionString: database.url, application_name: "holdfast" };
      const made = new Pipeline({
        config,
        onConnect: () => undefined,
        onGivenUp: () => undefined,
        noAnswer: 30_000,
        idle: 30_000,
        ...more,
      });
      pipelines.push(made);
      return made;
    };
    const ask = async (on: Pipeline, text: string): Promise<object[]> => (await on.query({ text })).rows;
    const outcome = (answer: Promise<object[]>): Promise<unknown> => answer.catch((error: Error) => error.message);
    /** Two that are asked for, of which the first waits for a lock. */
    async function stuck(wire: Pipeline): Promise<{ holder: Client; answers: Promise<unknown[]> }> {
      const holder = await database.client();
      await holder.query("SELECT pg_advisory_lock(8)");
      const answers = [ask(wire, "SELECT 1 AS one FROM pg_advisory_xact_lock(8)"), ask(wire, "SELECT 2 AS two")];
      const settled = Promise.all(answers.map(outcome));
      await waiter();
      return { holder, answers: settled };
    }

    test("that is asked while it is not connected yet: one connection for all, in order, and free again", async () => {
      const wire = pipeline();
      const answers = range(5).map((i) => ask(wire, `SELECT ${i} AS i, pg_backend_pid() AS pid`));
      expect(wire.isBusy).toBe(true);
      const rows = (await Promise.all(answers)).flat() as { i: number; pid: number }[];
      expect(rows.map(({ i }) => i)).toEqual(range(5));
      expect(new Set(rows.map(({ pid }) => pid)).size).toBe(1);
      expect([wire.isBusy, wire.delay]).toEqual([false, 0]);
      await wire.close();
      await until(async () => (await backends("true")).length === 0, "its end");
    });
    test("that is closed with some on it: they are answered first", async () => {
      const wire = pipeline();
      const { holder, answers } = await stuck(wire);
      const order: string[] = [];
      const all = Promise.all([answers.then(() => order.push("answered")), wire.close().then(() => order.push("closed"))]);
      await holder.query("SELECT pg_advisory_unlock(8)");
      await all;
      expect([order, await answers]).toEqual([["answered", "closed"], [[{ one: 1 }], [{ two: 2 }]]]); // biome-ignore format: one list
      await until(async () => (await backends("true")).length === 0, "its end");
    });
    test("that is closed while it is made: callers that have asked are answered first", async () => {
      const wire = pipeline();
      const answer = ask(wire, "SELECT 1 AS one");
      await wire.close();
      await until(async () => (await backends("true")).length === 0, "its end");
      expect([await answer, wire.isBusy]).toEqual([[{ one: 1 }], false]);
    });
    test("that is closed when no answer comes", async () => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] }); // it does not look whether an answer comes before it is closed
      const wire = pipeline({ noAnswer: 100 });
      const { answers } = await stuck(wire);
      await wire.close();
      expect(await answers).toEqual(["Connection terminated", "Connection terminated"]);
    });
    test("that is closed when the server is out of reach", async () => {
      const sockets: Socket[] = [];
      const [source, target] = [new URL(database.url), new URL(database.url)];
      const between = createServer({ allowHalfOpen: true }, (client) => {
        const server = connect(Number(source.port || 5432), source.hostname);
        for (const socket of [client, server]) socket.on("error", () => undefined);
        sockets.push(client, server);
        client.pipe(server).pipe(client);
      });
      await once(between.listen(0, "127.0.0.1"), "listening");
      onTestFinished(() => {
        for (const socket of sockets) socket.destroy();
        between.close();
      });
      target.host = `127.0.0.1:${(between.address() as { port: number }).port}`;
      const wire = pipeline({ config: { connectionString: target.href, application_name: "holdfast" } });
      await ask(wire, "SELECT 1");
      for (const socket of sockets) socket.unpipe().pause(); // nothing passes any more, and neither side notices
      await wire.close();
      expect(wire.isBusy).toBe(false);
    });
    test("when it was not used for a while; and it is made again when it is needed", async () => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const wire = pipeline({ idle: 0 });
      await ask(wire, "SELECT 1");
      vi.advanceTimersByTime(10_000);
      expect(vi.getTimerCount()).toBe(0);
      await until(async () => (await backends("true")).length === 0, "its end");
      expect(await ask(wire, "SELECT 2 AS two")).toEqual([{ two: 2 }]);
    });
    test("when no answer comes: all that are on it learn that it is gone", async () => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const wire = pipeline({ noAnswer: 0 });
      const { answers } = await stuck(wire);
      vi.advanceTimersByTime(10_000);
      expect(await answers).toEqual(range(2).map(() => "no answer within 0 s"));
      expect([vi.getTimerCount(), wire.isBusy]).toEqual([0, false]);
      expect(await ask(wire, "SELECT 3 AS three")).toEqual([{ three: 3 }]);
    });
    test("when it is lost, with calls on it or without", async () => {
      const wire = pipeline();
      const lose = async (): Promise<void> => {
        for (const { pid } of await backends("true")) await database.sql("SELECT pg_terminate_backend($1, 5000)", [pid]);
      };
      const { answers } = await stuck(wire);
      await lose();
      expect(await answers).toEqual(range(2).map(() => expect.stringMatching(/^terminating connection|^Connection terminated|ECONNRESET/)));
      expect([wire.isBusy, wire.delay]).toEqual([false, 0]);
      expect(await ask(wire, "SELECT 3 AS three")).toEqual([{ three: 3 }]);
      await lose();
      await until(() => ask(wire, "SELECT 4").then(() => true, () => false), "a new one"); // biome-ignore format: one call
      expect(wire.isBusy).toBe(false);
    });
  });
});
