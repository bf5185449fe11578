// The application's own connections: for everything that is not part of a `transaction` step.

import { drizzle } from "drizzle-orm/node-postgres";
import { Pool } from "pg";

export const pool = new Pool({ connectionString: process.env["DATABASE_URL"] });
export const db = drizzle(pool);
export type Database = typeof db;
