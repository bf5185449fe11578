// Connections to the server, and calls that survive the loss of them.
// Owns: the pools, the pipeline for turns, which connection a call uses, and how long a call waits for its answer.
// Invariants: nothing is left on a connection that a pooler may give to others (no session state; named statements and a setting only on
// connections without a pooler); a call whose answer was lost is asked again under the same token, and carried out once; the fate of a call is
// known before it rejects, so that no part of it is asked for under another token while a copy may still be carried out (D2); no call
// waits forever for an answer, and an abandoned call keeps no lock, no connection and no token that others may need.

import type { Logger } from "@holdfast/core";
import { StoreClosedError } from "holdfast/store";
import { Client, type ClientConfig, type PoolClient, type QueryConfig, type QueryResult, type QueryResultRow, types } from "pg";
import { AbandonedSessions } from "./abandonedSessions.ts";
import { type CallToken, CallTokens } from "./callTokens.ts";
import { Outage } from "./outage.ts";
import { cut, Pipeline, prepareSession } from "./pipeline.ts";
import { ConnectionPool, ServerCapacity, TIGHT } from "./pool.ts";
import { Retries } from "./retries.ts";
import { allInUse, isAnswer, isFull, isLost, isSilence, isUnavailable, NoAnswer } from "./serverErrors.ts";

/** What goes to the server. */
export type Parameter = string | number | boolean | null | undefined;

export interface Statement {
  readonly sql: string;
  readonly values: readonly Parameter[];
}
/** Where a statement goes, and its result comes from. */
type Send = <R extends QueryResultRow>(sql: string, values: readonly Parameter[], name?: string) => Promise<QueryResult<R>>;
/**
 * Asks for a call. `asOne`: as one plain statement, where there is one for it. Such a statement waits for locks as long as its session
 * does; functions have their own limit.
 */
type Ask<T> = (send: Send, asOne: boolean) => Promise<T>;
/** A connection that is reserved for one transaction. */
export interface Session {
  readonly client: PoolClient;
  /** If no answer comes, the connection is abandoned. */
  ask<R extends QueryResultRow>(sql: string, values?: readonly Parameter[]): Promise<QueryResult<R>>;
  /** It must not be used again. */
  drop(): void;
}
export interface CallOptions {
  readonly tellAgain?: boolean;
  readonly areTurns?: boolean;
  readonly oneStatement?: Statement | undefined;
  /** A call of the batch contract: what other transactions have locked is not waited for as long as patience lasts (D3). */
  readonly isBatch?: boolean;
}
export interface QueryOptions {
  readonly patience?: number;
  /** As of calls. */
  readonly isBatch?: boolean;
}

export interface ConnectionsOptions {
  readonly connectionString: string;
  readonly connections: number;
  /** The schema, quoted. */
  readonly s: string;
  readonly where: string;
  readonly logger: Logger;
  /** How long a call is tried again, in milliseconds. */
  readonly patience: number;
  /** An attempt that has no answer after this long is abandoned, with its connection. Milliseconds. */
  readonly noAnswer?: number | undefined;
}

const NO_ANSWER_MS = 30_000;
/** How long a connection may take to be made, and how long a call waits for one of the pool. */
const CONNECT_MS = 10_000;
/** As `NO_ANSWER_MS`, for hints, which may be lost. */
const NO_HINT_MS = 10_000;
/** TCP checks a connection on which nothing came for this long. */
const KEEP_ALIVE_MS = 10_000;
/** The connection for turns is closed when it was not used for this long. */
const IDLE_MS = 30_000;
/** A batch of turns that takes longer may wait for a lock: others don't have to wait with it. */
const LONG_TURNS_MS = 500;

const INT8 = 20;
const typeParsers = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === INT8 ? Number : types.getTypeParser(oid, format as "text")) as typeof types.getTypeParser,
};

export class Connections {
  readonly where: string;
  readonly #fate: string;
  readonly #patience: number;
  readonly #noAnswer: number;
  readonly #config: ClientConfig;
  readonly #capacity: ServerCapacity;
  readonly #calls: ConnectionPool;
  /** Turns are sent one batch after the other, on their own connection: the next is there when the server has finished the one before. */
  readonly #turns: Pipeline;
  /** Transactions of steps wait for users' code: calls must not wait for their connections. */
  readonly #transactions: ConnectionPool;
  readonly #most: number;
  #sessions = 0;
  /** The transactions that wait for one. */
  readonly #queue: (() => void)[] = [];
  readonly #abandoned: AbandonedSessions;
  readonly #callTokens = new CallTokens();
  readonly outage: Outage;
  readonly #retries: Retries;
  isClosed = false;
  wasThere = false;
  #isReadCommitted = true;
  /** There is no pooler: a connection is a session, on which calls are parsed once. False until that is known. */
  areOwn = false;
  readonly #names = new Map<string, string>();

