// Transactions that are the caller's own: starts and signals that are there if and only if they commit.
// Owns: what counts as a transaction, of which library.
// Invariants: no run that a worker may have is locked for the length of somebody's transaction; wake-ups come with its commit; anything
// that is no open transaction is refused, since each statement would commit by itself.

import { InvalidInputError } from "@holdfast/core";
import { StoreError } from "holdfast/store";
import type { Parameter } from "./connections.ts";
import { isContended } from "./failures.ts";

/** Runs one statement in the caller's transaction; the first column of its first row. */
export type Ask = (sql: string, values: readonly Parameter[]) => Promise<string | null>;

type Loose = Readonly<Record<string, unknown>>;
type Method = (...args: readonly unknown[]) => unknown;
type Rows = readonly Readonly<Record<string, unknown>>[];

export function askIn(tx: unknown): Ask {
  const ask = findWay(tx);
  return async (sql, values) => {
    let rows: Rows;
    try {
      rows = await ask(sql, values);
    } catch (error) {
      throw explained(error);
    }
    const [first] = rows;
    const value = first === undefined ? null : Object.values(first)[0];
    return typeof value === "string" ? value : value === null || value === undefined ? null : JSON.stringify(value);
  };
}

function findWay(tx: unknown): (sql: string, values: readonly Parameter[]) => Promise<Rows> {
  if ((typeof tx !== "object" && typeof tx !== "function") || tx === null) throw refused(`it is ${tx === null ? "null" : typeof tx}`);
  const given = tx as Loose;
  const has = (...names: readonly string[]): boolean => names.every((name) => typeof given[name] === "function");

  // postgres.js: `sql.begin((sql) => …)`.
  if (typeof tx === "function" && has("unsafe")) {
    if (!has("savepoint")) throw refused("it is a postgres.js client: use the sql that sql.begin hands to its function");
    return async (sql, values) => (await (given["unsafe"] as Method)(sql, [...values])) as Rows;
  }
  // Kysely: `db.transaction().execute((trx) => …)`.
  if (has("selectFrom", "executeQuery")) {
    if (given["isTransaction"] !== true)
      throw refused("it is a Kysely instance: use the trx that db.transaction().execute hands to its function");
    return async (sql, values) => {
      const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
      const { rows } = (await (given["executeQuery"] as Method).call(tx, {
        sql,
        parameters: [...values],
        query,
        queryId: { queryId: "holdfast" },
      })) as { rows: Rows };
      return rows;
    };
  }
  // Drizzle: `db.transaction((tx) => …)`.
  if (has("execute", "select", "insert")) {
    if (!has("rollback")) throw refused("it is a Drizzle database: use the tx that db.transaction hands to its function");
    return async (sql, values) => {
      const result = (await (given["execute"] as Method).call(tx, inlined(sql, values))) as Rows | { readonly rows: Rows };
      return "rows" in result ? result.rows : result;
    };
  }
  // pg.
  if (has("query")) {
    if (has("connect") && "totalCount" in given) throw refused("it is a pool: take a client of it, BEGIN on that, and give that client");
    const status = has("getTransactionStatus") ? (given["getTransactionStatus"] as Method).call(tx) : undefined;
    if (status === "I") throw refused("no transaction is open on it: BEGIN first");
    return async (sql, values) => ((await (given["query"] as Method).call(tx, sql, [...values])) as { rows: Rows }).rows;
  }
  throw refused("it is none that this store knows");
}

function refused(why: string): InvalidInputError {
  return new InvalidInputError({
    what: "tx",
    issues: [
      { message: `must be an open transaction of pg, postgres.js, Drizzle or Kysely on the store's database; ${why}`, path: ["tx"] },
    ],
  });
}

/** Drizzle takes a statement as text. Escape strings mean the same whatever the server's settings say. */
function inlined(sql: string, values: readonly Parameter[]): string {
  return sql.replace(/\$(\d+)/g, (_, number: string) => {
    const value = values[Number(number) - 1];
    if (value === null || value === undefined) return "NULL";
    if (typeof value !== "string") return String(value);
    return `E'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  });
}

/** A call that met another one can't be repeated here: the transaction is lost with it. */
function explained(error: unknown): unknown {
  const cause = error instanceof Error && isContended(error.cause) ? error.cause : error;
  if (!isContended(cause)) return error;
  return new StoreError("Another transaction was at the same run.\nRoll this one back and do it again.", {
    code: "HF_STORE_BUSY",
    cause,
    retryable: true,
  });
}
