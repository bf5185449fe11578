// A step inside the database: the user's writes and the record of their outcome in one transaction.
// Owns: the `tx` that users get, what it refuses, and how the session is cleaned afterwards.
// Invariants: D6 (both or neither; a throw rolls the user's writes back), D4 (not for a claim that is lost). The row of the run is locked at
// the end only, between the outcome and the commit: messages for the run do not wait for users' code. What users have set, locked or made
// for their session is gone when others get the connection.

import type { EventEmitter } from "node:events";
import type { Payload } from "@holdfast/core";
import { type InboxJob, type InboxMessage, StoreError } from "holdfast/store";
import type { PoolClient } from "pg";
import { text } from "./columns.ts";
import type { CallToken } from "./connection/callTokens.ts";
import type { Connections, Session } from "./connection/connections.ts";
import { isContended, isLost, isReadOnly, storeError, unavailable } from "./connection/serverErrors.ts";
import { messageFields } from "./runs/runRow.ts";

/**
 * What the function of a transaction step gets: a client of `pg` in an open transaction, for everything that accepts one, such as
 * `drizzle(tx)`. Of no use once the function has returned. `release` and `end` throw: the store has the connection.
 */
export type PostgresTransaction = PoolClient;

export interface TransactionClaim {
  readonly runId: string;
  readonly epoch: number;
  readonly seq: number;
}
type Body = (tx: unknown) => Payload | Promise<Payload>;

export class Transactions {
  readonly #connections: Connections;
  readonly #s: string;
  readonly #now: () => number | null;

  constructor(connections: Connections, s: string, now: () => number | null) {
    this.#connections = connections;
    this.#s = s;
    this.#now = now;
  }

