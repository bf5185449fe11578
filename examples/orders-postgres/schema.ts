// The shop's own tables, in the same database as the runs. Nothing in them knows of Holdfast.

import { sql } from "drizzle-orm";
import { integer, pgTable, serial, text } from "drizzle-orm/pg-core";
import type { Database } from "./database.ts";

export const products = pgTable("products", {
  sku: text("sku").primaryKey(),
  stock: integer("stock").notNull(),
});

export const orders = pgTable("orders", {
  id: text("id").primaryKey(),
  sku: text("sku").notNull(),
  quantity: integer("quantity").notNull(),
  cents: integer("cents").notNull(),
  address: text("address").notNull(),
  status: text("status", { enum: ["placed", "reserved", "paid", "shipped", "sold out", "canceled"] }).notNull(),
});

/** The books: a row for every sale, and one for every sale that was taken back. */
export const ledger = pgTable("ledger", {
  id: serial("id").primaryKey(),
  orderId: text("order_id").notNull(),
  cents: integer("cents").notNull(),
  /** Of what may be written more than once, such as a compensation. Sales have none: their transaction happens exactly once. */
  key: text("key").unique(),
});

export type Order = typeof orders.$inferSelect;

/** A real application has migrations. */
export async function createTables(db: Database): Promise<void> {
  await db.execute(sql`
    CREATE TABLE IF NOT EXISTS products (sku text PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0));
    CREATE TABLE IF NOT EXISTS orders (
      id text PRIMARY KEY, sku text NOT NULL REFERENCES products, quantity integer NOT NULL, cents integer NOT NULL,
      address text NOT NULL, status text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS ledger (id serial PRIMARY KEY, order_id text NOT NULL, cents integer NOT NULL, key text UNIQUE);
  `);
}
