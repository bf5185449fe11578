// One connection that many calls share: each is sent at once, and the server carries them out in that order, without waiting for answers to be read.
// Owns: the connection, from its first use until it is lost, can't be used any more, or was idle for a while.
// Invariants: a statement that fails fails alone; when the connection is lost, all that have no answer yet fail with that.

import { Client, type ClientConfig, type QueryConfig, type QueryResult, type QueryResultRow } from "pg";
import { isLost, isNameLost, NoAnswer } from "./serverErrors.ts";

export interface PipelineOptions {
  readonly config: ClientConfig;
  /** Of a connection that has just been made. */
  readonly onConnect: (client: Client) => void;
  /** Of one that was cut since no answer came: the server does not know that yet. */
  readonly onGivenUp: (client: Client) => void;
  /** A connection whose server works on one statement for this long is closed. Milliseconds. */
  readonly noAnswer: number;
  /** A connection that was idle for this long is closed. Milliseconds. */
  readonly idle: number;
}

/** Beyond its types. */
type Piped = Client & { ref(): void; unref(): void; readonly connection: { readonly parsedStatements: Readonly<Record<string, string>> } };

/** A connection that was made. */
interface Made {
  readonly client: Piped;
  /** How many statements have no answer yet. */
  waiting: number;
  /** Since when the server has worked on the first of them, or has been idle. */
  since: number;
  isGivenUp: boolean;
}

/** How often it is looked at. */
const LOOK_MS = 5_000;
const SOONEST_LOOK_MS = 100;
/** A server that can be reached closes a connection within this time. */
const GOODBYE_MS = 1_000;

export class Pipeline {
  readonly #options: PipelineOptions;
  #made: Made | undefined;
  #connecting: Promise<Made> | undefined;
  #looking: NodeJS.Timeout | undefined;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }
  /** Statements wait for an answer: the next one queues behind them. */
  get isBusy(): boolean {
    return this.#connecting !== undefined || (this.#made?.waiting ?? 0) > 0;
  }
  /** There is a connection, and it can be used. */
  get isMade(): boolean {
    return this.#made !== undefined;
  }
  /** For how long the server has worked on the first statement. Milliseconds. */
  get delay(): number {
    return this.#made === undefined || this.#made.waiting === 0 ? 0 : performance.now() - this.#made.since;
  }
  async query<R extends QueryResultRow>(query: QueryConfig<unknown[]>): Promise<QueryResult<R>> {
    const made = this.#made ?? (await this.#connect());
    const { client } = made;
    if (made.waiting++ === 0) {
      made.since = performance.now();
      client.ref();
    }
    try {
      return await client.query<R>(query);
    } catch (error) {
      throw this.#failed(made, error, query.name);
    } finally {
      made.since = performance.now();
      if (--made.waiting === 0) client.unref(); // an idle connection does not keep the process alive
    }
  }
  /** A connection that can't be used any more is left to the statements that are on it. */
  #failed(made: Made, error: unknown, name: string | undefined): unknown {
    if (made.isGivenUp && isLost(error)) return new NoAnswer(`no answer within ${this.#options.noAnswer / 1_000} s`, { cause: error });
    // Its name was to come with one before it that could not be parsed: nothing is known of the session that was not known before.
    if (this.#made !== made) return isNameLost(error) ? new Error("Connection terminated", { cause: error }) : error;
    const isParsed = name === undefined || made.client.connection.parsedStatements[name] !== undefined;
    if (isLost(error) || !isParsed) void this.#end(made);
    return error;
  }

  #connect(): Promise<Made> {
    this.#connecting ??= this.#connected().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }
  async #connected(): Promise<Made> {
    const client = new Client({ ...this.#options.config, pipeline: true } as ClientConfig) as Piped;
    const made: Made = { client, waiting: 0, since: 0, isGivenUp: false };
    client.on("error", () => {
      this.#lost(made);
      cut(client); // the driver itself may have failed
    });
    client.on("end", () => this.#lost(made));
    await client.connect();
    this.#options.onConnect(client);
    made.since = performance.now();
    this.#made = made;
    this.#looking ??= setInterval(() => this.#look(), Math.min(LOOK_MS, Math.max(SOONEST_LOOK_MS, this.#options.noAnswer))).unref();
    return made;
  }
  #lost(made: Made): void {
    if (this.#made !== made) return;
    this.#made = undefined;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }
  #look(): void {
    if (this.#made === undefined) return;
    const made = this.#made;
    const past = performance.now() - made.since;
    if (made.waiting > 0 && past >= this.#options.noAnswer) {
      made.isGivenUp = true;
      this.#lost(made);
      cut(made.client);
      this.#options.onGivenUp(made.client);
    } else if (made.waiting === 0 && past >= this.#options.idle) void this.#end(made);
  }
  /** Earlier statements are answered, or fail like any other. */
  async #end(made: Made): Promise<void> {
    const { client, waiting } = made;
    this.#lost(made);
    await takeLeave(client, waiting > 0 ? this.#options.noAnswer : GOODBYE_MS);
  }
  /** Statements that were sent are answered; no others are sent. */
  async close(): Promise<void> {
    await this.#connecting?.catch(() => undefined);
    if (this.#made !== undefined) await this.#end(this.#made);
  }
}

/** Ends a connection, whether the server still answers or not. */
export async function takeLeave(client: Client, within: number = GOODBYE_MS): Promise<void> {
  const overdue = setTimeout(() => cut(client), within).unref();
  await client.end().catch(() => undefined);
  clearTimeout(overdue);
}

/** All statements that wait for an answer on it fail. */
export function cut(client: object): void {
  (client as { connection?: { stream?: { destroy(): void } } }).connection?.stream?.destroy();
}

/**
 * Statements that have a name keep the plan that was made for them, perhaps when the tables were small: so rows must be found by index
 * in any case. And they are for READ COMMITTED, whatever the role has by default. D3: a statement stops waiting for a lock soon, so
 * that those behind it are carried out. Only in a session without a pooler: through a pooler, the process id is not that of the session.
 */
export function prepareSession(client: Client): void {
  const { processID } = client as unknown as { readonly processID: number | null };
  const sql = `SELECT set_config('enable_seqscan', 'off', false), set_config('default_transaction_isolation', 'read committed', false),
    set_config('lock_timeout', '1s', false) WHERE pg_backend_pid() = $1`;
  client.query(sql, [processID]).catch(() => undefined); // the next call reports what is wrong
}
