// D6 on SQLite: the user's own writes and the outcome of the step, in one transaction.

import { type Bench, type Held, jobsOf, payload } from "@holdfast/conformance/bench";
import { describe, expect, test } from "vitest";
import { StoreError, StoreFullError } from "../../src/store/errors.ts";
import type { SqliteTransaction } from "../../src/store/sqlite/transact.ts";
import { LIBRARIES, newPath, openLimited, openShell } from "./support.ts";

describe.each(LIBRARIES)("a transaction step on %s", (library) => {
  async function withOrders(): Promise<{
    bench: Bench;
    held: Held;
    orders: () => unknown[];
    transact: (body: (tx: SqliteTransaction) => unknown) => Promise<unknown>;
    limit: (more: number) => void;
  }> {
    const path = newPath();
    const { bench, limit } = await openLimited(path, { library });
    const held = await bench.running("a");
    const shell = openShell(path, library);
    shell.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT UNIQUE)");
    const orders = () => shell.rows("SELECT what FROM orders ORDER BY id").map(({ what }) => what);
    const { runId, epoch } = held;
    const transact = async (body: (tx: SqliteTransaction) => unknown) =>
      bench.store.transact?.({ runId, epoch, seq: 7 }, (tx) => payload(body(tx as SqliteTransaction)));
    return { bench, held, orders, transact, limit };
  }

  test("D6 writes of the user and the outcome are there together", async () => {
    const { bench, held, orders, transact } = await withOrders();
    const message = await transact((tx) => {
      const insert = tx.prepare("INSERT INTO orders (what) VALUES (?)");
      const { lastInsertRowid } = insert.run("book");
      insert.run("pen");
      tx.exec("INSERT INTO orders (what) VALUES ('ink'); SELECT * FROM orders; UPDATE orders SET what = what || '!' WHERE what = 'ink';");
      return {
        first: Number(lastInsertRowid),
        all: tx.all("SELECT what FROM orders WHERE id > :id", { id: 1 }),
        one: tx.get("SELECT count(*) AS n FROM orders"),
      };
    });
    expect(orders()).toEqual(["book", "pen", "ink!"]);
    const value = payload({ first: 1, all: [{ what: "pen" }, { what: "ink!" }], one: { n: 3 } });
    expect(message).toEqual({ id: expect.any(Number), job: { type: "resolve", seq: 7, outcome: { status: "completed", value } } });
    expect(await bench.inbox(held)).toEqual([message]);
  });

  test("D6 a throw takes back the user's writes, and nothing of others in the same transaction", async () => {
    const { bench, held, orders, transact } = await withOrders();
    const mistake = new Error("out of stock");
    const [failed, created, kept] = await Promise.allSettled([
      transact((tx) => {
        tx.run("INSERT INTO orders (what) VALUES ('book')");
        throw mistake;
      }),
      bench.create("b"),
      transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('pen')").changes),
    ]);
    expect(failed).toEqual({ status: "rejected", reason: mistake });
    expect([created.status, kept.status]).toEqual(["fulfilled", "fulfilled"]);
    expect(orders()).toEqual(["pen"]);
    expect(jobsOf(await bench.inbox(held))).toHaveLength(1);
  });

  test("D2 D3 a step that is refused takes no other of the same transaction with it", async () => {
    const { orders, transact } = await withOrders();
    let ran = 0;
    const [refused, kept] = await Promise.allSettled([
      transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('book'); INSERT INTO orders (what) VALUES ('pen')")),
      transact((tx) => {
        ran++;
        tx.run("INSERT INTO orders (what) VALUES ('ink')");
      }),
    ]);
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_TRANSACTION" } });
    expect([kept.status, ran]).toEqual(["fulfilled", 1]);
    expect(orders()).toEqual(["ink"]);
  });

  test.each([
    ["HF_STORE_TRANSACTION", () => new StoreError("mine", { code: "HF_STORE_TRANSACTION" })],
    ["HF_STORE_FULL", () => new StoreFullError({ where: "another store" })],
  ])("D6 an error %s of the user's own fails their step, and no other", async (_, make) => {
    const { orders, transact } = await withOrders();
    const mistake = make();
    let ran = 0;
    const [failed, kept] = await Promise.allSettled([
      transact((tx) => {
        tx.run("INSERT INTO orders (what) VALUES ('book')");
        throw mistake;
      }),
      transact((tx) => {
        ran++;
        tx.run("INSERT INTO orders (what) VALUES ('ink')");
      }),
    ]);
    expect(failed).toEqual({ status: "rejected", reason: mistake });
    expect([kept.status, ran]).toEqual(["fulfilled", 1]);
    expect(orders()).toEqual(["ink"]);
  });

  test("D2 D3 a step that finds no room takes no other of the same transaction with it", async () => {
    const { orders, transact, limit } = await withOrders();
    limit(4);
    let ran = 0;
    const [failed, kept] = await Promise.allSettled([
      // Of several rows: SQLite takes back the statement alone.
      transact((tx) => tx.run("INSERT INTO orders (what) SELECT hex(randomblob(10000)) FROM (VALUES (1), (2), (3), (4))")),
      transact((tx) => {
        ran++;
        tx.run("INSERT INTO orders (what) VALUES ('ink')");
      }),
    ]);
    expect(failed).toMatchObject({ status: "rejected", reason: { code: "HF_STORE_FULL" } });
    expect([kept.status, ran]).toEqual(["fulfilled", 1]);
    expect(orders()).toEqual(["ink"]);
  });

  describe.each([
    ["INSERT OR ROLLBACK", "HF_STORE_TRANSACTION", (tx: SqliteTransaction) => tx.run("INSERT OR ROLLBACK INTO orders VALUES (1, 'x')")],
    ["RAISE(ROLLBACK)", "HF_STORE_TRANSACTION", (tx: SqliteTransaction) => tx.run("DELETE FROM orders")],
    ["a full disk", "HF_STORE_FULL", (tx: SqliteTransaction) => tx.run("INSERT INTO orders (what) VALUES (?)", "x".repeat(100_000))],
  ])("%s, which rolls back everything and is caught", (_, code, fatal) => {
    async function withFatal() {
      const given = await withOrders();
      await given.transact((tx) => {
        tx.exec("CREATE TRIGGER keep BEFORE DELETE ON orders BEGIN SELECT RAISE(ROLLBACK, 'kept'); END");
        tx.run("INSERT INTO orders (what) VALUES ('book')");
      });
      given.limit(4);
      return given;
    }
    const careless = (tx: SqliteTransaction): void => {
      const insert = tx.prepare("INSERT INTO orders (what) VALUES (?)");
      insert.run("pen");
      expect(() => fatal(tx)).toThrow();
      try {
        insert.run("late");
      } catch {
        // nor does it heed this one
      }
      expect(() => tx.get("SELECT 1")).toThrow(expect.objectContaining({ code: expect.stringMatching(/TRANSACTION|FULL/) }));
    };

    test("D6 what is written after it is not written either, and the step fails", async () => {
      const { bench, held, orders, transact, limit } = await withFatal();
      const before = await bench.inbox(held);
      await expect(transact(careless)).rejects.toMatchObject({ code });
      expect(orders()).toEqual(["book"]);
      expect(await bench.inbox(held)).toEqual(before);
      limit(1_000);
      await transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('ink')"));
      expect(orders()).toEqual(["book", "ink"]);
    });

    test("D6 an error that the user throws in its place does not hide it", async () => {
      const { orders, transact } = await withFatal();
      const hiding = (tx: SqliteTransaction): void => {
        careless(tx);
        throw new Error("something else");
      };
      await expect(transact(hiding)).rejects.toMatchObject({ code });
      expect(orders()).toEqual(["book"]);
    });
  });

  test("D6 a statement that fails can be caught, or fails the step", async () => {
    const { orders, transact } = await withOrders();
    await transact((tx) => {
      tx.run("INSERT INTO orders (what) VALUES ('book')");
      expect(() => tx.run("INSERT INTO orders (what) VALUES ('book')")).toThrow(/UNIQUE/);
      tx.run("INSERT OR IGNORE INTO orders (what) VALUES ('book')");
    });
    expect(orders()).toEqual(["book"]);
    await expect(transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('book')"))).rejects.toMatchObject({
      code: "SQLITE_CONSTRAINT",
      name: "SqliteError",
    });
    await expect(transact((tx) => tx.run("SELEC 1"))).rejects.toThrow(/syntax error/);
  });

  test("D6 even if the user's statement rolls everything back, others' writes are made", async () => {
    const { bench, orders, transact } = await withOrders();
    await transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('book')"));
    const [created, failed] = await Promise.allSettled([
      bench.create("b"),
      transact((tx) => {
        tx.run("INSERT INTO orders (what) VALUES ('pen')");
        tx.run("INSERT OR ROLLBACK INTO orders (what) VALUES ('book')");
      }),
    ]);
    expect([created.status, failed.status]).toEqual(["fulfilled", "rejected"]);
    expect(await bench.exists("b")).toBe(true);
    expect(orders()).toEqual(["book"]);
  });

  test.each([
    "BEGIN",
    "  commit",
    "END TRANSACTION",
    "ROLLBACK",
    "SAVEPOINT x",
    "/* quietly */ -- and\n COMMIT;",
    "INSERT INTO orders (what) VALUES ('; COMMIT'); COMMIT",
    "ATTACH 'other.db' AS other",
    "VACUUM",
  ])("D6 %j is refused", async (sql) => {
    const { orders, transact } = await withOrders();
    await expect(transact((tx) => tx.exec(sql))).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    await expect(transact((tx) => tx.run(sql))).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    expect(orders()).toEqual([]);
  });

  test.each([
    "PRAGMA query_only = 1",
    "PRAGMA locking_mode = EXCLUSIVE",
    "/* quietly */ pragma main.journal_mode(DELETE)",
    'PRAGMA "query_only" = table_info',
    "EXPLAIN PRAGMA query_only = 1",
    "EXPLAIN QUERY PLAN PRAGMA query_only = 1",
    "PRAGMA user_version = 5",
    "PRAGMA user_version(5)",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA wal_checkpoint",
    "PRAGMA -- table_info(orders)\n query_only = 1",
  ])("D6 %j is refused: a setting would stay on the store's connection", async (sql) => {
    const { bench, orders, transact } = await withOrders();
    await expect(transact((tx) => tx.exec(sql))).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    await expect(transact((tx) => tx.prepare(sql))).rejects.toMatchObject({ code: "HF_STORE_TRANSACTION" });
    await bench.created("b");
    expect(orders()).toEqual([]);
  });

  test("D6 a PRAGMA that only reads is not refused", async () => {
    const { transact } = await withOrders();
    await transact((tx) => {
      expect(tx.all("PRAGMA table_info(orders)").map(({ name }) => name)).toEqual(["id", "what"]);
      expect(tx.all("-- indexes\n PRAGMA main.index_list('orders');")).toHaveLength(1);
      expect(tx.get("pragma user_version")).toEqual({ user_version: 0 });
      expect(tx.get("PRAGMA foreign_key_check /* all */")).toBeUndefined();
      expect(tx.all("EXPLAIN QUERY PLAN SELECT * FROM orders")).toHaveLength(1);
    });
  });

  test("D6 words of transactions elsewhere are not refused", async () => {
    const { orders, transact } = await withOrders();
    await transact((tx) =>
      tx.exec(`
        CREATE TRIGGER twice AFTER INSERT ON orders WHEN NEW.what = 'begin' BEGIN
          UPDATE orders SET what = CASE WHEN what = 'x' THEN 'y' ELSE 'commit' END WHERE id = NEW.id;
          INSERT INTO orders (what) VALUES ('rollback');
        END;
        INSERT INTO orders (what) VALUES ('begin');
        CREATE TABLE "commit" ([end] TEXT, \`begin\` TEXT);
      `),
    );
    expect(orders()).toEqual(["commit", "rollback"]);
  });

  test("D6 a user's own foreign keys hold", async () => {
    const { orders, transact } = await withOrders();
    const orphan = (tx: SqliteTransaction) => {
      tx.exec("CREATE TABLE lines (order_id INTEGER REFERENCES orders (id))");
      tx.run("INSERT INTO lines (order_id) VALUES (42)");
    };
    await expect(transact(orphan)).rejects.toThrow(/FOREIGN KEY/);
    expect(orders()).toEqual([]);
  });

  test("D6 tx is of no use afterwards", async () => {
    const { orders, transact } = await withOrders();
    let kept: SqliteTransaction | undefined;
    await transact((tx) => {
      kept = tx;
    });
    expect(() => kept?.run("INSERT INTO orders (what) VALUES ('late')")).toThrow(/over/);
    expect(orders()).toEqual([]);
  });

  test("D4 a claim that is lost runs nothing", async () => {
    const { bench, held, orders, transact } = await withOrders();
    await bench.store.terminate([{ runId: held.runId, reason: undefined }]);
    expect(await transact((tx) => tx.run("INSERT INTO orders (what) VALUES ('late')"))).toBe("stale");
    expect(orders()).toEqual([]);
  });
});
