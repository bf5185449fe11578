// A step inside the database: the user's writes and the record of their outcome in one transaction.
// Owns: the `tx` that users get, and what it refuses.
// Invariants: D6 (both or neither; a throw takes the user's writes back), D4 (not for a claim that is lost).

import { IllegalReturnError, type Payload } from "@holdfast/core";
import { StoreError } from "../errors.ts";
import type { InboxJob, InboxMessage } from "../port.ts";
import type { Connection } from "./connection.ts";
import { isStorageFault, storeError } from "./failures.ts";
import { isHeld } from "./findRun.ts";
import { putMessage } from "./inbox.ts";
import type { NamedStatement, Value } from "./library.ts";
import type { Session } from "./session.ts";
import { isReadingPragma, type SqlStatement, statementsOf } from "./sqlText.ts";

/** What the function of a transaction step gets: better-sqlite3's ways, on Holdfast's connection. Of no use once the function has returned. */
export interface SqliteTransaction {
  /** A prepared statement. */
  prepare(sql: string): NamedStatement;
  /** Runs statements without parameters. */
  exec(sql: string): void;
  /** Runs a statement that writes: how many rows it changed (`changes`), and the id of the row that it inserted (`lastInsertRowid`). */
  run(sql: string, ...parameters: unknown[]): { changes: number; lastInsertRowid: number | bigint };
  /** The first row of a query. Undefined if there is none. */
  get(sql: string, ...parameters: unknown[]): Record<string, Value> | undefined;
  /** All rows of a query. */
  all(sql: string, ...parameters: unknown[]): Record<string, Value>[];
}

export interface TransactionClaim {
  readonly runId: string;
  readonly epoch: number;
  readonly seq: number;
}

/** Runs inside a transaction that others may share: only the writes of the user's function are undone if it throws. */
export function transact(
  session: Session,
  claim: TransactionClaim,
  body: (tx: unknown) => Payload | Promise<Payload>,
  now: number,
): InboxMessage | "stale" | Thrown {
  const { db } = session;
  const run = session.find(claim.runId);
  if (run === undefined || !isHeld(run, claim.epoch)) return "stale";
  db.run("SAVEPOINT user_transaction", []);
  const tx = openTransaction(db);
  let value: Payload;
  try {
    value = atOnce(body(tx.handle));
  } catch (error) {
    tx.end();
    db.run("ROLLBACK TO user_transaction", []);
    db.run("RELEASE user_transaction", []);
    return new Thrown(isStorageFault(error) ? storeError(error, db.path) : error);
  }
  tx.end();
  db.run("RELEASE user_transaction", []);
  const job: InboxJob = { type: "resolve", seq: claim.seq, outcome: { status: "completed", value } };
  return { id: putMessage(session, run.key, job, now), job };
}

/** D6: what is waited for would go on after the transaction had ended. Thrown here, it is rolled back. */
function atOnce(value: Payload | Promise<Payload>): Payload {
  if (!(value instanceof Promise)) return value;
  value.catch(() => {});
  throw new IllegalReturnError("The function of a transaction step returned a promise: on SQLite it is synchronous.");
}

/** The error of a user's function: not one of the store's. */
export class Thrown {
  readonly error: unknown;
  constructor(error: unknown) {
    this.error = error;
  }
}

/** `end` throws if a statement has rolled back everything, with what others had in the transaction. */
function openTransaction(db: Connection): { handle: SqliteTransaction; end: () => void } {
  let isOpen = true;
  let loss: unknown;
  const whileOpen = <T>(work: () => T): T => {
    if (!isOpen) throw refused("The transaction is over.\nUse tx inside the function that was given it, and before it returns.");
    if (loss !== undefined) throw loss;
    try {
      return work();
    } catch (error) {
      // D6: what is written now would be committed at once.
      if (!db.isInTransaction()) loss = isStorageFault(error) ? error : rolledBack(error);
      throw error;
    }
  };
  const prepare = (sql: string): NamedStatement => {
    const statement = whileOpen(() => db.prepareNamed(onlyStatement(sql)));
    return {
      run: (...parameters) => whileOpen(() => statement.run(...parameters)),
      get: (...parameters) => whileOpen(() => statement.get(...parameters)),
      all: (...parameters) => whileOpen(() => statement.all(...parameters)),
    };
  };
  const handle: SqliteTransaction = {
    prepare,
    exec: (sql) => {
      const statements = statementsOf(sql);
      for (const statement of statements) refuseControl(statement);
      // To the end, each of them: libsql's own exec may leave one in progress, and then nothing can be committed.
      for (const statement of statements) prepare(statement.sql).all();
    },
    run: (sql, ...parameters) => prepare(sql).run(...parameters),
    get: (sql, ...parameters) => prepare(sql).get(...parameters),
    all: (sql, ...parameters) => prepare(sql).all(...parameters),
  };
  const end = (): void => {
    isOpen = false;
    if (loss !== undefined) throw loss;
  };
  return { handle, end };
}

function onlyStatement(sql: string): string {
  const [statement, ...more] = statementsOf(sql);
  if (statement === undefined || more.length > 0) throw refused("prepare takes one statement.\nUse tx.exec for several.");
  refuseControl(statement);
  return statement.sql;
}

function refused(message: string, cause?: unknown): StoreError {
  return new StoreError(message, { code: "HF_STORE_TRANSACTION", cause });
}
function rolledBack(cause: unknown): StoreError {
  const { message } = cause as Error;
  return refused(
    `A statement of a transaction step has rolled back everything: ${message}.\nThrow to do so; OR ABORT and RAISE(ABORT) take back their own statement.`,
    cause,
  );
}

const CONTROL: ReadonlySet<string> = new Set(["begin", "commit", "end", "rollback", "savepoint", "release", "attach", "detach", "vacuum"]);

/** The transaction is the store's: it would be committed or lost with what others have in it. So is the connection, with its settings. */
function refuseControl({ verb, sql }: SqlStatement): void {
  if (verb === "pragma" && !isReadingPragma(sql))
    throw refused(
      "A transaction step may not use this PRAGMA: the connection is the store's.\nThose that tell of tables may be used (table_info, index_list …); change what is the file's on a connection of your own.",
    );
  if (!CONTROL.has(verb)) return;
  throw refused(
    `A transaction step may not use ${verb.toUpperCase()}: it runs inside a transaction already.\nThrow to take everything back, return to keep it.`,
  );
}
