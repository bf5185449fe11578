// The door of `@holdfast/postgres`.
// Owns: nothing; it re-exports.
// Invariants: none.

export type { FromUrlOptions, PostgresStoreOptions } from "./options.ts";
export { PostgresReader } from "./reader.ts";
export { migrationStatements } from "./schema/migrate.ts";
export { PostgresStore } from "./store.ts";
export type { PostgresTransaction } from "./transactions.ts";