  run(claim: TransactionClaim, body: Body): Promise<InboxMessage | "stale"> {
    return this.#connections.named((name) =>
      this.#connections.session(
        (session) => this.#begin(session, claim),
        async (session, began) => (began === undefined ? "stale" : this.#run(session, { name, claim, began }, body)),
      ),
    );
  }
  /** When it began, by the server's clock. Undefined: the claim is lost, and there is no transaction. */
  async #begin(session: Session, { runId, epoch }: TransactionClaim): Promise<number | undefined> {
    await session.ask("BEGIN ISOLATION LEVEL READ COMMITTED"); // the role may have another by default
    const { rows } = await session.ask<{ began: number }>(
      `SELECT ${BEGAN} AS began FROM ${this.#s}.runs WHERE id = $1 AND epoch = $2 AND worker_id IS NOT NULL`,
      [text(runId), epoch],
    );
    if (rows.length === 0) await rollBack(session);
    return rows[0]?.began;
  }
  async #run(session: Session, step: Step, body: Body): Promise<InboxMessage | "stale"> {
    const watch = new Watch(session.client);
    try {
      const value = await this.#carryOut(session, body, watch);
      const job: InboxJob = { type: "resolve", seq: step.claim.seq, outcome: { status: "completed", value } };
      const id = await this.#finish(session, step, job, watch);
      return id === undefined ? "stale" : { id, job };
    } finally {
      watch.stop();
      if (watch.isSpent) session.drop();
      if (isReadOnly(watch.passing)) this.#connections.leaveAll();
    }
  }
  async #carryOut(session: Session, body: Body, watch: Watch): Promise<Payload> {
    const tx = openTransaction(session.client, watch);
    try {
      return await body(tx.handle);
    } catch (error) {
      tx.end();
      await takeBack(session, watch);
      if (watch.hasCommitted) throw ended(error);
      throw watch.isLost && isLost(error) ? storeError(error, this.#connections.where) : error;
    } finally {
      tx.end();
    }
  }
  /** Undefined: the claim was lost while the function ran, and so is all that it wrote. */
  async #finish(session: Session, { name, claim, began }: Step, job: InboxJob, watch: Watch): Promise<number | undefined> {
    const { instance, slot, token } = name;
    let answer: string | null;
    try {
      if (watch.isChanged) await this.#clear(session);
      const { rows } = await session.ask<{ answer: string | null }>(
        `SELECT CASE WHEN ${BEGAN} = $8 THEN ${this.#s}.finish_transaction_1($1, $2, $3, $4, $5, $6, $7) ELSE '${ENDED}' END AS answer`,
        [...[instance, slot, token, this.#now(), text(claim.runId), claim.epoch], JSON.stringify(messageFields({ job })), began],
      );
      answer = rows[0]?.answer ?? null;
    } catch (error) {
      await takeBack(session, watch);
      throw watch.hasCommitted ? ended(error) : this.#explained(error, watch);
    }
    if (answer === null || answer === ENDED) {
      await takeBack(session, watch);
      if (answer === ENDED) throw ended();
      return undefined;
    }
    watch.stop();
    try {
      await session.ask("COMMIT");
    } catch (error) {
      if (!isLost(error)) throw error; // a constraint that was deferred: rolled back
      answer = await this.#whatBecame(name, error);
    }
    return Number(answer);
  }
  /** In the transaction, so that it is the same session behind a pooler, too; and before its end is written, which is ours to do. */
  async #clear(session: Session): Promise<void> {
    try {
      // What waits for the commit is to find things as the user has left them; if it fails, so would the commit.
      await session.ask("SET CONSTRAINTS ALL IMMEDIATE");
    } catch (error) {
      throw isLost(error) || isFailed(error) ? error : new Users(error);
    }
    await session.ask(CLEAR);
  }
  /**
   * The answer to COMMIT was lost. Waits for the transaction to end, whichever way, and looks; for as long as it takes (D6): another attempt
   * would do the user's writes again.
   */
  async #whatBecame(name: CallToken, cause: unknown): Promise<string> {
    const answer = await this.#connections.fateOf(name, Number.POSITIVE_INFINITY);
    if (answer === null) throw unavailable(cause, this.#connections.where);
    return answer;
  }
  #explained(error: unknown, { passing }: Watch): unknown {
    if (error instanceof Users) return error.cause;
    if (isFailed(error) && passing !== undefined) return storeError(passing, this.#connections.where);
    if (!isFailed(error)) return storeError(error, this.#connections.where);
    return refused(
      "A statement of the transaction failed, and its function went on: PostgreSQL rolls back everything.\nLet the error through, or put the statement between SAVEPOINT and ROLLBACK TO.",
      error,
    );
  }
}

interface Step {
  readonly name: CallToken;
  readonly claim: TransactionClaim;
  readonly began: number;
}

/** The same for the whole of a transaction, and of no other. */
const BEGAN = "(extract(epoch FROM now()) * 1000000)::bigint";
const ENDED = "ended";
/** What a session has beside its named statements. */
const CLEAR =
  "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_advisory_unlock_all()";

/** in_failed_sql_transaction */
function isFailed(error: unknown): boolean {
  return (error as { code?: unknown }).code === "25P02";
}
/** A failure of the user's statements that came up in a statement of the store. */
class Users extends Error {
  constructor(cause: unknown) {
    super("The transaction can't be committed.", { cause });
  }
}

/** A connection on which it fails is not used again. */
async function rollBack(session: Session): Promise<void> {
  await session.ask("ROLLBACK").catch(() => session.drop());
}
/** Settings, tables and LISTEN go with the transaction, locks and statements do not. */
async function takeBack(session: Session, watch: Watch): Promise<void> {
  await rollBack(session);
  if (watch.isChanged) session.drop();
}

/** Listens to what the server says on a connection, since users' statements can hide what they do. */
class Watch {
  /** What was written stays, without the outcome. */
  hasCommitted = false;
  /** The session may not be as it was. */
  isChanged = false;
  /** The connection must not be used again. */
  isSpent = false;
  /** The connection is lost or can't be used: such an error is not the user's. */
  isLost = false;
  /** An error that another attempt may not get, however the user wrapped it. */
  passing: unknown;
  readonly #connection: EventEmitter;
  /** Something may have been written since the last rollback. */
  #hasWritten = false;
  #isOutside = false;

