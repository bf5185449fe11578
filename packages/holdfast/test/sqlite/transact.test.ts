// D6 on SQLite: the user's own writes and the outcome of the step, in one transaction.

import { describe, expect, test } from "vitest";
import type { SqliteTransaction } from "../../src/store/sqlite/transact.ts";
import { type Bench, type Held, jobsOf, payload } from "../../src/testing/storeConformance/bench.ts";
import { DRIVERS, newPath, openBench, openShell } from "./support.ts";

describe.each(DRIVERS)("a transaction step on %s", (driver) => {
  async function withOrders(): Promise<{
    bench: Bench;
    held: Held;
    orders: () => unknown[];
    transact: (body: (tx: SqliteTransaction) => unknown) => Promise<unknown>;
  }> {
    const path = newPath();
    const bench = await openBench(path, { driver });
    const held = await bench.running("a");
    const shell = openShell(path, driver);
    shell.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT UNIQUE)");
    const orders = () => shell.rows("SELECT what FROM orders ORDER BY id").map(({ what }) => what);
    const { runId, epoch } = held;
    const transact = async (body: (tx: SqliteTransaction) => unknown) =>
      bench.store.transact?.({ runId, epoch, seq: 7 }, (tx) => payload(body(tx as SqliteTransaction)));
    return { bench, held, orders, transact };
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
