// D6 on PostgreSQL: steps whose writes commit together with their record, and starts and signals that join a caller's transaction.

import { ask } from "@holdfast/postgres-server";
import {
  activity,
  InvalidInputError,
  RunClosedError,
  RunFailedError,
  RunNotFoundError,
  StepFailedError,
  signal,
  UnserializableValueError,
  workflow,
} from "holdfast";
import type { Wakeup } from "holdfast/store";
import { Client, type PoolClient } from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { DOOMED, enginesOn, errorOf, Gate, until, Wire } from "./engines.ts";

const engines = enginesOn("postgres");
const database = () => engines.url ?? "";
const counted = (n: number) => Array.from({ length: n }, (_, i) => i + 1);

beforeEach(async () => {
  await ask(database(), "DROP TABLE IF EXISTS orders");
  await ask(database(), "CREATE TABLE orders (id serial PRIMARY KEY, what text)");
});
const orders = async () => (await ask<{ what: string }>(database(), "SELECT what FROM orders ORDER BY id")).map(({ what }) => what);

async function insert(tx: PoolClient, what: string): Promise<number> {
  const { rows } = await tx.query("INSERT INTO orders (what) VALUES ($1) RETURNING id", [what]);
  return rows[0].id;
}

describe("transaction steps on postgres", () => {
  test("D6 the user's writes and the outcome of the step are one commit", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx, what: string) => ctx.transaction("insert", (tx: PoolClient) => insert(tx, what)));
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, "book");
    expect(await run.result()).toBe(1);
    expect(await orders()).toEqual(["book"]);
    expect(await run.operations()).toMatchObject([{ kind: "transaction", name: "insert", status: "completed", output: 1 }]);
  });

  test("D6 exactly once, also if the worker dies right after the commit of the transaction", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    let bodies = 0;
    const buy = workflow("buy", async (ctx) => {
      const id = await ctx.transaction("insert", (tx: PoolClient) => {
        bodies++;
        return insert(tx, "book");
      });
      return `order ${id}`;
    });
    wire.intercept("transact", async (pass, claim, body) => {
      const message = await pass(claim, body);
      wire.cut();
      return message;
    });
    await first.worker({ workflows: [buy], ...DOOMED });
    const run = await first.start(buy, undefined);
    await until(() => wire.isCut, "the transaction");
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [buy] });
    expect(await second.run(run.id).result()).toBe("order 1");
    expect(await orders()).toEqual(["book"]);
    expect(bodies).toBe(1);
  });

  test("D6 a throw takes the writes back, and is retried like any step", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        async (tx: PoolClient, { attempt }) => {
          await insert(tx, `attempt ${attempt}`);
          if (attempt < 3) throw new Error("not yet");
          return attempt;
        },
        { retry: { initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, undefined);
    expect(await run.result()).toBe(3);
    expect(await orders()).toEqual(["attempt 3"]);
    expect((await run.operations())[0]?.attempts.map(({ status }) => status)).toEqual(["failed", "failed", "completed"]);
  });

  test("D6 an error of the database fails the attempt and takes the writes back, though user code has swallowed it", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        async (tx: PoolClient) => {
          await insert(tx, "book");
          await tx.query("SELECT 1 / 0").catch(() => {});
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect(error.cause).toBeInstanceOf(StepFailedError);
    expect(await orders()).toEqual([]);
  });

  test("D6 one that has committed by itself is not tried again", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        async (tx: PoolClient) => {
          await insert(tx, "book");
          await tx.query("SELECT 1; COMMIT");
          throw new Error("and now?");
        },
        { retry: { maxAttempts: 3, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect(error.cause).toMatchObject({ cause: { code: "HF_STORE_TRANSACTION" } });
    expect(await orders()).toEqual(["book"]);
  });

  test("D6 P8 a value that can't be stored takes the writes back: the step has not run", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", async (tx: PoolClient) => {
        await insert(tx, "book");
        return { close: () => {} } as unknown;
      }),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect((error.cause as Error).cause).toBeInstanceOf(UnserializableValueError);
    expect(await orders()).toEqual([]);
  });

  test("S1 a transaction has rollbacks like a step", async () => {
    const engine = await engines.open();
    const undone: unknown[] = [];
    const buy = workflow("buy", async (ctx) => {
      await ctx.transaction("insert", (tx: PoolClient) => insert(tx, "book"), { rollback: (id) => void undone.push(id) });
      throw new Error("no");
    });
    await engine.worker({ workflows: [buy] });
    await expect((await engine.start(buy, undefined)).result()).rejects.toThrow(RunFailedError);
    expect(undone).toEqual([1]);
  });

  test("D6 transactions of many runs at once are all made, once each", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx, n: number) => {
      for (let i = 0; i < 3; i++) await ctx.transaction("insert", async (tx: PoolClient) => void (await insert(tx, `${n}.${i}`)));
    });
    await engine.worker({ workflows: [buy] });
    const runs = await engine.startMany(
      buy,
      Array.from({ length: 40 }, (_, n) => ({ input: n })),
    );
    await Promise.all(runs.map((run) => run.result()));
    expect((await orders()).sort()).toEqual(Array.from({ length: 40 }, (_, n) => [0, 1, 2].map((i) => `${n}.${i}`)).flat().sort()); // biome-ignore format: one line
  });

  test("D6 D4 a transaction whose run was taken by another worker meanwhile writes nothing", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    const [begun, released] = [new Gate(), new Gate()];
    let bodies = 0;
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", async (tx: PoolClient) => {
        const number = ++bodies;
        const id = await insert(tx, `body ${number}`);
        if (number === 1) {
          begun.open();
          await released.passed;
        }
        return id;
      }),
    );
    wire.intercept("renew", (_pass, _worker, _lease, claims) => Promise.resolve(claims.map(() => ({ held: true, inbox: [] }))));
    await first.worker({ workflows: [buy], ...DOOMED });
    const run = await first.start(buy, undefined);
    await begun.passed;
    const second = await engines.open();
    await engines.expireLeases();
    await second.worker({ workflows: [buy] });
    await second.run(run.id).result();
    released.open();
    await first.close();
    expect(await orders()).toEqual(["body 2"]);
  });

  test("M1 a signal to a run does not wait for the transaction that the run is in", async () => {
    const engine = await engines.open();
    const [begun, released] = [new Gate(), new Gate()];
    const buy = workflow("buy", async (ctx) => {
      await ctx.transaction("insert", async (tx: PoolClient) => {
        await insert(tx, "book");
        begun.open();
        await released.passed;
      });
      return ctx.waitForSignal("go");
    });
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, undefined);
    await begun.passed;
    await run.signal("go", "on");
    released.open();
    expect(await run.result()).toBe("on");
  });
});