  constructor({ connectionString, connections, s, where, patience, noAnswer = NO_ANSWER_MS, logger }: ConnectionsOptions) {
    this.where = where;
    this.outage = new Outage(where);
    this.#fate = `SELECT ${s}.give_up_call_1($1, $2, $3) AS answer`;
    this.#patience = patience;
    this.#retries = new Retries(this, patience);
    this.#noAnswer = noAnswer;
    this.#most = connections;
    this.#config = {
      connectionString,
      types: typeParsers,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      connectionTimeoutMillis: Math.min(CONNECT_MS, noAnswer),
      application_name: "holdfast",
    };
    this.#capacity = new ServerCapacity(logger, connections);
    const shared = { config: this.#config, capacity: this.#capacity };
    // One of them is the one that turns share.
    this.#calls = new ConnectionPool({ ...shared, most: Math.max(1, connections - 1), keepsOne: true });
    this.#transactions = new ConnectionPool({ ...shared, most: connections, keepsOne: false });
    this.#abandoned = new AbandonedSessions({
      lone: () => this.lone(),
      patiently: (attempt) => this.#retries.run(attempt),
      isClosed: () => this.isClosed,
    });
    const onGivenUp = (client: Client): void => this.#abandoned.add(client);
    this.#turns = new Pipeline({ config: this.#config, onConnect: prepareSession, onGivenUp, noAnswer, idle: IDLE_MS });
  }

  get instance(): string {
    return this.#callTokens.instance;
  }
  /** The server had no connection left, a moment ago. */
  get isFull(): boolean {
    return this.#capacity.isFull;
  }
  full(error: unknown): void {
    this.#capacity.full(error);
  }
  /** Whether the server has hardly any connection left: then this process uses fewer, so that others get one. */
  async isTight(): Promise<boolean> {
    const [row] = await this.query<{ tight: boolean }>(TIGHT, [], { patience: 0 });
    if (row?.tight === true) this.#capacity.tight();
    return row?.tight === true;
  }
  get #noHint(): number {
    return Math.min(this.#noAnswer, NO_HINT_MS);
  }
  /** A connection outside of the pools, for LISTEN. */
  lone(): Client {
    return new Client({ ...this.#config, query_timeout: this.#noHint });
  }
  /** Waits for the answers of all calls, but for calls without an answer and transactions without an end no longer than usual. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    const ends = Promise.all([this.#calls.end(), this.#turns.close(), this.#transactions.end()]);
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#calls.cutAll();
        this.#transactions.cutAll();
        resolve();
      }, this.#noAnswer);
    });
    await Promise.race([ends, overdue]);
    clearTimeout(timer);
  }

  // ── calls ──

  /** A statement that may be carried out twice: a read, or one that changes nothing the second time. */
  query<R extends QueryResultRow>(sql: string, values: readonly Parameter[] = [], how: QueryOptions = {}): Promise<R[]> {
    const { patience = this.#patience, isBatch = false } = how;
    const within = patience > 0 ? this.#noAnswer : this.#noHint;
    return this.#retries.run(async () => (await this.#attempted<R>(sql, values, undefined, within)).rows, { patience, isBatch });
  }
  /**
   * A call of a function whose first three parameters name it; `again` is a fourth one at the end, if it wants to know. `alone`: the
   * same for what is in it, where a session of our own remembers the statement; if it does nothing, the function is called.
   */
  call<R extends QueryResultRow>(
    statementOf: () => Statement,
    { tellAgain = false, areTurns = false, oneStatement, isBatch = false }: CallOptions = {},
  ): Promise<R[]> {
    return this.named(async (call) => {
      const name = [call.instance, call.slot, call.token];
      let again = false;
      /** Copies of the call whose fate is unknown: on their way, being carried out, or lost with their connection. */
      let copies = 0;
      const ask: Ask<R[]> = async (send, asOne) => {
        const followed: Send = async (sql, values, as) => {
          copies++;
          try {
            const result = await send(sql, values, as);
            copies--;
            return result as QueryResult<never>;
          } catch (error) {
            if (isAnswer(error) || isFull(error)) copies--; // it was carried out, or never sent
            throw error;
          }
        };
        if (oneStatement !== undefined && asOne && this.areOwn) {
          const { rowCount } = await followed(oneStatement.sql, [...name, ...oneStatement.values], this.#nameOf(oneStatement.sql));
          if ((rowCount ?? 0) > 0) return [];
        }
        const { sql, values } = statementOf();
        const all = [...name, ...values];
        return (await followed<R>(sql, tellAgain ? [...all, again] : all, this.areOwn ? this.#nameOf(sql) : undefined)).rows;
      };
      const attempt = (): Promise<R[]> => {
        const answer = this.areOwn && (areTurns || oneStatement !== undefined) ? this.#inLine(ask) : ask(this.#attempt, false);
        again = true;
        return answer;
      };
      try {
        return await this.#retries.run(attempt, { isBatch });
      } catch (error) {
        // A caller that learns that nothing was written may repeat parts of it, under other tokens: no copy may be carried out after that. If the
        // server can't be reached, that can't be known, and the error says so; claims are not repeated in parts.
        if (copies === 0 || tellAgain || isUnavailable(error) || this.isClosed) throw error;
        const answer = await this.fateOf(call);
        if (answer === null) throw error;
        return [{ answer }] as unknown as R[];
      }
    });
  }
  /** The answer of a call, once no copy of it is in progress. Null: it was not carried out, and never will be. */
  async fateOf({ instance, slot, token }: CallToken, patience: number = this.#patience): Promise<string | null> {
    const [row] = await this.query<{ answer: string | null }>(this.#fate, [instance, slot, token], { patience });
    return row?.answer ?? null;
  }
  /** One after the other. A batch that waits for long behind one that waits for a lock is sent again on another connection, under its token (D3). */
  async #inLine<T>(ask: Ask<T>): Promise<T> {
    // Where there is one connection for all, or no room for another.
    if (this.#most === 1 || this.#capacity.isFull) return ask(this.#attempt, true);
    if (this.#turns.delay >= LONG_TURNS_MS) return ask(this.#attempt, false);
    let isBehind = false;
    const answer = ask(async <R extends QueryResultRow>(text: string, values: readonly Parameter[], name?: string) => {
      if (this.isClosed) throw new StoreClosedError({ where: this.where });
      isBehind = this.#turns.isBusy;
      try {
        return await this.#turns.query<R>(queryOf(text, values as unknown[], name));
      } catch (error) {
        if (!isFull(error)) throw error;
        this.#capacity.full(error);
        return this.#attempt<R>(text, values, name);
      }
    }, true);
    // The first one does not wait for others; after `close` there is no other connection.
    const left = (): number => LONG_TURNS_MS - (isBehind && !this.isClosed ? this.#turns.delay : 0);
    return orElse(answer, left, () => ask(this.#attempt, false));
  }
  /** Lends a token while the work runs. */
  named<T>(work: (name: CallToken) => Promise<T>): Promise<T> {
    return this.#callTokens.lend(work);
  }

  #nameOf(sql: string): string {
    const name = this.#names.get(sql) ?? `holdfast_${this.#names.size}`;
    this.#names.set(sql, name);
    return name;
  }
  readonly #attempt: Send = (sql, values, name) => this.#attempted(sql, values, name, this.#noAnswer);
  async #attempted<R extends QueryResultRow>(
    sql: string,
    given: readonly Parameter[],
    name: string | undefined,
    within: number,
  ): Promise<QueryResult<R>> {
    const values = given as unknown[];
    // The server is full, and the connection for turns is all that there is.
    if (this.#capacity.isFull && this.#calls.count === 0 && this.#turns.isMade) return this.#turns.query<R>(queryOf(sql, values, name));
    const from = this.#calls;
    const client = await this.#checkOut(from);
    try {
      if (!this.#isReadCommitted) return await this.#readCommitted({ client, from }, () => sent<R>(client, sql, values, name), within);
      return await this.#limited({ client, from }, sent<R>(client, sql, values, name), within);
    } finally {
      from.giveBack(client);
    }
  }
  /** Where the role has another level by default: it can't be set for a session that a pooler may share. */
  async #readCommitted<T>(lent: Lent, query: () => Promise<T>, within: number): Promise<T> {
    const { client, from } = lent;
    await this.#limited(lent, client.query("BEGIN ISOLATION LEVEL READ COMMITTED"), within);
    try {
      const result = await this.#limited(lent, query(), within);
      await this.#limited(lent, client.query("COMMIT"), within);
      return result;
    } catch (error) {
      if (!from.isDropped(client)) await this.#limited(lent, client.query("ROLLBACK"), within).catch(() => from.drop(client));
      throw error;
    }
  }
  async #checkOut(from: ConnectionPool): Promise<PoolClient> {
    if (this.isClosed) throw new StoreClosedError({ where: this.where });
    return from.checkOut();
  }
  /** After a failover: nothing can be written on these connections any more. New ones may reach the new primary. */
  leaveAll(): void {
    this.#calls.dropAll();
    this.#transactions.dropAll();
  }
  /** Settles with the query, or abandons the connection when no answer comes. A lost connection is not used again. */
  async #limited<T>({ client, from }: Lent, query: Promise<T>, within: number): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new NoAnswer(`no answer within ${within / 1_000} s`)), within);
      timer.unref();
    });
    try {
      return await Promise.race([query, overdue]);
    } catch (error) {
      if (isLost(error)) from.drop(client);
      if (isSilence(error)) {
        cut(client);
        this.#abandoned.add(client);
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  // ── transactions ──

  /** Several statements on one connection, which is released whatever happens. `begin` may be repeated, on another connection. */
  async session<B, T>(begin: (session: Session) => Promise<B>, work: (session: Session, begun: B) => Promise<T>): Promise<T> {
    await this.#turn();
    try {
      const { session, begun } = await this.#retries.run(() => this.#begun(this.#transactional, begin));
      try {
        return await work(session, begun);
      } finally {
        session.giveBack();
      }
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#sessions--;
      else next();
    }
  }
  /** Where the server is full and has none for transactions, they share those for calls. */
  get #transactional(): ConnectionPool {
    const { isFull } = this.#capacity;
    return isFull && this.#transactions.count === 0 && this.#calls.count > 0 ? this.#calls : this.#transactions;
  }
  /** One after the other, as they came. */
  async #turn(): Promise<void> {
    if (this.#sessions < this.#most) {
      this.#sessions++;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const next = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#queue.splice(this.#queue.indexOf(next), 1);
        reject(allInUse(this.#most, this.#patience, this.where));
      }, this.#patience);
      this.#queue.push(next);
    });
  }
  /** For the very first connection: a server that can't be reached is reported soon, one that is starting is waited for. */
  async firstSession(work: (session: Session) => Promise<void>, patience: number): Promise<void> {
    const begin = async (session: Session): Promise<void> => {
      const { rows } = await session.ask<{ level: string }>("SELECT current_setting('default_transaction_isolation') AS level");
      this.#isReadCommitted = rows[0]?.level === "read committed";
      await work(session);
    };
    const { session } = await this.#retries.run(() => this.#begun(this.#calls, begin), { patience, most: this.#patience });
    this.wasThere = true;
    session.giveBack();
  }
  async #begun<B>(from: ConnectionPool, begin: (session: Session) => Promise<B>): Promise<{ session: Lending; begun: B }> {
    const client = await this.#checkOut(from);
    const session: Lending = {
      client,
      ask: <R extends QueryResultRow>(sql: string, values: readonly Parameter[] = []) =>
        this.#limited({ client, from }, client.query<R>(sql, values as unknown[]), this.#noAnswer),
      drop: () => from.drop(client),
      giveBack: () => from.giveBack(client),
    };
    try {
      return { session, begun: await begin(session) };
    } catch (error) {
      session.giveBack();
      throw error;
    }
  }
}

interface Lent {
  readonly client: PoolClient;
  readonly from: ConnectionPool;
}
interface Lending extends Session {
  giveBack(): void;
}

function queryOf(text: string, values: unknown[], name: string | undefined): QueryConfig<unknown[]> {
  return name === undefined ? { text, values } : { name, text, values };
}
function sent<R extends QueryResultRow>(
  client: PoolClient,
  text: string,
  values: unknown[],
  name: string | undefined,
): Promise<QueryResult<R>> {
  return name === undefined ? client.query<R>(text, values) : client.query<R>({ name, text, values });
}

/** The answer; or, if there is none after that many milliseconds, the first of the two. */
function orElse<T>(answer: Promise<T>, left: () => number, other: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const look = (): void => {
      const ms = left();
      if (ms > 0) timer = setTimeout(look, ms);
      else other().then(resolve, reject);
    };
    look();
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
