// Job: pool connections as PgBouncer does in transaction mode: each transaction may run on another connection of the server.
// Owns: the sockets of clients, and a few connections to the server.
// Invariants: nothing that belongs to a session outlives a transaction.

import { createServer, type Server, type Socket } from "node:net";
import { Client } from "pg";

const READY = "Z".charCodeAt(0);

/** One connection to the server, taken over once it is open. */
class Upstream {
  readonly #client: Client;
  readonly #socket: Socket;
  #rest: Buffer = Buffer.alloc(0);
  onMessages: ((bytes: Buffer, isIdle: boolean) => void) | undefined;

  private constructor(client: Client) {
    this.#client = client;
    this.#socket = (client as unknown as { connection: { stream: Socket } }).connection.stream;
    this.#socket.removeAllListeners("data");
    this.#socket.on("data", (chunk: Buffer) => this.#read(chunk));
  }
  static async open(url: string): Promise<Upstream> {
    const client = new Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    return new Upstream(client);
  }
  write(bytes: Buffer): void {
    this.#socket.write(bytes);
  }
  /** What a session had is gone. */
  reset(): Promise<void> {
    return new Promise((resolve) => {
      this.onMessages = (_, isIdle) => {
        if (!isIdle) return;
        this.onMessages = undefined;
        resolve();
      };
      this.write(message("Q", Buffer.from("DISCARD ALL\0")));
    });
  }
  close(): void {
    this.#socket.destroy();
    void this.#client;
  }
  #read(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    let end = 0;
    let isIdle = false;
    while (this.#rest.length >= end + 5) {
      const next = end + 1 + this.#rest.readInt32BE(end + 1);
      if (this.#rest.length < next) break;
      isIdle = this.#rest[end] === READY && this.#rest[end + 5] === "I".charCodeAt(0);
      end = next;
    }
    const whole = this.#rest.subarray(0, end);
    this.#rest = this.#rest.subarray(end);
    if (end > 0) this.onMessages?.(whole, isIdle);
  }
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
const parameter = (name: string, value: string): Buffer => message("S", Buffer.from(`${name}\0${value}\0`));
const WELCOME = Buffer.concat([
  message("R", Buffer.from([0, 0, 0, 0])),
  parameter("server_version", "15.0"),
  parameter("client_encoding", "UTF8"),
  parameter("standard_conforming_strings", "on"),
  message("K", Buffer.alloc(8)),
  message("Z", Buffer.from("I")),
]);

export class Bouncer {
  readonly #server: Server;
  readonly #free: Upstream[] = [];
  readonly #all: Upstream[] = [];
  readonly #waiting: ((upstream: Upstream) => void)[] = [];
  readonly #clients = new Set<Socket>();
  /** How many transactions it has passed on. */
  transactions = 0;

  private constructor() {
    this.#server = createServer((socket) => this.#serve(socket));
  }
  static async before(url: string, connections: number): Promise<{ bouncer: Bouncer; url: string }> {
    const bouncer = new Bouncer();
    for (let i = 0; i < connections; i++) bouncer.#all.push(await Upstream.open(url));
    bouncer.#free.push(...bouncer.#all);
    await new Promise<void>((resolve) => bouncer.#server.listen(0, "127.0.0.1", resolve));
    const address = bouncer.#server.address();
    const through = new URL(url);
    through.hostname = "127.0.0.1";
    through.port = String(typeof address === "object" ? address?.port : "");
    return { bouncer, url: through.href };
  }
  async close(): Promise<void> {
    for (const client of this.#clients) client.destroy();
    for (const upstream of this.#all) upstream.close();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(client: Socket): void {
    this.#clients.add(client);
    client.on("error", () => undefined);
    let isWelcome = false;
    let upstream: Upstream | undefined;
    let isLinking = false;
    let pending: Buffer[] = [];
    const link = async (): Promise<void> => {
      isLinking = true;
      const taken = await this.#take();
      isLinking = false;
      this.transactions++;
      upstream = taken;
      taken.onMessages = (bytes, isIdle) => {
        client.write(bytes);
        if (!isIdle) return;
        upstream = undefined;
        void taken.reset().then(() => this.#give(taken));
      };
      for (const bytes of pending.splice(0)) taken.write(bytes);
    };
    client.on("data", (chunk: Buffer) => {
      if (!isWelcome) {
        isWelcome = true;
        client.write(WELCOME);
        return;
      }
      // The client says goodbye: the connection to the server stays.
      if (chunk[0] === "X".charCodeAt(0)) {
        client.end();
        return;
      }
      if (upstream !== undefined) upstream.write(chunk);
      else {
        pending.push(chunk);
        if (!isLinking) void link();
      }
    });
    client.on("close", () => {
      this.#clients.delete(client);
      pending = [];
    });
  }
  /** Any but the one that was given back last, if there is another. */
  #take(): Promise<Upstream> {
    const upstream = this.#free.shift();
    return upstream === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(upstream);
  }
  #give(upstream: Upstream): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(upstream);
    else next(upstream);
  }
}
