// An order as a saga: stock and books in the application's own tables, payment and parcel at services outside. If a later step fails for
// good, what the earlier ones did is undone, last first.

import type { PostgresTransaction } from "@holdfast/postgres";
import { and, eq, gte, ne, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { FatalError, workflow } from "holdfast";
import { db } from "./database.ts";
import { ledger, type Order, orders, products } from "./schema.ts";
import { bank, carrier } from "./services.ts";

export const order = workflow("order", async (ctx, { orderId }: { orderId: string }) => {
  // One commit has these writes and the record that the step is done. If the process dies before it, nothing has happened; if it dies after
  // it, the step does not run again.
  const reserved = await ctx.transaction("reserve", (tx: PostgresTransaction) => reserve(tx, orderId), { rollback: release });
  if (reserved.status === "sold out") return "sold out";

  await ctx.step("charge", ({ idempotencyKey }) => bank.charge(reserved, idempotencyKey), {
    rollback: (_payment, { idempotencyKey }) => bank.refund(reserved, idempotencyKey),
  });

  await ctx.transaction("book", (tx: PostgresTransaction) => book(tx, reserved), {
    rollback: (_, { idempotencyKey }) => takeBack(reserved, idempotencyKey),
  });

  await ctx.step("ship", ({ idempotencyKey }) => carrier.ship(reserved, idempotencyKey));
  await ctx.transaction("close", async (tx: PostgresTransaction) => {
    await drizzle(tx).update(orders).set({ status: "shipped" }).where(eq(orders.id, orderId));
  });
  return "shipped";
});

// ── in the transaction of a step: exactly once ──

async function reserve(tx: PostgresTransaction, orderId: string): Promise<Order> {
  const db = drizzle(tx);
  const [placed] = await db.select().from(orders).where(eq(orders.id, orderId));
  if (placed === undefined) throw new FatalError(`There is no order ${orderId}.`);
  const taken = await db
    .update(products)
    .set({ stock: sql`${products.stock} - ${placed.quantity}` })
    .where(and(eq(products.sku, placed.sku), gte(products.stock, placed.quantity)))
    .returning();
  const status = taken.length > 0 ? "reserved" : "sold out";
  await db.update(orders).set({ status }).where(eq(orders.id, orderId));
  return { ...placed, status };
}

async function book(tx: PostgresTransaction, { id, cents }: Order): Promise<void> {
  const db = drizzle(tx);
  await db.insert(ledger).values({ orderId: id, cents });
  await db.update(orders).set({ status: "paid" }).where(eq(orders.id, id));
}

// ── compensations: at least once, so each is safe to repeat ──

/** Gives the stock back, if the order still has it. */
async function release({ id, sku, quantity, status }: Order): Promise<void> {
  if (status === "sold out") return;
  await db.transaction(async (tx) => {
    const canceled = await tx
      .update(orders)
      .set({ status: "canceled" })
      .where(and(eq(orders.id, id), ne(orders.status, "canceled")))
      .returning();
    if (canceled.length === 0) return; // an earlier attempt has done it
    await tx
      .update(products)
      .set({ stock: sql`${products.stock} + ${quantity}` })
      .where(eq(products.sku, sku));
  });
}

async function takeBack({ id, cents }: Order, key: string): Promise<void> {
  await db.insert(ledger).values({ orderId: id, cents: -cents, key }).onConflictDoNothing();
}
