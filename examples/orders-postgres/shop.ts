// What the web application calls: an order and its run begin in one transaction, or not at all. No outbox, and no order without a run.

import type { Holdfast } from "holdfast";
import { db } from "./database.ts";
import { order } from "./order.ts";
import { type Order, orders } from "./schema.ts";

export async function placeOrder(engine: Holdfast, placed: Omit<Order, "status">): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.insert(orders).values({ ...placed, status: "placed" });
    await engine.start(order, { orderId: placed.id }, { id: `order-${placed.id}`, attributes: { sku: placed.sku }, tx });
  });
}
