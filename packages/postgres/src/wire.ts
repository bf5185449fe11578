// One connection that many calls share: each goes out at once, and the server carries them out in that order, without waiting for us.
// Owns: the connection, from its first use until it is lost or nobody has used it for a while.
// Invariants: a statement that fails fails alone; when the connection is lost, all that have no answer yet fail with that.

import { Client, type ClientConfig, type QueryConfig, type QueryResultRow } from "pg";

export interface WireOptions {
  readonly config: ClientConfig;
  /** Of a connection that has just been made. */
  readonly onConnect: (client: Client) => void;
  /** Whoever has no answer after this long gives up, and cuts the connection. Milliseconds. */
  readonly noAnswer: number;
  /** One that nobody has used for this long is closed. Milliseconds. */
  readonly idle: number;
}

/** Beyond its types. */
type Piped = Client & { ref(): void; unref(): void };

/** How often it is looked at. */
const LOOK_MS = 5_000;

export class Wire {
  readonly #options: WireOptions;
  #client: Piped | undefined;
  #connecting: Promise<Piped> | undefined;
  /** When those were asked that have no answer yet, in order. */
  #asked: number[] = [];
  #usedAt = 0;
  #looking: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: WireOptions) {
    this.#options = options;
  }
  /** Somebody waits for an answer: who comes now stands behind. */
  get isBusy(): boolean {
    return this.#asked.length > 0;
  }
  async query<R extends QueryResultRow>(query: QueryConfig<unknown[]>): Promise<R[]> {
    const client = this.#client ?? (await this.#connect());
    if (this.#asked.push(performance.now()) === 1) client.ref();
    try {
      return (await client.query<R>(query)).rows;
    } finally {
      if (this.#client === client) this.#answered(client);
    }
  }
  #answered(client: Piped): void {
    this.#asked.shift();
    if (this.#asked.length > 0) return;
    this.#usedAt = performance.now();
    client.unref(); // it keeps no process alive
  }

  #connect(): Promise<Piped> {
    this.#connecting ??= this.#connected().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }
  async #connected(): Promise<Piped> {
    const client = new Client({ ...this.#options.config, pipeline: true } as ClientConfig) as Piped;
    client.on("error", () => this.#lost(client));
    client.on("end", () => this.#lost(client));
    await client.connect();
    if (this.#isClosed) {
      await client.end();
      throw new Error("Connection terminated"); // as one that is closed on the way
    }
    this.#options.onConnect(client);
    this.#client = client;
    this.#asked = [];
    this.#usedAt = performance.now();
    this.#looking ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return client;
  }
  #lost(client: Piped): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#asked = [];
    clearInterval(this.#looking);
    this.#looking = undefined;
  }
  #look(): void {
    const client = this.#client;
    if (client === undefined) return;
    const now = performance.now();
    const [oldest] = this.#asked;
    if (oldest !== undefined && now - oldest >= this.#options.noAnswer) cut(client);
    else if (oldest === undefined && now - this.#usedAt >= this.#options.idle) void this.#end(client);
  }
  async #end(client: Piped): Promise<void> {
    this.#lost(client);
    await client.end().catch(() => undefined);
  }
  /** What was asked before is answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#client !== undefined) await this.#end(this.#client);
  }
}

/** Whoever waits for an answer on it learns that it is gone. */
export function cut(client: object): void {
  (client as { connection?: { stream?: { destroy(): void } } }).connection?.stream?.destroy();
}