  constructor(client: PoolClient) {
    this.#connection = (client as unknown as { readonly connection: EventEmitter }).connection;
    this.#connection.on("commandComplete", this.#onCommand).on("errorMessage", this.#onError).on("readyForQuery", this.#onReady);
    this.#connection.on("end", this.#onEnd).on("error", this.#onEnd);
  }
  stop(): void {
    this.#connection.off("commandComplete", this.#onCommand).off("errorMessage", this.#onError).off("readyForQuery", this.#onReady);
    this.#connection.off("end", this.#onEnd).off("error", this.#onEnd);
  }
  /** After a hidden ROLLBACK, each statement commits at once. */
  readonly #onReady = ({ status }: { readonly status: string }): void => {
    this.#isOutside = status === "I";
    if (this.#isOutside && this.#hasWritten) this.hasCommitted = true;
  };
  readonly #onCommand = ({ text }: { readonly text: string }): void => {
    this.#hasWritten = text !== "ROLLBACK" && (this.#hasWritten || !text.startsWith("SELECT"));
    if (this.#isOutside && this.#hasWritten) this.hasCommitted = true;
    if (PLAIN.test(text)) return;
    this.isChanged = true;
    if (text === "COMMIT" || text === "PREPARE TRANSACTION") this.hasCommitted = true;
    else if (text === "PREPARE") this.isSpent = true;
  };
  readonly #onEnd = (): void => {
    this.isSpent = this.isLost = true;
  };
  readonly #onError = (error: unknown): void => {
    if (isLost(error)) this.isSpent = this.isLost = true;
    if (isLost(error) || isContended(error)) this.passing = error;
  };
}

/** Statements that leave nothing in a session, as the server calls them. */
const PLAIN =
  /^(?:SELECT|INSERT|UPDATE|DELETE|MERGE|COPY|FETCH|MOVE|SAVEPOINT|RELEASE|ROLLBACK|LOCK TABLE|TRUNCATE TABLE|SET CONSTRAINTS)\b/;
/** Functions that leave something. */
const LEAVES = /set_config|advisory_lock/i;

function refused(message: string, cause?: unknown): StoreError {
  return new StoreError(message, { code: "HF_STORE_TRANSACTION", cause });
}

function ended(cause?: unknown): StoreError {
  return refused(
    "The function of a transaction step ended its transaction with COMMIT or ROLLBACK.\nWhat it committed stays, without a record that the step has completed: check it by hand, and let the store end the transaction.",
    cause,
  );
}

/** The store ends the transaction: otherwise it would be committed or lost without the outcome. SAVEPOINT and ROLLBACK TO are allowed. */
const CONTROL =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:work\s+|transaction\s+)?to\b))\b/i;

function openTransaction(client: PoolClient, watch: Watch): { handle: PostgresTransaction; end: () => void } {
  let isOpen = true;
  const query = (...given: unknown[]): unknown => {
    if (!isOpen) throw refused("The transaction is over.\nUse tx inside the function that was given it, and before it returns.");
    const [first] = given;
    const sql = typeof first === "string" ? first : (first as { text?: unknown } | null)?.text;
    const verb = typeof sql === "string" ? CONTROL.exec(sql)?.[1] : undefined;
    if (verb !== undefined) {
      throw refused(
        `A transaction step may not use ${verb.toUpperCase()}: it runs inside a transaction already.\nThrow to roll everything back, return to keep it.`,
      );
    }
    if (typeof sql === "string" && LEAVES.test(sql)) watch.isChanged = true;
    return (client.query as (...all: unknown[]) => unknown).apply(client, given);
  };
  const handle = new Proxy(client, {
    get(target, key) {
      if (key === "query") return query;
      if (key === "release" || key === "end") {
        return () => {
          throw refused("The store releases the connection when the function has returned.");
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return {
    handle,
    end: () => {
      isOpen = false;
    },
  };
}
