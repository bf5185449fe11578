// A real PostgreSQL to test with: `startServer`.
// Owns: the handle on a server; the databases that were made through it.
// Invariants: what a handle made is gone after its `stop`. HOLDFAST_TEST_POSTGRES_URL names a server to use instead of our own.

import { randomBytes } from "node:crypto";
import { Client, escapeIdentifier, escapeLiteral } from "pg";
import { sharedUrl } from "./broker.ts";
import { Supervised } from "./supervised.ts";

export { type Direction, type Fault, LAST_BYTES, SlowNetwork } from "./slowNetwork.ts";

export interface TestServer {
  /** Of this database, by default the one that every server has. */
  url(database?: string): string;
  /** A new database with nothing in it; the url of it. */
  createDatabase(): Promise<string>;
  /** Ends the server at once, as a crash would: every connection is cut, nothing is flushed. Only for a separate server. */
  kill(): Promise<void>;
  /** Starts it again with its data, killing it first if it runs. Only for a separate server. */
  restart(): Promise<void>;
  /** Drops the databases that were made through this handle, and ends a separate server. */
  stop(): Promise<void>;
}
export interface ServerOptions {
  /** A separate server, which can be killed. By default all files of a test run share one. */
  readonly own?: boolean;
  /** With PostgreSQL's own durability. By default commits outlive the server's process, not the machine. */
  readonly durable?: boolean;
  /** Settings of its own server, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
}

const given = process.env["HOLDFAST_TEST_POSTGRES_URL"];

/** False: tests run on a server that was named from outside, and whatever needs to end a server has to be left out. */
export const canOwnServers: boolean = given === undefined || given === "";

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const own = options.own === true || options.durable === true || options.settings !== undefined;
  if (!canOwnServers && own) throw new Error("HOLDFAST_TEST_POSTGRES_URL names a server that is not ours to start or end.");
  const url = canOwnServers ? (own ? undefined : await sharedUrl()) : given;
  if (url !== undefined) return new Handle(url, undefined);
  const supervised = await Supervised.start({ durable: options.durable === true, settings: { ...options.settings } });
  return new Handle(supervised.url, supervised);
}

/** Runs one statement on a new connection; returns its rows. */
export async function ask<Row extends object = Record<string, unknown>>(url: string, sql: string, values: unknown[] = []): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

/** Connections that empty schemas, by url. Connecting takes ten times as long as deleting the rows of a test. */
const cleaners = new Map<string, Promise<Client>>();

function cleanerOf(url: string): Promise<Client> {
  const found = cleaners.get(url);
  if (found !== undefined) return found;
  const client = new Client({ connectionString: url });
  const forget = (): void => void cleaners.delete(url);
  client.on("error", forget);
  client.on("end", forget);
  const connected = client.connect().then(() => client);
  connected.catch(forget);
  cleaners.set(url, connected);
  return connected;
}
async function endCleaner(url: string): Promise<void> {
  const cleaner = cleaners.get(url);
  cleaners.delete(url);
  await cleaner?.then((client) => client.end()).catch(() => undefined);
}

/**
 * Deletes every row that Holdfast has in a schema, which may not be there; the schema is then as if it had just been made. It takes the
 * server 2 ms; making a schema takes 150, and TRUNCATE, which makes new files for every table and index, 50.
 */
export async function emptySchema(url: string, schema: string): Promise<void> {
  const client = await cleanerOf(url);
  await client.query(
    `DO $$ DECLARE one text; BEGIN
       FOR one IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
         WHERE schemaname = ${escapeLiteral(schema)} AND tablename <> 'migrations'
       LOOP EXECUTE 'DELETE FROM ' || one; END LOOP;
     END $$`,
  );
}

class Handle implements TestServer {
  readonly #url: string;
  readonly #supervised: Supervised | undefined;
  readonly #made: string[] = [];

  constructor(url: string, supervised: Supervised | undefined) {
    this.#url = url;
    this.#supervised = supervised;
  }
  url(database?: string): string {
    const url = new URL(this.#url);
    if (database !== undefined) url.pathname = `/${encodeURIComponent(database)}`;
    return url.href;
  }
  async createDatabase(): Promise<string> {
    const name = `holdfast_test_${randomBytes(8).toString("hex")}`;
    await ask(this.#url, `CREATE DATABASE ${escapeIdentifier(name)}`);
    this.#made.push(name);
    return this.url(name);
  }
  async kill(): Promise<void> {
    await this.#own().kill();
  }
  async restart(): Promise<void> {
    const own = this.#own();
    await own.kill();
    await own.start();
  }
  async stop(): Promise<void> {
    const made = this.#made.splice(0);
    await Promise.all(made.map((name) => endCleaner(this.url(name))));
    if (this.#supervised !== undefined) return this.#supervised.stop();
    for (const name of made) await ask(this.#url, `DROP DATABASE IF EXISTS ${escapeIdentifier(name)} WITH (FORCE)`);
  }
  #own(): Supervised {
    if (this.#supervised === undefined) throw new Error("Others use this server, too: ask for one with startServer({ own: true }).");
    return this.#supervised;
  }
}