describe("a caller's own transaction on postgres", () => {
  const echo = workflow("echo", async (ctx) => ctx.waitForSignal("go"));

  async function connected(): Promise<Client> {
    const client = new Client({ connectionString: database() });
    await client.connect();
    return client;
  }

  test("D2 M1 a start and a signal are there if and only if the transaction commits", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [echo] });
    const client = await connected();
    try {
      await client.query("BEGIN");
      await client.query("INSERT INTO orders (what) VALUES ('lost')");
      await engine.start(echo, undefined, { id: "lost", tx: client });
      await client.query("ROLLBACK");
      expect(await errorOf(engine.run("lost").describe())).toBeInstanceOf(RunNotFoundError);

      await client.query("BEGIN");
      await client.query("INSERT INTO orders (what) VALUES ('kept')");
      const run = await engine.start(echo, undefined, { id: "kept", tx: client });
      await run.signal("go", 1, { tx: client });
      expect(await errorOf(engine.run("kept").describe())).toBeInstanceOf(RunNotFoundError);
      await client.query("COMMIT");
      expect(await run.result()).toBe(1);
    } finally {
      await client.end();
    }
    expect(await orders()).toEqual(["kept"]);
  });

  test("M1 D9 a run that is about to end hears the signal of a transaction that has committed, though it is not in the inbox yet", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const long = activity("long", () => new Promise<void>(() => {}));
    const signals = { go: signal<number>() };
    const plain = workflow({ name: "plain", signals }, async (ctx) => {
      const heard: number[] = [];
      for (;;) {
        const { timedOut, payload } = await ctx.waitForSignal("go", { timeout: 20 });
        if (timedOut) return heard;
        heard.push(payload);
      }
    });
    const busy = workflow({ name: "busy", signals }, async (ctx) => {
      const heard: number[] = [];
      await ctx.race("first", {
        slept: (branch) => branch.sleep(20),
        worked: (branch) => branch.activity(long),
        hear: async (branch) => {
          for (;;) heard.push(await branch.waitForSignal("go"));
        },
      });
      return heard;
    });
    const client = await connected();
    const postman = await connected();
    try {
      await postman.query(`SELECT pg_advisory_lock(hashtextextended('"holdfast".mail', 0))`); // no mail is delivered
      const sent = new Set<string>();
      wire.intercept("commit", async (pass, turns) => {
        for (const { runId, close } of turns) {
          if (close === undefined || sent.has(runId)) continue;
          sent.add(runId);
          await client.query("BEGIN");
          for (const n of [1, 2]) await engine.run(runId).signal("go", n, { tx: client });
          await client.query("COMMIT");
        }
        return pass(turns);
      });
      for (const each of [plain, busy]) {
        const worker = await engine.worker({ workflows: [each] });
        expect(await (await engine.start(each, undefined)).result()).toEqual([1, 2]);
        await worker.stop();
      }
      expect(await ask(database(), "SELECT id FROM holdfast.mail")).toEqual([]);
    } finally {
      await Promise.all([client.end(), postman.end()]);
    }
  });

  test("M1 mail that can't be delivered for a while takes one connection of a process, however many transactions commit", async () => {
    const engine = await engines.open();
    const hears = workflow({ name: "hears", signals: { go: signal<number>() } }, async (ctx) => ctx.waitForSignal("go"));
    await engine.worker({ workflows: [hears] });
    const run = await engine.start(hears, undefined);
    const client = await connected();
    const postman = await connected();
    const deliveries = async (): Promise<number> => {
      const sql = `SELECT count(*)::int AS n FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%deliver_mail%' AND wait_event = 'advisory'`;
      return ((await ask(database(), sql)) as { n: number }[])[0]?.n ?? 0;
    };
    try {
      await postman.query(`SELECT pg_advisory_lock(hashtextextended('"holdfast".mail', 0))`);
      for (let n = 0; n < 12; n++) {
        await client.query("BEGIN");
        await run.signal("go", n, { tx: client });
        await client.query("COMMIT");
        // The next one is asked for while this one waits.
        if (n === 0) await until(async () => (await deliveries()) > 0, "a delivery that waits");
      }
      await engine.start(hears, undefined); // goes on
      expect(await deliveries()).toBe(1);
      await postman.query("SELECT pg_advisory_unlock_all()");
      expect(await run.result()).toBe(0);
    } finally {
      await Promise.all([client.end(), postman.end()]);
    }
  });

  // ── a transaction that is open while the run is about to end ──

  const hearing = workflow({ name: "hearing", signals: { go: signal<number>() } }, async (ctx) => {
    const heard: number[] = [];
    for (;;) {
      const { timedOut, payload } = await ctx.waitForSignal("go", { timeout: 20 });
      if (timedOut) return heard;
      heard.push(payload);
    }
  });
  /** Ends with an activity, a child and an update open, or answered: with all that a turn may ask for. */
  const long = activity("long", () => new Promise<void>(() => {}));
  const racing = workflow({ name: "racing", signals: { go: signal<number>() } }, async (ctx) => {
    const heard: number[] = [];
    await ctx.race("first", {
      slept: (branch) => branch.sleep(20),
      worked: (branch) => branch.activity(long),
      hear: async (branch) => {
        for (;;) heard.push(await branch.waitForSignal("go"));
      },
    });
    return heard;
  });
  /** Before the first commit that ends a run: `opens`; once the store has answered it, whichever way: `then`. */
  function aroundFirstEnd(wire: Wire, opens: (runId: string) => Promise<unknown>, then: (runId: string) => Promise<unknown>): void {
    const met = new Set<string>();
    wire.intercept("commit", async (pass, turns) => {
      const ending = turns.flatMap(({ runId, close }) => (close === undefined || met.has(runId) ? [] : [runId]));
      for (const id of ending) {
        met.add(id);
        await opens(id);
      }
      try {
        return await pass(turns);
      } finally {
        for (const id of ending) await then(id);
      }
    });
  }
  async function within<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await connected();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  test.each([
    ["a plain end", hearing],
    ["an end that abandons an activity", racing],
  ])("M1 D9 %s waits for a transaction with a signal for the run: it commits, and the run hears the signal", async (_, flow) => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    await within(async (client) => {
      const post = async (id: string): Promise<void> => {
        await client.query("BEGIN");
        for (const n of [1, 2]) await engine.run(id).signal("go", n, { tx: client });
      };
      aroundFirstEnd(wire, post, () => client.query("COMMIT"));
      await engine.worker({ workflows: [flow] });
      expect(await (await engine.start(flow, undefined)).result()).toEqual([1, 2]);
    });
    expect(await ask(database(), "SELECT id FROM holdfast.mail")).toEqual([]);
  });

  test("D9 it rolls back, and the run ends without the signal", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    await within(async (client) => {
      const post = async (id: string): Promise<void> => {
        await client.query("BEGIN");
        await engine.run(id).signal("go", 1, { tx: client });
      };
      let status: unknown;
      aroundFirstEnd(wire, post, async (id) => {
        status = (await engine.run(id).describe()).status;
        await client.query("ROLLBACK");
      });
      await engine.worker({ workflows: [hearing] });
      expect(await (await engine.start(hearing, undefined)).result()).toEqual([]);
      expect(status).toBe("running");
    });
  });

  test("D3 runs whose end waits for a transaction hold up no others, and terminate and deadlines do not wait for it", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const quick = workflow("quick", (ctx, n: number) => ctx.step("only", () => n));
    await within(async (client) => {
      await client.query("BEGIN");
      const tried = new Set<string>();
      aroundFirstEnd(wire, (id) => (id.startsWith("w") ? engine.run(id).signal("go", 1, { tx: client }) : Promise.resolve()), async (id) => tried.add(id)); // biome-ignore format: one call
      await engine.worker({ workflows: [hearing, quick] });
      const ids = ["w1", "w2", "w3", "w4", "w5"] as const;
      const late = { deadline: 1_500 };
      const waiting = await Promise.all(ids.map((id) => engine.start(hearing, undefined, { id, ...(id === "w5" && late) })));
      await until(() => ids.every((id) => tried.has(id)), "their ends");
      const runs = await engine.startMany(quick, counted(40).map((input) => ({ input }))); // biome-ignore format: one call
      expect(await Promise.all(runs.map((run) => run.result()))).toEqual(counted(40));
      await engine.run("w4").terminate("enough");
      await expect(engine.run("w4").result()).rejects.toMatchObject({ code: "HF_RUN_TERMINATED" });
      await expect(engine.run("w5").result()).rejects.toMatchObject({ code: "HF_RUN_FAILED" });
      expect((await engine.count({ status: "running" })).running).toBe(3);
      await client.query("COMMIT");
      expect(await Promise.all(waiting.slice(0, 3).map((run) => run.result()))).toEqual([[1], [1], [1]]);
    });
  });

  test("D10 a run that fails keeps the signal of a transaction that was open, for its resumption", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let tries = 0;
    const failing = workflow({ name: "failing", signals: { go: signal<number>() } }, async (ctx) => {
      await ctx.step("fails", () => { if (++tries === 1) throw new Error("not yet"); }, { retry: { maxAttempts: 1 } }); // biome-ignore format: one call
      return ctx.waitForSignal("go");
    });
    await within(async (client) => {
      const post = async (id: string): Promise<void> => {
        await client.query("BEGIN");
        await engine.run(id).signal("go", 7, { tx: client });
      };
      aroundFirstEnd(wire, post, () => client.query("COMMIT"));
      await engine.worker({ workflows: [failing] });
      const run = await engine.start(failing, undefined);
      await expect(run.result()).rejects.toThrow(RunFailedError);
      await until(async () => (await ask(database(), "SELECT id FROM holdfast.mail")).length === 0, "the delivery");
      await run.resume();
      expect(await run.result()).toBe(7);
    });
  });

  test("P10 a run continues as new while the transaction is open: the next execution hears the signal", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const chain = workflow({ name: "chain", signals: { go: signal<number>() } }, async (ctx, n: number) => {
      await ctx.sleep(5);
      return n === 1 ? ctx.continueAsNew(2) : ctx.waitForSignal("go");
    });
    await within(async (client) => {
      const continued: string[] = [];
      const post = async (id: string): Promise<void> => {
        await client.query("BEGIN");
        await engine.run(id).signal("go", 3, { tx: client });
      };
      aroundFirstEnd(wire, post, async (id) => {
        const execution = (await engine.run(id).describe()).execution;
        if (execution === 2) continued.push(id);
      });
      await engine.worker({ workflows: [chain] });
      const run = await engine.start(chain, 1);
      await until(() => continued.length === 1, "the next execution");
      await client.query("COMMIT");
      expect(await run.result()).toBe(3);
    });
  });

  test.each(["awaited", "given up"] as const)(
    "D6 a transaction step that signals its own run and another, and is %s: both runs end",
    async (how) => {
      const engine = await engines.open();
      const steps = workflow({ name: "steps", signals: { go: signal<number>() } }, async (ctx, other: string) => {
        const { winner } = await ctx.race("first", {
          sent: (branch) =>
            branch.transaction("send", async (tx: PoolClient) => {
              for (const id of [ctx.run.id, other]) await engine.run(id).signal("go", 1, { tx });
              await tx.query("SELECT pg_sleep(0.1)");
            }),
          slept: (branch) => branch.sleep(how === "awaited" ? "1h" : 5),
        });
        if (winner === "slept") return winner;
        return (await ctx.waitForSignal("go")) + (await ctx.waitForSignal("go"));
      });
      await engine.worker({ workflows: [steps] });
      const ids = counted(8).map((n) => `s${n}`);
      const runs = await Promise.all(ids.map((id, i) => engine.start(steps, ids[i ^ 1] ?? "", { id })));
      for (const run of runs) expect(await run.result()).toBe(how === "awaited" ? 2 : "slept");
    },
  );

  test("M1 transactions that signal several runs, in any order, while all of these are about to end: none is lost", async () => {
    const engine = await engines.open();
    await engine.worker({ workflows: [hearing] });
    const ids = counted(6).map((n) => `h${n}`);
    const runs = await Promise.all(ids.map((id) => engine.start(hearing, undefined, { id })));
    const committed = new Map(ids.map((id) => [id, 0]));
    const call = (turn: number): Promise<void> =>
      within(async (client) => {
        for (let round = 0; ; round++) {
          const order = turn % 2 === 0 ? ids : ids.toReversed();
          await client.query(turn < 2 ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ");
          const sent: string[] = [];
          let isTakenBack = false;
          for (const id of order) {
            const error = await engine.run(id, hearing).signal("go", round, { tx: client }).catch((thrown: unknown) => thrown); // biome-ignore format: one call
            if (error === undefined) sent.push(id);
            if (error === undefined || error instanceof RunClosedError) continue;
            // At that level a run that has changed since the transaction began can't be locked.
            expect([turn, error]).toMatchObject([expect.toSatisfy((n) => n >= 2), { code: "HF_STORE_BUSY", retryable: true }]);
            isTakenBack = true;
            break;
          }
          await client.query(isTakenBack ? "ROLLBACK" : "COMMIT");
          if (isTakenBack) continue;
          for (const id of sent) committed.set(id, (committed.get(id) ?? 0) + 1);
          if (sent.length === 0 || round === 30) return;
          await new Promise((resolve) => setTimeout(resolve, 10 + (round % 4) * 8));
        }
      });
    await Promise.all(counted(4).map((n) => call(n - 1)));
    for (const run of runs) expect([run.id, (await run.result()).length]).toEqual([run.id, committed.get(run.id)]);
  }, 30_000);

  test("W1 D9 the commit of the transaction wakes others, and nothing does before", async () => {
    const wire = new Wire();
    const heard: Wakeup[] = [];
    wire.intercept("watch", (pass, onWakeup) =>
      pass((wakeup) => {
        heard.push(wakeup);
        onWakeup(wakeup);
      }),
    );
    const engine = await engines.open();
    await engines.open({ wire });
    const client = await connected();
    try {
      await client.query("BEGIN");
      await engine.start(echo, undefined, { id: "r", tx: client });
      await engine.count();
      expect(heard.some(({ work }) => work)).toBe(false);
      await client.query("COMMIT");
      await until(() => heard.some(({ work }) => work), "news of the run");
    } finally {
      await client.end();
    }
  });

  test("what is not a transaction of this database is refused", async () => {
    const engine = await engines.open();
    expect(await errorOf(engine.start(echo, undefined, { tx: {} }))).toBeInstanceOf(InvalidInputError);
    expect(await errorOf(engine.run("r").signal("go", 1, { tx: "BEGIN" }))).toBeInstanceOf(InvalidInputError);
  });
});
