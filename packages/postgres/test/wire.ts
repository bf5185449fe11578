// Job: stand between a store and its server: see what is sent, lose answers, and fall silent.
// Owns: the sockets of both sides.
// Invariants: what is not to be lost passes unchanged, in order. What has fallen silent stays so, and neither side is notified, not even
// that the other one has gone.

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
  readonly #mute = new Set<Socket>();
  #lose: string | undefined;
  #lost = 0;
  #muteAt: string | undefined;
  #passesLast = false;
  #isSilent = false;

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
  /** From now on nothing passes, on connections that there are and on new ones. */
  fallSilent(): void {
    this.#isSilent = true;
    for (const socket of this.#sockets) this.#mute.add(socket);
  }
  /** New connections get through again. */
  recover(): void {
    this.#isSilent = false;
  }
  /** The next statement with this text in it does not arrive, nor anything else on its connection; `answered`: it does, its answer does not. */
  muteAt(text: string, { answered = false }: { answered?: boolean } = {}): void {
    this.#muteAt = text;
    this.#passesLast = answered;
  }
  /** How many connections have fallen silent. */
  get silent(): number {
    return this.#mute.size / 2;
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
      if (this.#isSilent) this.#mute.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    client.on("data", (chunk: Buffer) => {
      if (this.#mute.has(client)) return;
      for (const [type, body] of messages.read(chunk)) {
        if (this.#see(type, body)) isDoomed = true;
        if (this.#isMutedBy(type, body)) for (const socket of [client, server]) this.#mute.add(socket);
      }
      if (!this.#mute.has(client) || this.#passesLast) server.write(chunk);
    });
    server.on("data", (chunk: Buffer) => {
      if (this.#mute.has(server)) return;
      if (!isDoomed) client.write(chunk);
      else if (!client.destroyed) {
        this.#lost++;
        client.destroy();
      }
    });
    client.on("close", () => {
      if (!this.#mute.has(client)) server.end();
    });
    server.on("close", () => {
      if (!this.#mute.has(server)) client.destroy();
    });
  }
  #isMutedBy(type: string, body: Buffer): boolean {
    if (this.#muteAt === undefined || (type !== "P" && type !== "Q") || !body.includes(this.#muteAt)) return false;
    this.#muteAt = undefined;
    return true;
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
