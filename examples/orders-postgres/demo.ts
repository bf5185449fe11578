// npm run example -- orders-postgres: orders on PostgreSQL, while workers are killed. In the end stock, books, bank and carrier must agree.

import assert from "node:assert/strict";
import { join } from "node:path";
import { startServer } from "@holdfast/postgres-server";
import { eq, sql } from "drizzle-orm";
import { Holdfast } from "holdfast";
import { demo, until } from "../support/demo.ts";
import { Program } from "../support/program.ts";
import { dim, say, title } from "../support/terminal.ts";
import type { Order } from "./schema.ts";

const LAMPS = 60;
const ORDERS = 48;
const script = join(import.meta.dirname, "worker.js");

await demo(async (folder) => {
  title("PostgreSQL, which the example brings along");
  say(dim("  starting …"));
  const server = await startServer();
  process.env["DATABASE_URL"] = await server.createDatabase();
  process.env["SERVICES_LOG"] = join(folder, "services.jsonl");
  const { db, pool } = await import("./database.ts");
  const { createTables, ledger, orders, products } = await import("./schema.ts");
  const { placeOrder } = await import("./shop.ts");
  const { deeds, requests } = await import("./services.ts");

  await createTables(db);
  await db.insert(products).values([{ sku: "lamp", stock: LAMPS }, { sku: "vase", stock: 2 }]); // biome-ignore format: one line
  const engine = await Holdfast.open(process.env["DATABASE_URL"]);
  const stockOf = async (sku: string) => (await db.select().from(products).where(eq(products.sku, sku)))[0]?.stock;

  title("A worker is killed in the middle of its transaction");
  const first = await Program.start(script);
  await db.transaction(async (tx) => {
    // The demo holds the row, so that the transaction of the worker has to wait with its work half done.
    await tx.select().from(products).where(eq(products.sku, "lamp")).for("no key update");
    await placeOrder(engine, { id: "A", sku: "lamp", quantity: 1, cents: 9_900, address: "Home" });
    await until("the worker to be in its transaction", async () => {
      const waiting = await db.execute(
        sql`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'update "products"%'`,
      );
      return waiting.rows.length > 0;
    });
    await first.kill();
  });
  assert.equal(await stockOf("lamp"), LAMPS);
  say(`  lamps in stock: ${await stockOf("lamp")}. The transaction was rolled back, and so was the record of the step.`);
  const workers = [await Program.start(script), await Program.start(script)];
  say(`  order A: ${await engine.run("order-A").result()}`);
  assert.equal(await stockOf("lamp"), LAMPS - 1);
  say(`  lamps in stock: ${await stockOf("lamp")}`);

  title(`${ORDERS} orders on two workers, which are killed again and again`);
  for (let i = 0; i < ORDERS; i++) {
    // Some go to an address that does not exist, some are for a vase, of which there are two.
    const address = i % 16 === 5 ? "nowhere" : "Home";
    await placeOrder(engine, { id: String(i), sku: i % 8 === 7 ? "vase" : "lamp", quantity: 1, cents: 9_900, address });
  }
  for (const share of [0.2, 0.45, 0.7]) {
    await until(`${share * 100}% of the orders to be paid`, () => deeds().length >= ORDERS * share * 2);
    await workers.shift()?.kill();
    say(dim(`  ${requests().length} requests to bank and carrier until now`));
    workers.push(await Program.start(script));
  }
  await until("the end of all orders", async () => {
    const { completed, failed } = await engine.count({ workflow: "order" });
    return completed + failed === ORDERS + 1;
  });

  title("The audit");
  const all = await db.select().from(orders);
  const numberOf = (wanted: Order["status"]) => all.filter(({ status }) => status === wanted).length;
  for (const status of ["shipped", "canceled", "sold out"] as const) say(`  ${status.padEnd(9)} ${numberOf(status)}`);
  assert.equal(numberOf("shipped") + numberOf("canceled") + numberOf("sold out"), ORDERS + 1);
  assert.ok(numberOf("canceled") > 0 && numberOf("sold out") > 0);

  const shipped = (sku: string) => all.filter((one) => one.sku === sku && one.status === "shipped").length;
  assert.equal(await stockOf("lamp"), LAMPS - shipped("lamp"));
  assert.equal(await stockOf("vase"), 2 - shipped("vase"));
  say("  stock     every lamp and vase that is missing was shipped");

  const entries = await db.select().from(ledger).orderBy(ledger.id);
  for (const { id, status } of all) {
    const cents = entries.filter(({ orderId }) => orderId === id).map((entry) => entry.cents);
    const expected = { shipped: [9_900], canceled: [9_900, -9_900] }[status as string] ?? [];
    assert.deepEqual(cents, expected, `the books of order ${id}, which is ${status}`);
    const done = deeds().flatMap(({ order, what }) => (order === id ? [what] : []));
    assert.deepEqual(done, { shipped: ["charge", "ship"], canceled: ["charge", "refund"] }[status as string] ?? []);
  }
  say("  books     one sale for each order that was shipped, a sale and its reversal for each that was canceled");
  say(
    `  services  ${deeds().length} requests carried out; ${requests().length - deeds().length} were repeated by a crash, under the same key`,
  );

  for (const worker of workers) await worker.stop();
  await engine.close();
  await pool.end();
  await server.stop();
});
