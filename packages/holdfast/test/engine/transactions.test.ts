// D6: steps whose writes commit together with their record.

import { IllegalReturnError, RunFailedError, StepFailedError, signal, UnserializableValueError, workflow } from "holdfast";
import { beforeEach, describe, expect, test } from "vitest";
import { StoreFullError } from "../../src/store/errors.ts";
import type { SqliteTransaction } from "../../src/store/sqlite/transact.ts";
import { openShell, type Shell } from "../sqlite/support.ts";
import { DOOMED, enginesOn, errorOf, Gate, STORES, until, Wire } from "./engines.ts";

type Tx = SqliteTransaction;

describe("transaction steps on sqlite", () => {
  const engines = enginesOn("sqlite");
  let shell: Shell;
  beforeEach(async () => {
    await engines.open();
    shell = openShell(engines.path);
    shell.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT UNIQUE)");
    return () => shell.close();
  });
  const orders = () => shell.rows("SELECT what FROM orders ORDER BY id").map(({ what }) => what);

  test("D6 the user's writes and the outcome of the step are one commit", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx, what: string) =>
      ctx.transaction("insert", (tx: Tx) => Number(tx.run("INSERT INTO orders (what) VALUES (?)", what).lastInsertRowid)),
    );
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, "book");
    expect(await run.result()).toBe(1);
    expect(orders()).toEqual(["book"]);
    expect(await run.operations()).toMatchObject([{ kind: "transaction", name: "insert", status: "completed", output: 1 }]);
  });

  test("D6 exactly once, also if the worker dies right after the commit of the transaction", async () => {
    const wire = new Wire();
    const first = await engines.open({ wire });
    let bodies = 0;
    const buy = workflow("buy", async (ctx) => {
      const id = await ctx.transaction("insert", (tx: Tx) => {
        bodies++;
        return Number(tx.run("INSERT INTO orders (what) VALUES ('book')").lastInsertRowid);
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
    expect(orders()).toEqual(["book"]);
    expect(bodies).toBe(1);
    expect((await second.run(run.id).operations())[0]?.attempts).toMatchObject([{ number: 1, status: "completed" }]);
  });

  test.each([0, 1])(
    "D6 D12 the attempt that committed is listed as completed, though its worker was lost before it got the answer (%i failed before it)",
    async (failures) => {
      const wire = new Wire();
      const first = await engines.open({ wire });
      let bodies = 0;
      let isAtRest = false;
      const buy = workflow({ name: "buy", signals: { go: signal() } }, async (ctx) => {
        await ctx.transaction(
          "insert",
          (tx: Tx) => {
            if (++bodies <= failures) throw new Error("not yet");
            tx.run("INSERT INTO orders (what) VALUES ('book')");
          },
          { retry: { initialInterval: 1, jitter: 0 } },
        );
        await ctx.step("rest", ({ attempt }) => {
          isAtRest = true;
          return attempt > 1 ? undefined : new Promise(() => {});
        });
      });
      const committed = new Promise<void>((tell) => {
        wire.intercept("transact", async (pass, claim, body) => {
          await pass(claim, body);
          tell();
          return new Promise(() => {}); // the answer never comes
        });
      });
      const worker = await first.worker({ workflows: [buy], gracePeriod: 1 });
      const run = await first.start(buy, undefined);
      await committed;
      await run.signal("go", undefined); // the inbox is read, and the outcome is in it
      await expect.poll(() => isAtRest).toBe(true);
      await worker.stop();
      const second = await engines.open();
      await second.worker({ workflows: [buy] });
      await second.run(run.id).result({ timeout: "10s" });
      expect(orders()).toEqual(["book"]);
      const [insert, rest] = await second.run(run.id).operations();
      const before = failures === 0 ? [] : [{ number: 1, status: "failed" }];
      expect(insert?.attempts).toMatchObject([...before, { number: failures + 1, status: "completed", workerId: worker.id }]);
      expect(rest?.attempts).toMatchObject([{ status: "lost" }, { status: "completed" }]);
    },
  );

  test("D6 a throw takes the writes back, and is retried like any step", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        (tx: Tx, { attempt }) => {
          tx.run("INSERT INTO orders (what) VALUES (?)", `attempt ${attempt}`);
          if (attempt < 3) throw new Error("not yet");
          return attempt;
        },
        { retry: { initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, undefined);
    expect(await run.result()).toBe(3);
    expect(orders()).toEqual(["attempt 3"]);
    expect((await run.operations())[0]?.attempts.map(({ status }) => status)).toEqual(["failed", "failed", "completed"]);
  });

  test("D6 D8 what the store could not carry out is tried again, and is not an attempt of the step", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    let faults = 0;
    wire.intercept("transact", (pass, claim, body) =>
      pass(claim, (tx) => {
        const value = body(tx);
        if (faults++ < 2) throw new StoreFullError({ where: "the disk" });
        return value;
      }),
    );
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        (tx: Tx, { attempt }) => {
          tx.run("INSERT INTO orders (what) VALUES (?)", `attempt ${attempt}`);
          return attempt;
        },
        { retry: { maxAttempts: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    expect(await (await engine.start(buy, undefined)).result()).toBe(1);
    expect([faults, orders()]).toEqual([3, ["attempt 1"]]);
  });

  test("D8 an error that its function throws is its own, whatever it is, and counts", async () => {
    const engine = await engines.open();
    let bodies = 0;
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        () => {
          bodies++;
          throw new StoreFullError({ where: "another disk" });
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    await expect((await engine.start(buy, undefined)).result()).rejects.toMatchObject({ cause: { attempts: 2 } });
    expect(bodies).toBe(2);
  });

  test("C7 D6 a transaction that was abandoned is not tried again", async () => {
    const wire = new Wire();
    const engine = await engines.open({ wire });
    const asked = new Gate();
    let calls = 0;
    wire.intercept("transact", () => {
      calls++;
      asked.open();
      return Promise.reject(new StoreFullError({ where: "the disk" }));
    });
    const buy = workflow({ name: "buy", signals: { go: signal() } }, async (ctx) => {
      const { winner } = await ctx.race("first", {
        insert: (ctx) => ctx.transaction("insert", (tx: Tx) => void tx.run("INSERT INTO orders (what) VALUES ('late')")),
        go: (ctx) => ctx.waitForSignal("go"),
      });
      const tries = await ctx.step("count", () => calls);
      await ctx.sleep(400); // longer than the pause between tries
      return { winner, tries };
    });
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, undefined);
    await asked.passed;
    await run.signal("go");
    const { winner, tries } = await run.result();
    expect(winner).toBe("go");
    expect(calls).toBe(tries);
  });

  test.each(["COMMIT", "PRAGMA journal_mode = DELETE"])(
    "D6 one that uses %s is not tried again, though its error was wrapped",
    async (sql) => {
      const engine = await engines.open();
      let bodies = 0;
      const use = (tx: Tx): void => {
        bodies++;
        try {
          tx.exec(sql);
        } catch (cause) {
          throw bodies === 1 ? cause : new Error("wrapped", { cause });
        }
      };
      const buy = workflow("buy", async (ctx) => {
        await ctx.transaction("insert", use, { retry: { initialInterval: 1 } }).catch(() => undefined);
        await ctx.transaction("again", use, { retry: { initialInterval: 1 } }).catch(() => undefined);
      });
      await engine.worker({ workflows: [buy] });
      await (await engine.start(buy, undefined)).result();
      expect(bodies).toBe(2);
    },
  );

  test("D6 one that fails for good leaves nothing behind", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction(
        "insert",
        (tx: Tx) => {
          tx.run("INSERT INTO orders (what) VALUES ('book')");
          throw new Error("no");
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      ),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect(error.cause).toBeInstanceOf(StepFailedError);
    expect(orders()).toEqual([]);
  });

  test("D6 a function that returns a promise is rolled back with IllegalReturnError, and not tried again", async () => {
    const engine = await engines.open();
    let bodies = 0;
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", async (tx: Tx) => {
        bodies++;
        tx.run("INSERT INTO orders (what) VALUES ('book')");
      }),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect(error).toBeInstanceOf(RunFailedError);
    expect((error.cause as Error).cause).toBeInstanceOf(IllegalReturnError);
    expect(orders()).toEqual([]);
    expect(bodies).toBe(1);
  });

  test("D6 P8 a value that can't be stored takes the writes back: the step has not run", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", (tx: Tx) => {
        tx.run("INSERT INTO orders (what) VALUES ('book')");
        return { close: () => {} } as unknown;
      }),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect((error.cause as Error).cause).toBeInstanceOf(UnserializableValueError);
    expect(orders()).toEqual([]);
  });

  test("P9 D6 a value over the payload limit takes the writes back", async () => {
    const engine = await engines.open({ limits: { payloadBytes: 2_000 } });
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", (tx: Tx) => {
        tx.run("INSERT INTO orders (what) VALUES ('book')");
        return "x".repeat(3_000);
      }),
    );
    await engine.worker({ workflows: [buy] });
    const error = await errorOf((await engine.start(buy, undefined)).result());
    expect((error.cause as Error).cause).toMatchObject({ name: "LimitExceededError", limit: "payloadBytes" });
    expect(orders()).toEqual([]);
  });

  test("S1 a transaction has rollbacks like a step", async () => {
    const engine = await engines.open();
    const undone: unknown[] = [];
    const buy = workflow("buy", async (ctx) => {
      await ctx.transaction("insert", (tx: Tx) => Number(tx.run("INSERT INTO orders (what) VALUES ('book')").lastInsertRowid), {
        rollback: (id) => void undone.push(id),
      });
      throw new Error("no");
    });
    await engine.worker({ workflows: [buy] });
    await expect((await engine.start(buy, undefined)).result()).rejects.toThrow(RunFailedError);
    expect(undone).toEqual([1]);
  });

  test("D6 transactions of many runs at once are all made, once each", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx, n: number) => {
      for (let i = 0; i < 3; i++) {
        await ctx.transaction("insert", (tx: Tx) => void tx.run("INSERT INTO orders (what) VALUES (?)", `${n}.${i}`));
      }
    });
    await engine.worker({ workflows: [buy] });
    const runs = await engine.startMany(
      buy,
      Array.from({ length: 20 }, (_, n) => ({ input: n })),
    );
    await Promise.all(runs.map((run) => run.result()));
    expect(orders().sort()).toEqual(Array.from({ length: 20 }, (_, n) => [0, 1, 2].map((i) => `${n}.${i}`)).flat().sort()); // biome-ignore format: one line
  });
});

describe.each(STORES)("transaction steps on %s", (store) => {
  const engines = enginesOn(store);

  test("D6 they have attempt, idempotencyKey and signal, as steps do", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) =>
      ctx.transaction("insert", (_tx, { attempt, idempotencyKey, signal }) => ({ attempt, idempotencyKey, aborted: signal.aborted })),
    );
    await engine.worker({ workflows: [buy] });
    const run = await engine.start(buy, undefined, { id: "r" });
    expect(await run.result()).toEqual({ attempt: 1, idempotencyKey: "r/insert", aborted: false });
  });

  test("D6 a function that waits is waited for where the store can, and refused where it can't", async () => {
    const engine = await engines.open();
    const buy = workflow("buy", async (ctx) => ctx.transaction("insert", async () => 1));
    await engine.worker({ workflows: [buy] });
    const ended = (await engine.start(buy, undefined)).result();
    if (store !== "sqlite") expect(await ended).toBe(1);
    else expect(((await errorOf(ended)).cause as Error).cause).toBeInstanceOf(IllegalReturnError);
  });
});
