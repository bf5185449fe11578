// A step inside the database: the user's writes and the record of their outcome in one transaction.
// Owns: the `tx` that users get, and what it refuses.
// Invariants: D6 (both or neither; a throw takes the user's writes back), D4 (not for a claim that is lost).

import type { Payload } from "@holdfast/core";
import { StoreError } from "../errors.ts";
import type { InboxJob, InboxMessage } from "../port.ts";
import type { Connection } from "./connection.ts";
import type { NamedStatement, Value } from "./driver.ts";
import { isBusy, isStorageFault, storeError } from "./failures.ts";
import { findRun, isHeld } from "./findRun.ts";
import { putMessage } from "./inbox.ts";
import type { Session } from "./session.ts";

/** What the function of a transaction step gets: better-sqlite3's ways, on Holdfast's connection. Of no use once the function has returned. */
export interface SqliteTransaction {
  prepare(sql: string): NamedStatement;
  exec(sql: string): void;
  run(sql: string, ...parameters: unknown[]): { changes: number; lastInsertRowid: number | bigint };
  get(sql: string, ...parameters: unknown[]): Record<string, Value> | undefined;
  all(sql: string, ...parameters: unknown[]): Record<string, Value>[];
}

export interface TransactionClaim {
  readonly runId: string;
  readonly epoch: number;
  readonly seq: number;
}

/** Runs inside a transaction that others may share: what the user's function does is undone by itself if it throws. */
export function transact(
  session: Session,
  claim: TransactionClaim,
  body: (tx: unknown) => Payload,
  now: number,
): InboxMessage | "stale" | Thrown {
  const { db } = session;
  const run = findRun(db, claim.runId);
  if (run === undefined || !isHeld(run, claim.epoch)) return "stale";
  db.run("SAVEPOINT user_transaction", []);
  const tx = openTransaction(db);
  let value: Payload;
  try {
    value = body(tx.handle);
  } catch (error) {
    // A storage fault has ended the whole transaction, and so has to be met by whoever began it.
    if (isBusy(error) || isStorageFault(error)) throw error;
    db.run("ROLLBACK TO user_transaction", []);
    db.run("RELEASE user_transaction", []);
    return new Thrown(storeError(error, db.path));
  } finally {
    tx.end();
  }
  db.run("RELEASE user_transaction", []);
  const job: InboxJob = { type: "resolve", seq: claim.seq, outcome: { status: "completed", value } };
  return { id: putMessage(session, run.key, job, now), job };
}

/** The error of a user's function: not one of the store's. */
export class Thrown {
  readonly error: unknown;
  constructor(error: unknown) {
    this.error = error;
  }
}

function openTransaction(db: Connection): { handle: SqliteTransaction; end: () => void } {
  let isOpen = true;
  const allowed = (sql: string): string => {
    if (!isOpen) throw refused("The transaction is over.\nUse tx inside the function that was given it, and before it returns.");
    refuseControl(sql);
    return sql;
  };
  const prepare = (sql: string): NamedStatement => {
    const statement = db.prepareNamed(allowed(sql));
    const still = <T>(work: () => T): T => {
      allowed("");
      return work();
    };
    return {
      run: (...parameters) => still(() => statement.run(...parameters)),
      get: (...parameters) => still(() => statement.get(...parameters)),
      all: (...parameters) => still(() => statement.all(...parameters)),
    };
  };
  const handle: SqliteTransaction = {
    prepare,
    exec: (sql) => db.exec(allowed(sql)),
    run: (sql, ...parameters) => prepare(sql).run(...parameters),
    get: (sql, ...parameters) => prepare(sql).get(...parameters),
    all: (sql, ...parameters) => prepare(sql).all(...parameters),
  };
  const end = (): void => {
    isOpen = false;
  };
  return { handle, end };
}

function refused(message: string): StoreError {
  return new StoreError(message, { code: "HF_STORE_TRANSACTION" });
}

// ── statements that begin or end transactions ──

const CONTROL = /^(begin|commit|end|rollback|savepoint|release|attach|detach|vacuum)$/;
/** Comments, texts, quoted names, words, ends of statements; all else is passed over. */
const TOKEN = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|[\p{L}_][\p{L}\p{N}_$]*|;/gu;

/** The transaction is the store's: it would be committed or lost with what others have in it. */
export function refuseControl(sql: string): void {
  let words: string[] = [];
  let isTrigger = false;
  for (const [token] of sql.matchAll(TOKEN)) {
    if (/^(--|\/\*|['"`[])/.test(token)) continue;
    if (token === ";") {
      if (!isTrigger) words = [];
      continue;
    }
    const word = token.toLowerCase();
    words.push(word);
    const [first] = words;
    if (words.length === 1 && CONTROL.test(word)) {
      throw refused(
        `A transaction step may not use ${word.toUpperCase()}: it runs inside a transaction already.\nThrow to take everything back, return to keep it.`,
      );
    }
    // The body of a trigger has statements of its own, up to its END; CASE has one too.
    if (first === "create" && word === "trigger" && words.length <= 3) isTrigger = true;
    if (isTrigger && word === "end" && words.filter((one) => one === "case").length === words.filter((one) => one === "end").length - 1) {
      isTrigger = false;
      words = [first ?? ""];
    }
  }
}
