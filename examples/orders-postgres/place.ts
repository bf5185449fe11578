// node place.js [count]: places orders for lamps, which workers carry out, and waits for their end.

import { Holdfast } from "holdfast";
import { db, pool } from "./database.ts";
import { createTables, products } from "./schema.ts";
import { placeOrder } from "./shop.ts";

const count = Number(process.argv[2] ?? 10);
const engine = await Holdfast.open(process.env["DATABASE_URL"]);
await createTables(db);
await db.insert(products).values({ sku: "lamp", stock: 1_000 }).onConflictDoNothing();

const ids = Array.from({ length: count }, (_, i) => `${new Date().toISOString()}-${i}`);
for (const id of ids) await placeOrder(engine, { id, sku: "lamp", quantity: 1, cents: 9_900, address: "Home" });
console.log(`placed ${count} orders; waiting for workers`);
for (const id of ids) console.log(id, await engine.run(`order-${id}`).result());

await engine.close();
await pool.end();
