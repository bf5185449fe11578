// Lends connections, one call at a time, and decides what to do when the server has none left.
// Owns: a pool of the driver; which of its connections must not be used again; that the server was full, and the line in the log.
// Invariants: while the server is full, a call gets one of the existing connections as soon as it is free, and does not wait for the server;
// the last connection of a pool that keeps one is never closed for being idle; the others are, and from time to time also one that is in
// use, so that a process without any gets one.

import type { Logger } from "@holdfast/core";
import { Pool, type PoolClient, type PoolConfig } from "pg";
import { cut } from "./pipeline.ts";
import { isFull } from "./serverErrors.ts";

/** A connection that is not in use is closed after this long. */
const IDLE_MS = 10_000;
/** One of several is closed this often, busy or not. */
const ROTATE_MS = 20_000;
/** How long no more connections are asked for once there was none left. */
const FULL_MS = 2_000;
const FULL_AT_MOST_MS = 60_000;
/** As long, once there were hardly any left; longer than the connection for turns stays when it is not used. */
const TIGHT_MS = 40_000;

/** A twentieth is left, beside those that are reserved. Limits of roles and databases are not looked at. */
export const TIGHT: string = `SELECT count(*) FILTER (WHERE backend_type = 'client backend') >= 0.95 * (current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer - coalesce(current_setting('reserved_connections', true), '0')::integer) AS tight
  FROM pg_stat_activity`;

/** What is known of the room that the server has for connections of this process. */
export class ServerCapacity {
  readonly #logger: Logger;
  readonly #connections: number;
  #until = 0;
  #wait = FULL_MS;
  #isSaid = false;

  constructor(logger: Logger, connections: number) {
    this.#logger = logger;
    this.#connections = connections;
  }
  /** It was full a moment ago: no more connections are asked for than are needed. */
  get isFull(): boolean {
    return performance.now() < this.#until;
  }
  /** There are hardly any left: other processes need them more. */
  tight(): void {
    this.#until = Math.max(this.#until, performance.now() + TIGHT_MS);
  }
  /** The server refused a connection. */
  full(error: unknown): void {
    if (this.isFull) return;
    const now = performance.now();
    this.#wait = now - this.#until < FULL_AT_MOST_MS ? Math.min(this.#wait * 2, FULL_AT_MOST_MS) : FULL_MS;
    this.#until = now + this.#wait * (0.5 + Math.random()); // others have met the same limit at the same time
    if (this.#isSaid) return;
    this.#isSaid = true;
    this.#logger.warn(
      `The server has no connection left for this process, which continues with those that it has. Give each process fewer ("?connections=…" in the url, now ${this.#connections}), or raise max_connections of the server.`,
      { error },
    );
  }
}

export interface ConnectionPoolOptions {
  readonly config: PoolConfig;
  readonly most: number;
  /** One is kept, however long it is not used. */
  readonly keepsOne: boolean;
  readonly capacity: ServerCapacity;
}

export class ConnectionPool {
  readonly #pool: Pool;
  readonly #most: number;
  readonly #capacity: ServerCapacity;
  readonly #clients = new Set<PoolClient>();
  /** Connections that are closed after the call that has them. */
  readonly #dropped = new WeakSet<object>();
  readonly #rotating: NodeJS.Timeout;

  constructor({ config, most, keepsOne, capacity }: ConnectionPoolOptions) {
    this.#most = most;
    this.#capacity = capacity;
    this.#pool = new Pool({ ...config, max: most, min: keepsOne ? 1 : 0, idleTimeoutMillis: IDLE_MS, allowExitOnIdle: true });
    // A connection that is lost while it is idle need not be reported; one that is in use fails its query as well.
    this.#pool.on("error", () => undefined);
    this.#pool.on("connect", (client) => {
      client.on("error", () => undefined);
      this.#clients.add(client);
    });
    this.#pool.on("remove", (client) => this.#clients.delete(client));
    this.#rotating = setInterval(() => this.#rotate(), ROTATE_MS).unref();
  }
  /** How many there are, or are being made. */
  get count(): number {
    return this.#pool.totalCount;
  }
  async checkOut(): Promise<PoolClient> {
    for (;;) {
      this.#pool.options.max = this.#capacity.isFull ? Math.max(1, Math.min(this.#most, this.count)) : this.#most;
      let client: PoolClient;
      try {
        client = await this.#pool.connect();
      } catch (error) {
        if (!isFull(error)) throw error;
        this.#capacity.full(error);
        if (this.count === 0) throw error;
        continue; // one of those that there are
      }
      if (!this.#dropped.has(client)) return client;
      this.giveBack(client);
    }
  }
  giveBack(client: PoolClient): void {
    client.release(this.#dropped.has(client));
  }
  /** No other call gets it. */
  drop(client: PoolClient): void {
    this.#dropped.add(client);
  }
  isDropped(client: PoolClient): boolean {
    return this.#dropped.has(client);
  }
  dropAll(): void {
    for (const client of this.#clients) this.#dropped.add(client);
  }
  #rotate(): void {
    const [first, second] = this.#clients;
    if (first !== undefined && second !== undefined) this.#dropped.add(first);
  }
  cutAll(): void {
    for (const client of this.#clients) cut(client);
  }
  end(): Promise<void> {
    clearInterval(this.#rotating);
    return this.#pool.end();
  }
}
