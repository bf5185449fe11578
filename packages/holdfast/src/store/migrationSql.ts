// The SQL that brings a store to the newest schema, for people who run it themselves.
// Owns: which stores have such SQL.
// Invariants: nothing is opened and nothing is written; what the SQL makes is what opening the store would make.

import { UnsupportedError } from "@holdfast/core";
import { optionalPackage } from "./optionalPackage.ts";
import { migrationStatements } from "./sqlite/schema.ts";

interface MigrationOptions {
  readonly namespace?: string;
  /** The version that the store has; 0 if it has none. */
  readonly from: number;
}

/** What `@holdfast/postgres` offers. It imports this package, so its types can't be had from there. */
interface PostgresPackage {
  migrationStatements(url: string, options: MigrationOptions): string;
}

/** One script, in one transaction. Empty if there is nothing to do. */
export async function migrationSql(url: string, options: MigrationOptions): Promise<string> {
  if (/^postgres(ql)?:/.test(url)) {
    const postgres = await optionalPackage<PostgresPackage>("@holdfast/postgres", "Engines on PostgreSQL");
    return inTransaction(postgres.migrationStatements(url, options));
  }
  if (url.startsWith("file:")) return inTransaction(migrationStatements(options.from));
  const instead = "Only stores on SQLite and PostgreSQL have a schema.";
  throw new UnsupportedError({ feature: "migrations", host: url.replace(/:.*$/s, ""), instead });
}

function inTransaction(sql: string): string {
  return sql === "" ? "" : `BEGIN;\n${sql.trim()}\nCOMMIT;\n`;
}
