// A step inside the database: the user's writes and the record of their outcome in one transaction.
// Owns: the `tx` that users get, and what it refuses.
// Invariants: D6 (both or neither; a throw takes the user's writes back), D4 (not for a claim that is lost). The row of the run is locked at
// the end only, between the outcome and the commit: messages for the run do not wait for users' code.

import type { Payload } from "@holdfast/core";
import { type InboxJob, type InboxMessage, StoreError } from "holdfast";
import type { PoolClient } from "pg";
import { text } from "./columns.ts";
import type { CallName, Connections, Session } from "./connections.ts";
import { isLost, storeError, unavailable } from "./failures.ts";
import { messageFields } from "./runs.ts";

/** What the function of a transaction step gets: a client of `pg` in an open transaction. Of no use once the function has returned. */
export type PostgresTransaction = Pick<PoolClient, "query">;

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
    const begin = (session: Session): Promise<boolean> => this.#begin(session, claim);
    return this.#connections.named((name) =>
      this.#connections.session(begin, async (session, isHeld) => (isHeld ? this.#run(session, name, claim, body) : "stale")),
    );
  }
  /** False: the claim is lost, and there is no transaction. */
  async #begin(session: Session, { runId, epoch }: TransactionClaim): Promise<boolean> {
    await session.ask("BEGIN");
    const { rows } = await session.ask(`SELECT 1 FROM ${this.#s}.runs WHERE id = $1 AND epoch = $2 AND worker_id IS NOT NULL`, [
      text(runId),
      epoch,
    ]);
    if (rows.length === 0) await rollBack(session);
    return rows.length > 0;
  }
  async #run(session: Session, name: CallName, claim: TransactionClaim, body: Body): Promise<InboxMessage | "stale"> {
    const tx = openTransaction(session.client);
    let value: Payload;
    try {
      value = await body(tx.handle);
    } catch (error) {
      await rollBack(session);
      throw isLost(error) ? storeError(error, this.#connections.where) : error;
    } finally {
      tx.end();
    }
    const job: InboxJob = { type: "resolve", seq: claim.seq, outcome: { status: "completed", value } };
    const id = await this.#finish(session, name, claim, job);
    return id === undefined ? "stale" : { id, job };
  }
  /** Undefined: the claim was lost while the function ran, and so is all that it wrote. */
  async #finish(
    session: Session,
    { instance, slot, token }: CallName,
    claim: TransactionClaim,
    job: InboxJob,
  ): Promise<number | undefined> {
    let answer: string | null;
    try {
      const { rows } = await session.ask<{ answer: string | null }>(
        `SELECT ${this.#s}.finish_transaction_1($1, $2, $3, $4, $5, $6, $7) AS answer`,
        [...[instance, slot, token, this.#now(), text(claim.runId), claim.epoch], JSON.stringify(messageFields({ job }))],
      );
      answer = rows[0]?.answer ?? null;
    } catch (error) {
      await rollBack(session);
      throw this.#explained(error);
    }
    if (answer === null) {
      await rollBack(session);
      return undefined;
    }
    try {
      await session.ask("COMMIT");
    } catch (error) {
      if (!isLost(error)) throw error; // a constraint that was deferred: rolled back
      answer = await this.#whatBecame({ instance, slot, token }, error);
    }
    return Number(answer);
  }
  /** The answer to COMMIT was lost. Waits for the transaction to end, whichever way, and looks. */
  async #whatBecame({ instance, slot, token }: CallName, cause: unknown): Promise<string> {
    const [row] = await this.#connections.query<{ answer: string | null }>(`SELECT ${this.#s}.begin_call_1($1, $2, $3) AS answer`, [
      instance,
      slot,
      token,
    ]);
    const answer = row?.answer ?? null;
    if (answer === null || answer === "{}") throw unavailable(cause, this.#connections.where);
    return answer;
  }
  #explained(error: unknown): unknown {
    if ((error as { code?: unknown }).code !== IN_FAILED_TRANSACTION) return storeError(error, this.#connections.where);
    return refused(
      "A statement of the transaction failed, and its function went on: PostgreSQL takes back everything.\nLet the error through, or put the statement between SAVEPOINT and ROLLBACK TO.",
      error,
    );
  }
}

const IN_FAILED_TRANSACTION = "25P02";

/** A connection on which it fails is of no use to others. */
async function rollBack(session: Session): Promise<void> {
  await session.ask("ROLLBACK").catch(() => session.drop());
}

function refused(message: string, cause?: unknown): StoreError {
  return new StoreError(message, { code: "HF_STORE_TRANSACTION", cause });
}

/** The transaction is the store's: it would be committed or lost without the outcome. SAVEPOINT and ROLLBACK TO are the user's own. */
const CONTROL =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*(begin|start\s+transaction|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:work\s+|transaction\s+)?to\b))\b/i;

function openTransaction(client: PoolClient): { handle: PostgresTransaction; end: () => void } {
  let isOpen = true;
  const query = (...given: unknown[]): unknown => {
    if (!isOpen) throw refused("The transaction is over.\nUse tx inside the function that was given it, and before it returns.");
    const [first] = given;
    const sql = typeof first === "string" ? first : (first as { text?: unknown } | null)?.text;
    const verb = typeof sql === "string" ? CONTROL.exec(sql)?.[1] : undefined;
    if (verb !== undefined) {
      throw refused(
        `A transaction step may not use ${verb.toUpperCase()}: it runs inside a transaction already.\nThrow to take everything back, return to keep it.`,
      );
    }
    return (client.query as (...all: unknown[]) => unknown).apply(client, given);
  };
  const handle = new Proxy(client, {
    get(target, key) {
      if (key === "query") return query;
      if (key === "release" || key === "end") {
        return () => {
          throw refused("The connection is the store's: it takes it back when the function has returned.");
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
