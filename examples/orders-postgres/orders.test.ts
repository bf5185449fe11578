import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer, type TestServer } from "@holdfast/postgres-server";
import { eq } from "drizzle-orm";
import { Holdfast, RunFailedError, RunNotFoundError } from "holdfast";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, runDemo } from "../support/runDemo.ts";

describe("an order", () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-orders-"));
  let server: TestServer;
  let engine: Holdfast;
  let shop: Awaited<ReturnType<typeof open>>;

  /** The modules connect to the database that the environment names when they are imported. */
  async function open() {
    process.env["DATABASE_URL"] = await server.createDatabase();
    process.env["SERVICES_LOG"] = join(folder, "services.jsonl");
    const [database, schema, { order }, { placeOrder }] = await Promise.all([
      import("./database.ts"),
      import("./schema.ts"),
      import("./order.ts"),
      import("./shop.ts"),
    ]);
    await schema.createTables(database.db);
    return { ...database, ...schema, order, placeOrder };
  }
  beforeAll(async () => {
    server = await startServer();
    shop = await open();
    engine = await Holdfast.open(process.env["DATABASE_URL"], { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    await engine.worker({ workflows: [shop.order] });
  }, 60_000);
  afterAll(async () => {
    await engine.close();
    await shop.pool.end();
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  /** Places an order of a new product with one in stock; what is in the tables when its run has ended. */
  async function place(id: string, { address = "Home", quantity = 1 } = {}) {
    const { db, products, orders, ledger } = shop;
    await db.insert(products).values({ sku: id, stock: 1 });
    await shop.placeOrder(engine, { id, sku: id, quantity, cents: 500, address });
    const result = await engine
      .run(`order-${id}`, shop.order)
      .result()
      .catch((error: unknown) => error);
    const [product] = await db.select().from(products).where(eq(products.sku, id));
    const [order] = await db.select().from(orders).where(eq(orders.id, id));
    const entries = await db.select().from(ledger).where(eq(ledger.orderId, id)).orderBy(ledger.id);
    return { result, stock: product?.stock, status: order?.status, cents: entries.map((entry) => entry.cents) };
  }

  it("is reserved, paid, booked and shipped", async () => {
    expect(await place("a")).toEqual({ result: "shipped", stock: 0, status: "shipped", cents: [500] });
  });

  it("ends where there is not enough in stock", async () => {
    expect(await place("b", { quantity: 2 })).toEqual({ result: "sold out", stock: 1, status: "sold out", cents: [] });
  });

  it("is undone, last step first, if it can't be shipped", async () => {
    const { result, ...tables } = await place("c", { address: "nowhere" });
    expect(result).toBeInstanceOf(RunFailedError);
    expect(tables).toEqual({ stock: 1, status: "canceled", cents: [500, -500] });
    const undone = (await engine.run("order-c").operations()).filter(({ unit }) => unit.includes("rollback"));
    expect(undone.map(({ name, status }) => [name, status])).toEqual([
      ["book", "completed"],
      ["charge", "completed"],
      ["reserve", "completed"],
    ]);
  });

  it("has no run if its transaction was rolled back", async () => {
    const unknown = { id: "d", sku: "no such product", quantity: 1, cents: 1, address: "Home" };
    await expect(shop.placeOrder(engine, unknown)).rejects.toThrow();
    await expect(engine.run("order-d").describe()).rejects.toThrow(RunNotFoundError);
  });
});

describe("npm run example -- orders-postgres", () => {
  beforeAll(build, 60_000);

  it("has the effects of each order exactly once, although workers are killed", { timeout: 120_000 }, async () => {
    const { code, stdout, left } = await runDemo("orders-postgres");
    expect({ code, left }).toEqual({ code: 0, left: [] });
    expect(stdout.match(/✗ worker \d+ was killed/g)).toHaveLength(4);
    expect(stdout).toMatch(/shipped +4\d/);
  });
});
