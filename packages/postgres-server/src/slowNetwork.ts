// A slow network between clients and a server: bytes come late, and none is lost or comes out of order.
// Owns: the sockets of both sides.
// Invariants: what is held back is passed on when its time is over, or at once when the network is well again; what follows on the same
// connection and in the same direction waits behind it.

import { connect, createServer, type Server, type Socket } from "node:net";

/** To the server (what clients ask), or to clients (what it answers). */
export type Direction = "asked" | "answered";

/** What happens to a piece that has come in: its last `bytes` are held back for `ms`. Undefined: nothing. */
export type Fault = (direction: Direction, piece: Buffer) => { readonly bytes: number; readonly ms: number } | undefined;

/** The server has carried out a statement whose last message is incomplete, and commits it only when the rest has come. */
export const LAST_BYTES = 3;

export class SlowNetwork {
  readonly url: string;
  /** How often something was held back. */
  faults = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #held = new Set<() => void>();
  #fault: Fault | undefined;

  private constructor(server: Server, target: URL) {
    const address = server.address();
    const url = new URL(target.href);
    url.hostname = "127.0.0.1";
    url.port = String(typeof address === "object" ? address?.port : "");
    this.url = url.href;
    this.#server = server;
    server.on("connection", (client) => this.#join(client, connect(Number(target.port || 5432), target.hostname)));
  }
  /** In front of the server of this url; `url` leads through it. */
  static async to(url: string): Promise<SlowNetwork> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new SlowNetwork(server, new URL(url));
  }
  /** From now on. */
  set fault(fault: Fault | undefined) {
    this.#fault = fault;
    if (fault === undefined) for (const pass of [...this.#held]) pass();
  }
  async close(): Promise<void> {
    this.fault = undefined;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket, server: Socket): void {
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay();
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    this.#pass("asked", client, server);
    this.#pass("answered", server, client);
  }
  #pass(direction: Direction, from: Socket, to: Socket): void {
    let before: Promise<void> | undefined;
    from.on("data", (piece: Buffer) => {
      const fault = this.#fault?.(direction, piece);
      const write = (bytes: Buffer): void => {
        if (bytes.length > 0 && to.writable) to.write(bytes);
      };
      if (fault === undefined && before === undefined) return write(piece);
      if (fault !== undefined) this.faults++;
      const at = fault === undefined ? piece.length : Math.max(0, piece.length - fault.bytes);
      const isOver = (async () => {
        await before;
        write(piece.subarray(0, at));
        if (fault !== undefined) await this.#heldFor(fault.ms);
        write(piece.subarray(at));
      })();
      before = isOver;
      void isOver.then(() => {
        if (before === isOver) before = undefined;
      });
    });
    // Whatever is held back is the last that the other side hears of it.
    from.on("close", () => void (before ?? Promise.resolve()).then(() => to.destroy()));
  }
  #heldFor(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const pass = (): void => {
        clearTimeout(timer);
        this.#held.delete(pass);
        resolve();
      };
      const timer = setTimeout(pass, ms);
      this.#held.add(pass);
    });
  }
}
