// Job: stand between a store and its server: see what is sent, and lose answers.
// Owns: the sockets of both sides.
// Invariants: what is not to be lost passes unchanged, in order.

import { connect, createServer, type Server, type Socket } from "node:net";

/** Reads the messages of a client, one after the other, whatever pieces they come in. */
class Messages {
  #rest: Buffer = Buffer.alloc(0);
  #isStarted = false;

  /** Type and body. The first one has no type. */
  *read(chunk: Buffer): Generator<readonly [type: string, body: Buffer]> {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const head = this.#isStarted ? 1 : 0;
      if (this.#rest.length < head + 4) return;
      const end = head + this.#rest.readInt32BE(head);
      if (this.#rest.length < end) return;
      yield [this.#isStarted ? String.fromCharCode(this.#rest[0] ?? 0) : "", this.#rest.subarray(head + 4, end)];
      this.#isStarted = true;
      this.#rest = this.#rest.subarray(end);
    }
  }
}

export class Wire {
  /** Statements that were sent, and those among them that have a name. */
  readonly statements: string[] = [];
  readonly named: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #lose: string | undefined;
  #lost = 0;

  private constructor(target: URL) {
    this.#server = createServer((client) => this.#join(client, connect(Number(target.port || 5432), target.hostname)));
  }
  /** The url by which the server is reached through the wire. */
  static async to(url: string): Promise<{ wire: Wire; url: string }> {
    const target = new URL(url);
    const wire = new Wire(new URL(url));
    await new Promise<void>((resolve) => wire.#server.listen(0, "127.0.0.1", resolve));
    const address = wire.#server.address();
    target.hostname = "127.0.0.1";
    target.port = String(typeof address === "object" ? address?.port : "");
    return { wire, url: target.href };
  }
  /** The next statement with this text in it is carried out, and its answer is lost with the connection. */
  loseAnswerOf(text: string): void {
    this.#lose = text;
  }
  get lost(): number {
    return this.#lost;
  }
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket, server: Socket): void {
    const messages = new Messages();
    let isDoomed = false;
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    client.on("data", (chunk: Buffer) => {
      for (const [type, body] of messages.read(chunk)) if (this.#see(type, body)) isDoomed = true;
      server.write(chunk);
    });
    server.on("data", (chunk: Buffer) => {
      if (!isDoomed) client.write(chunk);
      else if (!client.destroyed) {
        this.#lost++;
        client.destroy();
      }
    });
    client.on("close", () => server.end());
    server.on("close", () => client.destroy());
  }
  /** True: the answer to this one is to be lost. */
  #see(type: string, body: Buffer): boolean {
    if (type !== "P" && type !== "Q") return false;
    const parts = body.toString("utf8").split("\0");
    const [name, sql] = type === "P" ? [parts[0] ?? "", parts[1] ?? ""] : ["", parts[0] ?? ""];
    this.statements.push(sql);
    if (name !== "") this.named.push(sql);
    if (this.#lose === undefined || !sql.includes(this.#lose)) return false;
    this.#lose = undefined;
    return true;
  }
}
